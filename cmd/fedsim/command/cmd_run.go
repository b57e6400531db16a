package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/forecast"
	"github.com/fedsim/fedsim/internal/training"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/results"
)

// runCmd is fedsim run: the experiment, and what becomes of its results.
type runCmd struct {
	verb.ExperimentFlags

	DryRun bool `group:"Output:" help:"Say what would be run and what it would cost, as fedsim plan does, and stop."`
	Resume bool `group:"Output:" help:"Go on after the last round that was written down of a run with the same settings that was stopped, to the same bits. Where there is none, begin at the start."`

	verb.SessionsFlags

	SavePredictions bool `group:"Output:" help:"Leave what the model predicts of the test ratings in the run's folder: predictions.csv with user, item, rating and predicted."`

	Verbose bool `group:"Output:" help:"Print every figure of the summary: all baselines and metrics of lists, the statement of privacy, the cohort and the bytes."`

	Format string `group:"Output:" enum:"table,json,jsonl" default:"table" help:"How to print the summary: table or json; or jsonl, every round and phase as it comes, then the summary, each a line of JSON with what it is as event."`
}

func (r *runCmd) Run(ctx context.Context, s verb.Streams) error {
	said, err := r.Settings(s.Err)
	if err != nil {
		return err
	}
	if r.Sessions != 0 || r.Total != 0 {
		return r.overTime(ctx, said, s)
	}
	if r.DryRun {
		return (&planCmd{ExperimentFlags: r.ExperimentFlags, Format: strings.TrimSuffix(r.Format, "l")}).plan(ctx, said, s)
	}
	p := verb.NewProgress(s.Err)
	defer p.Clear()
	e, err := verb.Open(ctx, said, s, p.Bar, experiment.OpenPacked)
	if err != nil {
		return err
	}
	if i, failed := os.Stat(r.From); failed == nil && i.IsDir() {
		if err = results.SameData(r.From, e); err != nil {
			return err
		}
	}
	var told results.Progress = p
	if r.Format == "jsonl" {
		told = verb.Events{W: s.Out}
	}
	result, err := training.Keep(ctx, e, told, training.KeepOptions{Predictions: r.SavePredictions, Resume: r.Resume})
	if result == nil {
		return err
	}
	p.Clear()
	return errors.Join(err, r.print(s.Out, result))
}

// overTime is fedsim run --sessions.
func (r *runCmd) overTime(ctx context.Context, said []config.Setting, s verb.Streams) error {
	switch {
	case r.Resume || r.DryRun || r.SavePredictions || r.From != "":
		return cli.Misusef("--sessions studies several runs; leave out --resume, --dry-run, --save-predictions and --from. fedsim plan --sessions says what the sessions cost")
	case r.Format == "jsonl":
		return cli.Misusef("--sessions prints a table or json")
	case r.Sessions < 2 || r.Sessions > 1000:
		return cli.Misusef("--sessions %d: 2 to 1000 sessions can be studied", r.Sessions)
	case r.Seeds < 1:
		return cli.Misusef("--seeds %d: at least 1", r.Seeds)
	case verb.OverTime == nil:
		return cli.Misusef("--sessions: this program was built without the study of sessions; use fedsim itself")
	}
	if err := checkBudgetOfSessions(r.Sessions, r.Total, said); err != nil {
		return err
	}
	return verb.OverTime(ctx, said, r.SessionsFlags, r.Format, s)
}

// print prints what came of it.
func (r *runCmd) print(w io.Writer, result *training.Result) error {
	switch r.Format {
	case "json":
		return cli.PrintJSON(w, summary{Summary: result.Summary, Results: result.Folder})
	case "jsonl":
		return json.NewEncoder(w).Encode(summary{Event: "summary", Summary: result.Summary, Results: result.Folder})
	default:
		return result.Print(w, result.Experiment, result.Folder, r.Verbose)
	}
}

// summary is the summary of a run and where the run is.
type summary struct {
	Event string `json:"event,omitempty"`
	*results.Summary
	Results string `json:"results"`
}

type planCmd struct {
	verb.ExperimentFlags

	Verbose   bool `help:"Print every release, message, chance and bound, and not one screen."`
	Calibrate bool `help:"Say what the simulation takes on this machine, too: memory and, from training on some of the users for a few seconds, time. Of ideal sums over clients that are users."`

	Sessions     int             `placeholder:"N" help:"Plan N sessions on the same ratings, which together cost at most --total-epsilon, and print the first."`
	TotalEpsilon float64         `placeholder:"E" help:"Privacy budget of all sessions together."`
	Shares       forecast.Shares `enum:"equal,front-loaded" default:"equal" help:"How sessions share the budget: equal, or front-loaded, where the first session takes half."`

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
	return c.plan(ctx, said, s)
}

