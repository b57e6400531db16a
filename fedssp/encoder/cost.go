package encoder

import "math"

// Visits returns Σ_j β_j of the am-ssp paper, appendix C: the expected number of items in the
// batches of an epoch of DP-SGD, each batch's items counted once. counts are D_j, the number of
// examples of item j, and D is their sum. Batches have B examples, drawn with replacement, and β_j
// = D/B·(1 - (1 - D_j/D)^B). A step goes forward and back once for each item in its batch. There
// are D/B batches, which need not be a whole number; batch is positive. Without examples the result
// is 0.
func Visits(counts []float64, batch float64) float64 {
	var all, sum float64
	for _, n := range counts {
		all += n
	}
	if all == 0 {
		return 0
	}
	for _, n := range counts {
		// Expm1 and Log1p keep the digits of 1 - (1-p)^B if p is small.
		sum -= all / batch * math.Expm1(batch*math.Log1p(-n/all))
	}
	return sum
}

// Cost counts multiplications as in Proposition 2 of the am-ssp paper, up to constants that both
// sides share.
type Cost struct {
	Examples, Items, Rank float64 // D, m, d
	Pass                  float64 // c, of going forward and back for an item
	Epochs                float64 // e; in each, every item is gone through once
	Visits                float64 // β, of items in an epoch of DP-SGD
}

// Ratio is (9): the cost of SSP-c as a fraction of the cost of DP-SGD. SSP-c costs D·d² for
// statistics and c + d² for each item in an epoch; DP-SGD costs c a visit.
func (c Cost) Ratio() float64 {
	square := c.Rank * c.Rank
	return (c.Examples*square + c.Epochs*c.Items*(c.Pass+square)) / (c.Pass * c.Epochs * c.Visits)
}

// PassCost is c of this encoder, averaged over items: the coordinates of embeddings that an item's
// values add up, and the dense layer.
func (e *Encoder) PassCost() float64 {
	var values int
	for _, b := range e.bags {
		values += int(b.byItem.start[e.items])
	}
	c := float64(values) * float64(e.settings.Dim) / float64(e.items)
	if e.settings.Dense {
		c += float64(e.hidden * e.rank)
	}
	return c
}
