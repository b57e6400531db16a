// Package posterior estimates items' parameters from noisy measurements and public features by
// empirical Bayes, so that a server gets more out of statistics that it already has. It only
// post-processes released and public values, and costs no privacy. The method is ours;
// fedssp/divergence.md says what the papers do instead.
//
// Each item j has one unknown number x_j, a bias or a coordinate of its embedding, and a
// measurement
//
//	y_j = h_j·x_j + e_j,  e_j of variance v_j
//
// where h_j is the total weight with which users' ratings determine x_j, and v_j is the variance of
// the privacy noise and of the ratings' own noise. A ridge of one size for all items has two
// faults: it suppresses the information about popular items, or it lets through the noise on rarely
// rated ones. Its best size also depends on ε. Here the prior is
//
//	x_j = Σ_c X_jc·β_c + δ_j,  β_c ~ N(0, t²_g(c)),  δ_j ~ N(0, τ²)
//
// with X_jc the features of item j. So an item whose measurement is mostly noise gets the value
// that its features predict, and an item with many ratings gets the value that they give. τ, and t
// for every group g of features, are estimated from the measurements themselves (EM; Dempster,
// Laird and Rubin 1977), so no setting has to be tuned on private data.
package posterior

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// Design holds the features of items, sparse. Item j has the columns Column[Start[j]:Start[j+1]],
// ascending, with their values.
type Design struct {
	Start  []int // one more than items, ascending from 0
	Column []int
	Value  []float64 // finite
	Group  []int     // for each column, from 0: columns of a group share a deviation
}

// Items counts the items.
func (d Design) Items() int { return len(d.Start) - 1 }

// row returns the features of item j.
func (d Design) row(j int) (columns []int, values []float64) {
	return d.Column[d.Start[j]:d.Start[j+1]], d.Value[d.Start[j]:d.Start[j+1]]
}

// Groups counts the groups of columns.
func (d Design) Groups() int {
	n := 0
	for _, g := range d.Group {
		n = max(n, g+1)
	}
	return n
}

// Measurements holds y, h and v of every item, by the same index. Noise may make h negative. Such
// an h counts as 0, and then the features alone determine the estimate.
type Measurements struct {
	Value, Gain, Variance []float64
}

// Joined returns measurements that say what both of these say, whose errors are independent.
func (m Measurements) Joined(with Measurements) Measurements {
	out := Measurements{slices.Clone(m.Value), slices.Clone(m.Gain), slices.Clone(m.Variance)}
	for j, h := range with.Gain {
		switch {
		case !(h > 0):
		case !(m.Gain[j] > 0):
			out.Value[j], out.Gain[j], out.Variance[j] = with.Value[j], h, with.Variance[j]
		default: // the sum of h·y/v, whose gain and variance are the sum of h²/v, times v of the first
			by := h / with.Variance[j] * m.Variance[j] / m.Gain[j]
			out.Value[j] += by * with.Value[j]
			out.Gain[j] += by * h
			out.Variance[j] += by * by * with.Variance[j]
		}
	}
	return out
}

// Prior holds the standard deviations of the prior: τ of the part that features do not explain, and
// t of each group's effects. All are positive.
type Prior struct {
	Own    float64   // τ
	Groups []float64 // t for each group
	// Strength is the weight, in items, of the prior's deviations in the deviations that EM
	// estimates. groupItems of Strength weigh as much as one column. They are scaled inverse
	// chi-squared priors of τ² and t². 0: EM begins with the deviations, and they have no weight.
	// If measurements are nearly all noise, they say as little about deviations as about items, and
	// typical values must decide.
	Strength float64
}

// groupItems is the part of [Prior.Strength] that is worth a column in a group.
const groupItems = 40

// leastVariance keeps a variance from zero, from where EM could not move it.
const leastVariance = 1e-12

// ErrDegenerate is returned for measurements or features from which nothing can be estimated: a
// value is not finite, a variance is negative, or the normal equations are not positive definite.
var ErrDegenerate = errors.New("posterior: nothing can be estimated from these measurements")

// EstimateEffects returns the posterior mean of every item's number after the given number of EM
// iterations from a prior, the posterior means of the features' effects (see [Design.Predict]), and
// the resulting prior. With no iterations the prior is used as it is. No iteration lowers the
// likelihood of the measurements or, with a strength, the joint probability of measurements and
// deviations.
func EstimateEffects(d Design, m Measurements, p Prior, iterations int) (means, effects []float64, learned Prior, err error) {
	for j, y := range m.Value { // noise may have made them useless
		if !(math.Abs(y) <= math.MaxFloat64) || !(math.Abs(m.Gain[j]) <= math.MaxFloat64) || !(m.Variance[j] >= 0 && m.Variance[j] <= math.MaxFloat64) {
			return nil, nil, Prior{}, fmt.Errorf("%w: item %d has value %v, gain %v, variance %v", ErrDegenerate, j, y, m.Gain[j], m.Variance[j])
		}
	}
	e := &estimate{items: d, y: m, start: p, own: p.Own * p.Own, group: make([]float64, len(p.Groups))}
	for g, t := range p.Groups {
		e.group[g] = t * t
	}
	for i := 0; ; i++ {
		if err := e.solve(); err != nil {
			return nil, nil, Prior{}, err
		}
		if i == iterations {
			break
		}
		e.maximise()
	}
	out := Prior{Own: math.Sqrt(e.own), Groups: make([]float64, len(e.group)), Strength: p.Strength}
	for g, v := range e.group {
		out.Groups[g] = math.Sqrt(v)
	}
	return e.means(), e.beta, out, nil
}

