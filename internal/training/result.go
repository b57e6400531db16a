// Package training runs an opened experiment. It joins the experiment with the simulator, or with another
// engine, and measures the model and its baselines. It keeps the run's folder, and writes checkpoints from
// which an interrupted run continues.
//
// Programs outside this module use it through the root package. The commands call it themselves.
package training

import (
	"io"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/results"
)

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

// Print writes what the command prints at the end of a run; verbose: all of it.
func (r *Result) Print(w io.Writer, verbose bool) error {
	return r.Summary.Print(w, r.Experiment, r.Folder, verbose)
}
