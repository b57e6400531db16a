package baselines

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/protocol"
)

// mostEASEItems limits the weights of EASE to 7.2 GB.
const mostEASEItems = 30_000

// ease returns the method of Steck: a linear model that predicts each item of a user from the user's
// other items.
func ease() *method {
	ridge := config.DeclareNumber(config.Key{
		Name: "ease.ridge", Kind: config.Real, Default: "500", Range: config.Positive(),
		Help: "Ridge of the weights between items, in users. The paper has 500 for MovieLens 20M, and 200 to 1,000 for other sets.",
	})
	return &method{
		about:  about("ease", "a linear model from a user's items to each other item, in closed form", "EASE: Steck, WWW 2019", 1, ridge.Key),
		passes: once,
		start: func(s *algorithm.Setup) (learner, error) {
			if s.Data.Items > mostEASEItems {
				return nil, config.Errorf("algorithm ease: the weights between %d items do not fit in memory; at most %d items do. ials takes more", s.Data.Items, mostEASEItems)
			}
			return &linear{train: s.Train, known: s.Held.Known(s.Ratings).ByUser(), items: s.Data.Items, ridge: ridge.Value(s.Config)}, nil
		},
	}
}

// linear is EASE. Items that no user in training likes have no weights: the others are numbered by
// place, and row i of weights says what item i of these adds to the score of each of them.
type linear struct {
	atOnce
	train, known *dataset.Rows
	items        int
	ridge        float64
	place        []int32 // of every item; -1 without weights
	liked        []int32 // the items with weights
	weights      []float64
}

// pass computes the weights B that minimise |X - XB|² + ridge·|B|² with a diagonal of zeros, where X
// has a 1 for each liked item of a user. With P = (XᵀX + ridge·I)⁻¹ they are B[i][j] = -P[i][j]/P[j][j]
// (Steck, equation 8).
func (l *linear) pass(int, protocol.Runner) error {
	l.number()
	n := len(l.liked)
	w := make([]float64, n*n)
	var places []int32
	for u := range l.train.Len() {
		l.train.Lend(u, func(items []int32, _ []float32) {
			places = l.places(places[:0], items)
			for k, i := range places {
				row := w[int(i)*n:]
				for _, j := range places[k:] {
					row[j]++
				}
			}
		})
	}
	for i := range n {
		w[i*n+i] += l.ridge
	}
	factor, ok := lapack64.Potrf(blas64.Symmetric{N: n, Stride: n, Uplo: blas.Upper, Data: w})
	if ok {
		_, ok = lapack64.Potri(factor)
	}
	if !ok {
		return config.Errorf("ease.ridge: %v is too small for these ratings: their Gramian has no inverse in float64", l.ridge)
	}
	l.weights = zeroDiagonal(w, n)
	return nil
}

// number gives places to the items that are liked in training, in their order.
func (l *linear) number() {
	l.place, l.liked = slices.Repeat([]int32{-1}, l.items), nil
	for u := range l.train.Len() {
		l.train.Lend(u, func(items []int32, _ []float32) {
			for _, j := range items {
				l.place[j] = 0
			}
		})
	}
	for j, is := range l.place {
		if is == 0 {
			l.place[j] = int32(len(l.liked))
			l.liked = append(l.liked, int32(j))
		}
	}
}

// places appends the places of items, without the items that have none.
func (l *linear) places(to, items []int32) []int32 {
	for _, j := range items {
		if p := l.place[j]; p >= 0 {
			to = append(to, p)
		}
	}
	return to
}

// zeroDiagonal turns the upper triangle of P into B, in place.
func zeroDiagonal(w []float64, n int) []float64 {
	diagonal := make([]float64, n)
	for i := range diagonal {
		diagonal[i] = w[i*n+i]
		w[i*n+i] = 0
	}
	for i := range n {
		for j := i + 1; j < n; j++ {
			p := w[i*n+j]
			w[i*n+j], w[j*n+i] = -p/diagonal[j], -p/diagonal[i]
		}
	}
	return w
}

// Score adds up the rows of a user's items.
func (l *linear) Score(_ int, history []int32, _ []float32, out []float64) {
	n := len(l.liked)
	sums := make([]float64, n)
	for _, i := range l.places(nil, history) {
		floats.Add(sums, l.weights[int(i)*n:(int(i)+1)*n])
	}
	clear(out)
	for p, j := range l.liked {
		out[j] = sums[p]
	}
}

func (l *linear) Predict(user int, items []int32, out []float64) {
	predict(l, l.known, l.items, user, items, out)
}

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
				users: s.Train, known: s.Held.Known(s.Ratings).ByUser(), train: s.Ratings,
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

func (l *nearest) Predict(user int, items []int32, out []float64) {
	predict(l, l.known, l.train.Items, user, items, out)
}
