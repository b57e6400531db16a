package chaos

import (
	"fmt"
	"reflect"

	"github.com/fedsim/fedsim/protocol"
)

// charged: what a client has durably spent never falls and never exceeds its
// budget, and every masked input that left was charged, at what the plan costs,
// and durable before.
type charged struct {
	schedule *Schedule
	plans    []*protocol.Plan // by round, from 1
	spent    map[protocol.ClientID]float64
	records  map[clientRound]protocol.Charged
}

func (*charged) Rule() string { return "all that leaves was charged, and stays charged" }

func (c *charged) Observe(o Observation) error {
	switch o := o.(type) {
	case Planned:
		c.plans = append(c.plans, o.Plan)
	case Durable:
		if r, ok := o.Record.(protocol.Charged); ok {
			c.records[clientRound{o.Client, r.Round}] = r
		}
		if o.Spent > o.Budget {
			return fmt.Errorf("client %d has spent epsilon %v of a budget of %v", o.Client, o.Spent, o.Budget)
		}
		return c.risen(o.Client, o.Spent)
	case Restarted:
		return c.risen(o.Client, o.Spent)
	case Left:
		if m, ok := o.Envelope.Message.(*protocol.MaskedInput); ok {
			return c.covered(clientRound{o.Envelope.From.Client, m.Round})
		}
	}
	return nil
}

func (c *charged) risen(id protocol.ClientID, spent float64) error {
	if before := c.spent[id]; spent < before {
		return fmt.Errorf("client %d had durably spent epsilon %v, and now only %v", id, before, spent)
	}
	c.spent[id] = spent
	return nil
}

func (c *charged) covered(key clientRound) error {
	record, ok := c.records[key]
	if !ok {
		return fmt.Errorf("round %d: the masked input of client %d left before a record of it was durable", key.round, key.client)
	}
	if !c.schedule.private() {
		return nil
	}
	want, err := c.plans[key.round-1].Charges()
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(want, record.Events) {
		return fmt.Errorf("round %d: client %d charged %v, the plan costs %v", key.round, key.client, record.Events, want)
	}
	return nil
}

// forward: a client charges later and later rounds. It sends the setup of the latest charged
// one and of later ones only, and what comes after the setup of that one only. A client that
// restarted sends nothing of that one.
type forward struct {
	clients map[protocol.ClientID]*progressOf
}

// progressOf is the progress of a client.
type progressOf struct {
	charged   uint64 // the latest round with a durable record of its cost
	restarted uint64 // what charged was when it restarted last
}

func (*forward) Rule() string { return "rounds only go up" }

func (c *forward) Observe(o Observation) error {
	switch o := o.(type) {
	case Durable:
		return c.of(o.Client).record(o)
	case Restarted:
		p := c.of(o.Client)
		if o.Last != p.charged {
			return fmt.Errorf("client %d restarted at round %d, its last record is of %d", o.Client, o.Last, p.charged)
		}
		p.restarted = o.Last
	case Left:
		if m, ok := o.Envelope.Message.(protocol.StageMessage); ok {
			return c.of(o.Envelope.From.Client).sends(o.Envelope.From, m)
		}
	}
	return nil
}

func (p *progressOf) record(o Durable) error {
	if r, ok := o.Record.(protocol.Charged); ok {
		if r.Round <= p.charged {
			return fmt.Errorf("client %d charges round %d after it charged %d", o.Client, r.Round, p.charged)
		}
		p.charged = r.Round
	}
	return nil
}

func (p *progressOf) sends(from protocol.Party, m protocol.StageMessage) error {
	round, stage := m.At()
	setup := stage < protocol.StageMaskedInput
	if round <= p.restarted || round < p.charged || !setup && round != p.charged {
		return fmt.Errorf("%s sends %s of round %d, after it charged %d, and %d before a restart", from, stage, round, p.charged, p.restarted)
	}
	return nil
}

func (c *forward) of(id protocol.ClientID) *progressOf {
	if c.clients == nil {
		c.clients = make(map[protocol.ClientID]*progressOf)
	}
	if c.clients[id] == nil {
		c.clients[id] = new(progressOf)
	}
	return c.clients[id]
}
