package command

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/internal/effort"
)

// goldenExact holds the figures of accuracy of each algorithm without noise.
//
// With noise they can be compared on one kind of processor only. A simulation draws the noise of a
// round from a stream that the plan's bytes choose. Another processor rounds x·y + z otherwise. So the last bit
// of a calibrated variance may differ, and with it the whole draw.
var goldenExact = filepath.Join("testdata", "golden-exact.txt")

// exactTolerance is relative. On arm64 all figures were the same to six digits.
const exactTolerance = 1e-4

var epsilonFlag = regexp.MustCompile(` --epsilon \S+`)

// TestGoldenWithoutNoise compares accuracy without noise: all digits on amd64, elsewhere to within
// exactTolerance. TestGolden compares the other figures on all processors.
func TestGoldenWithoutNoise(t *testing.T) {
	if runtime.GOARCH == "amd64" && !*updateGolden {
		effort.LongOnly(t, "TestGolden compares the bits of runs with noise")
	}
	dir := t.TempDir()
	goldenData(t, filepath.Join(dir, "films"))
	want := strings.SplitAfter(string(readFile(t, goldenExact)), "\n")
	got := make([]string, len(goldenRuns))
	t.Run("runs", func(t *testing.T) {
		for i, g := range goldenRuns {
			if !slices.Contains(algorithm.Names(), g.name) {
				continue
			}
			t.Run(g.name, func(t *testing.T) {
				t.Parallel()
				flags := g.flags
				if algorithm.Find(g.name).About().Private {
					flags = epsilonFlag.ReplaceAllString(flags, "") + " --epsilon inf"
				}
				block, _ := goldenRun(t, dir, g.name, flags)
				figures := goldenFigures(block)
				got[i] = fmt.Sprintf("%s rmse %.6g ndcg@10 %.6g\n", g.name, figures["rmse"], figures["ndcg@10"])
				if !*updateGolden {
					compareExact(t, want, g.name, figures, got[i])
				}
			})
		}
	})
	if *updateGolden && !t.Failed() {
		if err := os.WriteFile(goldenExact, []byte(strings.Join(got, "")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// compareExact compares the figures of an algorithm with its line of goldenExact.
func compareExact(t *testing.T, lines []string, name string, figures map[string]float64, got string) {
	t.Helper()
	at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, name+" ") })
	if at < 0 {
		t.Fatalf("%s has no line for %s; -update-golden writes it", goldenExact, name)
	}
	if runtime.GOARCH == "amd64" {
		if d := cmp.Diff(lines[at], got); d != "" {
			t.Errorf("(-as it was +as it is):\n%s", d)
		}
		return
	}
	var rmse, ndcg float64
	if _, err := fmt.Sscanf(lines[at], name+" rmse %g ndcg@10 %g\n", &rmse, &ndcg); err != nil {
		t.Fatal(err)
	}
	near(t, "rmse", figures["rmse"], rmse, exactTolerance)
	near(t, "ndcg@10", figures["ndcg@10"], ndcg, exactTolerance)
}

// near compares a figure to within a relative tolerance.
func near(t *testing.T, name string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance*math.Abs(want)) {
		t.Errorf("%s is %v, want %v to within %v", name, got, want, tolerance)
	}
}
