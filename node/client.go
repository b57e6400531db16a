package node

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/internal/node/session"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// ClientConfig configures a client.
type ClientConfig struct {
	Member
	// Relays are dialled in place of the aggregator, one at a time: the first by the client's number,
	// and after a connection has broken the next. None: the aggregator itself.
	Relays  []admission.Contact
	Ledger  *store.Ledger
	Entropy entropy.Source
	// Open reads the public part of an experiment, and derives from it everything that
	// the client must not take on trust.
	Open func(experiment []byte) (*Job, error)
	// Declined is told why the client declines the session that there is, and of nil when it takes part
	// in one. nil: the log alone tells.
	Declined func(why error)
	// TellAffordable has a client that declines a session for its cost say which of 20, 10, 5, 2, 1,
	// 0.5, 0.2 and 0.1 it could afford.
	TellAffordable bool
	// Noise and Costs are caches of tables that depend on public numbers only and take
	// megabytes and seconds to compute; the clients of a process can share them. nil: the
	// client has its own.
	Noise *client.Samplers
	Costs *dp.Cache
	// Pacing likewise: how long training takes on this device.
	Pacing *Pacing
}

// Job holds a client's work in a session, as the experiment determines it.
type Job struct {
	Terms  *Terms
	Budget *dp.Budget // of the session; nil where nothing is noised
	// Limit is the budget of all sessions of the client's ledger together. nil: the budget of this
	// session, and earlier sessions count towards it.
	Limit *dp.Budget
	// Ceilings limit the cost of all sessions within any period, with a Limit.
	Ceilings []Ceiling
	// Protects says what that budget is about: nothing is charged to a ledger of anything else.
	Protects dp.Protection
	Agreed   func(*protocol.Plan) error // what of a plan is not as the experiment has it
	// Refusal, if set, is why the owner takes no part. The client declines the session and waits for the next.
	Refusal error
	// Consented, if set, keeps what the owner has consented to. It is called once the ledger has accepted the session.
	Consented func() error
	// Train makes the trainer from the party's data. With an error the client declines the session and waits for the next:
	// its operator must resolve it.
	Train func(context.Context) (client.Trainer, error)
	// Worst, if set, makes a trainer of a made-up record as large as the experiment allows. The
	// client's answers leave as late as that would take, whatever its own record: see pace.
	Worst func(context.Context) (client.Trainer, error)
	// DropsLate has the client send zeros with noise in place of a contribution that takes longer than its fixed time: a
	// program of the owner's computes it, and keeps nothing between rounds.
	DropsLate bool
	// Keep, if set, leaves on disk what the party has from the session, durably, once the trainer, which an earlier
	// job of the session may have made, has the final model. The session is marked as finished after that.
	Keep func(client.Trainer) error
}

// Client is a client's process, or one of several clients in a process.
type Client struct {
	process
	cfg    ClientConfig
	now    func() time.Time // the machine's clock
	clocks clocks           // at the latest registration
	part   *participation   // the session that it takes part in; nil before the first
}

// NewClient makes a client. It dials when it runs.
func NewClient(cfg ClientConfig) (*Client, error) {
	cfg.Noise = cmp.Or(cfg.Noise, new(client.Samplers))
	cfg.Costs = cmp.Or(cfg.Costs, new(dp.Cache))
	cfg.Pacing = cmp.Or(cfg.Pacing, new(Pacing))
	if cfg.Declined == nil {
		cfg.Declined = func(error) {}
	}
	cfg.Log = cfg.Log.With().Stringer("place", cfg.Membership.Enrolment.Ticket.Place).Logger()
	c := &Client{cfg: cfg, now: time.Now}
	if err := c.is(&c.cfg.Member, protocol.Client, cfg.Relays...); err != nil {
		return nil, err
	}
	c.conn.StartAt(int(c.party().Client))
	return c, nil
}

