package node_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	"github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// memory is a network within a test, with the addresses of TCP over loopback. Everything above its
// connections is the same as over sockets.
type memory struct {
	mu        sync.Mutex
	listeners map[string]*memoryListener
	port      int // the last that was given out
	open      int // connections' ends that are not closed
}

func newMemory() *memory { return &memory{listeners: make(map[string]*memoryListener)} }

var errNobodyListens = errors.New("nobody listens there")

// option has a host use the network. A nil network is the system's.
func (m *memory) option() []libp2p.Option { return m.heard(nil, nil) }

// heard returns options for a host whose written bytes are reported to hear, and which dials over a line.
// hear nil: no report. over nil: the line has no limit.
func (m *memory) heard(hear func(n int), over *sharedLine) []libp2p.Option {
	if m == nil {
		return nil
	}
	return []libp2p.Option{libp2p.Security(noise.ID, noise.New), libp2p.Transport(func(u transport.Upgrader, limits network.ResourceManager) *memoryTransport {
		return &memoryTransport{m, u, limits, hear, over}
	})}
}

// memoryTransport is libp2p's TCP, with the same handshake, over the network.
type memoryTransport struct {
	memory   *memory
	upgrader transport.Upgrader
	limits   network.ResourceManager
	hear     func(n int)
	over     *sharedLine
}

func (t *memoryTransport) CanDial(a multiaddr.Multiaddr) bool {
	_, err := a.ValueForProtocol(multiaddr.P_TCP)
	return err == nil
}

func (t *memoryTransport) Protocols() []int { return []int{multiaddr.P_TCP} }
func (t *memoryTransport) Proxy() bool      { return false }

func (t *memoryTransport) Listen(a multiaddr.Multiaddr) (transport.Listener, error) {
	l, err := t.memory.listen(a)
	if err != nil {
		return nil, err
	}
	wrapped, err := manet.WrapNetListener(l)
	if err != nil {
		return nil, err
	}
	return t.upgrader.UpgradeGatedMaListener(t, t.upgrader.GateMaListener(wrapped)), nil
}

func (t *memoryTransport) Dial(ctx context.Context, a multiaddr.Multiaddr, p peer.ID) (transport.CapableConn, error) {
	scope, err := t.limits.OpenConnection(network.DirOutbound, true, a)
	if err != nil {
		return nil, err
	}
	if err = scope.SetPeer(p); err != nil {
		scope.Done()
		return nil, err
	}
	c, err := t.memory.dial(ctx, a, t.hear, t.over)
	if err != nil {
		scope.Done()
		return nil, err
	}
	conn, err := t.upgrader.Upgrade(ctx, t, c, network.DirOutbound, p, scope) // which closes c if it fails
	if err != nil {
		scope.Done()
	}
	return conn, err
}

func (m *memory) newPort() int {
	m.port++
	return m.port
}

// connections counts the open connections.
func (m *memory) connections() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.open
}

func (m *memory) listen(a multiaddr.Multiaddr) (net.Listener, error) {
	wanted, err := manet.ToNetAddr(a)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	own := *wanted.(*net.TCPAddr)
	if own.Port == 0 {
		own.Port = m.newPort()
	}
	if m.listeners[own.String()] != nil {
		return nil, errors.New("the address is taken")
	}
	l := &memoryListener{memory: m, own: &own, arriving: make(chan net.Conn), closed: make(chan struct{})}
	m.listeners[own.String()] = l
	return l, nil
}

func (m *memory) dial(ctx context.Context, a multiaddr.Multiaddr, hear func(n int), over *sharedLine) (manet.Conn, error) {
	wanted, err := manet.ToNetAddr(a)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	l := m.listeners[wanted.String()]
	from := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: m.newPort()}
	m.mu.Unlock()
	if l == nil {
		return nil, errNobodyListens
	}
	there, back := newOneWay(), newOneWay()
	arriving := m.end(&memoryConn{in: there, out: back, local: l.own, remote: from})
	select {
	case l.arriving <- arriving:
		return manet.WrapNetConn(over.end(m.end(&memoryConn{in: back, out: there, local: from, remote: l.own, hear: hear})))
	case <-l.closed:
		return nil, errors.Join(errNobodyListens, arriving.Close())
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), arriving.Close())
	}
}

// end counts an end of a connection.
func (m *memory) end(c *memoryConn) net.Conn {
	m.mu.Lock()
	defer m.mu.Unlock()
	c.memory = m
	m.open++
	return c
}

type memoryListener struct {
	memory   *memory
	own      *net.TCPAddr
	arriving chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.arriving:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.memory.mu.Lock()
		defer l.memory.mu.Unlock()
		delete(l.memory.listeners, l.own.String())
	})
	return nil
}

