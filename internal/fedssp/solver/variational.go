package solver

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/posterior"
	"github.com/fedsim/fedsim/internal/fedssp/serving"
	"github.com/fedsim/fedsim/internal/fedssp/settings"
	"github.com/fedsim/fedsim/internal/fedssp/user"
	"github.com/fedsim/fedsim/internal/problems"
	"github.com/fedsim/fedsim/protocol"
)

// Without noise the remaining error is that a user or an item with few ratings is trusted too much.
// The variational solver keeps the uncertainty of both (variational Bayes; Lim and Teh 2007), in
//
//	y_ij = μ + b_j + b_i + <u_i, v_j> + <t_i, x_j> + e,  e ~ N(0, σ²σ_i²),
//
// with u_i ~ N(0, I), b_i and t_i normal around 0, and v_j and b_j normal around the prediction of
// the item's popularity and features. The server broadcasts means and covariances of [v_j, b_j],
// and variances. A client computes the posterior of [u_i, b_i, t_i] and its σ_i. With g = [u, 1]
// and p_i = 1/σ_i² it contributes
//
//	second-moments  p_i·E[g gᵀ] for each rated item      first-moments  p_i·E[(y - μ - b_i - <t_i, x_j>)·g]
//	gramian         E[u uᵀ]                              scales         the sums that variances are learned from
//
// From these sums the posteriors of all items have a closed form, and every prior and variance is
// set to its likeliest value. Then u and v are rotated and scaled so that users' second moment is I
// again, as in the prior, and the differences between items have their axes on the coordinates.
// Without this variances would take a hundred steps (Luttinen and Ilin 2010).

// Variational is the solver in which v_j and b_j have posteriors, and users contribute moments of
// their own posteriors (variational Bayes). Ours; with little noise or none.
var Variational settings.Solver = variational{}

type variational struct{ Closed }

func (variational) String() string { return "variational" }

func (x variational) Keys() []*config.Key {
	return x.With(settings.PosteriorsKey.Key, settings.Keys.StartSpread.Key, settings.Keys.Optimiser.Key, settings.Keys.PopularityWeight.Key)
}

func (variational) Serves(s settings.Settings) bool { return s.Variational() }

func (variational) Traits() kernel.Traits { return kernel.Traits{Learns: true, Exact: true} }

// ScaleFactor rounds contributions more finely than noise requires. Without noise a rating is a small
// part of its bound.
func (variational) ScaleFactor(p *kernel.Params) float64 {
	if p.Bounded() {
		return 1
	}
	return 256
}

func (variational) Check(p *kernel.Params, e *problems.List) {
	e.If(p.Gramian != kernel.PerItem || !p.Bias || p.Budgeting != kernel.Weights || p.SamplingRate > 0 && p.SamplingRate < 1,
		"solver %s needs gramian %s, a bias stage, weights and all users in every sum", Variational, kernel.PerItem)
	e.If(!p.Bounded() && p.NormItems > 0,
		"solver %s bounds all of a user's moments only if per-user is positive; norm-items must be 0", Variational)
}

// AppendReleases adds the sums of a step ([variational.Contribute]). Without noise no rating weighs more than
// 1/√m. If all of a user's moments are bounded together, one item may have all of them.
func (variational) AppendReleases(p *kernel.Params, to *kernel.Step, share float64) {
	second, first := share*p.Split.Gramian, share*(1-p.Split.Gramian)
	norm2 := p.ClipUser * p.ClipUser
	items, biased := Rows(p, kernel.SecondMoments, p.PackedJoint(), norm2), Rows(p, kernel.FirstMoments, p.Joint(), p.ItemsBound())
	if !p.Bounded() {
		each := 1 / math.Sqrt(float64(p.Items))
		items.LInf *= each
		biased.LInf *= each
	}
	to.Add(gramianRelease(p), second*commonShare)
	to.Add(protocol.Release{Name: kernel.Scales, Len: numScales, L2: scalesBound(p) * math.Sqrt(numScales), LInf: scalesBound(p), MaxNonZero: numScales}, second*commonShare)
	to.Add(items, second*(1-2*commonShare))
	to.Add(biased, first)
}

func (variational) Fit(w *user.Workspace, p *kernel.Params, m *kernel.Model) {
	posteriorOf(w, p, m)
}

