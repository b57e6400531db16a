package command

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/fedsim/fedsim/internal/cli"
)

// watcher is a log in which something is waited for.
type watcher struct {
	mu sync.Mutex
	bytes.Buffer
	text string
	seen func()
}

func (w *watcher) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if bytes.Contains(b, []byte(w.text)) {
		w.seen()
	}
	return w.Buffer.Write(b)
}

// WriteString stands before the buffer's own, which would not look for the text.
func (w *watcher) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

// One of several clients of a process fails: that is said at once, while the others take
// part, and when they are stopped the process has failed, not been stopped.
func TestOneOfSeveralClientsFails(t *testing.T) {
	o := newOffice(t)
	must(t, o.invite("--name", "Films", "--clients", "3", "--address", "/ip4/127.0.0.1/tcp/1")...)
	if err := os.Remove(o.path("out/client-0.json")); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	log := &watcher{text: `"level":"error"`, seen: stop}
	var out bytes.Buffer
	code := run(ctx, []string{"client", "--data", demo + "/ratings.csv", "--users", "0..1", "--invitations", o.path("out"), "--state", o.path("state")},
		&streams{out: &out, err: log})
	if code != cli.Failed || strings.Contains(log.String(), "start it again") {
		t.Errorf("exit code %d, want %d", code, cli.Failed)
	}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, `"level":"error"`) && !strings.Contains(line, "client-0") {
			t.Errorf("the log says %s", line)
		}
	}
	if text := log.String(); !strings.Contains(text[strings.LastIndex(strings.TrimSpace(text), "\n"):], `"error":"`+o.path("state/client-0")) {
		t.Errorf("it ends with %q", text[max(0, len(text)-300):])
	}
}
