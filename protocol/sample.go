package protocol

import (
	"fmt"
	"math"

	"github.com/fedsim/fedsim/dp"
)

// sample is the releases of a round that one coin of a client decides about.
type sample struct {
	rate     float64
	variance float64 // the least
	mu2, mu1 float64 // Σ D2²/V and Σ D1/√V
	mixed    bool    // rates differ: one coin cannot decide about them all
}

func (s *sample) add(n Noise, d2, d1 float64) {
	if s.rate == 0 {
		s.rate, s.variance = n.SamplingRate, n.Variance
	}
	s.mixed = s.mixed || n.SamplingRate != s.rate
	s.variance = min(s.variance, n.Variance)
	s.mu2 += d2 * d2 / n.Variance
	s.mu1 += d1 / math.Sqrt(n.Variance)
}

// events appends what the releases cost: together they are one vector that is there or not, so that they are charged as one
// release over a Poisson sample. It has the least of the variances, with sensitivities in proportion: whatever a
// release costs more by having little noise, all are charged.
func (s *sample) events(list []dp.Event) ([]dp.Event, error) {
	switch {
	case s.rate == 0:
		return list, nil
	case s.mixed:
		return nil, fmt.Errorf("releases of one round have different sampling rates; one coin decides about all of them")
	}
	d2 := math.Sqrt(s.variance * s.mu2)
	return append(list, dp.SubsampledSkellam(s.variance, d2, max(d2, math.Sqrt(s.variance)*s.mu1), s.rate)), nil
}
