package split

import (
	"runtime"
	"slices"
	"strconv"
	"testing"

	"github.com/fedsim/fedsim/dataset"
	_ "github.com/fedsim/fedsim/internal/effort" // spares processor time
)

// TestBlocks cuts a set of several blocks and a rest, on one core and on three, and compares every part with a plain scan
// that draws each rating by itself.
func TestBlocks(t *testing.T) {
	const users, items = 400, 500
	set := &dataset.Set{Ratings: dataset.NewRatings(users, items, 3*perBlock-1), Digest: "x"}
	set.Times = make([]float64, set.Len())
	for k := range set.Value {
		set.User[k], set.Item[k], set.Value[k], set.Times[k] = int32(k/items), int32(k%items), float32(k%7), float64(k)
	}
	for u := range users {
		set.UserIDs = append(set.UserIDs, strconv.Itoa(u))
	}
	for i := range items {
		set.ItemIDs = append(set.ItemIDs, strconv.Itoa(i))
	}
	for _, p := range []Params{{Test: 0.2, Validation: 0.1, Seed: 3}, {Folds: 5, Fold: 2, Validation: 0.1, Seed: 3}} {
		for _, procs := range []int{1, 3} {
			before := runtime.GOMAXPROCS(procs)
			got, err := Divide(set, p)
			runtime.GOMAXPROCS(before)
			if err != nil {
				t.Fatal(err)
			}
			draw, want := draws(set, p.Seed), [3]dataset.Ratings{}
			for k := range set.Value {
				part := &want[p.cut().of(draw(k))]
				part.User, part.Item = append(part.User, set.User[k]), append(part.Item, set.Item[k])
				part.Value, part.Times = append(part.Value, set.Value[k]), append(part.Times, set.Times[k])
			}
			for part, got := range []dataset.Ratings{got.Train, got.Validation, got.Test} {
				want := want[part]
				if !slices.Equal(got.User, want.User) || !slices.Equal(got.Item, want.Item) || !slices.Equal(got.Value, want.Value) || !slices.Equal(got.Times, want.Times) {
					t.Errorf("%+v on %d cores: part %d has %d ratings, and the plain scan finds other ones (%d)", p, procs, part, got.Len(), len(want.Value))
				}
			}
		}
	}
}
