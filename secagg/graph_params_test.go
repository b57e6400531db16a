package secagg

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fedsim/fedsim/protocol"
)

// In a complete graph every client has exactly c colluding neighbours and n-1-d that are certain to
// answer. The graph is refused if and only if no t lies between. The remedies of the error are
// checked at their promised numbers, and one beyond.
func TestGraphRefusals(t *testing.T) {
	// out is the least t that keeps colluders out; in active mode, two groups of
	// t neighbours that share the c colluders only would be more than there are.
	out := func(n, c int, m Mode) int {
		for thresh := 1; ; thresh++ {
			if m == SemiHonest && thresh > c || m == Active && 2*thresh-c > n-1 {
				return thresh
			}
		}
	}
	feasible := func(n, c, d int, m Mode) bool { return out(n, c, m) <= n-1-d }
	for n := 2; n <= 24; n++ {
		for c := range n {
			for d := range n {
				for _, m := range []Mode{SemiHonest, Active} {
					p := GraphParams{Cohort: protocol.Cohort{Clients: n, Colluders: float64(c) / float64(n), Tolerance: float64(d) / float64(n)}, Mode: m, Rounds: 3}
					_, err := p.Choose()
					if feasible(n, c, d, m) {
						if err != nil {
							t.Errorf("%+v: %v", p, err)
						}
						continue
					}
					var e *RefusedError
					if !errors.As(err, &e) {
						t.Errorf("%+v: error %v, want a refusal", p, err)
						continue
					}
					if e.MaxColluding >= 0 && !feasible(n, e.MaxColluding, d, m) || feasible(n, max(0, e.MaxColluding+1), d, m) {
						t.Errorf("%v: %d colluders is not the most", e, e.MaxColluding)
					}
					if e.MaxLost >= 0 && !feasible(n, c, e.MaxLost, m) || feasible(n, c, max(0, e.MaxLost+1), m) {
						t.Errorf("%v: %d lost is not the most", e, e.MaxLost)
					}
					if e.Answering != n-1-d || e.Threshold != out(n, c, m) {
						t.Errorf("%v: threshold %d, %d answering", e, e.Threshold, e.Answering)
					}
				}
			}
		}
	}
}

func TestRefusalSaysWhatWouldDo(t *testing.T) {
	for _, c := range []struct {
		colluders, tolerance float64
		mode                 Mode
		want                 string
	}{
		{.6, .4, SemiHonest, "of 10 clients, 4 may be lost and 6 may collude (semi-honest): even if all are neighbours, " +
			"keeping colluders out takes a threshold of at least 7, and only 5 neighbours are certain to answer; at most 4 colluders or at most 2 lost would do"},
		{.3, .5, Active, "at most 2 lost would do"},
		{.9, .3, Active, "; at most 2 colluders would do"},
		{.9, .9, SemiHonest, "lower both the tolerance and the colluders"},
	} {
		_, err := GraphParams{Cohort: protocol.Cohort{Clients: 10, Colluders: c.colluders, Tolerance: c.tolerance}, Mode: c.mode, Rounds: 1}.Choose()
		if err == nil || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("error %q, want it to end in %q", fmt.Sprint(err), c.want)
		}
	}
}

func TestRosterOutsideThePlan(t *testing.T) {
	p := GraphParams{Cohort: protocol.Cohort{Clients: 100, Tolerance: .3, Colluders: .1}, Rounds: 1}
	for n, ok := range map[int]bool{-1: false, 0: false, 69: false, 70: true, 100: true, 101: false} {
		if _, err := p.ForRoster(n); errors.Is(err, ErrRoster) == ok || (err == nil) != ok {
			t.Errorf("%d on the roster: %v", n, err)
		}
	}
}

func TestGraphParamsReportEverything(t *testing.T) {
	err := GraphParams{Cohort: protocol.Cohort{Clients: 1, Tolerance: 1, Colluders: math.NaN()}, Mode: 7}.Validate()
	for _, want := range []string{
		"clients is 1;", "tolerance is 1;", "colluders is NaN;", "mode is 7; it must be 0 (semi-honest) or 1 (active)", "rounds is 0;",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", fmt.Sprint(err), want)
		}
	}
	if _, err := (GraphParams{Cohort: protocol.Cohort{Clients: MaxClients + 1, Tolerance: -1}}).Choose(); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("error %q, want three lines", fmt.Sprint(err))
	}
	if got := Mode(7).String(); got != "mode(7)" {
		t.Errorf("%q", got)
	}
}

// The graph, the noise and the quorum must count the same colluders and survivors.
func TestCountsAreTheCohorts(t *testing.T) {
	check := func(t rapid.TB, p GraphParams) {
		c := protocol.Cohort{Clients: p.Clients, Tolerance: p.Tolerance, Colluders: p.Colluders}
		if p.Required() != c.Required() || p.Colluding() != c.Colluding() {
			t.Errorf("required %d, colluding %d; the cohort says %d, %d", p.Required(), p.Colluding(), c.Required(), c.Colluding())
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		check(rt, GraphParams{
			Cohort: protocol.Cohort{
				Clients:   rapid.IntRange(2, MaxClients).Draw(rt, "clients"),
				Tolerance: float64(rapid.IntRange(0, 999).Draw(rt, "tolerance")) / 1000,
				Colluders: float64(rapid.IntRange(0, 999).Draw(rt, "colluders")) / 1000,
			},
		})
	})
	check(t, GraphParams{Cohort: protocol.Cohort{Clients: 10, Tolerance: .3, Colluders: 1e-12}}) // one colluder, all the same
}
