package steps

import (
	"math"

	"github.com/fedsim/fedsim/fedssp/kernel"
)

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
