// Package client is the client role: the party that has private data. A client decides whether to
// take part in a round (one round of training), and lets its [Trainer] compute a contribution. It
// converts the contribution to integers, adds its share of the noise, charges its privacy [Ledger],
// and answers the stages of the secure sum.
//
// The role is a state machine without I/O: [Client.Step] takes an input and the time, and
// returns effects for its driver to carry out. So the same code runs in a simulation and
// over a network. It knows no algorithm; that is behind Trainer.
package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
)

// Trainer is the algorithm as one party sees it.
type Trainer interface {
	// Contribute computes the party's vectors, one for each release of the plan and
	// within its bounds. It runs before the first answer of the round, so the time it
	// takes can be observed; a deployment must therefore answer at a fixed time.
	Contribute(p *protocol.Plan, src entropy.Source, run protocol.Runner) ([]protocol.Vector, error)
	// Finish takes the trained shared model and does the local part of the training that
	// follows.
	Finish(model []byte, run protocol.Runner) error
}

// Durable is a Trainer that trains something for itself alone. A restart must not lose
// it, since the ledger was charged for its steps.
type Durable interface {
	Trainer
	// Save is the state that a restart must not lose; nil while there is none.
	Save() ([]byte, error)
	// Restore goes back to a saved state of the same party, before any other call. src is
	// the source that Contribute gets. A state that does not fit is an error that says
	// why.
	Restore(state []byte, src entropy.Source) error
}

// Resumable is a Trainer that keeps state from one round to the next, which a simulation needs when
// it is continued later. Any other trainer is assumed to keep nothing. In a deployment the state is
// not written down: a client that restarts there begins anew, except for the state of a Durable
// trainer.
type Resumable interface {
	Trainer
	// Snapshot returns the trainer's state; nil while there is none.
	Snapshot() ([]byte, error)
	// Resume goes to a snapshot of the same party, before any other call but Resume: a driver that
	// has others compute may follow them, from one snapshot to a later one. src is the source that
	// Contribute gets. A snapshot that does not fit is an error that says why.
	Resume(snapshot []byte, src entropy.Source) error
}

// Ledger keeps what a party has spent of its privacy budget. Charge refuses what would
// overspend; what it accepted is never refunded. It keeps its state in memory: the role
// returns a durable record with the same step, and from these records a ledger is rebuilt
// after a restart.
type Ledger interface {
	Charge(session [16]byte, round uint64, events []dp.Event) error
}

// Sum is a client's side of the secure sum of one round (package secagg). It answers
// each stage once and in order. An error says what is wrong with the message that it was
// given, and ends its part in the round.
type Sum interface {
	// Heavy reports whether computing its answers (keys and masks) is worth being
	// scheduled as work; otherwise they are computed at once, without a runner.
	Heavy() bool
	// DrawsNoise reports whether the sum draws the noise itself. Only the ideal sum may.
	DrawsNoise() bool
	// Confirms reports whether the survivors are confirmed before the unmasking.
	Confirms() bool

	// Begin takes the plan of the round, before the masked input at the latest. The
	// stages before that may run while the previous round is under way.
	Begin(*protocol.Plan) error
	// Withdraw gives up a round whose masked input has not left the client, so that the round can be set up anew.
	// The sum answers nothing more. It may be called while an answer is computed.
	Withdraw()

	Advertise() (*protocol.Advertise, error)
	Share(*protocol.Roster, protocol.Runner) (*protocol.Shares, error)
	MaskedInput(*protocol.Delivery, []protocol.Integers, protocol.Runner) (*protocol.MaskedInput, error)
	// Confirm signs the survivors where they are confirmed. It accepts the first
	// survivors that it is shown and no others afterwards.
	Confirm(*protocol.Survivors) (*protocol.Consistency, error)
	// Check says what is wrong with the survivors, before noise is taken back according
	// to their number; q has the signatures where survivors are confirmed.
	Check(s *protocol.Survivors, q *protocol.Quorum, run protocol.Runner) error
	// Unmask answers the survivors that were checked.
	Unmask(s *protocol.Survivors, removals []protocol.Integers, run protocol.Runner) (*protocol.Unmask, error)
	// Replace answers the list of clients that unmasked, where noise is replaced. It
	// accepts the first list that it is shown and no others afterwards.
	Replace(*protocol.Answered) (*protocol.Replacement, error)
}

// StreamingSum is a Sum that takes a client's integers as soon as they are computed, with all noise
// in them. A simulation has such a sum: it would otherwise hold the integers of all clients at
// once.
type StreamingSum interface {
	Sum
	// Fold returns what is left to be sent of a client's; nil: the message is sent without vectors,
	// and the memory of the integers is used for other integers.
	Fold(protocol.ClientID, *protocol.Plan, []protocol.Integers) ([]protocol.Integers, error)
}

