package node

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/internal/protocol/wire"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// Ceiling is the most that the charges within any period of that length may cost together.
type Ceiling struct {
	Budget dp.Budget
	Period time.Duration
	Name   string // for the owner, like 2/30d
}

// account is the ledger that a client's role charges in the session, rebuilt from all that the durable
// one holds. Where that is about something else than the session protects (dp.ErrMixed), or leaves too
// little for the session, it is refused: only the owner can see to it.
func (j *Job) account(durable *store.Ledger, costs *dp.Cache, now time.Time) (client.Ledger, error) {
	records, err := durable.Records()
	if err != nil {
		return nil, &session.DeclineError{Kind: session.DeclineUnit, Err: err}
	}
	if j.Limit == nil {
		return j.restore(*j.Budget, durable, costs, records)
	}
	total, err := j.restore(*j.Limit, durable, costs, records)
	if err != nil {
		return nil, err
	}
	rest, err := j.rest(durable)
	if err == nil {
		err = j.fits(*j.Limit, costs, records, rest)
	}
	if err == nil {
		err = j.below(durable, costs, now, rest)
	}
	if err != nil {
		return nil, err
	}
	own := slices.DeleteFunc(slices.Clone(records), func(r dp.Record) bool { return r.Session != j.Terms.Session })
	session, err := dp.RestoreLedger(*j.Budget, costs, own)
	if err != nil {
		return nil, fmt.Errorf("node: the ledger: %w", err)
	}
	return combinedLedger{total, session}, nil
}

// combinedLedger is the ledger of all sessions and the ledger of the present session. Each has a budget of its own.
type combinedLedger struct{ total, session client.Ledger }

// Charge implements client.Ledger. What the first takes and the second refuses is counted
// all the same, until the process ends: that errs towards less.
func (b combinedLedger) Charge(session [16]byte, round uint64, events []dp.Event) error {
	if err := b.total.Charge(session, round, events); err != nil {
		return err
	}
	return b.session.Charge(session, round, events)
}

// demand holds what a session still asks a client for: the charges of its rounds from one on.
type demand struct {
	from   uint64
	events []dp.Event
}

// rest returns the charges of the session's rounds after the last that was charged. It is better not to begin than to stop
// in the middle, with most of it spent. Rounds that were charged cost what the ledger says, also if a server that lies has
// described the session in another way before.
func (j *Job) rest(durable *store.Ledger) (demand, error) {
	last := durable.Last(j.Terms.Session)
	events, err := j.Terms.Steps.Charges(j.Terms.Cohort, int(min(last, math.MaxInt32)), j.Terms.Steps.Rounds())
	return demand{last + 1, events}, err
}

// fits says whether charges, after earlier charges, are within a limit of the owner's.
func (j *Job) fits(limit dp.Budget, costs *dp.Cache, earlier []dp.Record, asked demand) error {
	l, err := dp.RestoreLedger(limit, costs, earlier)
	if err != nil {
		return fmt.Errorf("node: the ledger: %w", err)
	}
	if len(asked.events) == 0 {
		return nil
	}
	if err = l.Charge(j.Terms.Session, asked.from, asked.events); err != nil {
		return fmt.Errorf("node: the session does not fit into what is left: %w", err)
	}
	return nil
}

// below says whether charges keep the ceilings of all periods that end after now. A later period has
// no earlier charges than are counted here.
func (j *Job) below(durable *store.Ledger, costs *dp.Cache, now time.Time, asked demand) error {
	for _, c := range j.Ceilings {
		dated := durable.Since(now.Add(-c.Period).Truncate(time.Second)) // as charges are dated
		if err := j.fits(c.Budget, costs, after(dated, time.Time{}), asked); err != nil {
			return fmt.Errorf("%w: the ceiling is %s%s%s", err, c.Name, j.until(c, costs, dated, asked), ahead(durable.Latest(), now))
		}
	}
	return nil
}

