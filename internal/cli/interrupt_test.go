package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestInterruptedStepIsEnded has a step that ignores the end of its context, a step that stops, and a step that is not interrupted.
func TestInterruptedStepIsEnded(t *testing.T) {
	for name, c := range map[string]struct {
		step        time.Duration
		interrupted bool
		code        int
		took        time.Duration
		says        string
	}{
		"ignores it":      {time.Hour, true, Interrupted, time.Second + patience, "a step did not stop within 10s"},
		"stops":           {5 * time.Second, true, 7, 5 * time.Second, ""},
		"not interrupted": {time.Hour, false, 7, time.Hour, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.interrupted {
					time.AfterFunc(time.Second, cancel)
				}
				var stderr bytes.Buffer
				begun := time.Now()
				code := orInterrupted(ctx, &stderr, func() int { time.Sleep(c.step); return 7 })
				if took := time.Since(begun); code != c.code || took != c.took || !strings.Contains(stderr.String(), c.says) || c.says == "" && stderr.Len() > 0 {
					t.Errorf("code %d after %v, want %d after %v; it says %q", code, took, c.code, c.took, stderr.String())
				}
				time.Sleep(c.step) // until the step ends, in virtual time
			})
		})
	}
}