// Config configures a client. All fields except Ledger, Agreed and Rounds are required.
type Config struct {
	ID      protocol.ClientID
	Session protocol.SessionID
	Trainer Trainer
	// Ledger nil: the party agreed to take part without privacy. A client with a ledger
	// refuses a plan that releases anything without noise.
	Ledger  Ledger
	Entropy entropy.Source
	NewSum  func(protocol.Setup) (Sum, error)
	Noise   *Samplers
	// Agreed, if set, says what is wrong with a plan that does not belong to the
	// experiment which the party agreed to. Such a plan is refused and costs nothing.
	Agreed func(*protocol.Plan) error
	// Rounds is T, the number of rounds. Each round up to T is set up ahead, during the previous
	// round. 0: none is.
	Rounds uint64
	// Save, if set, is the Save method of a Durable trainer: what it returns is recorded
	// as protocol.Trained before any result of the training leaves.
	Save func() ([]byte, error)
	// Last is the latest round of the session that was recorded before a restart; 0
	// for a client that starts afresh.
	Last uint64
	// Dense has vectors made dense along with the contribution, which the driver answers at a fixed time. Else they are made dense in
	// the masked input, which takes less memory and takes longer the more entries a vector has.
	Dense bool
}

// Client is the role of one client. Its methods are for one goroutine at a time.
type Client struct {
	*Shared
	last     uint64  // the latest round taken up; an earlier one is refused
	given    uint64  // the latest round that the ledger was charged for; it is not taken up again
	works    uint64  // how many computations were asked for
	working  working // the latest, until its result is here
	round    *round  // nil between rounds
	next     *round  // set up ahead, without a plan as yet; nil if there is none
	id       protocol.ClientID
	anew     uint32 // the setups of the latest round that were given up, as it was announced
	finished bool
}

// New makes a client.
func New(cfg Config) *Client {
	s := &Shared{
		Session: cfg.Session, Noise: cfg.Noise, Rounds: cfg.Rounds, agreed: cfg.Agreed, save: cfg.Save, dense: cfg.Dense, keeps: true,
		Trainer: func(protocol.ClientID) Trainer { return cfg.Trainer },
		Entropy: func(protocol.ClientID) entropy.Source { return cfg.Entropy },
		NewSum:  func(_ protocol.ClientID, s protocol.Setup) (Sum, error) { return cfg.NewSum(s) },
	}
	if cfg.Ledger != nil {
		s.Ledger = func(protocol.ClientID) Ledger { return cfg.Ledger }
	}
	return &Client{Shared: s, id: cfg.ID, last: cfg.Last, given: cfg.Last}
}

// Step feeds one input. It never blocks and never panics on what a peer sent.
func (c *Client) Step(now time.Time, in protocol.Input) protocol.Effects {
	switch in := in.(type) {
	case protocol.Received:
		return c.Receive(now, in.Envelope)
	case protocol.Done:
		return c.done(now, in)
	default:
		return protocol.Effects{}
	}
}

// Receive is Step with a message.
func (c *Client) Receive(_ time.Time, e protocol.Envelope) protocol.Effects {
	if e.From.Role != protocol.Aggregator {
		return c.ignored(protocol.StageAdvertise, fmt.Errorf("%s: a client hears the aggregator only, not %s", protocol.Describe(e.Message), e.From))
	}
	switch m := e.Message.(type) {
	case *protocol.Announce:
		if m.Plan != nil {
			return c.announced(m)
		}
	case *protocol.Invite:
		return c.invited(m.Setup)
	case *protocol.Roster:
		return c.rostered(m)
	case *protocol.Delivery:
		return c.delivered(m)
	case *protocol.Proceed:
		return c.proceed(m)
	case *protocol.Survivors:
		return c.survivors(m)
	case *protocol.Quorum:
		return c.quorum(m)
	case *protocol.Answered:
		return c.replace(m)
	case *protocol.Final:
		return c.final(m.Model)
	}
	return c.ignored(protocol.StageAdvertise, fmt.Errorf("a client has no use for %s", protocol.Describe(e.Message)))
}

// announced begins a round. The contribution is computed first. The client advertises when it is
// ready or, if the round was set up ahead, masks the contribution. A party that noises its own
// training is charged before it trains, since the steps change the state that it will publish,
// whether or not the round has a sum.
//
// A plan that is announced again, before the client was told to proceed, has the
// round set up anew. The client keeps the inputs that it has computed.
func (c *Client) announced(m *protocol.Announce) protocol.Effects {
	p := m.Plan
	if err := c.accept(m); err != nil {
		return c.declines(p.Round, err) // and the round in progress continues
	}
	r := c.next
	if m.Delivery != nil && (c.working.id != 0 || r == nil || *r.setup != p.Setup() || r.stage != protocol.StagePrepared) {
		return c.ignored(protocol.StagePrepared, fmt.Errorf("round %d is not set up here", p.Round))
	}
	before := c.round // if the round is announced again, its setup is given up
	if before != nil && before.setup.Round == p.Round {
		before.sum.Withdraw()
	} else {
		before = nil
	}
	var err error
	if m.Delivery == nil {
		r, err = c.newRound(p.Setup())
	}
	if err == nil {
		err = r.sum.Begin(p)
	}
	if err != nil {
		return c.declines(p.Round, err)
	}
	r.plan, r.anew, r.delivery = p, m.Anew, m.Delivery
	c.last, c.anew, c.round, c.next = p.Round, m.Anew, nil, nil
	var records []protocol.Record
	if p.OwnNoise() {
		if records, err = c.charge(r); err != nil {
			return c.declines(p.Round, err)
		}
	}
	c.round = r
	if before != nil {
		return c.again(before, r)
	}
	eff := c.preparing(r)
	eff.Persist = records
	return eff
}

