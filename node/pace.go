package node

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/bits"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/locked"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// Pacing are the times after an announcement at which answers leave. They depend on the device and the experiment, so that all clients of a
// process can share one. The zero value is ready.
type Pacing struct {
	mu      sync.Mutex
	offsets map[phaseOf]time.Duration
	trials  map[phaseOf]int // of the made-up record
}

// phaseOf names a phase of an experiment. Its rounds take about equally long.
type phaseOf struct {
	experiment protocol.Hash
	phase      string
}

// pace holds back the results of a client's data until a fixed time after the computation began.
// Otherwise the time would tell the aggregator, and all who see the line, how many ratings there
// are, or whether a secret coin put the client into a batch: training takes longer with more.
//
// The time is the same for every record and coin. The client measures it in the first round of a phase: four times the least time that the
// device takes for a made-up record as large as the experiment allows, in every batch. It is rounded up to a power of two of milliseconds.
// A time that is long beside the stage's limit is measured again in later rounds, and only falls. When it is measured, and what comes of
// it, follows from public numbers and from made-up records alone, so that it tells no more of a client's record than a single trial would.
// A computation that takes longer all the same, since the device does something else, leaves at a multiple of the time. The time of the
// owner's program may depend on the ratings in any way. After three quarters of the fixed time its answer is dropped, and zeros with noise
// leave at the fixed time. Later answers of a round need no hold: they are computed from values that are dense by then, so that they take
// as long for every record. A proof about an input does not: where inputs are verified, the word that the input is ready leaves at a
// multiple of the time, too, and the time has room for a proof.
type pace struct {
	*Pacing
	experiment protocol.Hash
	// worst makes a trainer of such a record; nil where the experiment does not bound one:
	// a party's own first round is measured then, which tells its size within a factor of two.
	worst func(context.Context) (client.Trainer, error)
	sums  secagg.Params // whose proofs, if any, are a part of the time
	ctx   context.Context
	now   func() time.Time
	limit time.Duration // of a stage: no party waits longer
	drops bool          // answers of a program of the owner's that are late
	log   *zerolog.Logger

	// Of the latest work, for the goroutine that does it.
	current time.Duration // time of its phase; 0: there was none
	begun   time.Time
}

const (
	paceFactor = 4
	// A made-up record is timed firstTrials times in the first round of a phase, and at most mostTrials times in all rounds.
	firstTrials, mostTrials = 3, 8
	leastPace               = 8 * time.Millisecond
	// programPace is the least time with a program of the owner's: other work of the device may hold up a process for long.
	programPace = 1024 * time.Millisecond
)

// final is the phase of what a client does with the final model.
const final = "final model"

// pacedTrainer is a trainer whose time is measured.
type pacedTrainer struct {
	client.Trainer
	pace    *pace
	late    chan computed           // a computation whose answer was dropped, until it ends; nil if there is none
	fail    context.CancelCauseFunc // ends the client
	nothing *bool                   // set if the session ends without a model
}

type computed struct {
	vectors []protocol.Vector
	err     error
}

// Contribute times the contribution with all that the client does with it before it answers, for the largest record.
func (t *pacedTrainer) Contribute(p *protocol.Plan, src entropy.Source, run protocol.Runner) (v []protocol.Vector, err error) {
	t.pace.timed(p.Phase, func(largest client.Trainer) error {
		inputs, failed := client.DenseInputs(largest, p, src, run)
		if failed == nil {
			failed = t.pace.sums.TryProof(p, inputs, src.Stream("pace", p.Round), run)
		}
		return failed
	}, func() {
		if t.pace.drops {
			v, err = t.inTime(p, src, run)
		} else {
			v, err = t.Trainer.Contribute(p, src, run)
		}
	})
	return v, err
}

// inTime returns the contribution, or an error if it is late or an earlier one still is. Such a trainer keeps nothing between rounds.
func (t *pacedTrainer) inTime(p *protocol.Plan, src entropy.Source, run protocol.Runner) ([]protocol.Vector, error) {
	limit := locked.Get(&t.pace.mu, func() time.Duration { return t.pace.offsets[phaseOf{t.pace.experiment, p.Phase}] * 3 / 4 })
	if limit == 0 { // no made-up record could be timed
		return t.Trainer.Contribute(p, src, run)
	}
	over := time.After(limit)
	late := fmt.Errorf("round %d: the program did not answer within %v of the announcement, so zeros and noise are sent in place of its vector: when a client answers must not depend on its ratings", p.Round, limit)
	if t.late != nil {
		select {
		case <-t.late:
			t.late = nil
		case <-over:
			return nil, late
		}
	}
	now := make(chan computed, 1)
	go func() {
		v, err := t.Trainer.Contribute(p, src, run)
		now <- computed{v, err}
	}()
	select {
	case x := <-now:
		return x.vectors, x.err
	case <-over:
		t.late = now
		return nil, late
	}
}

