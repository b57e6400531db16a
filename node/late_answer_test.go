package node

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
)

// program is a trainer that answers after a time, which may differ from round to round.
type program struct {
	takes []time.Duration
	calls int
}

func (p *program) Contribute(*protocol.Plan, entropy.Source, protocol.Runner) ([]protocol.Vector, error) {
	p.calls++
	time.Sleep(p.takes[min(p.calls, len(p.takes))-1])
	return []protocol.Vector{{Index: []uint32{0}, Value: []float64{float64(p.calls)}}}, nil
}

func (p *program) Finish([]byte, protocol.Runner) error { return nil }

// TestLateAnswersOfProgramsAreDropped has programs that take a millisecond, that sleep in the first round and that sleep for an
// hour. The answers leave at the same times. In virtual time: 1.024 s, the least time of programs.
func TestLateAnswersOfProgramsAreDropped(t *testing.T) {
	const quick, leaves = time.Millisecond, 1024 * time.Millisecond
	for name, c := range map[string]struct {
		takes []time.Duration
		sent  []float64 // the value of each round; 0 of zeros
		calls int
	}{
		"quick":               {[]time.Duration{quick}, []float64{1, 2, 3}, 3},
		"just in time":        {[]time.Duration{700 * time.Millisecond}, []float64{1, 2, 3}, 3},
		"late in round 1":     {[]time.Duration{leaves, quick}, []float64{0, 2, 3}, 3},
		"late for two rounds": {[]time.Duration{2 * leaves, quick}, []float64{0, 0, 2}, 2},
		"does not answer":     {[]time.Duration{time.Hour, quick}, []float64{0, 0, 0}, 1},
		"late in every round": {[]time.Duration{900 * time.Millisecond}, []float64{0, 0, 0}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := zerolog.Nop()
				own := &program{takes: c.takes}
				trainer := &pacedTrainer{Trainer: own, pace: &pace{Pacing: &Pacing{}, worst: func(context.Context) (client.Trainer, error) {
					return &program{takes: []time.Duration{quick}}, nil
				}, ctx: t.Context(), now: time.Now, drops: true, log: &log}}
				p := &protocol.Plan{Releases: []protocol.Release{{Name: "x", Len: 1, L2: 9, MaxNonZero: 1, Scale: 1, Width: 8}}}
				for round, want := range c.sent {
					p.Round = uint64(round) + 1
					begun := time.Now()
					if round == 0 {
						begun = begun.Add(3 * quick) // the made-up record is timed first
					}
					v, err := trainer.Contribute(p, entropy.Source{}, nil)
					trainer.pace.hold(t.Context())
					if took := time.Since(begun); took != leaves {
						t.Errorf("round %d: its answer leaves after %v, want %v", p.Round, took, leaves)
					}
					switch {
					case want == 0 && (err == nil || !strings.Contains(err.Error(), "did not answer within 768ms")):
						t.Errorf("round %d: %v, %v; want that the answer is dropped", p.Round, v, err)
					case want > 0 && (err != nil || v[0].Value[0] != want):
						t.Errorf("round %d: %v, %v; want %v", p.Round, v, err, want)
					}
				}
				if own.calls != c.calls {
					t.Errorf("the program was asked %d times, want %d", own.calls, c.calls)
				}
				time.Sleep(time.Hour) // until the program ends
			})
		})
	}
}

// TestABusyMomentCostsAMoment has a device that is busy while the made-up record is timed, once or in the whole first round. The
// times are by the rule that SECURITY.md states: four times the least time, in a power of two of milliseconds.
func TestABusyMomentCostsAMoment(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		trials []time.Duration // of the made-up record
		leaves []time.Duration // after which the answers of rounds leave
	}{
		"quiet":                      {[]time.Duration{10 * ms, 10 * ms, 10 * ms}, []time.Duration{64 * ms, 64 * ms}},
		"busy for a moment":          {[]time.Duration{1000 * ms, 10 * ms, 12 * ms}, []time.Duration{64 * ms, 64 * ms}},
		"busy in the first round":    {[]time.Duration{4000 * ms, 10 * ms}, []time.Duration{16384 * ms, 64 * ms, 64 * ms}},
		"as slow in every trial":     {slices.Repeat([]time.Duration{4000 * ms}, 9), slices.Repeat([]time.Duration{16384 * ms}, 12)},
		"below an eighth it is kept": {[]time.Duration{1000 * ms, 1000 * ms, 1000 * ms}, []time.Duration{4096 * ms, 4096 * ms}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := zerolog.Nop()
				trials := 0
				p := &pace{Pacing: &Pacing{}, worst: func(context.Context) (client.Trainer, error) {
					trials++
					return &program{takes: []time.Duration{c.trials[trials-1]}}, nil
				}, ctx: t.Context(), now: time.Now, log: &log, limit: time.Minute}
				trainer := &pacedTrainer{Trainer: &program{takes: []time.Duration{ms}}, pace: p}
				plan := &protocol.Plan{Releases: []protocol.Release{{Name: "x", Len: 1, L2: 9, MaxNonZero: 1, Scale: 1, Width: 8}}}
				for round, leaves := range c.leaves {
					begun := time.Now()
					before := trials
					if _, err := trainer.Contribute(plan, entropy.Source{}, nil); err != nil {
						t.Fatal(err)
					}
					p.hold(t.Context())
					took := time.Since(begun)
					if round == 0 { // the first measuring comes before
						for _, d := range c.trials[before:trials] {
							took -= d
						}
					}
					if took.Truncate(ms) != leaves {
						t.Errorf("round %d: its answer leaves after %v, want %v", round+1, took, leaves)
					}
				}
			})
		})
	}
}
