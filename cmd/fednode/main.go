// Command fednode runs one party of a federation that trains a private recommender:
// an aggregator, a server or a client, on a machine of its own.
//
//	fednode keygen FILE          make a key: the operator's, or the aggregator's
//	fednode invite ...           found a federation, invite its parties, revoke them
//	fednode aggregator ...       let parties in and lead their secure sums
//	fednode server EXPERIMENT    own the model: plan iterations, end the session
//	fednode client ...           take part with one's own ratings
//	fednode status               what a process on this machine is doing
//
// Results go to stdout, logs to stderr. It exits with 0 when done, 1 when something
// failed, 2 when it was asked for something it cannot do, and 130 when it was stopped
// before the end of the session; a start with the same state goes on. An aggregator
// runs until it is stopped, which is its end: 0.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/rs/zerolog"
	"golang.org/x/term"

	"github.com/fedsim/fedsim/experiment"
)

// commands is the tree of the command line.
type commands struct {
	Keygen     keygenCmd        `cmd:"" help:"Make a key and say its public half."`
	Invite     inviteCmd        `cmd:"" help:"Invite parties to a federation, which is founded with the first call; or revoke them. For the operator."`
	Aggregator aggregatorCmd    `cmd:"" help:"Let parties in and lead their secure sums, until stopped."`
	Server     serverCmd        `cmd:"" help:"Own the model: lead a session of an experiment to its end."`
	Client     clientCmd        `cmd:"" help:"Take part in a session with one's own ratings."`
	Status     statusCmd        `cmd:"" help:"Ask a process on this machine what it is doing."`
	LogLevel   string           `enum:"debug,info,warn,error" default:"info" help:"What is logged to stderr: debug, info, warn or error and what is worse. Debug tells of messages that are ignored."`
	Version    kong.VersionFlag `help:"Print the version and exit."`
}

// streams are where a command writes.
type streams struct {
	out, err io.Writer
	level    zerolog.Level // of the least that is logged
}

// log is what a process tells on the way: for people on a terminal, JSON elsewhere.
func (s streams) log(role string) zerolog.Logger {
	w := s.err
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		w = zerolog.ConsoleWriter{Out: f}
	}
	return zerolog.New(w).Level(s.level).With().Timestamp().Str("role", role).Logger()
}

// exit codes, as documented above.
const (
	exitDone    = 0
	exitFailed  = 1
	exitUsage   = 2
	exitStopped = 130
)

func main() {
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
	parser, err := newParser(&c,
		kong.Writers(s.out, s.err),
		kong.Exit(func(code int) { panic(exited{code}) }),
		kong.BindTo(ctx, (*context.Context)(nil)),
	)
	if err != nil {
		return report(s.err, err, false)
	}
	kctx, err := parser.Parse(args)
	if err != nil {
		err = &usageError{fmt.Errorf("%w; fednode --help tells what there is", err)}
	} else if s.level, err = zerolog.ParseLevel(c.LogLevel); err == nil {
		err = kctx.Run(s)
	}
	return report(s.err, err, wantsJSON(args))
}

// newParser makes what reads the command line.
func newParser(c *commands, more ...kong.Option) (*kong.Kong, error) {
	return kong.New(c, append([]kong.Option{
		kong.Name("fednode"),
		kong.Description("Runs one party of a federation that trains a private recommender."),
		kong.Vars{"version": experiment.Version()},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	}, more...)...)
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

func misused(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// report prints an error and turns it into an exit code.
func report(w io.Writer, err error, asJSON bool) int {
	code := exitFailed
	var usage *usageError
	var config *experiment.ConfigError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, context.Canceled):
		code = exitStopped
		err = errors.New("stopped before the end of the session; start it again with the same --state to go on")
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
	fmt.Fprintf(w, "fednode: %v\n", err)
	return code
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