// plan prints what an experiment with these settings would do, rest on and cost. It trains nothing.
func (c *planCmd) plan(ctx context.Context, said []config.Setting, s verb.Streams) error {
	p := verb.NewProgress(s.Err)
	e, err := verb.Open(ctx, said, s, p.Bar, experiment.OpenPacked)
	p.Clear()
	if err != nil {
		return err
	}
	var sessions *forecast.SessionsForecast
	if c.Sessions > 0 {
		if e, sessions, err = forecast.Sessions(e, c.Sessions, c.TotalEpsilon, c.Shares); err != nil {
			return err
		}
		said, _ = config.Over(said, []config.Setting{{Key: algorithm.Epsilon.Name, Value: e.Config.Text(algorithm.Epsilon.Key), Origin: "--" + algorithm.Epsilon.Name}})
	}
	if c.Format == "yaml" {
		file := e.Config
		for _, k := range algorithm.Scoped(config.Simulated) {
			if e.Asked.IsAuto(k) {
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
	if c.Calibrate {
		if x.Calibration, err = training.Calibrate(ctx, e); err != nil {
			return err
		}
		if len(x.Uncovered) > 0 {
			x.Uncovered = append(x.Uncovered, "effort")
		}
	}
	next := [][]string{c.Call("run", said)}
	switch {
	case c.Format == "json":
		return cli.PrintJSON(s.Out, x)
	case c.Verbose:
		err = x.Print(s.Out)
	default:
		err = x.PrintBrief(s.Out)
		next = append(next, c.Call("plan", said, "--verbose"))
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

// noiseFlags say how much noise there is.
type noiseFlags struct {
	NoiseMultiplier *float64 `placeholder:"Z" help:"Standard deviation over L2 sensitivity, of a gaussian mechanism."`
	Variance        *float64 `placeholder:"V" help:"Variance per coordinate in integers, of a skellam mechanism."`
}

// event builds the releases. Flags that are missing, or that the mechanism has no use for, are errors.
func (f *mechanismFlags) event(noise noiseFlags) (e dp.Event, err error) {
	if e.Mechanism, err = dp.ParseMechanism(f.Mechanism); err != nil {
		return e, fmt.Errorf("--mechanism: %w", err)
	}
	e.Count = f.Steps
	integer := e.Mechanism.Integer()
	var errs []error
	for _, x := range []struct {
		flag  string
		given *float64
		used  bool
		to    *float64
	}{
		{"sampling-rate", f.SamplingRate, e.Mechanism.Sampled(), &e.SamplingRate}, {"l2", f.L2, integer, &e.L2}, {"l1", f.L1, integer, &e.L1},
		{"noise-multiplier", noise.NoiseMultiplier, !integer, &e.NoiseMultiplier}, {"variance", noise.Variance, integer, &e.Variance},
	} {
		switch {
		case x.used && x.given == nil:
			errs = append(errs, fmt.Errorf("--%s is needed with --mechanism %s", x.flag, e.Mechanism))
		case !x.used && x.given != nil:
			errs = append(errs, fmt.Errorf("--%s has no meaning with --mechanism %s", x.flag, e.Mechanism))
		case x.used:
			*x.to = *x.given
		}
	}
	return e, errors.Join(errs...)
}

type privacyEpsilonCmd struct {
	noiseFlags
	mechanismFlags
}

func (c *privacyEpsilonCmd) Run(s verb.Streams) error {
	e, err := c.event(c.noiseFlags)
	p := dp.Problem{Events: []dp.Event{e}, Delta: c.Delta, Accountant: dp.Accountant(c.Accountant)}
	if err == nil {
		err = p.Validate()
	}
	if err != nil {
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

// wrong makes a wrong call of wrong values, without the words that a library puts in front.
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
	m, _ := dp.ParseMechanism(c.Mechanism) // event refuses others
	name, some := "noise_multiplier", noiseFlags{NoiseMultiplier: new(1.)}
	if m.Integer() {
		name, some = "variance", noiseFlags{Variance: new(1.)}
	}
	e, err := c.event(some) // with noise in place of the noise that is looked for
	if err == nil {
		err = e.Validate()
	}
	budget := dp.Budget{Epsilon: c.Epsilon, Delta: c.Delta, Accountant: dp.Accountant(c.Accountant)}
	if err = errors.Join(err, budget.ValidateFinite()); err != nil {
		return wrong(err)
	}
	var noise float64
	var r dp.Result
	if m.Integer() {
		noise, r, err = dp.SkellamVariance(budget, e)
	} else {
		noise, r, err = dp.NoiseMultiplier(budget, c.Steps, cmp.Or(e.SamplingRate, 1))
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
