package dataset

// Packed holds ratings in the packed form (dataset/pack/packed.md), in two to three bytes a rating. Package pack makes it. It is read-only
// and safe for concurrent use.
type Packed interface {
	// Len returns the number of ratings.
	Len() int
	// Size returns how many bytes the ratings take, in memory or of a file that is mapped.
	Size() int
	// Row returns the items that a user rated, ascending, and the ratings, in the memory of what it is given as far as that is enough.
	Row(user int, items []int32, values []float32) ([]int32, []float32)
	// Divide calls part with every rating, by user, then item, and returns a view of the ratings of each part. Parts are 0, 1 and 2.
	// The views share one bit a rating, and a second if there are ratings of part 1 and of part 2.
	Divide(part func(user int, item int32) byte) [3]Packed
}

// Unpack returns the ratings in columns: themselves, where they are not packed.
func (r Ratings) Unpack() Ratings {
	if r.Packed == nil {
		return r
	}
	out := NewRatings(r.Users, r.Items, r.Len())
	k := 0
	r.Each(func(user, item int32, value float32) {
		out.User[k], out.Item[k], out.Value[k] = user, item, value
		k++
	})
	return out
}

// Each calls hear with every rating, in the order of the columns; of packed ones by user, then item.
func (r Ratings) Each(hear func(user, item int32, value float32)) {
	if r.Packed == nil {
		for k, v := range r.Value {
			hear(r.User[k], r.Item[k], v)
		}
		return
	}
	var items []int32
	var values []float32
	for u := range r.Users {
		items, values = r.Packed.Row(u, items, values)
		for k, j := range items {
			hear(int32(u), j, values[k])
		}
	}
}

// Unpacked returns the set with its ratings in columns.
func (s *Set) Unpacked() *Set {
	if s.Packed == nil {
		return s
	}
	out := *s
	out.Ratings = s.Unpack()
	return &out
}
