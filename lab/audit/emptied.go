package audit

import (
	"context"
	"math"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/algorithm/peruser"
	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/training"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/sim"
)

// wholeClient reports whether the unit is all that a client has.
func wholeClient(e *experiment.Experiment) bool {
	return e.About().Clients == algorithm.Users && algorithm.UnitOf(e.Config) == dp.User
}

// emptiedVectors returns, by round, the vectors that the unit's client really sends in a run in which its record is empty.
// ε compares with a client that sends zeros, which holds if it does. It returns nil where a unit is not a whole client:
// a client then sends what its other data give.
func emptiedVectors(ctx context.Context, e *experiment.Experiment, unit protocol.ClientID) (map[uint64][]protocol.Vector, error) {
	if !wholeClient(e) {
		return nil, nil
	}
	empty, err := experiment.OpenSet(e.Asked(), e.Data.Where(func(user, _ int32) bool { return user != int32(unit) }))
	if err != nil {
		return nil, err
	}
	f, err := empty.Federation()
	if err != nil {
		return nil, err
	}
	n := &noted{Trainer: f.Trainers[unit], of: make(map[uint64][]protocol.Vector)}
	f.Trainers[unit] = n
	cfg := training.Simulation(empty, f, nil)
	cfg.Faults = sim.Faults{}
	_, err = sim.Run(ctx, cfg)
	return n.of, err
}

// noted is a trainer whose contributions are kept.
type noted struct {
	client.Trainer
	of map[uint64][]protocol.Vector // by round
}

// Contribute keeps what the trainer contributes.
func (n *noted) Contribute(p *protocol.Plan, src entropy.Source, run protocol.Runner) ([]protocol.Vector, error) {
	list, err := n.Trainer.Contribute(p, src, run)
	if err != nil {
		return nil, err
	}
	kept := make([]protocol.Vector, len(list))
	for i, v := range list {
		kept[i].Value = make([]float64, p.Releases[i].Len)
		v.Each(func(j int, x float64) { kept[i].Value[j] = x })
	}
	n.of[p.Round] = kept
	return list, nil
}

// worstAgainst returns the vector within the bounds of a release that is about as far as possible from another vector: in
// the opposite direction, or the longest vector if the other is zero.
func worstAgainst(other protocol.Vector, r protocol.Release) protocol.Vector {
	away := protocol.Vector{Value: make([]float64, r.Len)}
	largest := 0.
	other.Each(func(j int, x float64) {
		away.Value[j] = -x
		largest = max(largest, math.Abs(x))
	})
	if largest == 0 {
		return worst(r)
	}
	for j := range away.Value {
		away.Value[j] *= math.MaxFloat32 / largest // far beyond any bound
	}
	if r.Sensitivity > 0 {
		r.L2 = min(r.L2, r.Sensitivity)
	}
	return peruser.Clip(away, r)
}
