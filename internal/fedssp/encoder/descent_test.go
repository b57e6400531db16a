package encoder

import (
	"errors"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
)

// The gradient of a few items' losses, one of them twice, is compared by every parameter with
// central differences of those losses, which Embed computes. It is taken at another θ than the
// encoder's own, which does not change.
func TestGradientOfSomeItems(t *testing.T) {
	const width = 1e-3
	items := []int32{7, 2, 5, 2}
	for _, c := range variants() {
		e, _ := c.build(t, 12, 3)
		other, _ := c.build(t, 12, 3)
		o := newQuadratic(12, 3)
		theta := other.theta
		floats.Scale(0.8, theta)
		theta[0] += 0.1
		before := slices.Clone(e.theta)
		v, g := make([]float64, 12*3), make([]float64, 3)
		loss := func() (sum float64) {
			other.Embed(v, serial)
			for k, j := range items {
				sum += float64(k+1) * o.Gradient(int(j), v[j*3:(j+1)*3], g)
			}
			return sum
		}
		grad := make([]float64, len(theta))
		e.Gradient(slices.Clone(theta), items, func(k int, v, g []float64) {
			o.Gradient(int(items[k]), v, g)
			floats.Scale(float64(k+1), g)
		}, grad)
		for i, x := range theta {
			theta[i] = x + width
			above := loss()
			theta[i] = x - width
			want := (above - loss()) / (2 * width)
			theta[i] = x
			if math.Abs(grad[i]-want) > 1e-9 {
				t.Errorf("%s: parameter %d of %d: gradient %v, want %v", c.name, i, len(theta), grad[i], want)
			}
		}
		if !slices.Equal(e.theta, before) {
			t.Errorf("%s: the encoder's own parameters moved", c.name)
		}
	}
}

// How many parameters there are is said before they are.
func TestParameters(t *testing.T) {
	for _, c := range variants() {
		e, f := c.build(t, 12, 3)
		if got := Parameters(f, 12, 3, c.settings); got != float64(len(e.Theta())) {
			t.Errorf("%s: %v parameters, want %d", c.name, got, len(e.Theta()))
		}
	}
}

// By hand: plain steps against gradient and ridge at rates that fall to a tenth; the first
// step of Adam is as long as the rate in every coordinate.
func TestDescend(t *testing.T) {
	s := Settings{IDs: true, StartNorm: 1, Optimiser: SGD, Rate: 0.5, Steps: 3, Ridge: 0.2}
	e, err := New(nil, 2, 2, s, 1)
	if err != nil {
		t.Fatal(err)
	}
	copy(e.theta, []float64{1, -1, 2, 0})
	for step := range 3 {
		if err = e.Descend([]float64{1, 0, -1, 0}, step); err != nil {
			t.Fatal(err)
		}
	}
	want := []float64{1, -1, 2, 0}
	for _, rate := range []float64{0.5, 0.275, 0.05} {
		for i, g := range []float64{1, 0, -1, 0} {
			want[i] -= rate * (g + 0.2*want[i])
		}
	}
	if !floats.EqualApprox(e.theta, want, 1e-12) {
		t.Errorf("three steps end at %v, want %v", e.theta, want)
	}
	s.Optimiser, s.Ridge = Adam, 0
	if e, err = New(nil, 2, 2, s, 1); err != nil {
		t.Fatal(err)
	}
	copy(e.theta, []float64{1, -1, 2, 0})
	if err := e.Descend([]float64{100, 1, -0.01, 0}, 0); err != nil || !floats.EqualApprox(e.theta, []float64{0.5, -1.5, 2.5, 0}, 1e-5) {
		t.Errorf("the first step of Adam ends at %v (%v)", e.theta, err)
	}
	start := e.Theta()[0]
	if err := e.Descend([]float64{math.Inf(1), 0, 0, 0}, 1); !errors.Is(err, ErrDiverged) || e.theta[0] == start || math.IsNaN(e.theta[0]) {
		t.Errorf("after an infinite gradient there are parameters of %v, and the error is %v", e.theta, err)
	}
}
