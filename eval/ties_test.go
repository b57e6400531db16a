package eval

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/protocol"
)

// permutations calls hear with every order of 0, 1, ..., n-1 (Heap's algorithm).
func permutations(n int, hear func([]int32)) {
	p := make([]int32, n)
	for i := range p {
		p[i] = int32(i)
	}
	var turn func(k int)
	turn = func(k int) {
		if k == 1 {
			hear(p)
			return
		}
		for i := range k {
			turn(k - 1)
			if at := i * (1 - k%2); i < k-1 {
				p[at], p[k-1] = p[k-1], p[at]
			}
		}
	}
	turn(n)
}

// alike returns the test of many users with the same ratings: each has rated the first item in training and wants
// some items.
func alike(users, items int, wanted []int32) Test {
	train := dataset.Ratings{Users: users, Items: items}
	test := train
	for u := range int32(users) {
		train.User, train.Item, train.Value = append(train.User, u), append(train.Item, 0), append(train.Value, 5)
		for _, j := range wanted {
			test.User, test.Item, test.Value = append(test.User, u), append(test.Item, j), append(test.Value, 5)
		}
	}
	return NewTest(&split.Parts{Train: train, Test: test}, 1, 5, PopularityBuckets)
}

// With equal predictions a metric is, on average over users, its mean over all orders of the equal items. All 40,320 orders of
// eight items give that mean and the deviation of one user. A metric is off by more than five deviations of the users' mean with
// a chance of 6e-7.
func TestTies(t *testing.T) {
	const users, items = 8000, 9
	scores := []float64{9, 3, 2, 3, 2, 3, 2, 2, math.NaN()} // item 0 is known and in no list
	wanted := []int32{1, 4, 6, 8}
	test := alike(users, items, wanted)
	p := predictor(func(_ int, item int32) float64 { return scores[item] })
	cutoffs := []int{1, 2, 5}
	var sums, squared [3][7]float64 // by cutoff
	n := 0.
	permutations(items-1, func(order []int32) {
		list := make([]int32, len(order))
		for i, j := range order {
			list[i] = j + 1
		}
		slices.SortStableFunc(list, func(a, b int32) int { return cmp.Compare(scores[b], scores[a]) })
		n++
		for c, k := range cutoffs {
			m := accuracyOf(wanted, list, k)
			for i, of := range m.judging() {
				sums[c][i] += *of.value
				squared[c][i] += *of.value * *of.value
			}
		}
	})
	if n != 40320 {
		t.Fatalf("%v orders", n)
	}
	for c, k := range cutoffs { // each alone: how a list is cut depends on the greatest
		sum, squares := sums[c], squared[c]
		got := test.Lists(p, ListParams{Cutoffs: []int{k}, Relevant: 4}, protocol.Workers(2)).At[0]
		for i, of := range got.judging() {
			want := sum[i] / n
			deviation := math.Sqrt(max(0, squares[i]/n-want*want) / users)
			if math.Abs(*of.value-want) > 5*deviation+1e-12 {
				t.Errorf("%s@%d is %.4f, and over all orders %.4f within %.4f", of.name, k, *of.value, want, deviation)
			}
		}
	}
}

// A constant knows nothing. By chance, ten of 199 items hold the only wanted item with probability 10/199. Among 99 drawn items,
// the wanted item is one of the first ten with probability 0.1. Neither depends on which item is wanted.
func TestConstantIsChance(t *testing.T) {
	const users, items = 4000, 200
	for _, wanted := range []int32{1, 100, 199} {
		test := alike(users, items, []int32{wanted})
		q := ListParams{Cutoffs: []int{10}, Relevant: 4}
		full := test.Lists(Constant(3), q, protocol.Workers(1)).At[0].Hit
		sampled := test.Sampled(Constant(3), SampledParams{ListParams: q, Negatives: 99, Seed: 1}, protocol.Workers(1)).Values["sampled_hit@10"]
		for _, x := range []struct{ got, want float64 }{{full, 10. / 199}, {sampled, 0.1}} {
			if deviation := math.Sqrt(x.want * (1 - x.want) / users); math.Abs(x.got-x.want) > 5*deviation {
				t.Errorf("item %d: the hit rate is %.4f, by chance %.4f within %.4f", wanted, x.got, x.want, deviation)
			}
		}
	}
}

// NaN comes last, two items have one order, and equal scores have each order for about half of the users: within five deviations.
func TestAhead(t *testing.T) {
	scores := []float64{1, 1, math.NaN(), math.NaN(), 2}
	for _, c := range [][2]int32{{0, 2}, {1, 3}, {4, 0}, {4, 2}} {
		if !ahead(scores, c[0], c[1], 7) || ahead(scores, c[1], c[0], 7) {
			t.Errorf("item %d is not before item %d", c[0], c[1])
		}
	}
	const users = 10000
	for _, c := range [][2]int32{{0, 1}, {2, 3}} {
		first := 0
		for u := range users {
			a := ahead(scores, c[0], c[1], u)
			if a == ahead(scores, c[1], c[0], u) {
				t.Fatalf("user %d: items %d and %d have no order", u, c[0], c[1])
			}
			if a {
				first++
			}
		}
		if math.Abs(float64(first)-users/2) > 5*math.Sqrt(users)/2 {
			t.Errorf("item %d is before item %d for %d of %d users", c[0], c[1], first, users)
		}
	}
}
