package steps

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/serving"
	"github.com/fedsim/fedsim/internal/fedssp/settings"
	"github.com/fedsim/fedsim/internal/fedssp/solver"
	"github.com/fedsim/fedsim/internal/fedssp/user"
	"github.com/fedsim/fedsim/internal/problems"
	"github.com/fedsim/fedsim/protocol"
)

// Convex is the solver in which users send the second-order expansion of a convex loss around V
// (SSP-convex, am-ssp paper, Algorithm 7). The server takes a Newton step. With EncodedConvex it fits
// an encoder of features to the expansion.
var Convex, EncodedConvex settings.Solver = convex{}, convex{encodes: true}

type convex struct {
	solver.Closed
	encodes bool
}

func (convex) String() string { return "convex" }

// Serves takes the encoder if there are features.
func (x convex) Serves(s settings.Settings) bool { return !x.encodes || !s.Featureless() }

// isConvex is the condition that one of both is taken.
func isConvex(s settings.Settings) bool {
	return settings.With(Convex)(s) || settings.With(EncodedConvex)(s)
}

var (
	lossKey      config.TextKey
	lossWidthKey config.NumberKey
)

func init() {
	lossKey = settings.Word("statistics.loss", []string{string(Squared), string(Huber), string(Logistic)}, isConvex,
		"huber, as good as squares on ratings and bounded by itself", "Loss of ssp-convex.", func(settings.Settings, *config.Facts) string { return string(Huber) })
	lossWidthKey = settings.Number("statistics.loss-width", config.Positive(), func(s settings.Settings) bool {
		return isConvex(s) && lossKey.Chosen(s.Config) == string(Huber)
	}, "1",
		"Residual from which the huber loss grows linearly.", settings.Value(1))
}

func (x convex) Traits() kernel.Traits {
	return kernel.Traits{Encodes: x.encodes, PredictsFromFeatures: x.encodes}
}

func (convex) Loss(s settings.Settings) settings.Loss {
	loss := Loss(lossKey.Chosen(s.Config))
	return settings.Loss{Limited: loss != Squared, Logits: loss == Logistic}
}

func (x convex) Keys() []*config.Key {
	return x.With(slices.Concat(settings.EncoderKeys(), settings.PassKeys(), []*config.Key{lossKey.Key, lossWidthKey.Key, settings.Keys.ItemRidge.Key, settings.Keys.ItemPrior.Key, settings.Keys.StartSpread.Key})...)
}

func (convex) Read(p *kernel.Params, s settings.Settings) {
	own := Settings{Loss: Loss(lossKey.Of(s.Config)), LossWidth: lossWidthKey.Value(s.Config)}
	p.Own, p.Logits, p.Encoder = own, own.Loss == Logistic, settings.EncoderOf(s.Config)
}

func (convex) Check(p *kernel.Params, e *problems.List) { checkExplicit(p, e) }

func (convex) Bound(p *kernel.Params) float64 { return SlopeBound(p) * p.ClipUser }

func (convex) AppendReleases(p *kernel.Params, to *kernel.Step, share float64) {
	solver.AppendStatistics(p, to, share, hessians, Of(p).CurvatureBound(), gradients)
}

func (convex) Fit(w *user.Workspace, p *kernel.Params, m *kernel.Model) {
	if Of(p).Loss == Squared {
		w.LeastSquares(p, m)
	} else {
		newtonOf(w).fit(w, p)
	}
}

func (convex) Contribute(c *user.Contribution, name string) (protocol.Vector, error) {
	if takesPart, err := c.TakesPart(); err != nil || !takesPart {
		return protocol.Vector{Index: []uint32{}}, err
	}
	d, own, bound := c.Params.Rank, Of(c.Params), SlopeBound(c.Params)
	c.Fit(func(k int, x float64) float64 {
		_, slope, _ := own.Derivatives(x+dense.Dot(c.Embedding(), c.Work.Row(k, d)), c.Work.Value[k])
		return dense.Clamp(slope, bound)
	})
	if name == kernel.Gramian {
		return c.Gramian(), nil
	}
	return c.Statistics(name == hessians, func(k int) float64 {
		w := c.Work
		_, _, curvature := own.Derivatives(w.Offset[k]+w.Own(k, d)+dense.Dot(c.Embedding(), w.Row(k, d)), w.Value[k])
		return curvature
	}), nil
}

func (convex) Begin(*kernel.Params) serving.Solving {
	return solver.Stateless(func(s *serving.Strategy, r serving.Absorbed, run protocol.Runner) error {
		p := &s.Params.Params
		y := s.Equations(r, s.Times(r), hessians, gradients)
		y.At = slices.Clone(s.Current().Items)
		if p.Gramian == kernel.One { // times ℓ″ or its bound; with the bound a Newton step never overshoots
			for j := range y.Share {
				y.Share[j] *= Of(p).CurvatureBound()
			}
		}
		if s.Encoder != nil {
			return s.FitEncoder(y, run)
		}
		y.SolveItems(s.Current().Items, run)
		return nil
	})
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
	own, sum := Of(p), 0.
	for i, x := range beta {
		sum += w.Ridge(p, i) * x * x / 2
	}
	for k, y := range w.Value {
		value, _, _ := own.Derivatives(w.Offset[k]+dense.Dot(beta, w.Rows[k*w.Width:(k+1)*w.Width]), y)
		sum += value
	}
	return sum
}

// direction sets step to H⁻¹g at w.beta, and returns the promised decrease of the objective,
// gᵀH⁻¹g/2.
func (t *newton) direction(w *user.Workspace, p *kernel.Params) (promise float64, ok bool) {
	own := Of(p)
	for i, x := range w.Beta {
		t.step[i] = w.Ridge(p, i) * x
	}
	for k, y := range w.Value {
		row := w.Rows[k*w.Width : (k+1)*w.Width]
		_, first, second := own.Derivatives(w.Offset[k]+dense.Dot(w.Beta, row), y)
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

// Loss is ℓ of [Convex], a function of a residual in rating units or, for Logistic, of a logit.
type Loss string

const (
	// Squared is r²/2.
	Squared Loss = "squared"
	// Huber is r²/2 up to LossWidth, and linear beyond.
	Huber Loss = "huber"
	// Logistic is the cross-entropy of a rating, scaled to 0..1, and σ of the prediction.
	Logistic Loss = "logistic"
)

// Derivatives returns ℓ, ℓ′ and ℓ″ at prediction s for value y. Both are in rating units; for
// Logistic s is a logit and y ranges from 0 to 1.
func (p Settings) Derivatives(s, y float64) (value, first, second float64) {
	switch p.Loss {
	case Huber:
		r, width := s-y, p.LossWidth
		if a := math.Abs(r); a > width {
			return width*a - width*width/2, math.Copysign(width, r), 0
		}
		return r * r / 2, r, 1
	case Logistic:
		q := kernel.Sigmoid(s)
		// The value is log(1 + e^s) - y·s, computed without overflow.
		return max(s, 0) + math.Log1p(math.Exp(-math.Abs(s))) - y*s, q - y, q * (1 - q)
	default:
		r := s - y
		return r * r / 2, r, 1
	}
}

// SlopeBound is the largest |ℓ′| that a client contributes. Residuals of Squared are clipped to it.
func SlopeBound(p *kernel.Params) float64 {
	switch x := Of(p); x.Loss {
	case Huber:
		return x.LossWidth
	case Logistic:
		return 1
	default:
		return p.ClipRating
	}
}

// CurvatureBound is the largest ℓ″.
func (p Settings) CurvatureBound() float64 {
	if p.Loss == Logistic {
		return 0.25
	}
	return 1
}
