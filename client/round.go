package client

import (
	"fmt"

	"github.com/fedsim/fedsim/protocol"
)

// round is an iteration that a client is in, or sets up.
type round struct {
	setup     protocol.Setup
	ahead     bool           // it was set up before there was a plan
	plan      *protocol.Plan // nil before there is one
	sum       Sum
	stage     protocol.Stage     // what the client sends next
	delivery  *protocol.Delivery // came with the plan; nil: the setup is still to be done
	inputs    []protocol.Integers
	shares    *shares // the noise it added, nil if none
	sharers   int     // n, clients whose shares were delivered
	survivors *protocol.Survivors
	charged   bool // the ledger has been charged for it
	unusable  error
	state     []byte // of the trainer, after this iteration's steps; nil: none to keep

	next    *round           // set up with the masked input
	reply   protocol.Message // what the present stage composed,
	refusal error            // or why nothing is sent
}

func (c *Client) newRound(s protocol.Setup) (*round, error) {
	sum, err := c.cfg.NewSum(s)
	return &round{setup: s, sum: sum, stage: protocol.StageAdvertise}, err
}

// advertise begins a setup, and says which of its iteration's it is.
func (r *round) advertise() (*protocol.Advertise, error) {
	m, err := r.sum.Advertise()
	if err == nil {
		m.Ahead = r.ahead
	}
	return m, err
}

// share deals secrets in it, and says the same.
func (r *round) share(m *protocol.Roster, run protocol.Runner) (*protocol.Shares, error) {
	out, err := r.sum.Share(m, run)
	if err == nil {
		out.Ahead = r.ahead
	}
	return out, err
}

// at is the round whose iteration stands before a stage; an error if neither the
// present nor the next does, or something is being computed.
func (c *Client) at(iteration uint64, stage protocol.Stage) (*round, error) {
	if c.working == nil {
		for _, r := range []*round{c.round, c.next} {
			if r != nil && r.setup.Iteration == iteration && r.stage == stage {
				return r, nil
			}
		}
	}
	return nil, fmt.Errorf("iteration %d is not at the stage %s here", iteration, stage)
}

// leave ends the client's part in an iteration. What was to follow ends with it:
// that is set up by the answers of this one.
func (c *Client) leave(r *round) {
	if c.round == r {
		c.round = nil
	}
	c.next = nil
}

// working is a computation under way.
type working struct {
	id    uint64
	round *round
	then  func(*round) protocol.Effects // what is done with its result
}

// start has something computed for a round. Until it is done the round, and the
// next if it is part of that, are the computation's.
func (c *Client) start(r *round, do func(protocol.Runner) error, then func(*round) protocol.Effects) protocol.Effects {
	c.works++
	c.working = &working{c.works, r, then}
	return protocol.Effects{Work: []protocol.Work{{ID: c.works, Do: do}}}
}

// done takes the result of work; that of a round left behind is dropped.
func (c *Client) done(in protocol.Done) protocol.Effects {
	w := c.working
	if w == nil || in.ID != w.id {
		return protocol.Effects{}
	}
	c.working = nil
	if in.Err != nil {
		c.leave(w.round)
		return c.report(protocol.WorkFailed, c.last, in.Err)
	}
	if w.round != c.round && w.round != c.next {
		return protocol.Effects{}
	}
	return w.then(w.round)
}

// compose computes the message of a stage.
type compose func(*round, protocol.Runner) (protocol.Message, error)

// answer sends a message of the present stage. What a heavy sum says is composed
// as work.
func (c *Client) answer(r *round, f compose) protocol.Effects {
	if r.sum.Heavy() {
		return c.compute(r, f)
	}
	return c.reply(r, f)
}

// reply composes at once.
func (c *Client) reply(r *round, f compose) protocol.Effects {
	r.reply, r.refusal = f(r, nil)
	return c.finish(r)
}

// compute composes as work.
func (c *Client) compute(r *round, f compose) protocol.Effects {
	return c.start(r, func(run protocol.Runner) error {
		r.reply, r.refusal = f(r, run)
		return nil
	}, c.finish)
}

// finish sends what was composed for the present stage. The ledger is charged
// before a masked input leaves, and not for one that was never made.
func (c *Client) finish(r *round) protocol.Effects {
	var charged []protocol.Record
	err := r.refusal
	if err == nil && r.stage == protocol.StageMaskedInput && !r.charged {
		charged, err = c.charge(r)
	}
	if err != nil {
		c.leave(r)
		return c.refused(r.setup.Iteration, err)
	}
	m := r.reply
	r.reply = nil
	switch r.stage {
	case protocol.StageMaskedInput:
		c.next, r.next = r.next, nil
	case protocol.StageUnmask:
		r.shares = nil // noise changes once
	default:
	}
	course := protocol.Course{Confirms: r.sum.Confirms(), Replaces: r.setup.Replaces}
	if r.stage = course.After(r.stage); r.stage == protocol.Stages {
		c.round = nil // and all that was secret with it
	}
	return protocol.Effects{Persist: charged, Send: []protocol.Envelope{c.toAggregator(m)}}
}

// charge books what the client itself finds the plan to cost. Without a ledger
// the record still says that the iteration is used up.
func (c *Client) charge(r *round) ([]protocol.Record, error) {
	p := r.plan
	record := protocol.Charged{Session: p.Session, Iteration: p.Iteration}
	if c.cfg.Ledger != nil {
		var err error
		if record.Events, err = p.Charges(); err != nil {
			return nil, err
		}
		if err = c.cfg.Ledger.Charge(p.Session, p.Iteration, record.Events); err != nil {
			return nil, err
		}
	}
	r.charged = true
	return []protocol.Record{record}, nil
}
