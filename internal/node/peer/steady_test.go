package peer

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
)

// piped is a stream over one end of a net.Pipe.
type piped struct {
	network.Stream
	pipe net.Conn
}

func (p *piped) Read(b []byte) (int, error)         { return p.pipe.Read(b) }
func (p *piped) Write(b []byte) (int, error)        { return p.pipe.Write(b) }
func (p *piped) Close() error                       { return p.pipe.Close() }
func (p *piped) SetDeadline(t time.Time) error      { return p.pipe.SetDeadline(t) }
func (p *piped) SetReadDeadline(t time.Time) error  { return p.pipe.SetReadDeadline(t) }
func (p *piped) SetWriteDeadline(t time.Time) error { return p.pipe.SetWriteDeadline(t) }

// pace moves bytes over a stream whose other end carries so many at a time and pauses in between, in either
// direction, and says how long that took.
func pace(t *testing.T, size, at int, pause, deadline time.Duration, write bool) (took time.Duration, err error) {
	t.Helper()
	own, other := net.Pipe()
	s := Steady(&piped{pipe: own})
	text := bytes.Repeat([]byte{7}, size)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for left := size; left > 0; left -= min(at, left) {
			time.Sleep(pause)
			if n := min(at, left); write {
				if _, failed := io.ReadFull(other, make([]byte, n)); failed != nil {
					return
				}
			} else if _, failed := other.Write(text[:n]); failed != nil {
				return
			}
		}
	}()
	if err = s.SetDeadline(time.Now().Add(deadline)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if write {
		_, err = s.Write(text)
	} else {
		_, err = io.ReadFull(s, make([]byte, size))
	}
	took = time.Since(began)
	_ = errors.Join(own.Close(), other.Close())
	<-done
	return took, err
}

// A megabyte at 5,120 bytes a second takes 205 s, with a deadline of 30 s. At 1,024 bytes a second, a quarter of
// leastRate, 30 s earn a quarter of themselves, that a quarter again, and so on: 40 s in all. A peer that
// takes nothing has its 30 s.
func TestDeadlineGoesByBytes(t *testing.T) {
	for name, c := range map[string]struct {
		at    int
		pause time.Duration
		least time.Duration
		most  time.Duration
		fails bool
	}{
		"slow":              {5 << 10, time.Second, 204 * time.Second, 206 * time.Second, false},
		"slow, in spurts":   {100 << 10, 20 * time.Second, 200 * time.Second, 220 * time.Second, false},
		"a byte at a time":  {1, time.Second, 30 * time.Second, 31 * time.Second, true},
		"a quarter of that": {1 << 10, time.Second, 39 * time.Second, 41 * time.Second, true},
		"nothing":           {1, time.Hour, 30 * time.Second, 30 * time.Second, true},
	} {
		for _, write := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					took, err := pace(t, 1<<20, c.at, c.pause, 30*time.Second, write)
					if took < c.least || took > c.most || errors.Is(err, os.ErrDeadlineExceeded) != c.fails {
						t.Errorf("writing %v: %v after %v, want %v to %v", write, err, took, c.least, c.most)
					}
				})
			})
		}
	}
}

// Bytes that moved fast earn no time beyond the deadline's: a megabyte at once, and then nothing.
func TestFastBytesEarnNoDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own, other := net.Pipe()
		s := Steady(&piped{pipe: own})
		go func() {
			_, _ = io.CopyN(io.Discard, other, 1<<20)
		}()
		_ = s.SetDeadline(time.Now().Add(30 * time.Second))
		began := time.Now()
		n, err := s.Write(make([]byte, 2<<20))
		if took := time.Since(began); n != 1<<20 || !errors.Is(err, os.ErrDeadlineExceeded) || took > time.Minute {
			t.Errorf("%d bytes after %v, %v", n, took, err)
		}
		_ = errors.Join(own.Close(), other.Close())
	})
}
