package encoder

import (
	"fmt"
	"math"

	"github.com/fedsim/fedsim/dataset"
)

// sparse is a matrix row by row: the entries of row i stand from start[i] to start[i+1].
type sparse struct {
	start  []int32
	index  []int32
	weight []float64
}

// bag is one category as a matrix of items x values, and its transpose. The weights of an item add
// up to 1, or the item has none.
type bag struct {
	byItem, byValue sparse
	first           int // where its embeddings begin in θ
	column          int // where its part of the hidden layer begins
}

func (b *bag) values() int { return len(b.byValue.start) - 1 }

// newBag checks a category of items and normalises its weights to averages.
func newBag(c *dataset.Category, items int) (bag, error) {
	bad := func(format string, args ...any) (bag, error) {
		return bag{}, fmt.Errorf("encoder: category %q: "+format, append([]any{c.Name}, args...)...)
	}
	switch {
	case len(c.Start) != items+1:
		return bad("%d starts; %d items need one each and an end", len(c.Start), items)
	case c.Start[0] != 0 || int(c.Start[items]) != len(c.Value) || len(c.Weight) != len(c.Value):
		return bad("items begin at %d and end at %d, of %d values and %d weights; they must begin at 0 and end at the last of both",
			c.Start[0], c.Start[items], len(c.Value), len(c.Weight))
	}
	for j := range items {
		// The ends are right, so rising starts are within bounds.
		if c.Start[j] > c.Start[j+1] {
			return bad("item %d begins at %d and ends at %d; starts must not fall", j, c.Start[j], c.Start[j+1])
		}
	}
	b := bag{byItem: sparse{start: c.Start, index: c.Value, weight: make([]float64, len(c.Weight))}}
	for j := range items {
		sum := 0.0
		for p := c.Start[j]; p < c.Start[j+1]; p++ {
			if f := c.Value[p]; f < 0 || int(f) >= len(c.Values) {
				return bad("item %d has value %d; values are from 0 to %d", j, f, len(c.Values)-1)
			}
			if !positive(c.Weight[p]) {
				return bad("item %d has a value of weight %v; weights are above 0", j, c.Weight[p])
			}
			sum += c.Weight[p]
		}
		for p := c.Start[j]; p < c.Start[j+1]; p++ {
			b.byItem.weight[p] = c.Weight[p] / sum
		}
		if c.Start[j] < c.Start[j+1] && !positive(sum) {
			return bad("the weights of item %d add up to %v; give smaller ones", j, sum)
		}
	}
	b.byValue = b.byItem.transpose(len(c.Values))
	return b, nil
}

// idBag is the category in which each item is a value of its own.
func idBag(items int) bag {
	s := sparse{start: make([]int32, items+1), index: make([]int32, items), weight: make([]float64, items)}
	for j := range items {
		s.start[j+1], s.index[j], s.weight[j] = int32(j+1), int32(j), 1
	}
	return bag{byItem: s, byValue: s}
}

// transpose returns the matrix, with the given number of columns, column by column. The entries of
// a column stand in the order of their rows.
func (s sparse) transpose(columns int) sparse {
	t := sparse{start: make([]int32, columns+1), index: make([]int32, len(s.index)), weight: make([]float64, len(s.index))}
	for _, f := range s.index {
		t.start[f+1]++
	}
	for f := range columns {
		t.start[f+1] += t.start[f]
	}
	next := append([]int32(nil), t.start...)
	for j := range len(s.start) - 1 {
		for p := s.start[j]; p < s.start[j+1]; p++ {
			at := next[s.index[p]]
			next[s.index[p]]++
			t.index[at], t.weight[at] = int32(j), s.weight[p]
		}
	}
	return t
}

func positive(x float64) bool { return x > 0 && !math.IsInf(x, 1) }
