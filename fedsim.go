// Package fedsim trains private recommenders in a simulated federation: real roles and
// messages, real noise and accounting, dropouts as they are asked for. It is the door for
// programs: what the command fedsim run does, [Run] does.
//
//	result, err := fedsim.Run(ctx, fedsim.Options{
//		Settings: map[string]string{"algorithm": "ssp-c", "epsilon": "5", "rating-min": "1", "rating-max": "5"},
//		Ratings:  ratings,
//	})
//
// A program brings an algorithm of its own by registering it (package algorithm); it then
// runs, is planned, compared and deployed like those that are built in.
//
// A simulation protects nothing: one process sees all data. The ε that it states is that of
// the same run as a deployment.
package fedsim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/forecast"
	"github.com/fedsim/fedsim/internal/experiment"
	_ "github.com/fedsim/fedsim/internal/families" // what is built in
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/results"
)

// Rating is what a user gave to an item: ids, and stars.
type Rating = read.Rating

// Options say what is run.
type Options struct {
	// Settings are keys and values as in an experiment file; docs/configuration.md lists
	// them. What is not said is at its default.
	Settings map[string]string
	// Ratings are trained on in place of the data that the settings name. The settings
	// rating-min and rating-max must then say the scale.
	Ratings []Rating
	// Keep writes the run's folder under the setting out.
	Keep bool
	// Predictions keeps those of the test ratings, too.
	Predictions bool
	// Resume goes on from where a run of the same was stopped, if it is kept: see [Keeping].
	Resume bool
	// Progress is told how far the run is; nil: it is not reported.
	Progress Progress
}

// Result is the result of a run.
type Result struct {
	// Summary is what summary.json holds: quality, baselines, privacy and cost.
	*results.Summary
	// Metrics are those of every round.
	Metrics []results.Metrics
	// Model predicts for every user of the data, by indices of Data.
	Model *model.Trained
	// Experiment is what was run, every setting resolved.
	Experiment *experiment.Experiment
	// Folder is where the run was left; "" if it was not kept.
	Folder string
}

// RMSE is that of the test ratings, in stars; NaN with implicit feedback.
func (r *Result) RMSE() float64 {
	if r.RatingSummary == nil {
		return math.NaN()
	}
	return r.TestRMSE
}

// Run trains and measures. What cannot be run is a [config.Error] that says what would be
// right. When ctx ends it returns that error, and leaves no folder.
func Run(ctx context.Context, o Options) (*Result, error) {
	e, err := open(ctx, o, experiment.OpenPacked)
	if err != nil {
		return nil, err
	}
	if !o.Keep {
		return Train(ctx, e, o.Progress)
	}
	return Keep(ctx, e, o.Progress, Keeping{Predictions: o.Predictions, Resume: o.Resume})
}

// Keeping says how a run is kept.
type Keeping struct {
	// Predictions leaves what the model predicts of the test ratings in the folder:
	// predictions.csv.
	Predictions bool
	// Resume goes on from where a run of the same was stopped, to the same bits; one that was
	// not begins at the start. From time to time a run writes down where it is, in a hidden file
	// beside its folder, which is removed when the run is there.
	Resume bool
	// Engine, if set, computes the rounds in place of the simulator. Such a run writes no checkpoints.
	Engine Engine
	// Checkpoint, if set, is the one that is gone on from ([StoppedRuns]): it is an error where the
	// experiment is another one, or on other data.
	Checkpoint string
}

// Keep is [Train] that leaves the run's folder. The folder is there as soon as the model is
// trained and measured: what fails after that, in baselines, leaves it as it is, without those
// that are missing. Result and error are then both returned. So they are where the folder
// cannot be written.
func Keep(ctx context.Context, e *experiment.Experiment, p Progress, how Keeping) (*Result, error) {
	if how.Engine != nil && how.Resume {
		return nil, errors.New("fedsim: only runs of the simulator can be gone on with")
	}
	k, err := newKeeper(e, p, how)
	if err != nil {
		return nil, err
	}
	folder, err := results.NewFolder(e)
	if err != nil {
		return nil, err
	}
	defer folder.Discard()
	j := newJob(e, keeping{orSilent(p), folder})
	j.timed = folder.Time
	if j.engine = how.Engine; j.engine == nil {
		j.keeper = k
	}
	if k.from != nil {
		if err = k.restore(j, folder.Append); err != nil {
			return nil, err
		}
	}
	if err = j.train(ctx); err != nil {
		return nil, k.stopped(err)
	}
	r := j.result
	if how.Predictions {
		err = folder.WritePredictions(e, r.Model)
	}
	if err == nil {
		r.Folder, err = folder.Complete(e, r.Summary, r.Model)
	}
	if err != nil {
		return r, errors.Join(j.compare(ctx), fmt.Errorf("the run is not kept: %w", err))
	}
	if err = j.compare(ctx); err != nil {
		err = &UncomparedError{Folder: r.Folder, Err: err}
	}
	return r, errors.Join(err, k.remove(), results.Amend(r.Folder, r.Summary))
}

// UncomparedError is returned for a run that is kept, and whose baselines are not all there.
type UncomparedError struct {
	Folder string
	Err    error // why
}

// Error says where the run is.
func (e *UncomparedError) Error() string {
	why := e.Err.Error()
	if errors.Is(e.Err, context.Canceled) {
		why = "interrupted"
	}
	return fmt.Sprintf("%s while baselines were trained; the run itself is finished and in %s, without those that are missing", why, e.Folder)
}

// Unwrap is why.
func (e *UncomparedError) Unwrap() error { return e.Err }

// Open resolves the settings and opens their data.
func Open(ctx context.Context, o Options) (*experiment.Experiment, error) {
	return open(ctx, o, experiment.Open)
}

func open(ctx context.Context, o Options, load func(context.Context, config.Config, func(done, total int64)) (*experiment.Experiment, error)) (*experiment.Experiment, error) {
	var said []config.Setting
	for _, key := range slices.Sorted(maps.Keys(o.Settings)) {
		said = append(said, config.Setting{Key: key, Value: o.Settings[key], Origin: key})
	}
	c, err := config.Resolve(said)
	if err != nil {
		return nil, err
	}
	if o.Ratings == nil {
		return load(ctx, c, nil)
	}
	set, err := read.FromRatings("ratings", o.Ratings, experiment.DataOptions(c))
	if errors.Is(err, dataset.ErrScale) || errors.Is(err, read.ErrDuplicates) {
		return nil, config.Wrap(err)
	}
	if err != nil {
		return nil, err
	}
	return experiment.OpenSet(c, set)
}

// Plan says what a run would do, rest on and cost before anything runs.
func Plan(ctx context.Context, o Options) (*forecast.Forecast, error) {
	e, err := open(ctx, o, experiment.OpenPacked)
	if err != nil {
		return nil, err
	}
	return forecast.New(e)
}

// Algorithms are the names of those that there are.
func Algorithms() []string { return algorithm.Names() }

// Print writes what the command prints at the end of a run.
func (r *Result) Print(w io.Writer) error { return r.Summary.Print(w, r.Experiment, r.Folder) }

// keeping writes every round down.
type keeping struct {
	Progress
	folder *results.Folder
}

// Round implements Progress.
func (k keeping) Round(m results.Metrics, skipped error) error {
	if err := k.folder.Append(m); err != nil {
		return err
	}
	return k.Progress.Round(m, skipped)
}
