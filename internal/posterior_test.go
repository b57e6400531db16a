package internal_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/fedsim/fedsim/internal/fedssp/posterior"
)

// world draws a design of two groups (4 and 6 columns) and measurements of it.
func world(items int, own float64, groups []float64, seed uint64) (posterior.Design, posterior.Measurements, []float64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	d := posterior.Design{Start: []int{0}, Group: []int{0, 0, 0, 0, 1, 1, 1, 1, 1, 1}}
	beta := make([]float64, len(d.Group))
	for c, g := range d.Group {
		beta[c] = groups[g] * rng.NormFloat64()
	}
	var m posterior.Measurements
	truth := make([]float64, items)
	for j := range items {
		one, two := rng.IntN(4), 4+rng.IntN(6)
		d.Column, d.Value = append(d.Column, one), append(d.Value, 1)
		truth[j] = beta[one] + own*rng.NormFloat64()
		if j%3 > 0 { // some have nothing of the second group
			v := 0.5 + rng.Float64()
			d.Column, d.Value = append(d.Column, two), append(d.Value, v)
			truth[j] += v * beta[two]
		}
		d.Start = append(d.Start, len(d.Column))
		h := 3 * rng.ExpFloat64()
		variance := 0.5 + h/4
		m.Gain, m.Variance = append(m.Gain, h), append(m.Variance, variance)
		m.Value = append(m.Value, h*truth[j]+math.Sqrt(variance)*rng.NormFloat64())
	}
	return d, m, truth
}

// covariances returns the covariances of x and of y under a prior, densely: K = XTXᵀ + τ²I and HKH
// + N.
func covariances(d posterior.Design, m posterior.Measurements, p posterior.Prior) (k *mat.Dense, y *mat.SymDense) {
	n := d.Items()
	x, t := mat.NewDense(n, len(d.Group), nil), mat.NewDiagDense(len(d.Group), nil)
	for c, g := range d.Group {
		t.SetDiag(c, p.Groups[g]*p.Groups[g])
	}
	for j := range n {
		for i := d.Start[j]; i < d.Start[j+1]; i++ {
			x.Set(j, d.Column[i], d.Value[i])
		}
	}
	k = new(mat.Dense)
	k.Product(x, t, x.T())
	y = mat.NewSymDense(n, nil)
	for i := range n {
		k.Set(i, i, k.At(i, i)+p.Own*p.Own)
	}
	for i := range n {
		for j := i; j < n; j++ {
			y.SetSym(i, j, max(m.Gain[i], 0)*k.At(i, j)*max(m.Gain[j], 0))
		}
		y.SetSym(i, i, y.At(i, i)+m.Variance[i])
	}
	return k, y
}

// Estimate is EstimateEffects without the effects.
func Estimate(d posterior.Design, m posterior.Measurements, p posterior.Prior, iterations int) ([]float64, posterior.Prior, error) {
	means, _, learned, err := posterior.EstimateEffects(d, m, p, iterations)
	return means, learned, err
}

// The means follow the textbook formula for jointly normal x and y, E[x|y] = KH(HKH + N)⁻¹y,
// computed densely.
func TestMeansAreThoseOfJointlyNormals(t *testing.T) {
	d, m, _ := world(60, .7, []float64{1, .4}, 1)
	m.Gain[5], m.Gain[6] = 0, -2 // of these nothing is known
	p := posterior.Prior{Own: .6, Groups: []float64{.9, .5}}
	got, same, err := Estimate(d, m, p, 0)
	if err != nil {
		t.Fatal(err)
	}
	k, cov := covariances(d, m, p)
	var ch mat.Cholesky
	if !ch.Factorize(cov) {
		t.Fatal("the test's covariance is not positive definite")
	}
	var z mat.VecDense
	if err := ch.SolveVecTo(&z, mat.NewVecDense(60, m.Value)); err != nil {
		t.Fatal(err)
	}
	for j := range 60 {
		var want float64
		for i := range 60 {
			want += k.At(j, i) * max(m.Gain[i], 0) * z.AtVec(i)
		}
		if math.Abs(got[j]-want) > 1e-7 {
			t.Errorf("item %d: %v, want %v", j, got[j], want)
		}
	}
	if math.Abs(same.Own-p.Own) > 1e-12 || math.Abs(same.Groups[1]-p.Groups[1]) > 1e-12 {
		t.Errorf("without iterations the prior became %v", same)
	}
}

