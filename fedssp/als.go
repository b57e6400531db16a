package fedssp

import (
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/protocol"
)

// ALS is the solver that sets v_j to the solution of A_j v = b_j (DPALS and AdaDPALS).
var ALS Solver = als{}

type als struct{ closed }

func (als) String() string { return namedALS }

func (x als) keys() []*config.Key {
	return append(x.closed.keys(), keys.itemRidge.Key, keys.itemPrior.Key, keys.startSpread.Key)
}

func (als) begin(*Params) solving {
	return stateless{func(s *Strategy, r absorbed, run protocol.Runner) error {
		if s.weight == nil {
			return nil
		}
		s.system(r, s.times(r), Gramians, Moments).solveItems(s.Current().Items, run)
		s.Current().complete(&s.params.Params)
		return nil
	}}
}
