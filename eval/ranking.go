package eval

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Scorer makes recommendations for users that training has not seen.
type Scorer interface {
	// Score writes to out, one entry for each item, how much a user with this history is expected
	// to like it, in any unit: only the order counts, and NaN comes last. [Top] orders equal scores. history holds the items
	// that the user rated, ascending, and values their stars; both may be empty. user is an index
	// into the set. Score is safe for concurrent use for different users.
	Score(user int, history []int32, values []float32, out []float64)
}

const (
	// RankingCutoff is the K of Recall@K and NDCG@K.
	RankingCutoff = 20
	// PopularityBuckets is the default number of buckets that divide items by popularity;
	// MostBuckets is the largest.
	PopularityBuckets = 5
	MostBuckets       = 10
	// rankingBlock is the number of users that share the memory for scores.
	rankingBlock = 32
)

// sliceCutoff returns K of a bucket, from head to tail (Krichene et al., ICML 2023, section 5):
// recall is lower in the tail, where a K of 20 would show nothing.
func sliceCutoff(bucket int) int { return RankingCutoff * (bucket + 1) }

// Buckets divides items by their number of training ratings.
type Buckets struct {
	of    []uint8 // the bucket of each item; 0 is the head
	sizes []int   // of each bucket
}

// NewBuckets orders the items by their training ratings, the most rated first, and among equals by
// index. It divides them into buckets whose sizes differ by at most one. It reads exact counts: use
// it for measuring only.
func NewBuckets(train dataset.Ratings, n int) Buckets { return bucketsOf(newFame(train).ratings, n) }

func bucketsOf(counts []int, n int) Buckets {
	b := Buckets{of: PopularityRanks(counts, n), sizes: make([]int, n)}
	for _, bucket := range b.of {
		b.sizes[bucket]++
	}
	return b
}

// PopularityRanks deals items to n buckets, 1 to [MostBuckets], of the same size by their counts.
// The items with the largest counts go to bucket 0; items of the same count keep their order.
func PopularityRanks(counts []int, n int) []uint8 {
	order, of := model.Indices(len(counts)), make([]uint8, len(counts))
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	for rank, j := range order {
		of[j] = uint8(rank * n / len(counts))
	}
	return of
}

// Ranking is the quality of recommendations for held-out users: means over the users with an item
// in the target.
type Ranking struct {
	Users  int     `json:"users"`
	Recall float64 `json:"recall@20"` // NaN without users
	NDCG   float64 `json:"ndcg@20"`   // NaN without users

	// Slices holds the buckets of popularity, from head to tail.
	Slices []RecallSlice `json:"slices"`
}

// RecallSlice is the recall of the items of a bucket among the first K of all items: a mean over
// the users with such an item in the target.
type RecallSlice struct {
	Items  int      `json:"items"`
	K      int      `json:"k"`
	Users  int      `json:"users"`
	Recall *float64 `json:"recall"` // nil without users
}

// Rank measures recommendations as Liang et al. do (WWW 2018, section 4.2). It scores all items
// except the history. Equal scores are in the order of [Top]. With T the target
//
//	recall@K = |first K and T| / min(K, |T|)
//	NDCG@K   = sum over hits at rank r <= K of 1/log2(r+1), divided by the sum for min(K, |T|) hits at the first ranks
//
// In a bucket of popularity, T is the part of the target in the bucket, and K grows from head to
// tail; all items are still ranked. Sums run over users in order, so the result does not depend on
// the number of workers.
func Rank(h split.HeldOut, s Scorer, b Buckets, run protocol.Runner) Ranking {
	t := Test{
		Rows: h.Target.ByUser(), Validation: h.Hidden.ByUser(), Held: &split.HoldOut{Test: h, Seen: h.Hidden.Len() > 0},
		Buckets: b, known: h.History.ByUser(),
	}
	each, _ := t.listsOf(t.byHistory(s), ListParams{Cutoffs: []int{sliceCutoff(len(b.sizes) - 1)}}, run)
	return b.mean(each)
}

// discount returns the value of a hit at a place, counted from 0.
func discount(place int) float64 { return 1 / math.Log2(float64(place)+2) }

