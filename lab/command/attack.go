package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/lab/attack"
	"github.com/fedsim/fedsim/lab/audit"
	"github.com/fedsim/fedsim/lab/tune"
)

type attackCmd struct {
	Attack attack.Kind `arg:"" enum:"membership-user,membership-rating,attribute,reconstruction,promote,degrade" help:"What the attacker is after: membership-user, whether all ratings of a user were trained on; membership-rating, whether one was; attribute, a user's favourite genre; reconstruction, which items a client rated and how; promote, clients that lie to bring an item into lists; degrade, clients that lie to make the model worse."`

	verb.ExperimentFlags

	Epsilon []string  `placeholder:"E,..." help:"Budgets, each attacked by itself; inf for no noise. Default: that of the file, or 1,5,20,inf."`
	Shadows int       `placeholder:"N" help:"Runs that the attacker learns from; as many are held out to measure it. Default 32."`
	Targets int       `placeholder:"N" help:"How many are attacked, half of them the most active users. Default: 40 of membership, else 100."`
	Runs    int       `placeholder:"N" help:"Runs of promote and degrade, each with an item, liars and noise of its own. Default 5."`
	Liars   []float64 `placeholder:"SHARE,..." help:"Shares of the clients that lie, of promote and degrade. Default 0.001,0.01,0.05; one liar is always tried."`
	Control bool      `help:"Leave all targets out of all runs, whatever the coins say: what an attack of membership finds then is chance."`
	Keep    string    `placeholder:"DIR" help:"Folder to leave the result in, as a file; fedsim report makes pictures of all that are there."`
	Format  string    `enum:"table,json" default:"table" help:"table or json."`
}

// attacked takes the keys that have a meaning for an attack, without the key for which an attack has a flag of its own.
func attacked(k *config.Key) bool { return audited(k) && k != algorithm.Epsilon.Key }

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
	cfg := attack.Config{Kind: c.Attack, Shadows: cmp.Or(c.Shadows, attack.DefaultShadows), Targets: c.Targets, Control: c.Control, Liars: c.Liars}
	switch lies := len(c.Attack.Liars()) > 0; {
	case lies && (c.Targets != 0 || c.Shadows != 0):
		return cli.Misusef("--targets and --shadows are for attacks on users, ratings or clients; %s takes the number of runs, --runs", c.Attack)
	case !lies && c.Runs != 0:
		return cli.Misusef("--runs is for promote and degrade; %s takes the number of targets, --targets", c.Attack)
	case lies:
		cfg.Targets = c.Runs
	}
	if cfg.Liars == nil {
		cfg.Liars = c.Attack.Liars()
	}
	if cfg.Epsilons, err = c.budgets(said); err != nil {
		return err
	}
	if err = cfg.Validate(); err != nil {
		return cli.Misusef("%w", err)
	}
	bar := verb.NewProgress(s.Err)
	bar.Start("runs", 0)
	cfg.Progress = func(done, total int) {
		if done == 1 {
			bar.Start("runs", total)
		}
		bar.Step(done)
	}
	report, err := attack.Run(experiment.Hear(ctx, bar.Warn), said, cfg)
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
		e, err := strconv.ParseFloat(w, 64) // it reads inf, too
		if err != nil {
			return nil, cli.Misusef("--epsilon: %q is neither a number nor inf", w)
		}
		list = append(list, attack.Epsilon(e))
	}
	return list, nil
}

type auditCmd struct {
	verb.ExperimentFlags

	Neighbours bool `help:"Compare instead two runs that differ in one unit, at the same noise: all that is seen but noised integers must be the same, byte for byte. Contributions must keep to their bounds."`

	Canaries *int `placeholder:"M" help:"Make instead one run on --data in which M users or ratings are left out by coins each, and guess which, from the model and from the sums."`

	Runs     *int     `placeholder:"N" help:"Runs with the unit there, and as many with it empty. Default 4000, or 1000 if parties noise their own training."`
	MeanRuns *float64 `placeholder:"N" help:"Audit the ε of a private search, fedsim tune --private, with this mean number of runs. All its runs have the settings given here, and of each search only the best run is seen."`
	Eta      *float64 `placeholder:"ETA" help:"Law of the number of runs with --mean-runs, as of fedsim tune. Default 0."`

	Claim  string `enum:"stated,published," default:"" help:"Which epsilon is audited: stated, that of the privacy statement, or published, what the published analysis of replaced noise claims. Default stated."`
	Format string `enum:"table,json" default:"table" help:"table or json."`
}

