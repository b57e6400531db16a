package fedssp

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/fedssp/posterior"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// Pooled is the solver that predicts v_j from features and weight of the item and adds an offset of
// the item's own. Each part is trusted as far as the statistics support it (package posterior).
// Ours; with one Gramian only.
var Pooled Solver = pooled{}

type pooled struct{ closed }

func (pooled) String() string { return namedPooled }

func (x pooled) keys() []*config.Key {
	return append(x.closed.keys(), decayKey.Key, keys.startSpread.Key, keys.optimiser.Key, keys.popularityWeight.Key)
}

var decayKey config.NumberKey

func declarePooled() {
	decayKey = number("statistics.decay", config.Below(0, 1), func(s settings) bool { return s.solver() == namedPooled }, "0.5; 0.8 of many rounds",
		"Weight of an earlier round's statistics, relative to the round after it.", always(func(s settings) float64 { return either(s.manySteps(), 0.8, 0.5) }))
}

func (pooled) read(p *Params, s settings) { p.Pool.Decay = decayKey.Value(s.Config) }

func (pooled) learns() bool        { return true }
func (pooled) speaks(*Params) bool { return true }

func (pooled) check(p *Params, e *problems) {
	if p.Gramian != One {
		e.add("solver %s needs gramian %s", Pooled, One)
	}
	checkUserRidge(p, e)
	checkClips(p, e, true)
	checkStart(p, e)
}

func (pooled) begin(*Params) solving { return &kept{} }

// PoolParams holds the settings of learned priors (package posterior). An item's bias and embedding
// before its ratings follow from its features and from how often it is rated. The statistics say
// how far to trust that. All of it is post-processing.
type PoolParams struct {
	// Iterations counts the iterations of EM that learn the priors; at least 1.
	Iterations int
	// Strength is the weight of public typical values in the learned priors of biases, in items; 0:
	// none. If it is positive, typical values also hold the mean and the law of items' weights
	// (usual.go).
	Strength float64
	// Decay is ρ, from 0 to below 1. Statistics of an outer step weigh 1, those one step older ρ,
	// two steps older ρ², apart from the weights for their noise. Users' embeddings settle after a
	// few steps, and the noise of earlier releases averages out. Pooled solver only.
	Decay float64
}

func (c PoolParams) check(e *problems) {
	e.atLeast("pool-iterations", c.Iterations, 1)
	e.within(keys.priorStrength, c.Strength)
	e.within(decayKey, c.Decay)
}

// residual is s, the assumed standard deviation of a residual of a rating, from public numbers: a
// bit less than a star on a scale of five, and at most the clipping bound.
func (p *Params) residual(clip float64) float64 { return min((p.Max-p.Min)/4.5, clip) }

// EM begins with these priors, in rating units: near the largest plausible size of a bias or a
// coordinate. The result hardly depends on them.
const (
	startOwn      = 0.4
	startFeatures = 0.3
)

// maxColumns limits the features of a prior, because solving for their effects takes cubic time. Of
// a larger vocabulary the features of most items count.
const maxColumns = 500

// design returns the columns that posterior means rest on: 1 for each item, the standardised
// logarithm of its weight c_j, and its features, with norm 1 in each category. The weight counts
// because popular items are rated otherwise than rare ones. Weights below typical, the weight of a
// rating, count as typical. Without noise some items have weight zero, and their logarithms would
// hide the differences between the others.
func (p *Params) design(weight []float64, typical float64) posterior.Design {
	columns, group := p.columns()
	return designOf(p.Features, columns, group, standardLogs(weight, typical))
}

// designOfOthers returns the same columns for items that are not trained on, with the mean weight
// of the items that are. Their true weights are lower, but the effect of weights was learned among
// popular items and would say too much.
func (s *Strategy) designOfOthers() posterior.Design {
	columns, group := s.params.columns()
	return designOf(s.chosen.rest, columns, group, make([]float64, len(s.chosen.others)))
}

// columns returns the columns of features' values, and the groups of all columns.
func (p *Params) columns() (columns [][]int, group []int) {
	const fixed = 2 // the columns of 1 and of logarithms, a group each
	group = []int{0, 1}
	if p.Features == nil {
		return nil, group
	}
	columns, category := commonest(p.Features, maxColumns)
	for _, c := range category {
		group = append(group, fixed+c)
	}
	for _, values := range columns {
		for v, c := range values {
			if c >= 0 {
				values[v] = fixed + c
			}
		}
	}
	return columns, group
}

