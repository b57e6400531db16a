package fedssp

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/model"
)

// Training on some of the items ([Params.TopItems]), as both papers do on MovieLens 20M. Which they are follows from the
// release counts, whose noise is charged like any other, or from a public list: never from exact counts. From the
// round after it, model and sums are over the items chosen alone, as if there were no others: [chosen.inner] are the settings of
// that. The choice goes with every model. It is post-processing of a noisy release, and costs nothing.
//
// A client leaves out its ratings of other items, after which all is as before: weights are
// normalised last, over what is left, so that Σ w_j² <= 1 whichever items a server chooses, and another choice in every round
// moves weight between a user's own ratings only.
//
// Of the others an embedding and a bias are what their public features make of what was learned, where there are any.

// chosen are the items that are trained on.
type chosen struct {
	items  []int32               // ascending
	others []int32               // all the rest of the catalogue, ascending
	place  []int32               // of each item of the catalogue: its place among items, or ^ that among the others
	inner  *Params               // the settings over items alone
	rest   *dataset.ItemFeatures // of the others; nil: none
}

// trained is how many items are trained on.
func (p *Params) trained() int {
	if p.TopItems > 0 {
		return p.TopItems
	}
	return p.Items
}

// chooses reports whether private counts say which items are trained on.
func (p *Params) chooses() bool { return p.TopItems > 0 && p.Listed == nil }

// checkTop checks which items are to be trained on.
func (p *Params) checkTop(e *problems) {
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

// takesSome reports whether some of the items may be trained on without the others.
func (p *Params) takesSome() bool {
	return !p.descends() && p.Solver != Variational && p.Popularity == 0
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
	c := &chosen{items: items, place: make([]int32, p.Items), others: make([]int32, 0, p.Items-len(items))}
	for j := range p.Items {
		if n := len(c.others); j-n < len(items) && int(items[j-n]) == j {
			c.place[j] = int32(j - n)
			continue
		}
		c.place[j] = ^int32(len(c.others))
		c.others = append(c.others, int32(j))
	}
	inner := *p
	inner.Items, inner.TopItems, inner.Listed, inner.choices = len(items), 0, nil, nil
	inner.UserFeatures = p.UserFeatures.pick(items)
	if p.Features != nil {
		inner.Features, c.rest = p.Features.Pick(items), p.Features.Pick(c.others)
	}
	c.inner = &inner
	return c, nil
}

// of are a user's ratings of items that are trained on, by their places among them, and which of the ratings these are.
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

// pick are the numbers of the items chosen.
func (c *chosen) pick(x []float64) []float64 {
	out := make([]float64, len(c.items))
	for i, j := range c.items {
		out[i] = x[j]
	}
	return out
}

// most are the n items with the largest counts, ascending; among equals the lower comes first.
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

// A choice as it is broadcast: the items, 32 bits each, little-endian.
const choiceBytes = 4

func (c *chosen) append(b []byte) []byte {
	for _, j := range c.items {
		b = binary.LittleEndian.AppendUint32(b, uint32(j))
	}
	return b
}

// choices keeps the last choice that was read: what follows from it is the same for all users and rounds.
type choices struct {
	mu   sync.Mutex
	read []byte
	is   *chosen
}

// chosenBy reads a choice.
func (p *Params) chosenBy(b []byte) (*chosen, error) {
	if p.choices != nil {
		p.choices.mu.Lock()
		defer p.choices.mu.Unlock()
		if p.choices.is != nil && bytes.Equal(p.choices.read, b) {
			return p.choices.is, nil
		}
	}
	items := make([]int32, len(b)/choiceBytes)
	for i := range items {
		items[i] = int32(binary.LittleEndian.Uint32(b[choiceBytes*i:]))
	}
	c, err := p.over(items)
	if err == nil && p.choices != nil {
		p.choices.read, p.choices.is = slices.Clone(b), c
	}
	return c, err
}

// adopt has the strategy train on the items chosen, from their start on.
func (s *Strategy) adopt(items []int32) error {
	c, err := s.all.over(items)
	if err != nil {
		return err
	}
	s.turnTo(c)
	return s.begin()
}

// turnTo sets the settings to those of the items chosen.
func (s *Strategy) turnTo(c *chosen) { s.chosen, s.params.Params = c, *c.inner }

// speaks reports whether features say anything of items that are not trained on, and of their biases.
func (p *Params) speaks() (items, biases bool) {
	if p.TopItems == 0 {
		return false, false
	}
	items = p.Features != nil && (p.Encodes() || p.Solver == Pooled || p.Solver == CMF) && p.Rounds > 0
	return items, p.Bias && p.learned()
}

// item is what is known of an item of the catalogue: its embedding, nil where there is none, and its bias.
func (m *Model) item(j, d int) (row []float64, bias float64) {
	if m.unchosen {
		return nil, 0
	}
	at, rows, biases := j, m.Items, m.Bias
	if m.chosen != nil {
		if at = int(m.chosen.place[j]); at < 0 {
			at, rows, biases = ^at, m.rest, m.restBias
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

// nothing reports whether an embedding says nothing of its item: there is none, or features that nobody has taught.
func nothing(row []float64) bool {
	return !slices.ContainsFunc(row, func(x float64) bool { return x != 0 })
}

// biasesOf are the biases of the whole catalogue.
func (m *Model) biasesOf(items int) []float64 {
	out := make([]float64, items)
	for j := range out {
		_, out[j] = m.item(j, 0)
	}
	return out
}
