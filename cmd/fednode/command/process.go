package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/hub"
	"github.com/fedsim/fedsim/node/ops"
	"github.com/fedsim/fedsim/node/peer"
)

func listening(w io.Writer, addresses []string) error {
	var text strings.Builder
	for _, a := range addresses {
		fmt.Fprintf(&text, "listening  %s\n", a)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// listenAt returns where to listen for others: as --listen says, or the default.
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

// monitored shows what a process is doing at an address; "" is nowhere.
func monitored(ctx context.Context, role, address string, log *zerolog.Logger) (m *ops.Monitor, stop func(), err error) {
	m = ops.NewMonitor(role, time.Now)
	if address == "" {
		return m, func() {}, nil
	}
	l, err := ops.Listen(address)
	if errors.Is(err, ops.ErrAddress) {
		return nil, nil, cli.Misusef("--ops: %w", err)
	}
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := m.Serve(ctx, l); err != nil {
			log.Error().Err(err).Msg("metrics, health and status are not shown any more")
		}
	}()
	log.Info().Str("ops", l.Addr().String()).Msg("metrics, health and status")
	return m, func() { cancel(); <-done }, nil
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
