package peer

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
)

// Limits of a slow line. A line is not cut as long as it carries leastRate.
const (
	// leastRate is the bytes a second that a stream carries at least. Each byte that moves earns its
	// share of a second, so that a peer that takes a byte now and then holds a stream no longer.
	leastRate = 4 << 10
	// window is the most bytes of a stream that are on their way at a time. A multiplexer shows that
	// bytes have moved when a half of them has, and what it asks a peer to confirm waits behind them.
	window = 512 << 10
	// Patience is the time that a whole window takes at leastRate. A stream on which less moves is
	// given up.
	Patience = window / leastRate * time.Second
)

// Steady makes the deadlines of a stream go by what moves. A deadline that was set for so much time
// from now is put off by 1 s for every leastRate bytes, to at most as much time from then. A stream that
// carries leastRate never meets its deadline. A stream that stands still meets it when it is due.
func Steady(s network.Stream) network.Stream { return &steady{Stream: s} }

type steady struct {
	network.Stream
	in, out allowance
}

func (s *steady) SetReadDeadline(t time.Time) error {
	return s.in.set(t, s.Stream.SetReadDeadline)
}

func (s *steady) SetWriteDeadline(t time.Time) error {
	return s.out.set(t, s.Stream.SetWriteDeadline)
}

func (s *steady) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}

func (s *steady) Read(b []byte) (int, error) {
	for {
		n, err := s.Stream.Read(b)
		s.in.moved(n)
		if n > 0 || !expired(err) || !s.in.renew(s.Stream.SetReadDeadline) {
			return n, err
		}
	}
}

func (s *steady) Write(b []byte) (int, error) {
	written := 0
	for {
		n, err := s.Stream.Write(b[written:])
		written += n
		s.out.moved(n)
		if !expired(err) || !s.out.renew(s.Stream.SetWriteDeadline) {
			return written, err
		}
	}
}

func expired(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// allowance is the time that one direction of a stream has.
type allowance struct {
	mu    sync.Mutex
	span  time.Duration // for which the deadline was set; 0: there is none
	until time.Time
}

// set takes a deadline as a stream's user sets it.
func (a *allowance) set(t time.Time, set func(time.Time) error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.until, a.span = t, 0
	if !t.IsZero() {
		a.span = max(time.Until(t), 0)
	}
	return set(t)
}

// moved puts the deadline off.
func (a *allowance) moved(n int) {
	if n == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.span > 0 {
		earned, most := a.until.Add(time.Duration(n)*time.Second/leastRate), time.Now().Add(a.span)
		if a.until = earned; most.Before(earned) {
			a.until = most
		}
	}
}

// renew sets the next deadline of a stream whose deadline has passed. It is false if the next one is over, too.
func (a *allowance) renew(set func(time.Time) error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.span > 0 && time.Now().Before(a.until) && set(a.until) == nil
}
