package eval

import (
	"math"
	"testing"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// clock predicts a tenth of the time, and 3 without a time.
type clock struct{}

func (clock) Predict(_ int, items []int32, out []float64) {
	for i := range items {
		out[i] = 3
	}
}

func (clock) PredictAt(_ int, _ []int32, times, out []float64) {
	for i, t := range times {
		out[i] = t / 10
	}
}

// By hand: for ratings 1 and 4 at 20 and 30 a clock has the errors 1 and 1, and without times 2 and
// 1; all measures use the times of the test ratings.
func TestPredictionsAreOfTheTimesOfTests(t *testing.T) {
	ratings := dataset.Ratings{Users: 1, Items: 2, User: []int32{0, 0}, Item: []int32{0, 1}, Value: []float32{1, 4}}
	for _, c := range []struct {
		times []float64
		mse   float64
		first float64
	}{{[]float64{20, 30}, 1, 2}, {nil, 2.5, 3}} {
		ratings.Times = c.times
		test := NewTest(&split.Parts{Train: dataset.Ratings{Users: 1, Items: 2}, Test: ratings, Validation: ratings}, 1, 5, 1)
		for _, p := range []model.Predictor{clock{}, &model.Trained{Predictor: clock{}}} {
			run := protocol.Workers(1)
			if q, v := test.Measure(p, run), test.Validate(p, run); q.MSE != c.mse || v.MSE != c.mse {
				t.Errorf("at %v: test %v and validation %v, want %v", c.times, q.MSE, v.MSE, c.mse)
			}
			if s := test.Slices(p, run); math.Abs(*s[0].RMSE-math.Sqrt(c.mse)) > 1e-15 {
				t.Errorf("at %v: %v of all items, want the root of %v", c.times, *s[0].RMSE, c.mse)
			}
			var first float64
			if err := test.EachPrediction(p, func(_ int, item int32, _ float32, predicted float64) error {
				if item == 0 {
					first = predicted
				}
				return nil
			}); err != nil || first != c.first {
				t.Errorf("at %v: %v is predicted first, %v; want %v", c.times, first, err, c.first)
			}
		}
	}
	one := model.Ratings{Items: []int32{4, 6}, Values: []float32{1, 2}, Times: []float64{8, 9}}.Only(6)
	if len(one.Times) != 1 || one.Times[0] != 9 {
		t.Errorf("times of one rating: %v, want 9", one.Times)
	}
}