// designOf has a row for each of the logarithms, with the features of the item in the same place.
func designOf(f *dataset.ItemFeatures, columns [][]int, group []int, logs []float64) posterior.Design {
	d := posterior.Design{Start: []int{0}, Group: group}
	for j, x := range logs {
		d.Column = append(d.Column, 0, 1)
		d.Value = append(d.Value, 1, x)
		for c := range columns {
			d.Column, d.Value = appendFeatures(d.Column, d.Value, &f.Categories[c], columns[c], j)
		}
		d.Start = append(d.Start, len(d.Column))
	}
	return d
}

// standardLogs are the logarithms of weights, at least floor, with mean 0 and deviation 1.
func standardLogs(weight []float64, floor float64) []float64 {
	logs := make([]float64, len(weight))
	var sum, squares float64
	for j, c := range weight {
		logs[j] = math.Log(max(c, floor))
		sum += logs[j]
		squares += logs[j] * logs[j]
	}
	n := float64(len(logs))
	mean := sum / n
	deviation := math.Sqrt(max(squares/n-mean*mean, 0))
	for j := range logs {
		logs[j] -= mean
		if deviation > 1e-6 {
			logs[j] /= deviation
		} else {
			logs[j] = 0
		}
	}
	return logs
}

// usualPrior is the prior of biases that EM begins with if typical values hold it.
func (p *Params) usualPrior(d posterior.Design) posterior.Prior {
	width := p.Max - p.Min
	return posterior.Prior{Own: usualOwn * width, Groups: slices.Repeat([]float64{usualFeatures * width}, d.Groups()), Strength: p.Pool.Strength}
}

// itemsPrior is the prior of a coordinate of embeddings that EM begins with. If typical values hold
// the priors, embeddings have so small a budget that EM takes noise for differences between items.
// So V stays near zero, and users' fits near the biases, unless the evidence against it is strong.
func (p *Params) itemsPrior(d posterior.Design) posterior.Prior {
	if !p.Pool.held() {
		return prior(d)
	}
	few := p.usualPrior(d)
	few.Own, few.Strength = few.Own/10, 10*few.Strength
	for g := range few.Groups {
		few.Groups[g] /= 10
	}
	return few
}

// prior is the prior that EM begins with.
func prior(d posterior.Design) posterior.Prior {
	return posterior.Prior{Own: startOwn, Groups: slices.Repeat([]float64{startFeatures}, d.Groups())}
}

// pooledBiases returns the posterior means of item biases. The measured b_j is c_j times the bias,
// with the scatter of ratings and the noise of both releases: c_j is noisy as well, and its noise
// is multiplied by the bias.
func (s *Strategy) pooledBiases(moments []float64, noise float64) ([]float64, error) {
	p, n := &s.params.Params, s.params.total()
	c, typical := s.weights()
	x := posterior.Measurements{Value: moments, Gain: dense.Scaled(s.weight, n), Variance: make([]float64, p.Items)}
	scatter := dense.Sqr(p.residual(p.ClipBias)) * typical
	var d posterior.Design
	var start posterior.Prior
	if p.Pool.held() {
		k := shrink(x.Gain, s.weightNoise*n, n)
		x.Gain = k.mean
		d = p.design(k.middle, 1e-9)
		start = p.usualPrior(d)
		for j := range x.Variance {
			x.Variance[j] = dense.Sqr(noise) + dense.Sqr(start.Own)*k.variance[j] + scatter*k.mean[j]
		}
	} else {
		d = p.design(c, typical)
		start = prior(d)
		for j := range x.Variance {
			x.Variance[j] = dense.Sqr(noise) + dense.Sqr(s.weightNoise*n*startOwn) + scatter*c[j]
		}
	}
	b, effects, _, err := posterior.EstimateEffects(d, x, start, p.Pool.Iterations)
	if err != nil {
		return nil, fmt.Errorf("fedssp: biases: %w", err)
	}
	if s.chosen != nil {
		s.Current().restBias = dense.ClampAll(s.designOfOthers().Predict(effects), p.ClipBias)
	}
	return dense.ClampAll(b, p.ClipBias), nil
}

// kept holds the statistics of the outer steps so far; older ones weigh less.
type kept struct {
	weight   float64   // Σ precision·ρ^age; 0: nothing is kept
	variance float64   // of the noise in a coordinate of moments
	moments  []float64 // m x d
	gramian  []float64 // d x d
}