// ofFiles reports whether a flag says where data are or how they are read. An audit has no use for it, except with --canaries.
func ofFiles(s config.Setting) bool {
	keys := strings.Fields("data columns separator no-header day-first encoding member duplicates unrated bad-rows split.test-file")
	return strings.HasPrefix(s.Origin, "--") && slices.Contains(keys, s.Key)
}

// audited takes the keys that have a meaning for an audit. An audit draws noise as clients do and writes no folder.
func audited(k *config.Key) bool {
	return !slices.Contains([]*config.Key{algorithm.NoiseDraw.Key, algorithm.Baselines.Key, algorithm.Out.Key, algorithm.RunName.Key}, k)
}

func (c *auditCmd) Run(ctx context.Context, s verb.Streams) error {
	said, err := c.Settings(s.Err)
	if err != nil {
		return err
	}
	switch {
	case (c.Neighbours || c.Canaries != nil) && (c.Runs != nil || c.Claim != "" || c.MeanRuns != nil) || c.Neighbours && c.Canaries != nil:
		return cli.Misusef("--neighbours compares two runs and --canaries makes one, of what is stated; leave out the others of --neighbours, --canaries, --runs, --mean-runs and --claim")
	case c.Eta != nil && c.MeanRuns == nil:
		return cli.Misusef("--eta is the law of the number of runs of a private search; add --mean-runs")
	case c.Canaries == nil && slices.ContainsFunc(said, ofFiles):
		return cli.Misusef("an audit has data of its own; --data and flags that say how to read data are for --canaries")
	case c.Neighbours:
		return c.neighbours(ctx, said, s)
	case c.Canaries != nil:
		return c.canaries(ctx, said, s)
	}
	e, err := audit.Open(said)
	if err != nil {
		return err
	}
	runs, claim := audit.DefaultRuns(e), cmp.Or(audit.AuditedEpsilon(c.Claim), audit.Stated)
	cfg := audit.Config{Runs: *cmp.Or(c.Runs, &runs), Claim: claim, Seed: algorithm.Seed.Of(e.Config), Workers: e.Workers()}
	if cfg.Select, err = c.search(); err != nil {
		return err
	}
	if err = cfg.Validate(); err != nil {
		return cli.Misusef("%w", err)
	}
	bar := verb.NewProgress(s.Err)
	bar.Start("runs", 2*cfg.Runs)
	cfg.Progress = bar.Step
	report, err := audit.Run(ctx, e, cfg)
	bar.Clear()
	if err != nil {
		return err
	}
	return errors.Join(c.print(s, report, c.Call("audit", said, "--neighbours"), c.Call("plan", said)), report.Err())
}

// search returns the law of the number of runs of an audited search; nil: runs are audited.
func (c *auditCmd) search() (*dp.Selection, error) {
	if c.MeanRuns == nil {
		return nil, nil
	}
	law, err := tune.SelectionOf(*cmp.Or(c.Eta, new(float64)), *c.MeanRuns)
	if err != nil {
		return nil, cli.Misusef("--mean-runs and --eta: %w", err)
	}
	return &law, nil
}

// print prints a report and, for people, what to do next.
func (c *auditCmd) print(s verb.Streams, report verb.Printer, next ...[]string) error {
	if err := verb.PrintAs(s.Out, c.Format, report); err != nil || c.Format == "json" {
		return err
	}
	return screen.Print(s.Out, "", next...)
}

// neighbours compares two runs.
func (c *auditCmd) neighbours(ctx context.Context, said []config.Setting, s verb.Streams) error {
	x, err := audit.Neighbours(ctx, said)
	if err != nil {
		return err
	}
	return errors.Join(c.print(s, x, c.Call("audit", said), c.Call("plan", said)), x.Err())
}

// canaries makes one run of full size.
func (c *auditCmd) canaries(ctx context.Context, said []config.Setting, s verb.Streams) error {
	p := verb.NewProgress(s.Err)
	defer p.Clear()
	e, err := verb.Open(ctx, said, s, p.Bar, experiment.Open)
	if err != nil {
		return err
	}
	p.Clear()
	r, err := audit.Canaries(ctx, e, *c.Canaries)
	if err != nil {
		return err
	}
	return errors.Join(c.print(s, r, c.Call("run", said)), r.Err())
}
