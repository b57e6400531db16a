package user

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/protocol"
)

// TakesPart weighs the ratings, and tosses the coin of the round, once, from the user's own secret
// randomness. A user outside the batch sends zeros and noise, as a user without ratings does, so
// that no other party can tell.
func (c *Contribution) TakesPart() (bool, error) {
	if err := c.Weigh(); err != nil {
		return false, err
	}
	if !c.Params.Batched() || c.Timed {
		return true, nil
	}
	if c.batch == untossed {
		var b [8]byte
		if _, err := io.ReadFull(c.Source.Stream("batch", c.Round), b[:]); err != nil {
			return false, fmt.Errorf("drawing the batch: %w", err)
		}
		c.batch = out
		if float64(binary.LittleEndian.Uint64(b[:])>>11)*0x1p-53 < c.Params.SamplingRate {
			c.batch = in
		}
	}
	return c.batch == in, nil
}

// asSampled refuses a release that is charged at a sampling rate other than the coin's.
func (c *Contribution) asSampled(r protocol.Release) error {
	want := 0.
	if c.Params.Batched() && r.Noise.Distributed() && kernel.InStatistics(r.Name) {
		want = c.Params.SamplingRate
	}
	if got := r.Noise.SamplingRate; got != want {
		return fmt.Errorf("it is charged at a sampling rate of %v; the settings make it %v (0: no samples)", got, want)
	}
	return nil
}
