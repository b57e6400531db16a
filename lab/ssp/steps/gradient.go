package steps

import (
	"math"
	"slices"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/fedssp/encoder"
	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/fedssp/serving"
	"github.com/fedsim/fedsim/fedssp/settings"
	"github.com/fedsim/fedsim/fedssp/solver"
	"github.com/fedsim/fedsim/fedssp/user"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// Gradient is the solver in which v_j takes projected steps against noisy sums of clipped gradients
// of single ratings (multi-task paper, Algorithm 2): DPSGD and AdaDPSGD.
var Gradient settings.Solver = gradient{}

type gradient struct{ descending }

func (gradient) String() string { return "gradient" }

func (gradient) Keys() []*config.Key {
	return []*config.Key{clipGradientKey.Key, radiusKey.Key, itemRateKey.Key, settings.Keys.ItemRidge.Key, settings.Keys.ItemPrior.Key, settings.Keys.StartSpread.Key, settings.Keys.NormItems.Key, settings.Keys.Resample.Key}
}

var radiusKey, itemRateKey config.NumberKey

func init() {
	radiusKey = settings.Number("gradient.radius", settings.Clips(), settings.With(Gradient), "1; 0.3 where biases come first, 4 without noise", "Largest norm of an item.",
		settings.Always(func(s settings.Settings) float64 {
			switch {
			case !s.Private():
				return 4
			case s.Biases():
				return 0.3
			default:
				return 1
			}
		}))
	itemRateKey = settings.Number("gradient.rate", config.Positive(), settings.With(Gradient), "2", "Factor of the items' steps that theory proposes (multi-task, theorem 3.12).", settings.Value(2))
}

func (x gradient) Traits() kernel.Traits {
	all := x.descending.Traits()
	all.Table = true
	return all
}

func (x gradient) Defaults(s settings.Settings) settings.SolverDefaults {
	own := x.descending.Defaults(s)
	own.ItemPrior = 10
	return own
}

func (x gradient) Read(p *kernel.Params, s settings.Settings) {
	x.descending.Read(p, s)
	own := Of(p)
	own.Radius, own.Rate = radiusKey.Value(s.Config), itemRateKey.Value(s.Config)
	p.Own = own
}

// Encoder describes V as a table, one embedding for each item.
func (gradient) Encoder(p *kernel.Params) (*dataset.ItemFeatures, encoder.Settings) {
	return nil, encoder.Settings{
		IDs: true, StartNorm: p.StartSpread * math.Sqrt(float64(p.Rank)),
		Optimiser: encoder.SGD, Rate: 1, Decay: encoder.Constant, Steps: 1,
	}
}

func (gradient) AppendReleases(p *kernel.Params, to *kernel.Step, share float64) {
	to.Add(solver.Rows(p, gradients, p.Rank, p.ItemsBound()), share)
}

func (gradient) Contribute(c *user.Contribution, _ string) (protocol.Vector, error) {
	ok, err := gradientAt(c, func(w *user.Workspace) { w.Fit(c.Params, c.Model) })
	if !ok {
		return protocol.Vector{Index: []uint32{}}, err
	}
	return byItems(c), nil
}

func (gradient) Begin(*kernel.Params) serving.Solving {
	return solver.Stateless(func(s *serving.Strategy, r serving.Absorbed, run protocol.Runner) error {
		DescendItems(s, r, run)
		s.Descended(run)
		return nil
	})
}

// byItems is w_j·clip_Γ((prediction - y)·u) for each item.
func byItems(c *user.Contribution) protocol.Vector {
	p, u := c.Params, slices.Clone(c.Embedding())
	const less = 1 - 1e-15 // lest rounding passes the bound
	length := dense.Norm(u)
	v := protocol.Vector{Index: c.Items(), Block: p.Rank, Factor: make([]float64, len(c.Chosen)), Value: u}
	for i := range c.Chosen {
		bound := c.Weights[i] * Of(p).Clip
		if length > 0 {
			v.Factor[i] = dense.Clamp(residual(c, i, c.Model.Theta[int(v.Index[i])*p.Rank:][:p.Rank]), bound/length*less)
		}
	}
	user.Restrain(v.Factor, dense.Norm(v.Factor)*length, p.ItemsBound())
	return v
}

// DescendItems is line 6 of Algorithm 2 of the multi-task paper for every item: a step against the
// noisy gradient and the ridge, then the projection on the ball of the radius. The length of a step
// follows Theorem 3.12 (a),
//
//	η_j = rate·radius/(G_j·√t), G_j² = (Γc_j + λ_j·radius)² + d·σ²,
//
// where G_j² bounds the mean square of the noisy gradient with the ridge. The released c_j = Σ w_j
// stands for ω_j n_j, σ² is the variance of the actual noise, and λ_j is the ridge. t counts
// through all outer steps.
func DescendItems(s *serving.Strategy, r serving.Absorbed, run protocol.Runner) {
	p, n := &s.Params.Params, s.Params.Total()/r.Users
	y := serving.Equations{Params: p}
	y.Weight, y.Typical = s.Weights()
	own := Of(p)
	g, d, radius := dense.Scaled(r.Values[gradients], n), p.Rank, own.Radius
	noise := float64(d) * dense.Sqr(r.Noise[gradients]*n)
	length := own.Rate * radius / math.Sqrt(float64(s.Sums()+1))
	dense.Blocks(run, p.Items, func(from, to int) {
		for j := from; j < to; j++ {
			v, ridge := s.Encoder.Theta()[j*d:(j+1)*d], y.Ridge(j)
			rate := length / math.Sqrt(dense.Sqr(own.Clip*y.Weight[j]+ridge*radius)+noise)
			for i, x := range v {
				v[i] = x - rate*(g[j*d+i]+ridge*x)
			}
			user.ClipUser(v, radius)
		}
	})
}
