package secagg

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/secagg/mask"
	"github.com/fedsim/fedsim/internal/secagg/shamir"
	"github.com/fedsim/fedsim/protocol"
)

// Stage 4, unmasking (Bonawitz et al., round 4). For a neighbour that survived, a client reveals the share of its self-mask's
// secret. For a neighbour that was lost, it reveals the share of its mask key's secret. It never reveals both for one neighbour.

// Check says what is wrong with the survivors, and in active mode with the quorum of their
// signatures. After it has accepted survivors, it returns ErrLocked for any others.
func (c *Client) Check(m *protocol.Survivors, q *protocol.Quorum, run protocol.Runner) error {
	if c.stage != protocol.StageUnmask && c.answer == nil {
		return fmt.Errorf("%w: %s", ErrOrder, protocol.StageUnmask)
	}
	if err := c.lock(m); err != nil {
		return err
	}
	if c.Confirms() && !c.checked {
		if err := c.verifyQuorum(q, run); err != nil {
			c.stage = protocol.Stages
			return c.lie(protocol.StageUnmask, err)
		}
	}
	c.checked = true
	return nil
}

// Unmask reveals shares for the survivors that were checked, together with the change of the client's noise: one dense vector for
// each release (not read where noise is neither split nor replaced). Asked again it gives the same answer.
func (c *Client) Unmask(m *protocol.Survivors, removals []protocol.Integers, run protocol.Runner) (*protocol.Unmask, error) {
	if !c.checked || !c.survivors.is(partialView{m.Count, m.U1, m.Digest}) {
		return nil, fmt.Errorf("%w: these survivors were not checked", ErrOrder)
	}
	if c.answer != nil {
		return c.answer, nil
	}
	if err := c.enter(protocol.StageUnmask); err != nil {
		return nil, err
	}
	removed, err := c.removed(removals, run)
	if err != nil {
		return nil, err
	}
	c.answer = &protocol.Unmask{Round: c.plan.Round, Removed: removed, Shares: c.reveal(ofInputs, c.arrived.known, c.survivors.known)}
	c.stage = c.course().After(protocol.StageUnmask)
	return c.answer, nil
}

