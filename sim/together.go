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

// Clients do not hear of each other within an instant: their messages arrive later. So clients that
// are due one after the other step at once, on all workers, and their effects are carried out in
// order. The run is the same at any number of workers. One worker carries out the effects of a
// batch while the others continue with the next batch.

// largestBatch is the number of clients that step at once: enough to keep workers busy, and few
// enough that their effects stay in the cache.
const largestBatch = 4096

// together is the memory of a batch of clients. Batches use it one after the other.
type together struct {
	number  uint32   // of the batch
	latest  []uint32 // by client: the number of the latest batch that it was in
	effects [2][largestBatch]protocol.Effects
	turn    int   // the index of the latest batch's memory
	pending batch // stepped, with effects that are not carried out yet
}

// batch is arrivals of clients, and the effects of each.
type batch struct {
	arrivals []arrival
	effects  []protocol.Effects
}

// again begins an empty batch.
func (t *together) again(clients int) {
	if t.number++; t.latest == nil || t.number == 0 {
		t.latest, t.number = make([]uint32, clients), 1
	}
}

// take adds a client to the batch. It returns false if the client was there already.
func (t *together) take(c protocol.ClientID) bool {
	first := t.latest[c] != t.number
	t.latest[c] = t.number
	return first
}

// distinct reports whether works belong to different clients, and to no other role.
func (f *federation) distinct(works []work) bool {
	f.together.again(len(f.clients))
	for _, w := range works {
		if w.by.Role != protocol.Client || !f.together.take(w.by.Client) {
			return false
		}
	}
	return true
}

// tell feeds due arrivals to their roles.
func (f *federation) tell(arrivals []arrival) error {
	for len(arrivals) > 0 {
		n := f.batch(arrivals)
		if err := f.step(arrivals[:n]); err != nil {
			return err
		}
		arrivals = arrivals[n:]
	}
	return nil
}

// batch counts the first arrivals that can step at once: different clients, or one other role.
func (f *federation) batch(arrivals []arrival) int {
	f.together.again(len(f.clients))
	for n, a := range arrivals[:min(len(arrivals), largestBatch)] {
		if a.to.Role != protocol.Client || !f.together.take(a.to.Client) {
			return max(n, 1)
		}
	}
	return min(len(arrivals), largestBatch)
}

// step feeds a batch of inputs to their roles. The effects of clients are carried out in order
// while the next batch steps or is computed ([federation.along]); they influence no role in this
// instant.
func (f *federation) step(arrivals []arrival) error {
	if a := arrivals[0]; a.to.Role != protocol.Client {
		if err := f.settle(); err != nil {
			return err
		}
		effects := a.step(f.now, f.role(a.to))
		arrivals[0] = arrival{}
		return f.carryOut(a, &effects)
	}
	f.together.turn = 1 - f.together.turn
	effects := f.together.effects[f.together.turn][:len(arrivals)]
	err := f.along(len(arrivals), func(k int) { effects[k] = arrivals[k].step(f.now, f.role(arrivals[k].to)) })
	if f.together.pending = (batch{arrivals, effects}); err == nil && (f.cfg.Sent != nil || f.cfg.Logged != nil || f.cfg.watch != nil) {
		err = f.settle() // the caller is told of effects, which must not happen while others compute
	}
	return err
}

// along runs do(0) to do(n-1) on all workers, and meanwhile carries out the effects of the batch
// before. It returns the error of those effects.
func (f *federation) along(n int, do func(int)) error {
	if len(f.together.pending.arrivals) == 0 {
		f.cfg.Workers.Each(n, do)
		return nil
	}
	var err error
	f.cfg.Workers.Each(n+1, func(k int) { // the first is begun first
		if k == 0 {
			err = f.settle()
			return
		}
		do(k - 1)
	})
	return err
}

// settle carries out the effects of the latest batch, in order.
func (f *federation) settle() error {
	b := f.together.pending
	f.together.pending = batch{}
	for k := range b.effects {
		if err := f.carryOut(b.arrivals[k], &b.effects[k]); err != nil {
			return err
		}
		// Clearing frees the memory: every client has as much, and its effects need more.
		b.arrivals[k], b.effects[k] = arrival{}, protocol.Effects{}
	}
	return nil
}

func (f *federation) role(p protocol.Party) role {
	switch p.Role {
	case protocol.Server:
		return f.server
	case protocol.Aggregator:
		return f.aggregator
	case protocol.Relay:
		return f.middle.role(p)
	default:
		if r := f.instead[p.Client]; r != nil {
			return r
		}
		return &f.clients[p.Client]
	}
}

// passes splits works so that each pass has at most one work of a role. Works of many clients
// mostly are one pass.
func (f *federation) passes(works []work) [][]int {
	var passes [][]int
	left := make([]int, len(works))
	for i := range left {
		left[i] = i
	}
	for len(left) > 0 {
		f.together.again(len(f.clients))
		heard := make(map[protocol.Party]bool) // of roles other than clients
		var rest []int
		pass := left[:0]
		for _, i := range left {
			first := false
			if by := works[i].by; by.Role == protocol.Client {
				first = f.together.take(by.Client)
			} else {
				first, heard[by] = !heard[by], true
			}
			if first {
				pass = append(pass, i)
			} else {
				rest = append(rest, i)
			}
		}
		passes, left = append(passes, pass), rest
	}
	return passes
}

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
