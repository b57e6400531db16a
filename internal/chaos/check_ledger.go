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
	plans    []*protocol.Plan // by iteration, from 1
	spent    map[protocol.ClientID]float64
	records  map[clientIteration]protocol.Charged
}

// Rule implements Checker.
func (*charged) Rule() string { return "what leaves was charged, and stays charged" }

// Observe implements Checker.
func (c *charged) Observe(o Observation) error {
	switch o := o.(type) {
	case Planned:
		c.plans = append(c.plans, o.Plan)
	case Durable:
		if r, ok := o.Record.(protocol.Charged); ok {
			c.records[clientIteration{o.Client, r.Iteration}] = r
		}
		if o.Spent > o.Budget {
			return fmt.Errorf("client %d has spent epsilon %v of a budget of %v", o.Client, o.Spent, o.Budget)
		}
		return c.risen(o.Client, o.Spent)
	case Restarted:
		return c.risen(o.Client, o.Spent)
	case Left:
		if m, ok := o.Envelope.Message.(*protocol.MaskedInput); ok {
			return c.covered(clientIteration{o.Envelope.From.Client, m.Iteration})
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

func (c *charged) covered(key clientIteration) error {
	record, ok := c.records[key]
	if !ok {
		return fmt.Errorf("iteration %d: the masked input of client %d left before a record of it was durable", key.iteration, key.client)
	}
	if !c.schedule.private() {
		return nil
	}
	want, err := c.plans[key.iteration-1].Charges()
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(want, record.Events) {
		return fmt.Errorf("iteration %d: client %d charged %v, the plan costs %v", key.iteration, key.client, record.Events, want)
	}
	return nil
}

// forward: records of a client are of later and later iterations, it sends the
// setup of the latest recorded one and of later ones only, and what comes after the
// setup of that one only. A client that restarted sends nothing of it.
type forward struct {
	clients map[protocol.ClientID]*progressOf
}

// progressOf is how far a client is.
type progressOf struct {
	recorded  uint64 // the latest iteration with a durable record
	charged   uint64 // the latest with a record of its cost
	restarted uint64 // what recorded was when it restarted last
}

// Rule implements Checker.
func (*forward) Rule() string { return "iterations only go up" }

// Observe implements Checker.
func (c *forward) Observe(o Observation) error {
	switch o := o.(type) {
	case Durable:
		return c.of(o.Client).record(o)
	case Restarted:
		p := c.of(o.Client)
		if o.Last != p.recorded {
			return fmt.Errorf("client %d restarted at iteration %d, its last record is of %d", o.Client, o.Last, p.recorded)
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
	switch r := o.Record.(type) {
	case protocol.Entered:
		if r.Iteration <= p.recorded {
			return fmt.Errorf("client %d enters iteration %d after it recorded %d", o.Client, r.Iteration, p.recorded)
		}
		p.recorded = r.Iteration
	case protocol.Charged:
		if r.Iteration < p.recorded || r.Iteration <= p.charged {
			return fmt.Errorf("client %d charges iteration %d after it recorded %d and charged %d", o.Client, r.Iteration, p.recorded, p.charged)
		}
		p.recorded, p.charged = r.Iteration, r.Iteration
	}
	return nil
}

func (p *progressOf) sends(from protocol.Party, m protocol.StageMessage) error {
	iteration, stage := m.At()
	setup := stage == protocol.StageAdvertise || stage == protocol.StageShare
	if iteration <= p.restarted || iteration < p.recorded || !setup && iteration != p.recorded {
		return fmt.Errorf("%s sends %s of iteration %d, after it recorded %d, and %d before a restart", from, stage, iteration, p.recorded, p.restarted)
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
