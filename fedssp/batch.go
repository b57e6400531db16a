package fedssp

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// declareBatches declares the keys that sample users into batches.
func declareBatches() {
	keys.samplingRate = config.DeclareNumber(config.Key{
		Name: "statistics.sampling-rate", Kind: config.Real, Default: "1", Range: config.Above(0, 1), When: items.when(),
		Help: "Probability that a user is in the batch of a sum of statistics, by a coin that only its client sees: mini-batches. Epsilon counts on the coin, so a sum needs less noise. Only accountant gdp-skellam covers that.",
		Check: func(c config.Config) string {
			s := settingsOf(c)
			switch {
			case s.form().name == "" || !s.batched():
			case algorithm.Noise.Is(c, "replace"):
				return "what replaced noise shows of batches has no accountant; use noise split with batches"
			case algorithm.Accountant.Is(c, string(dp.RDP)):
				return "accountant rdp has nothing for batches of Skellam noise; use gdp-skellam"
			}
			return ""
		},
	})
}

// batched reports whether each sum covers a random batch of the users.
func (s settings) batched() bool { return s.items() && keys.samplingRate.Value(s.Config) < 1 }

// batched reports whether statistics cover a random batch of the users.
func (p *Params) batched() bool { return p.SamplingRate > 0 && p.SamplingRate < 1 }

// coin says whether a user is in the batch of a round. One toss serves all releases of the
// round.
type coin int8

const (
	untossed coin = iota
	in
	out
)

// inBatch tosses the coin of the round, once, from the user's own secret randomness. A user
// outside the batch sends zeros and noise, as a user without ratings does, so that no other party
// can tell.
func (c *contribution) inBatch() (bool, error) {
	if !c.params.batched() || c.timed {
		return true, nil
	}
	if c.batch == untossed {
		var b [8]byte
		if _, err := io.ReadFull(c.src.Stream("batch", c.round), b[:]); err != nil {
			return false, fmt.Errorf("drawing the batch: %w", err)
		}
		c.batch = out
		if float64(binary.LittleEndian.Uint64(b[:])>>11)*0x1p-53 < c.params.SamplingRate {
			c.batch = in
		}
	}
	return c.batch == in, nil
}

// asSampled refuses a release that is charged at a sampling rate other than the coin's.
func (c *contribution) asSampled(r protocol.Release) error {
	want := 0.
	if c.params.batched() && r.Noise.Distributed() && inStatistics(r.Name) {
		want = c.params.SamplingRate
	}
	if got := r.Noise.SamplingRate; got != want {
		return fmt.Errorf("it is charged at a sampling rate of %v; the settings make it %v (0: no samples)", got, want)
	}
	return nil
}

// inStatistics reports whether the coin decides if a user contributes to the release.
func inStatistics(name string) bool {
	switch name {
	case Counts, Mean, Bias, WeightCounts:
		return false
	default:
		return true
	}
}

// undone scales sums over batches to all users: every statistic and its noise by 1/q. Weight counts
// cover all users already and stay.
func (p *Params) undone(r absorbed) absorbed {
	if !p.batched() {
		return r
	}
	for name, x := range r.values {
		if name != WeightCounts {
			r.values[name], r.noise[name] = dense.Scaled(x, 1/p.SamplingRate), r.noise[name]/p.SamplingRate
		}
	}
	return r
}

// sampled marks the releases that the coin decides on as sampled. Weight counts cover all users and
// stay.
func (p *Params) sampled(steps []protocol.Step) {
	for i := range steps {
		if !p.batched() || steps[i].Phase != Statistics {
			continue
		}
		for k := range steps[i].Releases {
			if r := &steps[i].Releases[k]; inStatistics(r.Name) {
				r.Noise.SamplingRate = p.SamplingRate
			}
		}
	}
}
