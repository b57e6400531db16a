package split

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/effort"
)

func holdOut(tb testing.TB, set *dataset.Set, p Params) *HoldOut {
	tb.Helper()
	return divided(tb, set, p).Held
}

func divided(tb testing.TB, set *dataset.Set, p Params) *Parts {
	tb.Helper()
	parts, err := Divide(set, p)
	if err != nil {
		tb.Fatal(err)
	}
	return parts
}

// holdOutByID names the part of every user and rating by ids.
func holdOutByID(set *dataset.Set, h *HoldOut) (users map[string]string, ratings map[idPair]string) {
	users, ratings = make(map[string]string), make(map[idPair]string)
	for name, list := range map[string][]int32{"training": h.TrainUsers, "validation": h.Validation.Users, "test": h.Test.Users} {
		for _, u := range list {
			users[set.UserIDs[u]] += name
		}
	}
	for name, part := range map[string]dataset.Ratings{
		"training": h.Train, "validation history": h.Validation.History, "validation target": h.Validation.Target,
		"test history": h.Test.History, "test target": h.Test.Target,
	} {
		for k := range part.Value {
			ratings[idPair{set.UserIDs[part.User[k]], set.ItemIDs[part.Item[k]]}] += name
		}
	}
	return users, ratings
}

// TestHoldOutIsPartition: every user is in exactly one part, and every rating of enough
// stars is, with its value, in one of its user's.
func TestHoldOutIsPartition(t *testing.T) {
	set := open(t, "synthetic:small", read.Options{})
	for _, positive := range []float64{0, 4} {
		h := holdOut(t, set, Params{Users: UsersHeldOut, Test: 0.2, Validation: 0.3, Positive: positive, Seed: 1})
		part := make(map[int32]string)
		for name, list := range map[string][]int32{"training": h.TrainUsers, "validation": h.Validation.Users, "test": h.Test.Users} {
			if !slices.IsSorted(list) {
				t.Errorf("the %s users are not ascending", name)
			}
			for _, u := range list {
				if part[u] != "" {
					t.Errorf("user %d is of the %s part and of the %s part", u, part[u], name)
				}
				part[u] = name
			}
		}
		if len(part) != set.Users {
			t.Errorf("%d users are in a part, want %d", len(part), set.Users)
		}
		got := make(map[[2]int32]float32)
		total := 0
		for name, lists := range map[string][]dataset.Ratings{
			"training": {h.Train}, "validation": {h.Validation.History, h.Validation.Target}, "test": {h.Test.History, h.Test.Target},
		} {
			for _, r := range lists {
				if r.Users != set.Users || r.Items != set.Items || !ascending(r) || r.Len() == 0 {
					t.Errorf("%s: %d ratings of %d users and %d items, sorted %t", name, r.Len(), r.Users, r.Items, ascending(r))
				}
				for pair, v := range pairs(r) {
					if part[pair[0]] != name {
						t.Fatalf("a rating of user %d, of the %s part, is in the %s part", pair[0], part[pair[0]], name)
					}
					got[pair] = v
				}
				total += r.Len()
			}
		}
		want := pairs(set.Ratings)
		for pair, v := range want {
			if float64(v) < positive {
				delete(want, pair)
			}
		}
		if total != len(want) || !maps.Equal(got, want) {
			t.Errorf("from %v stars: %d ratings in the parts, %d pairs, want %d", positive, total, len(got), len(want))
		}
	}
}

// TestHoldOutShares compares the sizes of the parts, the overlap of two seeds and that
// with the test part of Split with the binomial law. Each of the 25 comparisons allows
// five standard deviations: together they raise less than two false alarms in 10^5.
func TestHoldOutShares(t *testing.T) {
	set := open(t, effort.Of("synthetic:ml-1m-1500", "synthetic:ml-1m", "synthetic:ml-1m"), read.Options{})
	check := func(what string, got, of int, p float64) {
		t.Helper()
		n := float64(of)
		if z := (float64(got) - n*p) / math.Sqrt(n*p*(1-p)); math.Abs(z) > 5 {
			t.Errorf("%s: %d, want %.0f (%.1f standard deviations off)", what, got, n*p, z)
		}
	}
	var first *HoldOut
	for seed := range uint64(4) {
		h := holdOut(t, set, Params{Users: UsersHeldOut, Validation: 0.25, Seed: seed})
		check("test users", len(h.Test.Users), set.Users, defaultTest)
		check("validation users", len(h.Validation.Users), set.Users, 0.25)
		check("training users", len(h.TrainUsers), set.Users, 0.65)
		check("test target", h.Test.Target.Len(), h.Test.Target.Len()+h.Test.History.Len(), defaultTarget)
		check("validation target", h.Validation.Target.Len(), h.Validation.Target.Len()+h.Validation.History.Len(), defaultTarget)
		if seed == 0 {
			first = h
			continue
		}
		both := 0
		for _, u := range h.Test.Users {
			if _, in := slices.BinarySearch(first.Test.Users, u); in {
				both++
			}
		}
		check("test users of two seeds", both, set.Users, defaultTest*defaultTest)
	}
	held := make(map[[2]int32]bool)
	for pair := range pairs(mustSplit(t, set, Params{Seed: 0}).Test) {
		held[pair] = true
	}
	both := 0
	for pair := range pairs(first.Test.Target) {
		if held[pair] {
			both++
		}
	}
	check("of the target in the test part of Split", both, first.Test.Target.Len(), defaultTest)
}

