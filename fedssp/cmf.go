package fedssp

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// CMF is ALS with exact statistics of public features added (DP-CMF).
var CMF Solver = cmf{}

type cmf struct{ closed }

func (cmf) String() string { return namedCMF }

func (x cmf) keys() []*config.Key {
	return append(x.closed.keys(), keys.itemRidge.Key, keys.itemPrior.Key, keys.startSpread.Key,
		featureWeightKey.Key, featureRidgeKey.Key, unobservedFeatureKey.Key, sweepsKey.Key)
}

var featureWeightKey, featureRidgeKey, unobservedFeatureKey, sweepsKey config.NumberKey

// declareCMF declares the keys of the factorization of features: see [CMFParams].
func declareCMF() {
	featureWeightKey = number("cmf.feature-weight", config.Positive(), byCMF, "0.2; 1 where little can be learned", "Weight of a feature beside a rating.",
		byFacts(func(s settings, f *config.Facts) float64 { return either(s.scarce(f), 1, 0.2) }))
	plain := func(name, standard string, r config.Range, help string) config.NumberKey {
		return config.DeclareNumber(config.Key{Name: "cmf." + name, Kind: config.Real, Default: standard, Range: r, When: byCMF.when(), Help: help})
	}
	featureRidgeKey = plain("feature-ridge", "0.1", config.Positive(), "Ridge of a feature's embedding.")
	unobservedFeatureKey = plain("unobserved", "0.1", config.Below(0, 1), "Weight of features that an item does not have.")
	sweepsKey = config.DeclareNumber(config.Key{
		Name: "cmf.sweeps", Kind: config.Whole, Default: "5", Range: config.AtLeast(1), When: byCMF.when(), Help: "How often features and items take turns in a round.",
	})
}
func (cmf) read(p *Params, s settings) {
	c := s.Config
	p.CMF = CMFParams{
		FeatureWeight: featureWeightKey.Value(c), FeatureRidge: featureRidgeKey.Value(c),
		Unobserved: unobservedFeatureKey.Value(c), Sweeps: sweepsKey.Int(c),
	}
}

func (cmf) speaks(*Params) bool { return true }

func (x cmf) check(p *Params, e *problems) {
	x.closed.check(p, e)
	p.CMF.check(p, e)
}

func (cmf) start(p *Params, v []float64, draw func() float64) { newCollective(p).start(v, draw) }

func (cmf) begin(p *Params) solving { return newCollective(p) }

// CMFParams holds the settings of collective factorization (DP-CMF). The features S of items are
// factored beside the ratings, S_jk ≈ <f_k, v_j>. S is public, so its statistics are exact.
type CMFParams struct {
	// FeatureWeight is α, the weight of an entry of S beside the summed weights of an item's
	// ratings.
	FeatureWeight float64
	// FeatureRidge is λ', the ridge on feature embeddings.
	FeatureRidge float64
	// Unobserved is the weight of a feature that an item does not have. A feature that it has
	// weighs 1.
	Unobserved float64
	// Sweeps is the number of times that features and items are solved for in turn, on the same
	// statistics. Sweeps cost no privacy.
	Sweeps int
}

func (c CMFParams) check(p *Params, e *problems) {
	if p.Features == nil {
		e.add("solver %s needs features of the items", CMF)
	} else if p.Features.Items == p.Items { // a wrong length is reported elsewhere
		for i := range p.Features.Categories {
			checkCategory(&p.Features.Categories[i], p.Items, e)
		}
	}
	e.within(featureWeightKey, c.FeatureWeight)
	e.within(featureRidgeKey, c.FeatureRidge)
	e.within(unobservedFeatureKey, c.Unobserved)
	e.within(sweepsKey, float64(c.Sweeps))
}

// checkCategory checks that a category of features has the right shape and positive weights.
func checkCategory(c *dataset.Category, items int, e *problems) {
	n := len(c.Value)
	if len(c.Start) != items+1 || c.Start[0] != 0 || int(c.Start[items]) != n || len(c.Weight) != n || !slices.IsSorted(c.Start) {
		e.add("the features of category %q are not rows of %d items", c.Name, items)
		return
	}
	for k, v := range c.Value {
		if v < 0 || int(v) >= len(c.Values) || !(c.Weight[k] > 0) || math.IsInf(c.Weight[k], 1) {
			e.add("entry %d of category %q is value %d of %d with weight %v; weights are positive and finite", k, c.Name, v, len(c.Values), c.Weight[k])
			return
		}
	}
}

// entry is a feature of an item, or an item of a feature.
type entry struct {
	index int
	value float64
}

// collective is the public side of DP-CMF.
type collective struct {
	CMFParams
	rank     int
	items    [][]entry // for each item, its features
	features [][]entry // for each feature, its items
	f        []float64 // feature embeddings, row by row
}

