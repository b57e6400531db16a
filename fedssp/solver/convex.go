package solver

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/fedssp/serving"
	"github.com/fedsim/fedsim/fedssp/settings"
	"github.com/fedsim/fedsim/fedssp/user"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// Convex is the solver in which users send the second-order expansion of a convex loss around V
// (SSP-convex, am-ssp paper, Algorithm 7). The server takes a Newton step or, with features, fits
// an encoder to the expansion.
var Convex settings.Solver = convex{}

type convex struct{ closed }

func (convex) String() string { return "convex" }

var (
	lossKey      config.TextKey
	lossWidthKey config.NumberKey
)

func init() {
	lossKey = settings.Word("statistics.loss", []string{string(kernel.Squared), string(kernel.Huber), string(kernel.Logistic)}, settings.With(Convex),
		"huber, as good as squares on ratings and bounded by itself", "Loss of ssp-convex.", func(settings.Settings, *config.Facts) string { return string(kernel.Huber) })
	lossWidthKey = settings.Number("statistics.loss-width", config.Positive(), func(s settings.Settings) bool {
		return settings.With(Convex)(s) && lossKey.Chosen(s.Config) == string(kernel.Huber)
	}, "1",
		"Residual from which the huber loss grows linearly.", settings.Value(1))
}

func (convex) Traits(s settings.Settings) settings.Traits {
	loss := kernel.Loss(lossKey.Chosen(s.Config))
	return settings.Traits{Encodes: !s.Featureless(), Limited: loss != kernel.Squared, AsLogits: loss == kernel.Logistic}
}

func (x convex) Keys() []*config.Key {
	return slices.Concat(x.closed.keys(), settings.EncoderKeys(), settings.PassKeys(), []*config.Key{lossKey.Key, lossWidthKey.Key, settings.Keys.ItemRidge.Key, settings.Keys.ItemPrior.Key, settings.Keys.StartSpread.Key})
}

func (convex) Read(p *kernel.Params, s settings.Settings) {
	p.Loss, p.LossWidth, p.Encoder = kernel.Loss(lossKey.Of(s.Config)), lossWidthKey.Value(s.Config), settings.EncoderOf(s.Config)
}

func (convex) Encodes(p *kernel.Params) bool  { return p.Features != nil }
func (convex) Speaks(p *kernel.Params) bool   { return p.Features != nil }
func (convex) Logistic(p *kernel.Params) bool { return p.Loss == kernel.Logistic }

func (convex) Check(p *kernel.Params, e *settings.Problems) {
	checkExplicit(p, e)
	checkUserRidge(p, e)
	checkClips(p, e, p.Loss == kernel.Squared)
	checkItems(p, e)
	checkStart(p, e)
	e.OneOf(lossKey, string(p.Loss))
	if p.Loss == kernel.Huber {
		e.Within(lossWidthKey, p.LossWidth)
	}
}

func (convex) Bound(p *kernel.Params) float64 { return p.SlopeBound() * p.ClipUser }

func (convex) Length(p *kernel.Params, name string) int {
	return statisticsLength(p, name, kernel.Hessians, kernel.Gradients)
}

func (convex) Ask(p *kernel.Params, to *kernel.Step, share float64) {
	askStatistics(p, to, share, kernel.Hessians, p.CurvatureBound(), kernel.Gradients)
}

func (convex) Fit(w *user.Workspace, p *kernel.Params, m kernel.Shared) {
	if p.Loss == kernel.Squared {
		w.LeastSquares(p, m)
	} else {
		newtonOf(w).fit(w, p)
	}
}

func (convex) Contribute(c *user.Contribution, name string) (protocol.Vector, error) {
	if err := c.Weigh(); err != nil {
		return protocol.Vector{}, err
	}
	if in, err := c.InBatch(); err != nil || !in {
		return protocol.Vector{Index: []uint32{}}, err
	}
	p, d := c.Params, c.Params.Rank
	c.Fit(func(k int, x float64) float64 {
		_, slope, _ := p.Derivatives(x+dense.Dot(c.Embedding(), c.Work.Row(k, d)), c.Work.Value[k])
		return dense.Clamp(slope, p.SlopeBound())
	})
	if name == kernel.Gramian {
		return c.Gramian(), nil
	}
	return c.Statistics(name == kernel.Hessians, func(k int) float64 {
		w := c.Work
		_, _, curvature := p.Derivatives(w.Offset[k]+w.Own(k, d)+dense.Dot(c.Embedding(), w.Row(k, d)), w.Value[k])
		return curvature
	}), nil
}