// TestHoldOutFormula pins the draws, as TestSplitFormula does. The hashes are computed with Python's
// hashlib and integers in the same way, in domains of their own. The user's draw is
// mix(mix(seed+golden) ^ user), the rating's draw mix(that ^ item).
func TestHoldOutFormula(t *testing.T) {
	for _, c := range []struct {
		seed         uint64
		user, item   string
		whose, which uint64
	}{
		{0, "1", "1", 0x4d81557c6d9200c1, 0x7225336915349f82},
		{1, "1", "1", 0x6ea7905c08c4bf7a, 0x7c1960df233ca00a},
		{1, "1", "2", 0x6ea7905c08c4bf7a, 0x26855f80cd6c69f9},
		{1, "2", "1", 0x4bf06a7b099414b7, 0x15bedbc035545ee7},
		{math.MaxUint64, "zoë", "Tea, green", 0xf0411dd857d1355f, 0x8d527f513da35494},
	} {
		set := &dataset.Set{
			Ratings: dataset.Ratings{Users: 1, Items: 1, User: []int32{0}, Item: []int32{0}, Value: []float32{1}},
			UserIDs: []string{c.user}, ItemIDs: []string{c.item},
		}
		share := func(hash uint64) float64 { return float64(hash) / (1 << 64) }
		for _, above := range []float64{-1e-12, 1e-12} {
			users, _ := holdOutParts(set, Params{Users: UsersHeldOut, Test: share(c.whose) + above, Seed: c.seed})
			if want := above > 0; (users[0] == partTest) != want {
				t.Errorf("seed %d, user %q: with test share %v the part is %d", c.seed, c.user, share(c.whose)+above, users[0])
			}
			_, parts := holdOutParts(set, Params{Users: UsersHeldOut, Test: 1, Target: share(c.which) + above, Seed: c.seed})
			if want := above > 0; (parts[0] == partTarget) != want {
				t.Errorf("seed %d, user %q, item %q: with target share %v the part is %d", c.seed, c.user, c.item, share(c.which)+above, parts[0])
			}
		}
	}
}

// TestHoldOutKeepsOthers removes ratings from a file. Users and ratings that stay must
// stay in their part, although most indices change.
func TestHoldOutKeepsOthers(t *testing.T) {
	all := open(t, "synthetic:small-150", read.Options{})
	all.UserIDs[0] = "a guest" // without whom all ids are integers and the order is another
	before := open(t, writeCSV(t, all), read.Options{})
	for name, set := range map[string]*dataset.Set{
		"one user":         keep(all, func(user, _ int32) bool { return user != 0 }),
		"every other item": keep(all, func(_, item int32) bool { return item%2 == 0 }),
		"a third":          keep(all, func(user, item int32) bool { return (user+item)%3 != 0 }),
	} {
		after := open(t, writeCSV(t, set), read.Options{})
		for seed := range uint64(3) {
			p := Params{Users: UsersHeldOut, Test: 0.2, Validation: 0.3, Target: 0.4, Positive: 3, Seed: seed}
			wantUsers, wantRatings := holdOutByID(before, holdOut(t, before, p))
			gotUsers, gotRatings := holdOutByID(after, holdOut(t, after, p))
			if len(wantUsers) != all.Users || len(gotUsers) != after.Users {
				t.Fatalf("without %s: %d users of %d, then %d of %d", name, len(wantUsers), all.Users, len(gotUsers), after.Users)
			}
			for user, part := range gotUsers {
				if part != wantUsers[user] {
					t.Fatalf("without %s, seed %d: user %s moves from the %s to the %s part", name, seed, user, wantUsers[user], part)
				}
			}
			for pair, part := range gotRatings {
				if part != wantRatings[pair] {
					t.Fatalf("without %s, seed %d: rating %+v moves from the %s to the %s", name, seed, pair, wantRatings[pair], part)
				}
			}
		}
	}
}

