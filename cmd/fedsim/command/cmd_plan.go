package command

import (
	"context"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/forecast"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/training"
)

// planCmd is fedsim plan.
type planCmd struct {
	experimentFlags

	Verbose   bool `help:"Print every release, message, chance and bound, and not one screen."`
	Calibrate bool `help:"Say what the simulation takes on this machine, too: memory and, from training on some of the users for a few seconds, time. Of ideal sums over clients that are users."`

	Format string `enum:"table,json,yaml" default:"table" help:"table or json; yaml is the experiment file that gives this experiment, every default spelt out."`
}

// Run implements fedsim plan.
func (c *planCmd) Run(ctx context.Context, s streams) error {
	said, err := c.settings()
	if err != nil {
		return err
	}
	return plan(ctx, said, c.Format, c.Calibrate, c.Verbose, s)
}

// plan says what an experiment would do, rest on and cost, without doing it.
func plan(ctx context.Context, said []config.Setting, format string, calibrate, verbose bool, s streams) error {
	p := newProgress(s.err)
	defer p.Clear()
	e, err := open(ctx, said, s, p, experiment.OpenPacked)
	if err != nil {
		return err
	}
	p.Clear()
	if format == "yaml" {
		_, err = s.out.Write(e.Config.YAML())
		return err
	}
	f, err := forecast.New(e)
	if err != nil {
		return err
	}
	if calibrate {
		if f.Calibration, err = training.Calibrate(ctx, e); err != nil {
			return err
		}
		if len(f.Uncovered) > 0 {
			f.Uncovered = append(f.Uncovered, "effort")
		}
	}
	if format == "json" {
		return cli.PrintJSON(s.out, f)
	}
	if verbose {
		return f.Print(s.out)
	}
	return f.PrintBrief(s.out)
}
