package testutil

import (
	"errors"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Ports are outside of the ranges of dialled connections: from 32768 on Linux, from 49152 elsewhere (RFC 6335, section 6).
// No port is given twice, and none that is taken.
func TestPorts(t *testing.T) {
	seen := make(map[string]bool)
	for range 100 {
		p := Port(t)
		if seen[p] || len(p) != 5 || p < "20000" || p >= "32768" {
			t.Fatalf("port %s after %v", p, seen)
		}
		seen[p] = true
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+Port(t))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nothing connects
	next.Store(uint32(l.Addr().(*net.TCPAddr).Port - firstPort - 1))
	if p := Port(t); strings.HasSuffix(l.Addr().String(), p) {
		t.Errorf("port %s is taken", p)
	}
}

// fails is a test that may fail.
type fails struct {
	testing.TB
	cleanup func()
	failed  bool
}

func (f *fails) Helper()               {}
func (f *fails) Cleanup(c func())      { f.cleanup = c }
func (f *fails) Errorf(string, ...any) { f.failed = true }

// A process that does not end is killed, which fails its test. A process that has ended by then does not fail it.
func TestLimit(t *testing.T) {
	for _, c := range []struct {
		limit time.Duration
		ends  bool // by itself
		want  bool
	}{{time.Hour, true, false}, {time.Millisecond, false, true}, {time.Millisecond, true, false}} {
		cmd := exec.CommandContext(t.Context(), "sleep", "600")
		if err := cmd.Start(); errors.Is(err, exec.ErrNotFound) {
			t.Skip(err) // a system without the command
		} else if err != nil {
			t.Fatal(err)
		}
		if c.ends {
			_, _ = cmd.Process.Kill(), cmd.Wait()
		}
		f, asked := &fails{TB: t}, make(chan struct{}, 2)
		killAfter(f, c.limit, func() error {
			asked <- struct{}{}
			return cmd.Process.Kill()
		})
		if c.limit < time.Hour {
			<-asked
		}
		if !c.ends {
			_ = cmd.Wait() // it was killed
		}
		f.cleanup()
		if f.failed != c.want {
			t.Errorf("limit %v, ended %v: failed %v, want %v", c.limit, c.ends, f.failed, c.want)
		}
	}
}
