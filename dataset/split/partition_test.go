package split

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/dataset/idtext"
)

// checkPartition reports when lists are not ascending, empty, or do not hold every
// index below n exactly once.
func checkPartition(t interface {
	Helper()
	Fatalf(string, ...any)
}, p Partition, parties, n int) {
	t.Helper()
	if len(p) != parties {
		t.Fatalf("%d parties, want %d", len(p), parties)
	}
	var all []int32
	for k, list := range p {
		if len(list) == 0 || !slices.IsSorted(list) {
			t.Fatalf("party %d has %v, want an ascending list that is not empty", k, list)
		}
		all = append(all, list...)
	}
	slices.Sort(all)
	for i, index := range all {
		if int(index) != i {
			t.Fatalf("%v hold %d indices with %d in the place of %d", p, len(all), index, i)
		}
	}
	if len(all) != n {
		t.Fatalf("%d indices, want %d", len(all), n)
	}
}

// drawCatalogue draws a set with ids and genres and a rating for everything.
func drawCatalogue(t *rapid.T) *dataset.Set {
	users, items := rapid.IntRange(1, 30).Draw(t, "users"), rapid.IntRange(1, 60).Draw(t, "items")
	s := &dataset.Set{Name: "drawn", Ratings: dataset.Ratings{Users: users, Items: items}, UserIDs: idtext.Numbered(users), ItemIDs: idtext.Numbered(items)}
	genre := rapid.SampledFrom([]string{"Action", "Comedy", "Drama", "War", "Western"})
	for range items {
		s.Genres = append(s.Genres, rapid.SliceOfNDistinct(genre, 0, 3, rapid.ID[string]).Draw(t, "genres"))
	}
	return s
}

func TestPartitionRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawCatalogue(t)
		seed := rapid.Uint64().Draw(t, "seed")
		for _, what := range []struct {
			count int
			deal  func(parties int) (Partition, error)
		}{
			{s.Items, func(parties int) (Partition, error) { return PartitionItems(s, RandomPartition, parties, seed) }},
			{s.Users, func(parties int) (Partition, error) { return PartitionUsers(s, parties, seed) }},
		} {
			parties := rapid.IntRange(1, what.count).Draw(t, "parties")
			p, err := what.deal(parties)
			if err != nil {
				t.Fatal(err)
			}
			checkPartition(t, p, parties, what.count)
			for k, list := range p {
				if len(list) != what.count/parties && len(list) != (what.count+parties-1)/parties {
					t.Fatalf("party %d has %d of %d, want an equal share within one", k, len(list), what.count)
				}
			}
		}
	})
}

// rarest is the definition written out: of the item's genres it returns the genre that the fewest
// items bear, counted anew for each, and of equals the first by name.
func rarest(s *dataset.Set, item int) string {
	best, fewest := "", math.MaxInt
	for _, g := range slices.Sorted(slices.Values(s.Genres[item])) {
		bearers := 0
		for _, genres := range s.Genres {
			if slices.Contains(genres, g) {
				bearers++
			}
		}
		if bearers < fewest {
			best, fewest = g, bearers
		}
	}
	return best
}

// TestPartitionCategory: items of one category are never parted, and no more than one category goes to
// a party when there are as many. The load follows the greedy rule: the largest party exceeds the
// smallest by no more than the largest party's smallest category. Otherwise that category, placed
// last, would have gone to another party.
func TestPartitionCategory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawCatalogue(t)
		sizes := make(map[string]int)
		for i := range s.Items {
			sizes[rarest(s, i)]++
		}
		if len(sizes) == 1 && sizes[""] > 0 {
			if _, err := PartitionItems(s, CategoryPartition, 1, 0); !errors.Is(err, errNoCategories) {
				t.Fatalf("error is %v, want errNoCategories", err)
			}
			return
		}
		parties := rapid.IntRange(1, len(sizes)).Draw(t, "parties")
		p, err := PartitionItems(s, CategoryPartition, parties, rapid.Uint64().Draw(t, "seed"))
		if err != nil {
			t.Fatal(err)
		}
		checkPartition(t, p, parties, s.Items)
		owner := make(map[string]int)
		for k, list := range p {
			for _, i := range list {
				g := rarest(s, int(i))
				if of, known := owner[g]; known && of != k {
					t.Fatalf("category %q is at parties %d and %d", g, of, k)
				}
				owner[g] = k
			}
		}
		bySize := func(a, b []int32) int { return cmp.Compare(len(a), len(b)) }
		largest, smallest := slices.MaxFunc(p, bySize), slices.MinFunc(p, bySize)
		last := math.MaxInt
		for _, i := range largest {
			last = min(last, sizes[rarest(s, int(i))])
		}
		if len(largest)-len(smallest) > last {
			t.Fatalf("parties of %d and %d items, though %d could be moved", len(largest), len(smallest), last)
		}
		if _, err = PartitionItems(s, CategoryPartition, len(sizes)+1, 0); !errors.Is(err, ErrParties) ||
			!strings.Contains(err.Error(), fmt.Sprintf("the %d categories of drawn", len(sizes))) {
			t.Fatalf("one party too many: error is %v, want ErrParties and how many there are", err)
		}
	})
}

