package baselines

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/protocol"
)

// itemKNN returns neighbours of items by the cosine of who likes them.
func itemKNN() *method {
	neighbours := config.DeclareNumber(config.Key{
		Name: "knn.neighbours", Kind: config.Whole, Default: "100", Range: config.AtLeast(1),
		Help: "How many nearest items score an item.",
	})
	shrinkage := config.DeclareNumber(config.Key{
		Name: "knn.shrinkage", Kind: config.Real, Default: "10", Range: config.AtLeast(0),
		Help: "Number that is added to the denominator of a cosine, so that items with few users are less alike.",
	})
	return &method{
		about: about("item-knn", "the nearest items of a user's items, by cosines with shrinkage", "Sarwar et al., WWW 2001; shrinkage as in Ferrari Dacrema et al., RecSys 2019", 1,
			neighbours.Key, shrinkage.Key),
		passes: once,
		start: func(s *algorithm.Setup) (learner, error) {
			return &nearest{
				users: s.Train, known: histories(s), train: s.Ratings,
				most: neighbours.Int(s.Config), shrinkage: shrinkage.Value(s.Config),
			}, nil
		},
	}
}

// nearest is a model of neighbours.
type nearest struct {
	atOnce
	users, known *dataset.Rows
	train        dataset.Ratings
	most         int
	shrinkage    float64
	scored       [][]similar // for each item the items that it is a neighbour of
}

// similar is an item and a cosine.
type similar struct {
	item   int32
	cosine float64
}

// pass finds the nearest items of every item: with n(i) users who like i and n(i,j) who like both, the
// cosine is n(i,j) / (√(n(i)·n(j)) + shrinkage).
func (l *nearest) pass(_ int, run protocol.Runner) error {
	byItem := turned(l.train)
	likes := make([]float64, l.train.Items)
	for j := range likes {
		users, _ := byItem.Row(j)
		likes[j] = float64(len(users))
	}
	counts := sync.Pool{New: func() any { return make([]float64, l.train.Items) }}
	lists := make([][]similar, l.train.Items)
	run.Each(l.train.Items, func(j int) {
		both := counts.Get().([]float64)
		defer counts.Put(both) //nolint:staticcheck // a slice header is small beside what it points to
		clear(both)
		users, _ := byItem.Row(j)
		for _, u := range users {
			l.users.Lend(int(u), func(items []int32, _ []float32) {
				for _, i := range items {
					both[i]++
				}
			})
		}
		lists[j] = l.best(both, likes, j)
	})
	l.scored = make([][]similar, l.train.Items)
	for j, list := range lists {
		for _, s := range list {
			l.scored[s.item] = append(l.scored[s.item], similar{int32(j), s.cosine})
		}
	}
	return nil
}

// best returns the nearest items of item j, the nearest first.
func (l *nearest) best(both, likes []float64, j int) []similar {
	var list []similar
	for i, n := range both {
		if n > 0 && i != j {
			list = append(list, similar{int32(i), n / (math.Sqrt(likes[i]*likes[j]) + l.shrinkage)})
		}
	}
	slices.SortFunc(list, func(a, b similar) int { return cmp.Or(cmp.Compare(b.cosine, a.cosine), cmp.Compare(a.item, b.item)) })
	return slices.Clip(list[:min(l.most, len(list))])
}

// Score gives an item the sum of the cosines of its neighbours in the history.
func (l *nearest) Score(_ int, history []int32, _ []float32, out []float64) {
	clear(out)
	for _, i := range history {
		for _, s := range l.scored[i] {
			out[s.item] += s.cosine
		}
	}
}

// Predict writes scores, whose order alone counts.
func (l *nearest) Predict(user int, items []int32, out []float64) {
	scores := make([]float64, l.train.Items)
	l.known.Lend(user, func(history []int32, values []float32) { l.Score(user, history, values, scores) })
	pickAt(scores, items, out)
}
