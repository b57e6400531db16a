package baselines

import (
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
			return &linear{train: s.Train, known: histories(s), items: s.Data.Items, ridge: ridge.Value(s.Config)}, nil
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
	l.place, l.liked = make([]int32, l.items), nil
	for u := range l.train.Len() {
		l.train.Lend(u, func(items []int32, _ []float32) {
			for _, j := range items {
				l.place[j] = 1
			}
		})
	}
	for j, is := range l.place {
		l.place[j] = -1
		if is > 0 {
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

// Predict writes scores, whose order alone counts.
func (l *linear) Predict(user int, items []int32, out []float64) {
	scores := make([]float64, l.items)
	l.known.Lend(user, func(history []int32, values []float32) { l.Score(user, history, values, scores) })
	pickAt(scores, items, out)
}
