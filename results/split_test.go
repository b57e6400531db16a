package results

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/model"
)

// TestSplitFile writes split.csv for each kind of split. A map of the parts says what it has to hold: each rating outside of
// training once, by user and item, with its part. Histories of users that train are training ratings.
func TestSplitFile(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, settings := range map[string]string{
		"stars":         "split.validation=0.1",
		"by time":       "split.by=time split.validation=0.1 data=synthetic:moving",
		"held-out":      "algorithm=private-ease split.users=held-out split.test=0.2 split.validation=0.1",
		"likes":         "algorithm=private-ease split.users=seen",
		"likes, 3 part": "algorithm=private-ease split.users=seen split.validation=0.1",
		"all are liked": "algorithm=private-ease split.users=seen split.positive=1",
	} {
		t.Run(name, func(t *testing.T) {
			e := opened.Experiment(t, settings)
			f, err := NewFolder(e)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Discard()
			type pair struct{ user, item int32 }
			of := make(map[pair]string)
			e.Data.Each(func(u, j int32, _ float32) { of[pair{u, j}] = "left-out" })
			parts := map[string]dataset.Ratings{"validation": e.Split.Validation, "test": e.Split.Test}
			if h := e.Held; h != nil {
				parts = map[string]dataset.Ratings{"validation-history": h.Validation.History, "validation-target": h.Validation.Target,
					"test-history": h.Test.History, "test-target": h.Test.Target}
			}
			for name, ratings := range parts {
				ratings.Each(func(u, j int32, _ float32) { of[pair{u, j}] = name })
			}
			e.Split.Train.Each(func(u, j int32, _ float32) { of[pair{u, j}] = "" })
			want := []string{"user,item,part"}
			for u, user := range e.Data.UserIDs {
				for j, item := range e.Data.ItemIDs {
					if name := of[pair{int32(u), int32(j)}]; name != "" {
						want = append(want, user+","+item+","+name)
					}
				}
			}
			dir, err := f.Complete(e, &Summary{}, trained(model.NewMatrix(3, 2), model.NewMatrix(1, 2)), noCost)
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(dir + "/split.csv")
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Split(strings.TrimSpace(string(b)), "\n"); !slices.Equal(got, want) {
				t.Errorf("%d lines, %q...; want %d, %q...", len(got), got[:min(len(got), 5)], len(want), want[:min(len(want), 5)])
			}
		})
	}
}
