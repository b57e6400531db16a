package client

import (
	"fmt"

	"github.com/fedsim/fedsim/protocol"
)

// In the steady state a round is set up while the previous round is under way: keys are advertised
// with the masked input, and shares dealt with the answer to unmask. A round is then three
// exchanges with each client instead of five. It has one more where survivors are confirmed, and
// one more where noise is replaced.

// ahead makes a round to come; nil if there is none, or if it asks others than this one.
func (c *Client) ahead(s protocol.Setup) (*round, error) {
	if s.Round > c.Rounds || s.Cohort.Enrolled > 0 {
		return nil, nil
	}
	r, err := c.newRound(s)
	r.ahead = true
	return r, err
}

// invited sets up the next round, since the client is to be in it again: the present round began
// without it.
func (c *Client) invited(s protocol.Setup) protocol.Effects {
	switch {
	case s.Session != c.Session || s.Round > c.Rounds || s.Round <= c.last || c.finished || s.Cohort.Enrolled > 0:
		return c.ignored(protocol.StageAdvertise, fmt.Errorf("no round %d is to come here", s.Round))
	case c.next != nil && c.next.setup.Round == s.Round || c.round != nil && c.round.setup.Round+1 >= s.Round:
		return c.ignored(protocol.StageAdvertise, fmt.Errorf("round %d is being set up here already", s.Round))
	}
	r, err := c.ahead(s)
	if err != nil {
		return c.refused(s.Round, err)
	}
	// The work under way is for a round that is over, and the round before the next is no longer
	// for this client.
	c.round, c.next, c.working, c.last, c.anew = nil, r, working{}, s.Round-1, 0
	return c.reply(r, c.advertising(r.side()))
}

// sideOf is the client's side of the sum of a round that there may not be.
func (r *round) sideOf() *side {
	if r == nil {
		return nil
	}
	s := r.side()
	return &s
}

// shareAhead answers a roster on the side of an answer to unmask, and says what the
// client sends next. A roster that is no good is not answered: the client is then without
// the next round, but the present one is not held up.
func (c *Shared) shareAhead(s side, m *protocol.Roster, run protocol.Runner) (*protocol.Shares, protocol.Stage) {
	out, err := c.share(s, m, run)
	if err != nil {
		return nil, protocol.Stages // no part in it
	}
	return out, protocol.StagePrepared
}
