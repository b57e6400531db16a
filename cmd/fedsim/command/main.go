// Package command is the command fedsim, for programs that bring an algorithm of their own: one
// whose main imports the algorithm and calls [Main] is fedsim with that algorithm in it.
package command

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	_ "github.com/fedsim/fedsim/dataset/parquet" // files of this format can be read
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/dataset/download"
	"github.com/fedsim/fedsim/internal/dataset/published"
	"github.com/fedsim/fedsim/internal/dataset/synthetic"
	_ "github.com/fedsim/fedsim/internal/export/parquet" // and written
	_ "github.com/fedsim/fedsim/internal/families"       // what is built in
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/study"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/internal/version"
	"github.com/fedsim/fedsim/results"
)

type commands struct {
	Run       runCmd       `cmd:"" help:"Train and measure: one experiment, from a file and flags or from the defaults."`
	Results   resultsCmd   `cmd:"" help:"Table of finished runs: settings, metrics, means and paired differences over seeds."`
	Compare   compareCmd   `cmd:"" help:"Test whether one run, or a method outside fedsim, is better than another on the same test."`
	Plan      planCmd      `cmd:"" help:"Say what an experiment would do, rest on and cost before anything runs: graph, bytes, noise, memory, privacy."`
	Export    exportCmd    `cmd:"" help:"Write the embeddings of a finished run, with ids, in a format that other programs read."`
	Serve     serveCmd     `cmd:"" help:"Answer requests for recommendations by the model of a finished run, over HTTP in JSON."`
	Added     kong.Plugins `embed:""`
	Privacy   privacyCmd   `cmd:"" help:"Compute what noise costs, or what noise a budget needs."`
	Data      dataCmd      `cmd:"" help:"List data sets, or describe one."`
	Recommend recommendCmd `cmd:"" help:"List what a user might like and has not rated, by the model of a finished run."`
	Overlap   overlapCmd   `cmd:"" help:"Say how many of their nearest items two finished runs have in common."`
	Similar   similarCmd   `cmd:"" help:"List items like another, by the model of a finished run."`
	Keys      keysCmd      `cmd:"" help:"List the keys of experiment files, or those with a text in their names or meanings."`
	Explain   explainCmd   `cmd:"" help:"Explain an algorithm or a key."`
	cli.PagesCmd
	cli.ProfileFlags
	Version cli.VersionFlag `help:"Print the version and exit."`
}

// newCommands makes the tree, and says which keys are flags of a command.
func newCommands() *commands {
	c := &commands{Added: verb.Tree()}
	ofRuns := append(algorithm.Placing(), algorithm.Baselines.Key)
	c.Plan.Take = func(k *config.Key) bool { return !slices.Contains(ofRuns, k) }
	ofData, ofForm := among(dataKeys), among(formKeys)
	c.Data.Info.Take, c.Data.IDs.Take, c.Data.Pack.Take, c.Data.Raters.Take = ofData, ofData, ofData, among(raterKeys)
	c.Recommend.Take, c.Similar.Take, c.Serve.Take = ofForm, ofForm, ofForm
	return c
}

// among takes some keys.
func among(keys []*config.Key) func(*config.Key) bool {
	return func(k *config.Key) bool { return slices.Contains(keys, k) }
}

// gcPercent is GOGC for simulations. All masked inputs of a federation are on their way at one
// instant, and as much again in garbage, Go's default, is more memory than the time it
// saves is worth.
const gcPercent = 50

// parsePercent is GOGC while the call is parsed. A call that only shows help ends before its garbage matters.
const parsePercent = 400

