package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/forecast"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/training"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/results"
)

// runCmd is fedsim run: the experiment, and what becomes of its results.
type runCmd struct {
	verb.ExperimentFlags

	DryRun       bool    `group:"Output:" help:"Say what would be run and what it would cost, as fedsim plan does, and stop."`
	Resume       bool    `group:"Output:" help:"Go on after the last round that was written down of a run with the same settings that was stopped, to the same bits. Where there is none, begin at the start. With no settings but --out: the run that was stopped there."`
	Sessions     int     `group:"Over time:" placeholder:"N" help:"Study N sessions on data with times: each trains on the ratings by then, and is tested on the next period. Compares learning on with training anew at the same --total-epsilon, and with one session."`
	TotalEpsilon float64 `group:"Over time:" placeholder:"E" help:"Privacy budget of all sessions together."`
	Shares       string  `group:"Over time:" enum:"equal,front-loaded" default:"equal" help:"How sessions share the budget: equal, or front-loaded, where the first session takes half."`
	Seeds        int     `group:"Over time:" default:"1" help:"Repeat the study with so many seeds, from --seed on."`

	SavePredictions bool `group:"Output:" help:"Leave what the model predicts of the test ratings in the run's folder: predictions.csv with user, item, rating and predicted."`

	Verbose bool `group:"Output:" help:"Print every figure of the summary: all baselines and metrics of lists, the statement of privacy, the cohort and the bytes."`

	Format string `group:"Output:" enum:"table,json,jsonl" default:"table" help:"How to print the summary: table or json; or jsonl, every round and phase as it comes, then the summary, each a line of JSON with what it is as event."`
}

func (r *runCmd) Run(ctx context.Context, s verb.Streams) error {
	said, err := r.Settings(s.Err)
	if err != nil {
		return err
	}
	if r.Sessions != 0 || r.TotalEpsilon != 0 {
		return r.overTime(ctx, said, s)
	}
	how := training.KeepOptions{Predictions: r.SavePredictions, Resume: r.Resume}
	if r.Resume && r.File == "" && r.From == "" {
		if said, how.Checkpoint, err = stoppedRun(said); err != nil {
			return err
		}
	}
	if r.DryRun {
		return plan(ctx, &r.ExperimentFlags, said, planned{format: strings.TrimSuffix(r.Format, "l")}, s)
	}
	p := verb.NewProgress(s.Err)
	defer p.Clear()
	e, err := verb.Open(ctx, said, s, p, experiment.OpenPacked)
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
		told = events{s.Out}
	}
	result, err := training.Keep(ctx, e, told, how)
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
	if err := checkBudgetOfSessions(r.Sessions, r.TotalEpsilon, said); err != nil {
		return err
	}
	return verb.OverTime(ctx, said, verb.Sessions{Sessions: r.Sessions, Total: r.TotalEpsilon, Shares: forecast.Shares(r.Shares), Seeds: r.Seeds, Format: r.Format}, s)
}

// stoppedRun are the settings and the checkpoint of the run that was stopped in the folder, where nothing
// else is said than the folder and how many goroutines compute. The run without any settings is
// meant where it is among several.
func stoppedRun(said []config.Setting) (all []config.Setting, checkpoint string, err error) {
	for _, s := range said {
		if k := config.Find(s.Key); k != algorithm.Out.Key && k != algorithm.Workers.Key {
			return said, "", nil
		}
	}
	c, err := config.Resolve(said)
	if err != nil {
		return nil, "", err
	}
	dir := algorithm.Out.Of(c)
	list, err := training.InterruptedRuns(dir)
	if err != nil || len(list) == 0 || slices.ContainsFunc(list, func(r training.InterruptedRun) bool { return len(r.Settings) == 0 }) {
		return said, "", err
	}
	if len(list) > 1 {
		var runs strings.Builder
		for _, r := range list {
			fmt.Fprintf(&runs, "\n%s:", r.Path)
			for _, s := range r.Settings {
				fmt.Fprintf(&runs, " %s=%s", s.Key, s.Value)
			}
		}
		return nil, "", cli.Misusef("in %s %d runs were stopped; say the settings of one, as when it began:%s", dir, len(list), &runs)
	}
	return append(list[0].Settings, said...), list[0].Path, nil
}

// print prints what came of it.
func (r *runCmd) print(w io.Writer, result *training.Result) error {
	switch r.Format {
	case "json":
		return cli.PrintJSON(w, summary{Summary: result.Summary, Results: result.Folder})
	case "jsonl":
		return json.NewEncoder(w).Encode(summary{Event: "summary", Summary: result.Summary, Results: result.Folder})
	default:
		return result.Print(w, r.Verbose)
	}
}

// summary is the summary of a run and where the run is.
type summary struct {
	Event string `json:"event,omitempty"`
	*results.Summary
	Results string `json:"results"`
}