func (convex) Begin(*kernel.Params) serving.Solving {
	return stateless{func(s *serving.Strategy, r serving.Absorbed, run protocol.Runner) error {
		if s.Weight == nil {
			return nil
		}
		p := &s.Params.Params
		y := s.Equations(r, s.Times(r), kernel.Hessians, kernel.Gradients)
		y.At = slices.Clone(s.Current().Items)
		if p.Gramian == kernel.One { // times ℓ″ or its bound; with the bound a Newton step never overshoots
			for j := range y.Share {
				y.Share[j] *= p.CurvatureBound()
			}
		}
		if s.Encoder != nil {
			return s.FitEncoder(y, run)
		}
		y.SolveItems(s.Current().Items, run)
		s.Current().Complete(p)
		return nil
	}}
}

// newton fits a client's beta to a convex loss by damped Newton steps.
type newton struct {
	step, trial, scaled []float64
}

const (
	newtonSteps = 25
	halvings    = 30
	// newtonEnough ends the steps when one promises a smaller decrease, relative to the objective.
	// Convergence is quadratic, so the remaining error is its square.
	newtonEnough = 1e-8
)

// newtonOf returns the memory of Newton steps in a workspace.
func newtonOf(w *user.Workspace) *newton {
	t, ok := w.Solver.(*newton)
	if !ok {
		t = new(newton)
		w.Solver = t
	}
	return t
}

func (t *newton) fit(w *user.Workspace, p *kernel.Params) {
	n := len(w.Value)
	w.Spread()
	t.step, t.trial, t.scaled = user.Resize(t.step, w.Width), user.Resize(t.trial, w.Width), user.Resize(t.scaled, n*w.Width)
	now := t.objective(w, p, w.Beta)
	for range newtonSteps {
		promise, ok := t.direction(w, p)
		if !ok {
			return
		}
		if promise <= newtonEnough*now {
			dense.Axpy(w.Beta, -1, t.step)
			return
		}
		rate, next := 1.0, now
		for range halvings {
			copy(t.trial, w.Beta)
			dense.Axpy(t.trial, -rate, t.step)
			if next = t.objective(w, p, t.trial); next < now {
				break
			}
			rate /= 2
		}
		if !(next < now) {
			return
		}
		copy(w.Beta, t.trial)
		now = next
	}
}

// objective is the regularised loss at beta.
func (t *newton) objective(w *user.Workspace, p *kernel.Params, beta []float64) float64 {
	var sum float64
	for i, x := range beta {
		sum += w.Ridge(p, i) * x * x / 2
	}
	for k, y := range w.Value {
		value, _, _ := p.Derivatives(w.Offset[k]+dense.Dot(beta, w.Rows[k*w.Width:(k+1)*w.Width]), y)
		sum += value
	}
	return sum
}

// direction sets step to H⁻¹g at w.beta, and returns the promised decrease of the objective,
// gᵀH⁻¹g/2.
func (t *newton) direction(w *user.Workspace, p *kernel.Params) (promise float64, ok bool) {
	for i, x := range w.Beta {
		t.step[i] = w.Ridge(p, i) * x
	}
	for k, y := range w.Value {
		row := w.Rows[k*w.Width : (k+1)*w.Width]
		_, first, second := p.Derivatives(w.Offset[k]+dense.Dot(w.Beta, row), y)
		dense.Axpy(t.step, first, row)
		root, scaled := math.Sqrt(second), t.scaled[k*w.Width:(k+1)*w.Width]
		for i, x := range row {
			scaled[i] = root * x
		}
	}
	h := dense.Upper(w.Gram, w.Width)
	blas64.Syrk(blas.Trans, 1, blas64.General{Rows: len(w.Value), Cols: w.Width, Stride: w.Width, Data: t.scaled}, 0, h)
	for i := range w.Width {
		h.Data[i*w.Width+i] += w.Ridge(p, i)
	}
	copy(t.trial, t.step)
	ok = dense.SolveUpper(w.Gram, t.step, w.Width)
	return dense.Dot(t.trial, t.step) / 2, ok
}