// Run takes part in one session that the client has not finished. It returns when the session has
// ended, the trainer has the final model and its result is kept: nil, or
// protocol.ErrNothingReleased if there was no model. Otherwise it runs until the context ends.
// Shown a session that it has finished, the client waits for the next. See TookPart.
func (c *Client) Run(ctx context.Context) error {
	ctx, cancel := c.untilFailed(ctx)
	defer cancel(nil)
	err := c.conn.Keep(ctx, func(stream context.Context, s network.Stream) error { return c.serve(ctx, stream, s) })
	if c.part != nil {
		c.part.leave()
	}
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	if err != nil {
		return err
	}
	return c.finish()
}

// RunAndDrain is Run, but when the context ends the client first answers to its end a round that it has paid for, if that
// takes no longer than a few seconds. A round that it has not paid for is left at once.
func (c *Client) RunAndDrain(ctx context.Context) error {
	longer, stop := session.Outlive(ctx, c.paid.Await)
	defer stop()
	return c.Run(longer)
}

// TookPart reports, once Run has returned, whether the client had a part in the session of which it has the end. If
// not, it came after the end and its ledger was charged for no round of it.
func (c *Client) TookPart() bool {
	t := c.part
	return t == nil || !t.over || c.cfg.Ledger.Charged(t.terms.Session) > 0
}

// finish keeps what the session came to for the party, and then marks it as finished: a
// process that is killed on the way takes the final model once more. A session without a
// model is finished too, with protocol.ErrNothingReleased.
func (c *Client) finish() error {
	t := c.part
	if t.keep != nil && !t.nothing {
		if err := t.keep(t.trainer); err != nil {
			return err
		}
	}
	if err := c.cfg.Receipts.Add(t.receipt, c.cfg.Identity, c.cfg.Ledger.Charged(t.terms.Session)); err != nil {
		return err
	}
	if t.nothing {
		return fmt.Errorf("node: %w", protocol.ErrNothingReleased)
	}
	return nil
}

// serve registers, checks the session, and carries messages. ctx belongs to the client, stream to
// the connection.
func (c *Client) serve(ctx, stream context.Context, s network.Stream) error {
	if t := c.part; t != nil && t.last { // whatever the aggregator has by now
		select {
		case <-t.ended.Done():
			return peer.ErrEnd
		case <-stream.Done():
			return stream.Err()
		}
	}
	if err := c.cfg.Ledger.Overtaken(); err != nil {
		return peer.Fatal(err)
	}
	own := session.Register{Version: peer.ProtocolID, Life: c.life, Head: c.head(), At: c.now()}
	_, last, seen := c.cfg.Receipts.Last()
	if own.Seen = seen; last != nil {
		own.End, _ = last.End() // it was verified
	}
	w, err := session.Greet(s, c.cfg.Registry, own)
	if err != nil {
		return err
	}
	if err = c.compareHead(w.Head); err != nil {
		return peer.Fatal(err)
	}
	if len(c.cfg.Relays) == 0 { // relays have lives of their own
		c.met.Meet(w.Life, &c.cfg.Log)
	}
	c.compareClocks(w.At)
	c.cfg.Log.Info().Msg("registered")
	c.cfg.Observer.Waits("")
	c.cfg.Observer.Registered(1)
	defer c.cfg.Observer.Registered(-1)
	t, err := c.nextSession(ctx, s)
	if err != nil {
		return err
	}
	peer.Within(s, peer.RegisterTimeout)
	if err = session.Say(s, &session.Message{Ready: &session.Ready{Begun: session.BegunOf(&t.begun)}}); err != nil {
		return err
	}
	stop := context.AfterFunc(t.ended, func() { _ = s.Reset() })
	defer stop()
	err = session.Carry(stream, s, t.queue, t.terms.Limits(protocol.Aggregator, protocol.Client), &t.begun, func(m protocol.Message) error {
		if forged := t.server.Check(t.terms.Session, m); forged != nil {
			return fmt.Errorf("%s: %w", protocol.Describe(m), forged)
		}
		final, ends := m.(*protocol.Final)
		if ends {
			if t.receipt, err = meet(c.cfg.Receipts, final.Receipt, t.leaf, final, c.cfg.Membership.Contact, len(c.cfg.Relays) > 0); err != nil {
				return err
			}
		}
		switch m.Kind() {
		case protocol.KindProceed:
			c.paid.Set(true)
		case protocol.KindAnnounce, protocol.KindFinal: // the round before is over
			c.paid.Set(false)
		default:
		}
		t.driver.Give(ctx, protocol.Received{Envelope: protocol.Envelope{From: protocol.Party{Role: protocol.Aggregator}, To: c.party(), Message: m}})
		t.last = t.last || ends
		return nil
	})
	if t.ended.Err() != nil {
		return peer.ErrEnd
	}
	return peer.IgnoreEOF(err)
}

