package fedssp

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// sittings are ratings of 40 users in two sittings a day apart, in one of which each gives more
// than in the other.
func sittings(t *testing.T) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(9, 9))
	var b strings.Builder
	b.WriteString("user,item,rating,timestamp\n")
	for u := range 40 {
		up := rng.IntN(2)
		for j := range 30 {
			sitting := j % 2
			stars := 3 + math.Round(2*rng.NormFloat64()*0.4)/2
			if sitting == up {
				stars++
			}
			fmt.Fprintf(&b, "%d,%d,%v,%d\n", u, j, min(max(stars, 0.5), 5), 1_000_000+86_400*sitting+10*j)
		}
	}
	return opened.File(t, b.String())
}

// Models and their errors are the same to the bit with times and without. The error with drift is measured where data have times
// and is better here, for a run and for its baselines.
func TestRunsFollowDrift(t *testing.T) {
	data := sittings(t)
	for _, algorithm := range []string{"ssp-c", "ssp-convex", "ssp-convex statistics.loss=logistic", "private-item-bias", "ssp-c epsilon=inf"} {
		rmse := make(map[string]float64)
		var matrices []model.Named
		for _, set := range []string{"yes", "no"} {
			e := opened.Experiment(t, "data="+data+" rating-min=0.5 rating-max=5 eval.drift="+set+" algorithm="+algorithm)
			s, err := e.Strategy()
			if err != nil {
				t.Fatal(err)
			}
			f := opened.Federation(t, e)
			interim, err := e.MeasureInterim(f, s.Model(), protocol.Workers(1))
			if err != nil {
				t.Fatal(err)
			}
			final, err := e.Final(f, s.Model(), protocol.Workers(2))
			if err != nil {
				t.Fatal(err)
			}
			q := e.Test.Measure(final, protocol.Workers(2))
			if interim != q {
				t.Errorf("%s: %v on the way and %v in the end, of one model", algorithm, interim, q)
			}
			rmse[set] = q.RMSE
			drift := e.Test.MeasureDrift(final, protocol.Workers(2))
			if matrices == nil {
				matrices = final.Matrices
				// A star between sittings, half of it to either side of the user's mean, beside noise of
				// 0.4 and of rounding.
				if drift == nil || !(*drift < 0.9*q.RMSE) {
					t.Errorf("%s: the error is %v with drift, %.4f without", algorithm, drift, q.RMSE)
				}
				continue
			}
			if drift != nil {
				t.Errorf("%s: without times the error with drift is %v", algorithm, *drift)
			}
			for i, m := range final.Matrices {
				if d := cmp.Diff(matrices[i].Data(), m.Data()); d != "" {
					t.Errorf("%s: %s changes with times:\n%s", algorithm, m.Name, d)
				}
			}
		}
		if rmse["yes"] != rmse["no"] {
			t.Errorf("%s: the error is %v with times, %v without", algorithm, rmse["yes"], rmse["no"])
		}
	}
}
