// Package command is the command fedsim, for programs that bring an algorithm of their own: one
// whose main imports the algorithm and calls [Main] is fedsim with that algorithm in it.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	_ "github.com/fedsim/fedsim/dataset/parquet"   // files of this format can be read
	_ "github.com/fedsim/fedsim/internal/families" // what is built in
	"github.com/fedsim/fedsim/internal/verb"
	_ "github.com/fedsim/fedsim/results/export/parquet" // and written

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset/download"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/cli/screen"
	"github.com/fedsim/fedsim/internal/sweep"
	"github.com/fedsim/fedsim/internal/version"
	"github.com/fedsim/fedsim/results"
)

type commands struct {
	Run       runCmd       `cmd:"" help:"Train and measure: one experiment, from a file and flags or from the defaults."`
	Sweep     sweepCmd     `cmd:"" help:"Run many experiments: all combinations of lists of values, on this machine or a cluster."`
	Results   resultsCmd   `cmd:"" help:"Table of finished runs: settings, metrics, means and paired differences over seeds."`
	Compare   compareCmd   `cmd:"" help:"Test whether one run, or a method outside fedsim, is better than another on the same test."`
	Plot      plotCmd      `cmd:"" help:"Draw one picture of finished runs, as PDF, SVG or PNG."`
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

// newCommands makes the tree, whose flags for keys follow from their declarations. Making flags takes most of the
// time of a short call, so a call that begins with the name of a command has them at that command alone. The help and
// the version of the whole have none. Any other call has them at all commands.
func newCommands(call ...string) commands {
	ofRuns := []*config.Key{algorithm.Baselines.Key, algorithm.Workers.Key, algorithm.Out.Key, algorithm.RunName.Key}
	perRun := []*config.Key{algorithm.Workers.Key, algorithm.Out.Key, algorithm.RunName.Key} // the sweep sees to them
	alone := len(call) > 0 && isCommand(call[0]) || len(call) == 1 && slices.Contains([]string{"-h", "--help", "--version"}, call[0])
	flags := func(name string, take func(*config.Key) bool) verb.KeyFlags {
		if alone && name != call[0] {
			return verb.KeyFlags{}
		}
		return verb.NewKeyFlags(take)
	}
	return commands{
		Added: verb.Tree(flags),
		Sweep: sweepCmd{KeyFlags: flags("sweep", func(k *config.Key) bool { return !slices.Contains(perRun, k) })},
		Run:   runCmd{ExperimentFlags: verb.ExperimentFlags{KeyFlags: flags("run", func(*config.Key) bool { return true })}},
		Plan:  planCmd{ExperimentFlags: verb.ExperimentFlags{KeyFlags: flags("plan", func(k *config.Key) bool { return !slices.Contains(ofRuns, k) })}},
	}
}

// isCommand reports whether a word is the name of a command of this tree. The commands that tell of the tree itself,
// such as help, are not among them.
func isCommand(word string) bool {
	for f := range reflect.TypeFor[commands]().Fields() {
		if _, ok := f.Tag.Lookup("cmd"); ok && strings.ToLower(f.Name) == word {
			return true
		}
	}
	return slices.ContainsFunc(verb.Added(), func(v verb.Verb) bool { return v.Name == word })
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
	Name: "fedsim", Description: "Simulates federations that train private recommenders.", Version: func() string { return version.Get().String() }, Check: version.Check,
	First: first, Examples: examples, Hint: hint, Values: values, Keys: config.KeysOf,
	Interrupt: func(err error) error {
		if _, kept := errors.AsType[*download.PartialError](err); kept {
			return err
		}
		if s, ok := errors.AsType[*sweep.InterruptedError](err); ok {
			return s
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

// complete returns the program with the examples of the verbs that were added.
func complete() cli.Program {
	p := program
	for _, v := range verb.Added() {
		p.Examples += v.Examples
	}
	return p
}

// run is the command without the process around it.
func run(ctx context.Context, args []string, s verb.Streams) int {
	return runParsed(ctx, args, s, func() {})
}

// runParsed calls parsed after the call is parsed.
func runParsed(ctx context.Context, args []string, s verb.Streams, parsed func()) int {
	c, p := newCommands(args...), complete()
	p.Bind = func() (any, error) {
		parsed()
		return s, nil
	}
	return p.Run(ctx, &c, args, s.Out, s.Err)
}
