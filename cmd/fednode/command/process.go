package command

import (
	"context"
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
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/hub"
	"github.com/fedsim/fedsim/node/ops"
	"github.com/fedsim/fedsim/node/peer"
)

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
	var text strings.Builder
	for _, a := range addresses {
		fmt.Fprintf(&text, "listening  %s\n", a)
	}
	_, err := io.WriteString(w, text.String())
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
	for _, text := range said {
		if _, err := peer.ParseAddress(text); err != nil {
			return nil, cli.Misusef("--listen: %w", err)
		}
	}
	return said, nil
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
	if err != nil {
		return nil, cli.Misusef("%s: %w", flag, err)
	}
	for _, c := range out {
		if err = peer.CheckContact(c); err != nil {
			return nil, cli.Misusef("%s: %w", flag, err)
		}
	}
	return out, nil
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

// onHangup calls a function for each SIGHUP, until the context ends.
func onHangup(ctx context.Context, do func()) {
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGHUP)
	defer signal.Stop(again)
	for {
		select {
		case <-ctx.Done():
			return
		case <-again:
			do()
		}
	}
}
