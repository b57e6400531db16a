// Package observe notes what an aggregator that watches knows of a round besides its sum. It also fits models to released models,
// and takes parts of their errors: one user's, and one rating's.
package observe

import (
	"slices"
	"time"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/model"
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

// Trainers returns a new, untrained trainer for each client of an experiment.
func Trainers(e *experiment.Experiment) ([]algorithm.Trainer, error) {
	side, err := e.Instance().ClientSide()
	if err != nil {
		return nil, err
	}
	return side.Trainers(), nil
}

// Fitted returns a model whose users are fitted to a released model by their ratings of an experiment.
func Fitted(e *experiment.Experiment, shared []byte, run protocol.Runner) (*model.Trained, error) {
	side, err := e.Instance().ClientSide()
	if err != nil {
		return nil, err
	}
	return side.Final(shared, run)
}

// MSE is the mean squared error of the predictions of a user's ratings; NaN where there are none.
func MSE(p model.Predictor, user int, r model.Ratings) float64 {
	out := make([]float64, len(r.Items))
	p.Predict(user, r.Items, out)
	var sum float64
	for k, x := range out {
		d := x - float64(r.Values[k])
		sum += d * d
	}
	return sum / float64(len(out))
}

// Only returns the ratings of one item: one or none; of item -1 all.
func Only(r model.Ratings, item int32) model.Ratings {
	switch k := slices.Index(r.Items, item); {
	case item < 0:
		return r
	case k >= 0:
		return model.Ratings{Items: r.Items[k : k+1], Values: r.Values[k : k+1]}
	}
	return model.Ratings{}
}
