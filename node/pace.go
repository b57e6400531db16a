package node

import (
	"context"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
)

// Pacing are the times after an announcement at which answers leave. They depend on the
// device and the experiment, so that all clients of a process can share one. The zero value is
// ready.
type Pacing struct {
	mu      sync.Mutex
	offsets map[phaseOf]time.Duration
}

// phaseOf is what takes about equally long: a phase of an experiment.
type phaseOf struct {
	experiment protocol.Hash
	phase      string
}

// pace holds back what a client computes of its party's data until a fixed time after the
// announcement. Else the time would tell the aggregator, and whoever sees the line, how many
// ratings there are: training takes longer with more.
//
// That time is the same for every record. It is four times as long as the device takes for a
// made-up record as large as the experiment allows, which it measures in the first round of a
// phase, rounded up to a power of two of milliseconds. What takes longer all the same, since
// the device does something else, leaves at a multiple of it.
type pace struct {
	*Pacing
	experiment protocol.Hash
	// worst makes a trainer of such a record; nil where the experiment does not bound one:
	// a party's own first round is measured then, which tells its size within a factor of two.
	worst func(context.Context) (client.Trainer, error)
	ctx   context.Context
	now   func() time.Time
	limit time.Duration // of a stage, after which nobody waits
	log   *zerolog.Logger

	current atomic.Int64 // of the plan that was trained for last; 0: none was
}

const (
	paceFactor = 4
	leastPace  = 8 * time.Millisecond
)

// pacedTrainer is a trainer whose time is measured.
type pacedTrainer struct {
	client.Trainer
	pace *pace
}

// Contribute implements client.Trainer.
func (t *pacedTrainer) Contribute(p *protocol.Plan, src entropy.Source, run protocol.Runner) ([]protocol.Vector, error) {
	t.pace.measure(p, src, run)
	begun := t.pace.now()
	v, err := t.Trainer.Contribute(p, src, run)
	t.pace.took(p, t.pace.now().Sub(begun))
	return v, err
}

// measure times the worst record, unless that has been done for the plan's phase.
func (c *pace) measure(p *protocol.Plan, src entropy.Source, run protocol.Runner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.offsets[phaseOf{c.experiment, p.Phase}] > 0 || c.worst == nil {
		return
	}
	t, err := c.worst(c.ctx)
	if err != nil {
		c.worst = nil
		c.log.Warn().Err(err).Msg("no made-up record could be timed: a client's own first round is")
		return
	}
	begun := c.now()
	if _, err = t.Contribute(p, src, run); err == nil { // else the plan is refused, whatever the record
		c.set(p, c.now().Sub(begun))
	}
}

// took notes what the party's own record took, where nothing else is known.
func (c *pace) took(p *protocol.Plan, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := phaseOf{c.experiment, p.Phase}
	if c.offsets[at] == 0 {
		c.set(p, d)
	}
	c.current.Store(int64(c.offsets[at]))
}

// set fixes the time of a phase. The caller holds mu.
func (c *pace) set(p *protocol.Plan, measured time.Duration) {
	offset := max(roundUp(paceFactor*measured), leastPace)
	if c.offsets == nil {
		c.offsets = make(map[phaseOf]time.Duration)
	}
	c.offsets[phaseOf{c.experiment, p.Phase}] = offset
	e := c.log.Info()
	if c.limit > 0 && offset > c.limit/2 {
		e = c.log.Warn().Stringer("stage_timeout", c.limit)
	}
	e.Str("phase", p.Phase).Stringer("after_the_announcement", offset).Msg("answers leave at a fixed time, whatever the ratings")
}

// roundUp is the next power of two of milliseconds.
func roundUp(d time.Duration) time.Duration {
	ms := uint64((d + time.Millisecond - 1) / time.Millisecond)
	if ms <= 1 {
		return time.Millisecond
	}
	return time.Duration(1<<bits.Len64(ms-1)) * time.Millisecond
}

// left is how long what began at a time must still be held back.
func (c *pace) left(begun time.Time) time.Duration {
	offset := time.Duration(c.current.Load())
	if offset == 0 {
		return 0
	}
	past := c.now().Sub(begun)
	return (past/offset+1)*offset - past
}

// hold waits until then, or until the context ends.
func (c *pace) hold(ctx context.Context, begun time.Time) {
	wait := time.NewTimer(c.left(begun))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	}
}
