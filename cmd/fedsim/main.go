// Command fedsim simulates a federation that trains private recommenders: real
// roles and messages, real noise and accounting, dropouts as they are asked for.
//
//	fedsim run                       train LFL-SGDMF on a synthetic set
//	fedsim plan                      what that rests on and costs, before it runs
//	fedsim chaos                     faults of all kinds against the secure sum
//	fedsim privacy epsilon ...       what noise costs
//	fedsim privacy noise ...         what noise a budget needs
//	fedsim data list | info DATA     data sets
//	fedsim recommend ...             what a user might like, by a finished run
//	fedsim similar ...               items like another, by a finished run
//
// Results go to stdout, everything else to stderr. It exits with 0 when done,
// 1 when something failed, 2 when it was asked for something it cannot do, and
// 130 when it was interrupted.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/fedsim/fedsim/dataset/download"
	"github.com/fedsim/fedsim/experiment"
)

// commands is the tree of the command line.
type commands struct {
	Run       runCmd           `cmd:"" help:"Train and measure: one experiment, from a file and flags or from the defaults."`
	Plan      planCmd          `cmd:"" help:"Say what an experiment would do, rest on and cost before anything runs: graph, bytes, noise, memory, privacy."`
	Chaos     chaosCmd         `cmd:"" help:"Run schedules of faults against the secure sum, and check that every rule holds."`
	Privacy   privacyCmd       `cmd:"" help:"Compute what noise costs, or what noise a budget needs."`
	Data      dataCmd          `cmd:"" help:"List data sets, or describe one."`
	Recommend recommendCmd     `cmd:"" help:"List what a user might like and has not rated, by the model of a finished run."`
	Similar   similarCmd       `cmd:"" help:"List items like another, by the model of a finished run."`
	Version   kong.VersionFlag `help:"Print the version and exit."`
}

// streams are where a command writes.
type streams struct {
	out, err io.Writer
}

// exit codes, as documented above.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// garbage is how much garbage may lie about, in percent of what is in use. All masked
// inputs of a simulated federation are on their way at one instant, and as much again
// in garbage, Go's default, is more memory than the time it saves is worth.
const garbage = 50

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], streams{out: os.Stdout, err: os.Stderr})
	stop()
	os.Exit(code)
}

// run is the command without the process around it.
func run(ctx context.Context, args []string, s streams) (code int) {
	var c commands
	// Kong ends --help and --version by calling Exit.
	type exited struct{ code int }
	defer func() {
		switch e := recover().(type) {
		case nil:
		case exited:
			code = e.code
		default:
			panic(e)
		}
	}()
	parser, err := kong.New(&c,
		kong.Name("fedsim"),
		kong.Description("Simulates federations that train private recommenders."),
		kong.Vars{"version": experiment.Version()},
		kong.Writers(s.out, s.err),
		kong.Exit(func(code int) { panic(exited{code}) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(s),
	)
	if err != nil {
		return report(s.err, err, false)
	}
	kctx, err := parser.Parse(args)
	if err != nil {
		err = &usageError{fmt.Errorf("%w; fedsim --help tells what there is", err)}
	} else {
		err = kctx.Run()
	}
	return report(s.err, err, wantsJSON(args))
}

// wantsJSON looks for --format json in the arguments themselves, since a call
// that cannot be parsed is reported in that form too.
func wantsJSON(args []string) bool {
	for i, a := range args {
		if a == "--format=json" || a == "--format" && i+1 < len(args) && args[i+1] == "json" {
			return true
		}
	}
	return false
}

// usageError is a wrong call: exit code 2.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

// report prints an error and turns it into an exit code.
func report(w io.Writer, err error, asJSON bool) int {
	code := exitFailed
	var usage *usageError
	var config *experiment.ConfigError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, context.Canceled):
		code = exitInterrupted
		if _, kept := errors.AsType[*download.PartialError](err); !kept {
			err = errors.New("interrupted; nothing was left behind")
		}
	case errors.As(err, &usage), errors.As(err, &config):
		code = exitUsage
	}
	if asJSON {
		b, jsonErr := json.Marshal(map[string]any{"error": err.Error(), "exit": code})
		if jsonErr == nil {
			fmt.Fprintf(w, "%s\n", b)
			return code
		}
	}
	fmt.Fprintf(w, "fedsim: %v\n", err)
	return code
}
