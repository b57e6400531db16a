package chaos

import (
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg/graph"
)

// threshold returns how many shares restore a secret, with so many clients on the roster.
func (s *Schedule) threshold(roster int) (int, error) {
	c, err := graph.ForRoster(s.Params().Graph(s.setup()), roster)
	return c.Threshold, err
}

// summing is one of the two sums of a round. The sum of the inputs is unmasked in the stage
// unmask, and the sum of the changes of noise in the stage replace. The two have different secrets.
type summing struct {
	round uint64
	stage protocol.Stage
}

func (s summing) String() string { return fmt.Sprintf("round %d, %s", s.round, s.stage) }

// revealed takes the shares out of a client's answer, if there are any.
func revealed(m protocol.Message) (of summing, shares []protocol.RevealedShare, ok bool) {
	switch m := m.(type) {
	case *protocol.Unmask:
		return summing{m.Round, protocol.StageUnmask}, m.Shares, true
	case *protocol.Replacement:
		return summing{m.Round, protocol.StageReplace}, m.Shares, true
	default:
		return summing{}, nil, false
	}
}

// oneKind: no client ever reveals both kinds of share for one peer in a sum. The
// kinds are different random numbers, so it must not reveal two different ones, in
// one answer or in several, in one life or in several.
type oneKind struct{ seen map[holding][32]byte }

// holding is a client's share of a peer's secrets.
type holding struct {
	summing
	holder, of protocol.ClientID
}

func (*oneKind) Rule() string { return "a client reveals one kind of share of a peer" }

func (c *oneKind) Observe(o Observation) error {
	left, ok := o.(Left)
	if !ok {
		return nil
	}
	of, shares, ok := revealed(left.Envelope.Message)
	if !ok {
		return nil
	}
	for _, s := range shares {
		key := holding{of, left.Envelope.From.Client, s.Of}
		first, known := c.seen[key]
		if known && first != s.Share {
			return fmt.Errorf("%s: client %d reveals two shares of client %d", of, key.holder, key.of)
		}
		c.seen[key] = s.Share
	}
	return nil
}

// oneSecret: the shares that all clients revealed for a sum never restore both the secret of a
// client's own mask and its mask key. The clients in the sum that a holder was shown say which
// secret a share belongs to.
type oneSecret struct {
	schedule *Schedule
	rosters  map[clientRound]*protocol.Roster // as a client was shown it, whole or its part
	shown    map[shownTo]protocol.Bitmap
	held     map[dealing]*holders
}

// shownTo is a client that was shown who is in a sum.
type shownTo struct {
	summing
	client protocol.ClientID
}

// dealing is a client's sharing of its secrets for a sum.
type dealing struct {
	summing
	dealer protocol.ClientID
}

// holders lists the clients that revealed a share of each secret of a client.
type holders struct{ seed, key []protocol.ClientID }

func (*oneSecret) Rule() string { return "no client's secrets are both restored" }

func (c *oneSecret) Observe(o Observation) error {
	switch o := o.(type) {
	case Heard:
		if o.Ignored {
			return nil
		}
		switch m := o.Envelope.Message.(type) {
		case *protocol.Survivors:
			c.shown[shownTo{summing{m.Round, protocol.StageUnmask}, o.Envelope.To.Client}] = m.U1
		case *protocol.Answered:
			c.shown[shownTo{summing{m.Round, protocol.StageReplace}, o.Envelope.To.Client}] = m.U2
		}
	case Left:
		if m, ok := o.Envelope.Message.(*protocol.Roster); ok {
			c.rosters[clientRound{o.Envelope.To.Client, m.Round}] = m
		}
		if sum, shares, ok := revealed(o.Envelope.Message); ok {
			return c.revealed(o.Envelope.From.Client, sum, shares)
		}
	}
	return nil
}

func (c *oneSecret) revealed(holder protocol.ClientID, sum summing, shares []protocol.RevealedShare) error {
	shown := c.shown[shownTo{sum, holder}]
	if shown == nil {
		return fmt.Errorf("%s: client %d reveals shares without having been shown who is in the sum", sum, holder)
	}
	roster := c.rosters[clientRound{holder, sum.round}]
	if roster == nil {
		return fmt.Errorf("%s: client %d reveals shares without having been shown a roster", sum, holder)
	}
	t, err := c.schedule.threshold(roster.Clients)
	if err != nil {
		return err
	}
	for _, s := range shares {
		h := c.held[dealing{sum, s.Of}]
		if h == nil {
			h = new(holders)
			c.held[dealing{sum, s.Of}] = h
		}
		of := &h.key
		if place := slices.IndexFunc(roster.Members, func(p protocol.Member) bool { return p.Client == s.Of }); shown.Has(place) {
			of = &h.seed
		}
		if !slices.Contains(*of, holder) {
			*of = append(*of, holder)
		}
		if len(h.seed) >= t && len(h.key) >= t {
			return fmt.Errorf("%s: clients %v reveal client %d's seed and clients %v its mask key, %d restore either", sum, h.seed, s.Of, h.key, t)
		}
	}
	return nil
}