// nextSession hears of sessions until there is a session that the client takes part in.
func (c *Client) nextSession(ctx context.Context, s network.Stream) (*participation, error) {
	for {
		_ = s.SetDeadline(time.Time{}) // it may take its time until there is a session
		n, err := session.Hear(s, session.DescriptorSize)
		if err != nil {
			return nil, err
		}
		if n.Session == nil {
			return nil, session.ErrNotice
		}
		t, err := c.joinSession(ctx, n.Session)
		answer := &session.Message{Wait: &session.Wait{}}
		refusal, declines := errors.AsType[*session.DeclineError](err)
		switch {
		case declines && n.Session.Ended:
			c.cfg.Log.Info().AnErr("since", refusal.Err).Msg("waiting for the next session")
		case declines:
			answer = &session.Message{Decline: refusal.Kind}
			c.cfg.Log.Error().Err(refusal.Err).Str("told", string(refusal.Kind.Known())).
				Msg("this client declines the session, and waits for the next; others are told the kind of reason alone")
			c.cfg.Declined(refusal.Err)
			c.cfg.Observer.Event(protocol.Event{Kind: protocol.SessionDeclined, Party: c.party(), Err: errors.New(string(refusal.Kind.Known()))})
		case errors.Is(err, errPast):
			c.cfg.Log.Info().Str("since", err.Error()).Msg("waiting for the next session")
			c.cfg.Declined(nil)
		default:
			if err == nil {
				c.cfg.Declined(nil)
			}
			return t, err
		}
		peer.Within(s, peer.RegisterTimeout)
		if peer.IsFatal(err) { // the process ends, and a reset would overtake the answer
			return nil, errors.Join(err, session.Conclude(s, answer))
		}
		if said := session.Say(s, answer); said != nil {
			return nil, said
		}
	}
}

// errPast: the session that there is is none to take part in, and the next one is.
var errPast = errors.New("the session is past")

func (c *Client) party() protocol.Party {
	return protocol.Party(c.cfg.Membership.Enrolment.Ticket.Place)
}

