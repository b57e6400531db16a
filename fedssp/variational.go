package fedssp

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/posterior"
	"github.com/fedsim/fedsim/internal/dense"
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
var Variational Solver = variational{}

type variational struct{ closed }

func (variational) String() string { return namedVariational }

func (x variational) keys() []*config.Key {
	return append(x.closed.keys(), posteriorsKey.Key, keys.startSpread.Key, keys.optimiser.Key, keys.popularityWeight.Key)
}

func (variational) learns() bool { return true }
func (variational) exact() bool  { return true }

var posteriorsKey config.TextKey

// declarePosteriors declares the key that chooses this solver. Keys are chosen in the order of
// their declaration, so this key comes before the keys that depend on it.
func declarePosteriors() {
	// Keys are chosen in this order: this key comes before the keys that depend on it.
	posteriorsKey = config.DeclareText(config.Key{
		Name: "statistics.posteriors", Kind: config.Word, Default: "auto", Auto: "yes of ssp-c without noise or where it is small: ε at least 100, and ε·users at least 3000 times the items, at most 20000", Words: []string{yes, no},
		When:       condition(func(s settings) bool { return s.items() && s.form().has(namedVariational) && !s.implicit() }).when(),
		Help:       "Whether users send moments of the posteriors of their embeddings, not embeddings as if they were certain, and items have posteriors.",
		ChooseWord: func(c config.Config, f *config.Facts) string { return settingsOf(c).posteriors(f) },
		Check: func(c config.Config) string {
			if posteriorsKey.Is(c, yes) {
				return settingsOf(c).problemOfPosteriors()
			}
			return ""
		},
	})
}

// finer rounds contributions more finely than noise requires. Without noise a rating is a small
// part of its bound.
func (variational) finer(p *Params) float64 { return either(p.bounded(), 1, 256) }

func (variational) check(p *Params, e *problems) {
	if p.Gramian != PerItem || !p.Bias || p.Budgeting != Weights || p.SamplingRate > 0 && p.SamplingRate < 1 {
		e.add("solver %s needs gramian %s, a bias stage, weights and all users in every sum", Variational, PerItem)
	}
	if p.bounded() {
		e.within(keys.perUser, float64(p.PerUser))
	} else if p.NormItems > 0 {
		e.add("solver %s bounds all of a user's moments only if per-user is positive; norm-items must be 0", Variational)
	}
	checkClips(p, e, true)
	checkStart(p, e)
}

func (variational) length(p *Params, name string) int {
	switch name {
	case Gramian:
		return p.packed()
	case Scales:
		return numScales
	case SecondMoments:
		return p.Items * p.packedJoint()
	case FirstMoments:
		return p.Items * p.joint()
	default:
		return 0
	}
}

// ask adds the sums of a step ([variational.contribute]). Without noise no rating weighs more than
// 1/√m. If all of a user's moments are bounded together, one item may have all of them.
func (variational) ask(p *Params, to *Step, share float64) {
	second, first := share*p.Split.Gramian, share*(1-p.Split.Gramian)
	norm2 := p.ClipUser * p.ClipUser
	items, biased := p.rows(SecondMoments, p.packedJoint(), norm2), p.rows(FirstMoments, p.joint(), p.itemsBound())
	if !p.bounded() {
		each := 1 / math.Sqrt(float64(p.Items))
		items.LInf *= each
		biased.LInf *= each
	}
	to.add(p.gramianRelease(), second*commonShare)
	to.add(protocol.Release{Name: Scales, Len: numScales, L2: p.scalesBound() * math.Sqrt(numScales), LInf: p.scalesBound(), MaxNonZero: numScales}, second*commonShare)
	to.add(items, second*(1-2*commonShare))
	to.add(biased, first)
}

func (variational) fit(w *workspace, p *Params, m shared) { w.variational(p, m) }

func (variational) numbers(p *Params) int { return p.Items*p.packedJoint() + numVariances }

func (variational) open(p *Params, v *broadcast, take func(int, *[]byte)) {
	take(p.Items*p.packedJoint(), &v.covariance)
	take(numVariances, &v.spread)
}

