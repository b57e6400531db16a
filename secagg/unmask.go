package secagg

import (
	"bytes"
	"fmt"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg/shamir"
)

// Stage 4, unmasking (Bonawitz et al., round 4): of a neighbour that survived a
// client reveals the share of its self-mask's secret, of one that did not the
// share of its mask key's, of nobody both.

// Check says what is wrong with the survivors, and in active mode with the
// quorum of those who signed them. The first that it accepts are the only ones:
// it returns ErrLocked for others.
func (c *Client) Check(m *protocol.Survivors, q *protocol.Quorum, run protocol.Runner) error {
	if c.stage != protocol.StageUnmask && c.answer == nil {
		return fmt.Errorf("%w: %s", ErrOrder, protocol.StageUnmask)
	}
	if err := c.lock(m); err != nil {
		return err
	}
	if c.active() && !c.checked {
		if err := c.verifyQuorum(q, run); err != nil {
			c.stage = protocol.Stages
			return c.lie(protocol.StageUnmask, err)
		}
	}
	c.checked = true
	return nil
}

// Unmask reveals shares for the survivors that were checked, with what the
// client's noise changes by: one dense vector for each release, of which those
// without split noise are not read. Asked again it gives the same answer.
func (c *Client) Unmask(m *protocol.Survivors, removals []protocol.Integers) (*protocol.Unmask, error) {
	if !c.checked || !bytes.Equal(m.U1, c.survivors) {
		return nil, fmt.Errorf("%w: these survivors were not checked", ErrOrder)
	}
	if c.answer != nil {
		return c.answer, nil
	}
	if err := c.enter(protocol.StageUnmask); err != nil {
		return nil, err
	}
	out := &protocol.Unmask{Iteration: c.plan.Iteration, Removed: make([][]byte, len(c.plan.Releases))}
	for i, r := range c.plan.Releases {
		if r.Noise.Kind != protocol.Split {
			continue
		}
		if i >= len(removals) || removals[i].Index != nil || len(removals[i].Value) != r.Len {
			return nil, fmt.Errorf("%w: no dense removal for release %q, whose noise is split", ErrMalformed, r.Name)
		}
		out.Removed[i] = protocol.AppendRemoval(nil, removals[i].Value)
	}
	for _, p := range c.peers {
		if p.live {
			share, nonce := p.holding.revealed(c.survivors.Has(p.at))
			out.Shares = append(out.Shares, protocol.RevealedShare{Of: c.roster.members[p.at].Client, Share: share, Nonce: nonce})
		}
	}
	clear(c.peers) // the kinds that were not revealed never will be
	c.answer = out
	return out, nil
}

// unmasked takes a client's shares, and its removals into the sums.
func (a *Aggregator) unmasked(from protocol.ClientID, m *protocol.Unmask) error {
	at := a.roster.find(from)
	if err := a.checkRevealed(at, m.Shares); err != nil {
		return err
	}
	if len(m.Removed) != len(a.plan.Releases) || len(m.Removals) != 0 {
		return fmt.Errorf("%w: %d coded removals and %d others for %d releases", ErrMalformed, len(m.Removed), len(m.Removals), len(a.plan.Releases))
	}
	removals := make([][]int64, len(m.Removed))
	for i, r := range a.plan.Releases {
		if r.Noise.Kind != protocol.Split {
			if len(m.Removed[i]) != 0 {
				return fmt.Errorf("%w: release %q has no noise to remove", ErrMalformed, r.Name)
			}
			continue
		}
		removals[i] = make([]int64, r.Len)
		if err := protocol.ParseRemoval(removals[i], m.Removed[i]); err != nil {
			return fmt.Errorf("%w: release %q: %w", ErrMalformed, r.Name, err)
		}
		for j, x := range removals[i] {
			removals[i][j] = lift(uint64(x), r.Width) // a liar's may be of any size
		}
	}
	for i, v := range a.sums {
		if removals[i] == nil {
			continue
		}
		if err := v.AddInts(removals[i]); err != nil {
			return err
		}
	}
	// The sums have the removals; what is kept are the shares.
	a.answers[at] = &protocol.Unmask{Iteration: m.Iteration, Shares: m.Shares}
	return nil
}

// checkRevealed holds a client's shares against the survivors and, in active
// mode, against what their dealers committed to: one that misses names its holder.
func (a *Aggregator) checkRevealed(holder int, shares []protocol.RevealedShare) error {
	next := 0
	for _, j := range a.graph.Neighbours(holder) {
		if !a.arrived.Has(j) {
			continue
		}
		of := a.roster.members[j].Client
		if next == len(shares) || shares[next].Of != of {
			return fmt.Errorf("%w: no share of a secret of client %d at place %d", ErrMalformed, of, next)
		}
		s := &shares[next]
		next++
		if _, err := shamir.ParseSecret(s.Share[:]); err != nil {
			return fmt.Errorf("%w: of client %d: %w", ErrShare, of, err)
		}
		if !a.Confirms() {
			if len(s.Nonce) != 0 {
				return fmt.Errorf("%w: a nonce in semi-honest mode", ErrMalformed)
			}
			continue
		}
		ch := channel{a.roster, j, holder}
		committed := a.dealtTo(j, a.roster.members[holder].Client).Committed
		kind, want := keyKind, committed.Key
		if a.u1.Has(j) {
			kind, want = seedKind, committed.Seed
		}
		if len(s.Nonce) != nonceSize || ch.commitment(kind, s.Share, s.Nonce) != want {
			return fmt.Errorf("%w: of client %d", ErrShare, of)
		}
	}
	if next != len(shares) {
		return fmt.Errorf("%w: %d shares, the client holds %d", ErrMalformed, len(shares), next)
	}
	return nil
}
