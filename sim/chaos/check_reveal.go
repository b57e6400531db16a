package chaos

import (
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg/graph"
)

// threshold is how many shares restore a secret, with so many on the roster.
func (s *Schedule) threshold(roster int) (int, error) {
	c, err := graph.ForRoster(s.Params().Graph(s.Cohort), roster)
	return c.Threshold, err
}

// oneKind: no client ever reveals both kinds of share for one peer in an
// iteration. The kinds are different random numbers, so it must not reveal two
// different ones, in one answer or in several, in one life or in several.
type oneKind struct{ seen map[holding][32]byte }

// holding is a client's share of a peer's secrets.
type holding struct {
	iteration  uint64
	holder, of protocol.ClientID
}

// Rule implements Checker.
func (*oneKind) Rule() string { return "a client reveals one kind of share of a peer" }

// Observe implements Checker.
func (c *oneKind) Observe(o Observation) error {
	left, ok := o.(Left)
	if !ok {
		return nil
	}
	m, ok := left.Envelope.Message.(*protocol.Unmask)
	if !ok {
		return nil
	}
	for _, s := range m.Shares {
		key := holding{m.Iteration, left.Envelope.From.Client, s.Of}
		first, known := c.seen[key]
		if known && first != s.Share {
			return fmt.Errorf("iteration %d: client %d reveals two shares of client %d", key.iteration, key.holder, key.of)
		}
		c.seen[key] = s.Share
	}
	return nil
}

// oneSecret: of no client do the shares that were revealed in an iteration, by
// everybody together, restore both the secret of its own mask and its mask key.
// Of which secret a share is follows from the survivors that its holder was shown.
type oneSecret struct {
	schedule *Schedule
	members  map[uint64][]protocol.Member // of an iteration's roster
	shown    map[clientIteration]*protocol.Survivors
	held     map[uint64]map[protocol.ClientID]*holders // by iteration and dealer
}

// holders are who revealed a share of each secret of a client.
type holders struct{ seed, key []protocol.ClientID }

// Rule implements Checker.
func (*oneSecret) Rule() string { return "no client's secrets are both restored" }

// Observe implements Checker.
func (c *oneSecret) Observe(o Observation) error {
	switch o := o.(type) {
	case Planned:
		c.held[o.Plan.Iteration] = make(map[protocol.ClientID]*holders)
	case Heard:
		if m, ok := o.Envelope.Message.(*protocol.Survivors); ok && !o.Ignored {
			c.shown[clientIteration{o.Envelope.To.Client, m.Iteration}] = m
		}
	case Left:
		switch m := o.Envelope.Message.(type) {
		case *protocol.Roster:
			c.members[m.Iteration] = m.Members
		case *protocol.Unmask:
			return c.revealed(o.Envelope.From.Client, m)
		}
	}
	return nil
}

func (c *oneSecret) revealed(holder protocol.ClientID, m *protocol.Unmask) error {
	shown := c.shown[clientIteration{holder, m.Iteration}]
	if shown == nil {
		return fmt.Errorf("iteration %d: client %d reveals shares without having been shown survivors", m.Iteration, holder)
	}
	members := c.members[m.Iteration]
	t, err := c.schedule.threshold(len(members))
	if err != nil {
		return err
	}
	for _, s := range m.Shares {
		h := c.held[m.Iteration][s.Of]
		if h == nil {
			h = new(holders)
			c.held[m.Iteration][s.Of] = h
		}
		of := &h.key
		if place := slices.IndexFunc(members, func(p protocol.Member) bool { return p.Client == s.Of }); shown.U1.Has(place) {
			of = &h.seed
		}
		if !slices.Contains(*of, holder) {
			*of = append(*of, holder)
		}
		if len(h.seed) >= t && len(h.key) >= t {
			return fmt.Errorf("iteration %d: clients %v reveal client %d's seed and clients %v its mask key, %d restore either",
				m.Iteration, h.seed, s.Of, h.key, t)
		}
	}
	return nil
}
