package kernel

import (
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// FitUsers fits every user's embedding to V with the local budget of p: stages 1 and 3 alone. At
// the start of V the result is the baseline before_cooperation.
func FitUsers(p Params, rows *dataset.Rows, items *model.Matrix, run protocol.Runner) *model.Factors {
	users := model.NewMatrix(rows.Len(), p.Rank)
	run.Each(rows.Len(), func(u int) {
		rows.Lend(u, func(js []int32, xs []float32) {
			copy(users.Row(u), p.User(model.Ratings{Items: js, Values: xs}, items))
		})
	})
	return &model.Factors{Users: users, Items: items}
}

// Local holds the results of every user training alone.
type Local struct {
	params Params
	rows   *dataset.Rows
	start  *model.Matrix
	users  *model.Matrix
	steps  int
}

// LocalOnly trains each user alone, with a copy of V that no other user moves: stage 1, then steps
// gradient steps on the rows of V that the user rated, then stage 3. A step is 1/(2R), the largest
// that cannot overshoot. Items that the user did not rate keep their start, so little is gained.
func LocalOnly(p Params, rows *dataset.Rows, steps int, run protocol.Runner) *Local {
	l := &Local{params: p, rows: rows, start: p.StartItems(), users: model.NewMatrix(rows.Len(), p.Rank), steps: steps}
	run.Each(rows.Len(), func(u int) {
		rows.Lend(u, func(js []int32, xs []float32) { copy(l.users.Row(u), l.train(model.Ratings{Items: js, Values: xs})) })
	})
	return l
}

// train returns a user's embedding after stage 3. Its rows of V are compacted to 0..n-1, since no
// other row is touched. They are not kept, because no prediction of a training rating is needed.
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
			Project(v, l.params.MaxRating)
		}
	}
	return l.params.User(compact, own)
}

// Predict predicts items that the user has not rated.
func (l *Local) Predict(user int, items []int32, out []float64) {
	u := l.users.Row(user)
	for i, j := range items {
		out[i] = model.Dot(u, l.start.Row(int(j)))
	}
}
