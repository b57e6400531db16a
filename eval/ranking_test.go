package eval

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/protocol"
)

// scorer scores by a function of the user and the item.
type scorer func(user, item int) float64

func (s scorer) Score(user int, _ []int32, _ []float32, out []float64) {
	for j := range out {
		out[j] = s(user, j)
	}
}

// ratings makes ratings of 1 star from lists of items, one for each user.
func ratings(items int, lists ...[]int32) dataset.Ratings {
	r := dataset.Ratings{Users: len(lists), Items: items}
	for u, list := range lists {
		for _, j := range list {
			r.User, r.Item, r.Value = append(r.User, int32(u)), append(r.Item, j), append(r.Value, 1)
		}
	}
	return r
}

// modulo makes training ratings of 200 items that put item j in bucket j mod 5.
func modulo() dataset.Ratings {
	lists := make([][]int32, PopularityBuckets)
	for u := range lists {
		for j := range int32(200) {
			if int(j)%PopularityBuckets <= u { // 5 ratings of items 0, 5, ..., one of items 4, 9, ...
				lists[u] = append(lists[u], j)
			}
		}
	}
	return ratings(200, lists...)
}

// TestRankByHand recommends items in the order of their indices. The numbers are computed by hand
// from the definitions; 1/log2(21) and the sum of 1/log2(2) to 1/log2(8) with bc.
func TestRankByHand(t *testing.T) {
	thirty := make([]int32, 30)
	for j := range thirty {
		thirty[j] = int32(j)
	}
	h := split.HeldOut{
		Users:   []int32{0, 1, 2},
		History: ratings(200, nil, nil, []int32{7}, []int32{9}),
		Target:  ratings(200, []int32{19, 20, 21, 60, 99, 100, 104}, thirty, nil, []int32{1}),
	}
	down := scorer(func(_, item int) float64 { return -float64(item) })
	got := Rank(h, down, NewBuckets(modulo(), PopularityBuckets), protocol.Workers(2))
	// The first user has one of seven among the first 20, at rank 20; the second 20 of 20. The
	// third has no target, and the fourth is not held out.
	if got.Users != 2 || !near(got.Recall, (1./7+1)/2) || !near(got.NDCG, (0.22767024869695300/3.63799963932074758+1)/2) {
		t.Errorf("%d users, recall %v, NDCG %v", got.Users, got.Recall, got.NDCG)
	}
	for bucket, want := range []struct {
		k, users int
		recall   float64
	}{
		{20, 2, (0./3 + 4./6) / 2},  // 20, 60 and 100 are too far down; 0, 5, 10, 15 of 0, ..., 25
		{40, 2, (1./1 + 6./6) / 2},  // 21
		{60, 1, 6. / 6},             // the second user alone
		{80, 1, 6. / 6},             // the second user alone
		{100, 2, (2./3 + 6./6) / 2}, // 19 and 99, but not 104
	} {
		s := got.Slices[bucket]
		if s.Items != 40 || s.K != want.k || s.Users != want.users || s.Recall == nil || !near(*s.Recall, want.recall) {
			t.Errorf("bucket %d: %d items, K %d, %d users, recall %v, want %+v", bucket, s.Items, s.K, s.Users, s.Recall, want)
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-14 }

// TestRankLeavesOut: items of the history are not recommended, whatever their score, even if there
// is nothing else; and a bucket without a target is null in JSON.
func TestRankLeavesOut(t *testing.T) {
	h := split.HeldOut{Users: []int32{0}, History: ratings(5, []int32{0, 3}), Target: ratings(5, []int32{1})}
	b := NewBuckets(ratings(5, []int32{0, 1, 2, 3, 4}), PopularityBuckets)
	best := scorer(func(_, item int) float64 { return []float64{9, math.NaN(), math.Inf(-1), 8, 7}[item] })
	got := Rank(h, best, b, protocol.Workers(1))
	// Without the history 4 comes first, then 2, and 1, which has no score, last: rank 3 of 3.
	if got.Recall != 1 || !near(got.NDCG, 0.5) {
		t.Errorf("recall %v, NDCG %v, want 1 and 1/log2(4)", got.Recall, got.NDCG)
	}
	text, err := json.Marshal(got)
	if err != nil || strings.Count(string(text), `"recall":null`) != 4 || !strings.Contains(string(text), `{"items":1,"k":40,"users":1,"recall":1}`) {
		t.Errorf("%s, %v", text, err)
	}
}

// Nine items have 9 to 1 ratings. Two buckets have the first five and the last four items; three
// buckets have three each.
func TestBucketsByHand(t *testing.T) {
	var item []int32
	for j := range 9 {
		item = append(item, slices.Repeat([]int32{int32(j)}, 9-j)...)
	}
	train := dataset.Ratings{Users: 1, Items: 9, Item: item, User: make([]int32, len(item)), Value: make([]float32, len(item))}
	for n, want := range map[int][]uint8{1: {0, 0, 0, 0, 0, 0, 0, 0, 0}, 2: {0, 0, 0, 0, 0, 1, 1, 1, 1}, 3: {0, 0, 0, 1, 1, 1, 2, 2, 2}} {
		b := NewBuckets(train, n)
		if !slices.Equal(b.of, want) || len(b.sizes) != n || b.sizes[0] != 9-9*(n-1)/n && n < 3 {
			t.Errorf("%d buckets: %v of sizes %v, want %v", n, b.of, b.sizes, want)
		}
	}
}

// TestRankBruteForce compares with the definitions on sorted lists and sets, for random scores
// without equal values, which TestTies has.
func TestRankBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const users = 40
		items := rapid.IntRange(1, 300).Draw(t, "items")
		bits := rapid.Uint64().Draw(t, "seed")
		draw := func(what, a, b int) uint64 { // a hash
			x := bits + uint64(what)<<60 + uint64(a)<<30 + uint64(b)
			for range 3 {
				x = (x ^ x>>29) * 0xbf58476d1ce4e5b9
			}
			return x >> 20
		}
		var seen, wanted, trained [users][]int32
		for u := range users {
			for j := range int32(items) {
				switch draw(1, u, int(j)) % 8 {
				case 0:
					seen[u] = append(seen[u], j)
				case 1, 2:
					wanted[u] = append(wanted[u], j)
				}
				if draw(2, u, int(j))%uint64(j+1) == 0 {
					trained[u] = append(trained[u], j)
				}
			}
		}
		train := ratings(items, trained[:]...)
		h := split.HeldOut{History: ratings(items, seen[:]...), Target: ratings(items, wanted[:]...)}
		for u := range int32(users) {
			if u%3 != 0 {
				h.Users = append(h.Users, u)
			}
		}
		score := func(u, j int) float64 { return float64(draw(3, u, j) % (1 << 40)) }
		got := Rank(h, scorer(score), NewBuckets(train, PopularityBuckets), protocol.Workers(3))

		count := make([]int, items)
		for _, j := range train.Item {
			count[j]++
		}
		bucketOf := func(j int32) int { // by the number of more popular items
			ahead := 0
			for i := range items {
				if count[i] > count[j] || count[i] == count[j] && i < int(j) {
					ahead++
				}
			}
			return 5 * ahead / items
		}
		want := Ranking{Slices: make([]RecallSlice, PopularityBuckets)}
		var sums [5]float64
		for _, u := range h.Users {
			if len(wanted[u]) == 0 {
				continue
			}
			var list []int32
			for j := range int32(items) {
				if !slices.Contains(seen[u], j) {
					list = append(list, j)
				}
			}
			slices.SortStableFunc(list, func(a, b int32) int { return cmp.Compare(score(int(u), int(b)), score(int(u), int(a))) })
			recall := func(k int, target []int32) float64 {
				hits := 0
				for _, j := range list[:min(k, len(list))] {
					if slices.Contains(target, j) {
						hits++
					}
				}
				return float64(hits) / math.Min(float64(k), float64(len(target)))
			}
			want.Users++
			want.Recall += recall(20, wanted[u])
			var dcg, ideal float64
			for r := 1; r <= 20; r++ {
				if r <= len(list) && slices.Contains(wanted[u], list[r-1]) {
					dcg += 1 / math.Log2(float64(r+1))
				}
				if r <= len(wanted[u]) {
					ideal += 1 / math.Log2(float64(r+1))
				}
			}
			want.NDCG += dcg / ideal
			for bucket := range sums {
				var target []int32
				for _, j := range wanted[u] {
					if bucketOf(j) == bucket {
						target = append(target, j)
					}
				}
				if len(target) > 0 {
					want.Slices[bucket].Users++
					sums[bucket] += recall(20*(bucket+1), target)
				}
			}
		}
		close := func(a, b float64) bool { return math.Abs(a-b) < 1e-12 || math.IsNaN(a) && math.IsNaN(b) }
		if n := float64(want.Users); got.Users != want.Users || !close(got.Recall, want.Recall/n) || !close(got.NDCG, want.NDCG/n) {
			t.Fatalf("%d users, recall %v, NDCG %v; want %d, %v, %v", got.Users, got.Recall, got.NDCG, want.Users, want.Recall/n, want.NDCG/n)
		}
		for bucket, s := range got.Slices {
			n := want.Slices[bucket].Users
			if s.Users != n || (s.Recall == nil) != (n == 0) || n > 0 && !close(*s.Recall, sums[bucket]/float64(n)) {
				t.Fatalf("bucket %d: %+v, want %d users", bucket, s, n)
			}
		}
	})
}

