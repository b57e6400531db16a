package client

import (
	"fmt"

	"github.com/fedsim/fedsim/protocol"
)

// prepare computes what the client will send: it runs as work.
func (c *Client) prepare(r *round, run protocol.Runner) error {
	vectors, err := c.cfg.Trainer.Contribute(r.plan, c.cfg.Entropy, run)
	if err == nil {
		r.inputs, err = quantizeAll(r.plan, vectors)
	}
	if err != nil {
		// The aggregator must not hear of it: zero and noise, like anybody.
		r.unusable, r.inputs = err, zeros(r.plan)
	}
	if r.state, err = c.save(); err != nil {
		return err
	}
	if r.sum.Heavy() {
		return nil // dense noise is not kept from here to the masked input
	}
	return c.addNoise(r)
}

// addNoise adds the client's share of the noise to its inputs.
func (c *Client) addNoise(r *round) (err error) {
	if !r.sum.DrawsNoise() {
		r.shares, err = c.cfg.Noise.draw(r.plan, c.cfg.Entropy, r.inputs)
	}
	return err
}

// ready goes on from the prepared inputs to the first stage that is not done.
func (c *Client) ready(r *round) protocol.Effects {
	var eff protocol.Effects
	if r.delivery != nil {
		eff = c.sendInput(r.delivery)
	} else {
		eff = c.reply(r, func(r *round, _ protocol.Runner) (protocol.Message, error) { return r.advertise() })
	}
	eff.Persist = append(c.trained(r.state), eff.Persist...)
	r.state = nil
	if r.unusable != nil {
		eff.Events = append(eff.Events, c.event(protocol.InputUnusable, r.setup.Iteration, r.unusable))
	}
	return eff
}

// share deals secrets among the clients of the roster, of the present iteration or
// of the next.
func (c *Client) share(m *protocol.Roster) protocol.Effects {
	r, err := c.at(m.Iteration, protocol.StageShare)
	if err != nil {
		return c.ignored(protocol.StageShare, err)
	}
	return c.answer(r, func(r *round, run protocol.Runner) (protocol.Message, error) { return r.share(m, run) })
}

// sendInput checks how many clients are left, and has the masked input made. The
// next iteration is set up with it.
func (c *Client) sendInput(m *protocol.Delivery) protocol.Effects {
	r, err := c.at(m.Iteration, protocol.StageMaskedInput)
	if err != nil || r.plan == nil {
		return c.ignored(protocol.StageMaskedInput, fmt.Errorf("iteration %d does not wait for shares here", m.Iteration))
	}
	if need := r.plan.Cohort.Required(); m.Clients < need || m.Clients > r.plan.Cohort.Clients {
		c.leave(r)
		return c.refused(m.Iteration, &protocol.TooFew{Iteration: m.Iteration, Stage: protocol.StageShare, Left: m.Clients, Required: need})
	}
	r.sharers = m.Clients
	if r.next, err = c.ahead(r.setup.Following()); err != nil {
		c.leave(r)
		return c.refused(m.Iteration, err)
	}
	return c.answer(r, func(r *round, run protocol.Runner) (protocol.Message, error) {
		if r.sum.Heavy() {
			if err := c.addNoise(r); err != nil {
				return nil, err
			}
		}
		inputs := r.inputs
		r.inputs = nil // dense by now: all clients of a process may be here at once
		out, err := r.sum.MaskedInput(m, inputs, run)
		if err == nil && r.next != nil {
			out.Next, err = r.next.advertiseAhead()
		}
		return out, err
	})
}

// survivors takes the first set of survivors that it accepts; there is no other.
func (c *Client) survivors(m *protocol.Survivors) protocol.Effects {
	r := c.round
	if r == nil || r.setup.Iteration != m.Iteration || r.survivors != nil || c.working != nil ||
		r.stage != protocol.StageConsistency && r.stage != protocol.StageUnmask {
		return c.ignored(protocol.StageUnmask, fmt.Errorf("iteration %d does not wait for survivors here", m.Iteration))
	}
	if need := r.plan.Cohort.Required(); m.Count < need {
		c.leave(r)
		return c.refused(m.Iteration, &protocol.TooFew{Iteration: m.Iteration, Stage: protocol.StageMaskedInput, Left: m.Count, Required: need})
	}
	if m.Count > r.sharers {
		c.leave(r) // more survivors would mean less noise
		return c.refused(m.Iteration, fmt.Errorf("%d survivors of %d clients whose shares were delivered", m.Count, r.sharers))
	}
	r.survivors = m
	if r.sum.Confirms() {
		return c.answer(r, func(r *round, _ protocol.Runner) (protocol.Message, error) { return r.sum.Confirm(m) })
	}
	return c.unmask(r, nil)
}

// quorum goes on from confirmed survivors to unmasking.
func (c *Client) quorum(m *protocol.Quorum) protocol.Effects {
	r, err := c.at(m.Iteration, protocol.StageUnmask)
	if err != nil || r.survivors == nil {
		return c.ignored(protocol.StageUnmask, fmt.Errorf("iteration %d does not wait for a quorum here", m.Iteration))
	}
	return c.unmask(r, m)
}

// unmask answers the survivors, and the roster of the next iteration that came
// with them. What was drawn as work is thinned as work.
func (c *Client) unmask(r *round, q *protocol.Quorum) protocol.Effects {
	next := c.next
	answer := func(r *round, run protocol.Runner) (protocol.Message, error) {
		// First, since a share of the noise is thinned for one number of survivors.
		if err := r.sum.Check(r.survivors, q, run); err != nil {
			return nil, err
		}
		var removals []protocol.Integers
		if r.shares != nil {
			var err error
			if removals, err = c.cfg.Noise.remove(r.plan, r.shares, r.survivors.Count); err != nil {
				return nil, err
			}
		}
		out, err := r.sum.Unmask(r.survivors, removals, run)
		if err != nil || r.survivors.Next == nil || next == nil {
			return out, err
		}
		with := *out // what the sum answers stays as it is
		with.Next = next.shareAhead(r.survivors.Next, run)
		return &with, nil
	}
	if r.shares != nil {
		return c.compute(r, answer)
	}
	return c.answer(r, answer)
}

// replace answers who unmasked, where noise is replaced. As many as are required
// must have, since what the aggregator holds then is charged for no fewer.
func (c *Client) replace(m *protocol.Answered) protocol.Effects {
	r, err := c.at(m.Iteration, protocol.StageReplace)
	if err != nil {
		return c.ignored(protocol.StageReplace, err)
	}
	if need := r.plan.Cohort.Required(); m.Count < need {
		c.leave(r)
		return c.refused(m.Iteration, &protocol.TooFew{Iteration: m.Iteration, Stage: protocol.StageUnmask, Left: m.Count, Required: need})
	}
	if m.Count > r.survivors.Count {
		c.leave(r)
		return c.refused(m.Iteration, fmt.Errorf("%d answers of %d survivors", m.Count, r.survivors.Count))
	}
	return c.answer(r, func(r *round, _ protocol.Runner) (protocol.Message, error) { return r.sum.Replace(m) })
}
