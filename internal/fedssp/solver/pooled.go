package solver

import (
	"cmp"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/posterior"
	"github.com/fedsim/fedsim/internal/fedssp/serving"
	"github.com/fedsim/fedsim/internal/fedssp/settings"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Pooled is the solver that predicts v_j from features and weight of the item and adds an offset of
// the item's own. Each part is trusted as far as the statistics support it (package posterior).
// Ours; with one Gramian only.
var Pooled settings.Solver = pooled{}

type pooled struct{ Closed }

func (pooled) String() string { return "pooled" }

func (x pooled) Keys() []*config.Key {
	return x.With(decayKey.Key, settings.Keys.StartSpread.Key, settings.Keys.Optimiser.Key, settings.Keys.PopularityWeight.Key, settings.Keys.BiasTilt.Key)
}

var decayKey config.NumberKey

func init() {
	decayKey = settings.Number("statistics.decay", config.Below(0, 1), settings.With(Pooled), "0.5; 0.8 of many rounds",
		"Weight of an earlier round's statistics, relative to the round after it.", settings.Always(func(s settings.Settings) float64 { return settings.Either(s.ManySteps(), 0.8, 0.5) }))
}

func (pooled) Read(p *kernel.Params, s settings.Settings) { p.Pool.Decay = decayKey.Value(s.Config) }

// Serves takes one Gramian, and one sum of a round.
func (pooled) Serves(s settings.Settings) bool { return s.PrefersExact() }

// Traits clips residuals without noise, too: the bound limits the influence of one rating on the
// priors.
func (pooled) Traits() kernel.Traits {
	return kernel.Traits{Learns: true, PredictsFromFeatures: true, Clips: true}
}

func (pooled) Begin(*kernel.Params) serving.Solving { return &Kept{} }

// PooledBiases returns the posterior means of item biases. The measured b_j is c_j times the bias,
// with the scatter of ratings and the noise of both releases: c_j is noisy as well, and its noise
// is multiplied by the bias. noise is the deviation of an item's noise. The donors' sums are a measurement of their own,
// with the scatter of ratings alone; nil: there are no donors.
func PooledBiases(s *serving.Strategy, moments, given, noise []float64) ([]float64, error) {
	p, n := &s.Params.Params, s.Params.Total()
	c, typical := s.Weights()
	x := posterior.Measurements{Value: moments, Gain: dense.Scaled(s.Weight, n), Variance: make([]float64, p.Items)}
	scatter := dense.Sqr(p.Residual(p.ClipBias)) * typical
	var d posterior.Design
	var start posterior.Prior
	if s.KnowsWeights() {
		k := s.ShrinkWeights(x.Gain)
		x.Gain = s.Ungiven(k.Mean)
		d = serving.Design(p.Features, k.Middle, 1e-9)
		if start = serving.Prior(d); p.Pool.Held() {
			start = serving.UsualPrior(p, d)
		}
		for j := range x.Variance {
			x.Variance[j] = dense.Sqr(noise[j]) + dense.Sqr(start.Own)*k.Variance[j] + scatter*x.Gain[j]
		}
	} else {
		d = serving.Design(p.Features, c, typical)
		start = serving.Prior(d)
		x.Gain, c = s.Ungiven(x.Gain), s.Ungiven(c)
		for j := range x.Variance {
			x.Variance[j] = dense.Sqr(noise[j]) + dense.Sqr(s.WeightNoiseOf(j)*n*serving.StartOwn) + scatter*c[j]
		}
	}
	if given != nil {
		x = x.Joined(posterior.Measurements{Value: given, Gain: s.Given, Variance: dense.Scaled(s.Given, scatter)})
	}
	b, effects, _, err := posterior.EstimateEffects(d, x, start, p.Pool.Iterations)
	if err != nil {
		return nil, fmt.Errorf("fedssp: biases: %w", err)
	}
	if s.Chosen != nil {
		s.Current().RestBias = dense.ClampAll(s.DesignOfOthers(p.Features, s.Chosen.Rest).Predict(effects), p.ClipBias)
	}
	return dense.ClampAll(b, p.ClipBias), nil
}

// Kept holds the statistics of the outer steps so far; older ones weigh less.
type Kept struct {
	Weight   float64   // Σ precision·ρ^age; 0: nothing is kept
	variance float64   // of the noise in a coordinate of moments
	moments  []float64 // m x d
	gramian  []float64 // d x d
}

// Remember adds the statistics of a step to those kept, replaces them by the mean of all, and
// returns the variance of the noise in a coordinate of moments.
func (k *Kept) Remember(s *serving.Strategy, y *serving.Equations, noise float64) float64 {
	rho, precision := s.Params.Pool.Decay, precision(s, noise)
	if k.Weight == 0 {
		k.moments, k.gramian = make([]float64, len(y.B)), make([]float64, len(y.Gramian))
	}
	k.Weight = precision + rho*k.Weight
	k.variance = dense.Sqr(precision*noise) + dense.Sqr(rho)*k.variance
	for i, x := range y.B {
		k.moments[i] = precision*x + rho*k.moments[i]
		y.B[i] = k.moments[i] / k.Weight
	}
	for i, x := range y.Gramian {
		k.gramian[i] = precision*x + rho*k.gramian[i]
		y.Gramian[i] = k.gramian[i] / k.Weight
	}
	return k.variance / dense.Sqr(k.Weight)
}

// precision is the weight of a step's statistics: the inverse variance of the noise in a coordinate
// of moments, relative to the last step without dropouts. It is not 1 if budgets grow from step to
// step, or if a step had dropouts.
func precision(s *serving.Strategy, noise float64) float64 {
	last := s.Params.Steps[len(s.Params.Steps)-1]
	for _, r := range last.Releases {
		if r.Name == kernel.Moments && noise > 0 {
			return dense.Sqr(serving.Deviation(r) / noise)
		}
	}
	return 1
}

// Solve sets V to posterior means. In the eigenbasis of the single Gramian every coordinate of v_j
// has a measurement of its own. It is the coordinate times c_j and an eigenvalue, with the scatter
// of ratings, which the eigenvalue also scales, and noise of one size. Each coordinate has a prior
// of its own.
func (k *Kept) Solve(s *serving.Strategy, r serving.Absorbed, run protocol.Runner) error {
	n := s.Times(r)
	y := s.Equations(r, n, kernel.Gramians, kernel.Moments)
	return k.solveFor(s, y, s.Join(y, k.Remember(s, y, r.Noise[kernel.Moments]*n)), run)
}

// Resume sets V to posterior means by earlier sums: the prior of the sums to come.
func (k *Kept) Resume(s *serving.Strategy, run protocol.Runner) error {
	y, variance := s.EquationsBefore()
	if y == nil {
		return nil
	}
	start := slices.Clone(s.Current().Items)
	if err := k.solveFor(s, y, variance, run); err != nil {
		return err
	}
	revive(s.Current().Items, start, s.Params.Rank)
	return nil
}

// asleep is the size of a coordinate of V, relative to the start, below which nothing would be learned in it any more.
const asleep = 0.1

// revive takes coordinates of V from the start where earlier sums turned them off: users who are fitted to zeros would add nothing
// to any later sum.
func revive(v, start []float64, d int) {
	for k := range d {
		var now, then float64
		for at := k; at < len(v); at += d {
			now += v[at] * v[at]
			then += start[at] * start[at]
		}
		if now >= asleep*asleep*then {
			continue
		}
		for at := k; at < len(v); at += d {
			v[at] = start[at]
		}
	}
}

// solveFor is Solve of equations, with the noise variance of each item's coordinates.
func (k *Kept) solveFor(s *serving.Strategy, y *serving.Equations, variance []float64, run protocol.Runner) error {
	p, d, m := &s.Params.Params, s.Params.Rank, s.Params.Items
	e := dense.NewEigen(d)
	e.Decompose(y.Gramian)
	design, raw := serving.Design(serving.Plain(p.Features), y.Weight, y.Typical), dense.Scaled(s.Weight, s.Params.Total())
	if y.Gains != nil {
		raw = y.Gains
	}
	scatter := dense.Sqr(p.Residual(p.TargetBound())) * y.Typical
	turned := make([]float64, m*d)
	rows := func(x []float64) blas64.General { return blas64.General{Rows: m, Cols: d, Stride: d, Data: x} }
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, rows(y.B), dense.General(e.Vectors, d, d), 0, rows(turned))
	effects, errs := make([][]float64, d), make([]error, d)
	run.Each(d, func(k int) {
		x := posterior.Measurements{Value: make([]float64, m), Gain: make([]float64, m), Variance: make([]float64, m)}
		for j := range m {
			x.Value[j] = turned[j*d+k]
			// The weight is used as released: a floor would turn unknown weights into noise.
			x.Gain[j] = max(y.Share[j]-y.Weight[j]+raw[j], 0) * e.Values[k]
			x.Variance[j] = variance[j] + scatter*x.Gain[j]
		}
		v, of, _, err := posterior.EstimateEffects(design, x, serving.ItemsPrior(p, design), p.Pool.Iterations)
		if errs[k] = err; err != nil {
			return
		}
		effects[k] = of
		for j, value := range v {
			turned[j*d+k] = value
		}
	})
	if err := cmp.Or(errs...); err != nil {
		return fmt.Errorf("fedssp: embeddings: %w", err)
	}
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, rows(turned), dense.General(e.Vectors, d, d), 0, rows(s.Current().Items))
	if s.Chosen != nil && s.Chosen.Rest != nil {
		s.Current().Rest = predictOthers(s.DesignOfOthers(serving.Plain(p.Features), serving.Plain(s.Chosen.Rest)), effects, dense.General(e.Vectors, d, d))
	}
	return nil
}

