package lab_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/lab/sessions"
)

// year has three users and four items. Users a and b are there from the start, c comes late; item z appears late.
func year() *dataset.Set {
	return &dataset.Set{
		Name: "year", Min: 1, Max: 5, UserIDs: []string{"a", "b", "c"}, ItemIDs: []string{"w", "x", "y", "z"}, Titles: []string{"W", "X", "Y", "Z"},
		Ratings: dataset.Ratings{
			Users: 3, Items: 4,
			User:  []int32{0, 0, 0, 0, 1, 1, 1, 2, 2},
			Item:  []int32{0, 1, 2, 3, 0, 1, 2, 0, 3},
			Value: []float32{1, 2, 3, 4, 5, 1, 2, 3, 4},
			Times: []float64{1, 4, 5, 9, 2, 3, 6, 7, 8},
		},
	}
}

// named lists ratings as user and item, with a star behind a tested rating.
func named(s *dataset.Set) string {
	var list []string
	for k := range s.Value {
		name := s.UserIDs[s.User[k]] + s.ItemIDs[s.Item[k]]
		if s.Tested != nil && s.Tested[k] {
			name += "*"
		}
		list = append(list, name)
	}
	return strings.Join(list, " ")
}

// The parts are written out by hand. Nine ratings in three parts begin at the times 4 and 7.
func TestCut(t *testing.T) {
	periods, err := sessions.Cut(year(), 2)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range periods {
		if !slices.Equal(p.Train.ItemIDs, p.Measured.ItemIDs) || len(p.New) != p.Train.Items {
			t.Errorf("the items %v, %v and %v differ", p.Train.ItemIDs, p.Measured.ItemIDs, p.New)
		}
		fresh := ""
		for j, n := range p.New {
			if n {
				fresh += p.Train.ItemIDs[j] + p.Train.Titles[j]
			}
		}
		got = append(got, named(p.Train), named(p.Measured), strings.Join(p.Train.ItemIDs, ""), fresh)
	}
	want := []string{
		// Until 4: aw 1, bw 2, bx 3. Then ax 4 and ay 5, and ay is the later half. Then by 6, which is alone.
		"aw bw bx", "aw ax ay* bw bx by*", "wxy", "yY",
		// Until 7 also these. Then cw 7 and cz 8, and cz is the later half. Then az 9.
		"aw ax ay bw bx by", "aw ax ay az* bw bx by cw cz*", "wxyz", "zZ",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if _, err := sessions.Cut(year(), 9); err == nil || !strings.Contains(err.Error(), "study fewer") {
		t.Errorf("nine sessions of nine ratings: %v", err)
	}
	bare := year()
	bare.Times = nil
	if _, err := sessions.Cut(bare, 2); err == nil || !strings.Contains(err.Error(), "synthetic:moving") {
		t.Errorf("without times: %v", err)
	}
}

// Gains of two seeds by hand: (0.1+0.3)/2 and (0.1-0.1)/2 have the mean 0.1 and the deviation 0.1·√2.
func TestCompare(t *testing.T) {
	var points []sessions.Point
	for seed, rmse := range [][][2]float64{{{1, 1}, {0.9, 1}, {0.7, 1}}, {{1, 1}, {0.9, 1}, {1.1, 1}}} {
		for s, x := range rmse {
			for k, arm := range []sessions.Arm{sessions.LearningOn, sessions.Anew, sessions.Once} {
				points = append(points, sessions.Point{Arm: arm, Seed: uint64(seed), Session: s + 1, RMSE: x[min(k, 1)]})
			}
		}
	}
	for i, c := range sessions.Compare(points) {
		if c.With != sessions.Arms[i+1] || c.Seeds != 2 || c.Better != 1 || math.Abs(c.Gain-0.1) > 1e-12 || math.Abs(c.Deviation-0.1*math.Sqrt2) > 1e-12 ||
			!cmp.Equal(c.BySession, []float64{0.1, 0.1}, cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-12 })) {
			t.Errorf("%+v", c)
		}
	}
}
