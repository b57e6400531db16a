package split

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dataset/csr"
	"github.com/fedsim/fedsim/internal/dataset/idtext"
	"github.com/fedsim/fedsim/internal/lists"
)

// Partition divides items or users among parties: element k lists the indices of party k,
// ascending. Every index is in exactly one list, and no list is empty.
type Partition [][]int32

// Partitioning is a way to divide items among parties.
type Partitioning string

const (
	// RandomPartition divides items at random, with party sizes that differ by one at
	// most.
	RandomPartition Partitioning = "random"

	// CategoryPartition gives all items of a category to one party. An item belongs to the genre with the fewest items of the catalogue
	// (FMF, section 4.3), among equals the first by name. Items without a genre are one more category. With fewer parties than
	// categories, these are assigned largest first, each to the party with the fewest items so far.
	CategoryPartition Partitioning = "category"
)

var (
	// ErrParties is wrapped by the error of an impossible number of parties; the error
	// says which numbers are possible.
	ErrParties = errors.New("impossible number of parties")

	// errNoCategories is wrapped by the error of partitioning a set without genres by
	// category; the error says which sets have genres.
	errNoCategories = errors.New("no categories")
)

// PartitionItems divides the items of the set among parties, by the ids and genres of the catalogue and, if at random, the public seed: never
// by a rating. Without a public catalogue random parties depend on which items were rated at all, as the set itself does.
func PartitionItems(s *dataset.Set, how Partitioning, parties int, seed uint64) (Partition, error) {
	switch how {
	case RandomPartition:
		return dealRandomly("item", s.ItemIDs, s.Items, parties, seed)
	case CategoryPartition:
		return dealCategories(s, parties)
	default:
		return nil, fmt.Errorf("partition: %q is unknown; want %s or %s", how, RandomPartition, CategoryPartition)
	}
}

// PartitionUsers divides the users of the set among parties at random, by their ids and the public seed, with sizes that differ by one at
// most.
func PartitionUsers(s *dataset.Set, parties int, seed uint64) (Partition, error) {
	return dealRandomly("user", s.UserIDs, s.Users, parties, seed)
}

// dealRandomly sorts by a hash of seed and id, as good as a shuffle but independent of
// the indices, and deals like cards.
func dealRandomly(what string, ids []string, count, parties int, seed uint64) (Partition, error) {
	if len(ids) != count {
		return nil, fmt.Errorf("partition: %d %s ids for %d %ss; want one for each, the draw is a hash of them", len(ids), what, count, what)
	}
	if parties < 1 || parties > count {
		return nil, fmt.Errorf("partition: %w: %d for %d %ss; want at least 1 and at most %d", ErrParties, parties, count, what, count)
	}
	p := make(Partition, parties)
	for rank, i := range byHash(idtext.Draws("fedsim partition "+what+" v1", ids, seed)) {
		p[rank%parties] = append(p[rank%parties], i)
	}
	return p.ascending(), nil
}

// dealCategories gives every category to one party.
func dealCategories(s *dataset.Set, parties int) (Partition, error) {
	members := categories(s)
	names := slices.Sorted(maps.Keys(members))
	if len(names) == 0 || len(names) == 1 && names[0] == "" {
		return nil, fmt.Errorf("partition: %w: %s lists no genres; the MovieLens sets with their file of movies (movies.csv, movies.dat, u.item) and the synthetic ones do",
			errNoCategories, s.Name)
	}
	if parties < 1 || parties > len(names) {
		list := strings.Join(lists.Map(names, func(name string) string { return cmp.Or(name, "no genre") }), ", ")
		return nil, fmt.Errorf("partition: %w: %d for the %d categories of %s (%s); want at least 1 and at most %d",
			ErrParties, parties, len(names), s.Name, list, len(names))
	}
	slices.SortStableFunc(names, func(a, b string) int { return len(members[b]) - len(members[a]) })
	p := make(Partition, parties)
	for _, name := range names {
		smallest := 0
		for k := range p {
			if len(p[k]) < len(p[smallest]) {
				smallest = k
			}
		}
		p[smallest] = append(p[smallest], members[name]...)
	}
	return p.ascending(), nil
}

