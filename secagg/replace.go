package secagg

import (
	"slices"

	"github.com/fedsim/fedsim/protocol"
)

// Stage 5, replace (where noise is replaced; not in Bonawitz et al.): the unmasking of the second
// sum. The answers to unmask carried what noise changes by, masked as the inputs were. The clients
// that answered are U2; the others of U1 keep the noise that is in their inputs.

// Replace reveals the shares that the second sum needs, for the clients that were shown
// to have answered unmask. After it has accepted such a set, it returns the same answer
// for the same set and ErrLocked for any other. The set must be as large as a sum
// requires and must include this client; otherwise it takes no further part in the
// round.
func (c *Client) Replace(m *protocol.Answered) (*protocol.Replacement, error) {
	u2 := partialView{m.Count, m.U2, m.Digest}
	if c.replacement != nil {
		if u2.is(c.answered) {
			return c.replacement, nil
		}
		return nil, c.lie(protocol.StageReplace, ErrLocked)
	}
	if err := c.enter(protocol.StageReplace); err != nil {
		return nil, err
	}
	if err := c.isAmong(u2, c.survivors); err != nil {
		return nil, c.lie(protocol.StageReplace, err)
	}
	c.answered = u2.clone()
	c.replacement = &protocol.Replacement{Round: c.plan.Round, Shares: c.reveal(ofChanges, c.survivors.known, c.answered.known)}
	return c.replacement, nil
}

// closeUnmask settles U2, the clients whose answer arrived, if noise is replaced. They must be able
// to restore the secrets of both sums.
func (a *Aggregator) closeUnmask() error {
	if !a.setup.Replaces {
		return nil
	}
	a.u2 = slices.Clone(a.answers[ofInputs])
	a.contexts[ofChanges] = a.roster.changeContext(a.contexts[ofInputs], a.wholly(a.u1))
	return a.starved(a.arrived, a.u2)
}

// replaced takes a client's shares.
func (a *Aggregator) replaced(from protocol.ClientID, m *protocol.Replacement) error {
	at := a.roster.find(from)
	if err := a.checkRevealed(ofChanges, at, m.Shares); err != nil {
		return err
	}
	return a.reveal(ofChanges, at, m.Shares)
}
