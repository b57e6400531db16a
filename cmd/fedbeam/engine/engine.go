// Package engine computes the rounds of an experiment as a pipeline of Apache Beam, to the bits of the
// simulator.
//
// A round has three parts. In a ParDo over shards of clients, the algorithm's own trainers contribute, and each shard
// adds up its vectors. A Combine adds up these integer vectors. A last step adds the noise of an ideal sum, and the
// server's role absorbs the result. Rounds follow each other in one pipeline. The state that trainers keep from round to
// round travels with the shard.
//
// The model does not depend on shards, workers or repeated work. Integers may be added in any order, all randomness
// follows from the session, and a rehearsal fixes beforehand which clients are lost where.
//
// The engine protects no user. As in the simulator, its operator sees all ratings, and each sum without its noise. The ε
// holds for the same run as a deployment.
package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/training"
	"github.com/fedsim/fedsim/secagg"
	"github.com/fedsim/fedsim/sim"
)

// Options say how a pipeline is run.
type Options struct {
	Runner    string // a runner that Beam knows
	Shards    int    // of clients; 0: as many as suit
	Processes int    // workers on this machine, besides this process, with the runner prism; 0: none
	// RoundsPerJob is the number of rounds unrolled into one pipeline; 0: all. Exchange holds the state between two jobs.
	RoundsPerJob int
	Attempts     int    // how often a failing job is submitted, at most; at least 1
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
func New(o Options) training.Engine {
	return func(ctx context.Context, e *experiment.Experiment, f *experiment.Federation, c sim.Config) (*sim.Outcome, error) {
		if err := Check(e); err != nil {
			return nil, err
		}
		r, done, err := newRun(o, e, f, c)
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
	books      *books
	fates      []*fate // that the pipeline takes for granted
	site       *site   // of the federation f
	everyRound bool    // trainers are needed after every round, to measure the model
}

// usualShards suits machines of up to some hundred processors: a shard is a piece of work, and has a sum of its own.
const usualShards = 16

func newRun(o Options, e *experiment.Experiment, f *experiment.Federation, c sim.Config) (r *run, done func() error, err error) {
	clients := len(f.Trainers)
	if o.Shards == 0 {
		o.Shards = max(usualShards, o.Processes)
	}
	o.Shards, o.Attempts = min(o.Shards, clients), max(1, o.Attempts)
	x, err := newExchange(o.Exchange, training.Identity(e))
	if err != nil {
		return nil, nil, err
	}
	r = &run{o: o, e: e, f: f, c: c, x: x, job: newJob(e, x, o.Shards), site: newSite(e), everyRound: e.About().Clients != algorithm.Users}
	return r, x.remove, nil
}

// run submits the jobs and follows what they write.
func (r *run) run(ctx context.Context) (*sim.Outcome, error) {
	defer host(r.e)()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := r.rehearse(ctx); err != nil {
		return nil, err
	}
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