// categories returns the items whose rarest genre each is; "" for those without a genre.
func categories(s *dataset.Set) map[string][]int32 {
	films := make(map[string]int)
	for _, genres := range s.Genres {
		for _, g := range genres {
			films[g]++
		}
	}
	members := make(map[string][]int32)
	for i, genres := range s.Genres {
		of := ""
		for _, g := range genres {
			if of == "" || cmp.Or(cmp.Compare(films[g], films[of]), strings.Compare(g, of)) < 0 {
				of = g
			}
		}
		members[of] = append(members[of], int32(i))
	}
	return members
}

func (p Partition) ascending() Partition {
	for _, list := range p {
		slices.Sort(list)
	}
	return p
}

// PublicUsers say whose ratings are public.
type PublicUsers struct {
	Count int      // so many users, drawn by their ids alone: a larger count has all of a smaller one; 0 where IDs names the users
	IDs   []string // these users, in any order, each once
	// Least is the fewest stars of a rating that counts, with the weight 1; at 0 all do, and the
	// rating is the weight.
	Least float64
}

// TakeOut returns a copy of the set without its public users, who become its raters (DP-CMF paper,
// section 4: a feature for each of s public users). None of their ratings is left in the copy, neither
// for training nor in a test file. Users keep their order, items their indices.
//
// The draw of public users depends on hashes of ids alone, and neither on ratings nor on a seed.
//
// It is an error when a named id is no user's, or is named twice, and when no user is left. It is also
// an error when public users were taken out before, and for a regression, whose rows have features
// already.
func TakeOut(s *dataset.Set, p PublicUsers) (*dataset.Set, error) {
	switch {
	case s.Raters != nil:
		return nil, errors.New("they have been taken out before")
	case s.Profile != nil:
		return nil, fmt.Errorf("%s is a regression, whose rows have features of their own", s.Name)
	}
	if err := errors.Join(s.Ratings.Validate(), s.ValidateIDs()); err != nil {
		return nil, err
	}
	public, count, err := public(s, p)
	if err != nil {
		return nil, err
	}
	s = s.Unpacked()
	out := *s
	out.Raters = &dataset.Raters{Least: p.Least}
	out.UserIDs = make([]string, 0, s.Users-count)
	place := make([]int32, s.Users) // of each user among those like it
	for u, id := range s.UserIDs {
		list := &out.UserIDs
		if public[u] {
			list = &out.Raters.IDs
		}
		place[u] = int32(len(*list))
		*list = append(*list, id)
	}
	parts := make([]byte, s.Len())
	for k, u := range s.User {
		if public[u] {
			parts[k] = 1
		}
	}
	out.Ratings, out.Raters.Ratings = pick(s.Ratings, parts, 0), pick(s.Ratings, parts, 1)
	for _, r := range []*dataset.Ratings{&out.Ratings, &out.Raters.Ratings} {
		for k, u := range r.User {
			r.User[k] = place[u]
		}
	}
	out.Ratings.Users, out.Raters.Users = len(out.UserIDs), count
	out.Tested = only(s.Tested, parts, 0)
	out.Digest = out.ComputeDigest()
	return &out, nil
}

// only keeps the entries of one part; nil stays nil.
func only(list []bool, parts []byte, part byte) []bool {
	if list == nil {
		return nil
	}
	out := make([]bool, 0, len(list))
	for k, v := range list {
		if parts[k] == part {
			out = append(out, v)
		}
	}
	return out
}

func public(s *dataset.Set, p PublicUsers) (marked []bool, count int, err error) {
	marked = make([]bool, s.Users)
	if len(p.IDs) == 0 {
		if p.Count < 1 || p.Count >= s.Users {
			return nil, 0, fmt.Errorf("%d of the %d of %s; want at least 1, and 1 fewer than there are", p.Count, s.Users, s.Name)
		}
		for _, u := range byHash(idtext.Hashes("fedsim public user v1", s.UserIDs))[:p.Count] {
			marked[u] = true
		}
		return marked, p.Count, nil
	}
	index := dataset.Places(s.UserIDs)
	for _, id := range p.IDs {
		u, known := index[id]
		switch {
		case !known:
			return nil, 0, fmt.Errorf("%s is not a user of %s", idtext.Quote([]byte(id)), s.Name)
		case marked[u]:
			return nil, 0, fmt.Errorf("%s is named twice", idtext.Quote([]byte(id)))
		}
		marked[u] = true
	}
	if len(p.IDs) == s.Users {
		return nil, 0, fmt.Errorf("all %d of %s are; a user must be left to train on", s.Users, s.Name)
	}
	return marked, len(p.IDs), nil
}

