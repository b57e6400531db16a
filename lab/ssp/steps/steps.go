// Package steps has the solvers of the am-ssp and multi-task papers that SSP is compared with. Two take noisy sums of gradients in
// place of statistics, [Gradient] and [EncoderGradient]. [Joint] is plain DP-SGD. [Convex] sums the expansion of a convex loss.
//
// It imports what solvers of the core import, and never a stage or the registration of algorithms. Package lab/ssp registers the
// algorithms.
package steps

import "github.com/fedsim/fedsim/fedssp/kernel"

// Settings holds the own settings of these solvers, as [kernel.Params.Own].
type Settings struct {
	Loss      Loss // of Convex
	LossWidth float64
	// Clip is Γ, the largest norm of a gradient of half the squared error. [Gradient] clips each rating's
	// gradient by its item; the other solvers clip the gradient of all of a user's ratings by the
	// encoder's parameters.
	Clip float64
	// Radius is the largest norm of an item, Rate multiplies the steps of items; of Gradient only.
	Radius, Rate float64
}

// Of returns the own settings of a solver of this package.
func Of(p *kernel.Params) Settings {
	own, _ := p.Own.(Settings)
	return own
}

// These are the names of the releases.
const (
	hessians  = "hessians"
	gradients = "gradients"
	byEncoder = "encoder-gradient"
)