func (variational) begin(*Params) solving {
	return stateless{func(s *Strategy, r absorbed, run protocol.Runner) error {
		if s.weight == nil {
			return nil
		}
		return s.solveVariational(r, run)
	}}
}

// Variances holds the variances that the variational solver learns. Variances of weights are
// relative to the size of their features.
type Variances struct {
	Residual   float64 // σ², in squared rating units
	UserBias   float64 // of b_i, in squared rating units
	Features   float64 // of each weight of a public feature
	Popularity float64 // of the weight of popularity
}

const numVariances = 4

// list returns all variances; none for nil.
func (v *Variances) list() []float64 {
	if v == nil {
		return nil
	}
	return []float64{v.Residual, v.UserBias, v.Features, v.Popularity}
}

func variancesOf(x []float64) *Variances { return &Variances{x[0], x[1], x[2], x[3]} }

// startVariances returns the variances of the first fit.
func (p *Params) startVariances() Variances {
	s := dense.Sqr((p.Max - p.Min) / 4)
	return Variances{Residual: 0.8 * s, UserBias: 0.2 * s, Features: 1, Popularity: 1}
}

// leastVariance keeps learned variances from zero, from where EM could not move them.
const leastVariance = 1e-6

// joint is e, the length of [v_j, b_j]; packedJoint is the length of its packed covariance.
func (p *Params) joint() int       { return p.Rank + 1 }
func (p *Params) packedJoint() int { return p.joint() * (p.joint() + 1) / 2 }

// itemPrior is the prior of [v_j, b_j]: m x e means, and e variances around them.
type itemPrior struct{ mean, variance []float64 }

// fitPrior returns the prior under which the posteriors of the items are likeliest. Its means are a
// regression on the design.
func (s *Strategy) fitPrior(d posterior.Design) (*itemPrior, error) {
	p, m, e := &s.params.Params, s.params.Items, s.params.joint()
	x := &itemPrior{mean: make([]float64, m*e), variance: make([]float64, e)}
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
		mean := func(j int) float64 { return s.Current().jointMean(p, j, k) }
		var around float64
		for j := range m {
			around += dense.Sqr(mean(j)) / float64(m)
		}
		a, w := make([]float64, n*n), make([]float64, n)
		copy(a, gram)
		for i := range n {
			a[i*n+i] += around/dense.Sqr(startFeatures) + leastVariance
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
			x.mean[j*e+k] = y
			sum += dense.Sqr(mean(j)-y) + s.Current().jointCovariance(p, j, k, k)
		}
		x.variance[k] = max(sum/float64(m), leastVariance)
	}
	return x, nil
}

// jointMean is coordinate k of the posterior mean of [v_j, b_j].
func (m *Model) jointMean(p *Params, j, k int) float64 {
	if k == p.Rank {
		return m.itemBias(j)
	}
	return m.Items[j*p.Rank+k]
}

// jointCovariance is the covariance of coordinates a >= b. At the start items are certain.
func (m *Model) jointCovariance(p *Params, j, a, b int) float64 {
	if m.Covariance == nil {
		return 0
	}
	x := m.Covariance[j*p.packedJoint()+a*(a+1)/2+b]
	if a != b {
		x /= math.Sqrt2
	}
	return x
}

