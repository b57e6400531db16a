package fedssp

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// Convex is the solver in which users send the second-order expansion of a convex loss around V
// (SSP-convex, am-ssp paper, Algorithm 7). The server takes a Newton step or, with features, fits
// an encoder to the expansion.
var Convex Solver = convex{}

type convex struct{ closed }

func (convex) String() string { return namedConvex }

func (x convex) keys() []*config.Key {
	return slices.Concat(x.closed.keys(), encoderKeys(), passKeys(), []*config.Key{lossKey.Key, lossWidthKey.Key, keys.itemRidge.Key, keys.itemPrior.Key, keys.startSpread.Key})
}

var (
	lossKey      config.TextKey
	lossWidthKey config.NumberKey
)

func declareConvex() {
	lossKey = word("statistics.loss", []string{string(Squared), string(Huber), string(Logistic)}, func(s settings) bool { return s.solver() == namedConvex },
		"huber, as good as squares on ratings and bounded by itself", "Loss of ssp-convex.", func(settings, *config.Facts) string { return string(Huber) })
	lossWidthKey = number("statistics.loss-width", config.Positive(), func(s settings) bool { return s.solver() == namedConvex && lossKey.Chosen(s.Config) == string(Huber) }, "1",
		"Residual from which the huber loss grows linearly.", value(1))
}

func (convex) read(p *Params, s settings) {
	p.Loss, p.LossWidth, p.Encoder = Loss(lossKey.Of(s.Config)), lossWidthKey.Value(s.Config), encoderOf(s.Config)
}

func (convex) encodes(p *Params) bool  { return p.Features != nil }
func (convex) speaks(p *Params) bool   { return p.Features != nil }
func (convex) logistic(p *Params) bool { return p.Loss == Logistic }

func (convex) check(p *Params, e *problems) {
	checkExplicit(p, e)
	checkUserRidge(p, e)
	checkClips(p, e, p.Loss == Squared)
	checkItems(p, e)
	checkStart(p, e)
	switch p.Loss {
	case Squared, Logistic:
	case Huber:
		e.within(lossWidthKey, p.LossWidth)
	default:
		e.add("loss is %q; it must be %s, %s or %s", p.Loss, Squared, Huber, Logistic)
	}
}

func (convex) bound(p *Params) float64 { return p.slopeBound() * p.ClipUser }

func (convex) length(p *Params, name string) int {
	return p.statisticsLength(name, Hessians, Gradients)
}

func (convex) ask(p *Params, to *Step, share float64) {
	p.askStatistics(to, share, Hessians, p.curvatureBound(), Gradients)
}

func (convex) fit(w *workspace, p *Params, m shared) {
	if p.Loss == Squared {
		w.leastSquares(p, m)
	} else {
		newtonOf(w).fit(w, p)
	}
}

func (convex) contribute(c *contribution, name string) (protocol.Vector, error) {
	if err := c.weigh(); err != nil {
		return protocol.Vector{}, err
	}
	if in, err := c.inBatch(); err != nil || !in {
		return protocol.Vector{Index: []uint32{}}, err
	}
	p, d := c.params, c.params.Rank
	c.fit(func(k int, x float64) float64 {
		_, slope, _ := p.derivatives(x+dense.Dot(c.embedding(), c.work.row(k, d)), c.work.value[k])
		return dense.Clamp(slope, p.slopeBound())
	})
	if name == Gramian {
		return c.gramian(), nil
	}
	return c.statistics(name == Hessians, func(k int) float64 {
		w := c.work
		_, _, curvature := p.derivatives(w.offset[k]+w.own(k, d)+dense.Dot(c.embedding(), w.row(k, d)), w.value[k])
		return curvature
	}), nil
}

func (convex) begin(*Params) solving {
	return stateless{func(s *Strategy, r absorbed, run protocol.Runner) error {
		if s.weight == nil {
			return nil
		}
		p := &s.params.Params
		y := s.system(r, s.times(r), Hessians, Gradients)
		y.at = slices.Clone(s.Current().Items)
		if p.Gramian == One { // times ℓ″ or its bound; with the bound a Newton step never overshoots
			for j := range y.share {
				y.share[j] *= p.curvatureBound()
			}
		}
		if s.encoder != nil {
			return s.fitEncoder(y, run)
		}
		y.solveItems(s.Current().Items, run)
		s.Current().complete(p)
		return nil
	}}
}

// Loss is ℓ of the Convex solver, a function of a residual in rating units or, for Logistic, of a
// logit.
type Loss string

