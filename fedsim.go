// Package fedsim trains private recommenders in a simulated federation, with real roles and
// messages, real noise and accounting, and dropouts as asked for. [Run] does for a program what the
// command fedsim run does.
//
//	result, err := fedsim.Run(ctx, fedsim.Options{
//		Algorithm: "ssp-c", Epsilon: 5, RatingMin: 1, RatingMax: 5, Ratings: ratings,
//	})
//	list, err := result.Recommend("user 7", 10)
//
// [Plan] says before a run what it would do, rest on and cost. A program can bring an algorithm of its own
// ([Options].Own, packages algorithm and peruser). The algorithm then runs, is planned and compared like a
// built-in one. An algorithm that is registered by its name can also be deployed.
//
// A simulation protects no data: one process sees all ratings. The ε of the statement is the ε of
// the same run as a deployment.
package fedsim

import (
	"context"
	"fmt"
	"io"
	"math"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/experiment"
	_ "github.com/fedsim/fedsim/internal/families" // what is built in
	"github.com/fedsim/fedsim/internal/forecast"
	"github.com/fedsim/fedsim/internal/training"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/results"
	"github.com/fedsim/fedsim/results/recommend"
)

// Result is the result of a run.
type Result struct {
	// Summary holds what summary.json holds: quality, baselines, privacy and cost.
	*results.Summary
	// Metrics holds one entry per round.
	Metrics []results.Metrics
	// Model predicts for every user of Data, by indices of Data. Predictions are Data.Shift above the stars
	// of the ratings, which is 0 for a scale that starts at 0 or above.
	Model *model.Trained
	// Data lists the ids of users and items, and the rating scale.
	Data *dataset.Set
	// Folder is the path of the run's folder; "" if the run was not kept.
	Folder string

	experiment *experiment.Experiment
}

// RMSE returns the root mean squared error of the test ratings, in stars; NaN with implicit feedback.
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
	if r == nil {
		return nil, err
	}
	return &Result{Summary: r.Summary, Metrics: r.Metrics, Model: r.Model, Data: e.Data, Folder: r.Folder, experiment: e}, err
}

func open(ctx context.Context, o Options) (*experiment.Experiment, error) {
	c, err := o.config()
	if err != nil {
		return nil, err
	}
	if o.Ratings == nil {
		return experiment.OpenPacked(ctx, c, nil)
	}
	return experiment.OpenRatings(c, o.Ratings)
}

// Forecast is the plan of a run: its releases, assumptions, privacy and cost.
type Forecast = forecast.Forecast

// Plan says what a run would do, rest on and cost before anything runs.
func Plan(ctx context.Context, o Options) (*Forecast, error) {
	e, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	return forecast.New(e)
}

// Algorithms lists the names of the built-in and of the registered algorithms.
func Algorithms() []string { return algorithm.Names() }

// Recommendation is an item with its predicted rating.
type Recommendation = recommend.Recommendation

// Recommend returns the n items with the highest predictions for a user, the highest first, without
// the items that the user rated in training. It returns fewer where fewer items are left, and an error that wraps
// [recommend.ErrNotThere] for a user who is not in the data.
func (r *Result) Recommend(user string, n int) ([]Recommendation, error) {
	if r.Data.Profile != nil {
		return nil, fmt.Errorf("%s is a regression: its rows are examples, and there is no item to recommend", r.Data.Name)
	}
	return recommend.Trained(r.experiment, r.Model).Recommend(user, n)
}

// Print writes what the command prints at the end of a run.
func (r *Result) Print(w io.Writer) error { return r.Summary.Print(w, r.experiment, r.Folder, false) }
