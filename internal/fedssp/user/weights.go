// Package user computes a client's part from its own user's ratings. It fits embedding and bias to a
// broadcast model, and weights divide a user's sensitivity among its ratings. It draws samples and
// batches, and makes the additions to sums with their bounds.
// [User] is the client's role in a run.
//
// It imports kernel, and never configuration or the server's side. Stages and solvers reach it
// through two small interfaces, [Stage] and [Solver].
package user

import (
	"cmp"
	"io"
	"math"
	"slices"
	"sync/atomic"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/protocol"
)

// The client clamps broadcast counts to this range. Below 1 a count is noise; no true count is
// above the range.
const (
	leastCount = 1
	mostCount  = 1e12
)

// Weigh sets w to the weights of ratings whose items have the given private counts; without counts
// all weights are equal. w_j ∝ n̂_j^-exponent, normalised last, so that Σ w_j² = 1 whatever the
// counts are.
//
// That is the whole proof. After clamping every w_j² is between 1e-48 and 1 before it is
// normalised, so the sum is positive and finite. The server's n̂ moves weight only between the
// user's own ratings.
func Weigh(w, counts []float64, exponent float64) {
	for k := range w {
		w[k] = 1
		if counts != nil && exponent > 0 {
			w[k] = math.Pow(ClampCount(counts[k]), -exponent)
		}
	}
	normalise(w)
}

// normalise scales positive weights so that Σ w_j² = 1.
func normalise(w []float64) {
	var sum float64
	for _, x := range w {
		sum += x * x
	}
	scale := 1 / math.Sqrt(sum)
	for k := range w {
		w[k] *= scale
	}
}

// WeighGlobally sets w to the weights of ratings by one scale for all users, w_j =
// scale·n̂_j^-exponent ([GlobalScale]). If Σ w_j² is above 1, it scales them back to 1 (multi-task
// paper, equation (12)).
//
// The proof is the last step: Σ w_j² is at most 1 for any broadcast scale and counts. A scale that
// is not finite, or not positive, leaves weights of zero.
func WeighGlobally(w, counts []float64, exponent, scale float64) {
	if !(scale > 0 && scale <= mostCount) {
		scale = 0
	}
	var sum float64
	for k := range w {
		w[k] = scale * math.Pow(ClampCount(counts[k]), -exponent)
		sum += w[k] * w[k]
	}
	if sum > 1 {
		normalise(w)
	}
}

// GlobalScale is 1/√(Σ_j n̂_j^{1-2μ}·c/n). With it users' Σ w_j² are 1/c on average, if the counts
// are right (multi-task paper, equation (11), with the exponent of section 5.1 and β = 1).
func GlobalScale(counts []float64, users int, exponent, headroom float64) float64 {
	var sum float64
	for _, n := range counts {
		sum += math.Pow(ClampCount(n), 1-2*exponent)
	}
	return math.Sqrt(float64(users) / headroom / sum)
}

// ClampCount brings a broadcast count into the range of true counts; NaN counts as 1.
func ClampCount(n float64) float64 {
	if math.IsNaN(n) {
		return leastCount
	}
	return min(max(n, leastCount), mostCount)
}

// Sample draws at most size of n places, all equally likely, ascending.
func Sample(n, size int, random io.Reader) ([]int, error) {
	places, err := shuffled(n, min(n, size), random)
	slices.Sort(places)
	return places, err
}

// Sampled draws places of at most size of all ratings, which count for one each. A user whose ratings are public has
// all places, and each counts for its chance of being drawn.
func (c *Contribution) Sampled(size int, label string) (list []int, each float64, err error) {
	if n := len(c.All.Items); c.Open {
		return places(n), min(float64(size)/float64(n), 1), nil
	}
	list, err = Sample(len(c.All.Items), size, c.Source.Stream(label, c.Round))
	return list, 1, err
}

// shuffled draws the first size places of a random order of n.
func shuffled(n, size int, random io.Reader) ([]int, error) {
	order := slices.Clone(places(n))
	for i := range size {
		if n-i == 1 {
			break
		}
		pick, err := entropy.Uniform(random, uint64(n-i))
		if err != nil {
			return nil, err
		}
		j := i + int(pick)
		order[i], order[j] = order[j], order[i]
	}
	return order[:size], nil
}

// SampleTail draws at most size places with the smallest counts, ascending. Ties are in random
// order, and so is everything if there are no counts.
func SampleTail(n, size int, counts []float64, random io.Reader) ([]int, error) {
	order, err := shuffled(n, n, random)
	if err != nil {
		return nil, err
	}
	if counts != nil {
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ClampCount(counts[a]), ClampCount(counts[b])) })
	}
	order = order[:min(n, size)]
	slices.Sort(order)
	return order, nil
}

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
	if c.Model.Counts != nil && p.WithCounts() {
		counts = make([]float64, n)
		for k, j := range c.Ratings.Items {
			counts[k] = c.Model.Counts[j]
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
			c.scale = GlobalScale(c.Model.Counts, c.clients, p.Exponent, p.Headroom)
		}
		WeighGlobally(c.Weights, counts, p.Exponent, c.scale)
	default:
		Weigh(c.Weights, counts, p.Exponent)
		if c.Phase == kernel.Refine && p.Tilts() {
			for i, k := range c.Chosen {
				c.Weights[i] *= p.TiltOf(c.Model.PopularityOf(int(c.Ratings.Items[k])))
			}
			normalise(c.Weights)
		}
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
			places, err = SampleTail(n, p.PerUser, counts, random)
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
	return lists.Map(places, func(k int) int { return c.from[k] })
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
	return lists.Map(c.Chosen, func(k int) uint32 { return uint32(c.Ratings.Items[k]) })
}