// predictOthers returns the embeddings that the effects of each coordinate of a basis predict,
// rotated back from that basis.
func predictOthers(design posterior.Design, effects [][]float64, basis blas64.General) []float64 {
	n, d := design.Items(), len(effects)
	turned, out := make([]float64, n*d), make([]float64, n*d)
	for k, of := range effects {
		for j, x := range design.Predict(of) {
			turned[j*d+k] = x
		}
	}
	rows := func(x []float64) blas64.General { return blas64.General{Rows: n, Cols: d, Stride: d, Data: x} }
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, rows(turned), basis, 0, rows(out))
	return out
}

// Save returns weight ‖ variance ‖ moments (m·d) ‖ gramian (d·d); nil if nothing is kept.
func (k *Kept) Save() []byte {
	if k.Weight == 0 {
		return nil
	}
	return model.AppendFloats(nil, slices.Concat([]float64{k.Weight, k.variance}, k.moments, k.gramian)...)
}

// Restore reads what Save returned.
func (*Kept) Restore(p *kernel.Params, b []byte) (serving.Solving, error) {
	if b == nil {
		return &Kept{}, nil
	}
	at, d := 2+p.Items*p.Rank, p.Rank
	x, err := kernel.Finite("earlier statistics", b, at+d*d)
	if err != nil {
		return nil, err
	}
	return &Kept{Weight: x[0], variance: x[1], moments: x[2:at], gramian: x[at:]}, nil
}
