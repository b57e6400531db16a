package main

import (
	"context"

	"github.com/fedsim/fedsim/experiment"
)

// planCmd is fedsim plan.
type planCmd struct {
	experimentFlags

	Format string `enum:"table,json,yaml" default:"table" help:"table or json; yaml is the experiment file that gives this experiment, every default spelt out."`
}

// Run implements fedsim plan.
func (c *planCmd) Run(ctx context.Context, s streams) error {
	said, err := c.settings(c)
	if err != nil {
		return err
	}
	return plan(ctx, said, c.Format, s)
}

// plan says what an experiment would do, rest on and cost, without doing it.
func plan(ctx context.Context, said []experiment.Setting, format string, s streams) error {
	p := newProgress(s.err)
	defer p.clear()
	e, err := open(ctx, said, s, p)
	if err != nil {
		return err
	}
	p.clear()
	if format == "yaml" {
		_, err = s.out.Write(e.Config.YAML())
		return err
	}
	forecast, err := e.Forecast()
	if err != nil {
		return err
	}
	if format == "json" {
		return printJSON(s.out, forecast)
	}
	return forecast.Print(s.out)
}
