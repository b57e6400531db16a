package client

import (
	"fmt"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
)

// contribution holds the values that a client will send in a round.
type contribution struct {
	inputs   []protocol.Integers
	shares   *shares // the noise in them, nil if none
	unusable error   // why they are zero and noise
	state    []byte  // of the trainer, after this round's steps; nil: none to keep
}

// Inputs returns a party's input to the round of a plan: its trainer's contribution in fixed point,
// a vector for each release, within its bounds and without noise. A driver may add the inputs up
// itself if no party needs to be kept from seeing them. It then has no use for the role's messages.
func Inputs(t Trainer, p *protocol.Plan, src entropy.Source, run protocol.Runner) ([]protocol.Integers, error) {
	vectors, err := t.Contribute(p, src, run)
	if err != nil {
		return nil, err
	}
	if len(vectors) != len(p.Releases) {
		return nil, fmt.Errorf("%w: %d vectors for %d releases", ErrOutOfBounds, len(vectors), len(p.Releases))
	}
	out := make([]protocol.Integers, len(vectors))
	for i, v := range vectors {
		if out[i], err = Quantize(v, p.Releases[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// DenseInputs is [Inputs] with every vector dense, whatever its entries.
func DenseInputs(t Trainer, p *protocol.Plan, src entropy.Source, run protocol.Runner) ([]protocol.Integers, error) {
	inputs, err := Inputs(t, p, src, run)
	if err == nil {
		makeDense(p, inputs)
	}
	return inputs, err
}

func makeDense(p *protocol.Plan, inputs []protocol.Integers) {
	for i, r := range p.Releases {
		inputs[i] = dense(inputs[i], r.Len)
	}
}

// prepare computes what the client will send: it runs as work.
func (c *Shared) prepare(id protocol.ClientID, p *protocol.Plan, sum Sum, run protocol.Runner) (x contribution, err error) {
	if x.inputs, err = Inputs(c.Trainer(id), p, c.Entropy(id), run); err != nil {
		// The aggregator must not hear of it: zero and noise, like any client.
		x.unusable, x.inputs = err, p.Zeros()
	}
	if c.dense {
		makeDense(p, x.inputs)
	}
	if x.state, err = c.saved(); err != nil {
		return x, err
	}
	if !sum.Heavy() { // else dense noise is not kept from here to the masked input
		x.inputs, x.shares, err = c.addNoise(id, p, sum, x.inputs)
	}
	if f, ok := sum.(StreamingSum); ok && err == nil {
		folded := x.inputs
		if x.inputs, err = f.Fold(id, p, folded); x.inputs == nil && x.shares == nil {
			giveBack(folded)
		}
	}
	return x, err
}

// addNoise returns inputs with the client's share of the noise, and what it must still
// know of that. The inputs stay as they are.
func (c *Shared) addNoise(id protocol.ClientID, p *protocol.Plan, sum Sum, inputs []protocol.Integers) ([]protocol.Integers, *shares, error) {
	if sum.DrawsNoise() {
		return inputs, nil, nil
	}
	return c.Noise.draw(p, c.Entropy(id), inputs)
}

// ready continues from the computed inputs to the first stage that is not done.
func (c *Client) ready(r *round, x contribution) protocol.Effects {
	r.hold(x.inputs, x.shares)
	r.computed = true
	var eff protocol.Effects
	if d := r.delivery; d != nil {
		r.delivery = nil
		eff = c.delivered(d)
	} else {
		eff = c.answer(r, false, c.advertising(r.side()))
	}
	if x.state != nil {
		eff.Persist = append(c.trained(x.state), eff.Persist...)
	}
	if x.unusable != nil {
		eff.Events = append(eff.Events, c.event(protocol.InputUnusable, r.setup.Round, x.unusable))
	}
	return eff
}

// advertising composes what begins a setup.
func (c *Shared) advertising(s *side) compose {
	return saying(func(protocol.Runner) (*protocol.Advertise, error) { return c.advertise(s) })
}

// share deals secrets among the clients of the roster, of the present round or
// of the next.
func (c *Client) rostered(m *protocol.Roster) protocol.Effects {
	r, err := c.at(m.Round, protocol.StageShare)
	if err != nil {
		return c.ignored(protocol.StageShare, err)
	}
	own := r.side()
	return c.answer(r, r.sum.Heavy(), saying(func(run protocol.Runner) (*protocol.Shares, error) { return c.share(own, m, run) }))
}

// delivered checks how many clients are left, and has the masked input made. The
// next round is set up with it.
func (c *Client) delivered(m *protocol.Delivery) protocol.Effects {
	r, err := c.at(m.Round, protocol.StagePrepared)
	if err != nil || r.plan == nil {
		return c.ignored(protocol.StagePrepared, fmt.Errorf("round %d does not wait for shares here", m.Round))
	}
	if m.Clients < r.plan.Cohort.Required() || m.Clients > r.plan.Cohort.Wanted() {
		return c.quit(r, r.tooFew(protocol.StageShare, m.Clients))
	}
	r.sharers = int32(m.Clients)
	if r.next, err = c.ahead(r.setup.Following()); err != nil {
		return c.quit(r, err)
	}
	f := c.masking(r, m)
	if !c.keeps {
		r.hold(nil, r.kept().shares) // inputs may be dense: all clients of a process may be here at once
	}
	return c.answer(r, r.sum.Heavy(), f)
}

// masking composes the masked input. The input of a heavy sum is noised, and so dense, only here.
func (c *Client) masking(r *round, m *protocol.Delivery) compose {
	p, sum, inputs, next := r.plan, r.sum, r.kept().inputs, r.next.side()
	return func(run protocol.Runner) (x composed, err error) {
		noised := inputs
		if sum.Heavy() {
			if noised, x.shares, err = c.addNoise(c.id, p, sum, inputs); err != nil {
				return x, err
			}
		}
		out, err := sum.MaskedInput(m, noised, run)
		if err == nil && next != nil {
			x.next = protocol.StageShare
			var ahead *protocol.Advertise
			ahead, err = c.advertise(next)
			out = dress(&c.inputs, dressed{of: out, next: ahead}, out, func(to *protocol.MaskedInput) { to.Next = ahead })
		}
		x.message = out
		return x, err
	}
}

// survivors takes the first set of survivors that it accepts; there is no other.
func (c *Client) survivors(m *protocol.Survivors) protocol.Effects {
	r := c.round
	if r == nil || r.setup.Round != m.Round || r.survivors != nil || c.working.id != 0 ||
		r.stage != protocol.StageConsistency && r.stage != protocol.StageUnmask {
		return c.ignored(protocol.StageUnmask, fmt.Errorf("round %d does not wait for survivors here", m.Round))
	}
	if m.Count < r.plan.Cohort.Required() {
		return c.quit(r, r.tooFew(protocol.StageMaskedInput, m.Count))
	}
	if m.Count > int(r.sharers) { // more survivors would mean less noise
		return c.quit(r, fmt.Errorf("%d survivors of %d clients whose shares were delivered", m.Count, r.sharers))
	}
	r.survivors = m
	if r.sum.Confirms() {
		sum := r.sum
		return c.answer(r, sum.Heavy(), saying(func(protocol.Runner) (*protocol.Consistency, error) { return sum.Confirm(m) }))
	}
	return c.unmask(r, nil)
}

// quorum continues from confirmed survivors to unmasking.
func (c *Client) quorum(m *protocol.Quorum) protocol.Effects {
	r, err := c.at(m.Round, protocol.StageUnmask)
	if err != nil || r.survivors == nil {
		return c.ignored(protocol.StageUnmask, fmt.Errorf("round %d does not wait for a quorum here", m.Round))
	}
	return c.unmask(r, m)
}

// unmask answers the survivors, and the roster of the next round that came with them. Noise that
// was drawn as work is thinned as work.
func (c *Client) unmask(r *round, q *protocol.Quorum) protocol.Effects {
	return c.answer(r, r.kept().shares != nil || r.sum.Heavy(), c.unmasking(r, q))
}

func (c *Client) unmasking(r *round, q *protocol.Quorum) compose {
	noise, p, sum, shares, survivors := c.Noise, r.plan, r.sum, r.kept().shares, r.survivors
	var next *side
	if n := survivors.Next; c.next != nil && n != nil && n.Round == c.next.setup.Round && c.next.stage == protocol.StageShare {
		next = c.next.side()
	}
	return func(run protocol.Runner) (x composed, err error) {
		// First, since a share of the noise is thinned for one number of survivors.
		if err = sum.Check(survivors, q, run); err != nil {
			return x, err
		}
		var removals []protocol.Integers
		if shares != nil {
			if removals, err = noise.remove(p, shares, survivors.Count); err != nil {
				return x, err
			}
		}
		out, err := sum.Unmask(survivors, removals, run)
		x.message = out
		if err != nil || next == nil {
			return x, err
		}
		ahead, wrong := c.share(next, survivors.Next, run)
		if x.next = protocol.StagePrepared; wrong != nil { // the client is without the next round, and the present one is not held up
			ahead, x.next = nil, protocol.Stages
		}
		x.message = dress(&c.unmasks, dressed{of: out, next: ahead}, out, func(to *protocol.Unmask) { to.Next = ahead })
		return x, nil
	}
}

// replace answers who unmasked, where noise is replaced. As many as are required
// must have, since what the aggregator holds then is charged for no fewer.
func (c *Client) replace(m *protocol.Answered) protocol.Effects {
	r, err := c.at(m.Round, protocol.StageReplace)
	if err != nil {
		return c.ignored(protocol.StageReplace, err)
	}
	if m.Count < r.plan.Cohort.Required() {
		return c.quit(r, r.tooFew(protocol.StageUnmask, m.Count))
	}
	if m.Count > r.survivors.Count {
		return c.quit(r, fmt.Errorf("%d answers of %d survivors", m.Count, r.survivors.Count))
	}
	sum := r.sum
	return c.answer(r, sum.Heavy(), saying(func(protocol.Runner) (*protocol.Replacement, error) { return sum.Replace(m) }))
}
