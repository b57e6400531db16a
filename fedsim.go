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
	"io"
	"math"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/forecast"
	"github.com/fedsim/fedsim/internal/experiment"
	_ "github.com/fedsim/fedsim/internal/families" // what is built in
	"github.com/fedsim/fedsim/internal/training"
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
	// Resume goes on from where a run of the same was stopped, if it is kept. A kept run writes checkpoints into its folder's parent
	// as hidden files, and removes them at the end.
	Resume bool
	// Progress is told how far the run is; nil: it is not reported.
	Progress results.Progress
}

// Result is the result of a run.
type Result struct {
	// Summary holds what summary.json holds: quality, baselines, privacy and cost.
	*results.Summary
	// Metrics holds one entry per round.
	Metrics []results.Metrics
	// Model predicts for every user of Data, by indices of Data.
	Model *model.Trained
	// Data lists the ids of users and items, and the rating scale.
	Data *dataset.Set
	// Folder is the path of the run's folder; "" if the run was not kept.
	Folder string

	experiment *experiment.Experiment
}

func resultOf(r *training.Result) *Result {
	if r == nil {
		return nil
	}
	return &Result{Summary: r.Summary, Metrics: r.Metrics, Model: r.Model, Data: r.Experiment.Data, Folder: r.Folder, experiment: r.Experiment}
}

// RMSE is that of the test ratings, in stars; NaN with implicit feedback.
func (r *Result) RMSE() float64 {
	if r.RatingSummary == nil {
		return math.NaN()
	}
	return r.TestRMSE
}

// Run trains and measures. Settings that cannot be run are a [config.Error], which says what would be
// right. When ctx ends, Run returns its error and leaves no folder; with Keep, a run that can continue
// returns a [results.StoppedError]. A kept run that misses some baselines returns the result and a
// [results.UncomparedError].
func Run(ctx context.Context, o Options) (*Result, error) {
	e, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	var r *training.Result
	if o.Keep {
		r, err = training.Keep(ctx, e, o.Progress, training.KeepOptions{Predictions: o.Predictions, Resume: o.Resume})
	} else {
		r, err = training.Run(ctx, e, o.Progress)
	}
	return resultOf(r), err
}

func open(ctx context.Context, o Options) (*experiment.Experiment, error) {
	c, err := config.ResolveMap(o.Settings)
	if err != nil {
		return nil, err
	}
	if o.Ratings == nil {
		return experiment.OpenPacked(ctx, c, nil)
	}
	return experiment.OpenRatings(c, o.Ratings)
}

// Plan says what a run would do, rest on and cost before anything runs.
func Plan(ctx context.Context, o Options) (*forecast.Forecast, error) {
	e, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	return forecast.New(e)
}

// Algorithms are the names of those that there are.
func Algorithms() []string { return algorithm.Names() }

// Print writes what the command prints at the end of a run.
func (r *Result) Print(w io.Writer) error { return r.Summary.Print(w, r.experiment, r.Folder) }
