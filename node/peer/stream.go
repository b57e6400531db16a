package peer

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
)

// The protocol IDs of libp2p's streams.
const (
	// ProtocolID is for the stream between a peer and the aggregator.
	ProtocolID = "/fedsim/1.0.0"
	// ClockID is for a stream that says what time it is, in whole minutes since 1970.
	ClockID = "/fedsim/clock/1.0.0"
	// EnrolID is for the stream on which an invited party enrols.
	EnrolID = "/fedsim/enrol/1.0.0"
	// RelayID is for the stream between a relay and the aggregator.
	RelayID = "/fedsim/relay/1.0.0"
	// AlignID is for the stream on which rows of users are aligned. The aggregator carries sealed envelopes from one member to another, and
	// keeps none for who is not there: what is not acknowledged is sent again.
	AlignID = "/fedsim/align/1.0.0"
)

// Time limits of the network. The aggregator sets the time limits of stages.
const (
	// DialTimeout bounds the time in which a connection comes about.
	DialTimeout = 20 * time.Second
	// RegisterTimeout bounds each step of registering.
	RegisterTimeout = 30 * time.Second
	// RedialMax bounds the pause before a broken connection is dialled again. The pause doubles from redialMin, with jitter.
	RedialMax = 15 * time.Second
	redialMin = 250 * time.Millisecond
)

// Carried is the time that bytes take on a line that is just fast enough not to be cut.
func Carried(bytes int) time.Duration { return time.Duration(bytes) * time.Second / leastRate }

// IgnoreEOF is the error of a stream that was not simply closed.
func IgnoreEOF(err error) error {
	if supplanted(err) {
		return err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, network.ErrReset) {
		return nil
	}
	return err
}

// EndWriting tells the peer that nothing follows. If the peer has reset the stream, libp2p returns
// the muxer's own error. EndWriting returns the error that a reset gives elsewhere.
func EndWriting(s network.Stream) error {
	if err := s.CloseWrite(); err != nil {
		return fmt.Errorf("%w: %w", network.ErrReset, err)
	}
	return nil
}

// Within gives a step of registering its time.
func Within(s network.Stream, d time.Duration) {
	_ = s.SetDeadline(time.Now().Add(d)) // a stream that takes none fails when it is used
}

// Limits of a slow line. A line is not cut as long as it carries leastRate.
const (
	// leastRate is the bytes a second that a stream carries at least. Each byte that moves earns its
	// share of a second, so that a peer that takes a byte now and then holds a stream no longer.
	leastRate = 4 << 10
	// window is the most bytes of a stream that are on their way at a time. A multiplexer shows that
	// bytes have moved when a half of them has, and what it asks a peer to confirm waits behind them.
	window = 512 << 10
	// Patience is the time that a whole window takes at leastRate. A stream on which less moves is given up.
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
