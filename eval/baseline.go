package eval

import (
	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Constant predicts one number for every rating.
type Constant float64

func (c Constant) Predict(_ int, items []int32, out []float64) {
	for i := range items {
		out[i] = float64(c)
	}
}

// GlobalMean predicts the mean of the training ratings.
func (t *Test) GlobalMean() Constant { return Constant(t.fame.mean) }

// UserMeans predicts each user's own mean, which the user's client can compute alone.
type UserMeans []float64

// UserMean computes the means of the training rows; users without a training rating get
// fallback.
func UserMean(rows *dataset.Rows, fallback float64, run protocol.Runner) UserMeans {
	means := make(UserMeans, rows.Len())
	run.Each(rows.Len(), func(u int) {
		rows.Lend(u, func(_ []int32, values []float32) {
			var sum float64
			for _, x := range values {
				sum += float64(x)
			}
			if means[u] = fallback; len(values) > 0 {
				means[u] = sum / float64(len(values))
			}
		})
	})
	return means
}

func (m UserMeans) Predict(user int, items []int32, out []float64) {
	for i := range items {
		out[i] = m[user]
	}
}

// Biases predicts mean + user's bias + item's bias.
type Biases struct {
	Mean        float64
	Users, Item []float64
}

// biasRidge is the weight of zero in a bias, in ratings. biasSweeps is the number of times that
// users and items take turns. Both are the usual choices: the model has converged, and its test
// error is flat around them.
const (
	biasRidge  = 5
	biasSweeps = 10
)

// Sums over items add up users part by part, so that their bits do not depend on the workers. At
// most biasWave parts of sums are in memory at once, and of packed ratings at most biasUnpacked: half a gigabyte.
const (
	biasPart     = 1 << 14
	biasWave     = 16
	biasUnpacked = 1 << 26
)

// ItemBias fits regularised user and item biases by alternating ridge
// regressions. It sees all ratings: it is not private.
func ItemBias(train dataset.Ratings, run protocol.Runner) *Biases {
	b := &Biases{Users: make([]float64, train.Users), Item: make([]float64, train.Items)}
	rows, sums, known := train.ByUser().Unpacked(biasUnpacked), make([]float64, train.Items), newFame(train)
	b.Mean = known.mean
	parts := (train.Users + biasPart - 1) / biasPart
	wave := model.NewMatrix(min(biasWave, parts), train.Items)
	for sweep := 0; ; sweep++ { // A sweep computes a user's bias and adds it at once to the items of the next sweep.
		clear(sums)
		for first := 0; first < parts; first += wave.Rows() {
			n := min(wave.Rows(), parts-first)
			run.Each(n, func(i int) {
				part := wave.Row(i)
				clear(part)
				for u := biasPart * (first + i); u < min(biasPart*(first+i+1), train.Users); u++ {
					rows.Lend(u, func(items []int32, values []float32) {
						mean, values := b.Mean, values[:len(items)]
						if sweep > 0 {
							var left float64
							for k, j := range items {
								left += float64(values[k]) - mean - b.Item[j]
							}
							b.Users[u] = left / (float64(len(items)) + biasRidge)
						}
						own := b.Users[u]
						for k, j := range items {
							part[j] += float64(values[k]) - mean - own
						}
					})
				}
			})
			for i := range n {
				floats.Add(sums, wave.Row(i))
			}
		}
		if sweep == biasSweeps {
			return b
		}
		for j := range b.Item {
			b.Item[j] = sums[j] / (float64(known.ratings[j]) + biasRidge)
		}
	}
}

func (b *Biases) Predict(user int, items []int32, out []float64) {
	for i, j := range items {
		out[i] = b.Mean + b.Users[user] + b.Item[j]
	}
}

// Popular scores items by their number of training ratings: the same for all users, and
// not private.
type Popular []float64

func (p Popular) Score(_ int, _ []int32, _ []float32, out []float64) { copy(out, p) }

// Predict writes the counts; only their order has a meaning.
func (p Popular) Predict(_ int, items []int32, out []float64) {
	for i, j := range items {
		out[i] = p[j]
	}
}

// Popularity returns the number of training ratings of every item.
func (t *Test) Popularity() Popular {
	return lists.Map(t.fame.ratings, func(n int) float64 { return float64(n) })
}
