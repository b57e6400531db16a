package eval

import (
	"slices"

	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/model"
)

// EachPrediction calls hear with the prediction of each test rating, user by user: in stars,
// clamped to the rating scale. With implicit feedback it passes the scores of the targets of
// held-out users, or nothing if the predictor is no [Scorer]. It stops at the first error of hear
// and returns it.
func (t *Test) EachPrediction(p model.Predictor, hear func(user int, item int32, value float32, predicted float64) error) error {
	if t.Held != nil {
		return eachScore(t.Held.Test, p, hear)
	}
	var out []float64
	var err error
	for u := range t.Rows.Len() {
		t.Rows.Lend(u, func(items []int32, values []float32) {
			if out = slices.Grow(out[:0], len(items))[:len(items)]; len(items) > 0 {
				p.Predict(u, items, out)
			}
			for i, x := range values {
				if err = hear(u, items[i], x, min(max(out[i], t.Min), t.Max)); err != nil {
					return
				}
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func eachScore(h split.HeldOut, p model.Predictor, hear func(int, int32, float32, float64) error) error {
	s, _ := scorerOf(p)
	if s == nil {
		return nil
	}
	history, target := h.History.ByUser(), h.Target.ByUser()
	scores := make([]float64, h.Target.Items)
	for _, u := range h.Users {
		items, values := target.Row(int(u))
		if len(items) == 0 {
			continue
		}
		seen, stars := history.Row(int(u))
		s.Score(int(u), seen, stars, scores)
		for i, item := range items {
			if err := hear(int(u), item, values[i], scores[item]); err != nil {
				return err
			}
		}
	}
	return nil
}