func (variational) Sends(p *kernel.Params) kernel.Sends {
	return kernel.Sends{Covariance: p.Items * p.PackedJoint(), Variances: kernel.NumVariances}
}

func (variational) Begin(*kernel.Params) serving.Solving {
	return Stateless(solveVariational)
}

// leastVariance keeps learned variances from zero, from where EM could not move them.
const leastVariance = 1e-6

// ItemPrior is the prior of [v_j, b_j]: m x e means, and e variances around them.
type ItemPrior struct{ Mean, Variance []float64 }

// fitPrior returns the prior under which the posteriors of the items are likeliest. Its means are a
// regression on the design.
func fitPrior(s *serving.Strategy, d posterior.Design) (*ItemPrior, error) {
	p, m, e := &s.Params.Params, s.Params.Items, s.Params.Joint()
	x := &ItemPrior{Mean: make([]float64, m*e), Variance: make([]float64, e)}
	n := len(d.Group)
	gram := make([]float64, n*n)
	for j := range m {
		for a := d.Start[j]; a < d.Start[j+1]; a++ {
			for b := d.Start[j]; b < d.Start[j+1]; b++ {
				gram[d.Column[a]*n+d.Column[b]] += d.Value[a] * d.Value[b]
			}
		}
	}
	for k := range e {
		mean := func(j int) float64 { return s.Current().JointMean(p, j, k) }
		var around float64
		for j := range m {
			around += dense.Sqr(mean(j)) / float64(m)
		}
		a, w := make([]float64, n*n), make([]float64, n)
		copy(a, gram)
		for i := range n {
			a[i*n+i] += around/dense.Sqr(serving.StartFeatures) + leastVariance
		}
		for j := range m {
			for i := d.Start[j]; i < d.Start[j+1]; i++ {
				w[d.Column[i]] += d.Value[i] * mean(j)
			}
		}
		if !dense.SolveUpper(a, w, n) {
			return nil, fmt.Errorf("fedssp: the prior of items: %w", posterior.ErrDegenerate)
		}
		var sum float64
		for j := range m {
			var y float64
			for i := d.Start[j]; i < d.Start[j+1]; i++ {
				y += d.Value[i] * w[d.Column[i]]
			}
			x.Mean[j*e+k] = y
			sum += dense.Sqr(mean(j)-y) + s.Current().JointCovariance(p, j, k, k)
		}
		x.Variance[k] = max(sum/float64(m), leastVariance)
	}
	return x, nil
}

// solveVariational sets the posteriors of all items, and the variances, from the sums of all N
// clients.
func solveVariational(s *serving.Strategy, r serving.Absorbed, run protocol.Runner) error {
	p, n := &s.Params.Params, s.Params.Total()/r.Users
	m, d, e, size := p.Items, p.Rank, p.Joint(), p.PackedJoint()
	c, typical := s.Weights()
	design := serving.Design(p.Features, c, typical)
	before, err := fitPrior(s, design)
	if err != nil {
		return err
	}
	v := s.Current().VariancesNow(p)
	scale := n * fullWeight(p) / v[kernel.ResidualVariance]
	noise := noiseOfMoments(s, r, n*fullWeight(p))
	second, first := r.Values[kernel.SecondMoments], r.Values[kernel.FirstMoments]
	covariance, bias := make([]float64, m*size), make([]float64, m)
	dense.Blocks(run, m, func(from, to int) {
		a, b := make([]float64, e*e), make([]float64, e)
		var of *discounted
		if noise.is() {
			of = &discounted{noise, s, v[kernel.ResidualVariance], dense.NewEigen(e), make([]float64, size), make([]float64, e)}
		}
		for j := from; j < to; j++ {
			if of != nil {
				of.load(a, b, j, second[j*size:(j+1)*size], first[j*e:(j+1)*e])
			} else {
				dense.Unpack(a, second[j*size:(j+1)*size], e, scale)
				for k := range e {
					b[k] = scale * first[j*e+k]
				}
			}
			for k := range e {
				a[k*e+k] += 1 / before.Variance[k]
				b[k] += before.Mean[j*e+k] / before.Variance[k]
			}
			// rounding made the matrix of an item with few ratings indefinite: use its prior
			if !dense.SolveUpper(a, b, e) {
				clear(a)
				for k := range e {
					a[k*e+k] = math.Sqrt(1 / before.Variance[k])
				}
				copy(b, before.Mean[j*e:(j+1)*e])
			}
			dense.InvertUpper(a, e)
			dense.Pack(covariance[j*size:(j+1)*size], a, e)
			copy(s.Current().Items[j*d:(j+1)*d], b)
			bias[j] = b[d]
		}
	})
	s.Current().Bias, s.Current().Covariance = bias, covariance
	s.Current().Variances = learn(p, v, r.Values[kernel.Scales], r.Noise[kernel.Scales])
	after, err := fitPrior(s, design)
	if err != nil {
		return err
	}
	Turn(s, after, r.Values[kernel.Gramian], r.Users, run)
	return nil
}

