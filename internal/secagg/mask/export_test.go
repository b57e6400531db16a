package mask

// Add adds the mask to dst. The error is ErrShape unless dst has the width and the
// length that the mask was derived for.
func (s *Stream) Add(dst *Vector) error {
	return AddAll(dst, []Term{{Stream: s}})
}

// Sub subtracts the mask from dst. It returns the errors of Add.
func (s *Stream) Sub(dst *Vector) error {
	return AddAll(dst, []Term{{Stream: s, Sub: true}})
}
