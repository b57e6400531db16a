package kernel

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"sync"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/model"
)

// Choice holds the items that are trained on, and the others.
type Choice struct {
	Items  []int32 // ascending
	Others []int32 // the rest of the catalogue, ascending
	// for each item of the catalogue: its place among items, or ^ its place among the others
	Place []int32
	Inner *Params               // the settings over items alone
	Rest  *dataset.ItemFeatures // of the others; nil: none
	Late  bool                  // chosen by weights: items keep their numbers in the catalogue
}

// CheckChoice checks a list of items to train on.
func (p *Params) CheckChoice(items []int32) error {
	if len(items) != p.TopItems {
		return fmt.Errorf("%d items are chosen; %d are trained on", len(items), p.TopItems)
	}
	for i, j := range items {
		if j < 0 || int(j) >= p.Items || i > 0 && items[i-1] >= j {
			return fmt.Errorf("the items chosen do not ascend, or one is not below %d", p.Items)
		}
	}
	return nil
}

// Over chooses items.
func (p *Params) Over(items []int32) (*Choice, error) {
	if err := p.CheckChoice(items); err != nil {
		return nil, fmt.Errorf("fedssp: %w", err)
	}
	c := &Choice{Late: p.ByWeights, Items: items, Place: make([]int32, p.Items), Others: make([]int32, 0, p.Items-len(items))}
	for j := range p.Items {
		if n := len(c.Others); j-n < len(items) && int(items[j-n]) == j {
			c.Place[j] = int32(j - n)
			continue
		}
		c.Place[j] = ^int32(len(c.Others))
		c.Others = append(c.Others, int32(j))
	}
	inner := *p
	inner.Items, inner.TopItems, inner.Listed, inner.ByWeights, inner.Cache = len(items), 0, nil, false, nil
	inner.UserFeatures = p.UserFeatures.Pick(items)
	if p.Features != nil {
		inner.Features, c.Rest = p.Features.Pick(items), p.Features.Pick(c.Others)
	}
	c.Inner = &inner
	return c, nil
}

// Of returns a user's ratings of items that are trained on, with item numbers among those items,
// and the places of these ratings among all.
func (c *Choice) Of(r model.Ratings) (model.Ratings, []int) {
	var out model.Ratings
	var from []int
	for k, j := range r.Items {
		if at := c.Place[j]; at >= 0 {
			out.Items, out.Values, from = append(out.Items, at), append(out.Values, r.Values[k]), append(from, k)
		}
	}
	return out, from
}

// Pick returns the numbers of the chosen items.
func (c *Choice) Pick(x []float64) []float64 { return Picked(x, c.Items) }

// Picked returns the numbers of x at the given items, in their order.
func Picked(x []float64, items []int32) []float64 {
	out := make([]float64, len(items))
	for i, j := range items {
		out[i] = x[j]
	}
	return out
}

// MostRated returns the n items with the largest counts, ascending. Among equal counts the lower item
// comes first.
func MostRated(counts []float64, n int) []int32 {
	order := make([]int32, len(counts))
	for j := range order {
		order[j] = int32(j)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	order = slices.Clone(order[:n])
	slices.Sort(order)
	return order
}

// choiceBytes is the size of an item in a broadcast choice: 32 bits, little-endian. In single
// precision a choice has a bit for each item of the catalogue, the first item in the lowest bit of
// a byte.
const choiceBytes = 4

// choiceSize is the length in bytes of a broadcast choice.
func (p *Params) choiceSize() int {
	if p.Single {
		return (p.Items + 7) / 8
	}
	return choiceBytes * p.TopItems
}

func (c *Choice) append(b []byte) []byte {
	if c.Inner.Single {
		bits := make([]byte, (len(c.Place)+7)/8)
		for _, j := range c.Items {
			bits[j/8] |= 1 << (j % 8)
		}
		return append(b, bits...)
	}
	for _, j := range c.Items {
		b = binary.LittleEndian.AppendUint32(b, uint32(j))
	}
	return b
}

// ChoiceCache caches the last choice that was read. Its consequences are the same for all users and
// rounds.
type ChoiceCache struct {
	mu   sync.Mutex
	read []byte
	is   *Choice
}

// chosenBy decodes a choice.
func (p *Params) chosenBy(b []byte) (*Choice, error) {
	if p.Cache != nil {
		p.Cache.mu.Lock()
		defer p.Cache.mu.Unlock()
		if p.Cache.is != nil && bytes.Equal(p.Cache.read, b) {
			return p.Cache.is, nil
		}
	}
	c, err := p.Over(p.choice(b))
	if err == nil && p.Cache != nil {
		p.Cache.read, p.Cache.is = slices.Clone(b), c
	}
	return c, err
}

// choice returns the items of a broadcast choice, unchecked.
func (p *Params) choice(b []byte) []int32 {
	if p.Single {
		items := make([]int32, 0, p.TopItems)
		for i, x := range b {
			for ; x != 0; x &= x - 1 {
				items = append(items, int32(8*i+bits.TrailingZeros8(x)))
			}
		}
		return items
	}
	items := make([]int32, len(b)/choiceBytes)
	for i := range items {
		items[i] = int32(binary.LittleEndian.Uint32(b[choiceBytes*i:]))
	}
	return items
}

// item returns the embedding and bias of an item of the catalogue. The embedding is nil if there is
// none.
func (m *Model) item(j, d int) (row []float64, bias float64) {
	if m.Unchosen {
		return nil, 0
	}
	at, rows, biases := j, m.Items, m.Bias
	if m.Chosen != nil {
		if at = int(m.Chosen.Place[j]); at < 0 {
			at, rows, biases = ^at, m.Rest, m.RestBias // a choice by weights has biases of all items
		}
	}
	if biases != nil {
		bias = biases[at]
	}
	if rows == nil {
		return nil, bias
	}
	return rows[at*d : (at+1)*d], bias
}

// Nothing reports whether an embedding says nothing about its item: it is empty, or all its numbers
// are zero because its features were never trained on.
func Nothing(row []float64) bool {
	return !slices.ContainsFunc(row, func(x float64) bool { return x != 0 })
}

// BiasesOf returns the biases of the whole catalogue.
func (m *Model) BiasesOf(items int) []float64 {
	out := make([]float64, items)
	for j := range out {
		_, out[j] = m.item(j, 0)
	}
	return out
}
