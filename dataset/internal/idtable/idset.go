package idtable

// Set is a set of ids that are small integers.
type Set []uint64

func (s Set) Has(id int32) bool {
	w := int(uint32(id) / 64)
	return w < len(s) && s[w]>>(uint32(id)%64)&1 != 0
}

func (s *Set) Add(id int32) {
	w := int(uint32(id) / 64)
	if w >= len(*s) {
		*s = append(*s, make(Set, w+1-len(*s))...)
	}
	(*s)[w] |= 1 << (uint32(id) % 64)
}

// Remove takes out an id of the set.
func (s Set) Remove(id int32) { s[uint32(id)/64] &^= 1 << (uint32(id) % 64) }

// Join adds the ids of another set.
func (s *Set) Join(other Set) {
	if len(other) > len(*s) {
		*s = append(*s, make(Set, len(other)-len(*s))...)
	}
	for w, ids := range other {
		(*s)[w] |= ids
	}
}
