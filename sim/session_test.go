package sim

import (
	"context"
	"math"
	"testing"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// silent contributes zeros, so that a sum is its noise.
type silent struct{ coordinates int }

func (s silent) Contribute(*protocol.Plan, entropy.Source, protocol.Runner) ([]protocol.Vector, error) {
	return []protocol.Vector{{Value: make([]float64, s.coordinates)}}, nil
}
func (silent) Finish([]byte, protocol.Runner) error { return nil }

// selfNoised draws as many uniform numbers itself, from the stream of the round.
type selfNoised struct{ coordinates int }

func (s selfNoised) Contribute(p *protocol.Plan, src entropy.Source, _ protocol.Runner) ([]protocol.Vector, error) {
	v, stream := make([]float64, s.coordinates), src.Stream("noise", p.Round)
	for i := range v {
		u, err := entropy.Uniform(stream, 1000)
		if err != nil {
			return nil, err
		}
		v[i] = float64(u) - 499.5
	}
	return []protocol.Vector{{Value: v}}, nil
}
func (selfNoised) Finish([]byte, protocol.Runner) error { return nil }

const (
	noiseClients     = 4
	noiseCoordinates = 5000
)

// noiseOf returns the sums of a run, all rounds one after the other.
func noiseOf(t *testing.T, trainer client.Trainer, change func(*Config, *adder)) []float64 {
	t.Helper()
	r := protocol.Release{Name: "noise", Len: noiseCoordinates, L2: 1e6, MaxNonZero: noiseCoordinates, Scale: 1, Width: 40,
		Noise: protocol.Noise{Kind: protocol.Split, Variance: 1e6}}
	strategy := newAdder(protocol.Cohort{Clients: noiseClients, Tolerance: 0.5}, r, 2)
	cfg := Config{Session: testSession, Strategy: strategy, Rounds: 2, Network: network, Seed: 1}
	for range noiseClients {
		cfg.Trainers = append(cfg.Trainers, trainer)
	}
	change(&cfg, strategy)
	if _, err := Run(context.Background(), cfg); err != nil {
		t.Fatal(err)
	}
	var all []float64
	for i := range uint64(2) {
		all = append(all, strategy.sums[i+1].Values[0]...)
	}
	if len(all) != 2*noiseCoordinates {
		t.Fatalf("%d coordinates were summed", len(all))
	}
	return all
}

// correlation of two lists of one length, whose means are zero.
func correlation(a, b []float64) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab, aa, bb = ab+a[i]*b[i], aa+a[i]*a[i], bb+b[i]*b[i]
	}
	return ab / math.Sqrt(aa*bb)
}

// Runs of different sessions or seeds must not share their noise, else one run's could be
// taken out of the other's sums. Of independent noise the correlation over 10,000
// coordinates has a deviation of 0.01, so that the bound of 0.06 fails a correct draw with
// probability below 1e-8.
func TestRunsOfOtherSessionsShareNoNoise(t *testing.T) {
	others := map[string]func(*Config, *adder){
		"session": func(c *Config, a *adder) { c.Session, a.plan.Session = protocol.SessionID{2}, protocol.SessionID{2} },
		"seed":    func(c *Config, _ *adder) { c.Seed = 2 },
	}
	for name, kind := range map[string]struct {
		trainer client.Trainer
		set     func(*Config)
	}{
		"of the sum":   {silent{noiseCoordinates}, func(*Config) {}},
		"of clients":   {silent{noiseCoordinates}, func(c *Config) { c.Draw = secagg.DrawClient }},
		"real sums":    {silent{noiseCoordinates}, func(c *Config) { c.Real = true }},
		"of a trainer": {selfNoised{noiseCoordinates}, func(*Config) {}},
	} {
		run := func(change func(*Config, *adder)) []float64 {
			return noiseOf(t, kind.trainer, func(c *Config, a *adder) {
				kind.set(c)
				if name == "of a trainer" {
					a.plan.Releases[0].Noise = protocol.Noise{Kind: protocol.PartyNoise, Multiplier: 1, SamplingRate: 1, Steps: 1}
				}
				change(c, a)
			})
		}
		base := run(func(*Config, *adder) {})
		if same := run(func(c *Config, _ *adder) { c.Workers = 3 }); correlation(base, same) != 1 {
			t.Errorf("noise %s: runs that release the same have noise of correlation %v", name, correlation(base, same))
		}
		if c := correlation(base[:noiseCoordinates], base[noiseCoordinates:]); math.Abs(c) > 0.085 {
			t.Errorf("noise %s: that of two rounds has a correlation of %.3f", name, c)
		}
		for what, change := range others {
			if c := correlation(base, run(change)); math.Abs(c) > 0.06 {
				t.Errorf("noise %s: runs that differ in %s have noise of correlation %.3f", name, what, c)
			}
		}
	}
}