// mean compares lists with targets.
func (b Buckets) mean(each []listed) Ranking {
	r := Ranking{Slices: make([]RecallSlice, len(b.sizes))}
	var recall [MostBuckets]float64
	for bucket := range r.Slices {
		r.Slices[bucket].Items, r.Slices[bucket].K = b.sizes[bucket], sliceCutoff(bucket)
	}
	for _, u := range each {
		m := accuracyOf(u.wanted, u.list, RankingCutoff)
		r.Users, r.Recall, r.NDCG = r.Users+1, r.Recall+m.Recall, r.NDCG+m.NDCG
		var hits, wanted [MostBuckets]int // hits among the first K of the bucket
		for _, j := range u.wanted {
			wanted[b.of[j]]++
		}
		for place, j := range u.list {
			if _, hit := slices.BinarySearch(u.wanted, j); hit && place < sliceCutoff(int(b.of[j])) {
				hits[b.of[j]]++
			}
		}
		for bucket := range r.Slices {
			if s := &r.Slices[bucket]; wanted[bucket] > 0 {
				s.Users++
				recall[bucket] += float64(hits[bucket]) / float64(min(s.K, wanted[bucket]))
			}
		}
	}
	r.Recall, r.NDCG = r.Recall/float64(r.Users), r.NDCG/float64(r.Users)
	for bucket := range r.Slices {
		if s := &r.Slices[bucket]; s.Users > 0 {
			s.Recall = new(recall[bucket] / float64(s.Users))
		}
	}
	return r
}

// ErrorSlice is the error of predictions for the items of a bucket, in stars.
type ErrorSlice struct {
	Items   int      `json:"items"`
	Ratings int      `json:"ratings"`
	RMSE    *float64 `json:"rmse"` // nil without ratings
}

// Top returns the indices of the k largest scores, without the indices in but, which must ascend. The largest come first, and NaN comes last.
// Equal scores are in the order of [Draw], so that no metric depends on the names or the order of items, and a user's list is the same
// wherever it is made.
func Top(scores []float64, k int, but []int32, user int) []int32 {
	k = min(k, len(scores))
	best := make([]int32, 0, 2*k) // contains the k best so far
	cut := func() {
		slices.SortFunc(best, func(a, b int32) int {
			if ahead(scores, a, b, user) {
				return -1
			}
			return 1
		})
		best = best[:min(k, len(best))]
	}
	bar := math.NaN()
	limit := int32(-1) // the index of the worst of k that are at least as good as the k best; -1 before there are k
	for at, x := range scores {
		if x < bar { // most are below, and need no order
			continue
		}
		j := int32(at)
		for len(but) > 0 && but[0] < j {
			but = but[1:]
		}
		if len(but) > 0 && but[0] == j || limit >= 0 && ahead(scores, limit, j, user) {
			continue
		}
		best = append(best, j)
		if len(best) == 2*k {
			cut()
			limit = best[k-1]
			bar = scores[limit]
		}
	}
	cut()
	return best
}

// ahead reports whether item a comes before item b, another item, in the list of a user.
func ahead(scores []float64, a, b int32, user int) bool {
	if c := cmp.Compare(scores[a], scores[b]); c != 0 {
		return c > 0
	}
	return Draw(user, a) < Draw(user, b)
}

