package solver

import (
	"slices"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/fedssp/serving"
	"github.com/fedsim/fedsim/fedssp/settings"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// ALS is the solver that sets v_j to the solution of A_j v = b_j (DPALS and AdaDPALS).
var ALS settings.Solver = als{}

type als struct{ Closed }

func (als) String() string { return "als" }

func (als) Traits() kernel.Traits { return kernel.Traits{ByItem: true} }

func (x als) Keys() []*config.Key {
	return x.With(settings.Keys.ItemRidge.Key, settings.Keys.ItemPrior.Key, settings.Keys.StartSpread.Key)
}

func (als) Begin(*kernel.Params) serving.Solving {
	return resuming(func(s *serving.Strategy, y *serving.Equations, run protocol.Runner) {
		y.SolveItems(s.Current().Items, run)
		s.Current().Complete(&s.Params.Params)
	})
}

// resuming is a solving whose session can start from earlier sums: a function that solves for the items. All of its state
// follows from V.
type resuming func(s *serving.Strategy, y *serving.Equations, run protocol.Runner)

// Solve solves for the items of a sum, combined with earlier ones.
func (x resuming) Solve(s *serving.Strategy, r serving.Absorbed, run protocol.Runner) error {
	n := s.Times(r)
	y := s.Equations(r, n, kernel.Gramians, kernel.Moments)
	s.Join(y, dense.Sqr(r.Noise[kernel.Moments]*n))
	x(s, y, run)
	return nil
}

// Resume solves for the items of earlier sums.
func (x resuming) Resume(s *serving.Strategy, run protocol.Runner) error {
	if y, _ := s.EquationsBefore(); y != nil {
		x(s, y, run)
	}
	return nil
}

// Save appends nothing.
func (resuming) Save(b []byte) []byte { return b }

// Restore reads nothing.
func (x resuming) Restore(_ *kernel.Params, b []byte) (serving.Solving, []byte, error) {
	return x, b, nil
}

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
