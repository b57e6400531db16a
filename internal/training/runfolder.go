// Package training runs an opened experiment. It joins the experiment with the simulator, or with another engine, and measures the
// model and its baselines. It keeps the run's folder, and writes checkpoints from which an interrupted run continues.
//
// Programs outside this module use it through the root package. The commands call it themselves. The tests are also of the packages
// that a run rests on: experiment, forecast and agreement.
package training

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/forecast"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/results"
	"github.com/fedsim/fedsim/sim"
)

// KeepOptions say how a run is kept.
type KeepOptions struct {
	// Predictions leaves predictions.csv in the folder: what the model predicts of the test ratings.
	Predictions bool
	// Resume continues an interrupted run of the same experiment, to the same bits. Without such a
	// run it begins at the start. A run writes checkpoints to a hidden file beside its folder, and
	// removes the file once its folder is complete.
	Resume bool
	// Engine, if set, computes the rounds in place of the simulator. Such a run writes no checkpoints.
	Engine Engine
	// Measured, if set, is an experiment with the same items and settings. The run is measured on its users, who are fitted to
	// the run's models, and on its test part. Such a run has no baselines and writes no checkpoints.
	Measured *experiment.Experiment
}

// Keep is [Run] that also leaves the run's folder. The folder is written as soon as the model is
// trained and measured. If a baseline fails after that, the folder stays without the missing
// baselines, and Keep returns both the result and the error. It also returns both if the folder
// cannot be written.
func Keep(ctx context.Context, e *experiment.Experiment, p results.Progress, how KeepOptions) (_ *Result, err error) {
	if how.Engine != nil && how.Resume {
		return nil, errors.New("only runs of the simulator can be gone on with")
	}
	defer stopWith(ctx, e, &err)()
	k, err := newCheckpointer(e, p, how)
	if err != nil {
		return nil, err
	}
	folder, err := results.NewFolder(e)
	if err != nil {
		return nil, err
	}
	defer folder.Discard()
	j := newJob(e, p)
	j.folder = folder
	if j.on = how.Measured; j.on != nil {
		if j.clients, err = j.on.Instance().ClientSide(); err != nil {
			return nil, err
		}
	} else if j.engine = how.Engine; j.engine == nil {
		j.checkpoints = k
	}
	if k.from != nil {
		if j.result.Metrics, err = k.restore(folder.Append); err != nil {
			return nil, err
		}
		j.attempts = k.from.Attempts
	}
	if err = j.train(ctx); err != nil {
		return nil, k.stopped(err)
	}
	r := j.result
	if how.Predictions {
		err = folder.WritePredictions(e, r.Model)
	}
	if err == nil {
		err = folder.WriteRelease(e, j.shared)
	}
	if err == nil && r.Record != nil {
		err = folder.WriteRecord(r.Record)
	}
	if err == nil {
		r.Folder, err = folder.Complete(e, r.Summary, r.Model, j.sessions)
	}
	if err != nil {
		return r, errors.Join(j.compare(ctx), fmt.Errorf("the run is not kept: %w", err))
	}
	if err = j.compare(ctx); err != nil {
		err = &results.UncomparedError{Folder: r.Folder, Err: err}
	}
	return r, errors.Join(err, k.remove(), results.Amend(r.Folder, r.Summary))
}

// Result is the result of a run.
type Result struct {
	// Summary holds what summary.json holds: quality, baselines, privacy and cost.
	*results.Summary
	// Metrics holds one entry per round.
	Metrics []results.Metrics
	// Model predicts for every user of the data, by indices of Experiment.Data.
	Model *model.Trained
	// Experiment is the experiment that was run, with every setting resolved.
	Experiment *experiment.Experiment
	// Record holds what a later session can start from; nil if its algorithm has nothing for that.
	Record *algorithm.Start
	// Folder is the path of the run's folder; "" if the run was not kept.
	Folder string
}

// Engine computes the rounds of a federation with the same bits as [sim.Run], by other means. When it calls c.Round, the
// ledgers of f must be charged, and the trainers of organisations be in the state, that they have at that round. In the end
// all trainers must be in the state after the last round.
type Engine func(ctx context.Context, e *experiment.Experiment, f *experiment.Federation, c sim.Config) (*sim.Outcome, error)

