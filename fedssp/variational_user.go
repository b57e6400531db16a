package fedssp

import (
	"math"
	"slices"

	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// This file holds the client's side of the variational solver.

const (
	// ownNoise is the weight of σ_i = 1, in ratings, beside a user's own ratings in the estimate of
	// σ_i².
	ownNoise = 50
	// mostPrecise is the largest 1/σ_i² with which a user's ratings count.
	mostPrecise = 4
	// scalesBound is the largest of a user's scales, relative to the square of the rating scale.
	scalesBound = 25
)

// These constants name the places in the release of scales.
const (
	scaleUsers      = iota // 1
	scaleResiduals         // Σ_j E[e²]/σ_i², divided by m
	scaleRatings           // the number of ratings, divided by m
	scaleBias              // E[b_i²]
	scaleFeatures          // Σ E[t]², divided by the number of weights t
	scaleKnown             // how many of the weights t the ratings determine, divided by their number
	scalePopularity        // the E[t]² of popularity
	numScales
)

// bounded reports whether all of a user's moments together are bounded, as noise needs them to be.
// Without noise each rating is bounded.
func (p *Params) bounded() bool { return p.PerUser > 0 }

// fullWeight is the factor that makes a rating of σ_i = 1 count as one in a sum. A rating weighs
// p_i of mostPrecise, divided by √m or, if all of a user's moments are bounded, p_i/√PerUser.
func (p *Params) fullWeight() float64 {
	if p.bounded() {
		return math.Sqrt(float64(p.PerUser))
	}
	return mostPrecise * math.Sqrt(float64(p.Items))
}

// fits is the posterior of a user except its means, which are beta.
type fits struct {
	covariance []float64 // width x width
	known      []float64 // packed: Σ_j Cov[v_j, b_j]
	joint      []float64 // e x e: known, unpacked
	moments    []float64 // e x e: E[g gᵀ]
	normal     []float64 // width x width: Σ_j E[h hᵀ], the upper triangle, h_j the row of item j
	factor     []float64 // width x width
	right      []float64 // Σ_j E[h (y - μ - b_j)]
	precision  float64   // 1/σ_i²
	residuals  float64   // Σ_j E[e²]/σ_i²
	weight     float64   // of a rating in moments that are bounded; 0: not computed yet, -1: none
}

// fitsOf returns the memory of posteriors in a workspace.
func fitsOf(w *workspace) *fits {
	f, ok := w.solver.(*fits)
	if !ok {
		f = new(fits)
		w.solver = f
	}
	return f
}

// variational sets beta and the rest of the user's posterior. If they cannot be computed, beta is
// zero and nothing is known.
func (w *workspace) variational(p *Params, m shared) {
	v := m.variances(p)
	f, n, e := fitsOf(w), w.width, p.joint()
	f.covariance, f.normal, f.factor, f.right = resize(f.covariance, n*n), resize(f.normal, n*n), resize(f.factor, n*n), resize(f.right, n)
	f.known, f.joint, f.moments = resize(f.known, p.packedJoint()), resize(f.joint, e*e), resize(f.moments, e*e)
	for _, j := range w.items {
		m.addCovariance(int(j), f.known)
	}
	dense.Unpack(f.joint, f.known, e, 1)
	clear(w.gram)
	dense.AddOuter(w.gram, w.rows, p.weightsAt(), n)
	if p.UserFeatures != nil {
		w.addUserFeatures(p.UserFeatures, p.weightsAt())
	}
	copy(f.normal, w.gram)
	for a := range p.Rank {
		for b := a; b < p.Rank; b++ {
			f.normal[a*n+b] += f.joint[a*e+b]
		}
		f.right[a] = -f.joint[a*e+p.Rank]
	}
	for k, y := range w.value {
		dense.Axpy(f.right, y-w.offset[k], w.rows[k*n:(k+1)*n])
	}
	f.precision, f.weight = 1, 0
	for again := true; ; again = false {
		if !w.fitPosterior(p, v) {
			clear(w.beta)
			clear(f.covariance)
			f.residuals = 0
			break
		}
		w.expectedResiduals(p)
		if !again {
			break
		}
		ratings := float64(len(w.value))
		f.precision = 1 / ((f.residuals/v.Residual + ownNoise) / (ratings + ownNoise))
		if !(f.precision <= mostPrecise) {
			f.precision = mostPrecise
		}
	}
	f.residuals *= f.precision
	w.secondMoments(p)
}

// fitPosterior solves for means and covariance of beta. It returns false if float64 cannot.
func (w *workspace) fitPosterior(p *Params, v Variances) bool {
	f, n := fitsOf(w), w.width
	by := f.precision / v.Residual
	for i, x := range f.normal {
		f.factor[i] = by * x
	}
	for i := range n {
		f.factor[i*n+i] += 1 / w.variance(p, v, i)
		w.beta[i] = by * f.right[i]
	}
	if !dense.SolveUpper(f.factor, w.beta, n) {
		return false
	}
	copy(f.covariance, f.factor)
	dense.InvertUpper(f.covariance, n)
	for _, x := range [][]float64{w.beta, f.covariance} {
		for _, y := range x {
			if math.IsNaN(y) || math.IsInf(y, 0) {
				return false
			}
		}
	}
	return true
}

// variance is the prior variance of coordinate i of beta.
func (w *workspace) variance(p *Params, v Variances, i int) float64 {
	switch {
	case i < p.Rank:
		return 1
	case i == p.Rank:
		return v.UserBias
	case i < p.weightsAt():
		return v.Popularity
	default:
		return v.Features
	}
}

// secondMoments sets E[g gᵀ].
func (w *workspace) secondMoments(p *Params) {
	f, e, d := fitsOf(w), p.joint(), p.Rank
	for a := range d {
		for b := range d {
			f.moments[a*e+b] = w.beta[a]*w.beta[b] + f.covariance[a*w.width+b]
		}
		f.moments[a*e+d], f.moments[d*e+a] = w.beta[a], w.beta[a]
	}
	f.moments[e*e-1] = 1
}

// expectedResiduals sets Σ_j E[e²]: the residuals of the means, plus the uncertainty of the user
// and of the items.
func (w *workspace) expectedResiduals(p *Params) {
	f, n := fitsOf(w), w.width
	w.secondMoments(p)
	f.residuals = dense.Dot(f.joint, f.moments)
	for k, y := range w.value {
		f.residuals += dense.Sqr(y - w.offset[k] - dense.Dot(w.beta, w.rows[k*n:(k+1)*n]))
	}
	for a := range n {
		f.residuals += w.gram[a*n+a] * f.covariance[a*n+a]
		for b := a + 1; b < n; b++ {
			f.residuals += 2 * w.gram[a*n+b] * f.covariance[a*n+b]
		}
	}
}

// share is 1, or the factor that brings E[g gᵀ] down to the bound. A user with larger moments
// counts less.
func (w *workspace) share(p *Params) float64 {
	x := dense.Norm(fitsOf(w).moments)
	switch bound := dense.Sqr(p.ClipUser); {
	case x <= bound:
		return justBelow
	case math.IsInf(x, 0) || math.IsNaN(x):
		return 0
	default:
		return bound / x * justBelow
	}
}

// justBelow is a little below 1, lest rounding passes a bound.
const justBelow = 1 - 1e-12

// contribute computes a user's addition to a release of the variational solver.
//
// Each rating weighs w_i <= 1/√m, so that Σ_j w_i² <= 1 over at most m ratings, whatever the server
// broadcasts. A block of second-moments is w_i·E[g gᵀ], whose norm is at most w_i·Γ_u² by
// [workspace.share]. A block of first-moments is clipped to the norm Γ_y·Γ_u before it is weighed.
// So both are within those bounds, and no coordinate exceeds 1/√m of them. E[u uᵀ] is a part of E[g
// gᵀ] and scaled with it. Scales are each clipped to their range.
//
// If PerUser is positive ([Params.bounded]), as it is with noise, one weight w for all of the
// user's n ratings replaces 1/√m. The norm of all second-moments, √n·w·‖E[g gᵀ]‖, is then at most
// Γ_u², and the norm of all first-moments at most their bound, NormItems. Both are measured last.
//
// An empty record has a posterior too, the prior, but never contributes it: it does not come here
// ([contribution.vector]), and adds zero to every sum. So emptying a record moves a sum by the norm
// of one contribution.
func (variational) contribute(c *contribution, name string) (protocol.Vector, error) {
	c.fitVariational()
	p, w, f := c.params, c.work, fitsOf(c.work)
	share := w.share(p)
	switch name {
	case Gramian:
		v := protocol.Vector{Value: make([]float64, p.packed())}
		square := make([]float64, p.Rank*p.Rank)
		for a := range p.Rank {
			copy(square[a*p.Rank:(a+1)*p.Rank], f.moments[a*p.joint():])
		}
		dense.Pack(v.Value, square, p.Rank)
		for i := range v.Value {
			v.Value[i] *= share
		}
		return v, nil
	case Scales:
		return protocol.Vector{Value: c.scales()}, nil
	}
	weight := share * f.precision / p.fullWeight()
	if p.bounded() {
		weight = c.bounded(f.precision / p.fullWeight())
	}
	items := make([]uint32, len(c.ratings.Items))
	for k, j := range c.ratings.Items {
		items[k] = uint32(j)
	}
	if name == SecondMoments {
		row := make([]float64, p.packedJoint())
		dense.Pack(row, f.moments, p.joint())
		return protocol.Vector{Index: items, Block: len(row), Factor: slices.Repeat([]float64{weight}, len(items)), Value: row}, nil
	}
	return protocol.Vector{Index: items, Block: p.joint(), Value: c.firstMoments(weight)}, nil
}

func (c *contribution) fitVariational() {
	if c.work != nil {
		return
	}
	c.work = newWorkspace(c.params)
	c.work.gather(c.params, c.model, c.ratings)
	c.work.fit(c.params, c.model)
	c.keep(c.work)
}

// firstMoments returns, for each rated item, E[(y - μ - b_i - <t_i, x_j>)·g] times a weight.
func (c *contribution) firstMoments(weight float64) []float64 {
	p, w, f := c.params, c.work, fitsOf(c.work)
	d, e, n := p.Rank, p.joint(), w.width
	out := make([]float64, len(w.value)*e)
	bound := p.ClipRating * p.ClipUser
	for k, y := range w.value {
		own := w.rows[k*n+d : (k+1)*n]
		target := dense.Clamp(y-w.offset[k]+c.model.itemBias(int(w.items[k]))-w.own(k, d), p.ClipRating)
		row := out[k*e : (k+1)*e]
		for a := range d {
			row[a] = target*w.beta[a] - dense.Dot(f.covariance[a*n+d:(a+1)*n], own)
		}
		row[d] = target
		by := weight
		switch x := dense.Norm(row); {
		case math.IsNaN(x) || math.IsInf(x, 0):
			clear(row)
		case x > bound:
			by *= bound / x
		}
		for a := range row {
			row[a] *= by
		}
	}
	return out
}

// scales returns the user's part of the sums that variances are learned from.
func (c *contribution) scales() []float64 {
	p, w, f := c.params, c.work, fitsOf(c.work)
	v, n, m := c.model.variances(p), w.width, float64(p.Items)
	second := func(i int) float64 { return dense.Sqr(w.beta[i]) + f.covariance[i*n+i] }
	x := make([]float64, numScales)
	if p.bounded() {
		m = float64(max(p.PerUser, len(w.value)))
	}
	x[scaleUsers] = 1
	x[scaleResiduals], x[scaleRatings] = f.residuals/m, float64(len(w.value))/m
	x[scaleBias] = second(p.Rank)
	if p.popularWidth() > 0 {
		x[scalePopularity] = second(p.weightsAt() - 1)
	}
	for i := p.weightsAt(); i < n; i++ {
		x[scaleFeatures] += dense.Sqr(w.beta[i]) / float64(n-p.weightsAt())
		x[scaleKnown] += (1 - f.covariance[i*n+i]/v.Features) / float64(n-p.weightsAt())
	}
	for i := range x {
		if math.IsNaN(x[i]) {
			x[i] = 0
		}
		x[i] = dense.Clamp(x[i]/p.scaleUnit(i), p.scalesBound())
	}
	return x
}

// scalesBound is the largest of a user's scales.
func (p *Params) scalesBound() float64 {
	if p.bounded() {
		return 1
	}
	return max(dense.Sqr(p.Max-p.Min), scalesBound)
}

// scaleUnit divides one of a user's scales before it is clipped.
func (p *Params) scaleUnit(i int) float64 {
	switch {
	case !p.bounded():
		return 1
	case i == scaleResiduals || i == scaleBias:
		return dense.Sqr((p.Max - p.Min) / 2)
	case i == scalePopularity || i == scaleFeatures:
		return 25
	default:
		return 1
	}
}

// bounded is the weight of each of a user's ratings: the given weight or, if that is less, the
// weight that brings second-moments down to the norm Γ_u² and first-moments to their bound. The
// sent vectors are measured, so no choice of the server's model can exceed them.
func (c *contribution) bounded(weight float64) float64 {
	p, f := c.params, fitsOf(c.work)
	if f.weight == 0 {
		second := math.Sqrt(float64(len(c.work.value))) * dense.Norm(f.moments)
		first := dense.Norm(c.firstMoments(1))
		f.weight = min(weight, dense.Sqr(p.ClipUser)/second*justBelow, p.itemsBound()/first*justBelow)
		if !(f.weight > 0) {
			f.weight = -1
		}
	}
	return max(f.weight, 0)
}