// newCollective numbers the features of all categories.
func newCollective(p *Params) *collective {
	c := &collective{CMFParams: p.CMF, rank: p.Rank}
	var features int
	c.items, features = entriesOf(p.Features)
	c.features = make([][]entry, features)
	for j, of := range c.items {
		for _, e := range of {
			c.features[e.index] = append(c.features[e.index], entry{j, e.value})
		}
	}
	c.f = make([]float64, features*p.Rank)
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
func (c *collective) others(y *system, v []float64, rest *dataset.ItemFeatures, run protocol.Runner) []float64 {
	c.fitFeatures(v, run)
	every, d := c.everyFeature(), c.rank
	items, _ := entriesOf(rest)
	out := make([]float64, len(items)*d)
	dense.Blocks(run, len(items), func(from, to int) {
		w := newWorker(d)
		for j := from; j < to; j++ {
			clear(w.a)
			clear(w.b)
			c.add(w, every, items[j])
			for i := range d {
				w.a[i*d+i] += (y.p.ItemRidge + y.p.ItemPrior) * y.typical
			}
			w.solve(out[j*d : (j+1)*d])
		}
	})
	return out
}

// start sets v to the mean of the embeddings of an item's features, whose coordinates are drawn.
// Items without a feature keep their rows.
func (c *collective) start(v []float64, draw func() float64) {
	for i := range c.f {
		c.f[i] = draw()
	}
	d := c.rank
	for j, of := range c.items {
		if len(of) == 0 {
			continue
		}
		row := v[j*d : (j+1)*d]
		clear(row)
		for _, e := range of {
			dense.Axpy(row, 1/float64(len(of)), c.f[e.index*d:(e.index+1)*d])
		}
	}
}

func (c *collective) solve(s *Strategy, r absorbed, run protocol.Runner) error {
	if s.weight == nil {
		return nil
	}
	y, v := s.system(r, s.times(r), Gramians, Moments), s.Current().Items
	c.alternate(y, v, run)
	if s.chosen != nil {
		s.Current().rest = c.others(y, v, s.chosen.rest, run)
	}
	s.Current().complete(&s.params.Params)
	return nil
}

// save and restore are empty: everything kept follows from V.
func (*collective) save(b []byte) []byte                                   { return b }
func (c *collective) restore(_ *Params, b []byte) (solving, []byte, error) { return c, b, nil }

// alternate solves, in turn, for the features against V and for V against both.
func (c *collective) alternate(y *system, v []float64, run protocol.Runner) {
	d := c.rank
	a, b := y.systems(run)
	for range c.Sweeps {
		c.fitFeatures(v, run)
		every := c.everyFeature()
		dense.Blocks(run, len(c.items), func(from, to int) {
			w := newWorker(d)
			for j := from; j < to; j++ {
				copy(w.a, a[j*d*d:])
				copy(w.b, b[j*d:])
				c.add(w, every, c.items[j])
				w.solve(v[j*d : (j+1)*d])
			}
		})
	}
}

// fitFeatures solves for every f_k against V: (Σ_j s_jk-weighted v vᵀ + λ'I) f_k = Σ_j S_jk v_j.
// The sum covers all items. Items without the feature have the small weight and the target 0.
func (c *collective) fitFeatures(v []float64, run protocol.Runner) {
	d := c.rank
	all := make([]float64, d*d)
	blas64.Syrk(blas.Trans, c.Unobserved, blas64.General{Rows: len(v) / d, Cols: d, Stride: d, Data: v}, 0, dense.Upper(all, d))
	run.Each(len(c.features), func(k int) {
		a := append([]float64(nil), all...)
		for i := range d {
			a[i*d+i] += c.FeatureRidge
		}
		f := c.f[k*d : (k+1)*d]
		c.gather(a, f, c.features[k], v)
		if !dense.SolveUpper(a, f, d) {
			clear(f)
		}
	})
}

// gather adds (1-unobserved)·Σ x xᵀ to the upper triangle of a and sets b to Σ value·x over the
// rows x of the entries.
func (c *collective) gather(a, b []float64, entries []entry, rows []float64) {
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
func (c *collective) add(w *worker, every []float64, features []entry) {
	clear(w.part)
	c.gather(w.part, w.scratch, features, c.f)
	for i := range w.a {
		w.a[i] += c.FeatureWeight * (w.part[i] + every[i])
	}
	dense.Axpy(w.b, c.FeatureWeight, w.scratch)
}

// everyFeature is unobserved·Σ_k f_k f_kᵀ, upper triangle.
func (c *collective) everyFeature() []float64 {
	d := c.rank
	a := make([]float64, d*d)
	blas64.Syrk(blas.Trans, c.Unobserved, blas64.General{Rows: len(c.f) / d, Cols: d, Stride: d, Data: c.f}, 0, dense.Upper(a, d))
	return a
}
