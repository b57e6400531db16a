package main

import (
	"context"
	"math"
	"time"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/experiment"
	"github.com/fedsim/fedsim/fedmf/baseline"
	"github.com/fedsim/fedsim/sim"
)

// job is one run: it joins an experiment with the simulator and collects what
// the summary says.
type job struct {
	e        *experiment.Experiment
	folder   *experiment.Folder
	progress *progress
	clock    *stopwatch

	model      *baseline.Factors
	nonPrivate float64 // test RMSE without noise
	summary    *experiment.Summary
}

func (j *job) workers() sim.Workers { return sim.Workers(j.e.Workers()) }

func (j *job) run(ctx context.Context) error {
	c := j.e.Config
	j.summary = &experiment.Summary{
		Algorithm: c.Algorithm, Data: j.e.Data.Name, Secagg: c.Secagg, Noise: c.Noise,
		Rounds: c.Rounds, Seconds: j.clock.laps,
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
	j.summary.TestRMSE, j.summary.TestMSE, j.summary.TestMAE = quality.RMSE, quality.MSE, quality.MAE
	j.clock.lap("train")
	j.nonPrivate = quality.RMSE
	if c.Private() {
		if err = j.withoutNoise(ctx); err != nil {
			return err
		}
	}
	j.progress.say("baselines")
	j.summary.Baselines = j.e.Baselines(j.workers())
	j.summary.Baselines.NonPrivate = j.nonPrivate
	j.clock.lap("baselines")
	if q := j.e.Validate(j.model, j.workers()); q != nil {
		j.summary.ValidationRMSE = &q.RMSE
	}
	j.summary.PeakMemory = experiment.PeakMemory()
	return ctx.Err()
}

// withoutNoise trains through the roles once more, for the baseline.
func (j *job) withoutNoise(ctx context.Context) error {
	other, err := j.e.NonPrivate()
	if err != nil {
		return err
	}
	f, err := other.Federation()
	if err != nil {
		return err
	}
	j.progress.start("without noise", j.e.Config.Rounds)
	out, err := sim.Run(ctx, simulation(other, f, func(it sim.Iteration, _ []byte) error {
		j.progress.step(int(it.Number), "")
		return nil
	}))
	if err != nil {
		return err
	}
	q, _, err := other.MeasureUsers(f, out.Model, j.workers())
	j.nonPrivate = q.RMSE
	j.clock.lap("non_private")
	return err
}

// federated trains through the roles and fills in what it cost.
func (j *job) federated(ctx context.Context) (experiment.Quality, error) {
	f, err := j.e.Federation()
	if err != nil {
		return experiment.Quality{}, err
	}
	c := j.e.Config
	j.progress.start(string(c.Algorithm), c.Rounds)
	w := &watcher{job: j, ledgers: f.Ledgers}
	out, err := sim.Run(ctx, simulation(j.e, f, w.iteration))
	if err != nil {
		return experiment.Quality{}, err
	}
	s := j.summary
	s.SkippedRounds = out.Skipped()
	for _, it := range out.Iterations {
		s.DroppedPerRound += float64(it.Dropped) / float64(len(out.Iterations))
	}
	s.BytesUpPerClient = experiment.PerClient(out.Up, len(f.Users))
	s.BytesDownPerClient = experiment.PerClient(out.Down, len(f.Users))
	s.Seconds["virtual"] = out.Clock.Seconds()
	spent, err := j.e.Spent(f.Ledgers, w.attempts)
	if err != nil {
		return experiment.Quality{}, err
	}
	s.Privacy = j.e.Statement(spent)
	quality, model, err := j.e.MeasureUsers(f, out.Model, j.workers())
	j.model = model
	return quality, err
}

// simulation is the simulator's view of an experiment.
func simulation(e *experiment.Experiment, f *experiment.Federation, each func(sim.Iteration, []byte) error) sim.Config {
	c := e.Config
	ms := func(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }
	return sim.Config{
		Session: f.Session, Strategy: f.Strategy, Trainers: f.Trainers(), Ledgers: f.ClientLedgers(),
		Draw: e.Draw(), Rounds: c.Rounds, Seed: c.Seed, Workers: sim.Workers(e.Workers()), Iteration: each,
		Faults: sim.Faults{Dropout: c.Dropout, Stages: e.DropoutStages(), Leave: c.Leave, Away: c.Away, AwayRounds: c.AwayRounds},
		Network: sim.Network{
			Latency: ms(c.Network.LatencyMS), Compute: ms(c.Network.ComputeMS), StageTimeout: ms(1000 * c.Network.StageTimeout),
			Up: 1e6 * c.Network.UpMbps, Down: 1e6 * c.Network.DownMbps,
		},
	}
}

// watcher measures after each iteration and writes it down.
type watcher struct {
	*job
	ledgers  []*dp.Ledger
	attempts []experiment.Attempt
}

func (w *watcher) iteration(it sim.Iteration, model []byte) error {
	w.attempts = append(w.attempts, experiment.Attempt{
		Survivors: it.Survivors, Answered: it.Answered, Summed: it.Skipped == nil, Sent: it.Sent > 0,
	})
	quality, err := w.e.MeasureModel(model, w.workers())
	if err != nil {
		return err
	}
	spent, err := w.e.Spent(w.ledgers, w.attempts)
	if err != nil {
		return err
	}
	m := experiment.Metrics{
		Round: int(it.Number), RMSE: quality.RMSE, MSE: quality.MSE, MAE: quality.MAE,
		Federated: &experiment.Federated{
			Alive: it.Alive, Dropped: it.Dropped, Skipped: it.Skipped != nil,
			BytesUp: it.Up, BytesDown: it.Down, Seconds: it.Duration.Seconds(),
		},
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
func (j *job) central(ctx context.Context) (experiment.Quality, error) {
	c := j.e.Config
	j.progress.start(string(c.Algorithm), c.Model.Epochs)
	j.summary.Rounds = c.Model.Epochs
	var quality experiment.Quality
	model, err := j.e.Central(ctx, func(epoch int, f *baseline.Factors) error {
		quality = j.e.Measure(f, j.workers())
		m := experiment.Metrics{Round: epoch, RMSE: quality.RMSE, MSE: quality.MSE, MAE: quality.MAE}
		if err := j.folder.Append(m); err != nil {
			return err
		}
		j.progress.iteration(m, nil)
		return nil
	})
	j.model = model
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
