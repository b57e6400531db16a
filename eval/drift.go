package eval

import (
	"cmp"
	"math"
	"slices"

	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// MeasureDrift returns the RMSE of Measure where each prediction is corrected by the user's drift at the time of the test rating. It returns
// nil if the ratings have no times, and for rankings. A served model knows neither that time nor the ratings after it: the result says how
// much of the error of Measure the times explain.
func (t *Test) MeasureDrift(p model.Predictor, run protocol.Runner) *float64 {
	if t.Held != nil || t.Rows.Len() == 0 || t.Rows.Times(0) == nil || t.train.Times(0) == nil {
		return nil
	}
	d := drifting{p, t}
	model.Expect(p, d.items)
	return new(t.measure(t.Rows, d, run).RMSE)
}

// drifting corrects the predictions of a user's test ratings by the user's drift.
type drifting struct {
	of   model.Predictor
	test *Test
}

// items returns the items of a user's test ratings, then of its training ratings.
func (d drifting) items(user int) []int32 {
	tested, _ := d.test.Rows.Row(user)
	known, _ := d.test.train.Row(user)
	return slices.Concat(tested, known)
}

// Predict takes items as the user's test ratings have them.
func (d drifting) Predict(user int, items []int32, out []float64) {
	all := d.items(user)
	predicted := make([]float64, len(all))
	d.of.Predict(user, all, predicted)
	copy(out, predicted)
	left := predicted[len(items):]
	_, values := d.test.train.Row(user)
	for k, x := range values {
		left[k] = float64(x) - left[k]
	}
	newDrift(d.test.train.Times(user), left, driftVariance).add(d.test.Rows.Times(user), out)
}

// drift is the drift of a user's ratings over time: films that are rated in one sitting are rated in one mood, and are found on one page.
// It is the part of the residuals of predictions that an Ornstein-Uhlenbeck process explains. The process f(t) is normal around zero, and
// its values at the times t and s are correlated by exp(-|t-s|/τ). Each rating has noise of variance 1, which is the unit of the variance
// of f. Ours; for temporal effects of users see Koren, "Collaborative filtering with temporal dynamics" (KDD 2009).
type drift struct {
	tau   float64
	at    []float64 // the different times, ascending, in units of τ
	state []float64 // the expectation of f at each time
}

// driftVariance is the variance of f. On MovieLens latest-small 0.15 to 0.3 are about as good.
const driftVariance = 0.25

// driftGaps is τ in units of the median gap between a user's ratings at different times, so that
// the unit of times does not matter. On MovieLens latest-small, with gaps of about ten seconds, 20
// to 50 are about as good.
const driftGaps = 30

// nearest is the distance of two times, in units of τ, below which they count as one. float64
// hardly tells nearer times apart.
const nearest = 1e-6

// newDrift fits a process of a positive variance to residuals of ratings at some times, in any
// order. It returns nil if there are no two different times, or if a number is not finite. A NaN
// time counts as no time.
func newDrift(times, left []float64, variance float64) *drift {
	order := slices.DeleteFunc(model.Indices(len(times)), func(k int32) bool { return math.IsNaN(times[k]) })
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(times[a], times[b]) })
	d := &drift{tau: driftGaps * medianGap(times, order)}
	if !(d.tau > 0) || math.IsInf(d.tau, 0) {
		return nil
	}
	var ratings, sum []float64
	of := make([]int, len(times)) // for each rating, its state, counted from 1; 0 without a time
	for _, k := range order {
		x, n := times[k]/d.tau, len(d.at)
		if math.IsInf(x, 0) {
			return nil
		}
		if n == 0 || x-d.at[n-1] > nearest {
			d.at, ratings, sum = append(d.at, x), append(ratings, 0), append(sum, 0)
			n++
		}
		of[k] = n
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

// trust is the factor for the drift: the regression of ratings on the drift that the other ratings
// predict for each. It follows from the spread of the states. Users with few ratings get about half
// of the drift. If times mean nothing, like the times of an import, the factor is almost zero.
func (d *drift) trust(of []int, left, spread []float64) float64 {
	product, square := 0.5, 1.
	for k, s := range of {
		if s == 0 {
			continue
		}
		x := left[k] - (left[k]-d.state[s-1])/(1-spread[s-1])
		product += x * left[k]
		square += x * x
	}
	return max(0, product/square)
}

// medianGap is the median difference between neighbouring times that differ; 0 if none differ.
func medianGap(times []float64, order []int32) float64 {
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

// add adds the drift at some times to predictions. The drift is zero at NaN, which is no time, and
// for a nil drift.
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

// of is the expected drift at a time in units of τ. Between two states it depends on these two;
// before or after all states, on the nearest.
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
