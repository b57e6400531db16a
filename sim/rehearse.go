package sim

import (
	"context"
	"errors"

	"github.com/fedsim/fedsim/aggregator"
	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
	"github.com/fedsim/fedsim/server"
)

// Fate tells what happened to the clients in a round.
type Fate struct {
	Trained protocol.Bitmap // clients that began to compute: their trainers contribute, whether or not the input arrives
	Summed  protocol.Bitmap // clients among them whose inputs are in the sum
	Charged protocol.Bitmap // clients whose ledgers were charged
}

// ErrRehearsed is returned for a configuration whose fates depend on what clients contribute.
var ErrRehearsed = errors.New("sim: only a run of a session whose sums are ideal and draw their noise themselves can be rehearsed")

// Rehearse goes through a run without its numbers. The clients that are there, the losses by stage,
// the charges and the bytes do not depend on contributions, except through the length of models. So
// another driver can compute the numbers, to the bits of [Run], and take all else from here.
//
// Trainers contribute nothing and are not called, and the strategy absorbs nothing; ledgers are
// charged as by a run. If the strategy makes the plans of the run itself, for example because the
// driver supplies them, the outcome is the run's. If it makes other plans for lack of sums, only
// times and bytes differ. Rehearse calls each, in place of c.Round, after each round.
func Rehearse(ctx context.Context, c Config, each func(Round, Fate, []byte) error) (*Outcome, error) {
	if c.Session == (protocol.SessionID{}) || c.Real || c.Draw != secagg.DrawSum || c.From != nil {
		return nil, ErrRehearsed
	}
	if _, ok := c.Strategy.(server.Durable); !ok {
		return nil, errors.New("sim: the strategy is not a server.Durable, which absorbs nothing in a rehearsal")
	}
	w := &watch{clients: len(c.Trainers)}
	c.watch, c.Between = w, nil
	c.Round = func(it Round, shared []byte) error {
		s := w.at(it.Number)
		return each(it, Fate{Trained: bitmap(s.trained), Summed: bitmap(s.summed), Charged: bitmap(s.charged)}, shared)
	}
	c.Trainers = make([]client.Trainer, w.clients)
	for i := range c.Trainers {
		c.Trainers[i] = onlooker{i, w}
	}
	return Run(ctx, c)
}

// watch records fates. A nil watch records nothing.
type watch struct {
	clients int
	seen    seen // of the latest round
}

// seen is a fate in the making: a byte for each client, since clients compute concurrently.
type seen struct {
	round                    uint64
	trained, summed, charged []bool
}

// planned begins a round whose plan is known.
func (w *watch) planned(p *protocol.Plan) {
	if w != nil {
		w.seen = w.begin(p.Round)
	}
}

func (w *watch) begin(round uint64) seen {
	of := func() []bool { return make([]bool, w.clients) }
	return seen{round, of(), of(), of()}
}

// charged notes that a client's ledger was charged.
func (w *watch) charged(c protocol.ClientID, round uint64) {
	if w != nil {
		w.at(round).charged[c] = true
	}
}

// at returns the fate of a round in the making. Records of a finished round are dropped.
func (w *watch) at(round uint64) seen {
	if w.seen.round != round {
		return w.begin(round)
	}
	return w.seen
}

func bitmap(list []bool) protocol.Bitmap {
	b := protocol.NewBitmap(len(list))
	for i, is := range list {
		if is {
			b.Set(i)
		}
	}
	return b
}

// onlooker is a trainer that contributes nothing, and records that it was asked.
type onlooker struct {
	id    int
	watch *watch
}

func (o onlooker) Contribute(p *protocol.Plan, _ entropy.Source, _ protocol.Runner) ([]protocol.Vector, error) {
	o.watch.at(p.Round).trained[o.id] = true
	return nothing(p), nil
}

func (onlooker) Finish([]byte, protocol.Runner) error { return nil }

// anySum is another name of the interface: an embedded field named Sum would hide its method Sum.
type anySum = aggregator.Sum

// watchedSum records the clients that a sum hears.
type watchedSum struct {
	anySum

	watch *watch
}

func (s watchedSum) Receive(from protocol.ClientID, m protocol.StageMessage) error {
	err := s.anySum.Receive(from, m)
	if err != nil {
		return err
	}
	if round, stage := m.At(); stage == protocol.StageMaskedInput {
		s.watch.at(round).summed[from] = true
	}
	return nil
}

// watched returns sums that record the clients they hear, if there is a watch.
func (c Config) watched(s sums) sums {
	if c.watch == nil {
		return s
	}
	inner := s.aggregator
	s.aggregator = func(p protocol.Setup) (aggregator.Sum, error) {
		sum, err := inner(p)
		return watchedSum{sum, c.watch}, err
	}
	return s
}