// again continues in a new setup of a round with the inputs that the client has computed, or is computing.
func (c *Client) again(before, r *round) protocol.Effects {
	x := contribution{inputs: before.kept().inputs, shares: before.kept().shares}
	switch {
	case !before.computed:
		c.working.round = r
		return protocol.Effects{}
	case x.inputs == nil:
		return c.preparing(r)
	case r.sum.Heavy():
		x.shares = nil // drawn in the setup before, and not in the inputs
	}
	c.working = working{}
	return c.ready(r, x)
}

// preparing has the inputs of a round computed, for the latest setup of it.
func (c *Client) preparing(r *round) protocol.Effects {
	id := c.begin(r)
	return protocol.Effects{Work: []protocol.Work{{ID: id, Do: func(run protocol.Runner) protocol.Done {
		x, err := c.prepare(c.id, r.plan, r.sum, run)
		return protocol.NewDone(id, err, func(time.Time) protocol.Effects { return c.ready(c.round, x) })
	}}}}
}

// accept says why a plan is refused, if it is.
func (c *Client) accept(m *protocol.Announce) error {
	p := m.Plan
	if c.finished {
		return errors.New("the session is over")
	}
	switch err, r := c.sound.of(p, p.Validate), c.round; {
	case err != nil:
		return err
	case p.Session != c.Session:
		return errors.New("the plan is of another session")
	case p.Round < c.last || p.Round <= c.given || p.Round == c.last && m.Anew <= c.anew:
		return fmt.Errorf("round %d is not later than %d, the last one taken up", p.Round, c.last)
	case r != nil && r.setup.Round == p.Round && r.plan.Hash() != p.Hash():
		return fmt.Errorf("round %d was taken up with another plan", p.Round)
	case !p.Setup().Chooses(c.id):
		return fmt.Errorf("round %d asks %d of %d clients, and this is none of them", p.Round, p.Cohort.Clients, p.Cohort.All())
	}
	if c.agreed != nil {
		if err := c.agreed(p); err != nil {
			return err
		}
	}
	if c.Ledger == nil {
		return nil
	}
	return c.price(p).err // what no budget covers is not worth training for
}

// final ends the session: the model is handed to the trainer.
func (c *Client) final(model []byte) protocol.Effects {
	if c.finished {
		return c.ignored(protocol.StageAdvertise, errors.New("the session is over"))
	}
	c.finished, c.round, c.next = true, nil, nil
	return protocol.Effects{Work: []protocol.Work{protocol.NewWork(c.begin(nil), func(run protocol.Runner) ([]byte, error) {
		if err := c.Trainer(c.id).Finish(model, run); err != nil {
			return nil, err
		}
		return c.saved()
	}, func(_ time.Time, state []byte) protocol.Effects {
		return protocol.Effects{
			Persist: c.trained(state),
			Events:  []protocol.Event{{Kind: protocol.SessionEnded, Party: protocol.ClientParty(c.id)}},
		}
	})}}
}

// saved is the trainer's state, if it has any; as part of a work.
func (c *Shared) saved() ([]byte, error) {
	if c.save == nil {
		return nil, nil
	}
	return c.save()
}

// trained records a state of the trainer; nothing where there is none.
func (c *Client) trained(state []byte) []protocol.Record {
	if state == nil {
		return nil
	}
	return []protocol.Record{protocol.Trained{Session: c.Session, Round: c.last, State: state}}
}

func (c *Client) toAggregator(m protocol.Message) protocol.Envelope {
	return protocol.Envelope{From: protocol.ClientParty(c.id), To: protocol.Party{Role: protocol.Aggregator}, Message: m}
}

// declines refuses a plan and tells the aggregator so, without the reason, which stays in the client's own log. A plan
// that is announced once more while the client takes part in its round is answered by nothing.
func (c *Client) declines(round uint64, err error) protocol.Effects {
	eff := c.report(protocol.PlanRefused, round, err)
	if !c.finished && (c.round == nil || c.round.setup.Round != round) {
		eff.Send = []protocol.Envelope{c.toAggregator(&protocol.Refusal{Round: round})}
	}
	return eff
}

func (c *Client) ignored(stage protocol.Stage, err error) protocol.Effects {
	eff := c.report(protocol.MessageIgnored, c.last, err)
	eff.Events[0].Stage = stage
	return eff
}

func (c *Client) report(kind protocol.EventKind, round uint64, err error) protocol.Effects {
	return protocol.Effects{Events: []protocol.Event{c.event(kind, round, err)}}
}

func (c *Client) event(kind protocol.EventKind, round uint64, err error) protocol.Event {
	return protocol.Event{Kind: kind, Round: round, Party: protocol.ClientParty(c.id), Err: err}
}