// TestPartitionByHand follows the rule on a catalogue small enough to do so by hand.
// Bearers: Drama 4, Comedy 3, War 2, Western 2. Rarest: items 0, 1 Drama; 2 Comedy;
// 3 War (before Western); 4 War; 5 Western; 6 and 7 none; so sizes none 2, Drama 2,
// War 2, Comedy 1, Western 1.
func TestPartitionByHand(t *testing.T) {
	s := &dataset.Set{Name: "hand", Ratings: dataset.Ratings{Items: 8}, Genres: [][]string{
		{"Drama"}, {"Drama"}, {"Drama", "Comedy"}, {"Comedy", "Western", "War"}, {"Drama", "War"}, {"Western", "Comedy"}, nil, nil,
	}}
	for parties, want := range map[int]Partition{
		1: {{0, 1, 2, 3, 4, 5, 6, 7}},
		2: {{3, 4, 6, 7}, {0, 1, 2, 5}},       // none, War | Drama, Comedy, Western
		3: {{2, 6, 7}, {0, 1, 5}, {3, 4}},     // none, Comedy | Drama, Western | War
		5: {{6, 7}, {0, 1}, {3, 4}, {2}, {5}}, // none, Drama, War, Comedy, Western
	} {
		got, err := PartitionItems(s, CategoryPartition, parties, 0)
		if diff := gocmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%d parties: %v (-want +got):\n%s", parties, err, diff)
		}
	}
}

// TestPartitionIsPublic: who holds what does not depend on ratings or on how indices
// happen to be numbered, and does depend on the seed.
func TestPartitionIsPublic(t *testing.T) {
	all := open(t, "synthetic:small", read.Options{})
	ids := func(s *dataset.Set, p Partition, err error, of []string) [][]string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		out := make([][]string, len(p))
		for k, list := range p {
			for _, i := range list {
				out[k] = append(out[k], of[i])
			}
			slices.Sort(out[k])
		}
		return out
	}
	deal := func(s *dataset.Set, seed uint64) [3][][]string {
		items, err := PartitionItems(s, RandomPartition, 7, seed)
		byID := [3][][]string{ids(s, items, err, s.ItemIDs)}
		categories, err := PartitionItems(s, CategoryPartition, 7, seed)
		byID[1] = ids(s, categories, err, s.ItemIDs)
		users, err := PartitionUsers(s, 7, seed)
		byID[2] = ids(s, users, err, s.UserIDs)
		return byID
	}
	want := deal(all, 1)

	none := *all
	none.Ratings = dataset.Ratings{Users: all.Users, Items: all.Items}
	if !gocmp.Equal(deal(&none, 1), want) {
		t.Error("without ratings, parties hold other items or users")
	}
	turned := none
	turned.ItemIDs, turned.UserIDs, turned.Genres = slices.Clone(all.ItemIDs), slices.Clone(all.UserIDs), slices.Clone(all.Genres)
	slices.Reverse(turned.ItemIDs)
	slices.Reverse(turned.UserIDs)
	slices.Reverse(turned.Genres)
	if !gocmp.Equal(deal(&turned, 1), want) {
		t.Error("numbered the other way round, parties hold other items or users")
	}
	other := deal(all, 2)
	if gocmp.Equal(other[0], want[0]) || gocmp.Equal(other[2], want[2]) || !gocmp.Equal(other[1], want[1]) {
		t.Error("another seed must change random parties, and must not change categories")
	}
}

