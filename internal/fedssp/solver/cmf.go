package solver

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/serving"
	"github.com/fedsim/fedsim/internal/fedssp/settings"
	"github.com/fedsim/fedsim/protocol"
)

// CMF is ALS with exact statistics of public features added (DP-CMF).
var CMF settings.Solver = cmf{}

type cmf struct{ Closed }

func (cmf) String() string { return "cmf" }

func (cmf) Traits() kernel.Traits { return kernel.Traits{ByItem: true, PredictsFromFeatures: true} }

func (x cmf) Keys() []*config.Key {
	return x.With(settings.Keys.ItemRidge.Key, settings.Keys.ItemPrior.Key, settings.Keys.StartSpread.Key,
		featureWeightKey.Key, unobservedFeatureKey.Key, sweepsKey.Key)
}

// featureRidge is λ', the ridge on a feature's embedding.
const featureRidge = 0.1

var featureWeightKey, unobservedFeatureKey, sweepsKey config.NumberKey

// init declares the keys of the factorization of features: see [kernel.CMFParams].
func init() {
	featureWeightKey = settings.Number("cmf.feature-weight", config.Positive(), settings.With(CMF), "0.2; 1 where little can be learned", "Weight of a feature beside a rating.",
		settings.ByFacts(func(s settings.Settings, f *config.Facts) float64 { return settings.Either(s.Scarce(f), 1, 0.2) }))
	unobservedFeatureKey = config.DeclareNumber(config.Key{
		Name: "cmf.unobserved", Kind: config.Real, Default: "0.1", Range: config.Below(0, 1), When: settings.When(settings.With(CMF)), Help: "Weight of features that an item does not have.",
	})
	sweepsKey = config.DeclareNumber(config.Key{
		Name: "cmf.sweeps", Kind: config.Whole, Default: "5", Range: config.AtLeast(1), When: settings.When(settings.With(CMF)), Help: "How often features and items take turns in a round.",
	})
}

// Defaults leaves little to learn beside biases under noise.
func (cmf) Defaults(s settings.Settings) (own settings.SolverDefaults) {
	if s.Private() && s.Biases() {
		own = settings.SolverDefaults{Rounds: 4, UserRidge: 2, ItemPrior: 10}
	}
	return own
}

func (cmf) Read(p *kernel.Params, s settings.Settings) {
	c := s.Config
	p.CMF = kernel.CMFParams{
		FeatureWeight: featureWeightKey.Value(c),
		Unobserved:    unobservedFeatureKey.Value(c), Sweeps: sweepsKey.Int(c),
	}
}

func (cmf) Start(p *kernel.Params, v []float64, draw func() float64) { NewCollective(p).start(v, draw) }

func (cmf) Begin(p *kernel.Params) serving.Solving { return NewCollective(p) }

// entry is a feature of an item, or an item of a feature.
type entry struct {
	index int
	value float64
}

// Collective is the public side of DP-CMF.
type Collective struct {
	kernel.CMFParams
	resuming
	rank     int
	items    [][]entry // for each item, its features
	features [][]entry // for each feature, its items
	F        []float64 // feature embeddings, row by row
}

// NewCollective numbers the features of all categories.
func NewCollective(p *kernel.Params) *Collective {
	c := &Collective{CMFParams: p.CMF, rank: p.Rank}
	c.resuming = c.solveFor
	var features int
	c.items, features = entriesOf(p.Features)
	c.features = make([][]entry, features)
	for j, of := range c.items {
		for _, e := range of {
			c.features[e.index] = append(c.features[e.index], entry{j, e.value})
		}
	}
	c.F = make([]float64, features*p.Rank)
	return c
}

// entriesOf returns the features of each item, numbered through all categories, and the number of
// features.
func entriesOf(f *dataset.ItemFeatures) (items [][]entry, features int) {
	items = make([][]entry, f.Items)
	for _, cat := range f.Categories {
		for j := range items {
			for k := cat.Start[j]; k < cat.Start[j+1]; k++ {
				items[j] = append(items[j], entry{features + int(cat.Value[k]), cat.Weight[k]})
			}
		}
		features += len(cat.Values)
	}
	return items, features
}

