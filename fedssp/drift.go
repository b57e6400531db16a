package fedssp

import (
	"cmp"
	"math"
	"slices"

	"github.com/fedsim/fedsim/model"
)

// drift is how a user's ratings drift with the time at which they are given: films that are rated in one sitting are rated in one
// mood, and are found on one page. Of what the user's fit leaves of each rating it is what an Ornstein-Uhlenbeck process explains: f(t), normal around zero,
// of values that are correlated by exp(-|t-s|/τ) at the times t and s. To each rating noise of variance 1 is added, the unit of that of f.
//
// It is the user's own: it follows from the user's ratings and from what the client was sent, and no sum holds anything of it, so it costs
// no privacy. Predictions for no time in particular go without it. Ours; temporal effects of users are in Koren, "Collaborative filtering
// with temporal dynamics" (KDD 2009).
type drift struct {
	tau   float64
	at    []float64 // the different times, ascending, in units of τ
	state []float64 // what f is expected to be at each
}

// driftGaps is τ in units of the median time from one rating of the user's to the next that is not of the same time. It needs no unit of
// times. Of MovieLens latest-small, where that is some ten seconds, 20 to 50 are about as good.
const driftGaps = 30

// nearest is how far apart two times are, in units of τ, that count as one: nearer ones float64 hardly tells apart.
const nearest = 1e-6

// driftOf learns from ratings, which have times, and predictions of them.
func driftOf(r model.Ratings, predicted []float64, variance float64) *drift {
	left := make([]float64, len(predicted))
	for k, x := range predicted {
		left[k] = float64(r.Values[k]) - x
	}
	return newDrift(r.Times, left, variance)
}

// newDrift learns from what is left of ratings that were given at some times, in any order, with a process of a positive variance. It is nil where
// there are no two times, and where a number is not finite. A time that is NaN is no time.
func newDrift(times, left []float64, variance float64) *drift {
	times, left = timed(times, left)
	order := make([]int, len(times))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(times[a], times[b]) })
	d := &drift{tau: driftGaps * medianGap(times, order)}
	if !(d.tau > 0) || math.IsInf(d.tau, 0) {
		return nil
	}
	var ratings, sum []float64
	of := make([]int, len(times)) // the state of each rating
	for _, k := range order {
		x, n := times[k]/d.tau, len(d.at)
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil
		}
		if n == 0 || x-d.at[n-1] > nearest {
			d.at, ratings, sum = append(d.at, x), append(ratings, 0), append(sum, 0)
			n++
		}
		of[k] = n - 1
		ratings[n-1]++
		sum[n-1] += left[k]
	}
	var spread []float64
	d.state, spread = smooth(d.at, ratings, sum, variance)
	by := d.trust(of, left, spread)
	for i := range d.state {
		d.state[i] *= by
		if math.IsNaN(d.state[i]) || math.IsInf(d.state[i], 0) {
			return nil
		}
	}
	return d
}

// timed leaves out ratings without a time, whose time is NaN.
func timed(times, left []float64) (kept, of []float64) {
	if !slices.ContainsFunc(times, math.IsNaN) {
		return times, left
	}
	for k, at := range times {
		if !math.IsNaN(at) {
			kept, of = append(kept, at), append(of, left[k])
		}
	}
	return kept, of
}

// trust is by how much the drift is to be multiplied: the regression of ratings on what the drift says of each by the others alone, which is had from the
// spread of its state. Users of whom little is known have half of it, and where times say nothing, as when they are those of an import, hardly anything is left.
func (d *drift) trust(of []int, left, spread []float64) float64 {
	product, square := 0.5, 1.
	for k, s := range of {
		x := left[k] - (left[k]-d.state[s])/(1-spread[s])
		product += x * left[k]
		square += x * x
	}
	return max(0, product/square)
}

// medianGap is the median of the differences between neighbouring times that differ; 0 where none do.
func medianGap(times []float64, order []int) float64 {
	var gaps []float64
	for i := 1; i < len(order); i++ {
		if x := times[order[i]] - times[order[i-1]]; x > 0 {
			gaps = append(gaps, x)
		}
	}
	if len(gaps) == 0 {
		return 0
	}
	slices.Sort(gaps)
	return gaps[len(gaps)/2]
}

// smooth is what the process is expected to be at ascending times, in units of τ, at each of which there are so many ratings with that sum, and its variance
// then. It solves (Q + diag(ratings)) f = sum, Q the inverse of the process's covariance, which has three diagonals: a state is e^-d times the one d
// before it, and normal with what e^-2d leaves of the variance. sum becomes f.
func smooth(at, ratings, sum []float64, variance float64) (state, spread []float64) {
	diagonal, below := slices.Clone(ratings), make([]float64, len(at))
	diagonal[0] += 1 / variance
	for k := 1; k < len(at); k++ {
		d := at[k] - at[k-1]
		keeps, spread := math.Exp(-d), -math.Expm1(-2*d)*variance
		diagonal[k-1] += keeps * keeps / spread
		diagonal[k] += 1 / spread
		below[k] = -keeps / spread
	}
	for k := 1; k < len(at); k++ {
		by := below[k] / diagonal[k-1]
		diagonal[k] -= by * below[k]
		sum[k] -= by * sum[k-1]
	}
	spread = make([]float64, len(at))
	for k := len(at) - 1; k >= 0; k-- {
		spread[k] = 1 / diagonal[k]
		if k+1 < len(at) {
			by := below[k+1] / diagonal[k]
			spread[k] += by * by * spread[k+1]
			sum[k] -= below[k+1] * sum[k+1]
		}
		sum[k] /= diagonal[k]
	}
	return sum, spread
}

// add adds the drift at some times to predictions. The drift is zero at NaN, which is no time, and of nil.
func (d *drift) add(times, to []float64) {
	if d == nil {
		return
	}
	for i, t := range times {
		if !math.IsNaN(t) {
			to[i] += d.of(t / d.tau)
		}
	}
}

// of is the expected drift at a time in units of τ. Of what is between two states only these tell, of what is before or after all, the nearest one.
func (d *drift) of(x float64) float64 {
	at, f := d.at, d.state
	k, is := slices.BinarySearch(at, x)
	switch {
	case is:
		return f[k]
	case k == 0:
		return f[0] * math.Exp(x-at[0])
	case k == len(at):
		return f[k-1] * math.Exp(at[k-1]-x)
	}
	a, b := x-at[k-1], at[k]-x
	return (f[k-1]*math.Exp(-a)*math.Expm1(-2*b) + f[k]*math.Exp(-b)*math.Expm1(-2*a)) / math.Expm1(-2*(a+b))
}
