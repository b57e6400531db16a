package internal_test

import (
	"errors"
	"net"
	"os/exec"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fedsim/fedsim/internal/testutil"
)

// Ports are outside of the ranges of dialled connections: from 32768 on Linux, from 49152 elsewhere (RFC 6335, section 6).
// No port is given twice, and none that is taken.
func TestPorts(t *testing.T) {
	seen := make(map[string]bool)
	for range 100 {
		p := testutil.Port(t)
		if seen[p] || len(p) != 5 || p < "20000" || p >= "32768" {
			t.Fatalf("port %s after %v", p, seen)
		}
		seen[p] = true
	}
	last, err := strconv.Atoi(testutil.Port(t))
	if err != nil {
		t.Fatal(err)
	}
	next := strconv.Itoa(20000 + (last+1-20000)%12000) // ports are given in turn
	l, err := net.Listen("tcp", "127.0.0.1:"+next)
	if err != nil {
		t.Skip(err) // another program has it
	}
	defer l.Close() //nolint:errcheck // nothing connects
	if p := testutil.Port(t); p == next {
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

// A process that does not end is killed after the longest limit, an hour, which fails its test. A process that has ended by then
// does not fail it.
func TestLimit(t *testing.T) {
	for _, c := range []struct {
		runs time.Duration // of the test
		ends bool          // by itself
		want bool
	}{{time.Minute, true, false}, {2 * time.Hour, false, true}, {2 * time.Hour, true, false}} {
		synctest.Test(t, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "sleep", "600")
			if err := cmd.Start(); errors.Is(err, exec.ErrNotFound) {
				t.Skip(err) // a system without the command
			} else if err != nil {
				t.Fatal(err)
			}
			if c.ends {
				_, _ = cmd.Process.Kill(), cmd.Wait()
			}
			f, asked := &fails{TB: t}, 0
			testutil.Limit(f, func() error {
				asked++
				return cmd.Process.Kill()
			})
			time.Sleep(c.runs)
			synctest.Wait()
			if late := c.runs > time.Hour; late != (asked == 1) {
				t.Errorf("after %v the process is asked to end %d times", c.runs, asked)
			}
			if !c.ends {
				_, _ = cmd.Process.Kill(), cmd.Wait()
			}
			f.cleanup()
			if f.failed != c.want {
				t.Errorf("after %v, ended %v: failed %v, want %v", c.runs, c.ends, f.failed, c.want)
			}
		})
	}
}
