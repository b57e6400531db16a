package fedssp

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

// This file trains on some of the items ([Params.TopItems]), as both papers do on MovieLens 20M.
// The items are chosen by the release counts, whose noise is charged like any other, or by a public
// list: never by exact counts. From the next round on, model and sums cover the chosen items alone,
// with the settings [chosen.inner]. The choice comes with every model. It is post-processing of a
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
// coordinates of a vector whose norm is bounded (fedssp.go). So the same bound holds whichever
// items a server chooses, even if it chooses others in every round.

// SelectionParams selects the items that are trained on.
type SelectionParams struct {
	// TopItems is the number of items with the largest private counts that are trained on; 0: all
	// items are.
	TopItems int
	// Listed holds the items that are trained on, ascending, if a public list names them. TopItems
	// is then their number, and no counts are used.
	Listed []int32
	// ByWeights chooses the items by the weights that come with the biases of all items, and not by
	// counts before them. The other items keep their biases. Only statistics are limited to the
	// chosen items; the rest covers the whole catalogue.
	ByWeights bool
}

// chosen holds the items that are trained on, and the others.
type chosen struct {
	items  []int32 // ascending
	others []int32 // the rest of the catalogue, ascending
	// for each item of the catalogue: its place among items, or ^ its place among the others
	place []int32
	inner *Params               // the settings over items alone
	rest  *dataset.ItemFeatures // of the others; nil: none
	late  bool                  // chosen by weights: items keep their numbers in the catalogue
}

// trained counts the items that are trained on.
func (p *Params) trained() int {
	if p.TopItems > 0 {
		return p.TopItems
	}
	return p.Items
}

// chooses reports whether private counts or weights choose the items that are trained on.
func (p *Params) chooses() bool { return p.TopItems > 0 && p.Listed == nil }

// checkTop checks the settings that choose items.
func (p *Params) checkTop(e *problems) {
	if p.ByWeights && p.problemOfWeights() != "" {
		e.add("items are to be chosen by weights: %s", p.problemOfWeights())
	}
	if p.TopItems == 0 && p.Listed == nil {
		return
	}
	if p.TopItems < 1 || p.TopItems >= p.Items {
		e.add("top-items are %d of %d items; there must be from 1 to %d, or 0 to train on all", p.TopItems, p.Items, p.Items-1)
		return
	}
	if !p.takesSome() {
		e.add("top-items are %d, and gradients, posteriors and weights of popularity are of all items; there must be 0", p.TopItems)
	}
	if p.Listed != nil {
		if err := p.checkChoice(p.Listed); err != nil {
			e.add("%w", err)
		}
	}
}

// problemOfWeights says why weights cannot choose the items; "" if they can.
func (p *Params) problemOfWeights() string {
	switch {
	case !p.chooses():
		return "top-items must say how many, and no list which"
	case !p.Bias || p.Rounds == 0:
		return "there must be a bias stage, which releases them, and rounds after it"
	case p.BiasRounds > 1:
		return "bias-rounds must be 1"
	case p.withCounts():
		return "counts are released for weights or samples; choose by them"
	default:
		return ""
	}
}

// takesSome reports whether the solver can train on some of the items.
func (p *Params) takesSome() bool {
	return !p.Solver.exact() && p.Popularity == 0
}