// Predict returns the features' predictions for items that were not measured, from effects of the
// columns.
func (d Design) Predict(effects []float64) []float64 {
	out := make([]float64, d.Items())
	for j := range out {
		columns, values := d.row(j)
		for i, c := range columns {
			out[j] += values[i] * effects[c]
		}
	}
	return out
}

// estimate is a prior, in variances, and the posterior that follows: β is normal with mean beta and
// covariance cov.
type estimate struct {
	items Design
	y     Measurements
	start Prior
	own   float64
	group []float64

	beta []float64
	cov  []float64 // columns x columns
}

// weigh returns h of item j, and the variance of y_j around h·X_j·β.
func (e *estimate) weigh(j int) (h, around float64) {
	h = max(e.y.Gain[j], 0)
	return h, e.y.Variance[j] + h*h*e.own + leastVariance
}

// solve finds the posterior of β: weighted least squares with a ridge for each group.
func (e *estimate) solve() error {
	p := len(e.items.Group)
	if p == 0 {
		return nil
	}
	a, b := mat.NewSymDense(p, nil), mat.NewVecDense(p, nil)
	raw, right := a.RawSymmetric(), b.RawVector().Data
	for j := range e.items.Items() {
		h, around := e.weigh(j)
		columns, values := e.items.row(j)
		for i, c := range columns {
			w := h * values[i] / around
			right[c] += w * e.y.Value[j]
			to := raw.Data[c*raw.Stride:][:p]
			w *= h
			for k, o := range columns[i:] { // the upper triangle
				to[o] += w * values[i+k]
			}
		}
	}
	for c, g := range e.items.Group {
		raw.Data[c*raw.Stride+c] += 1 / e.group[g]
	}
	var ch mat.Cholesky
	if !ch.Factorize(a) {
		return fmt.Errorf("%w: the normal equations of %d features are not positive definite", ErrDegenerate, p)
	}
	var x mat.VecDense
	if err := ch.SolveVecTo(&x, b); err != nil {
		return fmt.Errorf("%w: %w", ErrDegenerate, err)
	}
	e.beta = x.RawVector().Data
	var cov mat.SymDense
	if err := ch.InverseTo(&cov); err != nil {
		return fmt.Errorf("%w: %w", ErrDegenerate, err)
	}
	if e.cov == nil {
		e.cov = make([]float64, p*p)
	}
	for c := range p {
		for o := range p {
			e.cov[c*p+o] = cov.At(c, o)
		}
	}
	return nil
}

// predict returns the features' prediction for item j, and its variance.
func (e *estimate) predict(j int) (mean, variance float64) {
	columns, values := e.items.row(j)
	p := len(e.beta)
	for i, c := range columns {
		x := values[i]
		mean += x * e.beta[c]
		cov := e.cov[c*p:][:p]
		for k, o := range columns {
			variance += x * values[k] * cov[o]
		}
	}
	return mean, variance
}

// maximise is the M step: each variance becomes the expectation of its squares.
func (e *estimate) maximise() {
	var own float64
	for j := range e.items.Items() {
		mean, uncertain := e.predict(j)
		h, around := e.weigh(j)
		k := h * e.own / around // the part of the residual that is δ
		d := k * (e.y.Value[j] - h*mean)
		own += d*d + e.own*(1-k*h) + k*k*h*h*uncertain
	}
	sums, counts := make([]float64, len(e.group)), make([]float64, len(e.group))
	for c, g := range e.items.Group {
		sums[g] += e.beta[c]*e.beta[c] + e.cov[c*len(e.beta)+c]
		counts[g]++
	}
	items, columns := e.start.Strength, e.start.Strength/groupItems
	e.own = max((own+items*e.start.Own*e.start.Own)/(float64(e.items.Items())+items), leastVariance)
	for g, t := range e.start.Groups {
		e.group[g] = max((sums[g]+columns*t*t)/max(counts[g]+columns, 1), leastVariance)
	}
}

// means returns the posterior means of all items.
func (e *estimate) means() []float64 {
	out := make([]float64, e.items.Items())
	for j, mean := range e.items.Predict(e.beta) {
		h, around := e.weigh(j)
		out[j] = mean + h*e.own/around*(e.y.Value[j]-h*mean)
	}
	return out
}
