// Package command is the command fednode, for programs that bring an algorithm of their own: one
// whose main imports the algorithm and calls [Main] is fednode with that algorithm in it.
package command

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"text/template"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/config"
	_ "github.com/fedsim/fedsim/dataset/parquet" // files of this format can be read
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/cli/screen"
	_ "github.com/fedsim/fedsim/internal/export/parquet" // and written
	_ "github.com/fedsim/fedsim/internal/families"
	"github.com/fedsim/fedsim/internal/node/hub"
	"github.com/fedsim/fedsim/internal/node/ops"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/internal/units"
	"github.com/fedsim/fedsim/internal/version"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
)

type commands struct {
	Keygen     keygenCmd     `cmd:"" help:"Make a key and say its public half."`
	Invite     inviteCmd     `cmd:"" help:"Invite parties to a federation, which is founded with the first call; or revoke them. For the operator."`
	Aggregator aggregatorCmd `cmd:"" help:"Let parties in and lead their secure sums, until stopped."`
	Relay      relayCmd      `cmd:"" help:"Stand between some of the clients and the aggregator, and add up what they send under masks; until stopped."`
	Server     serverCmd     `cmd:"" help:"Own the model: lead a session of an experiment to its end."`
	Align      alignCmd      `cmd:"" help:"Between organisations that share users: find the rows of one's own users without showing their ids to anybody."`
	Client     clientCmd     `cmd:"" help:"Take part in a session with one's own ratings."`
	Recommend  recommendCmd  `cmd:"" help:"What a user might like, on the device of the user's own client, by the model of the last session it finished."`
	Similar    similarCmd    `cmd:"" help:"Which items are like one, on the device of a user's own client, by the model of the last session it finished."`
	Status     statusCmd     `cmd:"" help:"Ask a process on this machine what it is doing."`
	Sessions   sessionsCmd   `cmd:"" help:"List the sessions of a server's or client's state, with how each ended and where its model is."`
	Check      checkCmd      `cmd:"" help:"Check a state without changing it: signatures, ledger, epochs, models, permissions and room; and say what to do."`
	Enrolled   enrolledCmd   `cmd:"" help:"Print the signed list of enrolled parties that a state has, from which a lost aggregator is rebuilt."`
	LogLevel   string        `enum:"debug,info,warn,error" default:"info" help:"What is logged to stderr: debug, info, warn or error and what is worse. Debug tells of messages that are ignored."`
	cli.PagesCmd
	cli.ProfileFlags
	Version cli.VersionFlag `help:"Print the version and exit."`
}

// Main runs the command as the process.
func Main() {
	cli.Main(func(ctx context.Context, args []string) int {
		return run(ctx, args, &streams{out: screen.Safe(os.Stdout), err: os.Stderr})
	})
}

var program = cli.Program{
	Name: "fednode", Description: "Runs one party of a federation that trains a private recommender.", Version: func() string { return version.Get().String() },
	First: first, Examples: examples, Hint: hint,
	Interrupt: func(error) error { return errStopped },
}

var errStopped = errors.New("stopped before the end of the session; start it again with the same --state to continue")

// run is the command without the process around it.
func run(ctx context.Context, args []string, s *streams) (code int) {
	var c commands
	p := program
	s.args, p.Ended = args, s.ended
	p.Bind = func() (any, error) {
		var err error
		s.level, err = zerolog.ParseLevel(c.LogLevel)
		return s, err
	}
	return p.Run(ctx, &c, args, s.out, s.err)
}

// first is printed when fednode is called without arguments.
//
//go:embed first.txt
var first string

// hint returns what to do about a flag that is a key of an experiment, which the server alone says.
func hint(err error) string {
	k := config.Find(cli.UnknownFlag(err))
	switch {
	case k == nil || k.Scope == config.Simulated:
		return ""
	case cli.Takes(err, "set"):
		return "it is a key: --set " + k.Name + "=VALUE"
	default:
		return "the server of a session says it, with --set " + k.Name + "=VALUE"
	}
}

// examples holds three calls of each command, which its help ends with.
//
//go:embed examples.txt
var examples string

// usersBeside lists the ids of all users beside their ratings: see clientCmd.IDs.
const usersBeside = "users.txt"

// readIDs reads the ids of clients, one a line. The list must not follow from the ratings: then no reader of it learns who has ratings.
func readIDs(path string) ([]string, error) { return read.IDs(path, false) }

// full adds to the error of a full disk, at the end of a session, what becomes of the model.
func full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("%w. The session has ended, and the disk is full: make room, and start again with the same --state. Its model is written then, at no cost", err)
	}
	return err
}

type formatFlag struct {
	Format string `enum:"table,json" default:"table" help:"table or json."`
}

//go:embed shown.tmpl
var shownText string

var shown = template.Must(template.New("shown").Funcs(template.FuncMap{
	"count":   units.Count,
	"next":    func(k int) int { return k + 1 },
	"rounded": store.RoundedUp,
	"time":    func(t time.Time) string { return t.Format(time.RFC3339) },
}).Parse(shownText))

