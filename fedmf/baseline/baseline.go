// Package baseline holds what a federated factorization is compared with:
// plain functions on ratings in one place, outside the roles and without any
// privacy. Each is a [Predictor], so that one function measures all.
package baseline

import (
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/fedmf"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Constant predicts one number for everything.
type Constant float64

// Predict implements Predictor.
func (c Constant) Predict(_ int, items []int32, out []float64) {
	for i := range items {
		out[i] = float64(c)
	}
}

// GlobalMean predicts the mean of the training ratings.
func GlobalMean(train dataset.Ratings) Constant { return Constant(train.Mean()) }

// UserMeans predicts each user's own mean, which a device can do by itself.
type UserMeans []float64

// UserMean computes the means of the training rows; fallback stands in for
// users without a training rating.
func UserMean(rows *dataset.Rows, fallback float64) UserMeans {
	means := make(UserMeans, rows.Len())
	for u := range means {
		means[u] = fallback
		if _, values := rows.Row(u); len(values) > 0 {
			var sum float64
			for _, x := range values {
				sum += float64(x)
			}
			means[u] = sum / float64(len(values))
		}
	}
	return means
}

// Predict implements Predictor.
func (m UserMeans) Predict(user int, items []int32, out []float64) {
	for i := range items {
		out[i] = m[user]
	}
}

// Biases predict mean + user's bias + item's bias.
type Biases struct {
	Mean        float64
	Users, Item []float64
}

// biasRidge is how many ratings' worth of weight zero has in a bias, and
// biasSweeps how often users and items take turns; the usual choices, at which
// the model is converged and its test error flat.
const (
	biasRidge  = 5
	biasSweeps = 10
)

// ItemBias fits regularised user and item biases by alternating ridge
// regressions. It sees all ratings: it is not private.
func ItemBias(train dataset.Ratings) *Biases {
	b := &Biases{Mean: train.Mean(), Users: make([]float64, train.Users), Item: make([]float64, train.Items)}
	for range biasSweeps {
		refit(b.Item, train.Item, b.Users, train.User, train.Value, b.Mean)
		refit(b.Users, train.User, b.Item, train.Item, train.Value, b.Mean)
	}
	return b
}

// refit sets each bias to the ridge estimate given the other side's.
func refit(bias []float64, index []int32, other []float64, otherIndex []int32, values []float32, mean float64) {
	sum, count := make([]float64, len(bias)), make([]float64, len(bias))
	for k, x := range values {
		sum[index[k]] += float64(x) - mean - other[otherIndex[k]]
		count[index[k]]++
	}
	for i := range bias {
		bias[i] = sum[i] / (count[i] + biasRidge)
	}
}

// Predict implements Predictor.
func (b *Biases) Predict(user int, items []int32, out []float64) {
	for i, j := range items {
		out[i] = b.Mean + b.Users[user] + b.Item[j]
	}
}

// FitUsers fits every user's embedding to V with the local budget of p: stages
// 1 and 3 alone, which is what before_cooperation is at the start of V.
func FitUsers(p fedmf.Params, rows *dataset.Rows, items *model.Matrix, run protocol.Runner) *model.Factors {
	users := model.NewMatrix(rows.Len(), p.Rank)
	run.Each(rows.Len(), func(u int) {
		js, xs := rows.Row(u)
		copy(users.Row(u), p.User(model.Ratings{Items: js, Values: xs}, items))
	})
	return &model.Factors{Users: users, Items: items}
}

// Local is every user training alone.
type Local struct {
	params fedmf.Params
	rows   *dataset.Rows
	start  *model.Matrix
	users  *model.Matrix
	steps  int
}

// LocalOnly trains each user alone, with a copy of V that nobody else moves:
// stage 1, then steps gradient steps on the rows of V that the user rated, then
// stage 3. A step is 1/(2R), the largest that cannot overshoot. Items that the
// user did not rate keep their start, so little is to be had.
func LocalOnly(p fedmf.Params, rows *dataset.Rows, steps int, run protocol.Runner) *Local {
	l := &Local{params: p, rows: rows, start: p.StartItems(), users: model.NewMatrix(rows.Len(), p.Rank), steps: steps}
	run.Each(rows.Len(), func(u int) {
		js, xs := rows.Row(u)
		copy(l.users.Row(u), l.train(model.Ratings{Items: js, Values: xs}))
	})
	return l
}

// train returns a user's embedding after stage 3. Its rows of V are compacted
// to 0..n-1, since no other is touched; they need not be kept, because nobody
// is asked to predict a training rating.
func (l *Local) train(r model.Ratings) []float64 {
	own := model.NewMatrix(len(r.Items), l.params.Rank)
	compact := model.Ratings{Items: make([]int32, len(r.Items)), Values: r.Values}
	for k, j := range r.Items {
		copy(own.Row(k), l.start.Row(int(j)))
		compact.Items[k] = int32(k)
	}
	u := l.params.User(compact, own)
	for k, x := range r.Values {
		v := own.Row(k)
		for range l.steps {
			slope := (float64(x) - model.Dot(u, v)) / l.params.MaxRating
			for i := range v {
				v[i] += slope * u[i]
			}
			fedmf.Project(v, l.params.MaxRating)
		}
	}
	return l.params.User(compact, own)
}

// Predict implements Predictor, for items that the user has not rated.
func (l *Local) Predict(user int, items []int32, out []float64) {
	u := l.users.Row(user)
	for i, j := range items {
		out[i] = model.Dot(u, l.start.Row(int(j)))
	}
}