// byHash returns the places of hashes in their order; of equal hashes the first comes first.
func byHash(hashes []uint64) []int32 {
	order := make([]int32, len(hashes))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(hashes[a], hashes[b]), cmp.Compare(a, b)) })
	return order
}

// By says what decides which part of a split a rating belongs to.
type By string

// Kinds of split. Except with Random, the latest ratings are the test, the ratings before them are for
// validation where that is asked for, and all others are for training.
const (
	// Random is a draw for each rating.
	Random By = "random"
	// Time is one moment for all users: from there on everything is the test. It is found by the
	// shares, or said. Ratings of one moment stay together.
	Time By = "time"
	// UserTime takes the share of each user's ratings, rounded to the nearest number, the latest
	// ones. The first of them is always trained on.
	UserTime By = "user-time"
	// LeaveOneOut takes the last rating of each user with at least two. With validation it also takes
	// the rating before, of each user with at least three. In a set without timestamps it takes any
	// rating, by a draw.
	LeaveOneOut By = "leave-one-out"
)

var kinds = []By{Random, Time, UserTime, LeaveOneOut}

// ErrNoTimes is wrapped by the error where timestamps are needed and the source has none.
var ErrNoTimes = errors.New("the data have no timestamps: want a column timestamp, or another one named as it (columns)")

// checkTimes reports a set that cannot be split by time.
func checkTimes(s *dataset.Set, by By) error {
	switch {
	case s.Tested != nil && by != "" && by != Random:
		return errors.New("split: there is a test file, which says what the test is")
	case (by == Time || by == UserTime) && s.Times == nil && s.Len() > 0:
		return ErrNoTimes
	case s.Times != nil && len(s.Times) != s.Len():
		return errors.New("split: there is not one timestamp for each rating")
	default:
		return nil
	}
}

// partByTime cuts at one moment.
func partByTime(s *dataset.Set, p Params, parts []byte) {
	test, validation := cutsOf(s, p)
	for k, at := range s.Times {
		switch {
		case at >= test:
			parts[k] = partTest
		case at >= validation:
			parts[k] = partValidation
		}
	}
}

// cutsOf are the moments at which the test and the validation part begin.
func cutsOf(s *dataset.Set, p Params) (test, validation float64) {
	if p.Cut != nil {
		return *p.Cut, *p.Cut
	}
	if s.Len() == 0 {
		return 0, 0
	}
	times := slices.Sorted(slices.Values(s.Times))
	from := func(share float64) float64 {
		return times[min(len(times)-1, max(0, len(times)-int(math.Round(share*float64(len(times))))))]
	}
	test = from(p.test())
	if p.Validation == 0 {
		return test, test
	}
	return test, from(p.test() + p.Validation)
}

// partByUser takes the latest of each user.
func partByUser(s *dataset.Set, p Params, draw func(int) uint64, parts []byte) {
	start := csr.Starts(s.User, s.Users)
	order := csr.Order(s.User, s.Item, s.Items, start)
	for u := range s.Users {
		of := order[start[u]:start[u+1]]
		slices.SortFunc(of, func(a, b int32) int {
			later := 0
			if s.Times != nil {
				later = cmp.Compare(s.Times[a], s.Times[b])
			}
			return cmp.Or(later, cmp.Compare(draw(int(a)), draw(int(b))))
		})
		test, validation := p.held(len(of))
		for i, k := range of {
			switch {
			case i >= len(of)-test:
				parts[k] = partTest
			case i >= len(of)-test-validation:
				parts[k] = partValidation
			}
		}
	}
}

// held returns how many of a user's n ratings are the test and how many are for validation. At least
// one rating is left to train.
func (p Params) held(n int) (test, validation int) {
	if p.By == LeaveOneOut {
		test = min(1, max(0, n-1))
		if p.Validation > 0 {
			validation = min(1, max(0, n-1-test))
		}
		return test, validation
	}
	share := func(s float64) int { return int(math.Floor(s*float64(n) + 0.5)) }
	test = min(share(p.test()), max(0, n-1))
	return test, min(share(p.Validation), max(0, n-1-test))
}

// partByFile takes what the test file has; of all else, the share for validation by a draw.
func partByFile(s *dataset.Set, p Params, draw func(int) uint64, parts []byte) {
	rest := cut{test: p.Validation} // the draw below that is for validation
	for k, tested := range s.Tested {
		switch {
		case tested:
			parts[k] = partTest
		case rest.of(draw(k)) == partTest:
			parts[k] = partValidation
		}
	}
}
