package main

import (
	"context"

	"github.com/fedsim/fedsim/experiment"
)

// runCmd is fedsim run: the experiment, and what becomes of its results.
type runCmd struct {
	experimentFlags

	Baselines *string `placeholder:"WHICH" help:"all (default), or quick: only those that need no training of the federation."`
	Workers   *string `placeholder:"N" help:"Goroutines that compute; the result does not depend on it. Default 0, all cores."`
	Out       *string `placeholder:"DIR" help:"Where runs are kept. Default runs."`
	Name      *string `placeholder:"NAME" help:"Folder of this run in there. Default: made of algorithm, data, epsilon and seed."`

	DryRun bool   `help:"Say what would be run and what it would cost, as fedsim plan does, and stop."`
	Format string `enum:"table,json" default:"table" help:"How to print the summary: table or json."`
}

// Run implements fedsim run.
func (r *runCmd) Run(ctx context.Context, s streams) error {
	said, err := r.settings(r)
	if err != nil {
		return err
	}
	if r.DryRun {
		return plan(ctx, said, r.Format, s)
	}
	p := newProgress(s.err)
	defer p.clear()
	clock := newStopwatch()
	e, err := open(ctx, said, s, p)
	if err != nil {
		return err
	}
	clock.lap("load")
	folder, err := e.NewFolder()
	if err != nil {
		return err
	}
	defer folder.Discard()
	job := &job{e: e, folder: folder, progress: p, clock: clock}
	if err = job.run(ctx); err != nil {
		return err
	}
	path, err := folder.Complete(e, job.summary, job.model)
	if err != nil {
		return err
	}
	p.clear()
	if r.Format == "json" {
		return printJSON(s.out, struct {
			*experiment.Summary
			Results string `json:"results"`
		}{job.summary, path})
	}
	return job.summary.Print(s.out, e, path)
}