func (l *memoryListener) Addr() net.Addr { return l.own }

// memoryConn is one end of a connection. Like a socket it takes writes into a buffer. Otherwise a
// writer could wait for its reader while it holds a mutex, as the multiplexer does when it closes.
// That would stop the clock of synctest for good.
type memoryConn struct {
	in, out       *oneWay
	memory        *memory
	local, remote *net.TCPAddr
	hear          func(n int)
	once          sync.Once
	read, write   expiry
}

func (c *memoryConn) Read(b []byte) (int, error) { return c.in.read(b, &c.read) }

// Write fails once the other end has closed the connection and its last bytes have been read here. Until then nothing has
// told this end so, as over TCP, and what is written is lost on its way. Otherwise a write could fail before the reader has
// met the reason of the end, which libp2p would drop.
func (c *memoryConn) Write(b []byte) (int, error) {
	if c.hear != nil {
		c.hear(len(b))
	}
	n, err := c.out.write(b, &c.write)
	if errors.Is(err, io.ErrClosedPipe) && !c.in.over() {
		return len(b), nil
	}
	return n, err
}

func (c *memoryConn) SetReadDeadline(t time.Time) error  { c.read.set(t); return nil }
func (c *memoryConn) SetWriteDeadline(t time.Time) error { c.write.set(t); return nil }
func (c *memoryConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *memoryConn) LocalAddr() net.Addr  { return c.local }
func (c *memoryConn) RemoteAddr() net.Addr { return c.remote }

func (c *memoryConn) Close() error {
	c.once.Do(func() {
		c.in.close(true)
		c.out.close(false)
		c.read.set(time.Time{}) // stops their timers
		c.write.set(time.Time{})
		c.memory.mu.Lock()
		defer c.memory.mu.Unlock()
		c.memory.open--
	})
	return nil
}

// socketBuffer is the number of bytes that a writer may be ahead of its reader.
const socketBuffer = 1 << 20

// oneWay carries bytes from one end of a connection to the other.
type oneWay struct {
	mu                   sync.Mutex
	data                 []byte
	writerGone, dropsAll bool          // closed by its writer; by its reader
	changed              chan struct{} // closed at the next change
}

func newOneWay() *oneWay { return &oneWay{changed: make(chan struct{})} }

// change wakes who waits; the caller holds mu.
func (w *oneWay) change() {
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *oneWay) close(byReader bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dropsAll, w.writerGone = w.dropsAll || byReader, w.writerGone || !byReader
	w.change()
}

// over says whether its reader has met the end.
func (w *oneWay) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writerGone && len(w.data) == 0
}

func (w *oneWay) read(b []byte, until *expiry) (int, error) {
	for {
		w.mu.Lock()
		n := copy(b, w.data)
		w.data = w.data[n:]
		gone, drops, changed := w.writerGone, w.dropsAll, w.changed
		if n > 0 {
			w.change()
		}
		w.mu.Unlock()
		switch {
		case drops:
			return 0, net.ErrClosed
		case n > 0 || len(b) == 0:
			return n, nil
		case gone:
			return 0, io.EOF
		}
		select {
		case <-changed:
		case <-until.passed():
			return 0, os.ErrDeadlineExceeded
		}
	}
}

func (w *oneWay) write(b []byte, until *expiry) (int, error) {
	for {
		w.mu.Lock()
		gone, drops, full, changed := w.writerGone, w.dropsAll, len(w.data) >= socketBuffer, w.changed
		if !gone && !drops && !full {
			w.data = append(w.data, b...)
			w.change()
		}
		w.mu.Unlock()
		switch {
		case gone:
			return 0, net.ErrClosed
		case drops:
			return 0, io.ErrClosedPipe
		case !full:
			return len(b), nil
		}
		select {
		case <-changed:
		case <-until.passed():
			return 0, os.ErrDeadlineExceeded
		}
	}
}

// expiry is a deadline that can be moved while something waits for it.
type expiry struct {
	mu    sync.Mutex
	timer *time.Timer
	done  chan struct{} // closed once the deadline has passed
}

func (e *expiry) set(t time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.timer != nil && !e.timer.Stop() || e.done == nil {
		e.done = make(chan struct{}) // the previous deadline has passed, or passes now
	}
	e.timer = nil
	if t.IsZero() {
		return
	}
	done := e.done
	e.timer = time.AfterFunc(time.Until(t), func() { close(done) })
}

func (e *expiry) passed() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.done == nil {
		e.done = make(chan struct{})
	}
	return e.done
}