// likelihood is the logarithm of the density of y, up to a constant.
func likelihood(t *testing.T, d posterior.Design, m posterior.Measurements, p posterior.Prior) float64 {
	t.Helper()
	_, cov := covariances(d, m, p)
	var ch mat.Cholesky
	if !ch.Factorize(cov) {
		t.Fatal("the test's covariance is not positive definite")
	}
	var z mat.VecDense
	y := mat.NewVecDense(len(m.Value), m.Value)
	if err := ch.SolveVecTo(&z, y); err != nil {
		t.Fatal(err)
	}
	return -ch.LogDet()/2 - mat.Dot(y, &z)/2
}

// EM guarantees two things: no iteration makes the measurements less likely, and where it stops no
// nearby prior is likelier.
func TestIterationsClimb(t *testing.T) {
	d, m, _ := world(80, .7, []float64{1, .4}, 2)
	p := posterior.Prior{Own: 3, Groups: []float64{.1, 2}}
	last := likelihood(t, d, m, p)
	first := last
	for i := range 60 {
		var err error
		if _, p, err = Estimate(d, m, p, 1); err != nil {
			t.Fatal(err)
		}
		now := likelihood(t, d, m, p)
		if now < last-1e-9 {
			t.Errorf("iteration %d: the logarithm of the likelihood fell from %v to %v", i+1, last, now)
		}
		last = now
	}
	if last < first+5 {
		t.Errorf("60 iterations gained %v", last-first)
	}
	_, p, err := Estimate(d, m, p, 3000)
	if err != nil {
		t.Fatal(err)
	}
	top := likelihood(t, d, m, p)
	for i, near := range []posterior.Prior{
		{Own: p.Own * 1.1, Groups: p.Groups}, {Own: p.Own / 1.1, Groups: p.Groups},
		{Own: p.Own, Groups: []float64{p.Groups[0] * 1.1, p.Groups[1]}}, {Own: p.Own, Groups: []float64{p.Groups[0] / 1.1, p.Groups[1]}},
		{Own: p.Own, Groups: []float64{p.Groups[0], p.Groups[1] * 1.1}}, {Own: p.Own, Groups: []float64{p.Groups[0], p.Groups[1] / 1.1}},
	} {
		if likelihood(t, d, m, near) > top {
			t.Errorf("neighbour %d of where it stopped is likelier", i)
		}
	}
}

// The deviations that data were drawn with come back, and the estimates are nearer to the
// truth than either measurements or features alone. Twenty standard errors are allowed.
func TestRecoversWhatDataWereDrawnWith(t *testing.T) {
	const n = 20000
	d, m, truth := world(n, .7, []float64{1, .4}, 3)
	got, p, err := Estimate(d, m, posterior.Prior{Own: 1, Groups: []float64{1, 1}}, 100)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(p.Own-.7) > 20*.7/math.Sqrt(2*n) {
		t.Errorf("τ is %v, drawn with .7", p.Own)
	}
	var posterior, measured float64
	for j, x := range truth {
		posterior += (got[j] - x) * (got[j] - x) / n
		raw := m.Value[j] / max(m.Gain[j], 1e-3)
		measured += (raw - x) * (raw - x) / n
	}
	if posterior > .49 || posterior > measured/2 {
		t.Errorf("mean squared error %v; the measurements' is %v, and features leave .49 open", posterior, measured)
	}
}

// Without features it is a ridge of its own for every item.
func TestWithoutFeatures(t *testing.T) {
	d := posterior.Design{Start: []int{0, 0, 0}}
	m := posterior.Measurements{Value: []float64{6, 1}, Gain: []float64{2, 0}, Variance: []float64{4, 1}}
	got, _, err := Estimate(d, m, posterior.Prior{Own: 3}, 0)
	if err != nil {
		t.Fatal(err)
	}
	// x = hτ²y/(h²τ² + v) = 2·9·6/(4·9 + 4)
	if math.Abs(got[0]-2.7) > 1e-9 || got[1] != 0 {
		t.Errorf("%v, want [2.7 0]", got)
	}
}

