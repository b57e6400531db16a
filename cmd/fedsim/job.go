package main

import (
	"context"
	"math"
	"time"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/experiment"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/sim"
)

// job is one run: it joins an experiment with the simulator and collects what
// the summary says.
type job struct {
	e        *experiment.Experiment
	folder   *experiment.Folder
	progress *progress
	clock    *stopwatch

	model    *model.Trained
	summary  *experiment.Summary
	headline float64 // what the run is compared by
}

func (j *job) workers() protocol.Workers { return protocol.Workers(j.e.Workers()) }

func (j *job) run(ctx context.Context) error {
	c := j.e.Config
	j.summary = &experiment.Summary{
		Algorithm: c.Algorithm, Data: j.e.Data.Name, Secagg: c.Secagg, Noise: c.Noise,
		Rounds: j.e.Steps.Iterations(), Seconds: j.clock.laps,
		BytesUpPerClient: map[string]int64{}, BytesDownPerClient: map[string]int64{},
	}
	train := j.federated
	if c.Algorithm == experiment.SGDMF {
		train = j.central
	}
	quality, err := train(ctx)
	if err != nil {
		return err
	}
	j.summary.Measured(quality, j.e, j.model, j.workers())
	j.headline = quality.PrimaryMetric()
	j.clock.lap("train")
	if err = j.baselines(ctx); err != nil {
		return err
	}
	if q := j.e.Test.Validate(j.model, j.workers()); q != nil {
		j.summary.Validated(*q)
	}
	j.summary.PeakMemory = experiment.PeakMemory()
	return ctx.Err()
}

// baselines measures what the run is compared with: some by training through the
// roles once more, unless only the quick ones are wanted.
func (j *job) baselines(ctx context.Context) error {
	j.progress.say("baselines")
	b, err := j.e.Baselines(j.workers())
	if err != nil {
		return err
	}
	j.clock.lap("baselines")
	c := j.e.Config
	if !c.Private() {
		b.NonPrivate = &j.headline
	}
	if c.Algorithm == experiment.PrivateItemBias {
		b.PrivateItemBias = &j.headline
	}
	j.summary.Baselines = b
	if !c.Algorithm.Federated() || c.Baselines != "all" {
		return nil
	}
	l := &j.summary.Baselines
	for _, variant := range []struct {
		lap, name string
		rmse      **float64
		open      func() (*experiment.Experiment, error)
	}{
		{"local_only", "local only", &l.LocalOnly, j.e.LocalOnly},
		{"private_item_bias", "private item bias", &l.PrivateItemBias, j.e.PrivateItemBias},
		{"non_private", "without noise", &l.NonPrivate, j.e.NonPrivate},
	} {
		if *variant.rmse != nil {
			continue
		}
		if *variant.rmse, err = j.again(ctx, variant.name, variant.open); err != nil {
			return err
		}
		if *variant.rmse != nil {
			j.clock.lap(variant.lap)
		}
	}
	return nil
}

// again runs a variant of the experiment and returns what it is compared by; nil where there is
// no such variant.
func (j *job) again(ctx context.Context, name string, variant func() (*experiment.Experiment, error)) (*float64, error) {
	e, err := variant()
	if e == nil || err != nil {
		return nil, err
	}
	f, err := e.Federation()
	if err != nil {
		return nil, err
	}
	j.progress.start(name, e.Steps.Iterations())
	out, err := sim.Run(ctx, simulation(e, f, func(it sim.Iteration, _ []byte) error {
		j.progress.step(int(it.Number), "")
		return nil
	}))
	if err != nil {
		return nil, err
	}
	m, err := e.Final(f, out.Model, j.workers())
	if err != nil {
		return nil, err
	}
	v := e.Test.Measure(m, j.workers()).PrimaryMetric()
	return &v, nil
}

