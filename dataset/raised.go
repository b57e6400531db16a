package dataset

// Raised is the set on a scale that starts at 0, if the scale of the set starts below: what algorithms bound ratings by is then the top of
// the scale. Shift says how much was added; less it, a prediction is on the scale of the data. The digest remains.
func (s *Set) Raised() *Set {
	if s.Min >= 0 {
		return s
	}
	set := *s.Unpacked()
	set.Shift = -s.Min
	set.Min, set.Max = 0, s.Max+set.Shift
	set.Value = make([]float32, s.Len())
	for k, v := range s.Unpacked().Value {
		set.Value[k] = float32(float64(v) + set.Shift)
	}
	return &set
}