func each[T any](flag string, texts []string, parse func(string) (T, error)) ([]T, error) {
	list := make([]T, len(texts))
	for i, text := range texts {
		var err error
		if list[i], err = parse(text); err != nil {
			return nil, cli.Misusef("%s: %w", flag, err)
		}
	}
	return list, nil
}

func misused(what string, err error) error {
	if err == nil {
		return nil
	}
	return cli.Misusef("%s: %w", what, err)
}

// notify tells systemd how this process is (sd_notify(3)), if a unit of Type=notify has started it.
func notify(state string) {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return
	}
	if c, err := net.Dial("unixgram", socket); err == nil {
		_, _ = io.WriteString(c, state)
		_ = c.Close()
	}
}

// watchdog tells systemd until the context ends that this process runs: a status waits for the locks of all that it is of.
func watchdog(ctx context.Context, m *ops.Monitor) {
	period, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	for err == nil && ctx.Err() == nil {
		m.Status()
		notify("WATCHDOG=1")
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(period) * time.Microsecond / 3):
		}
	}
}

// listening prints where parties dial, in one write.
func listening(w io.Writer, addresses []string) error {
	notify("READY=1")
	_, err := fmt.Fprintf(w, "listening  %s\n", strings.Join(addresses, "\nlistening  "))
	return err
}

func occupied(err error) error {
	if errors.Is(err, peer.ErrInUse) {
		return cli.Misusef("--listen: %w; stop that process, or name another port", err)
	}
	return err
}

func listenAt(said []string) ([]string, error) {
	if len(said) == 0 {
		return hub.Listen, nil
	}
	_, err := each("--listen", said, peer.ParseAddress)
	return said, err
}

type probeFlag struct {
	Probe string `placeholder:"ADDRESS" help:"Address of /healthz, /readyz and /metrics for other machines, like 0.0.0.0:9470: without the name of a party or a reason. Default: nowhere."`
}

// monitored shows what a process is doing at an address of this machine, and to probes; "" is nowhere.
func (f *probeFlag) monitored(ctx context.Context, role, address string, log *zerolog.Logger) (m *ops.Monitor, stop func(), err error) {
	m = ops.NewMonitor(role, time.Now)
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	stop = func() { cancel(); serving.Wait() }
	serve := func(flag, what string, l net.Listener, h http.Handler) {
		serving.Go(func() {
			if failed := ops.Serve(ctx, l, h); failed != nil {
				log.Error().Err(failed).Msg(what + " are not shown any more")
			}
		})
		log.Info().Str(flag, l.Addr().String()).Msg(what)
	}
	if address != "" {
		l, failed := ops.Listen(address)
		if errors.Is(failed, ops.ErrAddress) {
			failed = cli.Misusef("--ops: %w", failed)
		}
		if failed != nil {
			stop()
			return nil, nil, failed
		}
		serve("ops", "metrics, health and status", l, m.Handler())
	}
	if f.Probe != "" {
		l, failed := net.Listen("tcp", f.Probe)
		if failed != nil {
			stop()
			return nil, nil, cli.Misusef("--probe: %w", failed)
		}
		serve("probe", "metrics and health for other machines", l, m.Probe())
	}
	if role == "server" || role == "client" { // others are ready when they listen
		notify("READY=1")
	}
	serving.Go(func() { watchdog(ctx, m) })
	return m, stop, nil
}

func contactsOf(flag string, addresses []string) ([]admission.Contact, error) {
	out, err := peer.ParseContacts(addresses)
	return out, misused(flag, err)
}

type movedFlag struct {
	Aggregator []string `sep:"none" placeholder:"MULTIADDR" help:"Where the aggregator is by now, with /p2p/ and its name; may be repeated. It is kept in the state, in place of the address in the invitation."`
}

// moved is where the aggregator is by now; nil: where the state says.
func (f *movedFlag) moved() (*admission.Contact, error) {
	if len(f.Aggregator) == 0 {
		return nil, nil
	}
	return aggregatorAt(f.Aggregator)
}

// aggregatorAt reads the addresses of the aggregator.
func aggregatorAt(addresses []string) (*admission.Contact, error) {
	contacts, err := contactsOf("--aggregator", addresses)
	if err == nil && len(contacts) != 1 {
		err = cli.Misusef("--aggregator: addresses of %d peers; there is one aggregator", len(contacts))
	}
	if err != nil {
		return nil, err
	}
	return &contacts[0], nil
}

// onHangup reads the operator's files again for each SIGHUP, until the context ends, and says so.
func onHangup(ctx context.Context, monitor *ops.Monitor, log *zerolog.Logger, done string, read func() error) {
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGHUP)
	defer signal.Stop(again)
	for {
		select {
		case <-ctx.Done():
			return
		case <-again:
			err := read()
			if monitor.Reloaded(err == nil); err != nil {
				log.Error().Err(err).Msg("a file that cannot be read changes nothing")
			} else {
				log.Info().Msg(done)
			}
		}
	}
}
