// Package command is the command fedsim, for programs that bring an algorithm of their own: one
// whose main imports the algorithm and calls [Main] is fedsim with that algorithm in it.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset/download"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/sweep"
	"github.com/fedsim/fedsim/internal/version"
	"github.com/fedsim/fedsim/results"
)

type commands struct {
	Run       runCmd       `cmd:"" help:"Train and measure: one experiment, from a file and flags or from the defaults."`
	Sweep     sweepCmd     `cmd:"" help:"Run many experiments: all combinations of lists of values, on this machine or a cluster."`
	Tune      tuneCmd      `cmd:"" help:"Search settings by the validation part, and measure the best on the test once; --private pays for the search."`
	Results   resultsCmd   `cmd:"" help:"Table of finished runs: settings, metrics, means and paired differences over seeds."`
	Compare   compareCmd   `cmd:"" help:"Test whether one run, or a method outside fedsim, is better than another on the same test."`
	Plot      plotCmd      `cmd:"" help:"Draw one picture of finished runs, as PDF, SVG or PNG."`
	Report    reportCmd    `cmd:"" help:"Make one web page of finished runs: pictures, numbers, claims and the commands that repeat them."`
	Plan      planCmd      `cmd:"" help:"Say what an experiment would do, rest on and cost before anything runs: graph, bytes, noise, memory, privacy."`
	Export    exportCmd    `cmd:"" help:"Write the embeddings of a finished run, with ids, in a format that other programs read."`
	Serve     serveCmd     `cmd:"" help:"Answer requests for recommendations by the model of a finished run, over HTTP in JSON."`
	Chaos     chaosCmd     `cmd:"" help:"Run schedules of faults against the secure sum, and check that every rule holds."`
	Audit     auditCmd     `cmd:"" help:"Try to catch the stated epsilon out: thousands of runs on worst-case neighbours, and a lower bound."`
	Attack    attackCmd    `cmd:"" help:"Attack simulated runs: who was in them, what a user likes, what a client sent; how often it works at each epsilon."`
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
	flags := func(verb string, take func(*config.Key) bool) keyFlags {
		if alone && verb != call[0] {
			return keyFlags{}
		}
		return newKeyFlags(take)
	}
	return commands{
		Sweep:  sweepCmd{keyFlags: flags("sweep", func(k *config.Key) bool { return !slices.Contains(perRun, k) })},
		Run:    runCmd{experimentFlags: experimentFlags{keyFlags: flags("run", func(*config.Key) bool { return true })}},
		Tune:   tuneCmd{experimentFlags: experimentFlags{keyFlags: flags("tune", func(*config.Key) bool { return true })}},
		Audit:  auditCmd{experimentFlags: experimentFlags{keyFlags: flags("audit", func(k *config.Key) bool { return !notAudited(k) })}},
		Attack: attackCmd{experimentFlags: experimentFlags{keyFlags: flags("attack", func(k *config.Key) bool { return !notAttacked(k) })}},
		Plan:   planCmd{experimentFlags: experimentFlags{keyFlags: flags("plan", func(k *config.Key) bool { return !slices.Contains(ofRuns, k) })}},
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
	return false
}

type streams struct {
	out, err io.Writer
	parsed   func() // called when the call is parsed; nil: not called
}

// warn tells the user about something that a command leaves out.
func (s streams) warn(err error) {
	fmt.Fprintf(s.err, "fedsim: warning: %v\n", err) //nolint:errcheck // it is only a warning
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
		return run(ctx, args, streams{out: os.Stdout, err: os.Stderr, parsed: func() { collect(gcPercent) }})
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

// run is the command without the process around it.
func run(ctx context.Context, args []string, s streams) (code int) {
	c, p := newCommands(args...), program
	p.Bind = func() (any, error) {
		if s.parsed != nil {
			s.parsed()
		}
		return s, nil
	}
	return p.Run(ctx, &c, args, s.out, s.err)
}
