package split

import (
	stdcmp "cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/dataset/idtext"
)

// pairs returns the ratings as a map from (user, item).
func pairs(r dataset.Ratings) map[[2]int32]float32 {
	m := make(map[[2]int32]float32, r.Len())
	for k, v := range r.Value {
		m[[2]int32{r.User[k], r.Item[k]}] = v
	}
	return m
}

// ascending reports whether ratings ascend by user, then item.
func ascending(r dataset.Ratings) bool {
	for k := 1; k < r.Len(); k++ {
		if c := stdcmp.Compare(r.User[k-1], r.User[k]); c > 0 || c == 0 && r.Item[k-1] >= r.Item[k] {
			return false
		}
	}
	return true
}

func mustSplit(tb testing.TB, set *dataset.Set, p Params) *Parts {
	tb.Helper()
	s, err := Divide(set, p)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// TestSplitIsPartition: every rating is in exactly one part, with its value.
func TestSplitIsPartition(t *testing.T) {
	set := open(t, "synthetic:small", read.Options{})
	s := mustSplit(t, set, Params{Test: 0.2, Validation: 0.1, Seed: 1})
	got := make(map[[2]int32]float32)
	total := 0
	for _, part := range []dataset.Ratings{s.Train, s.Validation, s.Test} {
		if part.Users != set.Users || part.Items != set.Items {
			t.Errorf("part has %d users, %d items, want %d, %d", part.Users, part.Items, set.Users, set.Items)
		}
		if !ascending(part) {
			t.Error("part is not sorted")
		}
		for pair, v := range pairs(part) {
			got[pair] = v
		}
		total += part.Len()
	}
	if total != set.Len() || !maps.Equal(got, pairs(set.Ratings)) {
		t.Errorf("%d ratings in the parts, %d pairs, want the %d of the set", total, len(got), set.Len())
	}
}

// TestSplitShares compares the sizes of parts, and the overlap of test parts of
// two seeds, with the binomial law. Each of the 15 comparisons allows five
// standard deviations: together they raise less than one false alarm in 10^5.
func TestSplitShares(t *testing.T) {
	set := open(t, "synthetic:small", read.Options{})
	check := func(what string, got int, p float64) {
		n := float64(set.Len())
		if z := (float64(got) - n*p) / math.Sqrt(n*p*(1-p)); math.Abs(z) > 5 {
			t.Errorf("%s: %d ratings, want %.0f (%.1f standard deviations off)", what, got, n*p, z)
		}
	}
	var first map[[2]int32]float32
	for seed := range uint64(4) {
		s := mustSplit(t, set, Params{Validation: 0.25, Seed: seed})
		check("test", s.Test.Len(), defaultTest)
		check("validation", s.Validation.Len(), 0.25)
		check("training", s.Train.Len(), 0.65)
		if seed == 0 {
			first = pairs(s.Test)
			continue
		}
		both := 0
		for pair := range pairs(s.Test) {
			if _, ok := first[pair]; ok {
				both++
			}
		}
		check("in the test parts of two seeds", both, defaultTest*defaultTest)
	}
}

// TestSplitNests: a larger test part of the same seed holds the smaller one.
func TestSplitNests(t *testing.T) {
	set := open(t, "synthetic:small", read.Options{})
	large := pairs(mustSplit(t, set, Params{Test: 0.3, Seed: 5}).Test)
	for pair := range pairs(mustSplit(t, set, Params{Test: 0.1, Seed: 5}).Test) {
		if _, ok := large[pair]; !ok {
			t.Fatalf("pair %v is in the test part of share 0.1 but not of 0.3", pair)
		}
	}
}

// TestMix checks the published first outputs of SplitMix64 with seed 0
// (Vigna, splitmix64.c), whose state after k steps is k times the golden ratio.
func TestMix(t *testing.T) {
	state := uint64(0)
	for _, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f} {
		state += 0x9e3779b97f4a7c15
		if got := idtext.Mix(state); got != want {
			t.Errorf("mix(%#x) = %#x, want %#x", state, got, want)
		}
	}
}

// TestSplitFormula pins the draw, so that a split can be made again elsewhere and
// later. The hashes are computed with Python's hashlib and integers: for each id
// the first eight bytes, little-endian, of SHA-256(domain, length of the id in
// eight bytes, id), then mix(mix(mix(seed + golden) ^ user) ^ item).
func TestSplitFormula(t *testing.T) {
	for _, c := range []struct {
		seed       uint64
		user, item string
		hash       uint64
	}{
		{0, "1", "1", 0x736f2fadd4650ce1},
		{1, "1", "1", 0xb7b77071a94da4a0},
		{1, "1", "2", 0x08aba88e985bb593},
		{1, "2", "1", 0x23fa936cd9fac8b3},
		{math.MaxUint64, "zoë", "Tea, green", 0x5999448da758c8e9},
	} {
		set := &dataset.Set{
			Ratings: dataset.Ratings{Users: 1, Items: 1, User: []int32{0}, Item: []int32{0}, Value: []float32{1}},
			UserIDs: []string{c.user}, ItemIDs: []string{c.item},
		}
		share := float64(c.hash) / (1 << 64)
		for part, test := range map[byte]float64{partTest: share + 1e-12, partTrain: share - 1e-12} {
			if parts := partsOf(set, Params{Test: test, Seed: c.seed}); parts[0] != part {
				t.Errorf("seed %d, user %q, item %q: with test share %v part is %d, want %d", c.seed, c.user, c.item, test, parts[0], part)
			}
		}
	}
}

