package kernel

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/model"
)

// A model may be trained on some of the items ([Params.TopItems]), as both papers do on MovieLens 20M.
// The items are chosen by the release counts, whose noise is charged like any other, never by exact
// counts. From the next round on, model and sums cover the chosen items alone,
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

// Over chooses items.
func (p *Params) Over(items []int32) (*Choice, error) {
	if len(items) != p.TopItems {
		return nil, fmt.Errorf("fedssp: %d items are chosen; %d are trained on", len(items), p.TopItems)
	}
	for i, j := range items {
		if j < 0 || int(j) >= p.Items || i > 0 && items[i-1] >= j {
			return nil, fmt.Errorf("fedssp: the items chosen do not ascend, or one is not below %d", p.Items)
		}
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
	inner.Items, inner.TopItems, inner.ByWeights = len(items), 0, false
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
	order := model.Indices(len(counts))
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	order = slices.Clone(order[:n])
	slices.Sort(order)
	return order
}

// append appends a bit for each item of the catalogue, the first item in the lowest bit of a byte.
func (c *Choice) append(b []byte) []byte {
	bits := make([]byte, (len(c.Place)+7)/8)
	for _, j := range c.Items {
		bits[j/8] |= 1 << (j % 8)
	}
	return append(b, bits...)
}

// choice returns the items of a broadcast choice, unchecked.
func (p *Params) choice(b []byte) []int32 {
	items := make([]int32, 0, p.TopItems)
	for i, x := range b {
		for ; x != 0; x &= x - 1 {
			items = append(items, int32(8*i+bits.TrailingZeros8(x)))
		}
	}
	return items
}

// modelDomain begins an encoded model and ends in the version of the form. If m of M items are
// trained on, the form is
//
//	model = domain ‖ flags (2) ‖ mean (8)                   until the items are chosen, and then
//	model = domain ‖ flags (2) ‖ mean (8) ‖ choice (a bit an item of the catalogue, if m < M) ‖ counts (m, if any) ‖ bias (m, if any) ‖
//	        items (m·d, if any) ‖ gramian (d(d+1)/2, if any) ‖ bias of the others (M-m bytes, if any) ‖ the others ((M-m)·d, if any) ‖
//	        popularity (m, if any) ‖ of the solver: parameters, or covariance (m·(d+1)(d+2)/2) ‖ variances (4), if any
//
// Numbers are little-endian float32. Mean and Gramian are float64. The server rounds its own model
// before it broadcasts it ([Model.Round]), so that both sides compute with the same numbers. Rounding moves a number by at most 2⁻²⁴ of it, and
// costs no privacy, since the number was released before. Parameters that gradients are taken at
// are rounded for clients alone.
//
// The bias of an item that is not trained on is a signed byte, in steps of 1/127 of
// [Params.ClipBias], the largest bias. On a scale of five it is exact within 0.007 stars. V is left
// out if it is all zero, and from models of rounds that do not use it.
const modelDomain = "fedsim/fedssp/model/v2\n"

// modelHead is the length of domain and flags.
const modelHead = len(modelDomain) + 2

const (
	hasCounts = 1 << iota
	hasBias
	hasGramian
	hasChoice
	hasRestBias
	hasRest
	hasPopularity
	hasSolver // the solver's own part: parameters that gradients are taken at, or posteriors of the variational solver
	hasItems
)

// Finite decodes n numbers of a saved state. All are finite, and the first, a measure of noise, is not negative; it may be +Inf.
func Finite(what string, b []byte, n int) ([]float64, error) {
	if len(b) != 8*n {
		return nil, fmt.Errorf("fedssp: %d bytes of %s; there must be %d", len(b), what, 8*n)
	}
	x := model.Floats(b)
	for i, v := range x {
		if math.IsNaN(v) || math.IsInf(v, -1) || i == 0 && v < 0 || i > 0 && math.IsInf(v, 1) {
			return nil, fmt.Errorf("fedssp: %s hold %v at place %d; numbers are finite, and the first is not negative", what, v, i)
		}
	}
	return x, nil
}

// mostSteps is the number of steps in the largest bias of an item that is not trained on.
const mostSteps = 127

// The rest of this file orders the items of a list. A model of ratings predicts what a user thinks of an item
// that it has rated. A list should hold items that the user will take and like. The score of item j for
// user i adds three terms:
//
//	log c_j + Σ_k x_jk²·log(r_ik) + w·prediction_ij
//
// c_j says how often the item is rated ([Model.Counts] of a final model). r_ik compares the share of
// feature k in what the user rated with the share e_k that it has in all ratings. w is
// [Params.OrderWeight]. Released and public values and the user's own items are all that it takes, so
// that it costs no privacy.
//
// A user's shares are shrunk to e_k as far as chance explains the difference. With n items and shares
// s_k, chance alone has X² = n·Σ (s_k - e_k)²/e_k about x0 = Σ Var(x_jk²)/e_k. After James and Stein,
// r_k is 1 + max(0, 1 - x0/X²)·(s_k/e_k - 1).

// Order orders items for users. It is read-only.
type Order struct {
	logs   []float64 // log c_j
	taste  *UserFeatures
	shares []float64 // e_k, positive for features of an item
	chance float64   // x0
	weight float64   // w
}

// NewOrder returns the order by numbers of ratings, one for each item and at least one of them positive.
// Features may be nil.
func NewOrder(counts []float64, f *dataset.ItemFeatures, weight float64) *Order {
	o := &Order{logs: make([]float64, len(counts)), taste: NewUserFeatures(f, 1), weight: weight}
	least, total := math.Inf(1), 0.
	for _, c := range counts {
		if c > 0 {
			least, total = min(least, c), total+c
		}
	}
	squares := make([]float64, o.taste.Width())
	o.shares = make([]float64, len(squares))
	for j, c := range counts {
		c = max(c, least)
		o.logs[j] = math.Log(c)
		if o.taste == nil {
			continue
		}
		columns, values := o.taste.Features(j)
		for i, k := range columns {
			x := values[i] * values[i]
			o.shares[k] += c / total * x
			squares[k] += c / total * x * x
		}
	}
	for k, e := range o.shares {
		if e > 0 {
			o.chance += (squares[k] - e*e) / e
		}
	}
	return o
}

// Rank turns the predictions of all items for a user into the scores of a list. history holds the items
// that the user rated. NaN stays.
func (o *Order) Rank(history []int32, scores []float64) {
	taste := o.tasteOf(history)
	var kinds []float64
	var kind []int32
	if taste != nil {
		kinds = make([]float64, o.taste.Kinds())
		for k := range kinds {
			columns, values := o.taste.ofKind(int32(k))
			for i, c := range columns {
				kinds[k] += values[i] * values[i] * taste[c]
			}
		}
		kind = o.taste.kind
	}
	for j := range scores {
		scores[j] = o.logs[j] + o.weight*scores[j]
		if kind != nil {
			scores[j] += kinds[kind[j]]
		}
	}
}

// tasteOf returns log(r_k); nil if all are 0.
func (o *Order) tasteOf(history []int32) []float64 {
	if o.taste == nil || len(history) == 0 {
		return nil
	}
	n, own := float64(len(history)), make([]float64, len(o.shares))
	for _, j := range history {
		columns, values := o.taste.Features(int(j))
		for i, k := range columns {
			own[k] += values[i] * values[i] / n
		}
	}
	var apart float64
	for k, e := range o.shares {
		if e > 0 {
			apart += n * (own[k] - e) * (own[k] - e) / e
		}
	}
	if apart <= o.chance {
		return nil
	}
	keep := 1 - o.chance/apart
	for k, e := range o.shares {
		if e > 0 {
			own[k] = math.Log1p(keep * (own[k]/e - 1))
		}
	}
	return own
}
