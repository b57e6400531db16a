package dataset_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// open reads a set.
func open(t *testing.T, file string) *dataset.Set {
	t.Helper()
	set, err := read.Open(t.Context(), file, read.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestInfo checks a set small enough to describe by hand: users have 1, 1 and 2
// ratings; items 0, 1, 1 and 2; the ratings are 0.5, 4, 5 and 3.5.
func TestInfo(t *testing.T) {
	set := open(t, "read/testdata/good/movielens")
	want := dataset.Info{
		Name: "movielens", Users: 3, Items: 4, RatedItems: 3, Ratings: 4, Density: 4.0 / 12,
		Min: 0.5, Max: 5, Mean: 3.25, Std: math.Sqrt((2.75*2.75 + 0.75*0.75 + 1.75*1.75 + 0.25*0.25) / 4),
		Histogram:   []dataset.Bin{{Low: 0.5, High: 0.5, Count: 1}, {Low: 3.5, High: 3.5, Count: 1}, {Low: 4, High: 4, Count: 1}, {Low: 5, High: 5, Count: 1}},
		PerUser:     dataset.Spread{Min: 1, Q1: 1, Median: 1, Mean: 4.0 / 3, Q3: 1.5, Max: 2},
		PerItem:     dataset.Spread{Min: 0, Q1: 0.75, Median: 1, Mean: 1, Q3: 1.25, Max: 2},
		Top1Percent: 0.5, Top10Percent: 0.5, // both round up to one item
		HasTitles: true, HasGenres: true, HasYears: true,
		Digest: set.Digest,
	}
	got := set.Info()
	got.Findings = nil
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if info := open(t, "read/testdata/good/no-movies").Info(); info.HasTitles || info.HasGenres || info.HasYears {
		t.Errorf("titles %v, genres %v, years %v without a movies.csv", info.HasTitles, info.HasGenres, info.HasYears)
	}
}

// TestInfoManyValues: more than 20 distinct ratings are counted in 20 bins of the public range.
func TestInfoManyValues(t *testing.T) {
	set := &dataset.Set{Min: 0, Max: 10, Ratings: dataset.Ratings{Users: 1, Items: 101}}
	for k := range 101 { // 0, 0.1, ..., 10: five to a bin of width 0.5, and the last one's end
		set.User = append(set.User, 0)
		set.Item = append(set.Item, int32(k))
		set.Value = append(set.Value, float32(k)/10)
	}
	bins := set.Info().Histogram
	if len(bins) != 20 {
		t.Fatalf("%d bins, want 20", len(bins))
	}
	total := 0
	for i, bin := range bins {
		total += bin.Count
		if bin.Low != float64(i)/2 || bin.High != float64(i+1)/2 {
			t.Errorf("bin %d is %v to %v, want %v to %v", i, bin.Low, bin.High, float64(i)/2, float64(i+1)/2)
		}
		if want := 5; i < 19 && bin.Count != want {
			t.Errorf("bin %d holds %d ratings, want %d", i, bin.Count, want)
		}
	}
	if total != 101 {
		t.Errorf("bins hold %d ratings, want 101", total)
	}
}

// TestInfoJSON: the description can always be written as JSON, which has no NaN.
func TestInfoJSON(t *testing.T) {
	for _, set := range []*dataset.Set{{Name: "nothing"}, open(t, "read/testdata/good/one.csv")} {
		text, err := json.Marshal(set.Info())
		if err != nil || !strings.Contains(string(text), `"per_user":{"min":`) {
			t.Errorf("%s: %s, %v, want an object with per_user", set.Name, text, err)
		}
	}
}
