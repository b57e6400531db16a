//go:build unix

package command

import (
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/testutil"
)

// door forwards connections to one address, and later to another one: an address whose machine
// changes.
type door struct {
	net.Listener

	mu    sync.Mutex
	to    string
	conns []net.Conn
}

func newDoor(t *testing.T, to string) *door {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{Listener: l, to: to}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			d.mu.Lock()
			out, err := net.Dial("tcp", d.to)
			if err != nil {
				_ = in.Close()
			} else {
				d.conns = append(d.conns, in, out)
				go func() { _, _ = io.Copy(in, out); _ = in.Close() }()
				go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
			}
			d.mu.Unlock()
		}
	}()
	return d
}

// turn cuts what is connected, and leads to another address.
func (d *door) turn(to string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.to = to
	for _, c := range d.conns {
		_ = c.Close()
	}
	d.conns = nil
}

// Two aggregators of one key. On one machine the second ends with exit code 2 and names what is
// taken: the key, or of a copied key and state the address. On another machine, which is another port
// here, neither can know of the other. A client whose line leads to the first, the second and the first
// again says so.
func TestTwoAggregatorsAsProcesses(t *testing.T) {
	effort.NotShort(t, "starts processes")
	m := newMachine(t)
	one, other := testutil.Port(t), testutil.Port(t)
	d := newDoor(t, "127.0.0.1:"+one)
	_, port, err := net.SplitHostPort(d.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	m.founds(2, "/ip4/127.0.0.1/tcp/"+port)
	lead := func(key, state, port string) []string {
		return []string{"aggregator", "--key", m.path(key), "--federation", m.path("federation.json"), "--state", m.path(state),
			"--tickets", m.path("invitations/tickets.json"), "--invitation", m.path("invitations/aggregator.json"), "--listen", "/ip4/127.0.0.1/tcp/" + port, "--ops", ""}
	}
	first := m.start(lead("aggregator.key", "aggregator", one)...)
	first.until("ready for parties")
	client := m.start("client", "--data", demo+"/ratings.csv", "--user", "2", "--state", m.path("alone"), "--invitation", m.path("invitations/client-1.json"))
	client.until("registered")

	if out, failed := exec.Command("cp", "-r", m.path("aggregator"), m.path("copy")).CombinedOutput(); failed != nil {
		t.Fatalf("%v: %s", failed, out)
	}
	b, err := os.ReadFile(m.path("aggregator.key"))
	if err == nil {
		err = os.WriteFile(m.path("copy.key"), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, second := range []struct{ key, state, says string }{{"aggregator.key", "elsewhere", "aggregator.key: another process"},
		{"copy.key", "copy", "/tcp/" + one + ": another process"}} {
		if _, stderr := m.run(cli.Misuse, lead(second.key, second.state, one)...); !strings.Contains(stderr, second.says) {
			t.Errorf("a second aggregator does not name %s: %s", second.says, stderr)
		}
	}

	twin := m.start(lead("copy.key", "copy", other)...)
	twin.until("ready for parties")
	// The client has heard the ports behind the door, and tries them too. The aggregator that it must
	// not reach stands still.
	first.signal(syscall.SIGSTOP)
	d.turn("127.0.0.1:" + other)
	client.until("registered")
	twin.signal(syscall.SIGSTOP)
	first.signal(syscall.SIGCONT)
	d.turn("127.0.0.1:" + one)
	client.until("registered")
	twin.signal(syscall.SIGCONT)
	for _, p := range []*process{client, first, twin} {
		p.signal(os.Interrupt)
		p.wait()
	}
	if !strings.Contains(client.log.String(), "two aggregators run with one key") {
		t.Errorf("the client met both, and says\n%s", client.log.String())
	}
}