// remember adds the statistics of a step to those kept, replaces them by the mean of all, and
// returns the variance of the noise in a coordinate of moments.
func (k *kept) remember(s *Strategy, y *system, noise float64) float64 {
	rho, precision := s.params.Pool.Decay, s.precision(noise)
	if k.weight == 0 {
		k.moments, k.gramian = make([]float64, len(y.b)), make([]float64, len(y.gramian))
	}
	k.weight = precision + rho*k.weight
	k.variance = dense.Sqr(precision*noise) + dense.Sqr(rho)*k.variance
	for i, x := range y.b {
		k.moments[i] = precision*x + rho*k.moments[i]
		y.b[i] = k.moments[i] / k.weight
	}
	for i, x := range y.gramian {
		k.gramian[i] = precision*x + rho*k.gramian[i]
		y.gramian[i] = k.gramian[i] / k.weight
	}
	return k.variance / dense.Sqr(k.weight)
}

// precision is the weight of a step's statistics: the inverse variance of the noise in a coordinate
// of moments, relative to the last step without dropouts. It is not 1 if budgets grow from step to
// step, or if a step had dropouts.
func (s *Strategy) precision(noise float64) float64 {
	last := s.params.Steps[len(s.params.Steps)-1]
	for _, r := range last.Releases {
		if r.Name == Moments && noise > 0 {
			return dense.Sqr(deviation(r) / noise)
		}
	}
	return 1
}

// solve sets V to posterior means. In the eigenbasis of the single Gramian every coordinate of v_j
// has a measurement of its own. It is the coordinate times c_j and an eigenvalue, with the scatter
// of ratings, which the eigenvalue also scales, and noise of one size. Each coordinate has a prior
// of its own.
func (k *kept) solve(s *Strategy, r absorbed, run protocol.Runner) error {
	if s.weight == nil {
		return nil
	}
	p, d, m, n := &s.params.Params, s.params.Rank, s.params.Items, s.times(r)
	y := s.system(r, n, Gramians, Moments)
	variance := k.remember(s, y, r.noise[Moments]*n)
	e := dense.NewEigen(d)
	e.Decompose(y.gramian)
	design, raw := p.design(y.weight, y.typical), dense.Scaled(s.weight, s.params.total())
	scatter := dense.Sqr(p.residual(p.targetBound())) * y.typical
	turned := make([]float64, m*d)
	rows := func(x []float64) blas64.General { return blas64.General{Rows: m, Cols: d, Stride: d, Data: x} }
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, rows(y.b), dense.Square(e.Vectors, d), 0, rows(turned))
	effects, errs := make([][]float64, d), make([]error, d)
	run.Each(d, func(k int) {
		x := posterior.Measurements{Value: make([]float64, m), Gain: make([]float64, m), Variance: make([]float64, m)}
		for j := range m {
			x.Value[j] = turned[j*d+k]
			// The weight is used as released: a floor would turn unknown weights into noise.
			x.Gain[j] = max(y.share[j]-y.weight[j]+raw[j], 0) * e.Values[k]
			x.Variance[j] = variance + scatter*x.Gain[j]
		}
		v, of, _, err := posterior.EstimateEffects(design, x, p.itemsPrior(design), p.Pool.Iterations)
		if errs[k] = err; err != nil {
			return
		}
		effects[k] = of
		for j, value := range v {
			turned[j*d+k] = value
		}
	})
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("fedssp: embeddings: %w", err)
		}
	}
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, rows(turned), dense.Square(e.Vectors, d), 0, rows(s.Current().Items))
	if s.chosen != nil && s.chosen.rest != nil {
		s.Current().rest = predictOthers(s.designOfOthers(), effects, dense.Square(e.Vectors, d))
	}
	s.Current().complete(p)
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

// save appends weight ‖ variance ‖ (moments (m·d) ‖ gramian (d·d), if weight is not 0).
func (k *kept) save(b []byte) []byte {
	return appendFloats(appendFloats(appendFloats(b, k.weight, k.variance), k.moments...), k.gramian...)
}

func (*kept) restore(p *Params, b []byte) (solving, []byte, error) {
	m, d := p.Items, p.Rank
	end := 16
	if len(b) >= 8 && floatAt(b, 0) != 0 {
		end += 8 * (m*d + d*d)
	}
	if len(b) < end {
		return nil, nil, fmt.Errorf("fedssp: the state has %d bytes of earlier statistics and more; there must be %d", len(b), end)
	}
	x := numbers(b[:end])
	for i, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) || i < 2 && v < 0 {
			return nil, nil, fmt.Errorf("fedssp: the state's earlier statistics hold %v at place %d; they are finite, and weight and variance not negative", v, i)
		}
	}
	k := &kept{weight: x[0], variance: x[1]}
	if k.weight != 0 {
		k.moments, k.gramian = x[2:2+m*d], x[2+m*d:]
	}
	return k, b[end:], nil
}
