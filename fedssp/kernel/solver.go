package kernel

import (
	"fmt"
	"math"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/fedssp/encoder"
)

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

// Derivatives returns ℓ, ℓ′ and ℓ″ at prediction s for value y. Both are in rating units; for
// Logistic s is a logit and y ranges from 0 to 1.
func (p *Params) Derivatives(s, y float64) (value, first, second float64) {
	switch p.Loss {
	case Huber:
		r, width := s-y, p.LossWidth
		if a := math.Abs(r); a > width {
			return width*a - width*width/2, math.Copysign(width, r), 0
		}
		return r * r / 2, r, 1
	case Logistic:
		q := Sigmoid(s)
		// The value is log(1 + e^s) - y·s, computed without overflow.
		return max(s, 0) + math.Log1p(math.Exp(-math.Abs(s))) - y*s, q - y, q * (1 - q)
	default:
		r := s - y
		return r * r / 2, r, 1
	}
}

// SlopeBound is the largest |ℓ′| that a client contributes. Residuals of Squared are clipped to it.
func (p *Params) SlopeBound() float64 {
	switch p.Loss {
	case Huber:
		return p.LossWidth
	case Logistic:
		return 1
	default:
		return p.ClipRating
	}
}

// CurvatureBound is the largest ℓ″.
func (p *Params) CurvatureBound() float64 {
	if p.Loss == Logistic {
		return 0.25
	}
	return 1
}

// Parameters counts the numbers of an encoder's gradient.
func (p *Params) Parameters() int {
	f, s := p.Solver.Encoder(p)
	return int(encoder.Parameters(f, p.Items, p.Rank, s))
}

// NewEncoder returns the encoder of the solver at its start, which the seed draws.
func (p *Params) NewEncoder() (*encoder.Encoder, error) {
	features, settings := p.Solver.Encoder(p)
	e, err := encoder.New(features, p.Items, p.Rank, settings, p.Seed)
	if err != nil {
		return nil, fmt.Errorf("fedssp: %w", err)
	}
	return e, nil
}

// Solver computes the items from the statistics. The interface has what models and bounds
// depend on. String is its name in errors and settings.
type Solver interface {
	fmt.Stringer
	// Encodes reports whether items are the output of an encoder. Encoder returns the features and
	// settings of that encoder.
	Encodes(*Params) bool
	Encoder(*Params) (*dataset.ItemFeatures, encoder.Settings)
	// Learns reports whether priors are always learned from the statistics.
	Learns() bool
	// Speaks reports whether features predict items that are not trained on.
	Speaks(*Params) bool
	// Exact reports whether the solver needs all items, and broadcasts in double precision.
	Exact() bool
	// Logistic reports whether predictions are logits.
	Logistic(*Params) bool
	// Bound is the largest norm of a user's addition to moments or gradients.
	Bound(*Params) float64
	// SecondOrder reports whether there are second-order statistics. byUser reports whether a
	// user's gradient is clipped as a whole.
	SecondOrder() bool
	ByUser() bool
	// Start improves the start of V, which is drawn at random.
	Start(p *Params, v []float64, draw func() float64)
	// Open reads the solver's part of a broadcast beside the items. numbers counts the numbers of
	// that part.
	Open(p *Params, v *Broadcast, take func(n int, dst *[]byte))
	Numbers(*Params) int
}

// ItemsBound is the largest norm of a user's addition to moments or gradients.
func (p *Params) ItemsBound() float64 { return atMost(p.NormItems, p.Solver.Bound(p)) }
