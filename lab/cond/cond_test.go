package cond

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/mat"

	"github.com/fedsim/fedsim/internal/dense"
	labelled "github.com/fedsim/fedsim/lab/cond/regression"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// crafted makes 40 users with profiles of 3 columns, and up to 4 labels each of 5 items with 2
// features and places of their own.
func crafted(seed uint64) (*params, *Examples) {
	rng := rand.New(rand.NewPCG(seed, 1))
	items := &catalogue{rows: model.NewMatrix(5, 2), columns: []string{"1", "x"}}
	for j := range 5 {
		items.rows.Row(j)[0], items.rows.Row(j)[1] = 1, rng.NormFloat64()
	}
	p := &params{layout: layout{profile: 3, features: 2, ids: 5}, items: items, middle: 3, deviation: 0.5, clip: 0.7, publish: 1, longest: 100, most: 200}
	var profile []float64
	rows := make([]model.Ratings, 40)
	for u := range rows {
		for k := range 3 {
			profile = append(profile, rng.NormFloat64()*math.Pow(10, -float64(k)))
		}
		for j := range int32(5) {
			if rng.Float64() < 0.5 {
				rows[u].Items, rows[u].Values = append(rows[u].Items, j), append(rows[u].Values, float32(1+4*rng.Float64()))
			}
		}
	}
	return p, newExamples(p, profile, rows)
}