// TestRankWorkers: the result is the same bits with any number of workers.
func TestRankWorkers(t *testing.T) {
	set, err := read.Open(t.Context(), "synthetic:small", read.Options{})
	if err != nil {
		t.Fatal(err)
	}
	held, err := split.Divide(set, split.Params{Users: split.UsersHeldOut, Test: 0.5, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	b := NewBuckets(held.Train, PopularityBuckets)
	popular := scorer(func(user, item int) float64 { return float64(item * (user + 3) % 17) })
	one, _ := json.Marshal(Rank(held.Held.Test, popular, b, protocol.Workers(1)))
	three, _ := json.Marshal(Rank(held.Held.Test, popular, b, protocol.Workers(3)))
	if string(one) != string(three) || len(one) == 0 {
		t.Errorf("%s\n%s", one, three)
	}
}

// small is a synthetic set, split.
func small(t *testing.T) *split.Parts {
	t.Helper()
	set, err := read.Open(t.Context(), "synthetic:small", read.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := split.Divide(set, split.Params{Test: 0.1, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestBucketsAreEqual: their sizes differ by at most one, and no item is rated more often than an
// item of an earlier bucket.
func TestBucketsAreEqual(t *testing.T) {
	split := small(t)
	b := NewBuckets(split.Train, PopularityBuckets)
	counts := make([]int, split.Train.Items)
	for _, j := range split.Train.Item {
		counts[j]++
	}
	most, least := [PopularityBuckets]int{}, [PopularityBuckets]int{}
	for bucket := range least {
		least[bucket] = math.MaxInt
	}
	for j, n := range counts {
		bucket := b.of[j]
		most[bucket], least[bucket] = max(most[bucket], n), min(least[bucket], n)
	}
	for bucket, size := range b.sizes {
		if n := split.Train.Items / PopularityBuckets; size < n || size > n+1 {
			t.Errorf("bucket %d has %d of %d items", bucket, size, split.Train.Items)
		}
		if bucket > 0 && most[bucket] > least[bucket-1] {
			t.Errorf("an item of bucket %d has %d ratings, one of bucket %d %d", bucket, most[bucket], bucket-1, least[bucket-1])
		}
	}
}

// TestMeasureSlices compares with squares summed up rating by rating, and their total with Measure.
func TestMeasureSlices(t *testing.T) {
	split := small(t)
	e := NewTest(split, 0.5, 5, PopularityBuckets)
	b := e.Buckets
	p := ItemBias(split.Train, protocol.Workers(1))
	got := e.Slices(p, protocol.Workers(2))
	var squares [PopularityBuckets]float64
	var count [PopularityBuckets]int
	test := split.Test
	for k, v := range test.Value {
		out := make([]float64, 1)
		p.Predict(int(test.User[k]), test.Item[k:k+1], out)
		d := min(max(out[0], e.Min), e.Max) - float64(v)
		squares[b.of[test.Item[k]]] += d * d
		count[b.of[test.Item[k]]]++
	}
	var all float64
	for bucket, s := range got {
		if s.Ratings != count[bucket] || s.RMSE == nil || math.Abs(*s.RMSE-math.Sqrt(squares[bucket]/float64(count[bucket]))) > 1e-12 {
			t.Errorf("bucket %d: %+v, want %d ratings, squares %v", bucket, s, count[bucket], squares[bucket])
			continue
		}
		all += *s.RMSE * *s.RMSE * float64(s.Ratings)
	}
	if mse := e.Measure(p, protocol.Workers(1)).MSE; math.Abs(all/float64(test.Len())-mse) > 1e-12 {
		t.Errorf("together %v, want the MSE %v", all/float64(test.Len()), mse)
	}
	e.Buckets = Buckets{of: make([]uint8, split.Train.Items), sizes: make([]int, 2)}
	none := e.Slices(p, protocol.Workers(1))
	if none[0].Ratings != test.Len() || none[1].RMSE != nil {
		t.Errorf("a bucket without ratings: %+v", none)
	}
}

// TestTop compares the partial selection with a full sort.
func TestTop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scores := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(0, 4), rapid.SampledFrom([]float64{1, 2, math.NaN(), math.Inf(1), math.Inf(-1)})), 0, 200).Draw(t, "scores")
		k := rapid.IntRange(1, 30).Draw(t, "k")
		var but, want []int32
		for j := range int32(len(scores)) {
			if rapid.IntRange(0, 3).Draw(t, "but") == 0 {
				but = append(but, j)
			} else {
				want = append(want, j)
			}
		}
		user := rapid.IntRange(0, 1<<20).Draw(t, "user")
		slices.SortFunc(want, func(a, b int32) int {
			if ahead(scores, a, b, user) {
				return -1
			}
			return 1
		})
		if got := Top(scores, k, but, user); !slices.Equal(got, want[:min(k, len(want))]) {
			t.Fatalf("got %v, want the first %d of %v", got, k, want)
		}
	})
}
