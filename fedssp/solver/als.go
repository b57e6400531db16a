package solver

import (
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/fedssp/serving"
	"github.com/fedsim/fedsim/fedssp/settings"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// ALS is the solver that sets v_j to the solution of A_j v = b_j (DPALS and AdaDPALS).
var ALS settings.Solver = als{}

type als struct{ closed }

func (als) String() string { return "als" }

func (x als) Keys() []*config.Key {
	return append(x.closed.keys(), settings.Keys.ItemRidge.Key, settings.Keys.ItemPrior.Key, settings.Keys.StartSpread.Key)
}

func (als) Traits(settings.Settings) settings.Traits { return settings.Traits{ByItem: true} }

func (als) Begin(*kernel.Params) serving.Solving {
	return resuming{stateless{func(s *serving.Strategy, r serving.Absorbed, run protocol.Runner) error {
		if s.Weight == nil {
			return nil
		}
		n := s.Times(r)
		y := s.Equations(r, n, kernel.Gramians, kernel.Moments)
		s.Join(y, dense.Sqr(r.Noise[kernel.Moments]*n))
		solveItems(s, y, run)
		return nil
	}}}
}

func solveItems(s *serving.Strategy, y *serving.Equations, run protocol.Runner) {
	y.SolveItems(s.Current().Items, run)
	s.Current().Complete(&s.Params.Params)
}

// resuming is a solving whose session can start from earlier sums.
type resuming struct{ stateless }

// Restore keeps nothing from the state.
func (x resuming) Restore(_ *kernel.Params, b []byte) (serving.Solving, []byte, error) {
	return x, b, nil
}

// Resume solves for the items of earlier sums.
func (resuming) Resume(s *serving.Strategy, run protocol.Runner) error {
	if y, _ := s.EquationsBefore(); y != nil {
		solveItems(s, y, run)
	}
	return nil
}
