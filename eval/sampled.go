package eval

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

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
	// Values holds means over users, by name. "sampled_hit@10" is the share of a user's relevant
	// items that are among the first 10 of their sample, and "sampled_ndcg@10" discounts them by
	// 1/log2(rank+1). "corrected_hit@10" and "corrected_ndcg@10" estimate the values among all items,
	// as [corrector] says.
	Values map[string]float64 `json:"values"`
}

// sampledGains holds the metrics of a single relevant item by its rank, counted from 1.
var sampledGains = []struct {
	name string
	of   func(rank, k int) float64
}{
	{"hit", func(rank, k int) float64 {
		if rank <= k {
			return 1
		}
		return 0
	}},
	{"ndcg", func(rank, k int) float64 {
		if rank <= k {
			return discount(rank - 1)
		}
		return 0
	}},
}

// sampledUser is a user with the ranks of its relevant items among their samples.
type sampledUser struct {
	ranks      []int
	candidates int // items that the user has not rated in any part, and one relevant item
}

// Sampled ranks every relevant item among sampled items. It returns nil without cutoffs or
// negatives, if no user has a relevant item and an item that it has not rated, and for held-out users
// if the predictor is no [Scorer]. The draws follow from the seed and the user, so the result does
// not depend on the number of workers. Equal predictions are in the order of [Top].
func (t *Test) Sampled(p model.Predictor, q SampledParams, run protocol.Runner) *SampledQuality {
	score := t.allItems(p)
	if q.Negatives == 0 || len(q.Cutoffs) == 0 || score == nil {
		return nil
	}
	users, _ := t.wishes(q.Relevant, t.most(q.ListParams))
	each := make([]sampledUser, len(users))
	blocks := (len(users) + rankingBlock - 1) / rankingBlock
	run.Each(blocks, func(block int) {
		scores := make([]float64, len(t.Buckets.of))
		for i := block * rankingBlock; i < min((block+1)*rankingBlock, len(users)); i++ {
			score(users[i].user, scores)
			each[i] = t.sample(users[i], scores, q)
		}
	})
	each = slices.DeleteFunc(each, func(u sampledUser) bool { return u.ranks == nil })
	if len(each) == 0 {
		return nil
	}
	return q.mean(each)
}

// sample draws the samples of a user.
func (t *Test) sample(u listed, scores []float64, q SampledParams) sampledUser {
	rated := t.seen(u.user)
	t.Rows.Lend(u.user, func(items []int32, _ []float32) { rated = slices.Concat(rated, items) })
	slices.Sort(rated)
	free := make([]int32, 0, len(scores))
	for j := range int32(len(scores)) {
		if len(rated) > 0 && rated[0] == j {
			for len(rated) > 0 && rated[0] == j {
				rated = rated[1:]
			}
			continue
		}
		free = append(free, j)
	}
	if len(free) == 0 {
		return sampledUser{}
	}
	out := sampledUser{candidates: len(free) + 1}
	draw := entropy.Public(q.Seed, fmt.Sprintf("negatives of %d", u.user))
	for _, target := range u.wanted {
		rank := 1
		for range q.Negatives {
			if ahead(scores, free[draw.IntN(len(free))], target, u.user) {
				rank++
			}
		}
		out.ranks = append(out.ranks, rank)
	}
	return out
}

// mean averages over users.
func (q SampledParams) mean(each []sampledUser) *SampledQuality {
	out := &SampledQuality{Negatives: q.Negatives, Users: len(each), Values: make(map[string]float64)}
	var candidates float64
	for _, u := range each {
		candidates += float64(u.candidates)
	}
	fix := newCorrector(q.Negatives, max(2, int(math.Round(candidates/float64(len(each))))))
	for _, k := range q.Cutoffs {
		for _, g := range sampledGains {
			corrected := fix.values(func(rank int) float64 { return g.of(rank, k) }, k)
			var sampled, fixed float64
			for _, u := range each {
				var a, b float64
				for _, rank := range u.ranks {
					a += g.of(rank, k)
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