// Draw returns the number that orders equal scores of a user, the smallest first. Numbers of different
// items differ. It is the output function of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), which mixes all bits.
func Draw(user int, item int32) uint64 {
	z := (uint64(user)<<32 | uint64(uint32(item))) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// SampledParams says how to rank relevant items among few others, as many papers on federated
// recommendation do. Each relevant item is ranked among itself and so many items drawn at random,
// with replacement, from the items that the user has not rated in any part.
type SampledParams struct {
	ListParams
	Negatives int // items drawn for each relevant item; 0: nothing is measured
	Seed      uint64
}

// SampledQuality is the quality of rankings among sampled items.
type SampledQuality struct {
	Negatives int `json:"negatives"` // items drawn for each relevant item
	Users     int `json:"users"`
	// Values holds means over users, by name. "sampled_hit@10" is the share of a user's relevant items that are among the first 10 of
	// their sample, and "sampled_ndcg@10" discounts them by 1/log2(rank+1). "corrected_..." estimate the same among all items ([corrector]).
	Values map[string]float64 `json:"values"`
}

// sampledGains holds the metrics of a single relevant item among the first K by its rank, counted from 1.
var sampledGains = []struct {
	name string
	of   func(rank int) float64
}{
	{"hit", func(int) float64 { return 1 }},
	{"ndcg", func(rank int) float64 { return discount(rank - 1) }},
}

// Sampled ranks every relevant item among sampled items. It returns nil without cutoffs or
// negatives, if no user has a relevant item and an item that it has not rated, and for held-out users
// if the predictor is no [Scorer]. The draws follow from the seed and the user, so the result does
// not depend on the number of workers. Equal predictions are in the order of [Top].
func (t *Test) Sampled(p model.Predictor, q SampledParams, run protocol.Runner) *SampledQuality {
	if q.Negatives == 0 {
		return nil
	}
	each, _ := t.scored(t.allItems(p), q.ListParams, run, func(u *listed, scores []float64) { t.sample(u, scores, q) })
	each = slices.DeleteFunc(each, func(u listed) bool { return u.ranks == nil })
	if len(each) == 0 {
		return nil
	}
	return q.mean(each)
}

func (t *Test) sample(u *listed, scores []float64, q SampledParams) {
	rated := t.seen(u.user)
	t.Rows.Lend(u.user, func(items []int32, _ []float32) { rated = slices.Concat(rated, items) })
	slices.Sort(rated)
	free := slices.DeleteFunc(model.Indices(len(scores)), func(j int32) bool {
		_, is := slices.BinarySearch(rated, j)
		return is
	})
	if len(free) == 0 {
		return
	}
	u.candidates = len(free) + 1
	draw := entropy.Public(q.Seed, fmt.Sprintf("negatives of %d", u.user))
	for _, target := range u.wanted {
		rank := 1
		for range q.Negatives {
			if ahead(scores, free[draw.IntN(len(free))], target, u.user) {
				rank++
			}
		}
		u.ranks = append(u.ranks, rank)
	}
}

func (q SampledParams) mean(each []listed) *SampledQuality {
	out := &SampledQuality{Negatives: q.Negatives, Users: len(each), Values: make(map[string]float64)}
	var candidates float64
	for _, u := range each {
		candidates += float64(u.candidates)
	}
	fix := newCorrector(q.Negatives, max(2, int(math.Round(candidates/float64(len(each))))))
	for _, k := range q.Cutoffs {
		for _, g := range sampledGains {
			corrected := fix.values(g.of, k)
			var sampled, fixed float64
			for _, u := range each {
				var a, b float64
				for _, rank := range u.ranks {
					if rank <= k {
						a += g.of(rank)
					}
					b += corrected[rank-1]
				}
				sampled += a / float64(len(u.ranks))
				fixed += b / float64(len(u.ranks))
			}
			out.Values[fmt.Sprintf("sampled_%s@%d", g.name, k)] = sampled / float64(len(each))
			out.Values[fmt.Sprintf("corrected_%s@%d", g.name, k)] = fixed / float64(len(each))
		}
	}
	return out
}

// varianceWeight trades the variance of corrections against their bias: Krichene and Rendle's
// choice, section 6.
const varianceWeight = 0.01

// corrector holds the value of each rank 1, 2, ..., negatives+1 in a sample, as an estimate of a metric
// among all items. It is the estimator that trades bias against variance (Krichene and Rendle, KDD 2020,
// section 5.3). With p(R) = 1/items for the rank R among all items, and p(r|R) the binomial law of
// the rank r in the sample,
//
//	A[R][r] = √p(R) p(r|R),  b[R] = √p(R) metric(R),  c[r] = Σ p(R) p(r|R)
//	values = ((1-γ) AᵀA + γ diag(c))⁻¹ Aᵀb
//
// Values may be below 0 or above 1: only their mean is an estimate.
type corrector struct {
	negatives, items int
	factor           mat.Cholesky // of the matrix to invert
}

func newCorrector(negatives, items int) *corrector {
	c := &corrector{negatives: negatives, items: items}
	n := negatives + 1
	square := mat.NewSymDense(n, nil)
	for rank := 1; rank <= items; rank++ {
		law := c.law(rank)
		square.SymRankOne(square, (1-varianceWeight)/float64(items), mat.NewVecDense(n, law))
		for r := range law {
			square.SetSym(r, r, square.At(r, r)+varianceWeight*law[r]/float64(items))
		}
	}
	if !c.factor.Factorize(square) {
		panic(fmt.Sprintf("eval: no correction for %d of %d items", negatives, items)) // γ diag(c) is positive
	}
	return c
}

// law returns the probabilities of the ranks in a sample, for an item of a rank among all items: each
// drawn item comes before it with probability (rank-1)/(items-1).
func (c *corrector) law(rank int) []float64 {
	law := make([]float64, c.negatives+1)
	switch rank {
	case 1:
		law[0] = 1
	case c.items:
		law[c.negatives] = 1
	default:
		b := distuv.Binomial{N: float64(c.negatives), P: float64(rank-1) / float64(c.items-1)}
		for r := range law {
			law[r] = b.Prob(float64(r))
		}
	}
	return law
}

// values returns the values of the ranks in a sample. The metric is 0 above the rank last.
func (c *corrector) values(metric func(rank int) float64, last int) []float64 {
	right := mat.NewVecDense(c.negatives+1, nil)
	for rank := 1; rank <= min(last, c.items); rank++ {
		right.AddScaledVec(right, metric(rank)/float64(c.items), mat.NewVecDense(c.negatives+1, c.law(rank)))
	}
	var out mat.VecDense
	if err := c.factor.SolveVecTo(&out, right); err != nil {
		panic(fmt.Sprintf("eval: correction for %d of %d items: %v", c.negatives, c.items, err))
	}
	return out.RawVector().Data
}