// idPair names a rating by what stays when others come and go.
type idPair struct{ user, item string }

// partsByID returns the part of every rating.
func partsByID(set *dataset.Set, s *Parts) map[idPair]string {
	m := make(map[idPair]string, set.Len())
	for name, part := range map[string]dataset.Ratings{"training": s.Train, "validation": s.Validation, "test": s.Test} {
		for k := range part.Value {
			m[idPair{set.UserIDs[part.User[k]], set.ItemIDs[part.Item[k]]}] = name
		}
	}
	return m
}

// keep returns the set with some of its ratings, and all ids.
func keep(set *dataset.Set, wanted func(user, item int32) bool) *dataset.Set {
	out := *set
	out.Ratings = dataset.Ratings{Users: set.Users, Items: set.Items}
	for k, v := range set.Value {
		if wanted(set.User[k], set.Item[k]) {
			out.User, out.Item, out.Value = append(out.User, set.User[k]), append(out.Item, set.Item[k]), append(out.Value, v)
		}
	}
	return &out
}

// TestSplitKeepsOthers removes ratings from a file. The remaining ratings must stay in their part,
// even if their indices change. The first user alone rates some items; without them all ids are
// integers and the order is another.
func TestSplitKeepsOthers(t *testing.T) {
	all := open(t, "synthetic:small-150", read.Options{})
	all.UserIDs[0] = "a guest"
	const own = 5 // items 0 to 4
	for i := range own {
		all.ItemIDs[i] = fmt.Sprintf("only for the guest %d", i)
	}
	all = keep(all, func(user, item int32) bool { return user == 0 || item >= own })
	rated, _ := all.ByUser().Row(0)
	for i := range int32(own) {
		if !slices.Contains(rated, i) {
			all.User, all.Item, all.Value = append(all.User, 0), append(all.Item, i), append(all.Value, 3)
		}
	}
	fewer := map[string]*dataset.Set{
		"one user":         keep(all, func(user, _ int32) bool { return user != 0 }),
		"every other item": keep(all, func(_, item int32) bool { return item%2 == 0 }),
		"a third":          keep(all, func(user, item int32) bool { return (user+item)%3 != 0 }),
	}
	before := open(t, writeCSV(t, all), read.Options{})
	for name, set := range fewer {
		after := open(t, writeCSV(t, set), read.Options{})
		if name == "one user" && (after.Users != all.Users-1 || after.Items != all.Items-own || after.UserIDs[1] == before.UserIDs[1]) {
			t.Errorf("without %s: %d users, %d items, want %d, %d, in another order", name, after.Users, after.Items, all.Users-1, all.Items-own)
		}
		for seed := range uint64(3) {
			p := Params{Test: 0.2, Validation: 0.3, Seed: seed}
			want, got := partsByID(before, mustSplit(t, before, p)), partsByID(after, mustSplit(t, after, p))
			if len(want) != all.Len() || len(got) != set.Len() {
				t.Fatalf("without %s: %d ratings of %d, then %d of %d", name, len(want), all.Len(), len(got), set.Len())
			}
			for pair, part := range got {
				if part != want[pair] {
					t.Fatalf("without %s, seed %d: rating %+v moves from the %s to the %s part", name, seed, pair, want[pair], part)
				}
			}
		}
	}
}

// TestTrainingOfOneUser: with one user's ratings alone, the training part equals the user's share of
// the training part of all. This holds even where one of the parts is empty.
func TestTrainingOfOneUser(t *testing.T) {
	all := open(t, "synthetic:small", read.Options{})
	p := Params{Test: 0.05, Validation: 0.02, Seed: 1}
	want := partsByID(all, mustSplit(t, all, p))
	refused := 0
	for u := range int32(40) {
		set := open(t, writeCSV(t, keep(all, func(user, _ int32) bool { return user == u })), read.Options{})
		got, err := Training(set, p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Divide(set, p); err != nil {
			refused++
		}
		trained := make(map[idPair]bool, got.Len())
		for k := range got.Value {
			trained[idPair{set.UserIDs[got.User[k]], set.ItemIDs[got.Item[k]]}] = true
		}
		for k := range set.Value {
			pair := idPair{set.UserIDs[set.User[k]], set.ItemIDs[set.Item[k]]}
			if part := want[pair]; trained[pair] != (part == "training") {
				t.Errorf("rating %+v, of the %s part: in the training part is %t", pair, part, trained[pair])
			}
		}
	}
	if refused == 0 {
		t.Error("no user has an empty part: that it may be empty has not been tried")
	}
}

// TestSplitIgnoresFileOrder uses two files of the same ratings in different order.
func TestSplitIgnoresFileOrder(t *testing.T) {
	p := Params{Test: 0.5, Seed: 1}
	a := mustSplit(t, open(t, "../read/testdata/good/movielens", read.Options{}), p)
	b := mustSplit(t, open(t, "../read/testdata/good/shuffled", read.Options{}), p)
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("(-sorted +shuffled):\n%s", diff)
	}
}