const (
	// Squared is r²/2.
	Squared Loss = "squared"
	// Huber is r²/2 up to LossWidth, and linear beyond.
	Huber Loss = "huber"
	// Logistic is the cross-entropy of a rating, scaled to 0..1, and σ of the prediction.
	Logistic Loss = "logistic"
)

// derivatives returns ℓ, ℓ′ and ℓ″ at prediction s for value y. Both are in rating units; for
// Logistic s is a logit and y ranges from 0 to 1.
func (p *Params) derivatives(s, y float64) (value, first, second float64) {
	switch p.Loss {
	case Huber:
		r, width := s-y, p.LossWidth
		if a := math.Abs(r); a > width {
			return width*a - width*width/2, math.Copysign(width, r), 0
		}
		return r * r / 2, r, 1
	case Logistic:
		q := sigmoid(s)
		// The value is log(1 + e^s) - y·s, computed without overflow.
		return max(s, 0) + math.Log1p(math.Exp(-math.Abs(s))) - y*s, q - y, q * (1 - q)
	default:
		r := s - y
		return r * r / 2, r, 1
	}
}

// slopeBound is the largest |ℓ′| that a client contributes. Residuals of Squared are clipped to it.
func (p *Params) slopeBound() float64 {
	switch p.Loss {
	case Huber:
		return p.LossWidth
	case Logistic:
		return 1
	default:
		return p.ClipRating
	}
}

// curvatureBound is the largest ℓ″.
func (p *Params) curvatureBound() float64 {
	if p.Loss == Logistic {
		return 0.25
	}
	return 1
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
func newtonOf(w *workspace) *newton {
	t, ok := w.solver.(*newton)
	if !ok {
		t = new(newton)
		w.solver = t
	}
	return t
}

func (t *newton) fit(w *workspace, p *Params) {
	n := len(w.value)
	t.step, t.trial, t.scaled = resize(t.step, w.width), resize(t.trial, w.width), resize(t.scaled, n*w.width)
	now := t.objective(w, p, w.beta)
	for range newtonSteps {
		promise, ok := t.direction(w, p)
		if !ok {
			return
		}
		if promise <= newtonEnough*now {
			dense.Axpy(w.beta, -1, t.step)
			return
		}
		rate, next := 1.0, now
		for range halvings {
			copy(t.trial, w.beta)
			dense.Axpy(t.trial, -rate, t.step)
			if next = t.objective(w, p, t.trial); next < now {
				break
			}
			rate /= 2
		}
		if !(next < now) {
			return
		}
		copy(w.beta, t.trial)
		now = next
	}
}

// objective is the regularised loss at beta.
func (t *newton) objective(w *workspace, p *Params, beta []float64) float64 {
	var sum float64
	for i, x := range beta {
		sum += w.ridge(p, i) * x * x / 2
	}
	for k, y := range w.value {
		value, _, _ := p.derivatives(w.offset[k]+dense.Dot(beta, w.rows[k*w.width:(k+1)*w.width]), y)
		sum += value
	}
	return sum
}

// direction sets step to H⁻¹g at w.beta, and returns the promised decrease of the objective,
// gᵀH⁻¹g/2.
func (t *newton) direction(w *workspace, p *Params) (promise float64, ok bool) {
	for i, x := range w.beta {
		t.step[i] = w.ridge(p, i) * x
	}
	for k, y := range w.value {
		row := w.rows[k*w.width : (k+1)*w.width]
		_, first, second := p.derivatives(w.offset[k]+dense.Dot(w.beta, row), y)
		dense.Axpy(t.step, first, row)
		root, scaled := math.Sqrt(second), t.scaled[k*w.width:(k+1)*w.width]
		for i, x := range row {
			scaled[i] = root * x
		}
	}
	h := dense.Upper(w.gram, w.width)
	blas64.Syrk(blas.Trans, 1, blas64.General{Rows: len(w.value), Cols: w.width, Stride: w.width, Data: t.scaled}, 0, h)
	for i := range w.width {
		h.Data[i*w.width+i] += w.ridge(p, i)
	}
	copy(t.trial, t.step)
	ok = dense.SolveUpper(w.gram, t.step, w.width)
	return dense.Dot(t.trial, t.step) / 2, ok
}

// expand turns the gradient b at v into the right-hand side of the Newton step: the minimum of
// gᵀ(x-v) + (x-v)ᵀH(x-v)/2 solves Hx = Hv - g.
func expand(b, h, v []float64) {
	d := len(b)
	for i := range b {
		b[i] = dense.Dot(h[i*d:(i+1)*d], v) - b[i]
	}
}
