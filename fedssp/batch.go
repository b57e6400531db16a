package fedssp

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
)

// declareBatches declares what makes batches of users.
func declareBatches() {
	keys.samplingRate = config.DeclareNumber(config.Key{
		Name: "statistics.sampling-rate", Kind: config.Real, Default: "1", Range: config.Above(0, 1), When: items.when(), Later: true,
		Help: "Chance of a user to be in the batch of a sum of statistics, by a coin that nobody else learns of: mini-batches. The noise is for all users, so that epsilon does not rest on the coin; claimed_epsilon does.",
		Check: func(c config.Config) string {
			if s := (settings{c}); s.family().about.Name != "" && s.batched() && algorithm.Noise.Is(c, "replace") {
				return "noise replace has a claimed epsilon of its own; use split with batches"
			}
			return ""
		},
	})
}

// batched reports whether sums are of batches.
func (s settings) batched() bool { return s.items() && keys.samplingRate.Value(s.Config) < 1 }

// batched reports whether statistics are of a batch of the users.
func (p *Params) batched() bool { return p.SamplingRate > 0 && p.SamplingRate < 1 }

// coin is whether a user is in the batch of an iteration: one toss for all its releases.
type coin int8

const (
	untossed coin = iota
	in
	out
)

// inBatch tosses the coin of the iteration, once, in the user's own secret randomness. Who is out sends zeros, and noise, as one without
// ratings does: nobody can tell.
func (c *contribution) inBatch() (bool, error) {
	if !c.params.batched() {
		return true, nil
	}
	if c.batch == untossed {
		var b [8]byte
		if _, err := io.ReadFull(c.src.Stream("batch", c.iteration), b[:]); err != nil {
			return false, fmt.Errorf("drawing the batch: %w", err)
		}
		c.batch = out
		if float64(binary.LittleEndian.Uint64(b[:])>>11)*0x1p-53 < c.params.SamplingRate {
			c.batch = in
		}
	}
	return c.batch == in, nil
}

// undone has sums of batches stand for all users: of every statistic, and of its noise, 1/q as much. Weight counts are
// of all users as it is.
func (p *Params) undone(r absorbed) absorbed {
	if !p.batched() {
		return r
	}
	for name, x := range r.values {
		if name != WeightCounts {
			r.values[name], r.noise[name] = scaled(x, 1/p.SamplingRate), r.noise[name]/p.SamplingRate
		}
	}
	return r
}

// claim sets the ε that amplification by sampling would claim of the noise: with normal noise of the same deviations, each release over a Poisson
// sample, all of an iteration by one coin. It is charged nowhere: what is proved of Skellam noise here does not rest on a coin, and every
// ledger is charged as if its user were in all batches, which costs the most that any toss could (a user who is out sends what an empty record does).
func (x *instance) claim() error {
	s, q := x.setup, x.params.SamplingRate
	if !s.Private() || !x.params.batched() {
		return nil
	}
	var events []dp.Event
	for _, step := range s.Schedule {
		sampled := 0. // Σ D²/V of what one coin decides
		for _, r := range step.Releases {
			d2, _ := r.Bounds()
			mu2 := d2 * d2 / r.Noise.Variance
			if step.Phase == Statistics && r.Name != WeightCounts {
				sampled += mu2
				continue
			}
			events = append(events, dp.Gaussian(1/math.Sqrt(mu2)).Times(step.Iterations))
		}
		if sampled > 0 {
			events = append(events, dp.SubsampledGaussian(1/math.Sqrt(sampled), q).Times(step.Iterations))
		}
	}
	claimed, err := dp.Problem{Events: events, Delta: s.Privacy.Budget.Delta, Accountant: dp.PLD}.Epsilon()
	s.Privacy.Claimed, s.Privacy.Batched = claimed.Epsilon, true
	return err
}