func TestSplitDigest(t *testing.T) {
	set := open(t, "synthetic:small", read.Options{})
	base := mustSplit(t, set, Params{Seed: 1}).Digest
	if got := mustSplit(t, set, Params{Test: defaultTest, Seed: 1}).Digest; got != base {
		t.Error("the default share has another digest when it is spelt out")
	}
	other := *set
	other.Digest = "of another content"
	for name, s := range map[string]*Parts{
		"seed":       mustSplit(t, set, Params{Seed: 2}),
		"test share": mustSplit(t, set, Params{Test: 0.2, Seed: 1}),
		"validation": mustSplit(t, set, Params{Validation: 0.1, Seed: 1}),
		"content":    mustSplit(t, &other, Params{Seed: 1}),
	} {
		if s.Digest == base {
			t.Errorf("another %s does not change the digest", name)
		}
	}
}

// TestSplitOneUserOneItem: a single row or column of ratings can be split.
func TestSplitOneUserOneItem(t *testing.T) {
	const n = 40
	zeros, ascending, values := make([]int32, n), make([]int32, n), make([]float32, n)
	for k := range n {
		ascending[k] = int32(k)
	}
	for name, r := range map[string]dataset.Ratings{
		"one user": {Users: 1, Items: n, User: zeros, Item: ascending, Value: values},
		"one item": {Users: n, Items: 1, User: ascending, Item: zeros, Value: values},
	} {
		s := mustSplit(t, &dataset.Set{Ratings: r, UserIDs: idtext.Numbered(r.Users), ItemIDs: idtext.Numbered(r.Items)}, Params{Test: 0.5, Seed: 1})
		if s.Train.Len()+s.Test.Len() != n {
			t.Errorf("%s: %d and %d ratings, want %d together", name, s.Train.Len(), s.Test.Len(), n)
		}
	}
}

func TestSplitErrors(t *testing.T) {
	one := open(t, "../read/testdata/good/one.csv", read.Options{})
	broken := &dataset.Set{
		Ratings: dataset.Ratings{Users: 1, Items: 1, User: []int32{1}, Item: []int32{0}, Value: []float32{1}},
		UserIDs: []string{"a"}, ItemIDs: []string{"x"},
	}
	nameless := &dataset.Set{Ratings: one.Ratings, ItemIDs: []string{"x", "y"}}
	nan := math.NaN()
	for _, c := range []struct {
		set     *dataset.Set
		params  Params
		message string
	}{
		{one, Params{Test: 1e-9}, "split: the test part of 1 ratings is empty; raise the test share (split.test), or use more ratings or another seed (split.seed)"},
		{one, Params{Test: 1 - 1e-9}, "split: the training part of 1 ratings is empty; lower the test and validation shares (split.test, split.validation), or use more ratings or another seed (split.seed)"},
		{
			one, Params{Test: 1e-9, Validation: 1e-9},
			"split: the validation part of 1 ratings is empty; raise the validation share (split.validation) or set it to 0, or use more ratings or another seed (split.seed)\n" +
				"split: the test part of 1 ratings is empty; raise the test share (split.test), or use more ratings or another seed (split.seed)",
		},
		{
			one, Params{Test: 1, Validation: -0.1},
			"split: test share is 1; want more than 0 and less than 1\nsplit: validation share is -0.1; want at least 0 and less than 1",
		},
		{one, Params{Test: nan, Validation: nan}, "split: test share is NaN; want more than 0 and less than 1\nsplit: validation share is NaN; want at least 0 and less than 1"},
		{one, Params{Test: 0.5, Validation: 0.5}, "split: test share 0.5 and validation share 0.5 leave nothing to train on; want a sum below 1"},
		{broken, Params{}, "ratings: user index of rating 0 is 1, want 0 to 0"},
		{
			nameless, Params{},
			"split: 0 user ids for 1 users; want one for each, the draw is a hash of them\n" +
				"split: 2 item ids for 1 items; want one for each, the draw is a hash of them",
		},
	} {
		_, err := Divide(c.set, c.params)
		if err == nil || err.Error() != c.message {
			t.Errorf("%+v\n got %v\nwant %s", c.params, err, c.message)
		}
		if _, training := Training(c.set, c.params); !strings.Contains(c.message, "is empty") && (training == nil || training.Error() != c.message) {
			t.Errorf("%+v\n got %v for the training part\nwant %s", c.params, training, c.message)
		}
	}
}
