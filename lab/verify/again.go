package verify

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/training"
	"github.com/fedsim/fedsim/internal/version"
	"github.com/fedsim/fedsim/results"
)

// again repeats a simulation in a folder of its own, and compares every file that does not depend on the clock.
func again(ctx context.Context, r *Report, f *folder, e *experiment.Experiment, o Options) (err error) {
	dir, err := os.MkdirTemp("", "fedsim-verify-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	algorithm.Out.Set(&e.Config, dir)
	algorithm.RunName.Set(&e.Config, "again")
	algorithm.Baselines.Set(&e.Config, "quick")
	if _, err = training.Keep(ctx, e, o.Progress, training.KeepOptions{}); err != nil {
		return err
	}
	same := 0
	for name, want := range f.evidence.Files {
		if slices.Contains([]string{"summary.json", "timings.jsonl", "config.yaml", "manifest.json"}, name) {
			continue // they hold seconds, paths or the version of the program
		}
		if name == "predictions.csv" {
			continue // of --save-predictions; it follows from the matrices
		}
		is, missing := version.Digest(filepath.Join(dir, "again", name))
		switch {
		case missing != nil:
			r.add(Forged, "model", "a repetition leaves no %s", name)
		case is != want:
			r.add(Forged, "model", "a repetition leaves another %s", name)
		default:
			same++
		}
	}
	platform := "of another platform or version, where a last bit may differ"
	if own, missing := results.ReadEvidence(filepath.Join(dir, "again")); missing == nil && own.Platform == f.evidence.Platform && own.Revision == f.evidence.Revision {
		platform = "of the same program and platform"
	}
	again, err := results.Read(filepath.Join(dir, "again"))
	if err != nil {
		return err
	}
	if is, want := again.Summary.Privacy.String(), f.summary.Privacy.String(); is != want {
		r.add(Forged, "epsilon", "a repetition states %s; summary.json states %s", is, want)
	}
	if !slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Verdict == Forged && strings.HasPrefix(c.Text, "a repetition") }) {
		r.add(OK, "model", "a repetition leaves the same %d files, bit for bit (%s)", same, platform)
	}
	return nil
}
