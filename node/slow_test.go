package node_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// sharedLine is a line that several parties share, in both directions: what one of them sends or
// receives the others wait for.
type sharedLine struct {
	up, down *rate.Limiter

	mu       sync.Mutex
	conns    []net.Conn // that there were, each an end of a party
	received int
	sent     int
	cutAt    int // the first connections are cut once so many bytes were received; 0: never
	cut      int // how many
}

// packet is the number of bytes that pass a shared line at a time.
const packet = 4 << 10

// newSharedLine makes a line of so many bytes a second each way.
func newSharedLine(bytes float64) *sharedLine {
	return &sharedLine{up: rate.NewLimiter(rate.Limit(bytes), packet), down: rate.NewLimiter(rate.Limit(bytes), packet)}
}

// end puts the line before a party's end of a connection. A nil line is as fast as it goes.
func (l *sharedLine) end(c net.Conn) net.Conn {
	if l == nil {
		return c
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	slow := &slowConn{Conn: c, line: l}
	slow.open, slow.closed = context.WithCancel(context.Background())
	l.conns = append(l.conns, slow)
	return slow
}

// dials counts the connections that there were.
func (l *sharedLine) dials() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns)
}

// took counts what was received, and cuts all connections when it is time.
func (l *sharedLine) took(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.received
	l.received += n
	if before < l.cutAt && l.received >= l.cutAt {
		for _, c := range l.conns[:l.cut] {
			_ = c.Close()
		}
	}
}

// gave counts what is sent.
func (l *sharedLine) gave(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent += n
}

// carried returns how many bytes the line has carried to parties, and from them.
func (l *sharedLine) carried() (down, up int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.received, l.sent
}

// slowConn is an end of a connection over a shared line. As with a socket, no goroutine waits for the line of a closed
// connection. The connection's multiplexer holds a mutex until its reader and its writer are gone. A second goroutine that closes
// the connection waits for that mutex, which would stop the clock of synctest for good.
type slowConn struct {
	net.Conn
	line   *sharedLine
	open   context.Context // until it is closed
	closed context.CancelFunc
}

func (c *slowConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

func (c *slowConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b[:min(len(b), packet)])
	if n > 0 && c.line.down.WaitN(c.open, n) == nil {
		c.line.took(n)
	}
	return n, err
}

func (c *slowConn) Write(b []byte) (int, error) {
	done := 0
	c.line.gave(len(b))
	for len(b) > 0 {
		n := min(len(b), packet)
		if err := c.line.up.WaitN(c.open, n); err != nil {
			return done, err
		}
		n, err := c.Conn.Write(b[:n])
		if done += n; err != nil {
			return done, err
		}
		b = b[n:]
	}
	return done, nil
}

// wide writes ratings on many items; each user rates a few of them.
func wide(t testing.TB, users, items int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("user,item,rating\n")
	for i := range items {
		fmt.Fprintf(&b, "u%02d,i%04d,%d\n", i%users, i, 1+i%5)
	}
	path := filepath.Join(t.TempDir(), "wide.csv")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// 4 clients share a line of 18 kB/s. Each has a tenth more than the 4,096 bytes a second at which no line is cut. The
// model has 1.3 MB: it takes longer than a stage may wait. No connection is cut, the model passes once for each client, and the
// round takes as long as its bytes. Half of [peer.Patience] would cut lines that carry so little.
func TestSlowLinesAreNotCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients = 4
		f := newFederation(t, "algorithm=fmf-lfl rank=40 rounds=1 tolerance=0.3 data="+wide(t, clients, 4000))
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		f.ctx = ctx
		const speed = 18e3
		f.line = newSharedLine(speed)
		lost := 0
		var opened, summed time.Time
		var down, up [2]int
		f.watch = func(e protocol.Event) {
			switch e.Kind {
			case protocol.ClientLost:
				lost++
			case protocol.RoundOpened:
				opened = time.Now()
				down[0], up[0] = f.line.carried()
			case protocol.RoundSummed:
				summed = time.Now()
				down[1], up[1] = f.line.carried()
			default:
			}
		}
		m := f.join(admission.ServerPlace)
		wait := f.start(f.joinAll()...)
		out, err := f.server(m).Run(f.ctx)
		if err != nil {
			t.Fatal(err)
		}
		wait()
		if out.Attempts.Opened != 1 || out.Attempts.Released != 1 || lost > 0 {
			t.Errorf("attempts %+v, %d clients lost: want one round with all clients", out.Attempts, lost)
		}
		if n := f.line.dials(); n != clients {
			t.Errorf("%d connections, want %d: none breaks", n, clients)
		}
		received, sent := down[1]-down[0], up[1]-up[0]
		if most := clients * len(out.Model) * 11 / 10; received > most {
			t.Errorf("%d bytes are received, want at most %d: each client's model once", received, most)
		}
		took, least := summed.Sub(opened).Seconds(), float64(received+sent)/speed
		t.Logf("the round takes %.0f s, its bytes %.0f s", took, least)
		if took < 60 || took > 1.1*least {
			t.Errorf("the round takes %.0f s, want more than a stage's 60 s and at most 1.1 times the %.0f s of its bytes", took, least)
		}
	})
}

// The connection of 1 of 4 clients on a shared line is cut when half of the plan has come. It comes back, and is
// sent the rest of it: no client is lost, and all receive little more than one plan each.
func TestBroadcastIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, cut = 4, 1
		f := newFederation(t, "algorithm=fmf-lfl rank=40 rounds=1 tolerance=0.3 data="+wide(t, clients, 4000))
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		f.ctx = ctx
		f.line = newSharedLine(60e3)
		const plan = 4000 * 40 * 4 // bytes of the embeddings
		lost, survivors := 0, 0
		var before, after int
		f.watch = func(e protocol.Event) {
			switch e.Kind {
			case protocol.ClientLost:
				lost++
			case protocol.RoundOpened:
				before, _ = f.line.carried()
				f.line.mu.Lock()
				f.line.cut, f.line.cutAt = cut, before+clients*plan/2
				f.line.mu.Unlock()
			case protocol.RoundSummed:
				after, _ = f.line.carried()
				survivors++
			default:
			}
		}
		m := f.join(admission.ServerPlace)
		wait := f.start(f.joinAll()...)
		out, err := f.server(m).Run(f.ctx)
		if err != nil {
			t.Fatal(err)
		}
		wait()
		if n := f.line.dials(); out.Attempts.Released != 1 || survivors != 1 || lost > 0 || n != clients+cut {
			t.Errorf("attempts %+v, %d clients lost, %d connections; want one round with all clients and %d connections", out.Attempts, lost, n, clients+cut)
		}
		received := float64(after-before) / (clients * plan)
		t.Logf("each client receives %.2f of a plan", received)
		if received > 1.1 { // with the whole plan again for 1 client: 1.12 and more
			t.Errorf("each client receives %.2f of a plan, want at most 1.1", received)
		}
	})
}
