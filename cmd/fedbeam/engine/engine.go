// Package engine computes the rounds of an experiment as a pipeline of Apache Beam, to the bits of the
// simulator.
//
// A round is one ParDo over shards of clients, in which the algorithm's own trainers contribute and the vectors of a
// shard are added up; a Combine of these integer vectors; and one step in which the noise of an ideal sum is added and
// the server's role absorbs it. Rounds follow each other in one pipeline. What trainers keep from one round to the next
// goes along with the shard. Integers may be added in any order, all that is random follows from the session, and who is
// lost where is rehearsed before: so the model does not depend on shards, workers or repeated work.
//
// Nothing here protects anybody: as in the simulator, whoever runs it sees all ratings, and each sum without its noise. The ε is
// that of the same run as a deployment.
package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fedsim/fedsim"
	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/experiment"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
	"github.com/fedsim/fedsim/sim"
)

// Options say how a pipeline is run.
type Options struct {
	Runner    string // a runner that Beam knows
	Shards    int    // of clients; 0: as many as suit
	Processes int    // workers on this machine, besides this process, with the runner prism; 0: none
	// RoundsPerJob is how many rounds are unrolled into one pipeline; 0: all. What is between two is written to Exchange.
	RoundsPerJob int
	Attempts     int    // how often a job is submitted that fails, at the most; at least 1
	Exchange     string // a folder that this program and the workers reach; "": a temporary one of this machine
	// Counted, if set, is told what each job counted.
	Counted func(Counts)
	// Retried, if set, is told of each job that failed and is submitted again.
	Retried func(attempt int, err error)
}

// Check says why an experiment cannot be run by Beam: a [config.Error] that says what would be right.
func Check(e *experiment.Experiment) error {
	name := e.About().Name
	switch {
	case !e.About().Federated():
		return config.Errorf("algorithm %s: it trains where all data are, and has no rounds to spread over workers; fedsim run trains it", name)
	case e.Real():
		return config.Errorf("secagg real: Beam adds the inputs of clients up itself, without masks; secagg ideal releases the same model, and fedsim run or fednode run the cryptography")
	case e.Draw() != secagg.DrawSum:
		return config.Errorf("noise-draw %s: Beam adds the noise of a sum at once; with noise-draw sum it has the same distribution, and fedsim run has each client draw its own", algorithm.NoiseDraw.Of(e.Config))
	}
	return nil
}

// New makes the engine.
func New(o Options) fedsim.Engine {
	return func(ctx context.Context, e *experiment.Experiment, f *experiment.Federation, c sim.Config) (*sim.Outcome, error) {
		if err := Check(e); err != nil {
			return nil, err
		}
		r, done, err := newRun(ctx, o, e, f, c)
		if err != nil {
			return nil, err
		}
		out, err := r.run(ctx)
		return out, errors.Join(err, done())
	}
}

// run is a run in progress, as the program sees it that submits the jobs.
type run struct {
	o          Options
	e          *experiment.Experiment
	f          *experiment.Federation
	c          sim.Config
	job        Job
	x          exchange
	fates      []*fate
	site       *site // of the federation f
	everyRound bool  // trainers are needed after every round, to measure the model
}

// usualShards suits machines of up to some hundred processors: a shard is a piece of work, and has a sum of its own.
const usualShards = 16

func newRun(ctx context.Context, o Options, e *experiment.Experiment, f *experiment.Federation, c sim.Config) (r *run, done func() error, err error) {
	clients := len(f.Trainers)
	if o.Shards == 0 {
		o.Shards = max(usualShards, o.Processes)
	}
	o.Shards, o.Attempts = min(o.Shards, clients), max(1, o.Attempts)
	done = func() error { return nil }
	if o.Exchange == "" {
		if o.Exchange, err = os.MkdirTemp("", "fedbeam-*"); err != nil {
			return nil, nil, err
		}
		done = func() error { return os.RemoveAll(o.Exchange) }
	}
	// What an earlier run of another experiment left there has another name.
	x := exchange(strings.TrimRight(o.Exchange, "/") + "/" + fedsim.Identity(e)[:16])
	if err = x.make(); err != nil {
		return nil, nil, errors.Join(err, done())
	}
	r = &run{o: o, e: e, f: f, c: c, x: x, job: newJob(e, x, o.Shards), site: newSite(e), everyRound: e.About().Clients != algorithm.Users}
	if err = r.rehearse(ctx); err != nil {
		return nil, nil, errors.Join(err, done())
	}
	return r, done, nil
}