// TestPartitionIsRandom: an item and its neighbour fall to one party as often as chance says. Over 400
// items and 200 seeds the 79,800 pairs of neighbours meet with probability 99/399 each. The bound is
// five standard deviations, one false alarm in 10^6, as if the pairs were independent (they are
// nearly, and negatively correlated).
func TestPartitionIsRandom(t *testing.T) {
	s := open(t, "synthetic:small", read.Options{})
	const parties, seeds = 4, 200
	met, pairs := 0, 0
	for seed := range uint64(seeds) {
		p, err := PartitionItems(s, RandomPartition, parties, seed)
		if err != nil {
			t.Fatal(err)
		}
		owner := make([]int, s.Items)
		for k, list := range p {
			for _, i := range list {
				owner[i] = k
			}
		}
		for i := 1; i < s.Items; i++ {
			pairs++
			if owner[i] == owner[i-1] {
				met++
			}
		}
	}
	share := (float64(s.Items)/parties - 1) / float64(s.Items-1)
	if z := (float64(met) - share*float64(pairs)) / math.Sqrt(float64(pairs)*share*(1-share)); math.Abs(z) > 5 {
		t.Errorf("%d of %d neighbours meet, %.1f standard deviations from a share of %.4f", met, pairs, z, share)
	}
}

func TestPartitionErrors(t *testing.T) {
	movies := open(t, "../read/testdata/good/movielens", read.Options{}) // genres Comedy, Drama, Horror, Romance; one item without
	plain := open(t, "../read/testdata/good/generic.csv", read.Options{})
	nameless := &dataset.Set{Ratings: dataset.Ratings{Users: 3, Items: 2}}
	for _, c := range []struct {
		deal func() (Partition, error)
		want string
		is   error
	}{
		{func() (Partition, error) { return PartitionItems(movies, "genre", 2, 0) },
			`partition: "genre" is unknown; want random or category`, nil},
		{func() (Partition, error) { return PartitionItems(movies, RandomPartition, 5, 0) },
			"partition: impossible number of parties: 5 for 4 items; want at least 1 and at most 4", ErrParties},
		{func() (Partition, error) { return PartitionItems(movies, RandomPartition, 0, 0) },
			"partition: impossible number of parties: 0 for 4 items; want at least 1 and at most 4", ErrParties},
		{func() (Partition, error) { return PartitionUsers(movies, -1, 0) },
			"partition: impossible number of parties: -1 for 3 users; want at least 1 and at most 3", ErrParties},
		{func() (Partition, error) { return PartitionItems(movies, CategoryPartition, 5, 0) },
			"partition: impossible number of parties: 5 for the 4 categories of movielens (no genre, Comedy, Drama, Horror); want at least 1 and at most 4", ErrParties},
		{func() (Partition, error) { return PartitionItems(movies, CategoryPartition, 0, 0) },
			"partition: impossible number of parties: 0 for the 4 categories of movielens (no genre, Comedy, Drama, Horror); want at least 1 and at most 4", ErrParties},
		{func() (Partition, error) { return PartitionItems(plain, CategoryPartition, 1, 0) },
			"partition: no categories: generic.csv lists no genres; the MovieLens sets with their file of movies (movies.csv, movies.dat, u.item) and the synthetic ones do", errNoCategories},
		{func() (Partition, error) { return PartitionUsers(nameless, 2, 0) },
			"partition: 0 user ids for 3 users; want one for each, the draw is a hash of them", nil},
	} {
		_, err := c.deal()
		if err == nil || err.Error() != c.want {
			t.Errorf("\n got %v\nwant %s", err, c.want)
		}
		if c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("error %v does not wrap %v", err, c.is)
		}
	}
}

// TestPartitionLatestSmall: the categories of the real set, counted with Python's csv
// and collections modules over movies.csv.
func TestPartitionLatestSmall(t *testing.T) {
	const dir = "../../shared/data/ml-latest-small"
	if _, err := os.Stat(dir); err != nil {
		t.Skip("MovieLens latest-small is not at hand")
	}
	s := open(t, dir, read.Options{})
	got := make(map[string]int)
	for name, items := range categories(s) {
		got[name] = len(items)
	}
	want := map[string]int{
		"": 34, "Action": 338, "Adventure": 312, "Animation": 483, "Children": 310, "Comedy": 1381, "Crime": 863,
		"Documentary": 407, "Drama": 1053, "Fantasy": 397, "Film-Noir": 87, "Horror": 735, "IMAX": 158, "Musical": 316,
		"Mystery": 530, "Romance": 1060, "Sci-Fi": 470, "Thriller": 278, "War": 366, "Western": 164,
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if p, err := PartitionItems(s, CategoryPartition, len(want), 0); err != nil || len(p) != len(want) {
		t.Errorf("%d parties, %v, want %d", len(p), err, len(want))
	}
}
