// Package parts fits models to released models, and takes parts of their errors: one user's, and one rating's.
package parts

import (
	"slices"

	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Fitted returns a model whose users are fitted to a released model by their ratings of an experiment.
func Fitted(e *experiment.Experiment, shared []byte, run protocol.Runner) (*model.Trained, error) {
	side, err := e.Instance().ClientSide()
	if err != nil {
		return nil, err
	}
	return side.Final(shared, run)
}

// MSE is the mean squared error of the predictions of a user's ratings; NaN where there are none.
func MSE(p model.Predictor, user int, r model.Ratings) float64 {
	out := make([]float64, len(r.Items))
	p.Predict(user, r.Items, out)
	var sum float64
	for k, x := range out {
		d := x - float64(r.Values[k])
		sum += d * d
	}
	return sum / float64(len(out))
}

// Only returns the ratings of one item: one or none; of item -1 all.
func Only(r model.Ratings, item int32) model.Ratings {
	switch k := slices.Index(r.Items, item); {
	case item < 0:
		return r
	case k >= 0:
		return model.Ratings{Items: r.Items[k : k+1], Values: r.Values[k : k+1]}
	}
	return model.Ratings{}
}
