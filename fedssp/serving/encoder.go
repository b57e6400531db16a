package serving

import (
	"fmt"

	"github.com/fedsim/fedsim/fedssp/encoder"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// Descended moves V after a step, at the end of an outer step.
func (s *Strategy) Descended(run protocol.Runner) {
	s.Encoded = true
	s.follow(run)
}

// Sums counts the sums of statistics before this round's.
func (s *Strategy) Sums() int {
	p := &s.Params.Params
	return int(s.Round) - 1 - (len(s.Params.Steps) - p.Rounds*p.Resample)
}

// objective is the loss that an encoder minimises. For item j it is vᵀA_jv/2 - b_jᵀv, discounted
// and with ridge, as a closed form solves it. All losses are divided by one number, which makes the
// mean curvature 1. So one learning rate suits many users and few, long embeddings and short.
type objective struct {
	d    int
	a, b []float64 // m x d x d and m x d
}

func (y *Equations) objective(run protocol.Runner) *objective {
	m, d := y.Params.Items, y.Params.Rank
	o := &objective{d: d}
	o.a, o.b = y.Systems(run)
	var trace float64
	for j := range m {
		for i := range d {
			trace += o.a[j*d*d+i*(d+1)]
		}
	}
	if scale := float64(m*d) / trace; trace > 0 {
		for i := range o.a {
			o.a[i] *= scale
		}
		for i := range o.b {
			o.b[i] *= scale
		}
	}
	return o
}

// Gradient returns the loss of item j at v and sets g to its gradient.
func (o *objective) Gradient(j int, v, g []float64) float64 {
	d := o.d
	a, b := o.a[j*d*d:(j+1)*d*d], o.b[j*d:(j+1)*d]
	var loss float64
	for i := range d {
		av := dense.Dot(a[i*d:(i+1)*d], v)
		loss += (av/2 - b[i]) * v[i]
		g[i] = av - b[i]
	}
	return loss
}

// Outer returns the outer step of a round, from 0, and which of the step's sums it is.
func (s *Strategy) Outer() (step int, part encoder.Slice) {
	p := &s.Params.Params
	sum := s.Sums()
	return sum / p.Resample, encoder.Slice{Index: sum % p.Resample, Of: p.Resample}
}

// FitEncoder takes the gradient steps of one sum. V follows when the outer step ends.
func (s *Strategy) FitEncoder(y *Equations, run protocol.Runner) error {
	step, part := s.Outer()
	if err := s.Encoder.FitPart(y.objective(run), uint64(step+1), part, run); err != nil {
		return fmt.Errorf("fedssp: %w", err)
	}
	s.Encoded = true
	s.follow(run)
	return nil
}

// follow sets V to the encoder's output, at the end of an outer step in which the encoder moved.
func (s *Strategy) follow(run protocol.Runner) {
	if !s.Encoded {
		return
	}
	if _, part := s.Outer(); part.Index != part.Of-1 {
		return
	}
	s.Encoder.Embed(s.model.Items, run)
	if s.Chosen != nil && s.Chosen.Rest != nil {
		s.model.Rest = s.Encoder.EmbedOthers(s.Chosen.Rest)
	}
	s.model.Complete(&s.Params.Params)
	s.Encoded = false
}
