package fedssp

import (
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/encoder"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// Encoded: v_j is what a public encoder makes of the item's features or its id, and the
// encoder takes gradient steps on the statistics (SSP-c, SSP-i, AM-SSP).
const Encoded Solver = "encoder"

type encoderSolver struct{ closed }

func (x encoderSolver) keys() []*config.Key {
	return slices.Concat(x.closed.keys(), encoderKeys(), passKeys(), []*config.Key{keys.itemRidge.Key, keys.itemPrior.Key})
}

// encoderKeys are the keys of an encoder, passKeys those of one that takes gradient steps on statistics.
func encoderKeys() []*config.Key {
	return []*config.Key{keys.dim.Key, keys.dense.Key, keys.ids.Key, keys.startNorm.Key, keys.optimiser.Key, keys.rate.Key, keys.rateDecay.Key, keys.ridge.Key}
}

func passKeys() []*config.Key {
	return []*config.Key{keys.steps.Key, keys.batch.Key, keys.warmStart.Key}
}

func (encoderSolver) encodes(*Params) bool { return true }
func (encoderSolver) speaks(*Params) bool  { return true }
func (encoderSolver) begin(*Params) solving {
	return stateless{func(s *Strategy, r absorbed, run protocol.Runner) error {
		if s.weight == nil {
			return nil
		}
		return s.fitEncoder(s.system(r, s.times(r), Gramians, Moments), run)
	}}
}

func (p *Params) newEncoder() (*encoder.Encoder, error) {
	features, settings := p.solver().encoder(p)
	e, err := encoder.New(features, p.Items, p.Rank, settings, p.Seed)
	if err != nil {
		return nil, fmt.Errorf("fedssp: %w", err)
	}
	return e, nil
}

// objective is what an encoder is fitted to: for item j the loss vᵀA_jv/2 - b_jᵀv, discounted and with
// ridge, as a closed form solves it. All are divided by one number, which makes the mean
// curvature 1: one learning rate then suits many users and few, long embeddings and short ones.
type objective struct {
	d    int
	a, b []float64 // m x d x d and m x d
}

func (y *system) objective(run protocol.Runner) *objective {
	m, d := y.p.Items, y.p.Rank
	o := &objective{d: d}
	o.a, o.b = y.systems(run)
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

// Gradient implements encoder.Objective.
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

// outer is the outer step, from 0, that an iteration belongs to, and which of its sums it is.
func (s *Strategy) outer() (step int, part encoder.Part) {
	p := &s.params.Params
	sum := s.sums()
	return sum / p.Resample, encoder.Part{Index: sum % p.Resample, Of: p.Resample}
}

// fitEncoder takes the gradient steps of one sum. V follows when the outer step ends.
func (s *Strategy) fitEncoder(y *system, run protocol.Runner) error {
	step, part := s.outer()
	if err := s.encoder.FitPart(y.objective(run), uint64(step+1), part, run); err != nil {
		return fmt.Errorf("fedssp: %w", err)
	}
	s.encoded = true
	s.follow(run)
	return nil
}

// follow sets V to what the encoder makes of the items, at the end of an outer step in which it moved.
func (s *Strategy) follow(run protocol.Runner) {
	if !s.encoded {
		return
	}
	if _, part := s.outer(); part.Index != part.Of-1 {
		return
	}
	s.encoder.Embed(s.model.Items, run)
	if s.chosen != nil && s.chosen.rest != nil {
		s.model.rest = s.encoder.EmbedOthers(s.chosen.rest)
	}
	s.model.complete(&s.params.Params)
	s.encoded = false
}
