package command

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/lab/attack"
)

type attackCmd struct {
	Attack attack.Kind `arg:"" enum:"membership-user,membership-rating,attribute,reconstruction" help:"What the attacker is after: membership-user, whether all ratings of a user were trained on; membership-rating, whether one was; attribute, a user's favourite genre; reconstruction, which items a client rated and how."`

	verb.ExperimentFlags

	Epsilon []string `placeholder:"E,..." help:"Budgets, each attacked by itself; inf for no noise. Default: that of the file, or 1,5,20,inf."`
	Shadows int      `default:"32" placeholder:"N" help:"Runs that the attacker learns from; as many are held out to measure it. Default 32."`
	Targets int      `placeholder:"N" help:"How many are attacked, half of them the most active users. Default: 40 of membership, else 100."`
	Control bool     `help:"Leave all targets out of all runs, whatever the coins say: what an attack of membership finds then is chance."`
	Keep    string   `placeholder:"DIR" help:"Folder to leave the result in, as a file; fedsim report makes pictures of all that are there."`
	Format  string   `enum:"table,json" default:"table" help:"table or json."`
}

// notAttacked are keys that have no meaning for an attack, or a flag of its own.
func notAttacked(k *config.Key) bool { return notAudited(k) || k == algorithm.Epsilon.Key }

// attackedBudgets lists the values of ε that an attack tries by default.
var attackedBudgets = []string{"1", "5", "20", "inf"}

// attackedData is a set on which many runs are quick.
const attackedData = "synthetic:small"

func (c *attackCmd) Run(ctx context.Context, s verb.Streams) error {
	said, err := c.Settings(s.Err)
	if err != nil {
		return err
	}
	said, _ = config.Over([]config.Setting{{Key: algorithm.Data.Name, Value: attackedData, Origin: "the attack"}}, said)
	cfg := attack.Config{Kind: c.Attack, Shadows: c.Shadows, Targets: c.Targets, Control: c.Control}
	if cfg.Epsilons, err = c.budgets(said); err != nil {
		return err
	}
	if err = cfg.Validate(); err != nil {
		return cli.Misusef("%w", err)
	}
	bar := verb.NewProgress(s.Err)
	bar.Start("runs", 0)
	started := false
	cfg.Progress = func(done, total int) {
		if !started {
			bar.Start("runs", total)
			started = true
		}
		bar.StepNote(done, "")
	}
	report, err := attack.Run(ctx, said, cfg)
	bar.Clear()
	if err != nil {
		return err
	}
	err = verb.PrintAs(s.Out, c.Format, report)
	if c.Keep == "" {
		return err
	}
	path, failed := report.Write(c.Keep)
	if failed == nil {
		fmt.Fprintln(s.Err, path)
	}
	return errors.Join(err, failed)
}

// budgets returns the values of ε from the flag, else from the file or --set, else the default list.
func (c *attackCmd) budgets(said []config.Setting) ([]attack.Epsilon, error) {
	words := c.Epsilon
	for _, s := range said {
		switch {
		case s.Key != algorithm.Epsilon.Name:
		case len(c.Epsilon) > 0:
			return nil, config.Wrap(config.Twice(config.Setting{Key: s.Key, Value: strings.Join(c.Epsilon, ","), Origin: "--epsilon"}, s))
		default:
			words = []string{s.Value}
		}
	}
	if len(words) == 0 {
		words = attackedBudgets
	}
	var list []attack.Epsilon
	for _, w := range words {
		e, err := strconv.ParseFloat(w, 64)
		if w == "inf" {
			e, err = math.Inf(1), nil
		}
		if err != nil {
			return nil, cli.Misusef("--epsilon: %q is neither a number nor inf", w)
		}
		list = append(list, attack.Epsilon(e))
	}
	return list, nil
}
