package lab_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/study"
	"github.com/fedsim/fedsim/results/recommend"
)

// tested keeps a run on the ratings of 12 users, who each rated four of eight items. User u has the u-th of the test ratings, of item 8.
func tested(t *testing.T, values ...int) string {
	t.Helper()
	var train, test strings.Builder
	train.WriteString("user,item,rating\n")
	for u := range 12 {
		for k := range 4 {
			fmt.Fprintf(&train, "%d,%d,%d\n", u+1, (u+2*k)%7+1, 1+(u*u+k)%5)
		}
	}
	train.WriteString("12,8,4\n")
	test.WriteString("user,item,rating\n")
	for u, v := range values {
		fmt.Fprintf(&test, "%d,8,%d\n", u+1, v)
	}
	files := map[string]string{"train.csv": train.String(), "test.csv": test.String()}
	dir := folderOf(t, files)
	return keptRun(t, settingsOf("algorithm=sgd-mf rank=2 model.epochs=2 baselines=quick eval.top-k=8 data="+filepath.Join(dir, "train.csv")+
		" split.test-file="+filepath.Join(dir, "test.csv")+" out="+dir)).Folder
}

// folderOf makes a folder of files.
func folderOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func compared(t *testing.T, a, b, metric string, resamples int) *study.Comparison {
	t.Helper()
	c, err := study.Compare(t.Context(), a, b, study.CompareParams{Metric: metric, Resamples: resamples, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Two users have four resamples, equally likely: each user twice, and both in two orders. B doubles the error of the first user and
// halves the larger error of the second, so that its error of both is the smaller.
func TestBootstrapOfTwoUsers(t *testing.T) {
	run := tested(t, 4, 1)
	model, err := recommend.OpenTested(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	var a, b []float64
	file := "user,item,predicted\n"
	err = model.EachError(func(user int, d float64) {
		value, factor := []float64{4, 1}[user], []float64{2, 0.5}[user]
		a, b = append(a, math.Abs(d)), append(b, factor*math.Abs(d))
		file += fmt.Sprintf("%d,8,%v\n", user+1, value+factor*d)
	})
	both := func(x []float64) float64 { return math.Hypot(x[0], x[1]) / math.Sqrt2 }
	if err != nil || len(a) != 2 || !(both(b) < both(a)) {
		t.Fatalf("errors %v and %v, %v: of both users B is to be the better", a, b, err)
	}
	c := compared(t, run, filepath.Join(folderOf(t, map[string]string{"b.csv": file}), "b.csv"), "rmse", 40_000)
	near(t, "A", c.ValueA, both(a), 1e-12)
	near(t, "difference", c.Difference, both(b)-both(a), 1e-12)
	near(t, "lower end", c.Interval[0], b[1]-a[1], 1e-12) // the second user twice
	near(t, "upper end", c.Interval[1], b[0]-a[0], 1e-12) // the first user twice
	// A quarter of the resamples is above 0: p is twice that, within 5 deviations of 40,000 draws.
	near(t, "p", c.P, 0.5, 2*5*math.Sqrt(0.25*0.75/40_000))
	if c.BetterA != 1 || c.BetterB != 1 || c.Users != 2 || c.Ratings != 2 {
		t.Errorf("%d users are better off in A and %d in B, of %d; want 1 each", c.BetterA, c.BetterB, c.Users)
	}
}

func TestARunAgainstItself(t *testing.T) {
	run := tested(t, 4, 1)
	c := compared(t, run, run, "rmse", 1000)
	var b strings.Builder
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	if c.P != 1 || c.Difference != 0 || c.BetterA+c.BetterB != 0 || !strings.Contains(b.String(), "cannot be told apart") {
		t.Errorf("%+v", c)
	}
}

// Three users have eight ways to swap. The run's lists hold all items that a user has not rated, and so the relevant one. The lists of B
// lack it. Only the two ways that swap none or all have a difference as large: p = 1/4.
func TestRandomisation(t *testing.T) {
	run := tested(t, 5, 5, 5)
	file := "user,item,rank\n"
	for u := range 3 {
		for j := range 7 {
			file += fmt.Sprintf("%d,%d,%d\n", u+1, j+1, j+1)
		}
	}
	c := compared(t, run, filepath.Join(folderOf(t, map[string]string{"b.csv": file}), "b.csv"), "hit@10", 40_000)
	near(t, "p", c.PSwap, 0.25, 5*math.Sqrt(0.25*0.75/40_000))
	var b strings.Builder
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	if c.Difference != -1 || c.BetterA != 3 || !strings.Contains(b.String(), "A is better.") {
		t.Errorf("%+v", c)
	}
}
