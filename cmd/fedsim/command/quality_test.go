package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/verb"
	"github.com/fedsim/fedsim/results"
)

// trained runs the command and returns its summary.
func trained(t *testing.T, args ...string) results.Summary {
	t.Helper()
	var out, errs bytes.Buffer
	args = append([]string{"run", "--format", "json", "--out", t.TempDir()}, args...)
	if code := run(context.Background(), args, verb.Streams{Out: &out, Err: &errs}); code != cli.Done {
		t.Fatalf("fedsim %v: exit %d: %s", args, code, errs.String())
	}
	var s results.Summary
	if err := json.Unmarshal(out.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// gains runs seeds 1 to 5 and returns mean and deviation of what cooperating
// gains in test RMSE over the same users fitted alone to the same start.
func gains(t *testing.T, args ...string) (mean, deviation float64) {
	t.Helper()
	const seeds = 5
	var gain [seeds]float64
	for i := range gain {
		s := trained(t, append(args, "--baselines", "quick", "--seed", strconv.Itoa(i+1))...)
		alone, measured := s.Baselines.Of("before_cooperation")
		if !measured {
			t.Fatal("no before_cooperation was measured")
		}
		gain[i] = alone - s.TestRMSE
		mean += gain[i] / seeds
	}
	for _, g := range gain {
		deviation += (g - mean) * (g - mean) / (seeds - 1)
	}
	return mean, math.Sqrt(deviation)
}

// The default experiment is one where cooperating helps by more than the
// deviation over five seeds: what the README promises.
func TestCooperationHelpsByDefault(t *testing.T) {
	effort.LongOnly(t, "runs of full size take seconds")
	t.Parallel()
	if mean, deviation := gains(t); mean <= deviation {
		t.Errorf("cooperating gains %.4f ± %.4f in RMSE over five seeds", mean, deviation)
	}
}

// On MovieLens latest-small, where the paper's contribution gains nothing, the
// clipped gradient of all ratings does, at ε = 10 and dropouts.
func TestAllRatingsHelpOnRealRatings(t *testing.T) {
	effort.LongOnly(t, "runs of full size take seconds")
	t.Parallel()
	const data = "../../../../shared/data/ml-latest-small"
	if _, err := os.Stat(data); err != nil {
		t.Skipf("MovieLens latest-small is not there: %v", err)
	}
	args := []string{"--algorithm", "lfl-sgdmf", "--data", data, "--dropout", "0.2", "--tolerance", "0.3"}
	if mean, deviation := gains(t, append(args, "--contribution", "all-ratings")...); mean <= deviation {
		t.Errorf("all-ratings: cooperating gains %.4f ± %.4f in RMSE over five seeds", mean, deviation)
	}
	// The README says so too: nothing is gained, and nothing is lost.
	if mean, _ := gains(t, args...); math.Abs(mean) > 0.002 {
		t.Errorf("one-rating: cooperating changes the RMSE by %.4f", mean)
	}
}

// One organisation on MovieLens latest-small, private per rating, at the default
// settings. With the global mean alone the MSE is 1.10, regularised biases reach 0.74.
func TestVFLOnRealRatings(t *testing.T) {
	effort.LongOnly(t, "runs of full size take seconds")
	t.Parallel()
	const data = "../../../../shared/data/ml-latest-small"
	if _, err := os.Stat(data); err != nil {
		t.Skipf("MovieLens latest-small is not there: %v", err)
	}
	for epsilon, most := range map[string]float64{"1": 0.95, "5": 0.90, "10": 0.885, "inf": 0.81} {
		t.Run(epsilon, func(t *testing.T) {
			t.Parallel()
			s := trained(t, "--data", data, "--algorithm", "vfl-sgdmf", "--parties", "1", "--delta", "1e-6", "--epsilon", epsilon, "--baselines", "quick")
			if s.Privacy.Unit != dp.Rating || s.Privacy.Delta != 1e-6 || s.Secagg != "none" {
				t.Errorf("the run is %s with secagg %s", s.Privacy, s.Secagg)
			}
			if s.TestMSE > most {
				t.Errorf("test MSE %.4f, want at most %v", s.TestMSE, most)
			}
		})
	}
}

// Ten parties with items that share the users' embeddings beat the same ten each
// alone with as much noise, in a fifth of the default rounds.
func TestVFLBeatsEachAlone(t *testing.T) {
	effort.LongOnly(t, "runs of full size take seconds")
	t.Parallel()
	s := trained(t, "--algorithm", "vfl-sgdmf", "--accountant", "rdp", "--rounds", "20")
	alone, measured := s.Baselines.Of("local_only")
	if !measured {
		t.Fatal("no local_only was measured")
	}
	if gain := alone - s.TestRMSE; !(gain > 0.02) {
		t.Errorf("together %.4f, each alone %.4f", s.TestRMSE, alone)
	}
}

// With held-out users the first line of a summary counts the clicks that are trained on or to be found, and says so: what held-out users are
// known by is neither. Counted anew from the file and split.csv.
func TestSummaryCountsWhatItSays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var clicks strings.Builder
	clicks.WriteString("user,item\n")
	for u := range 40 {
		for k := range 6 {
			fmt.Fprintf(&clicks, "u%d,i%d\n", u, (u*7+k*k)%20)
		}
	}
	file := filepath.Join(dir, "clicks.csv")
	if err := os.WriteFile(file, []byte(clicks.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	args := []string{"run", "--data", file, "--duplicates", "last", "--feedback", "implicit", "--set", "split.test=0.3", "--out", dir, "--name", "one", "--baselines", "quick"}
	if code := run(t.Context(), args, verb.Streams{Out: &out, Err: &errs}); code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	parts, err := os.ReadFile(filepath.Join(dir, "one", "split.csv"))
	if err != nil {
		t.Fatal(err)
	}
	distinct := make(map[string]bool)
	for line := range strings.Lines(clicks.String()) {
		distinct[line] = true
	}
	history := strings.Count(string(parts), ",test-history\n")
	want := fmt.Sprintf(" %d ratings to train and test on\n", len(distinct)-1-history)
	if history == 0 || !strings.Contains(out.String(), want) {
		t.Errorf("%d ratings of held-out users are known; want %q in\n%s", history, want, out.String())
	}
}
