package engine

import (
	"context"
	"slices"
	"time"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/sim"
)

// happened tells what happened to the clients in a round.
type happened struct {
	Trained protocol.Bitmap // clients that began to compute: their trainers contribute, whether or not the input arrives
	Summed  protocol.Bitmap // clients among them whose inputs are in the sum
	Charged protocol.Bitmap // clients whose ledgers were charged
}

// rehearse goes through a run without its numbers. The clients that are there, the losses by stage, the charges and the
// bytes do not depend on contributions, except through the length of models. So the pipeline can compute the numbers,
// to the bits of [sim.Run], and take all else from here.
//
// Trainers contribute nothing and are not called, and the strategy absorbs nothing; ledgers are charged as by a run. If
// the strategy makes the plans of the run itself, for example because the pipeline supplies them, the outcome is the run's.
// If it makes other plans for lack of sums, only times and bytes differ. each is called, in place of c.Round, after each
// round.
func rehearse(ctx context.Context, c sim.Config, each func(sim.Round, happened) error) (*sim.Outcome, error) {
	n := len(c.Trainers)
	w := &recorder{clients: n}
	c.Between, c.Sent = nil, w.sent
	c.Hollow = func(round uint64, of protocol.ClientID) {
		if round == w.round {
			w.summed[of] = true
		}
	}
	c.Round = func(it sim.Round, _ []byte) error {
		if it.Number != w.round {
			w.begin(it.Number)
		}
		return each(it, happened{Trained: bitmap(w.trained), Summed: bitmap(w.summed), Charged: bitmap(w.charged)})
	}
	c.Trainers, c.Ledgers = make([]client.Trainer, n), slices.Clone(c.Ledgers)
	for i := range n {
		c.Trainers[i] = onlooker{i, w}
		if c.Ledgers != nil {
			c.Ledgers[i] = watchedLedger{c.Ledgers[i], i, w}
		}
	}
	return sim.Run(ctx, c)
}

// recorder records what happens in the latest round: a byte for each client, since clients compute concurrently.
type recorder struct {
	clients                  int
	round                    uint64
	trained, summed, charged []bool
}

func (w *recorder) begin(round uint64) {
	of := func() []bool { return make([]bool, w.clients) }
	w.round, w.trained, w.summed, w.charged = round, of(), of(), of()
}

// sent hears of the plan of a round.
func (w *recorder) sent(_ time.Duration, e protocol.Envelope) {
	if m, ok := e.Message.(*protocol.Open); ok {
		w.begin(m.Plan.Round)
	}
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
	watch *recorder
}

func (o onlooker) Contribute(p *protocol.Plan, _ entropy.Source, _ protocol.Runner) ([]protocol.Vector, error) {
	if p.Round == o.watch.round {
		o.watch.trained[o.id] = true
	}
	return slices.Repeat([]protocol.Vector{{Index: []uint32{}}}, len(p.Releases)), nil
}

func (onlooker) Finish([]byte, protocol.Runner) error { return nil }

// watchedLedger records that a client's ledger was charged.
type watchedLedger struct {
	client.Ledger
	id    int
	watch *recorder
}

func (l watchedLedger) Charge(session [16]byte, round uint64, events []dp.Event) error {
	err := l.Ledger.Charge(session, round, events)
	if err == nil && round == l.watch.round && len(events) > 0 {
		l.watch.charged[l.id] = true
	}
	return err
}
