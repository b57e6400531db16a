// Package heard notes what an aggregator that watches knows of a round besides its sum.
package heard

import (
	"time"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/server"
)

// Inputs holds the clients whose masked input arrived, by round. These clients are in the sum of the round.
type Inputs map[uint64]map[protocol.ClientID]bool

// Hear notes who sends a masked input. It is for sim.Config.Sent.
func (in Inputs) Hear(_ time.Duration, e protocol.Envelope) {
	m, ok := e.Message.(*protocol.MaskedInput)
	if !ok {
		return
	}
	if in[m.Round] == nil {
		in[m.Round] = make(map[protocol.ClientID]bool)
	}
	in[m.Round][e.From.Client] = true
}

// Of reports whether a client's came in a round.
func (in Inputs) Of(round uint64, client int) bool {
	return in[round][protocol.ClientID(client)]
}

// Trainer is a trainer whose contributions are told.
type Trainer struct {
	client.Trainer
	Told func(*protocol.Plan, []protocol.Vector)
}

// Contribute tells what the trainer contributes.
func (t Trainer) Contribute(p *protocol.Plan, src entropy.Source, run protocol.Runner) ([]protocol.Vector, error) {
	list, err := t.Trainer.Contribute(p, src, run)
	if err == nil {
		t.Told(p, list)
	}
	return list, err
}

// Copy returns a copy of a contribution, with every coordinate.
func Copy(v protocol.Vector, r protocol.Release) protocol.Vector {
	kept := protocol.Vector{Value: make([]float64, r.Len)}
	v.Each(func(j int, x float64) { kept.Value[j] = x })
	return kept
}

// Strategy is a strategy whose sums are told before it absorbs them. Told may replace them.
type Strategy struct {
	server.Strategy
	Told func(*protocol.Plan, *protocol.Sums) error
}

// Absorb tells the sums, and has the strategy absorb them.
func (s Strategy) Absorb(p *protocol.Plan, sums protocol.Sums, run protocol.Runner) error {
	if err := s.Told(p, &sums); err != nil {
		return err
	}
	return s.Strategy.Absorb(p, sums, run)
}
