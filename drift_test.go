package fedsim_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fedsim/fedsim"
	"github.com/fedsim/fedsim/results/recommend"
)

// TestFinishedRunsFollowDrift checks that a finished run, asked for the errors of its tests, returns the measured errors, at the times of tests.
func TestFinishedRunsFollowDrift(t *testing.T) {
	dir := t.TempDir()
	var csv strings.Builder
	csv.WriteString("user,item,rating,timestamp\n")
	for u := range 40 {
		for j := range 30 {
			fmt.Fprintf(&csv, "%d,%d,%d,%d\n", u, j, 2+(u*7+j*3)%2+2*((j+u)%2), 86_400*(j%2)+10*j)
		}
	}
	data := filepath.Join(dir, "ratings.csv")
	if err := os.WriteFile(data, []byte(csv.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := fedsim.Run(t.Context(), fedsim.Options{Keep: true, Settings: map[string]string{
		"algorithm": "private-item-bias", "data": data, "rating-min": "1", "rating-max": "5", "baselines": "quick", "epsilon": "100", "out": dir, "name": "one",
	}})
	if err != nil {
		t.Fatal(err)
	}
	finished, err := recommend.Open(t.Context(), r.Folder, recommend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var n, squares float64
	if err := finished.EachError(func(_ int, d float64) { n, squares = n+1, squares+d*d }); err != nil {
		t.Fatal(err)
	}
	if got := math.Sqrt(squares / n); math.Abs(got-r.TestRMSE) > 1e-9 {
		t.Errorf("the finished run has an RMSE of %v, and had %v", got, r.TestRMSE)
	}
}
