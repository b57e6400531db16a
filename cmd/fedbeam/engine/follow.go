package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/sim"
)

// follow goes through the rounds as they finish. It charges ledgers and has the model measured. The books say what
// clients do in each round. If a model has another length than the books assume, follow keeps the books anew.
func (r *run) follow(ctx context.Context) (*sim.Outcome, error) {
	refused := make(refusals)
	before, err := r.await(ctx, 1)
	if err != nil {
		return nil, err
	}
	for round := 1; round <= r.c.Rounds; round++ {
		var after *turn
		if after, err = r.await(ctx, round+1); err != nil {
			return nil, err
		}
		var b *book
		if b, err = r.books.at(ctx, round); err != nil {
			return nil, err
		}
		if !r.books.fit(before.Plan, after.Model, round == r.c.Rounds) {
			return r.keepAnew(ctx, round-1)
		}
		if err = r.over(ctx, b, after, refused); err != nil {
			return nil, err
		}
		before = after
	}
	out, err := r.books.outcome(ctx)
	if err != nil {
		return nil, err
	}
	out.Model = before.Model
	return refused.marked(out), nil
}

// keepAnew goes through the run by the plans of the pipeline. Of the first rounds it was said already that they are over.
func (r *run) keepAnew(ctx context.Context, said int) (*sim.Outcome, error) {
	other, err := r.e.Federation()
	if err != nil {
		return nil, err
	}
	plans, refused := &replay{await: func(round int) (*turn, error) { return r.await(ctx, round) }}, make(refusals)
	c := r.c
	c.Strategy, c.Ledgers = plans, other.ClientLedgers()
	out, err := rehearse(ctx, c, func(it sim.Round, from happened) error {
		f, failed := fateOf(it, from, len(r.f.Trainers))
		if failed != nil || it.Number <= uint64(said) {
			return failed
		}
		return r.over(ctx, &book{it, f, from.Charged}, plans.latest, refused)
	})
	if err != nil {
		return nil, err
	}
	return refused.marked(out), nil
}

// over takes note that a round is over: t is the server's side after it.
func (r *run) over(ctx context.Context, b *book, t *turn, refused refusals) error {
	round := int(b.it.Number)
	if !b.fate.equal(r.fates[round-1]) {
		return fmt.Errorf("round %d: other clients are lost in it than the pipeline has taken for granted; fedsim run runs this experiment", round)
	}
	it := b.it
	if t.Refused != "" {
		refused[it.Number] = errors.New(t.Refused)
		refused.mark(&it)
	}
	if err := r.charge(round, b.charged); err != nil {
		return err
	}
	if r.everyRound {
		if err := r.stand(ctx, round); err != nil {
			return err
		}
	}
	if r.c.Round == nil {
		return nil
	}
	return r.c.Round(it, t.shared())
}

// refusals are why the server refused sums, by round.
type refusals map[uint64]error

// mark has a round whose sum was refused release nothing, as in a run of the simulator.
func (l refusals) mark(it *sim.Round) {
	if why := l[it.Number]; why != nil {
		it.Skipped, it.Survivors, it.Answered = why, 0, 0
	}
}

func (l refusals) marked(out *sim.Outcome) *sim.Outcome {
	for i := range out.Rounds {
		l.mark(&out.Rounds[i])
	}
	return out
}

// charge charges the ledgers of clients for a round.
func (r *run) charge(round int, clients protocol.Bitmap) error {
	if r.c.Ledgers == nil || clients.Count() == 0 {
		return nil
	}
	p := r.e.Plan(uint64(round))
	events, err := p.Charges()
	if err != nil {
		return err
	}
	for i, l := range r.c.Ledgers {
		if clients.Has(i) {
			if err = l.Charge(p.Session, p.Round, events); err != nil {
				return fmt.Errorf("round %d: client %d: %w", round, i, err)
			}
		}
	}
	return nil
}

// replay is a strategy that returns the plans of the pipeline, round after round.
type replay struct {
	await  func(round int) (*turn, error)
	round  int
	latest *turn // the server's side before the round that was planned last
}

// Next waits until the pipeline has planned the next round, and returns its plan.
func (p *replay) Next() (plan *protocol.Plan, done bool, err error) {
	p.round++
	if p.latest, err = p.await(p.round); err != nil {
		return nil, false, err
	}
	return p.latest.Plan, p.latest.Plan == nil, nil
}

// Absorb does nothing: the pipeline has absorbed the sums.
func (*replay) Absorb(*protocol.Plan, protocol.Sums, protocol.Runner) error { return nil }

// Skip does nothing: the pipeline has skipped the round.
func (*replay) Skip(*protocol.Plan, error) {}

// Model returns the server's model before the round planned last.
func (p *replay) Model() []byte { return p.latest.Model }

// Save returns nothing: no run resumes from a replay.
func (*replay) Save() ([]byte, error) { return nil, nil }

// Restore is never called.
func (*replay) Restore([]byte) error { return nil }

// poll is the interval between two checks whether a round is over.
const poll = 20 * time.Millisecond

// await waits for the server's side before a round.
func (r *run) await(ctx context.Context, round int) (*turn, error) {
	every := poll
	if !r.x.onDisk() {
		every = time.Second // each look is a request
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		b, err := r.x.read(ctx, r.x.turnFile(round))
		if err == nil {
			return decodeTurn(b)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !errors.Is(err, errAbsent) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// stand has the trainers of the federation stand where a round left them.
func (r *run) stand(ctx context.Context, round int) error {
	for shard := range r.job.Shards {
		b, err := r.x.read(ctx, r.x.shardFile(round, shard))
		if err != nil {
			return err
		}
		from, to := span(shard, r.job.Shards, len(r.f.Trainers))
		trainers := make([]client.Trainer, to-from)
		copy(trainers, r.f.Trainers[from:to])
		snapshots, err := unpackSnapshots(b, len(trainers))
		if err != nil {
			return err
		}
		if err = r.site.resume(trainers, snapshots, from); err != nil {
			return err
		}
	}
	return nil
}