// others returns embeddings of items without statistics. They follow from the items' features, with
// the ridge of one rating.
func (c *Collective) others(y *serving.Equations, v []float64, rest *dataset.ItemFeatures, run protocol.Runner) []float64 {
	c.fitFeatures(v, run)
	every, d := c.everyFeature(), c.rank
	items, _ := entriesOf(rest)
	out := make([]float64, len(items)*d)
	dense.Blocks(run, len(items), func(from, to int) {
		w := serving.NewWorker(d)
		for j := from; j < to; j++ {
			clear(w.A)
			clear(w.B)
			c.add(w, every, items[j])
			for i := range d {
				w.A[i*d+i] += (y.Params.ItemRidge + y.Params.ItemPrior) * y.Typical
			}
			w.Solve(out[j*d : (j+1)*d])
		}
	})
	return out
}

// start sets v to the mean of the embeddings of an item's features, whose coordinates are drawn.
// Items without a feature keep their rows.
func (c *Collective) start(v []float64, draw func() float64) {
	for i := range c.F {
		c.F[i] = draw()
	}
	d := c.rank
	for j, of := range c.items {
		if len(of) == 0 {
			continue
		}
		row := v[j*d : (j+1)*d]
		clear(row)
		for _, e := range of {
			dense.Axpy(row, 1/float64(len(of)), c.F[e.index*d:(e.index+1)*d])
		}
	}
}

func (c *Collective) solveFor(s *serving.Strategy, y *serving.Equations, run protocol.Runner) {
	v := s.Current().Items
	c.Alternate(y, v, run)
	if s.Chosen != nil {
		s.Current().Rest = c.others(y, v, s.Chosen.Rest, run)
	}
}

// Alternate solves, in turn, for the features against V and for V against both.
func (c *Collective) Alternate(y *serving.Equations, v []float64, run protocol.Runner) {
	d := c.rank
	a, b := y.Systems(run)
	for range c.Sweeps {
		c.fitFeatures(v, run)
		every := c.everyFeature()
		dense.Blocks(run, len(c.items), func(from, to int) {
			w := serving.NewWorker(d)
			for j := from; j < to; j++ {
				copy(w.A, a[j*d*d:])
				copy(w.B, b[j*d:])
				c.add(w, every, c.items[j])
				w.Solve(v[j*d : (j+1)*d])
			}
		})
	}
}

// fitFeatures solves for every f_k against V: (Σ_j s_jk-weighted v vᵀ + λ'I) f_k = Σ_j S_jk v_j.
// The sum covers all items. Items without the feature have the small weight and the target 0.
func (c *Collective) fitFeatures(v []float64, run protocol.Runner) {
	d := c.rank
	all := make([]float64, d*d)
	blas64.Syrk(blas.Trans, c.Unobserved, blas64.General{Rows: len(v) / d, Cols: d, Stride: d, Data: v}, 0, dense.Upper(all, d))
	run.Each(len(c.features), func(k int) {
		a := append([]float64(nil), all...)
		for i := range d {
			a[i*d+i] += featureRidge
		}
		f := c.F[k*d : (k+1)*d]
		c.gather(a, f, c.features[k], v)
		if !dense.SolveUpper(a, f, d) {
			clear(f)
		}
	})
}

// gather adds (1-unobserved)·Σ x xᵀ to the upper triangle of a and sets b to Σ value·x over the
// rows x of the entries.
func (c *Collective) gather(a, b []float64, entries []entry, rows []float64) {
	d := c.rank
	clear(b)
	for _, e := range entries {
		x := rows[e.index*d : (e.index+1)*d]
		dense.Axpy(b, e.value, x)
		for i, xi := range x {
			dense.Axpy(a[i*d+i:(i+1)*d], (1-c.Unobserved)*xi, x[i:])
		}
	}
}

// add adds α times the exact statistics of an item's features to the system in w. every is
// unobserved·Σ f fᵀ over all features.
func (c *Collective) add(w *serving.Worker, every []float64, features []entry) {
	clear(w.Part)
	c.gather(w.Part, w.Scratch, features, c.F)
	for i := range w.A {
		w.A[i] += c.FeatureWeight * (w.Part[i] + every[i])
	}
	dense.Axpy(w.B, c.FeatureWeight, w.Scratch)
}

// everyFeature is unobserved·Σ_k f_k f_kᵀ, upper triangle.
func (c *Collective) everyFeature() []float64 {
	d := c.rank
	a := make([]float64, d*d)
	blas64.Syrk(blas.Trans, c.Unobserved, blas64.General{Rows: len(c.F) / d, Cols: d, Stride: d, Data: c.F}, 0, dense.Upper(a, d))
	return a
}
