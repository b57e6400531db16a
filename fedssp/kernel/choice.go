package kernel

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"github.com/fedsim/fedsim/model"
)

// This file trains on some of the items ([Params.TopItems]), as both papers do on MovieLens 20M.
// The items are chosen by the release counts, whose noise is charged like any other, or by a public
// list: never by exact counts. From the next round on, model and sums cover the chosen items alone,
// with the settings [Choice.Inner]. The choice comes with every model. It is post-processing of a
// noisy release, and costs nothing.
//
// A client leaves out its ratings of other items before all else. Weights are normalised last, over
// the remaining ratings, so that Σ w_j² <= 1 whichever items a server chooses. Another choice in
// every round moves weight only between a user's own ratings.
//
// The other items get the embedding and bias that their public features predict, if there are
// features.
//
// With [Params.ByWeights] the choice comes later and matters less. Biases and weight-counts are
// released for all items, and the items with the largest weights get statistics. No count is
// released for the choice. Weights are dealt to all of a user's ratings, once. Every user is fitted
// to all its ratings; an item that was not chosen has its bias and no embedding.
//
// A user's addition to statistics keeps only the rows of the chosen items. They are part of the
// coordinates of a vector whose norm is bounded (package fedssp). So the same bound holds whichever
// items a server chooses, even if it chooses others in every round.

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
