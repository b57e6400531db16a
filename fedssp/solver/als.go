package solver

import (
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/fedssp/serving"
	"github.com/fedsim/fedsim/fedssp/settings"
	"github.com/fedsim/fedsim/protocol"
)

// ALS is the solver that sets v_j to the solution of A_j v = b_j (DPALS and AdaDPALS).
var ALS kernel.Solver = als{}

type als struct{ closed }

func (als) String() string { return settings.NamedALS }

func (x als) Keys() []*config.Key {
	return append(x.closed.keys(), settings.Keys.ItemRidge.Key, settings.Keys.ItemPrior.Key, settings.Keys.StartSpread.Key)
}

func (als) Begin(*kernel.Params) serving.Solving {
	return stateless{func(s *serving.Strategy, r serving.Absorbed, run protocol.Runner) error {
		if s.Weight == nil {
			return nil
		}
		s.Equations(r, s.Times(r), kernel.Gramians, kernel.Moments).SolveItems(s.Current().Items, run)
		s.Current().Complete(&s.Params.Params)
		return nil
	}}
}
