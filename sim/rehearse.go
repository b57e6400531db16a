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

// Fate is what becomes of the clients in a round.
type Fate struct {
	Trained protocol.Bitmap // clients that took the plan up: their trainers contribute, whether or not it arrives
	Summed  protocol.Bitmap // of them, those whose inputs the sum has
	Charged protocol.Bitmap // clients whose ledgers were charged
}

// ErrRehearsed is returned for a configuration whose fates depend on what clients contribute.
var ErrRehearsed = errors.New("sim: only a run of a session whose sums are ideal and draw their noise themselves can be rehearsed")

// Rehearse goes through a run without its numbers: who is there, who is lost at which stage, what is charged and
// how many bytes pass does not depend on what anybody contributes, but for the length of models. So another driver
// can compute the numbers, to the bits of [Run], and have all else from here.
//
// Trainers contribute nothing and are not called, and the strategy absorbs nothing; ledgers are charged as by a run.
// Where the strategy makes the plans of the run itself, such as one that has them from that driver, the outcome is the
// run's; where it makes others for want of sums, only times and bytes differ. In place of c.Round each is called, after
// each round.
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

// watch records fates. Nobody watches where it is nil.
type watch struct {
	clients int
	seen    seen // of the latest round
}

// seen is a fate in the making: a byte for each client, since clients compute side by side.
type seen struct {
	round                    uint64
	trained, summed, charged []bool
}

// planned begins a round, of which the plan is known.
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

// at is what is seen of a round. Of one that is over nobody takes note any more.
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

// onlooker is a trainer that contributes nothing, and says that it was asked.
type onlooker struct {
	id    int
	watch *watch
}

// Contribute implements client.Trainer.
func (o onlooker) Contribute(p *protocol.Plan, _ entropy.Source, _ protocol.Runner) ([]protocol.Vector, error) {
	o.watch.at(p.Round).trained[o.id] = true
	return nothing(p), nil
}

// Finish implements client.Trainer.
func (onlooker) Finish([]byte, protocol.Runner) error { return nil }

// anySum is another name of the interface, whose method Sum an embedded field of that name would hide.
type anySum = aggregator.Sum

// watchedSum notes whom a sum hears.
type watchedSum struct {
	anySum

	watch *watch
}

// Receive implements aggregator.Sum.
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

// watched are sums that note whom they hear, where anybody watches.
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