// ahead says that charges are dated after the present; "" if none is.
func ahead(last, now time.Time) string {
	if !last.After(now.Add(mostApart)) {
		return ""
	}
	return fmt.Sprintf(". Charges are dated up to %s, and the clock says %s: it was ahead when they were made, or is behind now. "+
		"If it is right now, a larger --ceiling for that time lets the client take part before; --max-epsilon holds all the same", last.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
}

func after(dated []store.Dated, t time.Time) []dp.Record {
	later := slices.DeleteFunc(slices.Clone(dated), func(d store.Dated) bool { return !d.At.IsZero() && !d.At.After(t) })
	return lists.Map(later, func(d store.Dated) dp.Record { return d.Record })
}

// until says from when on charges would keep a ceiling; "" if the ceiling rules them out by itself.
func (j *Job) until(c Ceiling, costs *dp.Cache, dated []store.Dated, asked demand) string {
	last := make(map[protocol.SessionID]time.Time)
	for _, d := range dated {
		if d.At.After(last[d.Session]) {
			last[d.Session] = d.At
		}
	}
	for _, end := range slices.SortedFunc(maps.Values(last), time.Time.Compare) {
		if j.fits(c.Budget, costs, after(dated, end), asked) == nil {
			return ", and it would fit from " + end.Add(c.Period).Add(time.Second).Format(time.RFC3339) + " on"
		}
	}
	return ""
}

// affordable returns the largest budget of session.Budgets below the session's own that the owner's
// limits leave room for, as one Gaussian release; 0: none.
func (j *Job) affordable(durable *store.Ledger, costs *dp.Cache, now time.Time) (float64, error) {
	records, err := durable.Records()
	if err != nil || j.Limit == nil {
		return 0, err
	}
	for _, epsilon := range session.Budgets {
		if epsilon >= j.Budget.Epsilon {
			continue
		}
		one := demand{durable.Last(j.Terms.Session) + 1, []dp.Event{dp.Gaussian(1 / dp.GaussianMu(epsilon, j.Budget.Delta))}}
		if j.fits(*j.Limit, costs, records, one) == nil && j.below(durable, costs, now, one) == nil {
			return epsilon, nil
		}
	}
	return 0, nil
}

func (j *Job) restore(b dp.Budget, durable *store.Ledger, costs *dp.Cache, records []dp.Record) (*dp.Ledger, error) {
	l, err := dp.RestoreLedger(b, costs, records)
	if err != nil {
		return nil, fmt.Errorf("node: the ledger: %w", err)
	}
	if err = l.Protect(j.Protects); err != nil {
		return nil, fmt.Errorf("node: the ledger and the session: %w", err)
	}
	durable.Protect(j.Protects)
	return l, nil
}

// head is the signed head of the client's ledger, as it is sent.
func (c *Client) head() []byte {
	h := c.cfg.Ledger.Sign(c.cfg.Identity)
	return h.Bytes()
}

// compareHead compares the ledger with the latest head of it that the aggregator knows; nil: none. An error
// says that the ledger lacks charges. A head that the client has not signed says nothing.
func (c *Client) compareHead(shown []byte) error {
	if shown == nil {
		return nil
	}
	err := c.cfg.Ledger.Meet(shown, c.cfg.Identity.Public())
	if errors.Is(err, store.ErrForged) {
		c.cfg.Log.Warn().Err(err).Msg("the aggregator shows a head of this client's ledger that the client has not signed; it is ignored")
		return nil
	}
	return err
}

// participation is a client's part in a session.
type participation struct {
	described  [sha256.Size]byte // the descriptor's hash
	experiment [sha256.Size]byte
	terms      session.Terms
	over       bool           // it takes the final model, and part in nothing
	last       bool           // it has been given the final model, and makes its result from it
	leaf       *protocol.Leaf // of the log, as the session began
	receipt    *store.Receipt // of its end
	keep       func(client.Trainer) error
	server     session.Signer
	trainer    client.Trainer
	driver     *session.Driver
	queue      *peer.Queue
	begun      wire.Begun // the beginning of the latest plan or model
	stop       context.CancelFunc
	stopped    chan struct{}   // the driver has returned
	ended      context.Context // ends when the final model has been taken
	end        context.CancelFunc
	nothing    bool // there was none, since no round released anything; known once ended
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
		agreed, rounds = func(*protocol.Plan) error { return errors.New("node: the session was said to be over") }, 0
	}
	ctx, t.stop = context.WithCancel(ctx)
	held := &pace{Pacing: c.cfg.Pacing, experiment: t.experiment, worst: job.Worst, sums: t.terms.Sums(list), ctx: ctx, now: c.now, limit: t.terms.StageTimeout, drops: job.DropsLate, log: &c.cfg.Log}
	t.driver = &session.Driver{
		Role: client.New(client.Config{ID: id, Session: in, Trainer: &pacedTrainer{Trainer: t.trainer, pace: held, fail: c.fail, nothing: &t.nothing}, Ledger: ledger, Entropy: c.cfg.Entropy,
			NewSum: func(u protocol.Setup) (client.Sum, error) { return p.Join(u) }, Noise: c.cfg.Noise,
			Agreed: agreed, Rounds: rounds, Save: save, Last: last, Dense: true}),
		Inputs: make(chan protocol.Input), Runner: c.cfg.Workers, Now: c.now, Hold: held.hold, Proves: t.terms.VerifyInputs,
		Persist: func(records []protocol.Record) error { return c.persist(t.experiment, records) },
		Send:    func(list []protocol.Envelope) { c.send(t, list) },
		Events:  func(events []protocol.Event) { c.log(t, events) },
	}
	go func() {
		defer close(t.stopped)
		if err := t.driver.Run(ctx); err != nil {
			c.fail(fmt.Errorf("node: a record cannot be kept, and nothing leaves without: %w", err))
		}
	}()
	return nil
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
			t.end()
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
