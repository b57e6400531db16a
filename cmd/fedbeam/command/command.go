// Package command is the command fedbeam, for programs that bring an algorithm of their own. A program whose main
// imports the algorithm and calls [Main] is fedbeam with that algorithm in it. The program starts itself as its workers.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"

	"github.com/fedsim/fedsim/cmd/fedbeam/engine"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/internal/version"
	"github.com/fedsim/fedsim/results"
)

type commands struct {
	Run runCmd `cmd:"" help:"Train and measure one experiment, its rounds as a pipeline of Beam. Flags of Beam's own follow after --."`
	cli.PagesCmd
	cli.ProfileFlags

	Version cli.VersionFlag `help:"Print the version and exit."`
}

var program = cli.Program{
	Name: "fedbeam", Description: "Runs experiments of fedsim on Apache Beam, to the same bits.", Version: func() string { return version.Get().String() },
	Interrupt: func(err error) error {
		if u, ok := errors.AsType[*results.UncomparedError](err); ok {
			return u
		}
		return errors.New("interrupted; nothing was left behind, except a job that another machine may still run")
	},
}

// Main runs the command as the process, or works for the runner that started the process.
func Main() {
	was, err := engine.ServeAsWorker(context.Background(), os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(cli.Failed)
	}
	if was {
		return
	}
	if slices.ContainsFunc(os.Args[1:], func(a string) bool { return strings.HasPrefix(strings.TrimLeft(a, "-"), "worker=") || a == "--worker" }) {
		flag.Parse() // all flags are Beam's: its container started this process
		beam.Init()  // which does not return
	}
	cli.Main(func(ctx context.Context, args []string) int {
		return run(ctx, args, verb.Streams{Out: os.Stdout, Err: os.Stderr})
	}, syscall.SIGHUP)
}

// run is the command without the process around it.
func run(ctx context.Context, args []string, s verb.Streams) int {
	own, beams := args, []string(nil)
	if i := slices.Index(args, "--"); i >= 0 {
		own, beams = args[:i], args[i+1:]
	}
	p := program
	p.Bind = func() (any, error) { return s, initBeam(beams) }
	return p.Run(ctx, &commands{}, own, s.Out, s.Err)
}

// initBeam has Beam read its flags.
func initBeam(args []string) error {
	flag.CommandLine.Init("beam", flag.ContinueOnError)
	flag.CommandLine.SetOutput(io.Discard)
	if err := flag.CommandLine.Parse(args); err != nil {
		return cli.Misusef("after --: %w", err)
	}
	if flag.NArg() > 0 {
		return cli.Misusef("after --: %q is no flag of Beam's", flag.Arg(0))
	}
	if *jobopts.Async {
		return cli.Misusef("after --: --async: the program follows the run to measure its model, and waits for it")
	}
	if !beam.Initialized() {
		beam.Init()
	}
	return nil
}

// logTo has what Beam logs of at least a level written; nothing where it is off.
func logTo(w io.Writer, level string) {
	least := slog.LevelError + 100
	if level != "off" {
		if err := least.UnmarshalText([]byte(level)); err != nil {
			panic(err) // the flag has these words alone
		}
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: least})))
}
