package external

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// started starts this binary as a program that behaves so.
func started(t *testing.T, how string, limit time.Duration) *program {
	t.Helper()
	t.Setenv(Variable, os.Args[0])
	t.Setenv("FEDSIM_TEST_EXTERNAL", how)
	p, err := start(limit)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var opening = message{Type: "open", Problem: &problem{ItemIDs: []string{"a"}}}

// TestHungProgramsAreKilled has programs that give no sign. A program that closed its output is given the limit to end.
func TestHungProgramsAreKilled(t *testing.T) {
	for _, how := range []string{"hangs at open", "closes its output at open"} {
		p := started(t, how, 100*time.Millisecond)
		late := time.AfterFunc(20*time.Second, func() { _ = p.cmd.Process.Kill() })
		_, err := p.ask("open", opening, 1000)
		if err == nil || !strings.Contains(err.Error(), "gave no sign for 100ms and was stopped; external.limit is the limit") {
			t.Errorf("%s: %v", how, err)
		}
		if !late.Stop() || p.cmd.ProcessState == nil || p.cmd.ProcessState.Success() {
			t.Errorf("%s: its process is %v; it must be killed at the limit", how, p.cmd.ProcessState)
		}
		if _, again := p.ask("open", opening, 1000); !errors.Is(again, err) {
			t.Errorf("%s: asked again it says %v, want the first error", how, again)
		}
	}
}

// TestStopEndsAProgramThatHangs checks that a program is stopped at once, whatever its limit.
func TestStopEndsAProgramThatHangs(t *testing.T) {
	p := started(t, "hangs at open", time.Hour)
	x := &instance{running: []*program{p}}
	time.AfterFunc(100*time.Millisecond, x.Stop)
	if _, err := p.ask("open", opening, 1000); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that the call was cancelled", err)
	}
	if p.cmd.ProcessState == nil || p.cmd.ProcessState.Success() {
		t.Errorf("its process is %v; it must be killed", p.cmd.ProcessState)
	}
}

// TestProcessOfAKilledProgramHoldsNothingUp has a program that started another process, which holds its output. Both end.
func TestProcessOfAKilledProgramHoldsNothingUp(t *testing.T) {
	gone := beside(t)
	t.Setenv(Variable, `["/bin/sh", "-c", "sleep 600 >$BESIDE & sleep 600"]`)
	p, err := start(100 * time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if _, err := p.ask("open", opening, 1000); err == nil || !strings.Contains(err.Error(), "gave no sign") {
		t.Errorf("%v", err)
	}
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("it took %v to give up", took)
	}
	gone()
}
