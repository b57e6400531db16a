package solver

import (
	"math"
	"slices"

	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/user"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/protocol"
)

// This file holds the client's side of the variational solver.

const (
	// ownNoise is the weight of σ_i = 1, in ratings, beside a user's own ratings in the estimate of
	// σ_i².
	ownNoise = 50
	// mostPrecise is the largest 1/σ_i² with which a user's ratings count.
	mostPrecise = 4
	// largestScale is the largest of a user's scales, relative to the square of the rating scale.
	largestScale = 25
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

// fullWeight is the factor that makes a rating of σ_i = 1 count as one in a sum. A rating weighs
// p_i of mostPrecise, divided by √m or, if all of a user's moments are bounded, p_i/√PerUser.
func fullWeight(p *kernel.Params) float64 {
	if p.Bounded() {
		return math.Sqrt(float64(p.PerUser))
	}
	return mostPrecise * math.Sqrt(float64(p.Items))
}

// fits is the posterior of a user except its means, which are beta.
type fits struct {
	Covariance []float64 // width x width
	known      []float64 // packed: Σ_j Cov[v_j, b_j]
	joint      []float64 // e x e: known, unpacked
	moments    []float64 // e x e: E[g gᵀ]
	normal     []float64 // width x width: Σ_j E[h hᵀ], the upper triangle, h_j the row of item j
	factor     []float64 // width x width
	right      []float64 // Σ_j E[h (y - μ - b_j)]
	Precision  float64   // 1/σ_i²
	Residuals  float64   // Σ_j E[e²]/σ_i²
	weight     float64   // of a rating in moments that are bounded; 0: not computed yet, -1: none
}

// FitsOf returns the memory of posteriors in a workspace.
func FitsOf(w *user.Workspace) *fits {
	f, ok := w.Solver.(*fits)
	if !ok {
		f = new(fits)
		w.Solver = f
	}
	return f
}

// posteriorOf sets beta and the rest of the user's posterior. If they cannot be computed, beta is
// zero and nothing is known.
func posteriorOf(w *user.Workspace, p *kernel.Params, m *kernel.Model) {
	v := m.VariancesNow(p)
	f, n, e := FitsOf(w), w.Width, p.Joint()
	f.Covariance, f.normal, f.factor, f.right = user.Resize(f.Covariance, n*n), user.Resize(f.normal, n*n), user.Resize(f.factor, n*n), user.Resize(f.right, n)
	f.known, f.joint, f.moments = user.Resize(f.known, p.PackedJoint()), user.Resize(f.joint, e*e), user.Resize(f.moments, e*e)
	if size := len(f.known); m.Covariance != nil {
		for _, j := range w.Items {
			dense.Axpy(f.known, 1, m.Covariance[int(j)*size:][:size])
		}
	}
	dense.Unpack(f.joint, f.known, e, 1)
	for a := range p.Rank {
		f.right[a] = -f.joint[a*e+p.Rank]
	}
	clear(w.Gram)
	w.AddProducts(f.right)
	copy(f.normal, w.Gram)
	for a := range p.Rank {
		for b := a; b < p.Rank; b++ {
			f.normal[a*n+b] += f.joint[a*e+b]
		}
	}
	w.Spread()
	f.Precision, f.weight = 1, 0
	for again := true; ; again = false {
		if !fitPosterior(w, p, v) {
			clear(w.Beta)
			clear(f.Covariance)
			f.Residuals = 0
			break
		}
		expectedResiduals(w, p)
		if !again {
			break
		}
		ratings := float64(len(w.Value))
		f.Precision = 1 / ((f.Residuals/v[kernel.ResidualVariance] + ownNoise) / (ratings + ownNoise))
		if !(f.Precision <= mostPrecise) {
			f.Precision = mostPrecise
		}
	}
	f.Residuals *= f.Precision
	secondMoments(w, p)
}

// fitPosterior solves for means and covariance of beta. It returns false if float64 cannot.
func fitPosterior(w *user.Workspace, p *kernel.Params, v []float64) bool {
	f, n := FitsOf(w), w.Width
	by := f.Precision / v[kernel.ResidualVariance]
	for i, x := range f.normal {
		f.factor[i] = by * x
	}
	for i := range n {
		f.factor[i*n+i] += 1 / variance(p, v, i)
		w.Beta[i] = by * f.right[i]
	}
	if !dense.SolveUpper(f.factor, w.Beta, n) {
		return false
	}
	copy(f.Covariance, f.factor)
	dense.InvertUpper(f.Covariance, n)
	return dense.NotFinite(w.Beta) < 0 && dense.NotFinite(f.Covariance) < 0
}

// variance is the prior variance of coordinate i of beta.
func variance(p *kernel.Params, v []float64, i int) float64 {
	switch {
	case i < p.Rank:
		return 1
	case i == p.Rank:
		return v[kernel.UserBiasVariance]
	case i < p.WeightsAt():
		return v[kernel.PopularityVariance]
	default:
		return v[kernel.FeatureVariance]
	}
}

// secondMoments sets E[g gᵀ].
func secondMoments(w *user.Workspace, p *kernel.Params) {
	f, e, d := FitsOf(w), p.Joint(), p.Rank
	for a := range d {
		for b := range d {
			f.moments[a*e+b] = w.Beta[a]*w.Beta[b] + f.Covariance[a*w.Width+b]
		}
		f.moments[a*e+d], f.moments[d*e+a] = w.Beta[a], w.Beta[a]
	}
	f.moments[e*e-1] = 1
}

// expectedResiduals sets Σ_j E[e²]: the residuals of the means, plus the uncertainty of the user
// and of the items.
func expectedResiduals(w *user.Workspace, p *kernel.Params) {
	f, n := FitsOf(w), w.Width
	secondMoments(w, p)
	f.Residuals = dense.Dot(f.joint, f.moments)
	for k, y := range w.Value {
		f.Residuals += dense.Sqr(y - w.Offset[k] - dense.Dot(w.Beta, w.Rows[k*n:(k+1)*n]))
	}
	for a := range n {
		f.Residuals += w.Gram[a*n+a] * f.Covariance[a*n+a]
		for b := a + 1; b < n; b++ {
			f.Residuals += 2 * w.Gram[a*n+b] * f.Covariance[a*n+b]
		}
	}
}

// share is 1, or the factor that brings E[g gᵀ] down to the bound. A user with larger moments
// counts less.
func share(w *user.Workspace, p *kernel.Params) float64 {
	x := dense.Norm(FitsOf(w).moments)
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

// Contribute computes a user's addition to a release of the variational solver.
//
// Each rating weighs w_i <= 1/√m, so that Σ_j w_i² <= 1 over at most m ratings, whatever the server
// broadcasts. A block of second-moments is w_i·E[g gᵀ], whose norm is at most w_i·Γ_u² by
// [share]. A block of first-moments is clipped to the norm Γ_y·Γ_u before it is weighed.
// So both are within those bounds, and no coordinate exceeds 1/√m of them. E[u uᵀ] is a part of E[g
// gᵀ] and scaled with it. Scales are each clipped to their range.
//
// If PerUser is positive ([kernel.Params.Bounded]), as it is with noise, one weight w for all of the
// user's n ratings replaces 1/√m. The norm of all second-moments, √n·w·‖E[g gᵀ]‖, is then at most
// Γ_u², and the norm of all first-moments at most their bound, NormItems. Both are measured last.
//
// An empty record has a posterior too, the prior, but never contributes it: it does not come here
// ([user.Contribution.vector]), and adds zero to every sum. So emptying a record moves a sum by the norm
// of one contribution.
func (variational) Contribute(c *user.Contribution, name string) (protocol.Vector, error) {
	FitVariational(c)
	p, w, f := c.Params, c.Work, FitsOf(c.Work)
	share := share(w, p)
	switch name {
	case kernel.Gramian:
		v := protocol.Vector{Value: make([]float64, p.Packed())}
		square := make([]float64, p.Rank*p.Rank)
		for a := range p.Rank {
			copy(square[a*p.Rank:(a+1)*p.Rank], f.moments[a*p.Joint():])
		}
		dense.Pack(v.Value, square, p.Rank)
		for i := range v.Value {
			v.Value[i] *= share
		}
		return v, nil
	case kernel.Scales:
		return protocol.Vector{Value: scales(c)}, nil
	}
	weight := share * f.Precision / fullWeight(p)
	if p.Bounded() {
		weight = bounded(c, f.Precision/fullWeight(p))
	}
	items := lists.Map(c.Ratings.Items, func(j int32) uint32 { return uint32(j) })
	if name == kernel.SecondMoments {
		row := make([]float64, p.PackedJoint())
		dense.Pack(row, f.moments, p.Joint())
		return protocol.Vector{Index: items, Block: len(row), Factor: slices.Repeat([]float64{weight}, len(items)), Value: row}, nil
	}
	return protocol.Vector{Index: items, Block: p.Joint(), Value: FirstMoments(c, weight)}, nil
}

func FitVariational(c *user.Contribution) {
	if c.Work != nil {
		return
	}
	c.Work = user.NewWorkspace(c.Params)
	c.Work.Gather(c.Params, c.Model, c.Ratings)
	c.Work.Fit(c.Params, c.Model)
	c.Keep(c.Work)
}

// FirstMoments returns, for each rated item, E[(y - μ - b_i - <t_i, x_j>)·g] times a weight.
func FirstMoments(c *user.Contribution, weight float64) []float64 {
	p, w, f := c.Params, c.Work, FitsOf(c.Work)
	d, e, n := p.Rank, p.Joint(), w.Width
	out := make([]float64, len(w.Value)*e)
	bound := p.ClipRating * p.ClipUser
	for k, y := range w.Value {
		own := w.Rows[k*n+d : (k+1)*n]
		target := dense.Clamp(y-w.Offset[k]+c.Model.ItemBias(int(w.Items[k]))-w.Own(k, d), p.ClipRating)
		row := out[k*e : (k+1)*e]
		for a := range d {
			row[a] = target*w.Beta[a] - dense.Dot(f.Covariance[a*n+d:(a+1)*n], own)
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
func scales(c *user.Contribution) []float64 {
	p, w, f := c.Params, c.Work, FitsOf(c.Work)
	v, n, m := c.Model.VariancesNow(p), w.Width, float64(p.Items)
	second := func(i int) float64 { return dense.Sqr(w.Beta[i]) + f.Covariance[i*n+i] }
	x := make([]float64, numScales)
	if p.Bounded() {
		m = float64(max(p.PerUser, len(w.Value)))
	}
	x[scaleUsers] = 1
	x[scaleResiduals], x[scaleRatings] = f.Residuals/m, float64(len(w.Value))/m
	x[scaleBias] = second(p.Rank)
	if p.PopularWidth() > 0 {
		x[scalePopularity] = second(p.WeightsAt() - 1)
	}
	for i := p.WeightsAt(); i < n; i++ {
		x[scaleFeatures] += dense.Sqr(w.Beta[i]) / float64(n-p.WeightsAt())
		x[scaleKnown] += (1 - f.Covariance[i*n+i]/v[kernel.FeatureVariance]) / float64(n-p.WeightsAt())
	}
	for i := range x {
		if math.IsNaN(x[i]) {
			x[i] = 0
		}
		x[i] = dense.Clamp(x[i]/scaleUnit(p, i), scalesBound(p))
	}
	return x
}

// scalesBound is the largest of a user's scales.
func scalesBound(p *kernel.Params) float64 {
	if p.Bounded() {
		return 1
	}
	return max(dense.Sqr(p.Max-p.Min), largestScale)
}

// scaleUnit divides one of a user's scales before it is clipped.
func scaleUnit(p *kernel.Params, i int) float64 {
	switch {
	case !p.Bounded():
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
func bounded(c *user.Contribution, weight float64) float64 {
	p, f := c.Params, FitsOf(c.Work)
	if f.weight == 0 {
		second := math.Sqrt(float64(len(c.Work.Value))) * dense.Norm(f.moments)
		first := dense.Norm(FirstMoments(c, 1))
		f.weight = min(weight, dense.Sqr(p.ClipUser)/second*justBelow, p.ItemsBound()/first*justBelow)
		if !(f.weight > 0) {
			f.weight = -1
		}
	}
	return max(f.weight, 0)
}
