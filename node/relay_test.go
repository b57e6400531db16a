package node_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// relay is a line between a party and whom it dials, which can fail. It knows nothing
// of what passes, which is encrypted.
type relay struct {
	t        testing.TB
	listener net.Listener
	target   string
	ctx      context.Context
	busy     sync.WaitGroup

	mu    sync.Mutex
	fault fault
	conns map[net.Conn]bool
}

// fault describes the fault of a line.
type fault struct {
	refused  bool          // no connection gets through
	swallows bool          // connections stay, and nothing arrives: half open
	pace     time.Duration // for each byte from the party, or
	paceDown time.Duration // to it; 0: as fast as it goes
}

// newRelay opens a line to a multiaddress.
func newRelay(t testing.TB, to string) *relay {
	t.Helper()
	a, err := multiaddr.NewMultiaddr(to)
	if err != nil {
		t.Fatal(err)
	}
	_, target, err := manet.DialArgs(a)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &relay{t: t, listener: l, target: target, ctx: ctx, conns: make(map[net.Conn]bool)}
	r.busy.Go(r.accept)
	t.Cleanup(func() {
		stop()
		_ = l.Close()
		r.set(fault{refused: true})
		r.cut()
		r.busy.Wait()
	})
	return r
}

// address is where the party dials.
func (r *relay) address() string {
	a, err := manet.FromNetAddr(r.listener.Addr())
	if err != nil {
		r.t.Fatal(err)
	}
	return a.String()
}

// set has something be the matter from now on, with connections that there are, too.
func (r *relay) set(f fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault = f
}

// cut breaks the connections that there are.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		_ = c.Close()
	}
}

// heal has the line be as it should. Connections of which bytes were lost break, as
// the transport would find out by itself in a minute.
func (r *relay) heal() {
	r.set(fault{})
	r.cut()
}

func (r *relay) now() fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fault
}

func (r *relay) accept() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return
		}
		if r.now().refused {
			_ = c.Close()
			continue
		}
		d, err := net.Dial("tcp", r.target)
		if err != nil {
			_ = c.Close()
			continue
		}
		r.mu.Lock()
		r.conns[c], r.conns[d] = true, true
		r.mu.Unlock()
		r.busy.Go(func() { r.carry(c, d, true) })
		r.busy.Go(func() { r.carry(d, c, false) })
	}
}

// carry copies one direction until it breaks, which breaks the other.
func (r *relay) carry(from, to net.Conn, up bool) {
	defer func() {
		_, _ = from.Close(), to.Close()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.conns, from)
	}()
	b := make([]byte, 4096)
	for {
		n, err := from.Read(b)
		if n > 0 && !r.now().swallows {
			if r.write(to, b[:n], up) != nil {
				return
			}
		}
		if err != nil && !errors.Is(err, io.EOF) || n == 0 {
			return
		}
	}
}

// write writes at the pace of the line as it is by then.
func (r *relay) write(to net.Conn, b []byte, up bool) error {
	for len(b) > 0 {
		f, n := r.now(), len(b)
		if pace := map[bool]time.Duration{true: f.pace, false: f.paceDown}[up]; pace > 0 {
			n = 1
			select {
			case <-time.After(pace):
			case <-r.ctx.Done():
				return r.ctx.Err()
			}
		}
		if r.now().swallows {
			return nil
		}
		if _, err := to.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
