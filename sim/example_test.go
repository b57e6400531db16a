package sim_test

import (
	"context"
	"fmt"
	"time"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/sim"
)

// count asks once how many clients there are: the smallest server.Strategy.
type count struct {
	plan *protocol.Plan
	asks int
}

func (c *count) Next() (*protocol.Plan, bool, error) {
	c.asks++
	return c.plan, c.asks > 1, nil
}

func (c *count) Absorb(_ *protocol.Plan, s protocol.Sums, _ protocol.Runner) error {
	fmt.Printf("%d survivors, sum %v\n", s.Survivors, s.Values[0][0])
	return nil
}

func (c *count) Skip(_ *protocol.Plan, err error) { fmt.Println("skipped:", err) }
func (c *count) Model() []byte                    { return nil }

// one contributes a one: the smallest client.Trainer.
type one struct{}

func (one) Contribute(*protocol.Plan, entropy.Source, protocol.Runner) ([]protocol.Vector, error) {
	return []protocol.Vector{{Value: []float64{1}}}, nil
}
func (one) Finish([]byte, protocol.Runner) error { return nil }

// Each of twenty clients drops out before its masked input with probability 0.1. The sum covers
// exactly the clients whose input arrived.
func Example() {
	trainers := make([]client.Trainer, 20)
	for i := range trainers {
		trainers[i] = one{}
	}
	outcome, err := sim.Run(context.Background(), sim.Config{
		Session: protocol.SessionID{1},
		Strategy: &count{plan: &protocol.Plan{
			Session: protocol.SessionID{1}, Round: 1, Cohort: protocol.Cohort{Clients: 20, Tolerance: 0.3},
			Releases: []protocol.Release{{Name: "count", Len: 1, L2: 1, MaxNonZero: 1, Scale: 1, Width: 8}},
		}},
		Trainers: trainers, Rounds: 1, Seed: 1, Workers: 2,
		Faults:  sim.Faults{Dropout: 0.1, Stages: []protocol.Stage{protocol.StageMaskedInput}},
		Network: sim.Network{Latency: 50 * time.Millisecond, Up: 1e7, Down: 5e7, Compute: time.Second, StageTimeout: time.Minute},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	it := outcome.Rounds[0]
	fmt.Printf("%d dropped out, the round took %v\n", it.Dropped, it.Duration.Round(time.Second))
	// Output:
	// 19 survivors, sum 19
	// 1 dropped out, the round took 1m4s
}
