package experiment

import (
	"math"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/fedmf/baseline"
	"github.com/fedsim/fedsim/protocol"
)

// Quality is how far predictions are from the test ratings, in stars.
// Predictions are taken to the rating scale first.
type Quality struct {
	RMSE, MSE, MAE float64
}

// Measure compares a predictor with the test ratings, and is NaN where there are none. Errors are added up per
// user and then over users in order, so the result does not depend on workers.
func (e *Experiment) Measure(p baseline.Predictor, run protocol.Runner) Quality {
	return e.measure(e.test, p, run)
}

// Validate is Measure on the validation part; nil where there is none.
func (e *Experiment) Validate(p baseline.Predictor, run protocol.Runner) *Quality {
	if e.Split.Validation.Len() == 0 {
		return nil
	}
	q := e.measure(e.Split.Validation.ByUser(), p, run)
	return &q
}

func (e *Experiment) measure(rows *dataset.Rows, p baseline.Predictor, run protocol.Runner) Quality {
	squared, absolute := make([]float64, rows.Len()), make([]float64, rows.Len())
	e.eachError(rows, p, run, func(user int, _ int32, d float64) {
		squared[user] += d * d
		absolute[user] += math.Abs(d)
	})
	var q Quality
	var n float64
	for u := range squared {
		items, _ := rows.Row(u)
		n += float64(len(items))
		q.MSE += squared[u]
		q.MAE += absolute[u]
	}
	q.MSE, q.MAE = q.MSE/n, q.MAE/n
	q.RMSE = math.Sqrt(q.MSE)
	return q
}

// eachError hears how far predictions, taken to the scale, are from what users gave:
// of one user one after the other, of different users perhaps at once.
func (e *Experiment) eachError(rows *dataset.Rows, p baseline.Predictor, run protocol.Runner, hear func(user int, item int32, d float64)) {
	run.Each(rows.Len(), func(u int) {
		items, values := rows.Row(u)
		if len(items) == 0 {
			return
		}
		out := make([]float64, len(items))
		p.Predict(u, items, out)
		for i, x := range values {
			hear(u, items[i], min(max(out[i], e.Data.Min), e.Data.Max)-float64(x))
		}
	})
}

// MeasureInterim is the quality of the shared model between two iterations: for
// users and parties as they stand, and with users on devices fine-tuned to it.
func (e *Experiment) MeasureInterim(f *Federation, model []byte, run protocol.Runner) (Quality, error) {
	p, err := f.parties.interim(e, model, run)
	if err != nil {
		return Quality{}, err
	}
	return e.Measure(p, run), nil
}

// Final is the model that the run ends with, after stage 3.
func (e *Experiment) Final(f *Federation, model []byte, run protocol.Runner) (*Trained, error) {
	return f.parties.final(e, model, run)
}

// Baselines are the RMSE of what a run is compared with, all on the same split
// with the same start and the same local budget. Those that are nil were not
// asked for.
type Baselines struct {
	GlobalMean        float64  `json:"global_mean"`
	UserMean          float64  `json:"user_mean"`
	ItemBias          float64  `json:"item_bias"`
	BeforeCooperation float64  `json:"before_cooperation"`
	LocalOnly         *float64 `json:"local_only,omitempty"`
	PrivateItemBias   *float64 `json:"private_item_bias,omitempty"`
	NonPrivate        *float64 `json:"non_private,omitempty"`
}

// Baselines computes all but PrivateItemBias, NonPrivate, and LocalOnly where that is a run of
// its own too.
func (e *Experiment) Baselines(run protocol.Runner) (Baselines, error) {
	if e.public {
		return Baselines{}, ErrNoRatings
	}
	train := e.Split.Train
	mean := baseline.GlobalMean(train)
	rmse := func(p baseline.Predictor) float64 { return e.Measure(p, run).RMSE }
	b := Baselines{
		GlobalMean: rmse(mean),
		UserMean:   rmse(baseline.UserMean(e.train, float64(mean))),
		ItemBias:   rmse(baseline.ItemBias(train)),
	}
	before, err := e.Config.Algorithm.form().before(e, run)
	if err != nil {
		return b, err
	}
	b.BeforeCooperation = rmse(before)
	alone, err := e.Config.Algorithm.form().alone(e, run)
	if err != nil || alone == nil {
		return b, err
	}
	local := rmse(alone)
	b.LocalOnly = &local
	return b, nil
}
