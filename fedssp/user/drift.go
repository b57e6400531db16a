package user

import (
	"cmp"
	"math"
	"slices"

	"github.com/fedsim/fedsim/model"
)

// Drift is the drift of a user's ratings over time: films that are rated in one sitting are rated
// in one mood, and are found on one page. It is the part of the residuals, after the user's fit,
// that an Ornstein-Uhlenbeck process explains. The process f(t) is normal around zero, and its
// values at the times t and s are correlated by exp(-|t-s|/τ). Each rating has noise of variance 1,
// which is the unit of the variance of f.
//
// The drift stays with the client. It follows from the user's ratings and the broadcast model, and
// no sum contains any of it, so it costs no privacy. Predictions without a time leave it out. Ours;
// for temporal effects of users see Koren, "Collaborative filtering with temporal dynamics" (KDD
// 2009).
type Drift struct {
	tau   float64
	at    []float64 // the different times, ascending, in units of τ
	state []float64 // the expectation of f at each time
}

// driftGaps is τ in units of the median gap between a user's ratings at different times, so that
// the unit of times does not matter. On MovieLens latest-small, with gaps of about ten seconds, 20
// to 50 are about as good.
const driftGaps = 30

// nearest is the distance of two times, in units of τ, below which they count as one. float64
// hardly tells nearer times apart.
const nearest = 1e-6

// DriftOf fits a drift to ratings, which have times, and predictions of them.
func DriftOf(r model.Ratings, predicted []float64, variance float64) *Drift {
	left := make([]float64, len(predicted))
	for k, x := range predicted {
		left[k] = float64(r.Values[k]) - x
	}
	return newDrift(r.Times, left, variance)
}

// newDrift fits a process of a positive variance to residuals of ratings at some times, in any
// order. It returns nil if there are no two different times, or if a number is not finite. A NaN
// time counts as no time.
func newDrift(times, left []float64, variance float64) *Drift {
	times, left = timed(times, left)
	order := make([]int, len(times))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(times[a], times[b]) })
	d := &Drift{tau: driftGaps * medianGap(times, order)}
	if !(d.tau > 0) || math.IsInf(d.tau, 0) {
		return nil
	}
	var ratings, sum []float64
	of := make([]int, len(times)) // for each rating, its state
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

// timed drops ratings without a time, whose time is NaN.
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

// trust is the factor for the drift: the regression of ratings on the drift that the other ratings
// predict for each. It follows from the spread of the states. Users with few ratings get about half
// of the drift. If times mean nothing, like the times of an import, the factor is almost zero.
func (d *Drift) trust(of []int, left, spread []float64) float64 {
	product, square := 0.5, 1.
	for k, s := range of {
		x := left[k] - (left[k]-d.state[s])/(1-spread[s])
		product += x * left[k]
		square += x * x
	}
	return max(0, product/square)
}

// medianGap is the median difference between neighbouring times that differ; 0 if none differ.
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

// smooth returns the expectation and variance of the process at ascending times, in units of τ.
// ratings holds the number of ratings at each time, sum their sum; sum is overwritten with f.
//
// It solves (Q + diag(ratings)) f = sum, where Q is the inverse covariance of the process, which is
// tridiagonal. A state is e^-d times the state at distance d before it, plus a normal variable with
// the rest of the variance, a fraction 1 - e^-2d.
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

// Add adds the drift at some times to predictions. The drift is zero at NaN, which is no time, and
// for a nil drift.
func (d *Drift) Add(times, to []float64) {
	if d == nil {
		return
	}
	for i, t := range times {
		if !math.IsNaN(t) {
			to[i] += d.of(t / d.tau)
		}
	}
}

// of is the expected drift at a time in units of τ. Between two states it depends on these two;
// before or after all states, on the nearest.
func (d *Drift) of(x float64) float64 {
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
