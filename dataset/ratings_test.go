package dataset

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestByUser compares rows with a plain scan of the columns for each user.
func TestByUser(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Ratings{Users: rapid.IntRange(1, 6).Draw(t, "users"), Items: 5}
		n := rapid.IntRange(0, 20).Draw(t, "ratings")
		for k := range n {
			r.User = append(r.User, int32(rapid.IntRange(0, r.Users-1).Draw(t, "user")))
			r.Item = append(r.Item, int32(rapid.IntRange(0, r.Items-1).Draw(t, "item")))
			r.Value = append(r.Value, float32(k)) // tells ratings of one pair apart
		}
		before := slices.Clone(r.User)
		rows := r.ByUser()
		if rows.Len() != r.Users {
			t.Fatalf("%d rows, want %d", rows.Len(), r.Users)
		}
		for u := range r.Users {
			var want []int // positions in the columns, by item, then position
			for k := range n {
				if int(r.User[k]) == u {
					want = append(want, k)
				}
			}
			slices.SortStableFunc(want, func(a, b int) int { return cmp.Compare(r.Item[a], r.Item[b]) })
			items, values := rows.Row(u)
			if len(items) != len(want) || len(values) != len(want) {
				t.Fatalf("user %d has %d items and %d values, want %d", u, len(items), len(values), len(want))
			}
			for i, k := range want {
				if items[i] != r.Item[k] || values[i] != r.Value[k] {
					t.Fatalf("user %d: rating %d is item %d = %v, want item %d = %v", u, i, items[i], values[i], r.Item[k], r.Value[k])
				}
			}
		}
		if !slices.Equal(before, r.User) {
			t.Fatal("ByUser changed the columns")
		}
	})
}

func TestMean(t *testing.T) {
	r := Ratings{Users: 1, Items: 3, User: []int32{0, 0, 0}, Item: []int32{0, 1, 2}, Value: []float32{1, 2, 4.5}}
	if got := r.Mean(); got != 2.5 { // (1 + 2 + 4.5) / 3
		t.Errorf("mean is %v, want 2.5", got)
	}
	if got := (Ratings{}).Mean(); !math.IsNaN(got) {
		t.Errorf("mean of nothing is %v, want NaN", got)
	}
}

func TestValidate(t *testing.T) {
	good := func() Ratings {
		return Ratings{Users: 2, Items: 2, User: []int32{0, 1}, Item: []int32{1, 0}, Value: []float32{1, 2}}
	}
	if err := good().Validate(); err != nil {
		t.Errorf("good ratings: %v", err)
	}
	for message, spoil := range map[string]func(*Ratings){
		"ratings: columns differ in length: 2 users, 1 items, 2 values": func(r *Ratings) { r.Item = r.Item[:1] },
		"ratings: 1 timestamps for 2 ratings, want one for each":        func(r *Ratings) { r.Times = []float64{5} },
		"ratings: -1 users, want 0 to 2147483647":                       func(r *Ratings) { r.Users = -1 },
		"ratings: user index of rating 1 is 2, want 0 to 1\n" +
			"ratings: item index of rating 0 is -1, want 0 to 1\n" +
			"ratings: value of rating 1 is +Inf, want a finite number": func(r *Ratings) {
			r.User[1], r.Item[0], r.Value[1] = 2, -1, float32(math.Inf(1))
		},
	} {
		r := good()
		spoil(&r)
		if err := r.Validate(); err == nil || err.Error() != message {
			t.Errorf("\n got %v\nwant %s", err, strings.ReplaceAll(message, "\n", "\n     "))
		}
	}
}
