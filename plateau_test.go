package fedsim_test

import (
	"testing"

	"github.com/fedsim/fedsim"
	"github.com/fedsim/fedsim/internal/effort"
)

// A larger ε is never worse than the ε before it by more than 0.01 RMSE, the scatter over seeds of this small set. A very large ε
// comes within 0.01 of the run without noise. Posteriors stay once they are chosen, as 16 rounds after the second show.
func TestErrorFallsToThatWithoutNoise(t *testing.T) {
	effort.NotShort(t, "a run for each budget")
	t.Parallel()
	data := effort.Of("", "synthetic:small-100", "synthetic:small")
	run := func(epsilon string) (rmse float64, rounds int) {
		r, err := fedsim.Run(t.Context(), fedsim.Options{Settings: map[string]string{"algorithm": "ssp-c", "data": data, "epsilon": epsilon, "baselines": "quick"}})
		if err != nil {
			t.Fatal(err)
		}
		return r.RMSE(), r.Rounds
	}
	without, _ := run("inf")
	last, before := 10., 0
	for _, epsilon := range effort.Of(nil, []string{"5", "1e9"}, []string{"20", "100", "700", "3000", "25000", "1e6", "1e9"}) {
		got, rounds := run(epsilon)
		if got > last+0.01 {
			t.Errorf("epsilon %s: RMSE %.4f; %.4f at the epsilon before", epsilon, got, last)
		}
		if rounds < before {
			t.Errorf("epsilon %s takes %d rounds; a smaller one takes %d", epsilon, rounds, before)
		}
		last, before = got, rounds
	}
	if last > without+0.01 {
		t.Errorf("RMSE %.4f at epsilon 1e9; %.4f without noise", last, without)
	}
}