// collect sets how much garbage may lie about, unless the environment does.
func collect(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// Main runs the command as the process.
func Main() {
	collect(parsePercent)
	cli.Main(func(ctx context.Context, args []string) int {
		return runParsed(ctx, args, verb.Streams{Out: screen.Safe(os.Stdout), Err: os.Stderr}, func() { collect(gcPercent) })
	}, syscall.SIGHUP)
}

var program = cli.Program{
	Name: "fedsim", Description: "Simulates federations that train private recommenders.", Version: func() string { return version.Get().String() },
	First: first, Examples: examples, Hint: hint, Values: values, Keys: config.KeysOf,
	Interrupt: func(err error) error {
		if _, kept := errors.AsType[*download.PartialError](err); kept {
			return err
		}
		if k, ok := errors.AsType[verb.KeptError](err); ok {
			return k
		}
		if u, ok := errors.AsType[*results.UncomparedError](err); ok {
			return u
		}
		if r, ok := errors.AsType[*results.StoppedError](err); ok {
			return fmt.Errorf("interrupted; %w", r)
		}
		return errors.New("interrupted; nothing was left behind")
	},
}

// complete returns the program with the examples of the verbs that were added, and with first steps of no other verb.
func complete() cli.Program {
	p := program
	p.Examples += verb.Examples
	p.First = strings.Join(slices.DeleteFunc(strings.SplitAfter(first, "\n"), func(line string) bool {
		return strings.Contains(line, "fedsim sweep") && !verb.Has("sweep")
	}), "")
	return p
}

// runParsed is the command without the process around it. It calls parsed after the call is parsed.
func runParsed(ctx context.Context, args []string, s verb.Streams, parsed func()) int {
	p := complete()
	p.Bind = func() (any, error) {
		parsed()
		return s, nil
	}
	return p.Run(ctx, newCommands(), args, s.Out, s.Err)
}

// first is printed by fedsim without arguments.
//
//go:embed first.txt
var first string

// examples holds three calls of each command, which its help ends with.
//
//go:embed examples.txt
var examples string

var argumentOf = regexp.MustCompile(`unexpected argument (.+)`)

// hint returns what to do about a call that cannot be parsed.
func hint(err error) string {
	flag := cli.UnknownFlag(err)
	if flag == "" {
		return fileHint(err)
	}
	command, settings := cli.CommandOf(err), cli.Takes(err, "set")
	if k := config.Find(flag); k != nil && settings {
		return fmt.Sprintf("it is a key without a flag: --set %s=VALUE", k.Name)
	}
	if others := takers(flag); len(others) > 0 {
		return fmt.Sprintf("other commands take it: %s", strings.Join(others, ", "))
	}
	if !settings {
		return "fedsim help " + command + " lists its flags"
	}
	return config.Near(flag) + "; fedsim keys lists all"
}

// fileHint says how a file or a run's folder is given that was named without a flag.
func fileHint(err error) string {
	m := argumentOf.FindStringSubmatch(err.Error())
	if m == nil {
		return ""
	}
	if _, err2 := os.Stat(filepath.Join(m[1], "summary.json")); err2 == nil && cli.Takes(err, "run") {
		return fmt.Sprintf("a run is given by a flag: --run %s", m[1])
	}
	if _, err2 := os.Stat(m[1]); err2 != nil || !cli.Takes(err, "data") && cli.CommandOf(err) != "data" {
		return ""
	}
	return fmt.Sprintf("a data set is given by a flag, --data %s, and fedsim data info %s describes it", m[1], m[1])
}

// takers returns the commands that take a flag.
func takers(flag string) []string {
	parser, err := cli.Program{Name: "fedsim"}.Parser(newCommands(), nil)
	if err != nil {
		return nil
	}
	return lists.Map(slices.DeleteFunc(parser.Model.Leaves(true), func(leaf *kong.Node) bool {
		return !slices.ContainsFunc(leaf.Flags, func(f *kong.Flag) bool { return f.Name == flag })
	}), (*kong.Node).FullPath)
}

// values holds what a shell completes after the flags whose values are no fixed list.
func values() map[string][]string {
	var names, settings []string
	for _, k := range config.Keys() {
		names = append(names, k.Name)
		settings = append(settings, k.Name+"=")
	}
	shapes := lists.Map(synthetic.Shapes(), func(e synthetic.Entry) string { return e.Name })
	data := slices.Concat([]string{"synthetic"}, shapes, published.Names())
	return map[string][]string{"set": settings, "over": names, "data": data, "metric": study.CommonMetrics}
}
