package training

import (
	"context"
	"errors"
	"fmt"

	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/results"
)

// KeepOptions say how a run is kept.
type KeepOptions struct {
	// Predictions leaves what the model predicts of the test ratings in the folder:
	// predictions.csv.
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
	// Checkpoint, if set, is the path of the checkpoint to continue from ([InterruptedRuns]). Another
	// experiment or other data are an error.
	Checkpoint string
}

// Keep is [Run] that also leaves the run's folder. The folder is written as soon as the model is
// trained and measured. If a baseline fails after that, the folder stays without the missing
// baselines, and Keep returns both the result and the error. It also returns both if the folder
// cannot be written.
func Keep(ctx context.Context, e *experiment.Experiment, p results.Progress, how KeepOptions) (*Result, error) {
	if how.Engine != nil && how.Resume {
		return nil, errors.New("only runs of the simulator can be gone on with")
	}
	defer stopWith(ctx, e)()
	k, err := newKeeper(e, p, how)
	if err != nil {
		return nil, err
	}
	folder, err := results.NewFolder(e)
	if err != nil {
		return nil, err
	}
	defer folder.Discard()
	j := newJob(e, keeping{results.OrSilent(p), folder})
	j.timed = folder.Time
	if j.on = how.Measured; j.on != nil {
		if j.clients, err = j.on.Instance().ClientSide(); err != nil {
			return nil, err
		}
	} else if j.engine = how.Engine; j.engine == nil {
		j.keeper = k
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
		r.Folder, err = folder.Complete(e, r.Summary, r.Model)
	}
	if err != nil {
		return r, errors.Join(j.compare(ctx), fmt.Errorf("the run is not kept: %w", err))
	}
	if err = j.compare(ctx); err != nil {
		err = &results.UncomparedError{Folder: r.Folder, Err: err}
	}
	return r, errors.Join(err, k.remove(), results.Amend(r.Folder, r.Summary))
}

// keeping writes every round down.
type keeping struct {
	results.Progress
	folder *results.Folder
}

// Round passes a round on and writes it to the folder.
func (k keeping) Round(m results.Metrics, skipped error) error {
	if err := k.folder.Append(m); err != nil {
		return err
	}
	return k.Progress.Round(m, skipped)
}