func TestRefusals(t *testing.T) {
	good := posterior.Design{Start: []int{0, 1}, Column: []int{0}, Value: []float64{1}, Group: []int{0}}
	fine := posterior.Measurements{Value: []float64{1}, Gain: []float64{1}, Variance: []float64{1}}
	prior := posterior.Prior{Own: 1, Groups: []float64{1}}
	if _, _, err := Estimate(good, fine, prior, 1); err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]posterior.Measurements{
		"NaN":               {Value: []float64{math.NaN()}, Gain: []float64{1}, Variance: []float64{1}},
		"infinite gain":     {Value: []float64{1}, Gain: []float64{math.Inf(1)}, Variance: []float64{1}},
		"negative variance": {Value: []float64{1}, Gain: []float64{1}, Variance: []float64{-1}},
	} {
		if _, _, err := Estimate(good, m, prior, 1); !errors.Is(err, posterior.ErrDegenerate) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The effects' prediction for an unmeasured item equals the estimate of an item with gain 0 among
// the others: its features alone determine it.
func TestPredict(t *testing.T) {
	d, m, _ := world(60, 0.4, []float64{1, 0.5}, 3)
	p := posterior.Prior{Own: 0.4, Groups: []float64{1, 0.5}}
	with := posterior.Measurements{Value: m.Value, Gain: append([]float64(nil), m.Gain...), Variance: m.Variance}
	for j := 40; j < 60; j++ {
		with.Gain[j] = 0
	}
	want, _, err := Estimate(d, with, p, 0)
	if err != nil {
		t.Fatal(err)
	}
	part := func(from, to int) posterior.Design {
		out := posterior.Design{Start: []int{0}, Group: d.Group}
		for j := from; j < to; j++ {
			from, to := d.Start[j], d.Start[j+1]
			out.Column, out.Value = append(out.Column, d.Column[from:to]...), append(out.Value, d.Value[from:to]...)
			out.Start = append(out.Start, len(out.Column))
		}
		return out
	}
	_, effects, _, err := posterior.EstimateEffects(part(0, 40), posterior.Measurements{Value: m.Value[:40], Gain: m.Gain[:40], Variance: m.Variance[:40]}, p, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range part(40, 60).Predict(effects) {
		if math.Abs(x-want[40+i]) > 1e-9 {
			t.Errorf("item %d is predicted at %v, want %v", 40+i, x, want[40+i])
		}
	}
}

// Two measurements of a number with the prior N(0, τ²) have the posterior mean (h·y/v + h'·y'/v') / (h²/v + h'²/v' + 1/τ²), and a gain
// that is not above 0 tells nothing.
func TestJoinedMeasurements(t *testing.T) {
	a := posterior.Measurements{Value: []float64{3, 1, -2, 5, 4}, Gain: []float64{2, 0, 1, -1, 0}, Variance: []float64{0.5, 1, 4, 1, 1}}
	b := posterior.Measurements{Value: []float64{-1, 2, 7, 6, 3}, Gain: []float64{0.3, 5, 0, 2, -4}, Variance: []float64{2, 0.1, 0, 3, 1}}
	const own = 0.7
	d := posterior.Design{Start: []int{0, 0, 0, 0, 0, 0}}
	got, _, _, err := posterior.EstimateEffects(d, a.Joined(b), posterior.Prior{Own: own}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for j, x := range got {
		precision, sum := 1/(own*own), 0.
		for _, m := range []posterior.Measurements{a, b} {
			if h := m.Gain[j]; h > 0 {
				precision += h * h / m.Variance[j]
				sum += h * m.Value[j] / m.Variance[j]
			}
		}
		if math.Abs(x-sum/precision) > 1e-12 {
			t.Errorf("item %d: %v, want %v", j, x, sum/precision)
		}
	}
}
