package command

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
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
		file := e.Config
		for _, k := range algorithm.Scoped(config.Simulated) {
			if e.Asked().IsAuto(k) {
				file.Reset(k) // a deployment would warn of it, and a simulation chooses it again
			}
		}
		_, err = s.Out.Write(file.YAML())
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

type privacyCmd struct {
	Epsilon privacyEpsilonCmd `cmd:"" help:"What given noise costs."`
	Noise   privacyNoiseCmd   `cmd:"" help:"The least noise that keeps a given epsilon."`
}

// mechanismFlags describe the releases of both verbs.
type mechanismFlags struct {
	Mechanism    string   `required:"" placeholder:"NAME" help:"gaussian, subsampled-gaussian, skellam or subsampled-skellam."`
	SamplingRate *float64 `placeholder:"Q" help:"Poisson sampling rate of a subsampled mechanism."`
	L2           *float64 `name:"l2" placeholder:"D2" help:"L2 sensitivity in integers, of a skellam mechanism."`
	L1           *float64 `name:"l1" placeholder:"D1" help:"L1 sensitivity in integers, of a skellam mechanism."`
	Steps        int      `default:"1" placeholder:"T" help:"Releases. Default 1."`
	Delta        float64  `required:"" placeholder:"D" help:"The delta that goes with epsilon."`
	Accountant   string   `default:"best" placeholder:"NAME" help:"best (the smallest proved value; the default), rdp, pld (gaussian mechanisms; tight where they sample), exact or gdp-skellam."`
	Format       string   `enum:"table,json" default:"table" help:"table or json."`
}

// event builds the releases, the noise aside. need takes a flag's value, or notes
// that it is missing or that the mechanism has no use for it.
func (f *mechanismFlags) event() (e dp.Event, need *needed, err error) {
	m, err := dp.ParseMechanism(f.Mechanism)
	if err != nil {
		return dp.Event{}, nil, fmt.Errorf("--mechanism: %w", err)
	}
	need = &needed{by: m}
	return dp.Event{Mechanism: m, Count: f.Steps,
		SamplingRate: need.take("sampling-rate", f.SamplingRate, m.Sampled()),
		L2:           need.take("l2", f.L2, m.Integer()),
		L1:           need.take("l1", f.L1, m.Integer()),
	}, need, nil
}

// needed collects what is wrong with the flags of a mechanism.
type needed struct {
	by   dp.Mechanism
	errs []error
}

func (n *needed) take(flag string, p *float64, used bool) float64 {
	switch {
	case used && p == nil:
		n.errs = append(n.errs, fmt.Errorf("--%s is needed with --mechanism %s", flag, n.by))
	case !used && p != nil:
		n.errs = append(n.errs, fmt.Errorf("--%s has no meaning with --mechanism %s", flag, n.by))
	case used:
		return *p
	}
	return 0
}

type privacyEpsilonCmd struct {
	NoiseMultiplier *float64 `placeholder:"Z" help:"Standard deviation over L2 sensitivity, of a gaussian mechanism."`
	Variance        *float64 `placeholder:"V" help:"Variance per coordinate in integers, of a skellam mechanism."`
	mechanismFlags
}

func (c *privacyEpsilonCmd) Run(s verb.Streams) error {
	e, need, err := c.event()
	if err != nil {
		return wrong(err)
	}
	e.NoiseMultiplier = need.take("noise-multiplier", c.NoiseMultiplier, !e.Mechanism.Integer())
	e.Variance = need.take("variance", c.Variance, e.Mechanism.Integer())
	if err = errors.Join(need.errs...); err != nil {
		return wrong(err)
	}
	p := dp.Problem{Events: []dp.Event{e}, Delta: c.Delta, Accountant: dp.Accountant(c.Accountant)}
	if err = p.Validate(); err != nil {
		return wrong(err)
	}
	r, err := p.Epsilon()
	if err != nil {
		return cannot(err)
	}
	var epsilon *float64 // null where nothing is bounded
	text := "inf"
	if !math.IsInf(r.Epsilon, 1) {
		epsilon, text = &r.Epsilon, dp.RoundUp(r.Epsilon, 6)
	}
	if c.Format == "json" {
		return cli.PrintJSON(s.Out, map[string]any{"epsilon": epsilon, "delta": c.Delta, "accountant": r.Accountant})
	}
	_, err = fmt.Fprintf(s.Out, "epsilon %s at delta %v (accountant %s)\n", text, c.Delta, r.Accountant)
	return err
}

// wrong reports wrong values as the flags that they came from have them: without
// the words that a library puts in front.
func wrong(err error) error {
	return cli.Misusef("%s", strings.NewReplacer("dp: ", "", "event 0: ", "").Replace(err.Error()))
}

// cannot makes what no accountant covers and no noise meets a wrong call.
func cannot(err error) error {
	if errors.Is(err, dp.ErrNoAccountant) || errors.Is(err, dp.ErrUnattainable) {
		return cli.Misusef("%w", err)
	}
	return err
}

type privacyNoiseCmd struct {
	Epsilon float64 `required:"" placeholder:"E" help:"The budget."`
	mechanismFlags
}

func (c *privacyNoiseCmd) Run(s verb.Streams) error {
	e, need, err := c.event()
	if err == nil {
		err = errors.Join(need.errs...)
	}
	integer := e.Mechanism.Integer()
	if err == nil {
		probe := e // what is looked for may be anything yet
		if integer {
			probe.Variance = 1
		} else {
			probe.NoiseMultiplier = 1
		}
		err = probe.Validate()
	}
	budget := dp.Budget{Epsilon: c.Epsilon, Delta: c.Delta, Accountant: dp.Accountant(c.Accountant)}
	if err = errors.Join(err, budget.ValidateFinite()); err != nil {
		return wrong(err)
	}
	var noise float64
	var r dp.Result
	name := "noise_multiplier"
	if integer {
		name = "variance"
		noise, r, err = dp.SkellamVariance(budget, e)
	} else {
		rate := 1.0
		if e.SamplingRate > 0 {
			rate = e.SamplingRate
		}
		noise, r, err = dp.NoiseMultiplier(budget, c.Steps, rate)
	}
	if err != nil {
		return cannot(err)
	}
	if c.Format == "json" {
		return cli.PrintJSON(s.Out, map[string]any{name: noise, "epsilon": r.Epsilon, "delta": c.Delta, "accountant": r.Accountant})
	}
	_, err = fmt.Fprintf(s.Out, "%s %s keeps epsilon %s at delta %v (accountant %s)\n", name, dp.RoundUp(noise, 6), dp.RoundUp(r.Epsilon, 6), c.Delta, r.Accountant)
	return err
}