// solveVariational sets the posteriors of all items, and the variances, from the sums of all N
// clients.
func (s *Strategy) solveVariational(r absorbed, run protocol.Runner) error {
	p, n := &s.params.Params, s.params.total()/r.users
	m, d, e, size := p.Items, p.Rank, p.joint(), p.packedJoint()
	c, typical := s.weights()
	design := p.design(c, typical)
	before, err := s.fitPrior(design)
	if err != nil {
		return err
	}
	v := s.Current().variances(p)
	scale := n * p.fullWeight() / v.Residual
	noise := s.momentNoise(r, n*p.fullWeight())
	second, first := r.values[SecondMoments], r.values[FirstMoments]
	covariance, bias := make([]float64, m*size), make([]float64, m)
	dense.Blocks(run, m, func(from, to int) {
		a, b := make([]float64, e*e), make([]float64, e)
		var of *discounted
		if noise.is() {
			of = noise.discounting(s, v.Residual)
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
				a[k*e+k] += 1 / before.variance[k]
				b[k] += before.mean[j*e+k] / before.variance[k]
			}
			// rounding made the matrix of an item with few ratings indefinite: use its prior
			if !dense.SolveUpper(a, b, e) {
				clear(a)
				for k := range e {
					a[k*e+k] = math.Sqrt(1 / before.variance[k])
				}
				copy(b, before.mean[j*e:(j+1)*e])
			}
			dense.InvertUpper(a, e)
			dense.Pack(covariance[j*size:(j+1)*size], a, e)
			copy(s.Current().Items[j*d:(j+1)*d], b)
			bias[j] = b[d]
		}
	})
	s.Current().Bias, s.Current().Covariance = bias, covariance
	s.Current().Variances = p.learn(v, r.values[Scales], r.noise[Scales])
	after, err := s.fitPrior(design)
	if err != nil {
		return err
	}
	s.turn(after, r.values[Gramian], r.users, run)
	return nil
}

// learn returns the likeliest variances, given the scales ([contribution.scales]) summed over
// users. A variance stays if one of its sums does not exceed the noise, whose deviation is given.
func (p *Params) learn(v Variances, sums []float64, noise float64) *Variances {
	x, told := make([]float64, len(sums)), make([]bool, len(sums))
	for i, y := range sums {
		x[i], told[i] = y*p.scaleUnit(i), y >= 2*noise
	}
	users := x[scaleUsers]
	if !(users > 0) || !told[scaleUsers] {
		return &v
	}
	if x[scaleRatings] > 0 && told[scaleRatings] && told[scaleResiduals] {
		v.Residual = max(x[scaleResiduals]/x[scaleRatings], leastVariance*dense.Sqr(p.Max-p.Min))
	}
	if told[scaleBias] {
		v.UserBias = max(x[scaleBias]/users, leastVariance*dense.Sqr(p.Max-p.Min))
	}
	// This is the fixed point of MacKay (1992). EM takes ten times the steps to reach it.
	if known := x[scaleKnown]; known > 0 && told[scaleKnown] && told[scaleFeatures] {
		v.Features = max(x[scaleFeatures]/known, leastVariance)
	}
	if told[scalePopularity] {
		v.Popularity = max(x[scalePopularity]/users, leastVariance)
	}
	return &v
}

// turn takes u to M⁻ᵀu and v to Mv, so that the second moment of users is I, and the second moment
// of items around their prior is diagonal.
func (s *Strategy) turn(prior *itemPrior, gramian []float64, users float64, run protocol.Runner) {
	p := &s.params.Params
	m, d, e, size := p.Items, p.Rank, p.joint(), p.packedJoint()
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
			x := s.Current().Items[j*d+a] - prior.mean[j*e+a]
			for b := range a + 1 {
				around[a*d+b] += x*(s.Current().Items[j*d+b]-prior.mean[j*e+b]) + s.Current().jointCovariance(p, j, a, b)
			}
		}
	}
	for a := range d {
		for b := range a {
			around[b*d+a] = around[a*d+b]
		}
	}
	half, turned := make([]float64, d*d), make([]float64, d*d)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, dense.Square(root, d), dense.Square(around, d), 0, dense.Square(half, d))
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, dense.Square(half, d), dense.Square(root, d), 0, dense.Square(turned, d))
	q := dense.NewEigen(d)
	q.Decompose(turned)
	matrix := make([]float64, e*e) // M, and 1 for b_j
	top := blas64.General{Rows: d, Cols: d, Stride: e, Data: matrix}
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, dense.Square(q.Vectors, d), dense.Square(root, d), 0, top)
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
			blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, dense.Square(matrix, e), dense.Square(full, e), 0, dense.Square(part, e))
			blas64.Gemm(blas.NoTrans, blas.Trans, 1, dense.Square(part, e), dense.Square(matrix, e), 0, dense.Square(full, e))
			dense.Pack(packed, full, e)
		}
	})
}