// removed returns the changes of the client's noise in the form in which they leave. Where noise is split they are in the clear,
// since a removal says nothing about the noise that stays. Where noise is replaced they are masked, since a replacement does.
func (c *Client) removed(removals []protocol.Integers, run protocol.Runner) ([][]byte, error) {
	var masks []masking
	if c.setup.Replaces {
		var err error
		if masks, err = c.masks(ofChanges, c.survivors.known, run); err != nil {
			return nil, err
		}
		defer clear(masks)
	}
	out := make([][]byte, len(c.plan.Releases))
	for i, r := range c.plan.Releases {
		if !r.Noise.Reduced() {
			continue
		}
		if i >= len(removals) || removals[i].Index != nil || len(removals[i].Value) != r.Len {
			return nil, fmt.Errorf("%w: no dense removal for release %q, whose noise is %s", ErrMalformed, r.Name, r.Noise.Kind)
		}
		if r.Noise.Kind == protocol.Split {
			out[i] = protocol.AppendRemoval(nil, removals[i].Value)
			continue
		}
		v, err := residues(r, removals[i].Value)
		if err == nil {
			out[i], err = masked(v, r, c.roster.changeContext(c.context, c.survivors), masks, run)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// residues are integers of any size in the ring of a release. One client's change
// may wrap: what has to fit is the sum with the noise after it.
func residues(r protocol.Release, values []int64) (*mask.Vector, error) {
	v, err := mask.NewVector(r.Width, r.Len)
	if err != nil {
		return nil, err
	}
	return v, v.AddInts(lists.Map(values, func(x int64) int64 { return lift(uint64(x), r.Width) }))
}

// reveal shows one kind of share of a layer of each neighbour among the clients given: of the seed if its vectors are in the sum,
// of the mask key if they are not. The other kind never will be.
func (c *Client) reveal(l layer, among, in protocol.Bitmap) []protocol.RevealedShare {
	var out []protocol.RevealedShare
	for i, p := range c.peers {
		if among.Has(p.at) && !p.faulty {
			out = append(out, protocol.RevealedShare{Of: p.id, Share: c.held[l][i].revealed(in.Has(p.at))})
		}
	}
	clear(c.held[l])
	c.held[l] = nil
	return out
}

// unmasked takes a client's shares, and its removals into the sums.
func (a *Aggregator) unmasked(from protocol.ClientID, m *protocol.Unmask) error {
	part := &PartialSum{plan: a.plan, stage: protocol.StageUnmask, rounds: a.params.Rounds, survivors: a.u1.Count(), sums: a.sums}
	if a.verified != nil {
		part.sums = a.verified.removed
	}
	removals, err := part.removals(m)
	if err == nil {
		err = part.Add(removals)
	}
	if err != nil {
		return err
	}
	return a.reveal(ofInputs, a.roster.find(from), m.Shares)
}

// dealers are the places of the clients of whose secrets in a layer a holder is to reveal shares, in this order.
func (a *Aggregator) dealers(l layer, holder int) []int {
	among, _ := a.masked(l)
	return slices.DeleteFunc(a.graph.Neighbours(holder), func(j int) bool { return !among.Has(j) || !a.holds(holder, j) })
}

// reveal keeps checked shares that a holder reveals in a layer.
func (a *Aggregator) reveal(l layer, holder int, shares []protocol.RevealedShare) error {
	pieces := make([]byte, shamir.Size*a.graph.Degree())
	for i, j := range a.dealers(l, holder) {
		copy(pieces[shamir.Size*a.graph.Slot(holder, j):], shares[i].Share[:])
	}
	if err := a.revealed[l].put(holder, pieces); err != nil {
		return err
	}
	a.answers[l].Set(holder)
	return nil
}

// checkRemoved says what is wrong with what the noise of a release changes by, and
// returns the removal where it is in the clear: then it cannot be larger than noise.
func (p *PartialSum) checkRemoved(r protocol.Release, removed []byte) ([]int64, error) {
	switch r.Noise.Kind {
	case protocol.Split:
		removal := make([]int64, r.Len)
		if err := protocol.ParseRemoval(removal, removed); err != nil {
			return nil, err
		}
		most, norm := p.plan.RemovalBound(r, p.rounds, p.survivors)
		var squares float64
		for j, x := range removal {
			if math.Abs(float64(x)) > most {
				return nil, fmt.Errorf("coordinate %d is %d, and no noise has more than %.6g to remove", j, x, most)
			}
			squares += float64(x) * float64(x)
		}
		if squares > norm*norm {
			return nil, fmt.Errorf("its L2 norm is %.6g, and no noise has more than %.6g to remove", math.Sqrt(squares), norm)
		}
		return removal, nil
	case protocol.TwoRound:
		if mask.CheckPacked(r.Width, r.Len, removed) != nil {
			return nil, fmt.Errorf("%d bytes are no vector of %d coordinates of %d bits", len(removed), r.Len, r.Width)
		}
	default:
		if len(removed) != 0 {
			return nil, errors.New("it has no noise to remove")
		}
	}
	return nil, nil
}

// checkRevealed checks a client's shares of a layer against the clients in its sum and, in active
// mode, against the dealers' commitments. A share that misses its commitment names its holder.
func (a *Aggregator) checkRevealed(l layer, holder int, shares []protocol.RevealedShare) error {
	_, in := a.masked(l)
	dealers := a.dealers(l, holder)
	for i, j := range dealers {
		of := a.roster.members[j].Client
		if i == len(shares) || shares[i].Of != of {
			return fmt.Errorf("%w: no share of a secret of client %d at place %d", ErrMalformed, of, i)
		}
		share, err := shamir.ParseSecret(shares[i].Share[:])
		if err != nil {
			return fmt.Errorf("%w: of client %d: %w", ErrShare, of, err)
		}
		if !a.Confirms() {
			continue
		}
		piece, err := a.dealt.get(j, holder)
		if err != nil {
			return err
		}
		committed := takeDealt(piece, of, Active).Committed
		want := committed.Key
		if in.Has(j) {
			want = committed.Seed
		}
		if share.Point() != want {
			return fmt.Errorf("%w: of client %d", ErrShare, of)
		}
	}
	if len(shares) != len(dealers) {
		return fmt.Errorf("%w: %d shares, the client holds %d", ErrMalformed, len(shares), len(dealers))
	}
	return nil
}
