package kernel

import (
	"math"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// watchGain is the length of a watched step: short enough that no row is projected, since
// projection hides a part of the step.
const watchGain = 1e-6

// watched is one party's local step on the data of one unit, which moves embeddings as far as its
// bound allows, or on no data.
type watched struct {
	steps  *stepper
	at     *model.Matrix // U, at the worst point
	both   bool
	toward []float64 // direction of the unit's gradient, of U followed by V; of length 1
	bound  float64
}

// Watched says which local step to watch.
type Watched struct {
	Gradients bool // the step sends normalised gradients
	Both      bool // it is on users and items, not on items alone
	Full      bool // it has the data of the unit, not none
	Noise     protocol.Noise
}

// Watch prepares steps. The worst embeddings are u = v_j = √R·e for a rating of 0, whose error is
// the whole scale. Its gradient is 2R^{3/2} long in both (FMF paper, section 4.1.1), and the
// gradients of all ratings of a user point the same way. The moved embeddings are in the middle of
// the ball.
func (p PartyParams) Watch(o Watched, src entropy.Source) (func() (float64, error), error) {
	ratings := 1
	if p.Unit == dp.User {
		ratings = max(1, p.ClipRatings)
	}
	one := model.Ratings{Items: make([]int32, ratings), Values: make([]float32, ratings)}
	for j := range one.Items {
		one.Items[j] = int32(j)
	}
	w := &watched{steps: newStepper(&p, newTable([]model.Ratings{one}), corner(ratings, p)), at: corner(1, p), both: o.Both, bound: p.Sensitivity(o.Both)}
	if err := w.aim(); err != nil {
		return nil, err
	}
	if !o.Full {
		w.steps.ratings = newTable([]model.Ratings{{}})
	}
	if err := w.steps.begin(o.Noise, src, "local-steps", 1); err != nil {
		return nil, err
	}
	if o.Gradients {
		return w.gradient, nil
	}
	return w.step, nil
}

// corner returns a matrix with all rows √R·e.
func corner(rows int, p PartyParams) *model.Matrix {
	m := model.NewMatrix(rows, p.Rank)
	for i := range rows {
		m.Row(i)[0] = math.Sqrt(p.MaxRating)
	}
	return m
}

// aim finds the gradient of the unit by a step that samples everything and adds no noise.
func (w *watched) aim() error {
	w.steps.sampler = newSampler(1, nil)
	if err := w.steps.gradients(w.at, w.both); err != nil {
		return err
	}
	w.toward = w.seen(w.steps.gradU, w.steps.gradV.Data())
	norm := math.Sqrt(model.Dot(w.toward, w.toward))
	for i := range w.toward {
		w.toward[i] /= norm
	}
	return nil
}

// seen returns the visible parts: of U, if it is moved, and of V.
func (w *watched) seen(u, v []float64) []float64 {
	var list []float64
	if w.both {
		list = append(list, u...)
	}
	return append(list, v...)
}

// step takes a noised step and returns how far it went towards the unit's gradient, in
// sensitivities: 0, or 1 if the unit exists and is sampled, plus noise of deviation z.
func (w *watched) step() (float64, error) {
	s := w.steps
	if err := s.gradients(w.at, w.both); err != nil {
		return 0, err
	}
	sigma := s.z * w.bound
	middle := func(rows int) *model.Matrix {
		m := model.NewMatrix(rows, w.at.Cols())
		for i := range m.Data() {
			m.Data()[i] = math.Sqrt(s.params.MaxRating/float64(m.Cols())) / 2
		}
		return m
	}
	from := middle(1).Data()[0]
	u, v := middle(1), middle(s.v.Rows())
	if w.both {
		if err := s.moveU(u, watchGain, sigma); err != nil {
			return 0, err
		}
	}
	if err := s.move(v, s.gradV.Data(), nil, watchGain, sigma); err != nil {
		return 0, err
	}
	moved := w.seen(u.Data(), v.Data())
	for i := range moved {
		moved[i] = (moved[i] - from) / watchGain
	}
	return model.Dot(moved, w.toward) / w.bound, nil
}

// gradient is step for parties that send the noisy gradient instead of the embeddings.
func (w *watched) gradient() (float64, error) {
	s := w.steps
	if err := s.gradients(w.at, w.both); err != nil {
		return 0, err
	}
	g := s.gradV.Clone()
	if err := s.addNoise(g, s.z*w.bound); err != nil {
		return 0, err
	}
	return model.Dot(g.Data(), w.toward) / w.bound, nil
}
