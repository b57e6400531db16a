package fedssp

import (
	"math"
	"slices"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/fedssp/encoder"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// Gradient is the solver in which v_j takes projected steps against noisy sums of clipped gradients
// of single ratings (multi-task paper, Algorithm 2): DPSGD and AdaDPSGD.
var Gradient Solver = gradient{}

type gradient struct{ descending }

func (gradient) String() string { return namedGradient }

func (gradient) keys() []*config.Key {
	return []*config.Key{clipGradientKey.Key, radiusKey.Key, itemRateKey.Key, keys.itemRidge.Key, keys.itemPrior.Key, keys.startSpread.Key, keys.normItems.Key, keys.resample.Key}
}

var radiusKey, itemRateKey config.NumberKey

func declareGradient() {
	radiusKey = number("gradient.radius", clips(), func(s settings) bool { return s.solver() == namedGradient }, "1; 0.3 where biases come first, 4 without noise", "Largest norm of an item.",
		always(func(s settings) float64 {
			switch {
			case !s.private():
				return 4
			case s.biases():
				return 0.3
			default:
				return 1
			}
		}))
	itemRateKey = number("gradient.rate", config.Positive(), func(s settings) bool { return s.solver() == namedGradient }, "2", "Factor of the items' steps that theory proposes (multi-task, theorem 3.12).", value(2))
}

func (x gradient) read(p *Params, s settings) {
	x.descending.read(p, s)
	p.Descent.Radius, p.Descent.Rate = radiusKey.Value(s.Config), itemRateKey.Value(s.Config)
}

func (x gradient) check(p *Params, e *problems) {
	x.descending.check(p, e)
	if p.Rounds > 0 {
		e.within(radiusKey, p.Descent.Radius)
		e.within(itemRateKey, p.Descent.Rate)
		e.within(keys.startSpread, p.StartSpread)
	}
}

func (gradient) againstSums(*Params) string { return "" }

// encoder describes V as a table, one embedding for each item.
func (gradient) encoder(p *Params) (*dataset.ItemFeatures, encoder.Settings) {
	return nil, encoder.Settings{
		IDs: true, StartNorm: p.StartSpread * math.Sqrt(float64(p.Rank)),
		Optimiser: encoder.SGD, Rate: 1, Decay: encoder.Constant, Steps: 1,
	}
}

func (gradient) length(p *Params, name string) int { return p.statisticsLength(name, "", Gradients) }

func (gradient) ask(p *Params, to *Step, share float64) {
	to.add(p.rows(Gradients, p.Rank, p.itemsBound()), share)
}

func (gradient) contribute(c *contribution, _ string) (protocol.Vector, error) {
	ok, err := c.gradientAt(func(w *workspace) { w.fit(c.params, c.model) })
	if !ok {
		return protocol.Vector{Index: []uint32{}}, err
	}
	return c.byItems(), nil
}

func (gradient) begin(*Params) solving {
	return stateless{func(s *Strategy, r absorbed, run protocol.Runner) error {
		if s.weight == nil { // no weights: the length of a step cannot be computed
			return nil
		}
		s.descendItems(r, run)
		s.descended(run)
		return nil
	}}
}

// byItems is w_j·clip_Γ((prediction - y)·u) for each item.
func (c *contribution) byItems() protocol.Vector {
	p, u := c.params, slices.Clone(c.embedding())
	const less = 1 - 1e-15 // lest rounding passes the bound
	length, at := dense.Norm(u), make([]float64, p.Rank)
	v := protocol.Vector{Index: c.items(), Block: p.Rank, Factor: make([]float64, len(c.chosen)), Value: u}
	for i := range c.chosen {
		bound := c.weights[i] * p.Descent.Clip
		if length > 0 {
			v.Factor[i] = dense.Clamp(c.residual(i, c.model.parameters(int(v.Index[i])*p.Rank, at)), bound/length*less)
		}
	}
	restrain(v.Factor, dense.Norm(v.Factor)*length, p.itemsBound())
	return v
}

// descendItems is line 6 of Algorithm 2 of the multi-task paper for every item: a step against the
// noisy gradient and the ridge, then the projection on the ball of the radius. The length of a step
// follows Theorem 3.12 (a),
//
//	η_j = rate·radius/(G_j·√t), G_j² = (Γc_j + λ_j·radius)² + d·σ²,
//
// where G_j² bounds the mean square of the noisy gradient with the ridge. The released c_j = Σ w_j
// stands for ω_j n_j, σ² is the variance of the actual noise, and λ_j is the ridge. t counts
// through all outer steps.
func (s *Strategy) descendItems(r absorbed, run protocol.Runner) {
	p, n := &s.params.Params, s.params.total()/r.users
	y := system{p: p}
	y.weight, y.typical = s.weights()
	g, d, radius := dense.Scaled(r.values[Gradients], n), p.Rank, p.Descent.Radius
	noise := float64(d) * dense.Sqr(r.noise[Gradients]*n)
	length := p.Descent.Rate * radius / math.Sqrt(float64(s.sums()+1))
	dense.Blocks(run, p.Items, func(from, to int) {
		for j := from; j < to; j++ {
			v, ridge := s.encoder.Theta()[j*d:(j+1)*d], y.ridge(j)
			rate := length / math.Sqrt(dense.Sqr(p.Descent.Clip*y.weight[j]+ridge*radius)+noise)
			for i, x := range v {
				v[i] = x - rate*(g[j*d+i]+ridge*x)
			}
			clipUser(v, radius)
		}
	})
}