// federated trains through the roles and fills in what it cost.
func (j *job) federated(ctx context.Context) (eval.Quality, error) {
	f, err := j.e.Federation()
	if err != nil {
		return eval.Quality{}, err
	}
	c := j.e.Config
	j.progress.start(string(c.Algorithm), j.e.Steps.Iterations())
	w := &watcher{job: j, federation: f}
	out, err := sim.Run(ctx, simulation(j.e, f, w.iteration))
	if err != nil {
		return eval.Quality{}, err
	}
	s := j.summary
	s.SkippedRounds = out.Skipped()
	for _, it := range out.Iterations {
		if it.Skipped != nil {
			s.Lost(it.Number, j.e)
		}
		s.DroppedPerRound += float64(it.Dropped) / float64(len(out.Iterations))
	}
	s.BytesUpPerClient = experiment.PerClient(out.Up, len(f.Trainers))
	s.BytesDownPerClient = experiment.PerClient(out.Down, len(f.Trainers))
	s.Seconds["virtual"] = out.Clock.Seconds()
	spent, err := j.e.Spent(f.Ledgers, w.attempts)
	if err != nil {
		return eval.Quality{}, err
	}
	s.Privacy = j.e.Statement(spent)
	if j.model, err = j.e.Final(f, out.Model, j.workers()); err != nil {
		return eval.Quality{}, err
	}
	s.Mean = j.model.Mean
	if j.model.Shared != nil {
		shared := j.e.Test.Measure(j.model.Shared, j.workers()).RMSE
		s.SharedRMSE = &shared
	}
	return j.e.Test.Measure(j.model, j.workers()), nil
}

// simulation is the simulator's view of an experiment.
func simulation(e *experiment.Experiment, f *experiment.Federation, each func(sim.Iteration, []byte) error) sim.Config {
	c := e.Config
	ms := func(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
	return sim.Config{
		Session: f.Session, Strategy: f.Strategy, Trainers: f.Trainers, Ledgers: f.ClientLedgers(),
		Real: e.Real(), Mode: e.Mode(), Draw: e.Draw(), Rounds: e.Steps.Iterations(), SitOut: c.SitOut, Seed: c.Seed, Workers: protocol.Workers(e.Workers()), Iteration: each,
		Faults: sim.Faults{Dropout: c.Dropout.Value, Stages: e.DropoutStages(), Leave: c.Leave, Away: c.Away, AwayRounds: c.AwayRounds},
		Network: sim.Network{
			Latency: ms(c.Network.LatencyMS), Compute: ms(c.Network.ComputeMS), StageTimeout: ms(1000 * c.Network.StageTimeout),
			Up: 1e6 * c.Network.UpMbps, Down: 1e6 * c.Network.DownMbps,
		},
	}
}

// watcher measures after each iteration and writes it down.
type watcher struct {
	*job
	federation *experiment.Federation
	attempts   []experiment.Attempt
}

func (w *watcher) iteration(it sim.Iteration, encoded []byte) error {
	w.attempts = append(w.attempts, experiment.Attempt{
		Survivors: it.Survivors, Answered: it.Answered, Summed: it.Skipped == nil, Sent: it.Sent > 0,
	})
	quality, err := w.e.MeasureInterim(w.federation, encoded, w.workers())
	if err != nil {
		return err
	}
	spent, err := w.e.Spent(w.federation.Ledgers, w.attempts)
	if err != nil {
		return err
	}
	m := experiment.NewMetrics(int(it.Number), quality)
	m.Federated = &experiment.Federated{
		Alive: it.Alive, Dropped: it.Dropped, Skipped: it.Skipped != nil,
		BytesUp: it.Up, BytesDown: it.Down, Seconds: it.Duration.Seconds(),
	}
	if w.e.Config.Private() && !math.IsInf(spent.Epsilon, 1) {
		m.Epsilon, m.Delta = &spent.Epsilon, w.e.Privacy.Budget.Delta
	}
	if err := w.folder.Append(m); err != nil {
		return err
	}
	w.progress.iteration(m, it.Skipped)
	return nil
}

// central trains on all ratings in one place.
func (j *job) central(ctx context.Context) (eval.Quality, error) {
	c := j.e.Config
	j.progress.start(string(c.Algorithm), c.Model.Epochs)
	j.summary.Rounds = c.Model.Epochs
	var quality eval.Quality
	trained, err := j.e.Central(ctx, func(epoch int, f *model.Factors) error {
		quality = j.e.Test.Measure(f, j.workers())
		m := experiment.NewMetrics(epoch, quality)
		if err := j.folder.Append(m); err != nil {
			return err
		}
		j.progress.iteration(m, nil)
		return nil
	})
	j.model = trained
	j.summary.Secagg = "none"
	j.summary.Privacy = j.e.Statement(dp.Result{Epsilon: math.Inf(1)})
	return quality, err
}

// stopwatch keeps the seconds of phases, on the wall clock.
type stopwatch struct {
	last time.Time
	laps map[string]float64
}

func newStopwatch() *stopwatch { return &stopwatch{last: time.Now(), laps: make(map[string]float64)} }

func (s *stopwatch) lap(phase string) {
	now := time.Now()
	s.laps[phase] = now.Sub(s.last).Seconds()
	s.last = now
}
