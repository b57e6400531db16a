package solver

import (
	"slices"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/fedssp/serving"
	"github.com/fedsim/fedsim/fedssp/settings"
	"github.com/fedsim/fedsim/protocol"
)

// Encoded is the solver in which a public encoder computes v_j from the item's features or its id.
// The encoder takes gradient steps on the statistics (SSP-c, SSP-i, AM-SSP).
var Encoded settings.Solver = encoderSolver{}

type encoderSolver struct{ Closed }

func (encoderSolver) String() string { return "encoder" }

func (x encoderSolver) Keys() []*config.Key {
	return x.With(slices.Concat(settings.EncoderKeys(), settings.PassKeys(), []*config.Key{settings.Keys.ItemRidge.Key, settings.Keys.ItemPrior.Key})...)
}

func (encoderSolver) Read(p *kernel.Params, s settings.Settings) {
	p.Encoder = settings.EncoderOf(s.Config)
}

// Serves takes features, or an embedding of each item's id. The latter is a lookup table, whose optimum
// has a closed form unless the statistics change with every step.
func (encoderSolver) Serves(s settings.Settings) bool {
	return !s.Featureless() || settings.Keys.Resample.Or(s.Config, 1) > 1
}

func (encoderSolver) Traits() kernel.Traits {
	return kernel.Traits{Encodes: true, PredictsFromFeatures: true}
}

func (encoderSolver) Begin(*kernel.Params) serving.Solving {
	return Stateless(func(s *serving.Strategy, r serving.Absorbed, run protocol.Runner) error {
		return s.FitEncoder(s.Equations(r, s.Times(r), kernel.Gramians, kernel.Moments), run)
	})
}