// joinSession checks the description of a session, also of a session that the client was in before. The
// present server must have signed it, for the present list. Unless the client takes part in it
// already, it begins to.
func (c *Client) joinSession(ctx context.Context, s *session.Signed) (*participation, error) {
	m := c.cfg.Membership
	list, err := session.Trust(m, c.cfg.Registry, s.List)
	if err != nil {
		return nil, err
	}
	server, ok := list.Holder(admission.ServerPlace)
	if s.Ended && !(ok && s.SignedBy(server)) {
		return nil, fmt.Errorf("%w: %w: it is over, and not signed by who is the server now", session.ErrSession, errPast)
	}
	if !ok {
		return nil, fmt.Errorf("%w: no party on the list is the server", session.ErrSession)
	}
	d, err := s.Verify(c.cfg.Registry.Federation(), server)
	if err != nil {
		return nil, err
	}
	leaf, err := d.Leaf(s, server)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", session.ErrSession, err)
	}
	if c.cfg.Receipts.Has(leaf.Session) {
		return nil, fmt.Errorf("%w: it is %x, which this client has finished", errPast, d.Terms.Session)
	}
	if d.List != list.Hash() && !s.Ended {
		return nil, fmt.Errorf("%w: it began with another enrolment list", session.ErrSession)
	}
	if list.Part != nil && d.Terms.Mode == secagg.Active {
		return nil, fmt.Errorf("%w: it is in active mode, and the aggregator shows a part of the enrolment list", session.ErrSession)
	}
	described := sha256.Sum256(s.Descriptor)
	if t := c.part; t != nil && t.described == described && server.Ed25519().Equal(ed25519.PublicKey(t.server)) && (s.Ended || !t.over) {
		return t, nil
	}
	job, err := c.cfg.Open(d.Experiment)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", session.ErrSession, err)
	}
	if !job.Terms.Equal(&d.Terms) {
		return nil, fmt.Errorf("%w: its terms do not follow from its experiment", session.ErrSession)
	}
	before := c.part
	if before != nil {
		before.leave()
		c.part = nil
	}
	if job.Refusal != nil {
		return nil, session.AsDecline(job.Refusal, session.DeclineTerms)
	}
	ledger, err := c.account(job)
	if err != nil {
		return nil, err
	}
	trainer, err := c.trainer(ctx, before, d, job)
	if _, declines := errors.AsType[*session.DeclineError](err); declines {
		return nil, err
	}
	if err == nil && job.Consented != nil && !s.Ended { // what has ended asks for nothing any more
		err = job.Consented()
	}
	if err != nil {
		return nil, peer.Fatal(&session.DeclineError{Kind: session.DeclineUnable, Err: err})
	}
	t := &participation{described: described, experiment: sha256.Sum256(d.Experiment), terms: d.Terms, over: s.Ended, server: session.Signer(server.Ed25519()), trainer: trainer, leaf: leaf, keep: job.Keep,
		queue: peer.NewQueue(peer.QueueSize), stopped: make(chan struct{})}
	t.ended, t.end = context.WithCancel(context.Background())
	if err = c.begin(ctx, t, job, ledger, list); err != nil {
		return nil, peer.Fatal(err)
	}
	c.part = t
	c.cfg.Observer.Session(d.Terms.Session)
	return t, nil
}

// trainer returns the trainer that the client had before, if the same session continues with
// another list: the trainer's own state is nowhere else. Otherwise it makes a trainer.
func (c *Client) trainer(ctx context.Context, before *participation, d *session.Descriptor, job *Job) (client.Trainer, error) {
	if before != nil && before.terms.Equal(&d.Terms) && before.experiment == sha256.Sum256(d.Experiment) {
		return before.trainer, nil
	}
	trainer, err := job.Train(ctx)
	if err != nil && ctx.Err() == nil { // its data may be there for the next session
		return nil, &session.DeclineError{Kind: session.DeclineWaits, Err: err}
	}
	if durable, ok := trainer.(client.Durable); ok && err == nil {
		err = c.restore(durable, d)
	}
	return trainer, err
}

// account returns the ledger that the session charges; nil without noise. The client declines a session that
// does not fit into what is left, or protects something else.
func (c *Client) account(job *Job) (client.Ledger, error) {
	if job.Budget == nil {
		return nil, nil
	}
	ledger, err := job.account(c.cfg.Ledger, c.cfg.Costs, c.now())
	if err == nil && len(job.Ceilings) > 0 {
		err = c.clocks.check(c.now())
	}
	if err != nil {
		return nil, session.AsDecline(err, c.declineReason(job, err))
	}
	return ledger, nil
}

// declineReason is the kind of reason of a session that costs too much. The owner may allow the client to say
// what it could afford.
func (c *Client) declineReason(job *Job, why error) session.Decline {
	if _, overspends := errors.AsType[*dp.OverspendError](why); overspends && c.cfg.TellAffordable {
		if epsilon, err := job.affordable(c.cfg.Ledger, c.cfg.Costs, c.now()); err == nil {
			return session.Affords(epsilon)
		}
	}
	return session.DeclineBudget
}