// known returns the moments of the examples, as a strategy gets them.
func known(t testing.TB, x *Examples) moments {
	t.Helper()
	m, err := momentsOf(x.params.layout, x.params.items, x.moments(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func using(t testing.TB, x *Examples, conditioned bool) *transform {
	t.Helper()
	tr, err := newTransform(x.params.layout, known(t, x), inversion{invert: conditioned, floor: 1e-3})
	if err != nil {
		t.Fatal(err)
	}
	x.use(tr.numbers())
	return tr
}

// plain returns the features of an example: profile, features of the item, its place.
func plain(x *Examples, u int, j int32) []float64 {
	l := x.params.layout
	v := slices.Concat(x.profile.Data[u*l.profile:(u+1)*l.profile], x.params.items.rows.Row(int(j)), make([]float64, l.ids))
	v[l.profile+l.features+int(j)] = 1
	return v
}

// Row by row, as in the definition: features times C, the gradient of the square, its length, and
// the smaller of it and clip. C is applied to unit vectors, so that the test does not depend on the
// code of examples.
func TestGradientIsClippedByExample(t *testing.T) {
	for _, conditioned := range []bool{false, true} {
		p, x := crafted(1)
		tr := using(t, x, conditioned)
		n := p.len()
		c := mat.NewDense(n, n, nil) // symmetric: row k is C e_k
		for k := range n {
			e := make([]float64, n)
			e[k] = 1
			c.SetRow(k, tr.apply(p.layout, e))
		}
		rng := rand.New(rand.NewPCG(2, 2))
		theta := make([]float64, n)
		for k := range theta {
			theta[k] = rng.NormFloat64()
		}
		want, cut, all := make([]float64, n), 0, 0
		for u := range x.users() {
			for k := x.start[u]; k < x.start[u+1]; k++ {
				var v mat.VecDense
				v.MulVec(c, mat.NewVecDense(n, plain(x, u, x.item[k])))
				slope := 2 * (mat.Dot(&v, mat.NewVecDense(n, theta)) - x.label[k])
				factor := min(1, p.clip/(math.Abs(slope)*mat.Norm(&v, 2)))
				all++
				if factor < 1 {
					cut++
				}
				for i := range want {
					want[i] += factor * slope * v.AtVec(i)
				}
			}
		}
		if cut == 0 || cut == all {
			t.Fatalf("%d of %d examples are clipped; the test needs both kinds", cut, all)
		}
		for i, got := range x.gradient(theta, protocol.Workers(1)) {
			if math.Abs(got-want[i]) > 1e-9 {
				t.Errorf("conditioned %v: gradient is %v at %d; row by row %v", conditioned, got, i, want[i])
			}
		}
	}
}

// By definition C of X = UΣVᵀ makes XC = k·UVᵀ for some k > 0: each block's moments are k²·I. The mean of ‖Cx‖² is 1.
func TestConditioningFlattensTheSpectrum(t *testing.T) {
	p, x := crafted(2)
	using(t, x, true)
	gram := mat.NewDense(p.profile, p.profile, nil)
	var lengths, n float64
	for u := range x.users() {
		row := x.rows.profile.Data[u*p.profile : (u+1)*p.profile]
		for k := x.start[u]; k < x.start[u+1]; k++ {
			for a := range row {
				for b := range row {
					gram.Set(a, b, gram.At(a, b)+row[a]*row[b])
				}
			}
			lengths += x.rows.users[u] + x.rows.catalog[x.item[k]]
			n++
		}
	}
	for a := range p.profile {
		for b := range p.profile {
			want := 0.0
			if a == b {
				want = gram.At(0, 0)
			}
			if got := gram.At(a, b); math.Abs(got-want) > 1e-8*gram.At(0, 0) {
				t.Errorf("moments have %v at %d, %d; they must be %v", got, a, b, want)
			}
		}
	}
	if math.Abs(lengths/n-1) > 1e-9 {
		t.Errorf("‖Cx‖² is %v in the mean; the scale of C makes it 1", lengths/n)
	}
}

// Moments diag(1, 1e-18, 0): by hand, 1/σ is 1, 1000 and 1000, because σ is at least a thousandth
// of the largest. With noise of 1e-4 in the moments it is at least a hundredth.
func TestConditioningFloor(t *testing.T) {
	m := mat.NewSymDense(3, []float64{1, 0, 0, 0, 1e-18, 0, 0, 0, 0})
	for noise, most := range map[float64]float64{0: 1000, 1e-4: 100} {
		c, err := whiten(m, 1e-3, noise)
		if err != nil {
			t.Fatal(err)
		}
		for j, want := range []float64{1, most, most} {
			if got := c.Row(j)[j]; math.Abs(got-want) > 1e-9*want {
				t.Errorf("noise %v: C is %v at %d, %d; by hand %v", noise, got, j, j, want)
			}
		}
	}
	for _, bad := range []float64{0, math.NaN(), math.Inf(1)} {
		if _, err := whiten(mat.NewSymDense(1, []float64{bad}), 1e-3, 0); err == nil {
			t.Errorf("moments %v were conditioned", bad)
		}
	}
}

// Two items with 9 and 1 labels, and a ridge of as many labels as there are directions. By hand:
// with d directions the ridge is d, and d = 9/(9 + d) + 1/(1 + d), which d = 1.30673 solves.
func TestRidgeSettles(t *testing.T) {
	how := inversion{ridge: func(n float64) float64 { return n }}
	if d := 10 * how.settle(moments{examples: 10, shares: []float64{.9, .1}}, 0); math.Abs(d-1.30673) > 1e-4 {
		t.Errorf("%v directions are left", d)
	}
}

// One label of another value moves a party's gradient by at most 2·clip, over 1,000 random examples
// and labels, and reaches nearly that. It does not move the sums of features.
func TestSensitivity(t *testing.T) {
	p, x := crafted(3)
	using(t, x, true)
	rng := rand.New(rand.NewPCG(4, 4))
	theta := make([]float64, p.len())
	for k := range theta {
		theta[k] = rng.NormFloat64()
	}
	before, most := x.moments(), 0.0
	gradient := p.gradientRelease()
	for n := range 1000 {
		i := rng.IntN(len(x.label))
		was := x.label[i]
		low, high := 100*rng.NormFloat64(), 100*rng.NormFloat64()
		switch n {
		case 0:
			low, high = math.NaN(), math.Inf(-1)
		case 1:
			low, high = math.Inf(1), math.Inf(-1)
		}
		x.label[i] = low
		a := x.gradient(theta, protocol.Workers(1))
		x.label[i] = high
		b := x.gradient(theta, protocol.Workers(1))
		if !slices.Equal(x.moments(), before) {
			t.Fatal("a label moves the sums of features, which are said not to depend on any")
		}
		x.label[i] = was
		var moved float64
		for j := range a {
			moved += (a[j] - b[j]) * (a[j] - b[j])
		}
		if moved = math.Sqrt(moved); !(moved <= gradient.Sensitivity+1e-9) {
			t.Fatalf("labels %v and %v of example %d: the sum moved by %v; at most %v is accounted for", low, high, i, moved, gradient.Sensitivity)
		}
		most = max(most, moved)
		if norm := blas64.Nrm2(dense.Vector(a)); norm > gradient.L2 {
			t.Fatalf("a gradient has the norm %v; at most %v is declared", norm, gradient.L2)
		}
	}
	if most < 1.99*p.clip {
		t.Errorf("the sum moved by at most %v; labels this far apart must come near %v", most, 2*p.clip)
	}
}

// Remark 4.11: with C = I the gradients equal DP-SGD's to the bit.
func TestIdentityIsDPSGD(t *testing.T) {
	p, x := crafted(5)
	tr := using(t, x, false)
	theta := make([]float64, p.len())
	for k := range theta {
		theta[k] = float64(k) / 7
	}
	plain := x.gradient(theta, protocol.Workers(1))
	eye := func(n int) *model.Matrix {
		m := model.NewMatrix(n, n)
		for j := range n {
			m.Row(j)[j] = 1
		}
		return m
	}
	identity := &transform{scale: tr.scale, profile: eye(p.profile), features: eye(p.features), ids: slices.Repeat([]float64{1}, p.ids)}
	x.use(identity.numbers())
	if got := x.gradient(theta, protocol.Workers(1)); !slices.Equal(got, plain) {
		t.Errorf("with C = I the gradient is %v; DP-SGD's is %v", got, plain)
	}
	if got, want := identity.apply(p.layout, theta), tr.apply(p.layout, theta); !slices.Equal(got, want) {
		t.Errorf("with C = I weights are %v; DP-SGD's are %v", got, want)
	}
}

// Key design 3: no prediction moves when conditioning ends. Predictions are by plain features.
func TestSwitchMovesNoPrediction(t *testing.T) {
	p, x := crafted(6)
	s := newStrategy(strategyParams{params: p, Floor: 1e-3, Schedule: protocol.Schedule{
		{Rounds: 1, Releases: []protocol.Release{{Scale: 1}}}, {Rounds: 4, Releases: []protocol.Release{{Scale: 1}}},
	}})
	if err := s.know(x.moments()); err != nil {
		t.Fatal(err)
	}
	if err := s.turn(true); err != nil {
		t.Fatal(err)
	}
	for k := range s.theta {
		s.theta[k] = math.Sin(float64(k))
	}
	before := s.weights()
	conditioned := slices.Clone(s.theta)
	if err := s.turn(false); err != nil {
		t.Fatal(err)
	}
	if slices.Equal(s.theta, conditioned) {
		t.Fatal("θ did not change")
	}
	after := s.weights()
	for u := range x.users() {
		for k := x.start[u]; k < x.start[u+1]; k++ {
			v := plain(x, u, x.item[k])
			if a, b := model.Dot(v, before), model.Dot(v, after); math.Abs(a-b) > 1e-12*(1+math.Abs(a)) {
				t.Fatalf("example %d: the prediction was %v and is %v", k, a, b)
			}
		}
	}
	if err := s.turn(true); err == nil {
		t.Error("conditioning began again")
	}
}

// The order of additions does not depend on the number of workers.
func TestGradientDoesNotDependOnWorkers(t *testing.T) {
	r := labelled.New(labelled.Shape{Rows: 3*chunk + 5, Cols: 4, Labels: labelled.TopLabels}, 1)
	x := ofRegression(r)
	using(t, x, true)
	theta := []float64{1, 2, 3, 4, 5}
	if a, b := x.gradient(theta, protocol.Workers(1)), x.gradient(theta, protocol.Workers(7)); !slices.Equal(a, b) {
		t.Errorf("%v by one worker, %v by seven", a, b)
	}
}

// ofRegression returns the examples of a regression, by one party.
func ofRegression(r *labelled.Data) *Examples {
	items := &catalogue{rows: model.Wrap(1, 1, []float64{1}), columns: []string{"1"}}
	p := &params{layout: layout{profile: r.Cols, features: 1}, items: items, clip: 4, publish: 1, longest: 1e6, most: float64(r.Rows)}
	rows := make([]model.Ratings, r.Rows)
	for i, y := range r.Y {
		rows[i] = model.Ratings{Items: []int32{0}, Values: []float32{float32(y)}}
	}
	return newExamples(p, r.X, rows)
}

// The limit is the time of the two products by all features that a gradient needs.
func BenchmarkGradient(b *testing.B) {
	r := labelled.New(labelled.Shape{Rows: 20000, Cols: 100, Decay: 1, Labels: labelled.BottomLabels, Noise: .1}, 1)
	x := ofRegression(r)
	using(b, x, true)
	theta := make([]float64, 101)
	out, g := make([]float64, r.Rows), make([]float64, r.Cols)
	var products, gradients time.Duration
	for b.Loop() {
		start := time.Now()
		blas64.Gemv(blas.NoTrans, 1, dense.General(r.X, r.Rows, r.Cols), dense.Vector(theta[:r.Cols]), 0, dense.Vector(out))
		blas64.Gemv(blas.Trans, 1, dense.General(r.X, r.Rows, r.Cols), dense.Vector(out), 0, dense.Vector(g))
		middle := time.Now()
		x.gradient(theta, protocol.Workers(1))
		products, gradients = products+middle.Sub(start), gradients+time.Since(middle)
	}
	b.ReportMetric(float64(gradients)/float64(products), "of-gemv")
}

// The penalty's gradient equals the gradient of examples·ridge·‖plain weights of items‖², by finite
// differences.
func TestPenaltyIsTheRidgesDerivative(t *testing.T) {
	for _, conditioned := range []bool{false, true} {
		p, x := crafted(7)
		tr, err := newTransform(p.layout, known(t, x), inversion{invert: conditioned, floor: 1e-3, ridge: func(float64) float64 { return 3 }})
		if err != nil {
			t.Fatal(err)
		}
		if n := float64(len(x.item)); math.Abs(tr.ridge*n-3) > 1e-12 {
			t.Errorf("the ridge is %v of %v examples; 3 labels are asked for", tr.ridge, n)
		}
		theta := make([]float64, p.len())
		for k := range theta {
			theta[k] = math.Cos(float64(k))
		}
		const examples = 50.
		loss := func() (sum float64) {
			for _, w := range tr.apply(p.layout, theta)[p.profile+p.features:] {
				sum += examples * tr.ridge * w * w
			}
			return sum
		}
		got := make([]float64, p.len())
		tr.penalise(p.layout, got, theta, examples)
		const h = 1e-4
		for k := range theta {
			at := theta[k]
			theta[k] = at + h
			up := loss()
			theta[k] = at - h
			down := loss()
			theta[k] = at
			if want := (up - down) / (2 * h); math.Abs(got[k]-want) > 1e-6*(1+math.Abs(want)) {
				t.Errorf("conditioned %v: the penalty's gradient is %v at %d; by differences %v", conditioned, got[k], k, want)
			}
		}
	}
}
