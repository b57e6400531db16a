package chaos

import (
	"fmt"

	"github.com/fedsim/fedsim/protocol"
)

// freshKeys: a mask key lives for one setup. No client advertises a key a second time: for another
// round, for the round again, or in another life.
type freshKeys struct {
	first map[protocol.Key]clientRound
}

func (*freshKeys) Rule() string { return "a mask key is advertised once" }

func (c *freshKeys) Observe(o Observation) error {
	left, ok := o.(Left)
	if !ok {
		return nil
	}
	m, ok := left.Envelope.Message.(*protocol.Advertise)
	if !ok {
		return nil
	}
	if first, ok := c.first[m.Keys.Mask]; ok {
		return fmt.Errorf("round %d: client %d advertises the mask key that client %d advertised for round %d",
			m.Round, left.Envelope.From.Client, first.client, first.round)
	}
	c.first[m.Keys.Mask] = clientRound{left.Envelope.From.Client, m.Round}
	return nil
}

// nobodyForgotten: every client is told of every round or, if that begins
// without it, is invited to the next; only of the last one it may hear nothing.
type nobodyForgotten struct {
	schedule *Schedule
	round    uint64
	told     map[protocol.ClientID]bool
}

func (*nobodyForgotten) Rule() string { return "a client left out of a round is asked to the next" }

func (c *nobodyForgotten) Observe(o Observation) error {
	switch o := o.(type) {
	case Planned:
		for id := range protocol.ClientID(c.schedule.Cohort.Clients) {
			if c.round > 0 && !c.told[id] {
				return fmt.Errorf("round %d: client %d is told nothing, neither of it nor of the next", c.round, id)
			}
		}
		c.round = o.Plan.Round
		clear(c.told)
	case Left:
		switch m := o.Envelope.Message.(type) {
		case *protocol.Announce:
			c.told[o.Envelope.To.Client] = m.Plan.Round == c.round
		case *protocol.Invite:
			c.told[o.Envelope.To.Client] = m.Setup.Round == c.round+1
		}
	}
	return nil
}
