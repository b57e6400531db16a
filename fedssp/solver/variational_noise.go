package solver

import (
	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/fedssp/serving"
	"github.com/fedsim/fedsim/internal/dense"
)

// With noise an item's posterior accounts for the noise, whose size is public. Let A_j be the
// second moments of an item's ratings, b_j = A_j·v_j + e_j its first moments, and e_j of covariance
// σ²A_j from the scatter of ratings and ηI from noise. Then
//
//	precision  A_j(σ²A_j + ηI)⁻¹A_j      right side  A_j(σ²A_j + ηI)⁻¹b_j
//
// In the eigenbasis of A_j these are λ²/(σ²λ + η) and λ/(σ²λ + η). As η tends to 0 they become
// A_j/σ² and b_j/σ², the solver without noise. In directions where noise hides the signal the prior
// decides.
//
// A_j is noisy too. It is drawn to c_j times the mean E[ggᵀ] of all ratings, where c_j = Σ p_i is
// its last entry. An entry is the sum over c_j users. It differs from that multiple by a variance
// of about c_j, since users' coordinates have variance 1, and by s² from noise. So the weight of
// the entry is c_j/(c_j + s²). The remaining noise moves A_j·v_j by about s²‖v_j‖²/2 in each
// coordinate, which is added to η. The half comes from the entries of a packed matrix off the
// diagonal, which have half the variance.

// momentNoise holds the deviation of noise in moments, in units where a rating of σ_i = 1 counts as
// one, and the mean second moments of a rating.
type momentNoise struct {
	second, first float64
	scale         float64
	mean          []float64 // packed
}

func (x *momentNoise) is() bool { return x.second > 0 || x.first > 0 }

// noiseOfMoments computes the noise of a sum, which times scale counts a rating as one.
func noiseOfMoments(s *serving.Strategy, r serving.Absorbed, scale float64) *momentNoise {
	p, size := &s.Params.Params, s.Params.PackedJoint()
	x := &momentNoise{second: r.Noise[kernel.SecondMoments] * scale, first: r.Noise[kernel.FirstMoments] * scale, scale: scale, mean: make([]float64, size)}
	if !x.is() {
		return x
	}
	for j := range p.Items {
		dense.Axpy(x.mean, 1, r.Values[kernel.SecondMoments][j*size:(j+1)*size])
	}
	if ratings := x.mean[size-1]; ratings > 0 {
		x.mean = dense.Scaled(x.mean, 1/ratings)
	} else {
		clear(x.mean)
	}
	return x
}

// discounted computes the discounted equations of items, one after the other.
type discounted struct {
	*momentNoise
	strategy *serving.Strategy
	residual float64 // σ²
	eigen    *dense.Eigen
	packed   []float64
	right    []float64
}

// load sets a and b to the precision and the right side of item j, given the sums of its moments.
func (x *discounted) load(a, b []float64, j int, second, first []float64) {
	p, e := &x.strategy.Params.Params, len(b)
	c := max(x.scale*second[len(second)-1], 0)
	trust := 1.
	if x.second > 0 {
		trust = c / (c + dense.Sqr(x.second))
	}
	for i, y := range second {
		x.packed[i] = trust*x.scale*y + (1-trust)*c*x.mean[i]
	}
	dense.Unpack(a, x.packed, e, 1)
	x.eigen.Decompose(a)
	noise := dense.Sqr(x.first)
	for k := range e {
		noise += dense.Sqr(trust*x.second*x.strategy.Current().JointMean(p, j, k)) / 2
	}
	clear(x.right)
	for k, y := range first {
		dense.Axpy(x.right, x.scale*y, x.eigen.Vectors[k*e:(k+1)*e])
	}
	clear(a)
	clear(b)
	for i, value := range x.eigen.Values {
		if value == 0 {
			continue
		}
		by := value / (x.residual*value + noise)
		for k := range e {
			z := by * x.eigen.Vectors[k*e+i]
			b[k] += z * x.right[i]
			for l := range e {
				a[k*e+l] += z * value * x.eigen.Vectors[l*e+i]
			}
		}
	}
}
