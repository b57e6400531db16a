package audit

import (
	"math"
	"testing"
)

// Run i of the two worlds differs in the unit's vectors alone: their inner product with themselves, in units of the noise, follows from
// the plan. All removals agree, so that both worlds lost the same clients. Different runs draw different noise.
func TestWorldsOfARunDifferInTheUnitAlone(t *testing.T) {
	t.Parallel()
	for _, settings := range []string{
		"epsilon=5 tolerance=0.5 dropout=0.4 dropout-at=unmask colluders=0.2",
		"epsilon=5 noise=replace tolerance=0.5 dropout=0.4 dropout-at=masked-input",
		"epsilon=5 rounds=4 cohort.size=4",
	} {
		e := open(t, "algorithm=lfl-sgdmf rounds=2 "+settings)
		a, err := newAuditor(t.Context(), e, Config{Runs: 8, Seed: 1, Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		views, err := a.views(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var unit float64
		for _, x := range a.attempts {
			for k, r := range x.plan.Releases {
				for _, d := range x.shifts[k] {
					unit += float64(d) * float64(d) / r.Noise.Variance
				}
			}
		}
		for i, empty := range views[0] {
			full := views[1][i]
			if got := full.feature[inputs] - empty.feature[inputs]; math.Abs(got-unit) > 1e-9*unit {
				t.Errorf("%s, run %d: inputs differ by %g, want the unit's %g", settings, i, got, unit)
			}
			if full.feature[own] != empty.feature[own] || full.feature[others] != empty.feature[others] {
				t.Errorf("%s, run %d: removals are %v with the unit, %v without", settings, i, full.feature, empty.feature)
			}
			if i > 0 && empty.feature[inputs] == views[0][i-1].feature[inputs] {
				t.Errorf("%s: runs %d and %d draw the same noise", settings, i-1, i)
			}
		}
	}
}
