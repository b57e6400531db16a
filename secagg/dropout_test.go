package secagg_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// One client's change may be wider than the ring, since only the sum has to fit.
func TestChangeWiderThanTheRing(t *testing.T) {
	f := newFederation(t, replacing(protocol.Cohort{Clients: 10, Tolerance: 0.2, Colluders: 0.05}), secagg.Params{})
	f.change()
	const wide = 1 << 60 // of 45 bits
	f.removals[3][1].Value[0] += wide
	f.removals[7][1].Value[0] -= wide
	f.through(f.last())
	got, err := f.aggregator.Sum(serial{})
	all := func(int) bool { return true }
	if d := cmp.Diff(f.sumOf(all, all), got); err != nil || d != "" {
		t.Errorf("error %v, sum (-want +got):\n%s", err, d)
	}
}

// So many lost that a secret cannot be restored: the sum says whose, and where
// that is known before clients unmask, before they do.
func TestUnrecoverable(t *testing.T) {
	plain := plan(10, releases()...)
	plain.Cohort = protocol.Cohort{Clients: 10, Tolerance: 0.3, Colluders: 0.1}
	for _, c := range []struct {
		plan   *protocol.Plan
		stages []protocol.Stage
	}{
		{plain, []protocol.Stage{protocol.StageShare, protocol.StageMaskedInput, protocol.StageUnmask}},
		{replacing(plain.Cohort), []protocol.Stage{protocol.StageShare, protocol.StageMaskedInput, protocol.StageUnmask, protocol.StageReplace}},
	} {
		choice, err := secagg.Params{Rounds: 1}.Graph(c.plan.Setup()).Choose()
		if err != nil {
			t.Fatal(err)
		}
		for i, stage := range c.stages {
			f := newFederation(t, c.plan, secagg.Params{})
			f.change()
			f.through(protocol.StageAdvertise)
			for _, s := range c.stages[:i] {
				if err := f.stage(s); err != nil {
					t.Fatal(err)
				}
			}
			f.lose(choice.Threshold-1, 10-choice.Threshold+1) // all but t-1
			err := f.stage(stage)
			if last := i == len(c.stages)-1; last && err == nil {
				_, err = f.aggregator.Sum(serial{})
			}
			var lost *protocol.Unrecoverable
			if !errors.As(err, &lost) || lost.Left >= choice.Threshold || lost.Required != choice.Threshold {
				t.Errorf("all but %d lost at %s: %v, want Unrecoverable with %d required", choice.Threshold-1, stage, err, choice.Threshold)
			}
		}
	}
}
