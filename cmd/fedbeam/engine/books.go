package engine

import (
	"context"
	"slices"

	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/sim"
)

// books say what clients do in each round and what passes between them and the aggregator. They are kept by the
// simulator, which goes through the run with models of the lengths that the schedule says, and with nothing in them.
type books struct {
	e     *experiment.Experiment
	list  []book
	ready []chan struct{} // by round: closed when it is in list
	done  chan struct{}   // closed when nothing follows
	out   *sim.Outcome
	err   error
}

// book is a round's.
type book struct {
	it      sim.Round
	fate    *fate
	charged protocol.Bitmap
}

// rehearse begins to keep the books. If clients may be lost, it waits until the books say which clients are.
// Otherwise the pipeline starts at once with every client in every round, and the books confirm this meanwhile.
func (r *run) rehearse(ctx context.Context) error {
	other, err := r.e.Federation()
	if err != nil {
		return err
	}
	b := &books{e: r.e, list: make([]book, r.c.Rounds), ready: make([]chan struct{}, r.c.Rounds), done: make(chan struct{})}
	for i := range b.ready {
		b.ready[i] = make(chan struct{})
	}
	r.books = b
	c, n := r.c, len(r.f.Trainers)
	c.Strategy, c.Ledgers = &scheduled{e: r.e}, other.ClientLedgers()
	keep := func() {
		defer close(b.done)
		b.out, b.err = rehearse(ctx, c, func(it sim.Round, from happened) error {
			f, err := fateOf(it, from, n)
			b.list[it.Number-1] = book{it, f, from.Charged}
			close(b.ready[it.Number-1])
			return err
		})
	}
	if f := r.c.Faults; f.Dropout == 0 && f.Leave == 0 && f.Away == 0 {
		r.fates = slices.Repeat([]*fate{{Survivors: n, Answered: n}}, r.c.Rounds)
		go keep()
		return nil
	}
	keep()
	for i := range b.list {
		r.fates = append(r.fates, b.list[i].fate)
	}
	return b.err
}

// at waits for a round's.
func (b *books) at(ctx context.Context, round int) (*book, error) {
	select {
	case <-b.ready[round-1]:
		return &b.list[round-1], nil
	case <-b.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case <-b.ready[round-1]: // both were
		return &b.list[round-1], nil
	default:
		return nil, b.err
	}
}

// outcome waits until the books are complete, and returns the outcome of the run.
func (b *books) outcome(ctx context.Context) (*sim.Outcome, error) {
	select {
	case <-b.done:
		return b.out, b.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// fit reports whether the books rest on the plan of the pipeline, apart from the bytes of its model, and on models
// of the same length. With last it compares the length of the final model too.
func (b *books) fit(p *protocol.Plan, model []byte, last bool) bool {
	bare := *p
	bare.Broadcast = nil
	if size := b.e.Schedule.At(p.Round).Model; len(p.Broadcast) != size || last && len(model) != size {
		return false
	}
	return bare.Hash() == b.e.Plan(p.Round).Hash()
}

// scheduled is a strategy that follows the schedule, with models of zeros in place of trained models.
type scheduled struct {
	e     *experiment.Experiment
	round uint64
}

// Next returns the plan of the next round, with zeros for its model.
func (s *scheduled) Next() (plan *protocol.Plan, done bool, err error) {
	s.round++
	if plan = s.e.Plan(s.round); plan == nil {
		return nil, true, nil
	}
	plan.Broadcast = make([]byte, s.e.Schedule.At(s.round).Model)
	return plan, false, nil
}

// Absorb does nothing: models stay zero.
func (*scheduled) Absorb(*protocol.Plan, protocol.Sums, protocol.Runner) error { return nil }

// Skip does nothing.
func (*scheduled) Skip(*protocol.Plan, error) {}

// Model returns zeros, as many bytes as the last model has.
func (s *scheduled) Model() []byte { return make([]byte, s.e.Schedule[len(s.e.Schedule)-1].Model) }

// Save returns nothing: no run resumes from the books.
func (*scheduled) Save() ([]byte, error) { return nil, nil }

// Restore is never called.
func (*scheduled) Restore([]byte) error { return nil }