// learn returns the likeliest variances, given the scales ([scales]) summed over
// users. A variance stays if one of its sums does not exceed the noise, whose deviation is given.
func learn(p *kernel.Params, v, sums []float64, noise float64) []float64 {
	v = slices.Clone(v)
	x, told := make([]float64, len(sums)), make([]bool, len(sums))
	for i, y := range sums {
		x[i], told[i] = y*scaleUnit(p, i), y >= 2*noise
	}
	users := x[scaleUsers]
	if !(users > 0) || !told[scaleUsers] {
		return v
	}
	if x[scaleRatings] > 0 && told[scaleRatings] && told[scaleResiduals] {
		v[kernel.ResidualVariance] = max(x[scaleResiduals]/x[scaleRatings], leastVariance*dense.Sqr(p.Max-p.Min))
	}
	if told[scaleBias] {
		v[kernel.UserBiasVariance] = max(x[scaleBias]/users, leastVariance*dense.Sqr(p.Max-p.Min))
	}
	// This is the fixed point of MacKay (1992). EM takes ten times the steps to reach it.
	if known := x[scaleKnown]; known > 0 && told[scaleKnown] && told[scaleFeatures] {
		v[kernel.FeatureVariance] = max(x[scaleFeatures]/known, leastVariance)
	}
	if told[scalePopularity] {
		v[kernel.PopularityVariance] = max(x[scalePopularity]/users, leastVariance)
	}
	return v
}

// Turn takes u to M⁻ᵀu and v to Mv, so that the second moment of users is I, and the second moment
// of items around their prior is diagonal.
func Turn(s *serving.Strategy, prior *ItemPrior, gramian []float64, users float64, run protocol.Runner) {
	p := &s.Params.Params
	m, d, e, size := p.Items, p.Rank, p.Joint(), p.PackedJoint()
	root := make([]float64, d*d)
	dense.Unpack(root, gramian, d, 1/users)
	if _, ok := lapack64.Potrf(dense.Upper(root, d)); !ok {
		return // no user is left to define the directions
	}
	for i := range d {
		clear(root[i*d : i*d+i])
	}
	around := make([]float64, d*d)
	for j := range m {
		for a := range d {
			x := s.Current().Items[j*d+a] - prior.Mean[j*e+a]
			for b := range a + 1 {
				around[a*d+b] += x*(s.Current().Items[j*d+b]-prior.Mean[j*e+b]) + s.Current().JointCovariance(p, j, a, b)
			}
		}
	}
	for a := range d {
		for b := range a {
			around[b*d+a] = around[a*d+b]
		}
	}
	half, turned := make([]float64, d*d), make([]float64, d*d)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, dense.General(root, d, d), dense.General(around, d, d), 0, dense.General(half, d, d))
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, dense.General(half, d, d), dense.General(root, d, d), 0, dense.General(turned, d, d))
	q := dense.NewEigen(d)
	q.Decompose(turned)
	matrix := make([]float64, e*e) // M, and 1 for b_j
	top := blas64.General{Rows: d, Cols: d, Stride: e, Data: matrix}
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, dense.General(q.Vectors, d, d), dense.General(root, d, d), 0, top)
	matrix[e*e-1] = 1
	dense.Blocks(run, m, func(from, to int) {
		full, part, v := make([]float64, e*e), make([]float64, e*e), make([]float64, d)
		for j := from; j < to; j++ {
			row := s.Current().Items[j*d : (j+1)*d]
			copy(v, row)
			for a := range row {
				row[a] = dense.Dot(matrix[a*e:a*e+d], v)
			}
			packed := s.Current().Covariance[j*size : (j+1)*size]
			dense.Unpack(full, packed, e, 1)
			blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, dense.General(matrix, e, e), dense.General(full, e, e), 0, dense.General(part, e, e))
			blas64.Gemm(blas.NoTrans, blas.Trans, 1, dense.General(part, e, e), dense.General(matrix, e, e), 0, dense.General(full, e, e))
			dense.Pack(packed, full, e)
		}
	})
}

