package experiment

import (
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// MeasureInterim is the quality of the shared model between two iterations: for
// users and parties as they stand, and with users on devices fine-tuned to it.
func (e *Experiment) MeasureInterim(f *Federation, encoded []byte, run protocol.Runner) (eval.Quality, error) {
	p, err := f.parties.interim(e, encoded, run)
	if err != nil {
		return eval.Quality{}, err
	}
	return e.Test.Measure(p, run), nil
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
	primary := func(p model.Predictor) float64 { return e.Test.Measure(p, run).PrimaryMetric() }
	var b Baselines
	if train := e.Split.Train; e.held != nil {
		recall := eval.Rank(e.held.Test, eval.Popularity(train), e.Test.Buckets, run).Recall
		b.Popularity = &recall
	} else {
		mean := eval.GlobalMean(train)
		b.RatingBaselines = &RatingBaselines{
			GlobalMean: primary(mean),
			UserMean:   primary(eval.UserMean(e.train, float64(mean))),
			ItemBias:   primary(eval.ItemBias(train)),
		}
	}
	before, err := e.Config.Algorithm.form().before(e, run)
	if err != nil {
		return b, err
	}
	b.BeforeCooperation = primary(before)
	alone, err := e.Config.Algorithm.form().alone(e, run)
	if err != nil || alone == nil {
		return b, err
	}
	local := primary(alone)
	b.LocalOnly = &local
	return b, nil
}
