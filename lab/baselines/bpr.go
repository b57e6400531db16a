package baselines

import (
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/protocol"
)

// bprName is the name of the method whose items have biases.
const bprName = "bpr-mf"

const (
	bprStart = 0.1 // deviation of an embedding's numbers at the start
	bprFolds = 30  // passes over the history of a user that training has not seen
)

// bpr returns matrix factorization by Bayesian personalised ranking.
func bpr() *method {
	passes := config.DeclareNumber(config.Key{
		Name: "bpr.passes", Kind: config.Whole, Default: "50", Range: config.AtLeast(1),
		Help: "How many pairs of a liked and another item are drawn, for each training rating.",
	})
	rate := config.DeclareNumber(config.Key{
		Name: "bpr.rate", Kind: config.Real, Default: "0.05", Range: config.Positive(),
		Help: "Learning rate.",
	})
	ridge := config.DeclareNumber(config.Key{
		Name: "bpr.ridge", Kind: config.Real, Default: "0.01", Range: config.AtLeast(0),
		Help: "Ridge of the embeddings and biases of a pair.",
	})
	return &method{
		about:  about(bprName, "matrix factorization that puts liked items before others, pair by pair", "BPR: Rendle et al., UAI 2009", factorRank, algorithm.Rank.Key, passes.Key, rate.Key, ridge.Key),
		passes: func(c config.Config) int { return passes.Int(c) },
		start: func(s *algorithm.Setup) (learner, error) {
			d := int(algorithm.Rank.Chosen(s.Config))
			l := &pairwise{factors: newFactors(s, d, d+1), ratings: s.Ratings, rate: rate.Value(s.Config), ridge: ridge.Value(s.Config), seed: algorithm.Seed.Of(s.Config)}
			rng := entropy.Public(l.seed, "bpr/start")
			for i := range l.users.Data() {
				l.users.Data()[i] = bprStart * rng.NormFloat64()
			}
			for j := range l.items.Rows() {
				for c := range d {
					l.items.Row(j)[c] = bprStart * rng.NormFloat64()
				}
			}
			l.fit = l.fold
			return l, nil
		},
	}
}

// pairwise is BPR-MF. An item's row holds its embedding and, last, its bias.
type pairwise struct {
	factors
	ratings     dataset.Ratings
	rate, ridge float64
	seed        uint64
}

// pass takes as many steps as there are ratings. Steps follow one another, so workers do not matter.
func (l *pairwise) pass(number int, _ protocol.Runner) error {
	rng := entropy.Public(l.seed, fmt.Sprint("bpr/pass/", number))
	for range l.ratings.Len() {
		k := rng.IntN(l.ratings.Len())
		u := int(l.ratings.User[k])
		l.train.Lend(u, func(liked []int32, _ []float32) {
			if other, ok := otherThan(liked, l.items.Rows(), rng); ok {
				l.step(l.users.Row(u), l.items.Row(int(l.ratings.Item[k])), l.items.Row(other), true)
			}
		})
	}
	return nil
}

// otherThan draws an item that is not liked. It returns false if all are.
func otherThan(liked []int32, items int, rng interface{ IntN(int) int }) (item int, ok bool) {
	for len(liked) < items {
		j := rng.IntN(items)
		if _, is := slices.BinarySearch(liked, int32(j)); !is {
			return j, true
		}
	}
	return 0, false
}

// step moves a user's embedding, and the rows of a liked and another item if items move, up the slope of
//
//	ln σ(x) - ridge/2·(|u|² + |liked|² + |other|²)  with x = u·(liked - other) + bias(liked) - bias(other)
func (l *pairwise) step(u, liked, other []float64, items bool) {
	d := len(u)
	x := liked[d] - other[d]
	for c, v := range u {
		x += v * (liked[c] - other[c])
	}
	slope := 1 / (1 + math.Exp(x))
	for c, v := range u {
		a, b := liked[c], other[c]
		u[c] += l.rate * (slope*(a-b) - l.ridge*v)
		if items {
			liked[c] += l.rate * (slope*v - l.ridge*a)
			other[c] += l.rate * (-slope*v - l.ridge*b)
		}
	}
	if items {
		liked[d] += l.rate * (slope - l.ridge*liked[d])
		other[d] += l.rate * (-slope - l.ridge*other[d])
	}
}

// fold fits a user that training has not seen, by the same steps with the items as they are. The paper
// knows no such users.
func (l *pairwise) fold(user int, history []int32, row []float64) {
	rng := entropy.Public(l.seed, fmt.Sprint("bpr/user/", user))
	clear(row)
	for range bprFolds * len(history) {
		if other, ok := otherThan(history, l.items.Rows(), rng); ok {
			l.step(row, l.items.Row(int(history[rng.IntN(len(history))])), l.items.Row(other), false)
		}
	}
}