// With noise an item's posterior accounts for the noise, whose size is public. Let A_j be the
// second moments of an item's ratings, b_j = A_j·v_j + e_j its first moments, and e_j of covariance
// σ²A_j from the scatter of ratings and ηI from noise. Then
//
//	precision  A_j(σ²A_j + ηI)⁻¹A_j      right side  A_j(σ²A_j + ηI)⁻¹b_j
//
// In the eigenbasis of A_j these are λ²/(σ²λ + η) and λ/(σ²λ + η). As η tends to 0 they become
// A_j/σ² and b_j/σ², the solver without noise. In directions where noise hides the signal the prior
// decides.
//
// A_j is noisy too. It is drawn to c_j times the mean E[ggᵀ] of all ratings, where c_j = Σ p_i is
// its last entry. An entry is the sum over c_j users. It differs from that multiple by a variance
// of about c_j, since users' coordinates have variance 1, and by s² from noise. So the weight of
// the entry is c_j/(c_j + s²). The remaining noise moves A_j·v_j by about s²‖v_j‖²/2 in each
// coordinate, which is added to η. The half comes from the entries of a packed matrix off the
// diagonal, which have half the variance.

// momentNoise holds the deviation of noise in moments, in units where a rating of σ_i = 1 counts as
// one, and the mean second moments of a rating.
type momentNoise struct {
	second, first float64
	scale         float64
	mean          []float64 // packed
}

func (x *momentNoise) is() bool { return x.second > 0 || x.first > 0 }

// noiseOfMoments computes the noise of a sum, which times scale counts a rating as one.
func noiseOfMoments(s *serving.Strategy, r serving.Absorbed, scale float64) *momentNoise {
	p, size := &s.Params.Params, s.Params.PackedJoint()
	x := &momentNoise{second: r.Noise[kernel.SecondMoments] * scale, first: r.Noise[kernel.FirstMoments] * scale, scale: scale, mean: make([]float64, size)}
	if !x.is() {
		return x
	}
	for j := range p.Items {
		dense.Axpy(x.mean, 1, r.Values[kernel.SecondMoments][j*size:(j+1)*size])
	}
	if ratings := x.mean[size-1]; ratings > 0 {
		x.mean = dense.Scaled(x.mean, 1/ratings)
	} else {
		clear(x.mean)
	}
	return x
}

// discounted computes the discounted equations of items, one after the other.
type discounted struct {
	*momentNoise
	strategy *serving.Strategy
	residual float64 // σ²
	eigen    *dense.Eigen
	packed   []float64
	right    []float64
}

// load sets a and b to the precision and the right side of item j, given the sums of its moments.
func (x *discounted) load(a, b []float64, j int, second, first []float64) {
	p, e := &x.strategy.Params.Params, len(b)
	c := max(x.scale*second[len(second)-1], 0)
	trust := 1.
	if x.second > 0 {
		trust = c / (c + dense.Sqr(x.second))
	}
	for i, y := range second {
		x.packed[i] = trust*x.scale*y + (1-trust)*c*x.mean[i]
	}
	dense.Unpack(a, x.packed, e, 1)
	x.eigen.Decompose(a)
	noise := dense.Sqr(x.first)
	for k := range e {
		noise += dense.Sqr(trust*x.second*x.strategy.Current().JointMean(p, j, k)) / 2
	}
	clear(x.right)
	for k, y := range first {
		dense.Axpy(x.right, x.scale*y, x.eigen.Vectors[k*e:(k+1)*e])
	}
	clear(a)
	clear(b)
	for i, value := range x.eigen.Values {
		if value == 0 {
			continue
		}
		by := value / (x.residual*value + noise)
		for k := range e {
			z := by * x.eigen.Vectors[k*e+i]
			b[k] += z * x.right[i]
			for l := range e {
				a[k*e+l] += z * value * x.eigen.Vectors[l*e+i]
			}
		}
	}
}