// Simulation is the simulator's view of an experiment and its federation. each, which may
// be nil, is called after every round with the shared model.
func Simulation(e *experiment.Experiment, f *experiment.Federation, each func(sim.Round, []byte) error) sim.Config {
	c := e.Config
	value := func(k config.NumberKey) float64 { return k.Value(c) }
	ms := func(k config.NumberKey) time.Duration { return time.Duration(value(k) * float64(time.Millisecond)) }
	return sim.Config{
		Session: f.Session, Strategy: f.Strategy, Trainers: f.Trainers, Ledgers: f.ClientLedgers(),
		Real: e.Real(), Mode: e.Mode(), VerifyInputs: e.VerifiesInputs(), Draw: e.Draw(), Rounds: e.Schedule.Rounds(), SitOut: value(algorithm.SitOut), Seed: algorithm.Seed.Of(c),
		Workers: e.Workers(), Round: each,
		Faults: sim.Faults{
			Dropout: value(algorithm.Dropout), Stages: e.DropoutStages, Leave: value(algorithm.Leave), Away: value(algorithm.Away), AwayRounds: algorithm.AwayRounds.Int(c),
		},
		Network: sim.Network{
			Latency: ms(algorithm.Latency), Compute: ms(algorithm.Compute), StageTimeout: time.Duration(1000 * value(algorithm.Patience) * float64(time.Millisecond)),
			Up: 1e6 * value(algorithm.Up), Down: 1e6 * value(algorithm.Down),
		},
	}
}

// A forecast of time is made from samples. The first has firstSample users, and each next one several times as many, until
// it takes enough more time to be measured, and a share of the whole. Fewer users fit the processor's caches, and train faster.
const (
	firstSample = 64
	nextSample  = 4
	enough      = 0.5  // seconds of processor time
	share       = 0.02 // of the processor time that is forecast
)

// Calibrate forecasts the time that training takes on this machine. It trains on some users, then on four times as many, until
// that takes half a second of processor time more, and a fiftieth of the forecast. A line through the last two samples, by
// their ratings, gives the forecast. With real sums a client has more neighbours if there are more clients. Such an
// experiment, or one without clients, is a [config.Error].
func Calibrate(ctx context.Context, e *experiment.Experiment) (*forecast.Calibration, error) {
	if e.Real() || !e.About().Federated() || !e.About().ByUser {
		return nil, config.Errorf("calibrate: time is forecast of ideal sums over clients that are users, and not of %s with secagg %s", e.About().Name, algorithm.Secagg.Of(e.Config))
	}
	began := time.Now()
	var trials []forecast.Trial
	var f *forecast.Calibration
	for users := min(firstSample, e.Data.Users); ; users = min(nextSample*users, e.Data.Users) {
		sample, err := e.Sample(users)
		if err != nil {
			return nil, err
		}
		t, err := trial(ctx, sample)
		if err != nil {
			return nil, err
		}
		trials = append(trials, t)
		trials = trials[max(len(trials)-2, 0):]
		f = forecast.CalibrationOf(trials, e.Split.Train.Len(), e.Schedule.Rounds(), int(e.Workers()))
		if users == e.Data.Users || len(trials) == 2 && t.Seconds-trials[0].Seconds >= max(enough, share*f.Processor) {
			break
		}
	}
	f.PeakMemory = forecast.PeakMemory(e)
	f.Took = math.Round(1000*time.Since(began).Seconds()) / 1000
	return f, nil
}

// trial times a training, with what is measured after every round.
func trial(ctx context.Context, e *experiment.Experiment) (forecast.Trial, error) {
	t := forecast.Trial{Users: e.Data.Users, Ratings: e.Split.Train.Len()}
	runtime.GC() // what others left is not this one's
	start, began := processorTime(), time.Now()
	f, err := e.Federation()
	if err != nil {
		return t, err
	}
	out, err := sim.Run(ctx, Simulation(e, f, func(_ sim.Round, shared []byte) error {
		_, failed := e.MeasureInterim(f, shared, e.Workers())
		return failed
	}))
	if err != nil {
		return t, err
	}
	if _, err = e.Final(f, out.Model, e.Workers()); err != nil {
		return t, err
	}
	t.Seconds, t.Wall = (processorTime() - start).Seconds(), time.Since(began).Seconds()
	return t, nil
}
