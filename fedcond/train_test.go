package fedcond

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy/simulated"
	"github.com/fedsim/fedsim/model"
)

func regression(t testing.TB, s dataset.RegressionShape, seed uint64) *dataset.Regression {
	t.Helper()
	r, err := dataset.SyntheticRegression(s, seed)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func conditioning(t testing.TB, r *dataset.Regression) *model.Matrix {
	t.Helper()
	c, err := Conditioning(r)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func train(t testing.TB, r *dataset.Regression, o Options, seed uint64) *Fitted {
	t.Helper()
	f, err := Train(r, o, simulated.New(seed, "labels"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

var small = dataset.RegressionShape{Rows: 2000, Cols: 10, Decay: 1, Labels: dataset.UniformLabels, Noise: .1}

func options(epsilon float64) Options {
	return Options{Steps: 40, Rate: .2, Clip: 2, Budget: dp.Budget{Epsilon: epsilon, Delta: 1e-6, Accountant: dp.Exact}}
}

// Remark 4.11: with C = I the weights are those of DP-SGD to the bit, noise included.
func TestIdentityIsDPSGD(t *testing.T) {
	r, o := regression(t, small, 1), options(1)
	plain := train(t, r, o, 7)
	o.C = model.NewMatrix(r.Cols, r.Cols)
	for j := range r.Cols {
		o.C.Row(j)[j] = 1
	}
	if got := train(t, r, o, 7); !slices.Equal(got.Weights, plain.Weights) {
		t.Errorf("with C = I weights are %v; DP-SGD's are %v", got.Weights, plain.Weights)
	}
	if other := train(t, r, o, 8); slices.Equal(other.Weights, plain.Weights) {
		t.Error("another seed of the noise gave the same weights")
	}
	o.C = conditioning(t, r)
	if got := train(t, r, o, 7); slices.Equal(got.Weights, plain.Weights) {
		t.Error("a conditioning that is not I changed nothing")
	}
}

// By definition C of X = UΣVᵀ makes XC = k·UVᵀ for some k > 0: its Gram matrix is k²·I.
func TestConditioningFlattensTheSpectrum(t *testing.T) {
	r := regression(t, small, 2)
	c := conditioning(t, r)
	l := newLinear(r, c)
	gram := make([][]float64, r.Cols)
	for a := range gram {
		gram[a] = make([]float64, r.Cols)
		for i := range r.Rows {
			for b := range r.Cols {
				gram[a][b] += l.x.Data[i*r.Cols+a] * l.x.Data[i*r.Cols+b]
			}
		}
	}
	for a := range gram {
		for b, v := range gram[a] {
			want := 0.0
			if a == b {
				want = gram[0][0]
			}
			if math.Abs(v-want) > 1e-8*gram[0][0] {
				t.Fatalf("Gram matrix has %v at %d, %d; it must be %v", v, a, b, want)
			}
		}
	}
	if got, want := longest(l.x), longest(features(r.X, r.Rows, r.Cols)); math.Abs(got-want) > 1e-9*want {
		t.Errorf("longest conditioned row is %v; the scale of C makes it %v", got, want)
	}
}

// X = diag(1, 1e-9, 0): by hand, 1/σ is 1, 1000 and 1000, as σ is at least a thousandth of the largest.
func TestConditioningFloor(t *testing.T) {
	r := &dataset.Regression{Rows: 3, Cols: 3, X: []float64{1, 0, 0, 0, 1e-9, 0, 0, 0, 0}, Y: make([]float64, 3)}
	c := conditioning(t, r)
	for j, want := range []float64{1, 1000, 1000} {
		if got := c.Row(j)[j]; math.Abs(got-want) > 1e-9*want {
			t.Errorf("C is %v at %d, %d; by hand %v", got, j, j, want)
		}
	}
	for _, bad := range []float64{0, math.NaN(), math.Inf(1)} {
		x := &dataset.Regression{Rows: 1, Cols: 1, X: []float64{bad}, Y: []float64{0}}
		if _, err := Conditioning(x); err == nil {
			t.Errorf("feature %v was conditioned", bad)
		}
	}
}

// The oracle multiplies by the features of each row, before and after the switch.
func TestSwitchMovesNoPrediction(t *testing.T) {
	r := regression(t, small, 3)
	l := newLinear(r, conditioning(t, r))
	rng := rand.New(rand.NewPCG(3, 3))
	for j := range l.theta {
		l.theta[j] = rng.NormFloat64()
	}
	l.predict()
	before := slices.Clone(l.scales)
	l.plain(r)
	l.predict()
	for i, want := range before {
		if plain := model.Dot(r.X[i*r.Cols:(i+1)*r.Cols], l.theta); math.Abs(plain-want) > 1e-10 || math.Abs(l.scales[i]-want) > 1e-10 {
			t.Fatalf("row %d: prediction was %v, is %v, and by its features %v", i, want, l.scales[i], plain)
		}
	}
	conditioned, switched := options(1), options(1)
	conditioned.C, switched.C, switched.Switch = conditioning(t, r), conditioning(t, r), 10
	if slices.Equal(train(t, r, conditioned, 1).Weights, train(t, r, switched, 1).Weights) {
		t.Error("the switch changed nothing that came after it")
	}
}

// One label of another value moves the sum by at most 2·clip, over 1,000 random examples and
// labels, and comes near it.
func TestSensitivity(t *testing.T) {
	const clip = .7
	r := regression(t, small, 4)
	l := newLinear(r, conditioning(t, r))
	rng := rand.New(rand.NewPCG(4, 4))
	y, most := slices.Clone(r.Y), 0.0
	first := l.gradient(y, clip)
	for n := range 1000 {
		i := rng.IntN(r.Rows)
		low, high := 100*rng.NormFloat64(), 100*rng.NormFloat64()
		switch n {
		case 0:
			low, high = math.NaN(), math.Inf(-1)
		case 1:
			low, high = math.Inf(1), math.Inf(-1)
		}
		y[i] = low
		a := l.gradient(y, clip)
		y[i] = high
		b := l.gradient(y, clip)
		y[i] = r.Y[i]
		var moved float64
		for j := range a {
			moved += (a[j] - b[j]) * (a[j] - b[j])
		}
		if moved = math.Sqrt(moved); !(moved <= 2*clip+1e-9) {
			t.Fatalf("labels %v and %v of row %d: the sum moved by %v; at most %v is accounted for", low, high, i, moved, 2*clip)
		}
		most = max(most, moved)
	}
	if most < 1.99*clip {
		t.Errorf("the sum moved by at most %v; labels this far apart must come near %v", most, 2*clip)
	}
	if again := l.gradient(y, clip); !slices.Equal(again, first) {
		t.Error("the gradient depends on what was computed before")
	}
}

// Clipping row by row, as written in the definition, is the oracle of the two products.
func TestGradientIsClippedByExample(t *testing.T) {
	const clip = .7
	r := regression(t, small, 5)
	l := newLinear(r, nil)
	want, touched := make([]float64, r.Cols), 0
	for i, y := range r.Y {
		row, norm := r.X[i*r.Cols:(i+1)*r.Cols], 0.0
		g := make([]float64, r.Cols)
		for j, x := range row {
			g[j] = -2 * y * x // θ = 0
			norm += g[j] * g[j]
		}
		factor := min(1, clip/math.Sqrt(norm))
		if factor < 1 {
			touched++
		}
		for j := range g {
			want[j] += factor * g[j]
		}
	}
	if touched == 0 || touched == r.Rows {
		t.Fatalf("%d of %d examples are clipped; the test needs both kinds", touched, r.Rows)
	}
	for j, got := range l.gradient(r.Y, clip) {
		if math.Abs(got-want[j]) > 1e-9 {
			t.Errorf("gradient is %v at %d; row by row %v", got, j, want[j])
		}
	}
}

// Closed form: T Gaussians of noise multiplier z are one of z/√T, whose δ(ε) is known.
// The noise is measured: with a rate that makes θ the noise of one step, θ is normal.
func TestNoiseIsWhatIsStated(t *testing.T) {
	for _, epsilon := range []float64{.25, .5, 1, 2, 4} {
		o := options(epsilon)
		o.Steps = 1
		z, _, err := dp.NoiseMultiplier(o.Budget, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		if delta := dp.GaussianDelta(epsilon, 1/z); math.Abs(delta-1e-6) > 1e-11 {
			t.Errorf("ε = %v: δ is %v by the closed form; 1e-6 is stated", epsilon, delta)
		}
		const p = 400
		r := &dataset.Regression{Rows: 1, Cols: p, X: make([]float64, p), Y: []float64{1}}
		o.Rate = 1
		f := train(t, r, o, 1)
		if s := f.Statement; s.Unit != dp.Example || s.Relation != dp.Label || s.Epsilon > epsilon || s.Epsilon < .999*epsilon {
			t.Errorf("ε = %v: the statement is %v", epsilon, s)
		}
		var square float64
		for _, w := range f.Weights {
			square += w * w
		}
		// The mean square of 400 normal draws deviates by √(2/400) = 7%: five of these, once in 1.7 million.
		want := math.Pow(z*2*o.Clip, 2)
		if got := square / p; math.Abs(got-want) > .36*want {
			t.Errorf("ε = %v: noise of variance %v; %v is accounted for", epsilon, got, want)
		}
	}
}

func TestTrainRefuses(t *testing.T) {
	r := regression(t, small, 6)
	for want, change := range map[string]func(*Options){
		"steps":        func(o *Options) { o.Steps = 0 },
		"rate":         func(o *Options) { o.Rate = math.NaN() },
		"clip":         func(o *Options) { o.Clip = 0 },
		"conditioning": func(o *Options) { o.C = model.NewMatrix(3, 3) },
		"switch":       func(o *Options) { o.Switch = 5 },
		"delta":        func(o *Options) { o.Budget.Delta = 0 },
	} {
		o := options(1)
		change(&o)
		if _, err := Train(r, o, simulated.New(1, "labels")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v", want, err)
		}
	}
}

func BenchmarkTrain(b *testing.B) {
	r := regression(b, dataset.RegressionShape{Rows: 20000, Cols: 100, Decay: 1, Labels: dataset.BottomLabels, Noise: .1}, 1)
	o := options(1)
	o.Steps, o.C = 1000, conditioning(b, r)
	for b.Loop() {
		train(b, r, o, 1)
	}
}
