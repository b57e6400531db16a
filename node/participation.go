package node

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/peer"
	"github.com/fedsim/fedsim/node/session"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/protocol/wire"
	"github.com/fedsim/fedsim/secagg"
)

// participation is a client's part in a session.
type participation struct {
	described  [sha256.Size]byte // the descriptor's hash
	experiment [sha256.Size]byte
	terms      session.Terms
	over       bool // it takes the final model, and part in nothing
	last       bool // it has been given the final model, and makes its result from it
	end        *protocol.End
	keep       func() error
	server     session.Signer
	trainer    client.Trainer
	driver     *session.Driver
	queue      *peer.Queue
	begun      wire.Begun // the beginning of the latest plan or model
	stop       context.CancelFunc
	stopped    chan struct{} // the driver has returned
	ended      chan struct{} // the final model has been taken
	nothing    bool          // there was none, since no round released anything; known once ended
}

// leave returns when nothing of it runs any more.
func (t *participation) leave() {
	t.stop()
	<-t.stopped
}

func (c *Client) begin(ctx context.Context, t *participation, job *Job, ledger client.Ledger, list *admission.List) error {
	id, in := c.cfg.Membership.Enrolment.Ticket.Place.Client, t.terms.Session
	last := c.cfg.Ledger.Last(in)
	p, err := secagg.NewParty(secagg.PartyConfig{ID: id, Session: in, Params: t.terms.Sums(list),
		Entropy: c.cfg.Entropy, Identity: c.cfg.Identity.Ed25519(), Last: last})
	if err != nil {
		return err
	}
	var save func() ([]byte, error)
	if durable, ok := t.trainer.(client.Durable); ok {
		save = durable.Save
	}
	agreed, rounds := job.Agreed, uint64(t.terms.Steps.Rounds())
	if t.over {
		agreed, rounds = func(*protocol.Plan) error { return errOver }, 0
	}
	ctx, t.stop = context.WithCancel(ctx)
	held := &pace{Pacing: c.cfg.Pacing, experiment: t.experiment, worst: job.Worst, ctx: ctx, now: c.now, limit: t.terms.StageTimeout, drops: job.DropsLate, log: &c.cfg.Log}
	t.driver = &session.Driver{
		Role: client.New(client.Config{ID: id, Session: in, Trainer: &finisher{&pacedTrainer{Trainer: t.trainer, pace: held}, c.failed, &t.nothing}, Ledger: ledger, Entropy: c.cfg.Entropy,
			NewSum: func(u protocol.Setup) (client.Sum, error) { return p.Join(u) }, Noise: c.cfg.Noise,
			Agreed: agreed, Rounds: rounds, Save: save, Last: last, Dense: true}),
		Inputs: make(chan protocol.Input), Runner: c.cfg.Workers, Now: c.now, Hold: held.hold,
		Persist: func(records []protocol.Record) error { return c.persist(t.experiment, records) },
		Send:    func(list []protocol.Envelope) { c.send(t, list) },
		Events:  func(events []protocol.Event) { c.log(t, events) },
	}
	go func() {
		defer close(t.stopped)
		if err := t.driver.Run(ctx); err != nil {
			fail(c.failed, fmt.Errorf("node: a record cannot be kept, and nothing leaves without: %w", err))
		}
	}()
	return nil
}

// finisher is a trainer whose owner hears if the final model is of no use to it:
// nothing more will be sent that could end the session here.
type finisher struct {
	client.Trainer
	failed  chan<- error
	nothing *bool // set if the session ends without a model
}

func (f *finisher) Finish(model []byte, run protocol.Runner) error {
	if *f.nothing = bytes.Equal(model, protocol.NoModel); *f.nothing {
		return nil
	}
	err := f.Trainer.Finish(model, run)
	if err != nil {
		fail(f.failed, fmt.Errorf("node: the session has ended, and its model cannot be used: %w", err))
	}
	return err
}

// send queues the role's messages. A message that is not sent when the connection breaks goes out
// over the next connection, and is ignored there if it is late.
func (c *Client) send(t *participation, list []protocol.Envelope) {
	for _, e := range list {
		m := e.Message
		if in, ok := m.(*protocol.MaskedInput); ok { // its round is charged by now
			signed := *in
			signed.Head = c.head()
			m = &signed
		}
		b, err := wire.AppendFrames(nil, m)
		if err == nil {
			err = t.queue.Add(b)
		}
		if err != nil {
			c.cfg.Log.Error().Err(err).Stringer("kind", e.Message.Kind()).Msg("not sent")
		}
	}
}

func (c *Client) log(t *participation, events []protocol.Event) {
	session.Report(&c.cfg.Log, c.cfg.Observer, events)
	for _, e := range events {
		if e.Kind == protocol.SessionEnded {
			close(t.ended)
		}
	}
}

// training is where what the party trains for itself in a session is kept.
func (c *Client) training(session protocol.SessionID) string {
	return filepath.Join(c.cfg.State, fmt.Sprintf("training-%x", session))
}

// restore takes a trainer to where it was before a restart.
func (c *Client) restore(t client.Durable, d *session.Descriptor) error {
	kept, fallback, err := store.LoadCheckpoint(c.training(d.Terms.Session), sha256.Sum256(d.Experiment))
	if errors.Is(err, store.ErrNoCheckpoint) {
		return nil
	}
	if err != nil {
		return err
	}
	if fallback != nil {
		c.cfg.Log.Warn().Err(fallback).Msg("training continues from the state before the newest")
	}
	c.cfg.Log.Info().Uint64("round", kept.Round).Msg("training resumed")
	return t.Restore(kept.State, c.cfg.Entropy)
}

// persist makes records durable: in the ledger, and beside it what was trained.
func (c *Client) persist(experiment protocol.Hash, records []protocol.Record) error {
	var booked []protocol.Record
	for _, r := range records {
		t, ok := r.(protocol.Trained)
		if !ok {
			booked = append(booked, r)
			continue
		}
		dir := c.training(t.Session)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := store.SaveCheckpoint(dir, &store.Checkpoint{Session: t.Session, Round: t.Round, Experiment: experiment, State: t.State}); err != nil {
			return err
		}
	}
	if len(booked) == 0 {
		return nil
	}
	return c.cfg.Ledger.Persist(booked...)
}
