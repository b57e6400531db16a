package command

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/fedsim/fedsim"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/results"
)

// runCmd is fedsim run: the experiment, and what becomes of its results.
type runCmd struct {
	experimentFlags

	From            string `placeholder:"DIR" help:"Repeat the finished run in this folder: its configuration, on the same data, which is checked. Flags win over it."`
	DryRun          bool   `help:"Say what would be run and what it would cost, as fedsim plan does, and stop."`
	SavePredictions bool   `help:"Leave what the model predicts of the test ratings in the run's folder: predictions.csv with user, item, rating and predicted."`

	Format string `enum:"table,json" default:"table" help:"How to print the summary: table or json."`
}

// Run implements fedsim run.
func (r *runCmd) Run(ctx context.Context, s streams) error {
	if r.From != "" {
		if r.File != "" {
			return cli.Misusef("--from %s: an experiment file is given, too", r.From)
		}
		r.File = filepath.Join(r.From, "config.yaml")
	}
	said, err := r.settings()
	if err != nil {
		return err
	}
	if r.DryRun {
		return plan(ctx, said, r.Format, s)
	}
	p := newProgress(s.err)
	defer p.Clear()
	e, err := open(ctx, said, s, p)
	if err != nil {
		return err
	}
	if r.From != "" {
		if err = results.SameData(r.From, e); err != nil {
			return err
		}
	}
	keep := fedsim.Keep
	if r.SavePredictions {
		keep = fedsim.KeepPredictions
	}
	result, err := keep(ctx, e, p)
	if result == nil {
		return err
	}
	p.Clear()
	if r.Format == "json" {
		return errors.Join(err, cli.PrintJSON(s.out, struct {
			*results.Summary
			Results string `json:"results"`
		}{result.Summary, result.Folder}))
	}
	return errors.Join(err, result.Print(s.out))
}
