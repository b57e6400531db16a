package training

import (
	"context"
	"time"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/sim"
)

// Engine computes the rounds of a federation with the same bits as [sim.Run], by other means. When it calls c.Round, the
// ledgers of f must be charged, and the trainers of organisations be in the state, that they have at that round. In the end
// all trainers must be in the state after the last round.
type Engine func(ctx context.Context, e *experiment.Experiment, f *experiment.Federation, c sim.Config) (*sim.Outcome, error)

// simulate is the simulator as an engine.
func simulate(ctx context.Context, _ *experiment.Experiment, _ *experiment.Federation, c sim.Config) (*sim.Outcome, error) {
	return sim.Run(ctx, c)
}

// Simulation is the simulator's view of an experiment and its federation. each, which may
// be nil, is called after every round with the shared model.
func Simulation(e *experiment.Experiment, f *experiment.Federation, each func(sim.Round, []byte) error) sim.Config {
	c := e.Config
	value := func(k config.NumberKey) float64 { return k.Value(c) }
	ms := func(k config.NumberKey) time.Duration { return time.Duration(value(k) * float64(time.Millisecond)) }
	return sim.Config{
		Session: f.Session, Strategy: f.Strategy, Trainers: f.Trainers, Ledgers: f.ClientLedgers(),
		Real: e.Real(), Mode: e.Mode(), Draw: e.Draw(), Rounds: e.Schedule.Rounds(), SitOut: value(algorithm.SitOut), Seed: algorithm.Seed.Of(c),
		Workers: e.Workers(), Round: each,
		Faults: sim.Faults{
			Dropout: value(algorithm.Dropout), Stages: e.DropoutStages(), Leave: value(algorithm.Leave), Away: value(algorithm.Away), AwayRounds: algorithm.AwayRounds.Int(c),
		},
		Network: sim.Network{
			Latency: ms(algorithm.Latency), Compute: ms(algorithm.Compute), StageTimeout: time.Duration(1000 * value(algorithm.Patience) * float64(time.Millisecond)),
			Up: 1e6 * value(algorithm.Up), Down: 1e6 * value(algorithm.Down),
		},
	}
}