// rehearse finds out who is there in each round. Where nobody is ever lost, everybody is: what follows makes sure of it.
func (r *run) rehearse(ctx context.Context) error {
	n := len(r.f.Trainers)
	if f := r.c.Faults; f.Dropout == 0 && f.Leave == 0 && f.Away == 0 {
		r.fates = slices.Repeat([]*fate{{Survivors: n, Answered: n}}, r.c.Rounds)
		return nil
	}
	other, err := r.e.Federation()
	if err != nil {
		return err
	}
	c := r.c
	c.Strategy, c.Trainers, c.Ledgers = other.Strategy, other.Trainers, other.ClientLedgers()
	_, err = sim.Rehearse(ctx, c, func(it sim.Iteration, from sim.Fate, _ []byte) error {
		f, err := fateOf(it, from, n)
		r.fates = append(r.fates, f)
		return err
	})
	return err
}

// run submits the jobs and follows what they write.
func (r *run) run(ctx context.Context) (*sim.Outcome, error) {
	defer host(r.e)()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	submitted := make(chan error, 1)
	go func() {
		err := r.submit(ctx)
		if err != nil {
			cancel(err)
		}
		submitted <- err
	}()
	out, err := r.follow(ctx)
	if err != nil {
		cancel(err)
	}
	if failed := <-submitted; failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, err
	}
	return out, r.stand(ctx, r.c.Rounds)
}

// submit runs the jobs one after the other, each again if it fails.
func (r *run) submit(ctx context.Context) error {
	per := r.o.RoundsPerJob
	if per == 0 {
		per = r.c.Rounds
	}
	for first := 1; first <= r.c.Rounds; first += per {
		last := min(first+per-1, r.c.Rounds)
		for attempt := 1; ; attempt++ {
			counts, err := execute(ctx, r.o, build(r.job, r.fates, first, last, max(1, r.o.Processes), r.everyRound))
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			if err == nil {
				if r.o.Counted != nil {
					r.o.Counted(counts)
				}
				break
			}
			if err = fmt.Errorf("rounds %d to %d: %w", first, last, err); attempt == r.o.Attempts {
				return err
			}
			if r.o.Retried != nil {
				r.o.Retried(attempt, err)
			}
		}
	}
	return nil
}

// follow has the simulator go through the rounds as they are over, with the models that come out of the pipeline: it
// charges ledgers, has the model measured and keeps the books. That clients do what the pipeline had them do is checked.
func (r *run) follow(ctx context.Context) (*sim.Outcome, error) {
	c, refused := r.c, make(map[uint64]error)
	replay := &replay{await: func(round int) (*turn, error) { return r.await(ctx, round) }}
	c.Strategy = replay
	out, err := sim.Rehearse(ctx, c, func(it sim.Iteration, from sim.Fate, shared []byte) error {
		f, err := fateOf(it, from, len(r.f.Trainers))
		if err != nil {
			return err
		}
		if !f.equal(r.fates[it.Number-1]) {
			return fmt.Errorf("round %d: with models as long as these other clients are lost than the pipeline took to be; fedsim run runs this experiment", it.Number)
		}
		if why := replay.refused; why != nil {
			refused[it.Number] = why
			it.Skipped, it.Survivors, it.Answered = why, 0, 0
		}
		if r.everyRound {
			if err = r.stand(ctx, int(it.Number)); err != nil {
				return err
			}
		}
		if r.c.Iteration == nil {
			return nil
		}
		return r.c.Iteration(it, shared)
	})
	if err != nil {
		return nil, err
	}
	for i := range out.Iterations {
		if why := refused[out.Iterations[i].Number]; why != nil {
			it := &out.Iterations[i]
			it.Skipped, it.Survivors, it.Answered = why, 0, 0
		}
	}
	return out, nil
}

// replay is a strategy whose plans are those of the pipeline.
type replay struct {
	await   func(round int) (*turn, error)
	round   int
	refused error // why the server refused the sum of the latest round; nil where it did not
	model   []byte
}

// Next implements server.Strategy: it waits.
func (p *replay) Next() (plan *protocol.Plan, done bool, err error) {
	p.round++
	t, err := p.await(p.round)
	if err != nil {
		return nil, false, err
	}
	p.refused, p.model = nil, t.Model
	if t.Refused != "" {
		p.refused = errors.New(t.Refused)
	}
	return t.Plan, t.Plan == nil, nil
}

// Absorb implements server.Strategy: the pipeline has.
func (*replay) Absorb(*protocol.Plan, protocol.Sums, protocol.Runner) error { return nil }

// Skip implements server.Strategy: likewise.
func (*replay) Skip(*protocol.Plan, error) {}

// Model implements server.Strategy.
func (p *replay) Model() []byte { return p.model }

// Save implements server.Durable; there is nothing to go on from.
func (*replay) Save() ([]byte, error) { return nil, nil }

// Restore implements server.Durable; it is never asked to.
func (*replay) Restore([]byte) error { return nil }

// poll is how often the program looks whether a round is over.
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