// checkChoice checks a list of items to train on.
func (p *Params) checkChoice(items []int32) error {
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

// over chooses items.
func (p *Params) over(items []int32) (*chosen, error) {
	if err := p.checkChoice(items); err != nil {
		return nil, fmt.Errorf("fedssp: %w", err)
	}
	c := &chosen{late: p.ByWeights, items: items, place: make([]int32, p.Items), others: make([]int32, 0, p.Items-len(items))}
	for j := range p.Items {
		if n := len(c.others); j-n < len(items) && int(items[j-n]) == j {
			c.place[j] = int32(j - n)
			continue
		}
		c.place[j] = ^int32(len(c.others))
		c.others = append(c.others, int32(j))
	}
	inner := *p
	inner.Items, inner.TopItems, inner.Listed, inner.ByWeights, inner.choices = len(items), 0, nil, false, nil
	inner.UserFeatures = p.UserFeatures.pick(items)
	if p.Features != nil {
		inner.Features, c.rest = p.Features.Pick(items), p.Features.Pick(c.others)
	}
	c.inner = &inner
	return c, nil
}

// of returns a user's ratings of items that are trained on, with item numbers among those items,
// and the places of these ratings among all.
func (c *chosen) of(r model.Ratings) (model.Ratings, []int) {
	var out model.Ratings
	var from []int
	for k, j := range r.Items {
		if at := c.place[j]; at >= 0 {
			out.Items, out.Values, from = append(out.Items, at), append(out.Values, r.Values[k]), append(from, k)
		}
	}
	return out, from
}

// pick returns the numbers of the chosen items.
func (c *chosen) pick(x []float64) []float64 { return picked(x, c.items) }

func picked(x []float64, items []int32) []float64 {
	out := make([]float64, len(items))
	for i, j := range items {
		out[i] = x[j]
	}
	return out
}

// most returns the n items with the largest counts, ascending. Among equal counts the lower item
// comes first.
func most(counts []float64, n int) []int32 {
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

func (c *chosen) append(b []byte) []byte {
	if c.inner.Single {
		bits := make([]byte, (len(c.place)+7)/8)
		for _, j := range c.items {
			bits[j/8] |= 1 << (j % 8)
		}
		return append(b, bits...)
	}
	for _, j := range c.items {
		b = binary.LittleEndian.AppendUint32(b, uint32(j))
	}
	return b
}

// choices caches the last choice that was read. Its consequences are the same for all users and
// rounds.
type choices struct {
	mu   sync.Mutex
	read []byte
	is   *chosen
}

// chosenBy decodes a choice.
func (p *Params) chosenBy(b []byte) (*chosen, error) {
	if p.choices != nil {
		p.choices.mu.Lock()
		defer p.choices.mu.Unlock()
		if p.choices.is != nil && bytes.Equal(p.choices.read, b) {
			return p.choices.is, nil
		}
	}
	c, err := p.over(p.choice(b))
	if err == nil && p.choices != nil {
		p.choices.read, p.choices.is = slices.Clone(b), c
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

// adopt makes the strategy train on the chosen items, from their start on.
func (s *Strategy) adopt(items []int32) error {
	c, err := s.all.over(items)
	if err != nil {
		return err
	}
	s.turnTo(c)
	return s.begin()
}

// narrow limits statistics to the items with the largest weights, once biases of all items are
// known: see [Params.ByWeights].
func (s *Strategy) narrow() error {
	mean, biases := s.model.Mean, s.model.Bias
	if err := s.adopt(most(s.weight, s.all.TopItems)); err != nil {
		return err
	}
	c := s.chosen
	s.weight = c.pick(s.weight)
	s.model.Mean, s.model.Bias, s.model.restBias = mean, c.pick(biases), picked(biases, c.others)
	return nil
}

// turnTo replaces the settings by the chosen items' settings.
func (s *Strategy) turnTo(c *chosen) { s.chosen, s.params.Params = c, *c.inner }

// speaks reports whether features predict embeddings, and whether they predict biases, of items
// that are not trained on.
func (p *Params) speaks() (items, biases bool) {
	if p.TopItems == 0 {
		return false, false
	}
	items = p.Features != nil && p.Rounds > 0 && p.Solver.speaks(p)
	return items, p.Bias && (p.learned() || p.ByWeights)
}

// item returns the embedding and bias of an item of the catalogue. The embedding is nil if there is
// none.
func (m *Model) item(j, d int) (row []float64, bias float64) {
	if m.unchosen {
		return nil, 0
	}
	at, rows, biases := j, m.Items, m.Bias
	if m.chosen != nil {
		if at = int(m.chosen.place[j]); at < 0 {
			at, rows, biases = ^at, m.rest, m.restBias // a choice by weights has biases of all items
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

// nothing reports whether an embedding says nothing about its item: it is empty, or all its numbers
// are zero because its features were never trained on.
func nothing(row []float64) bool {
	return !slices.ContainsFunc(row, func(x float64) bool { return x != 0 })
}

// biasesOf returns the biases of the whole catalogue.
func (m *Model) biasesOf(items int) []float64 {
	out := make([]float64, items)
	for j := range out {
		_, out[j] = m.item(j, 0)
	}
	return out
}
