package fedssp

import (
	"fmt"
	"math"

	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// broadcast is the model that comes with a plan: where gradients are taken, with the parameters to take them at.
func (s *Strategy) broadcast(phase string) []byte {
	m := *s.model.training(phase)
	if phase == Statistics && s.params.descends() {
		m.Theta = s.encoder.Theta()
	}
	return m.Encode()
}

// sums is how many sums of statistics came before that of the iteration.
func (s *Strategy) sums() int {
	p := &s.params.Params
	return int(s.iteration) - 1 - (len(s.params.Steps) - p.Rounds*p.Resample)
}

// descend takes a step against a sum of gradients.
func (s *Strategy) descend(r absorbed, run protocol.Runner) error {
	p := &s.params.Params
	if p.Solver == Gradient {
		if s.weight == nil { // how long steps may be is not known
			return nil
		}
		s.descendItems(r, run)
	} else {
		// The mean over users, in units of the bound: what a rate means depends neither on how many there are nor on Γ.
		mean := dense.Scaled(r.values[ByEncoder], 1/(r.users*p.itemsBound()))
		if err := s.encoder.Descend(mean, s.sums()); err != nil {
			return fmt.Errorf("fedssp: %w", err)
		}
	}
	s.encoded = true
	s.follow(run)
	return nil
}

// descendItems is line 6 of Algorithm 2 of the multi-task paper for every item: a step against the noisy gradient and the ridge,
// then the projection on the ball of the radius. Steps are as long as in its Theorem 3.12 (a),
//
//	η_j = rate·radius/(G_j·√t), G_j² = (Γc_j + λ_j·radius)² + d·σ²,
//
// where G_j² bounds the mean square of what the step is against: c_j = Σ w_j as it was released stands for ω_j n_j, σ² is the
// variance of the noise that is there, and λ_j is the ridge. t goes on from outer step to outer step.
func (s *Strategy) descendItems(r absorbed, run protocol.Runner) {
	p, n := &s.params.Params, s.params.total()/r.users
	y := system{p: p}
	y.weight, y.typical = s.weights()
	g, d, radius := dense.Scaled(r.values[Gradients], n), p.Rank, p.Descent.Radius
	noise := float64(d) * dense.Sqr(r.noise[Gradients]*n)
	length := p.Descent.Rate * radius / math.Sqrt(float64(s.sums()+1))
	dense.Blocks(run, p.Items, func(from, to int) {
		for j := from; j < to; j++ {
			v, ridge := s.encoder.Theta()[j*d:(j+1)*d], y.ridge(j)
			rate := length / math.Sqrt(dense.Sqr(p.Descent.Clip*y.weight[j]+ridge*radius)+noise)
			for i, x := range v {
				v[i] = x - rate*(g[j*d+i]+ridge*x)
			}
			clipUser(v, radius)
		}
	})
}
