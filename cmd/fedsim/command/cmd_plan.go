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
	"github.com/fedsim/fedsim/internal/verb"
)

type planCmd struct {
	verb.ExperimentFlags

	Verbose   bool `help:"Print every release, message, chance and bound, and not one screen."`
	Calibrate bool `help:"Say what the simulation takes on this machine, too: memory and, from training on some of the users for a few seconds, time. Of ideal sums over clients that are users."`

	Sessions     int     `placeholder:"N" help:"Plan N sessions on the same ratings, which together cost at most --total-epsilon, and print the first."`
	TotalEpsilon float64 `placeholder:"E" help:"Privacy budget of all sessions together."`
	Shares       string  `enum:"equal,front-loaded" default:"equal" help:"How sessions share the budget: equal, or front-loaded, where the first session takes half."`

	Format string `enum:"table,json,yaml" default:"table" help:"table or json; yaml is the experiment file that gives this experiment, every default spelt out."`
}

func (c *planCmd) Run(ctx context.Context, s verb.Streams) error {
	said, err := c.Settings(s.Err)
	if err != nil {
		return err
	}
	if err = checkBudgetOfSessions(c.Sessions, c.TotalEpsilon, said); err != nil {
		return err
	}
	how := planned{format: c.Format, calibrate: c.Calibrate, verbose: c.Verbose, sessions: c.Sessions, total: c.TotalEpsilon, shares: forecast.Shares(c.Shares)}
	return plan(ctx, &c.ExperimentFlags, said, how, s)
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
func plan(ctx context.Context, f *verb.ExperimentFlags, said []config.Setting, how planned, s verb.Streams) error {
	p := verb.NewProgress(s.Err)
	defer p.Clear()
	e, err := verb.Open(ctx, said, s, p, experiment.OpenPacked)
	if err != nil {
		return err
	}
	p.Clear()
	var sessions *forecast.SessionsForecast
	if how.sessions > 0 {
		if e, sessions, err = forecast.Sessions(e, how.sessions, how.total, how.shares); err != nil {
			return err
		}
		said, _ = config.Over(said, []config.Setting{{Key: algorithm.Epsilon.Name, Value: e.Config.Text(algorithm.Epsilon.Key), Origin: "--" + algorithm.Epsilon.Name}})
	}
	if how.format == "yaml" {
		_, err = s.Out.Write(e.Config.YAML())
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
	next := [][]string{f.Call("run", said)}
	switch {
	case how.format == "json":
		return cli.PrintJSON(s.Out, x)
	case how.verbose:
		err = x.Print(s.Out)
	default:
		err = x.PrintBrief(s.Out)
		next = append(next, f.Call("plan", said, "--verbose"))
	}
	return errors.Join(err, screen.Print(s.Out, "", next...))
}

// checkBudgetOfSessions checks that sessions have one budget, of all of them together.
func checkBudgetOfSessions(n int, total float64, said []config.Setting) error {
	switch {
	case n == 0 && total == 0:
		return nil
	case n == 0:
		return cli.Misusef("--total-epsilon is the budget of several sessions; say how many with --sessions, or give one run's budget with --epsilon")
	case total == 0:
		return cli.Misusef("--sessions needs the budget of all sessions together: --total-epsilon 10")
	}
	for _, setting := range said {
		if setting.Key == algorithm.Epsilon.Name {
			return cli.Misusef("%s: with --sessions each session's epsilon follows from --total-epsilon; leave it out", setting.Origin)
		}
	}
	return nil
}
