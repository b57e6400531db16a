package serving

import (
	"math"

	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/dense"
)

// KeepWeights stores the released weights and averages them over several rounds.
func (s *Strategy) KeepWeights(r Absorbed) {
	weight, noise := dense.Scaled(r.Values[kernel.WeightCounts], 1/r.Users), r.Noise[kernel.WeightCounts]/r.Users
	s.fresh, s.freshNoise = Averaged(s.fresh, s.freshNoise, weight, noise)
	s.weigh()
}

// WeightNoiseOf is the deviation of the noise in the weight of an item.
func (s *Strategy) WeightNoiseOf(j int) float64 {
	if s.WeightNoises != nil {
		return s.WeightNoises[j]
	}
	return s.WeightNoise
}

// Averaged is the mean of two noisy measurements of the same vector, weighted by the inverse noise
// variances, with the noise deviation of the result. Without a first measurement it returns the
// second.
func Averaged(first []float64, noise1 float64, second []float64, noise2 float64) ([]float64, float64) {
	if first == nil {
		return second, noise2
	}
	share := 0.5 // weight of the second
	if v := dense.Sqr(noise1) + dense.Sqr(noise2); v > 0 {
		share = dense.Sqr(noise1) / v
	}
	out := dense.Scaled(first, 1-share)
	dense.Axpy(out, share, second)
	return out, math.Hypot((1-share)*noise1, share*noise2)
}

// Weights returns c_j of all N clients, at least the deviation of its noise, because less cannot be
// told from zero. typical is w̃. A sample's weights are all equal. Other weights of a user are
// about 1/√n and add up to about √n, at least 1, so 1 over their sum is about one weight.
func (s *Strategy) Weights() (c []float64, typical float64) { return s.typical(s.Weight) }

// typical is Weights of other weights than the strategy's.
func (s *Strategy) typical(weight []float64) (c []float64, typical float64) {
	n := s.Params.Total()
	c = dense.Scaled(weight, n)
	sum := 0.0
	for j, x := range c {
		floor := max(s.WeightNoiseOf(j)*n, 1e-9)
		if s.WeightNoises != nil && s.WeightNoises[j] >= unknown {
			floor = 1e-9 // a new item, before the first sum
		}
		if !(x > floor) {
			c[j] = floor
		}
		sum += x
	}
	if s.Params.Budgeting != kernel.Weights {
		return c, 1 / math.Sqrt(float64(s.Params.PerUser))
	}
	return c, n / max(sum, n)
}
