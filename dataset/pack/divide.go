package pack

import "github.com/fedsim/fedsim/dataset"

// division holds the part of every rating of a file: 0, 1 or 2.
type division struct {
	first  []int       // the number of ratings before each user
	digits [2][]uint64 // a bit of each rating and a word more: the low and the high binary digit of its part; nil: all are 0
}

// bits returns a bit for each of 64 ratings, the first one lowest, which says whether the rating belongs to the part.
func (d *division) bits(rating int, part byte) uint64 {
	keep := ^uint64(0)
	for i, digit := range d.digits {
		var word uint64
		if digit != nil {
			at, by := rating>>6, uint(rating&63)
			word = digit[at]>>by | digit[at+1]<<(64-by)
		}
		keep &= word ^ (uint64(part>>i&1) - 1) // of a part with the digit 0: the other bits
	}
	return keep
}

// take moves the ratings of a part to the front and returns their number. The first one is so many ratings behind the file's first.
func (d *division) take(first int, part byte, items []int32, values []float32) int {
	kept := 0
	values = values[:len(items)]
	for from := 0; from < len(items); from += 64 {
		keep := d.bits(first+from, part)
		for k := from; k < min(from+64, len(items)); k++ {
			items[kept], values[kept] = items[k], values[k]
			kept += int(keep & 1)
			keep >>= 1
		}
	}
	return kept
}

// Divide keeps no digit that is 0 for every rating.
func (v *view) Divide(part func(user int, item int32) byte) [3]dataset.Packed {
	f := v.file
	d := &division{first: make([]int, f.Users)}
	var counts [3]int
	rating := 0
	var items []int32
	var values []float32
	for u := range f.Users {
		items, values = v.Row(u, items, values)
		d.first[u] = rating
		for _, j := range items {
			p := part(u, j)
			counts[p]++
			for i := range d.digits {
				if p>>i&1 == 0 {
					continue
				}
				if d.digits[i] == nil {
					d.digits[i] = make([]uint64, v.count/64+2)
				}
				d.digits[i][rating>>6] |= 1 << (rating & 63)
			}
			rating++
		}
	}
	var views [3]dataset.Packed
	for p, n := range counts {
		views[p] = &view{file: f, of: d, part: byte(p), count: n}
	}
	return views
}
