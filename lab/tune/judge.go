package tune

import (
	"math"

	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/model"
)

// judge scores models by a sum over users with noise, so that a score is a release like any other. A user
// adds a number from 0 to most: the mean squared error of its validation ratings, clipped, or the recall
// of its list. A user that is replaced by an empty record adds 0, so the sum moves by at most most.
type judge struct {
	cost *Cost
	bits *noise.Bits
}

// score returns the root of the noisy mean squared error, or the noisy mean recall. It divides by numbers
// that do not depend on ratings: by the number of users.
func (j *judge) score(e *experiment.Experiment, m *model.Trained) (float64, error) {
	sum, most := sumOf(e, m)
	noisy, err := j.cost.Score(sum, most, j.bits)
	if err != nil {
		return 0, err
	}
	mean := noisy / float64(e.Data.Users)
	if e.Held == nil {
		mean = math.Copysign(math.Sqrt(math.Abs(mean)), mean) // in the order of the mean
	}
	return mean, nil
}

// sumOf returns the sum over users without noise, and the most that one user adds to it.
func sumOf(e *experiment.Experiment, m *model.Trained) (sum, most float64) {
	if e.Held != nil {
		recall, _, err := eval.ListMetric("recall@20")
		if err != nil {
			panic(err) // the metric is a constant
		}
		e.Test.EachList(m, eval.ListParams{Cutoffs: []int{20}}, e.Workers(), func(_ int, wanted, list []int32) { sum += recall(wanted, list) })
		return sum, 1
	}
	half := (e.Data.Max - e.Data.Min) / 2
	most = half * half
	for u := range e.Data.Users {
		e.Test.Rows.Lend(u, func(items []int32, values []float32) {
			if len(items) > 0 {
				mse := model.MSE(m, u, model.Ratings{Items: items, Values: values})
				if !(mse <= most) { // a model that diverged, too
					mse = most
				}
				sum += mse
			}
		})
	}
	return sum, most
}
