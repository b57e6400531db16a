package command

import (
	"context"
	"errors"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/forecast"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/training"
)

type planCmd struct {
	experimentFlags

	Verbose   bool `help:"Print every release, message, chance and bound, and not one screen."`
	Calibrate bool `help:"Say what the simulation takes on this machine, too: memory and, from training on some of the users for a few seconds, time. Of ideal sums over clients that are users."`

	Sessions     int     `placeholder:"N" help:"Plan N sessions on the same ratings, which together cost at most --total-epsilon, and print the first."`
	TotalEpsilon float64 `placeholder:"E" help:"Privacy budget of all sessions together."`
	Shares       string  `enum:"equal,front-loaded" default:"equal" help:"How sessions share the budget: equal, or front-loaded, where the first session takes half."`

	Format string `enum:"table,json,yaml" default:"table" help:"table or json; yaml is the experiment file that gives this experiment, every default spelt out."`
}

func (c *planCmd) Run(ctx context.Context, s streams) error {
	said, err := c.settings()
	if err != nil {
		return err
	}
	if err = checkBudgetOfSessions(c.Sessions, c.TotalEpsilon, said); err != nil {
		return err
	}
	how := planned{format: c.Format, calibrate: c.Calibrate, verbose: c.Verbose, sessions: c.Sessions, total: c.TotalEpsilon, shares: forecast.Shares(c.Shares)}
	return c.plan(ctx, said, how, s)
}

// planned says which form of a plan is printed.
type planned struct {
	format             string // table, json or yaml
	calibrate, verbose bool

	sessions int     // 0: one
	total    float64 // epsilon of all sessions
	shares   forecast.Shares
}

// plan prints what an experiment with these settings would do, rest on and cost. It trains nothing.
func (f *experimentFlags) plan(ctx context.Context, said []config.Setting, how planned, s streams) error {
	p := newProgress(s.err)
	defer p.Clear()
	e, err := open(ctx, said, s, p, experiment.OpenPacked)
	if err != nil {
		return err
	}
	p.Clear()
	var sessions *forecast.SessionsForecast
	if how.sessions > 0 {
		if e, sessions, err = forecast.Sessions(e, how.sessions, how.total, how.shares); err != nil {
			return err
		}
		said = append(said, config.Setting{Key: algorithm.Epsilon.Name, Value: e.Config.Text(algorithm.Epsilon.Key), Origin: "--" + algorithm.Epsilon.Name})
	}
	if how.format == "yaml" {
		_, err = s.out.Write(e.Config.YAML())
		return err
	}
	x, err := forecast.New(e)
	if err != nil {
		return err
	}
	x.Sessions = sessions
	if how.calibrate {
		if x.Calibration, err = training.Calibrate(ctx, e); err != nil {
			return err
		}
		if len(x.Uncovered) > 0 {
			x.Uncovered = append(x.Uncovered, "effort")
		}
	}
	next := [][]string{f.call("run", said)}
	switch {
	case how.format == "json":
		return cli.PrintJSON(s.out, x)
	case how.verbose:
		err = x.Print(s.out)
	default:
		err = x.PrintBrief(s.out)
		next = append(next, f.call("plan", said, "--verbose"))
	}
	return errors.Join(err, screen.Print(s.out, "", next...))
}
