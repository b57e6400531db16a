package secagg_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
	"github.com/fedsim/fedsim/secagg/graph"
)

// Losses at all stages together, in every way to spread at most 2 of them.
func TestDropoutsAtSeveralStages(t *testing.T) {
	for _, mode := range []graph.Mode{graph.SemiHonest, graph.Active} {
		for _, losses := range spread(2, 4) {
			t.Run(fmt.Sprintf("%s/%v", mode, losses), func(t *testing.T) {
				p := plan(10, releases()...)
				p.Cohort = protocol.Cohort{Clients: 10, Tolerance: 0.2, Colluders: 0.05}
				f := newFederation(t, p, secagg.Params{Mode: mode})
				gone := f.losing(losses)
				got, err := f.aggregator.Sum(serial{})
				if d := cmp.Diff(f.sum(func(i int) bool { return i >= gone[protocol.StageMaskedInput] }), got); err != nil || d != "" {
					t.Fatalf("error %v, sum (-want +got):\n%s", err, d)
				}
			})
		}
	}
}

// Clients drop out where noise is replaced: the two sums are over different clients.
func TestDropoutsAtSeveralStagesOfReplacedNoise(t *testing.T) {
	for _, losses := range spread(2, 5) {
		t.Run(fmt.Sprint(losses), func(t *testing.T) {
			f := newFederation(t, replacing(protocol.Cohort{Clients: 10, Tolerance: 0.2, Colluders: 0.05}), secagg.Params{})
			f.change()
			gone := f.losing(losses)
			got, err := f.aggregator.Sum(serial{})
			want := f.sumOf(func(i int) bool { return i >= gone[protocol.StageMaskedInput] }, func(i int) bool { return i >= gone[protocol.StageUnmask] })
			if d := cmp.Diff(want, got); err != nil || d != "" {
				t.Fatalf("error %v, sum (-want +got):\n%s", err, d)
			}
		})
	}
}

// spread are all ways to lose at most so many clients at some stages.
func spread(most, stages int) [][]int {
	if stages == 0 {
		return [][]int{nil}
	}
	var out [][]int
	for n := range most + 1 {
		for _, rest := range spread(most-n, stages-1) {
			out = append(out, append([]int{n}, rest...))
		}
	}
	return out
}

// losing goes through all stages, and loses clients at each but consistency. It says
// how many are gone by the end of a stage, from the first client on.
func (f *federation) losing(losses []int) map[protocol.Stage]int {
	f.t.Helper()
	lost, gone := 0, make(map[protocol.Stage]int)
	for _, s := range f.stages() {
		if s != protocol.StageConsistency {
			f.lose(lost, losses[0])
			lost, losses = lost+losses[0], losses[1:]
		}
		gone[s] = lost
		if err := f.stage(s); err != nil {
			f.t.Fatalf("%s: %v", s, err)
		}
	}
	return gone
}

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
		choice, err := graph.Choose(secagg.Params{Rounds: 1}.Graph(c.plan.Setup()))
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
