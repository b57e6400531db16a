package command

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"
)

// A process of a unit of Type=notify says that it is ready, and again and again that it runs (sd_notify(3)). The words are systemd's.
func TestSystemdHearsOfAProcess(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // only read
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "3000")
	log := zerolog.Nop()
	_, stop, err := new(probeFlag).monitored(t.Context(), "server", "", &log)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for i, want := range []string{"READY=1", "WATCHDOG=1", "WATCHDOG=1"} {
		b := make([]byte, 64)
		n, err := l.Read(b)
		if err != nil || string(b[:n]) != want {
			t.Errorf("word %d is %q, %v; want %q", i, b[:n], err, want)
		}
	}
}
