package experiment

import (
	"math"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/fedmf/baseline"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Quality is how far predictions are from the test ratings, in stars, taken to the rating
// scale first; or, with implicit feedback, how well held-out users are served.
type Quality struct {
	RMSE, MSE, MAE float64
	Ranking        *Ranking // nil with explicit feedback, which has errors
}

// Headline is what runs and baselines are compared by: the RMSE, or Recall@20.
func (q Quality) Headline() float64 {
	if q.Ranking != nil {
		return q.Ranking.Recall
	}
	return q.RMSE
}

// Measure compares a predictor with the test ratings, and is NaN where there are none. Errors are added up per
// user and then over users in order, so the result does not depend on workers. With implicit
// feedback the predictor ranks items for held-out users, as a [Scorer].
func (e *Experiment) Measure(p model.Predictor, run protocol.Runner) Quality {
	if e.held != nil {
		return e.rank(e.held.Test, p, run)
	}
	return e.measure(e.test, p, run)
}

// rank measures a predictor on held-out users. Of what is no Scorer nothing is known: NaN.
func (e *Experiment) rank(h dataset.HeldOut, p model.Predictor, run protocol.Runner) Quality {
	if t, ok := p.(*model.Trained); ok {
		p = t.Predictor
	}
	s, ok := p.(Scorer)
	if !ok {
		return Quality{Ranking: &Ranking{Recall: math.NaN(), NDCG: math.NaN()}}
	}
	r := Rank(h, s, e.buckets, run)
	return Quality{Ranking: &r}
}

// popular scores items by how many training ratings they have: for everybody the same,
// and not private.
type popular []float64

// Score implements Scorer.
func (p popular) Score(_ int, _ []int32, _ []float32, out []float64) { copy(out, p) }

func popularity(train dataset.Ratings) popular {
	p := make(popular, train.Items)
	for _, j := range train.Item {
		p[j]++
	}
	return p
}

// Validate is Measure on the validation part; nil where there is none.
func (e *Experiment) Validate(p model.Predictor, run protocol.Runner) *Quality {
	if e.Split.Validation.Len() == 0 {
		return nil
	}
	if e.held != nil {
		q := e.rank(e.held.Validation, p, run)
		return &q
	}
	q := e.measure(e.Split.Validation.ByUser(), p, run)
	return &q
}

func (e *Experiment) measure(rows *dataset.Rows, p model.Predictor, run protocol.Runner) Quality {
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
func (e *Experiment) eachError(rows *dataset.Rows, p model.Predictor, run protocol.Runner, hear func(user int, item int32, d float64)) {
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
func (e *Experiment) MeasureInterim(f *Federation, encoded []byte, run protocol.Runner) (Quality, error) {
	p, err := f.parties.interim(e, encoded, run)
	if err != nil {
		return Quality{}, err
	}
	return e.Measure(p, run), nil
}

// Final is the model that the run ends with, after stage 3.
func (e *Experiment) Final(f *Federation, encoded []byte, run protocol.Runner) (*model.Trained, error) {
	return f.parties.final(e, encoded, run)
}

// Baselines are the RMSE of what a run is compared with, or with implicit feedback its
// Recall@20, all on the same split with the same start and the same local budget. Those
// that are nil were not asked for, or mean nothing.
type Baselines struct {
	*RatingBaselines
	Popularity        *float64 `json:"popularity,omitempty"` // of implicit feedback
	BeforeCooperation float64  `json:"before_cooperation"`
	LocalOnly         *float64 `json:"local_only,omitempty"`
	PrivateItemBias   *float64 `json:"private_item_bias,omitempty"`
	NonPrivate        *float64 `json:"non_private,omitempty"`
}

// RatingBaselines are those that predict ratings from means.
type RatingBaselines struct {
	GlobalMean float64 `json:"global_mean"`
	UserMean   float64 `json:"user_mean"`
	ItemBias   float64 `json:"item_bias"`
}

// Baselines computes all but PrivateItemBias, NonPrivate, and LocalOnly where that is a run of
// its own too.
func (e *Experiment) Baselines(run protocol.Runner) (Baselines, error) {
	if e.public {
		return Baselines{}, ErrNoRatings
	}
	headline := func(p model.Predictor) float64 { return e.Measure(p, run).Headline() }
	var b Baselines
	if train := e.Split.Train; e.held != nil {
		recall := Rank(e.held.Test, popularity(train), e.buckets, run).Recall
		b.Popularity = &recall
	} else {
		mean := baseline.GlobalMean(train)
		b.RatingBaselines = &RatingBaselines{
			GlobalMean: headline(mean),
			UserMean:   headline(baseline.UserMean(e.train, float64(mean))),
			ItemBias:   headline(baseline.ItemBias(train)),
		}
	}
	before, err := e.Config.Algorithm.form().before(e, run)
	if err != nil {
		return b, err
	}
	b.BeforeCooperation = headline(before)
	alone, err := e.Config.Algorithm.form().alone(e, run)
	if err != nil || alone == nil {
		return b, err
	}
	local := headline(alone)
	b.LocalOnly = &local
	return b, nil
}