// Finish times the work with the final model. The client leaves after it. Its owner hears if the model is of no use to it: nothing
// more will be sent that could end the session here.
func (t *pacedTrainer) Finish(model []byte, run protocol.Runner) (err error) {
	if *t.nothing = bytes.Equal(model, protocol.NoModel); *t.nothing {
		return nil
	}
	t.pace.timed(final, func(largest client.Trainer) error { return largest.Finish(model, run) }, func() { err = t.Trainer.Finish(model, run) })
	if err != nil {
		t.fail(fmt.Errorf("node: the session has ended, and its model cannot be used: %w", err))
	}
	return err
}

// timed does a party's own work of a phase, and makes sure that the time of the phase is known. The
// first measuring is not counted towards the own work's time.
func (c *pace) timed(phase string, largest func(client.Trainer) error, own func()) {
	c.begun = c.now()
	if c.measure(phase, largest) {
		c.begun = c.now()
	}
	own()
	c.took(phase, c.now().Sub(c.begun))
}

// measure times the largest record. It reports whether the time of the phase was unknown before. A time above an eighth of the stage's
// limit may come from a busy moment, and is measured again, once a round.
func (c *pace) measure(phase string, work func(client.Trainer) error) (first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := phaseOf{c.experiment, phase}
	known, trials := c.offsets[at], mostTrials
	if first = known == 0; first {
		trials = firstTrials
	} else if c.limit == 0 || known <= c.limit/8 {
		return first
	}
	begun, least := c.now(), time.Duration(math.MaxInt64)
	for n := c.trials[at]; c.worst != nil && n < trials; n++ {
		t, err := c.worst(c.ctx)
		if err != nil {
			c.worst = nil
			c.log.Warn().Err(err).Msg("no made-up record could be timed: a client's own first round is")
			return first
		}
		start := c.now()
		if err = work(t); err != nil { // the plan is refused, whatever the record
			return first
		}
		if c.trials == nil {
			c.trials = make(map[phaseOf]int)
		}
		c.trials[at]++
		now := c.now()
		least = min(least, now.Sub(start))
		if !first || c.limit > 0 && now.Sub(begun) > c.limit/16 {
			break
		}
	}
	if offset := c.offset(least); least < math.MaxInt64/paceFactor && (first || offset < known) {
		c.set(phase, offset)
	}
	return first
}

// took notes what the party's own record took, where nothing else is known.
func (c *pace) took(phase string, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := phaseOf{c.experiment, phase}
	if c.offsets[at] == 0 {
		c.set(phase, c.offset(d))
	}
	c.current = c.offsets[at]
}

func (c *pace) offset(measured time.Duration) time.Duration {
	if c.drops {
		return max(roundUp(paceFactor*measured), programPace)
	}
	return max(roundUp(paceFactor*measured), leastPace)
}

func (c *pace) set(phase string, offset time.Duration) {
	if c.offsets == nil {
		c.offsets = make(map[phaseOf]time.Duration)
	}
	c.offsets[phaseOf{c.experiment, phase}] = offset
	e := c.log.Info()
	if c.limit > 0 && offset > c.limit/2 {
		e = c.log.Warn().Stringer("stage_timeout", c.limit)
	}
	e.Str("phase", phase).Stringer("after_the_announcement", offset).Msg("answers leave at a fixed time, whatever the ratings")
}

// roundUp is the next power of two of milliseconds.
func roundUp(d time.Duration) time.Duration {
	ms := uint64((d + time.Millisecond - 1) / time.Millisecond)
	if ms <= 1 {
		return time.Millisecond
	}
	return time.Duration(1<<bits.Len64(ms-1)) * time.Millisecond
}

// left is the time that the answer to the latest work must still be held back.
func (c *pace) left() time.Duration {
	if c.current == 0 {
		return 0
	}
	past := c.now().Sub(c.begun)
	return (past/c.current+1)*c.current - past
}

// hold waits until then, or until the context ends.
func (c *pace) hold(ctx context.Context) {
	select {
	case <-time.After(c.left()):
	case <-ctx.Done():
	}
}
