package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/lab/chaos"
	"github.com/fedsim/fedsim/protocol"
)

type chaosCmd struct {
	Schedules *int    `placeholder:"N" help:"Schedules to run. Default 100."`
	Seed      *uint64 `placeholder:"S" help:"Seed of the first; the others' follow it. Default 1."`
	Mode      string  `enum:"semi-honest,active,both" default:"both" help:"Mode of the secure sum: semi-honest, active, or both, which is either by the seed. Default both."`
	Replay    *uint64 `placeholder:"SEED" help:"Run the schedule of this seed alone, and tell what happens in it. The mode must be that of the run which it was in."`
	Workers   int     `default:"0" placeholder:"N" help:"Schedules at once; the result does not depend on it. Default 0, as many as there are cores."`
	Format    string  `enum:"table,json" default:"table" help:"table or json."`
}

func (c *chaosCmd) Run(ctx context.Context, s verb.Streams) error {
	if c.Replay != nil {
		return c.replay(s)
	}
	cfg := chaos.Config{Schedules: 100, Seed: 1, Modes: chaos.Modes(c.Mode), Workers: protocol.Workers(c.Workers)}
	if c.Schedules != nil {
		cfg.Schedules = *c.Schedules
	}
	if c.Seed != nil {
		cfg.Seed = *c.Seed
	}
	switch {
	case c.Workers < 0:
		return cli.Misusef("--workers is %d; it must not be negative", c.Workers)
	case c.Workers == 0:
		cfg.Workers = protocol.Workers(runtime.GOMAXPROCS(0))
	}
	if err := cfg.Validate(); err != nil {
		return cli.Misusef("%w", err)
	}
	bar := verb.NewProgress(s.Err)
	bar.Start("schedules", cfg.Schedules)
	cfg.Progress = func(done int) { bar.StepNote(done, "") }
	report, err := chaos.Run(ctx, cfg)
	bar.Clear()
	if err != nil {
		return err
	}
	return errors.Join(verb.PrintAs(s.Out, c.Format, report), report.Err())
}

// replay tells what happens in one schedule, a line or an object for each thing.
func (c *chaosCmd) replay(s verb.Streams) error {
	if c.Schedules != nil || c.Seed != nil {
		return cli.Misusef("--replay runs one schedule, by its own seed; leave out --schedules and --seed")
	}
	var failed error
	objects := json.NewEncoder(s.Out)
	err := chaos.Replay(*c.Replay, chaos.Modes(c.Mode), func(at time.Duration, what string) {
		var err error
		if c.Format == "json" {
			err = objects.Encode(map[string]any{"seconds": at.Seconds(), "what": what})
		} else {
			_, err = fmt.Fprintf(s.Out, "%9.3f s  %s\n", at.Seconds(), what)
		}
		if failed == nil {
			failed = err
		}
	})
	return errors.Join(failed, err)
}
