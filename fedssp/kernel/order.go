package kernel

import (
	"math"

	"github.com/fedsim/fedsim/dataset"
)

// This file orders the items of a list. A model of ratings predicts what a user thinks of an item
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
