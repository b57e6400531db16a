package experiment

import (
	"math"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/fedmf"
	"github.com/fedsim/fedsim/fedmf/baseline"
	"github.com/fedsim/fedsim/protocol"
)

// Quality is how far predictions are from the test ratings, in stars.
// Predictions are taken to the rating scale first.
type Quality struct {
	RMSE, MSE, MAE float64
}

// Measure compares a predictor with the test ratings. Errors are added up per
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
	run.Each(rows.Len(), func(u int) {
		items, values := rows.Row(u)
		if len(items) == 0 {
			return
		}
		out := make([]float64, len(items))
		p.Predict(u, items, out)
		for i, x := range values {
			d := min(max(out[i], e.Data.Min), e.Data.Max) - float64(x)
			squared[u] += d * d
			absolute[u] += math.Abs(d)
		}
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

// MeasureModel is the quality when every user fine-tunes against the encoded
// item embeddings: what the run would end with if it ended there.
func (e *Experiment) MeasureModel(model []byte, run protocol.Runner) (Quality, error) {
	b, err := fedmf.NewBroadcast(model, e.Params.Items, e.Params.Rank)
	if err != nil {
		return Quality{}, err
	}
	return e.Measure(baseline.FitUsers(e.Params, e.train, b.Matrix(), run), run), nil
}

// MeasureUsers is the quality of the users' embeddings as their devices hold
// them after stage 3. A user who has left never got the model; it is counted
// as if it opened the application once more and fetched it.
func (e *Experiment) MeasureUsers(f *Federation, model []byte, run protocol.Runner) (Quality, *baseline.Factors, error) {
	b, err := fedmf.NewBroadcast(model, e.Params.Items, e.Params.Rank)
	if err != nil {
		return Quality{}, nil, err
	}
	factors := &baseline.Factors{Users: fedmf.NewMatrix(len(f.Users), e.Params.Rank), Items: b.Matrix()}
	errs := make([]error, len(f.Users))
	run.Each(len(f.Users), func(u int) {
		if !f.Users[u].Finished() {
			errs[u] = f.Users[u].Finish(model, run)
		}
		copy(factors.Users.Row(u), f.Users[u].Embedding())
	})
	for _, err := range errs {
		if err != nil {
			return Quality{}, nil, err
		}
	}
	return e.Measure(factors, run), factors, nil
}

// Baselines are the RMSE of what a run is compared with, all on the same split
// with the same start and the same local budget.
type Baselines struct {
	GlobalMean        float64 `json:"global_mean"`
	UserMean          float64 `json:"user_mean"`
	ItemBias          float64 `json:"item_bias"`
	BeforeCooperation float64 `json:"before_cooperation"`
	LocalOnly         float64 `json:"local_only"`
	NonPrivate        float64 `json:"non_private"`
}

// Baselines computes all but NonPrivate, which is a run of its own.
func (e *Experiment) Baselines(run protocol.Runner) Baselines {
	train := e.Split.Train
	mean := baseline.GlobalMean(train)
	rmse := func(p baseline.Predictor) float64 { return e.Measure(p, run).RMSE }
	return Baselines{
		GlobalMean:        rmse(mean),
		UserMean:          rmse(baseline.UserMean(e.train, float64(mean))),
		ItemBias:          rmse(baseline.ItemBias(train)),
		BeforeCooperation: rmse(baseline.FitUsers(e.Params, e.train, e.Params.StartItems(), run)),
		LocalOnly:         rmse(baseline.LocalOnly(e.Params, e.train, e.Config.Rounds, run)),
	}
}
