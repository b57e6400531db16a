package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/fedsim/fedsim/protocol"
)

// round is a round that a client is in, or sets up. A simulation has two for each of its clients: they are small.
type round struct {
	setup     *protocol.Setup
	plan      *protocol.Plan        // nil before there is one
	held      *held                 // nil: nothing
	delivery  *protocol.Delivery    // of a setup ahead, until the input is computed
	masked    *protocol.MaskedInput // ready, until the client is told to proceed
	survivors *protocol.Survivors
	next      *round // set up with the masked input
	sum       Sum
	sharers   int32          // n, clients whose shares were delivered
	anew      uint32         // as the plan was announced
	stage     protocol.Stage // what the client sends next
	computed  bool           // its inputs are, or have been
	charged   bool           // the ledger has been charged for it
	ahead     bool           // it was set up before there was a plan
}

// held is the part of a round that a client keeps to itself.
type held struct {
	inputs []protocol.Integers
	shares *shares // the noise it added, nil if none
}

// hold keeps inputs and noise in place of what was held.
func (r *round) hold(inputs []protocol.Integers, noise *shares) {
	if r.held = nil; inputs != nil || noise != nil {
		r.held = &held{inputs, noise}
	}
}

// kept returns a copy of what the round holds, empty where it holds nothing.
func (r *round) kept() held {
	if r.held == nil {
		return held{}
	}
	return *r.held
}

// side is the client's side of a round's sum.
type side struct {
	sum   Sum
	ahead bool
	anew  uint32
}

// side is nil for no round.
func (r *round) side() *side {
	if r == nil {
		return nil
	}
	return &side{r.sum, r.ahead, r.anew}
}

func (c *Client) newRound(s protocol.Setup) (*round, error) {
	sum, err := c.NewSum(c.id, s)
	setup := c.setups.of(s, func() *protocol.Setup { return new(s) })
	return &round{setup: setup, sum: sum, stage: protocol.StageAdvertise}, err
}

// advertise begins a setup, and says which of its round's it is.
func (c *Shared) advertise(s *side) (*protocol.Advertise, error) {
	m, err := s.sum.Advertise()
	if err != nil || m.Ahead == s.ahead && m.Anew == s.anew {
		return m, err
	}
	return dress(&c.advertises, dressed{of: m, ahead: s.ahead, anew: s.anew}, m, func(to *protocol.Advertise) {
		to.Ahead, to.Anew = s.ahead, s.anew
	}), nil
}

// share deals secrets in it, and says the same.
func (c *Shared) share(s *side, m *protocol.Roster, run protocol.Runner) (*protocol.Shares, error) {
	out, err := s.sum.Share(m, run)
	if err != nil || out.Ahead == s.ahead && out.Anew == s.anew {
		return out, err
	}
	return dress(&c.shares, dressed{of: out, ahead: s.ahead, anew: s.anew}, out, func(to *protocol.Shares) {
		to.Ahead, to.Anew = s.ahead, s.anew
	}), nil
}

// at is the round of a number that stands before a stage; an error if neither the
// present nor the next does, or something is being computed.
func (c *Client) at(number uint64, stage protocol.Stage) (*round, error) {
	if c.working.id == 0 {
		for _, r := range []*round{c.round, c.next} {
			if r != nil && r.setup.Round == number && r.stage == stage {
				return r, nil
			}
		}
	}
	return nil, fmt.Errorf("round %d is not at the stage %s here", number, stage)
}

// leave ends the client's part in a round. The next round's setup ends with it: the answers of this
// round set it up.
func (c *Client) leave(r *round) {
	if r != nil && r.setup.Round > c.given {
		r.sum.Withdraw() // it may be set up anew
	}
	if c.round == r {
		c.round = nil
	}
	c.next = nil
}

// quit leaves a round, and says why.
func (c *Client) quit(r *round, why error) protocol.Effects {
	c.leave(r)
	return c.report(protocol.PlanRefused, r.setup.Round, why)
}

// tooFew is the error for a message by which a stage left fewer clients than the round requires.
func (r *round) tooFew(at protocol.Stage, left int) error {
	return &protocol.TooFew{Round: r.setup.Round, Stage: at, Left: left, Required: r.setup.Cohort.Required()}
}

// working is a computation under way; of id 0 there is none.
type working struct {
	id    uint64
	round *round
}

// begin notes that something is computed for a round, and numbers it.
func (c *Client) begin(r *round) uint64 {
	c.works++
	c.working = working{c.works, r}
	return c.works
}