func TestHoldOutDigest(t *testing.T) {
	set := open(t, "synthetic:small", read.Options{})
	base := divided(t, set, Params{Users: UsersHeldOut, Seed: 1}).Digest
	if got := divided(t, set, Params{Users: UsersHeldOut, Test: defaultTest, Target: defaultTarget, Positive: set.Min, Seed: 1}).Digest; got != base {
		t.Error("the defaults have another digest when they are spelt out")
	}
	other := *set
	other.Digest = "of another content"
	for name, h := range map[string]*Parts{
		"seed":         divided(t, set, Params{Users: UsersHeldOut, Seed: 2}),
		"test share":   divided(t, set, Params{Users: UsersHeldOut, Test: 0.2, Seed: 1}),
		"validation":   divided(t, set, Params{Users: UsersHeldOut, Validation: 0.1, Seed: 1}),
		"target share": divided(t, set, Params{Users: UsersHeldOut, Target: 0.5, Seed: 1}),
		"least rating": divided(t, set, Params{Users: UsersHeldOut, Positive: 4, Seed: 1}),
		"content":      divided(t, &other, Params{Users: UsersHeldOut, Seed: 1}),
	} {
		if h.Digest == base || len(h.Digest) != 64 {
			t.Errorf("another %s does not change the digest", name)
		}
	}
	// Both hold out the same users with the same targets, some for another purpose.
	a, b := divided(t, set, Params{Users: UsersHeldOut, Test: 0.2, Validation: 0.3, Seed: 1}), divided(t, set, Params{Users: UsersHeldOut, Test: 0.3, Validation: 0.2, Seed: 1})
	if !slices.Equal(a.Held.TrainUsers, b.Held.TrainUsers) || a.Digest == b.Digest {
		t.Error("users who go from validation to test do not change the digest")
	}
}

func TestHoldOutErrors(t *testing.T) {
	one := open(t, "../read/testdata/good/one.csv", read.Options{})
	nan := math.NaN()
	const more = ", or use more ratings, ratings of fewer stars (split.positive), or another seed (split.seed)"
	const number = ", or a whole number of users"
	for _, c := range []struct {
		set     *dataset.Set
		params  Params
		message string
	}{
		{one, Params{Users: UsersHeldOut, Test: 1e-9}, "held-out users: the target of test users has none of 1 ratings; raise the test share (split.test)" + more},
		{one, Params{Users: UsersHeldOut, Test: 1 - 1e-9, Target: 1 - 1e-9},
			"held-out users: the training users have none of 1 ratings; lower the test and validation shares (split.test, split.validation)" + more},
		{one, Params{Users: UsersHeldOut, Test: 1e-9, Validation: 1e-9, Positive: 9},
			"held-out users: the training users have none of 1 ratings; lower the test and validation shares (split.test, split.validation)" + more +
				"\nheld-out users: the target of validation users has none of 1 ratings; raise the validation share (split.validation) or set it to 0" + more +
				"\nheld-out users: the target of test users has none of 1 ratings; raise the test share (split.test)" + more},
		{one, Params{Users: UsersHeldOut, Test: 1.5, Validation: -0.1, Target: 1, Positive: nan},
			"held-out users: test share is 1.5; want more than 0 and less than 1" + number + "\nheld-out users: validation share is -0.1; want at least 0 and less than 1" + number + "\n" +
				"held-out users: target share is 1; want more than 0 and less than 1\n" +
				"held-out users: the least positive rating is NaN; want a number of stars, or 0 to take all"},
		{one, Params{Users: UsersHeldOut, Test: nan, Target: nan},
			"held-out users: test share is NaN; want more than 0 and less than 1" + number + "\nheld-out users: target share is NaN; want more than 0 and less than 1"},
		{one, Params{Users: UsersHeldOut, Test: 0.5, Validation: 0.5},
			"held-out users: test share 0.5 and validation share 0.5 leave no user to train; want a sum below 1"},
		{&dataset.Set{Ratings: one.Ratings, ItemIDs: one.ItemIDs}, Params{Users: UsersHeldOut}, "split: 0 user ids for 1 users; want one for each, the draw is a hash of them"},
	} {
		if h, err := Divide(c.set, c.params); h != nil || fmt.Sprint(err) != c.message {
			t.Errorf("%+v\n got %v\nwant %s", c.params, err, c.message)
		}
	}
}

// A user's own ratings alone train on the ratings that the whole set trains on for that user.
func TestHoldOutTrainingOfOneUser(t *testing.T) {
	set, err := read.Open(t.Context(), "synthetic:small", read.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := Params{Users: UsersHeldOut, Test: 0.3, Positive: 3, Seed: 4}
	h, err := Divide(set, p)
	if err != nil {
		t.Fatal(err)
	}
	all := h.Train.ByUser()
	for user := range 20 {
		items, values := set.ByUser().Row(user)
		mine := &dataset.Set{Name: "mine", Min: set.Min, Max: set.Max, UserIDs: set.UserIDs[user : user+1], ItemIDs: set.ItemIDs, Ratings: dataset.Ratings{Users: 1, Items: set.Items}}
		for k, j := range items {
			mine.User, mine.Item, mine.Value = append(mine.User, 0), append(mine.Item, j), append(mine.Value, values[k])
		}
		got, err := Training(mine, p)
		if err != nil {
			t.Fatal(err)
		}
		wantItems, wantValues := all.Row(user)
		gotItems, gotValues := got.ByUser().Row(0)
		if !slices.Equal(gotItems, wantItems) || !slices.Equal(gotValues, wantValues) {
			t.Errorf("user %d trains on %d ratings, of the whole set on %d", user, len(gotItems), len(wantItems))
		}
	}
	if _, err := Training(set, Params{Users: UsersHeldOut, Test: 2}); err == nil {
		t.Error("a share of 2 is held out")
	}
}
