package user

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// Biases is w_j·(y - μ - b_i) with the residual clipped. b_i is the user's shrunken mean residual.
func (c *Contribution) Biases() protocol.Vector {
	v := protocol.Vector{Index: c.Items(), Value: make([]float64, len(c.Chosen))}
	c.biases(v.Value)
	return v
}

// biases writes the values of Biases.
func (c *Contribution) biases(dst []float64) {
	p, centre := c.Params, c.Model.Centre()
	var sum float64
	for _, y := range c.Ratings.Values {
		sum += float64(y) - centre
	}
	own := sum / (float64(len(c.Ratings.Values)) + p.UserBiasRidge)
	for i, k := range c.Chosen {
		dst[i] = c.Weights[i] * dense.Clamp(float64(c.Ratings.Values[k])-centre-own, p.ClipBias)
	}
}

// Weigh chooses the ratings that take part, once, and gives them weights.
func (c *Contribution) Weigh() error {
	if c.Weights != nil {
		return nil
	}
	p, n := c.Params, len(c.Ratings.Items)
	var counts []float64
	if c.Model.Counted() && p.WithCounts() {
		counts = make([]float64, n)
		for k, j := range c.Ratings.Items {
			counts[k] = c.Model.Count(int(j))
		}
	}
	if err := c.choose(counts); err != nil {
		return err
	}
	c.memory = weightsPool.Get().(*[]float64)
	*c.memory = room(*c.memory, len(c.Chosen))
	c.Weights = *c.memory
	switch {
	case p.Budgeting != kernel.Weights:
		for k := range c.Weights {
			c.Weights[k] = 1 / math.Sqrt(float64(p.PerUser))
		}
	case p.Normalise == kernel.GlobalNorm && counts != nil:
		if c.scale == 0 { // counts are released once
			c.scale = GlobalScale(c.Model.Count, p.Items, c.clients, p.Exponent, p.Headroom)
		}
		WeighGlobally(c.Weights, counts, p.Exponent, c.scale)
	default:
		Weigh(c.Weights, counts, p.Exponent)
	}
	for k, w := range c.Weights {
		c.Weights[k] = min(w, p.MostWeight())
	}
	if p.Bias && p.NormBias > 0 {
		c.slopes = make([]float64, len(c.Chosen)) // not needed before the fit
		c.biases(c.slopes)
		Restrain(c.Weights, dense.Norm(c.slopes), p.BiasBound())
	}
	return nil
}

// Restrain scales x so that the given norm, of x or a multiple of x, falls to the bound, and
// returns the factor; 1 if the norm is within the bound. The factor is a little less than
// necessary, lest rounding passes the bound.
func Restrain(x []float64, norm, bound float64) float64 {
	const less = 1 - 1e-15
	if norm <= bound {
		return 1
	}
	by := bound / norm * less
	for i := range x {
		x[i] *= by
	}
	return by
}

// choose selects the ratings that take part: all of them or, if ratings are budgeted, the sample
// that was drawn for all of a run's sums.
func (c *Contribution) choose(counts []float64) error {
	p, n := c.Params, len(c.Ratings.Items)
	if p.Budgeting == kernel.Weights {
		c.Chosen = places(n)
		return nil
	}
	if c.User.chosen == nil {
		random := c.Source.Stream("sample-ratings", c.Round)
		var places []int
		var err error
		if p.Budgeting == kernel.TailSample {
			places, err = sampleTail(n, p.PerUser, counts, random)
		} else {
			places, err = Sample(n, p.PerUser, random)
		}
		if err != nil {
			return err
		}
		c.User.chosen = c.own(places)
	}
	c.Chosen = c.among(c.User.chosen)
	return nil
}

// allPlaces holds 0, 1, 2, ..., as far as users needed them. It is only read.
var allPlaces atomic.Pointer[[]int]

// places returns the places 0 to n-1, not to be changed.
func places(n int) []int {
	if known := allPlaces.Load(); known != nil && len(*known) >= n {
		return (*known)[:n:n]
	}
	list := make([]int, 2*n)
	for k := range list {
		list[k] = k
	}
	allPlaces.Store(&list)
	return list[:n:n]
}

// own maps places among the ratings of items that are trained on to places among all of the user's
// ratings.
func (c *Contribution) own(places []int) []int {
	if c.from == nil {
		return places
	}
	out := make([]int, len(places))
	for i, k := range places {
		out[i] = c.from[k]
	}
	return out
}

// among maps places among all of the user's ratings to places among the ratings of items that are
// trained on. It leaves out ratings of items that were trained on when the sample was drawn, and no
// longer are.
func (c *Contribution) among(own []int) []int {
	if c.from == nil {
		return own
	}
	var out []int
	for _, k := range own {
		if i, in := slices.BinarySearch(c.from, k); in {
			out = append(out, i)
		}
	}
	return out
}

// Items lists the items of the chosen ratings.
func (c *Contribution) Items() []uint32 {
	items := make([]uint32, len(c.Chosen))
	for i, k := range c.Chosen {
		items[i] = uint32(c.Ratings.Items[k])
	}
	return items
}
