package fedssp

import (
	"math"
	"testing"

	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/serving"
	"github.com/fedsim/fedsim/internal/fedssp/user"
	"github.com/fedsim/fedsim/model"
)

// By hand: items of popularity +1, -1 and 0 deviations have weights in the ratio of e^-½ : e^½ : 1 in a later sum with a tilt of
// ½, and Σw² is 1. In the first sum they are equal. Numbers that no honest server sends move weight between the user's own
// ratings alone.
func TestLaterSumsAreTilted(t *testing.T) {
	p := kinds(3, 2)["tilted pooled"]
	p.Tilt, p.Popularity, p.Exponent, p.NormBias, p.MeanCap = 0.5, 0.2, 0, 0, 0
	u := NewUser(&p, model.Ratings{Items: []int32{0, 1, 2}, Values: []float32{5, 4, 3}})
	s := newStrategy(t, p, 1, 0)
	_, sums := summed(t, s, []*user.User{u})
	third := math.Sqrt(1. / 3)
	near(t, "weights of the first sum", sums.Values[1], []float64{third, third, third}, 1e-12)
	s.Current().Bias, s.Current().Popularity = []float64{0, 0, 0}, []float64{0.2, -0.2, 0}
	plan, sums := summed(t, s, []*user.User{u})
	if plan.Phase != kernel.Refine {
		t.Fatal(plan.Phase)
	}
	norm := math.Sqrt(math.Exp(-1) + math.E + 1)
	near(t, "weights of a later sum", sums.Values[1], []float64{math.Exp(-0.5) / norm, math.Exp(0.5) / norm, 1 / norm}, 1e-7) // popularity is sent in single precision
	for _, lie := range []float64{1e30, math.MaxFloat32} {
		s := newStrategy(t, p, 1, 0)
		summed(t, s, []*user.User{u})
		s.Current().Bias, s.Current().Popularity = []float64{0, 0, 0}, []float64{lie, -lie, 0}
		_, sums := summed(t, s, []*user.User{u})
		total := 0.
		for _, w := range sums.Values[1] {
			total += w * w
		}
		if math.Abs(total-1) > 1e-9 {
			t.Errorf("popularity of %v gives Σw² = %v", lie, total)
		}
	}
}

// If all users rated the same items, a tilt multiplies the weights of an item by one number for all users, so that an exact
// tilted sum says what a sum without tilt says.
func TestTiltedSumsSayTheSame(t *testing.T) {
	const m = 6
	var said [2][]float64
	for i, tilt := range []float64{0, 0.7} {
		p := kinds(m, 2)["tilted pooled"]
		p.Tilt, p.Exponent, p.NormBias, p.BiasRounds, p.MeanCap = tilt, 0, 0, 2, 0
		var users []*user.User
		for k := range 20 {
			r := model.Ratings{}
			for j := range m {
				r.Items, r.Values = append(r.Items, int32(j)), append(r.Values, float32(1+(j*k+j+k)%5))
			}
			users = append(users, NewUser(&p, r))
		}
		s := newStrategy(t, p, len(users), 0)
		plan, sums := summed(t, s, users)
		if err := s.Absorb(plan, sums, serial{}); err != nil {
			t.Fatal(err)
		}
		s.Current().Popularity = []float64{0.3, 0.2, 0.1, 0, -0.1, -0.4}
		_, sums = summed(t, s, users)
		r := serving.Absorbed{Values: map[string][]float64{kernel.Bias: sums.Values[0], kernel.WeightCounts: sums.Values[1]}, Users: float64(len(users))}
		tilts := s.KeepWeights(r)
		if (tilts != nil) != (tilt > 0) {
			t.Fatalf("a tilt of %v has tilts %v", tilt, tilts)
		}
		said[i] = r.Sum(kernel.Bias).Untilted(tilts).Value
	}
	near(t, "sums", said[1], said[0], 1e-6)
}

// By hand, two items and ten users. The first sum has weights 4 and 1 a user with noise of variance 1. The tilt at +1 and -1
// deviations is e^-½ and e^½. The second sum has 4e^-½·1.1 and e^½·1.1, so the common factor is 1.1. As of the first
// weights it is 4 and 1 again, with precisions 1.21/e and 1.21·e, which add to 1.
func TestTiltedWeightsAreJoined(t *testing.T) {
	p := kinds(2, 1)["tilted pooled"]
	p.Tilt, p.Popularity, p.Exponent, p.MeanCap = 0.5, 0.2, 0, 0
	s := newStrategy(t, p, 10, 0)
	u := NewUser(&p, model.Ratings{Items: []int32{0, 1}, Values: []float32{5, 4}})
	released := func(a, b float64) serving.Absorbed {
		return serving.Absorbed{Values: map[string][]float64{kernel.WeightCounts: {10 * a, 10 * b}}, Noise: map[string]float64{kernel.WeightCounts: 10}, Users: 10}
	}
	summed(t, s, []*user.User{u})
	if tilts := s.KeepWeights(released(4, 1)); tilts != nil {
		t.Errorf("the first sum has tilts %v", tilts)
	}
	s.Current().Bias, s.Current().Popularity = []float64{0, 0}, []float64{0.2, -0.2}
	summed(t, s, []*user.User{u})
	down, up := math.Exp(-0.5), math.Exp(0.5)
	near(t, "tilts", s.KeepWeights(released(4*down*1.1, up*1.1)), []float64{1.1 * down, 1.1 * up}, 1e-12)
	near(t, "weights", s.Weight, []float64{4, 1}, 1e-12)
	near(t, "noise", s.WeightNoises, []float64{1 / math.Sqrt(1+1.21/math.E), 1 / math.Sqrt(1+1.21*math.E)}, 1e-12)
}
