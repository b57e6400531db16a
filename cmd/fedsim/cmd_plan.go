package main

import (
	"context"
	"errors"

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
	if refused, ok := errors.AsType[*experiment.RefusedError](err); ok {
		return &refusedPlan{refused.Error()}
	}
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

// refusedPlan is the answer that no such run can be made. To have asked is no wrong
// call, so it does not unwrap to the configuration's error: the exit code is 1.
type refusedPlan struct{ reason string }

func (e *refusedPlan) Error() string { return e.reason }