// done takes the result of work; the result for a round left behind is dropped.
func (c *Client) done(now time.Time, in protocol.Done) protocol.Effects {
	w := c.working
	if w.id == 0 || in.ID != w.id {
		return protocol.Effects{}
	}
	c.working = working{}
	if in.Err != nil {
		c.leave(w.round)
		return c.report(protocol.WorkFailed, c.last, in.Err)
	}
	if w.round != c.round && w.round != c.next {
		return protocol.Effects{}
	}
	return in.Apply(now)
}

type composed struct {
	message protocol.Message
	shares  *shares // of the noise that was added to the masked input only now
	// next is the client's next message of the next round, which this message sets up; 0, which is
	// never next, where nothing changes.
	next protocol.Stage
}

// compose computes the message of a stage, from what it was made with. An error is a refusal, and no failure of the computation.
type compose func(protocol.Runner) (composed, error)

// saying composes nothing but a message.
func saying[M protocol.Message](f func(protocol.Runner) (M, error)) compose {
	return func(run protocol.Runner) (composed, error) {
		m, err := f(run)
		return composed{message: m}, err
	}
}

// answer sends a message of the present stage, composed at once or as work. Until work is done the sum of the round, and of the next
// if it is part of that, are the work's.
func (c *Client) answer(r *round, work bool, f compose) protocol.Effects {
	if !work {
		x, err := f(nil)
		return c.finish(r, x, err)
	}
	id := c.begin(r)
	return protocol.Effects{Work: []protocol.Work{{ID: id, Do: func(run protocol.Runner) protocol.Done {
		x, err := f(run)
		return protocol.NewDone(id, nil, func(time.Time) protocol.Effects { return c.finish(r, x, err) })
	}}}}
}

// finish sends what was composed for the present stage. In place of a masked input, which stays here until the
// client is told to proceed, it says that there is one.
func (c *Client) finish(r *round, x composed, refusal error) protocol.Effects {
	if refusal != nil {
		return c.quit(r, refusal)
	}
	next := c.next
	switch r.stage {
	case protocol.StagePrepared:
		if x.shares != nil {
			r.hold(r.kept().inputs, x.shares)
		}
		next = r.next
		r.masked, _ = x.message.(*protocol.MaskedInput)
		ready := &protocol.Prepared{Round: r.setup.Round, Anew: r.anew}
		x.message = ready
		for _, m := range r.masked.Complaints {
			if ready.Accused == nil {
				ready.Accused = protocol.NewBitmap(r.setup.Cohort.All())
			}
			ready.Accused.Set(int(m.Of))
		}
	case protocol.StageUnmask:
		r.held = nil // noise changes once
	default:
	}
	if x.next != 0 {
		next.stage = x.next
	}
	c.advance(r)
	return protocol.Effects{Send: []protocol.Envelope{c.toAggregator(x.message)}}
}

// advance goes to the stage after the present one.
func (c *Client) advance(r *round) {
	course := protocol.StageFlow{Prepares: true, Confirms: r.sum.Confirms(), Replaces: r.setup.Replaces}
	if r.stage = course.After(r.stage); r.stage == protocol.Stages {
		c.round = nil // and all that was secret with it
	}
}

// proceed charges the ledger, and sends the masked input that is ready. There is one for each round, whatever the
// client is told.
func (c *Client) proceed(m *protocol.Proceed) protocol.Effects {
	r, err := c.at(m.Round, protocol.StageMaskedInput)
	if err != nil {
		return c.ignored(protocol.StageMaskedInput, err)
	}
	var charged []protocol.Record
	if !r.charged {
		if charged, err = c.charge(r); err != nil {
			return c.quit(r, err)
		}
	}
	masked := r.masked
	r.masked = nil
	r.hold(nil, r.kept().shares)
	c.next, r.next = r.next, nil
	c.advance(r)
	eff := protocol.Effects{Persist: charged, Send: []protocol.Envelope{c.toAggregator(masked)}}
	for _, x := range masked.Complaints {
		eff.Events = append(eff.Events, protocol.Event{Kind: protocol.ClientAccused, Round: masked.Round, Party: protocol.ClientParty(x.Of),
			By: protocol.ClientParty(c.id), Err: errors.New("no use can be made of the shares that it dealt to this client")})
	}
	return eff
}

// charge books what the client itself finds the plan to cost. Without a ledger
// the record still says that the round is used up.
func (c *Client) charge(r *round) ([]protocol.Record, error) {
	p := r.plan
	record := protocol.Charged{Session: p.Session, Round: p.Round}
	if c.Ledger != nil {
		price := c.price(p)
		if record.Events = price.events; price.err != nil {
			return nil, price.err
		}
		if err := c.Ledger(c.id).Charge(p.Session, p.Round, record.Events); err != nil {
			return nil, err
		}
	}
	r.charged, c.given = true, p.Round
	return []protocol.Record{record}, nil
}
