package secagg_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
	"github.com/fedsim/fedsim/secagg/graph"
)

// The dropout matrix: stage × how many are lost × graph × mode × whether noise is
// replaced. Up to the tolerance every cell is the plain sum over those whose masked
// input arrived, and of what noise changes by over those whose answer to unmask did;
// the aggregator's role ends the iteration beyond it, before the sum is asked for.
func TestDropoutMatrix(t *testing.T) {
	for _, c := range []struct {
		name               string
		n                  int
		tolerance, collude float64
		course             protocol.Course
	}{
		{"complete", 9, 0.5, 0.2, protocol.Course{}},
		{"sparse", 60, 0.1, 0.05, protocol.Course{}},
		{"complete active", 12, 0.17, 0.05, protocol.Course{Confirms: true}},
		{"complete replaced", 9, 0.5, 0.2, protocol.Course{Replaces: true}},
		{"sparse replaced", 60, 0.1, 0.05, protocol.Course{Replaces: true}},
	} {
		cohort := protocol.Cohort{Clients: c.n, Tolerance: c.tolerance, Colluders: c.collude}
		mode, p := graph.SemiHonest, plan(c.n, releases()...)
		p.Cohort = cohort
		if c.course.Confirms {
			mode = graph.Active
		}
		if c.course.Replaces {
			p = replacing(cohort)
		}
		choice, err := graph.Choose(secagg.Params{Mode: mode, Iterations: 1}.Graph(p.Setup()))
		if err != nil || choice.Complete == strings.HasPrefix(c.name, "sparse") {
			t.Fatalf("%s: the graph is %+v, %v", c.name, choice, err)
		}
		for stage := range protocol.Stages {
			if !c.course.Has(stage) {
				continue
			}
			tolerated := c.n - cohort.Required()
			for _, lost := range []int{0, 1, c.n / 10, tolerated} {
				t.Run(fmt.Sprintf("%s/%s/%d", c.name, stage, lost), func(t *testing.T) {
					f := newFederation(t, p, secagg.Params{Mode: mode})
					f.change()
					for _, s := range f.stages() {
						if s == stage {
							f.lose(c.n/3, lost)
						}
						if err := f.stage(s); err != nil {
							t.Fatal(err)
						}
					}
					got, err := f.aggregator.Sum(serial{})
					want := f.sumOf(func(i int) bool { return f.alive[i] || stage > protocol.StageMaskedInput },
						func(i int) bool { return f.alive[i] || stage > protocol.StageUnmask })
					if d := cmp.Diff(want, got); err != nil || d != "" {
						t.Errorf("error %v, sum (-want +got):\n%s", err, d)
					}
				})
			}
		}
	}
}

// Losses at all stages together, in every way to spread them.
func TestDropoutsAtSeveralStages(t *testing.T) {
	for _, mode := range []graph.Mode{graph.SemiHonest, graph.Active} {
		for pattern := range 3 * 3 * 3 * 3 {
			p := plan(10, releases()...)
			p.Cohort = protocol.Cohort{Clients: 10, Tolerance: 0.2, Colluders: 0.05}
			f := newFederation(t, p, secagg.Params{Mode: mode})
			lost, survivors, left := 0, 0, pattern
			for k, s := range f.stages() {
				if s != protocol.StageConsistency {
					now := min(left%3, 2-lost)
					f.lose(lost, now)
					lost, left = lost+now, left/3
				}
				if s == protocol.StageMaskedInput {
					survivors = lost
				}
				if err := f.stage(s); err != nil {
					t.Fatalf("pattern %d, stage %d: %v", pattern, k, err)
				}
			}
			got, err := f.aggregator.Sum(serial{})
			if d := cmp.Diff(f.sum(func(i int) bool { return i >= survivors }), got); err != nil || d != "" {
				t.Fatalf("%s, pattern %d: error %v, sum (-want +got):\n%s", mode, pattern, err, d)
			}
		}
	}
}

// The same where noise is replaced, with the two sums over different clients.
func TestDropoutsAtSeveralStagesOfReplacedNoise(t *testing.T) {
	for pattern := range 3 * 3 * 3 * 3 * 3 {
		f := newFederation(t, replacing(protocol.Cohort{Clients: 10, Tolerance: 0.2, Colluders: 0.05}), secagg.Params{})
		f.change()
		lost, left := 0, pattern
		gone := make(map[protocol.Stage]int) // by the end of a stage, from the first client on
		for _, s := range f.stages() {
			now := min(left%3, 2-lost)
			f.lose(lost, now)
			lost, left = lost+now, left/3
			gone[s] = lost
			if err := f.stage(s); err != nil {
				t.Fatalf("pattern %d, stage %s: %v", pattern, s, err)
			}
		}
		got, err := f.aggregator.Sum(serial{})
		want := f.sumOf(func(i int) bool { return i >= gone[protocol.StageMaskedInput] }, func(i int) bool { return i >= gone[protocol.StageUnmask] })
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Fatalf("pattern %d: error %v, sum (-want +got):\n%s", pattern, err, d)
		}
	}
}

// One client's change may be wider than the ring: the sum is what has to fit.
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
		choice, err := graph.Choose(secagg.Params{Iterations: 1}.Graph(c.plan.Setup()))
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
