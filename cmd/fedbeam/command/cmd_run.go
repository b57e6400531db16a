package command

import (
	"context"
	"errors"
	"io"

	"github.com/fedsim/fedsim/cmd/fedbeam/engine"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/training"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/results"
)

type runCmd struct {
	File string   `arg:"" optional:"" name:"experiment.yaml" help:"Experiment file, as of fedsim run."`
	Set  []string `placeholder:"KEY=VALUE" sep:"none" help:"Any key of an experiment file, with dots between levels; may be repeated."`

	Runner       string `enum:"prism,flink,dataflow,spark" default:"prism" help:"Who runs the pipeline: prism, in this process, flink, dataflow or spark. All but prism take flags of their own after --."`
	Processes    int    `placeholder:"N" help:"With the runner prism: so many more processes of this machine, which compute. 0: this one alone. Each loads the data."`
	Shards       int    `placeholder:"N" help:"Pieces that the clients of a round are cut into. The model does not depend on it. Default: 16, at least one for each process and at most one for each client."`
	RoundsPerJob int    `placeholder:"N" help:"Rounds that one pipeline has; another follows. The model does not depend on it. 0: all are in one."`
	Attempts     int    `placeholder:"N" default:"3" help:"How often a pipeline that fails is run, at the most; besides what the runner repeats by itself."`
	Exchange     string `placeholder:"DIR" help:"A folder that workers write to and this program reads: a path that both have, or gs://BUCKET/FOLDER. Default: a temporary folder, with the runner prism."`
	BeamLog      string `enum:"auto,off,error,warn,info,debug" default:"auto" help:"What Beam logs is shown from this level on: off, error, warn, info or debug. Default: off with the runner prism, else info."`

	SavePredictions bool   `help:"Leave what the model predicts of the test ratings in the run's folder: predictions.csv with user, item, rating and predicted."`
	Format          string `enum:"table,json" default:"table" help:"How to print the summary: table or json."`
}

func (r *runCmd) Run(ctx context.Context, s verb.Streams) (err error) {
	said, err := r.settings()
	if err != nil {
		return err
	}
	leave, err := ownTemporary()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leave()) }()
	p := &progress{Bar: cli.NewBar(s.Err), totals: make(engine.Counts)}
	defer p.Clear()
	e, err := verb.Open(ctx, said, s, p.Bar, engine.Open)
	if err != nil {
		return err
	}
	if err = engine.Check(e); err != nil {
		return err
	}
	level := r.BeamLog
	if level == "auto" {
		level = map[bool]string{true: "off", false: "info"}[r.Runner == engine.Prism]
	}
	logTo(s.Err, level)
	result, err := training.Keep(ctx, e, p, training.KeepOptions{Predictions: r.SavePredictions, Engine: engine.New(engine.Options{
		Runner: r.Runner, Shards: r.Shards, Processes: r.Processes, RoundsPerJob: r.RoundsPerJob, Attempts: r.Attempts, Exchange: r.Exchange,
		Counted: p.counted, Retried: p.retried,
	})})
	if result == nil {
		return err
	}
	p.Clear()
	p.tell(s.Err)
	return errors.Join(err, r.print(s.Out, result))
}

// settings collects what was said, and refuses flags that do not fit.
func (r *runCmd) settings() (list []config.Setting, err error) {
	for name, n := range map[string]int{"processes": r.Processes, "shards": r.Shards, "rounds-per-job": r.RoundsPerJob} {
		if n < 0 {
			return nil, cli.Misusef("--%s %d: it must not be negative", name, n)
		}
	}
	switch {
	case r.Attempts < 1:
		return nil, cli.Misusef("--attempts %d: it must be at least 1", r.Attempts)
	case r.Processes > 0 && r.Runner != engine.Prism:
		return nil, cli.Misusef("--processes %d: %s starts its own workers; with --runner prism they are processes of this machine", r.Processes, r.Runner)
	case r.Exchange == "" && r.Runner != engine.Prism:
		return nil, cli.Misusef("--runner %s: --exchange is needed, a folder that its workers and this program reach", r.Runner)
	}
	if r.File != "" {
		if list, err = config.ReadFile(r.File); err != nil {
			return nil, err
		}
	}
	set, err := config.Assignments("--set", r.Set)
	return append(list, set...), err
}

// print prints what came of it.
func (r *runCmd) print(w io.Writer, result *training.Result) error {
	if r.Format == "json" {
		return cli.PrintJSON(w, struct {
			*results.Summary
			Results string `json:"results"`
		}{result.Summary, result.Folder})
	}
	return result.Print(w, result.Experiment, result.Folder, true)
}
