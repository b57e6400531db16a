package fmf

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/fedmf/kernel"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

func objectiveParams(unit dp.Unit, items, rank int) ObjectiveParams {
	p := ObjectiveParams{
		Params: kernel.Params{Items: items, Rank: rank, MaxRating: 5, StartMean: 3.5, Fit: kernel.Fit{Steps: 50, Ridge: 1}},
		Unit:   unit, Ridge: 2, Epsilon: 8,
	}
	if unit == dp.User {
		p.ClipRatings = 3
	}
	return p
}

// randomQuadratic returns a quadratic whose minimiser may be inside, on an edge or on the ball.
func randomQuadratic(rng *rand.Rand, d int) quadratic {
	q := quadratic{make([]float64, d*d), make([]float64, d)}
	for i := range d {
		q.a[i*d+i], q.b[i] = 0.5, 3*rng.NormFloat64()
	}
	u := make([]float64, d)
	for range 2 * d {
		for i := range u {
			u[i] = rng.NormFloat64()
		}
		q.add(u, 3*rng.NormFloat64())
	}
	return q
}

// The oracle is projected gradient descent, 4,000 steps of 1/trace: for condition numbers below 200
// it reaches the minimum to 1e-8. In more than one dimension the minimiser must be on both kinds of
// edge in some trials.
func TestFeasibleMinimiser(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	const r = 4
	edges, balls := 0, 0
	for trial := range 300 {
		d := 1 + trial%5
		q := randomQuadratic(rng, d)
		want, grad, trace := make([]float64, d), make([]float64, d), 0.
		for i := range d {
			trace += q.a[i*d+i]
		}
		for range 4000 {
			for i := range grad {
				grad[i] = model.Dot(q.a[i*d:(i+1)*d], want) - q.b[i]
			}
			for i := range want {
				want[i] -= grad[i] / trace
			}
			kernel.Project(want, r)
		}
		got := q.feasible(r)
		for i, x := range got {
			if math.Abs(x-want[i]) > 1e-7 {
				t.Fatalf("trial %d: %v, want %v", trial, got, want)
			}
			if x == 0 {
				edges++
			}
		}
		if norm2 := model.Dot(got, got); norm2 > r {
			t.Fatalf("trial %d: outside of the ball, %v", trial, norm2)
		} else if norm2 > r*(1-1e-12) {
			balls++
		}
	}
	if edges < 30 || balls < 30 {
		t.Errorf("%d coordinates at zero and %d minimisers on the ball; the trials show little", edges, balls)
	}
}

// No unit of 1,000 random ones moves the gradients of all items by more than the bound, in the sum
// of their norms, at any feasible V. One unit reaches it: u of the greatest length, v = 0 and
// ratings of R.
func TestObjectiveSensitivity(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 9))
	for _, unit := range []dp.Unit{dp.Rating, dp.User} {
		p := objectiveParams(unit, 3, 2)
		most := 0.
		for trial := range 1000 {
			u := p.StartUser()
			if unit == dp.User {
				for i := range u {
					u[i] = 5 * rng.Float64()
				}
				if trial == 0 {
					u = []float64{100, 0}
				}
				kernel.Project(u, p.MaxRating)
			}
			moved := 0.
			for range int(p.count()) {
				v, x := []float64{4 * rng.NormFloat64(), 4 * rng.NormFloat64()}, 5*rng.Float64()
				if trial == 0 {
					v, x = []float64{0, 0}, 5
				}
				kernel.Project(v, p.MaxRating)
				q := quadratic{make([]float64, 4), make([]float64, 2)}
				q.add(u, x)
				g := []float64{2 * (model.Dot(q.a[:2], v) - q.b[0]), 2 * (model.Dot(q.a[2:], v) - q.b[1])}
				moved += math.Sqrt(model.Dot(g, g))
			}
			most = max(most, moved)
		}
		if bound := p.Sensitivity(); most > bound*(1+1e-12) || most < bound*(1-1e-12) {
			t.Errorf("unit %s: the furthest is %v, the bound %v", unit, most, bound)
		}
	}
}

// An item of rank 1 has n ratings y, and one unit rates it with x, or not. The law of Laplace says
// whether η puts v below t, so the chance of every interval of V is known for both. No logarithm of
// a ratio exceeds ε, for an interval or for the edges at 0 and √R. Some exceed the noise's own
// part, β·Sensitivity = ε - Curvature: without the price of the curvature the claim would be wrong.
func TestObjectiveKeepsEpsilon(t *testing.T) {
	p := objectiveParams(dp.Rating, 1, 1)
	u, start := p.StartUser()[0], p.StartItems().Row(0)[0]
	for _, c := range []struct{ epsilon, ridge float64 }{{0.9, 2}, {2, 0.2}, {8, 0.01}, {8, 2}} {
		p.Epsilon, p.Ridge = c.epsilon, c.ridge
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		below := func(t, n, y, rated, x float64) float64 { // the chance that v <= t: η is at least minus the slope there
			slope := 2*n*u*(u*t-y) + 2*rated*u*(u*t-x) + 2*p.weight()*(t-start)
			if slope < 0 {
				return 0.5 * math.Exp(p.rate()*slope)
			}
			return 1 - 0.5*math.Exp(-p.rate()*slope)
		}
		most, wide := 0., math.Sqrt(p.MaxRating)/400
		for _, n := range []float64{0, 1, 3, 20} {
			for _, xy := range [][2]float64{{5, 0}, {0, 5}, {5, 5}, {2.5, 0}, {0, 0}} {
				last, lastWith := 0., 0.
				for k := range 401 { // the last is the edge of the ball
					now, with := below(float64(k)*wide, n, xy[1], 0, 0), below(float64(k)*wide, n, xy[1], 1, xy[0])
					if k == 400 {
						now, with = 1, 1
					}
					if from, fromWith := now-last, with-lastWith; min(from, fromWith) > 1e-9 { // only where differences have digits
						most = max(most, math.Abs(math.Log(from/fromWith)))
					}
					last, lastWith = now, with
				}
			}
		}
		if most > p.Epsilon*(1+1e-6) {
			t.Errorf("epsilon %v, ridge %v: the logarithm of a ratio is %v", p.Epsilon, p.Ridge, most)
		}
		if noise := p.Epsilon - p.Curvature(); c.ridge < 1 && most < 1.3*noise {
			t.Errorf("epsilon %v, ridge %v: the logarithm of a ratio is %v at the most, and noise for %v might do", p.Epsilon, p.Ridge, most, noise)
		}
	}
}

// The curvature's part: 1,000 random units at random points, P' by differences of the projection. The determinant never shrinks, nor grows
// by more than e to the Curvature.
func TestObjectiveCurvature(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	p := objectiveParams(dp.User, 1, 2)
	p.ClipRatings = 1
	most := math.Exp(p.Curvature())
	for trial := range 1000 {
		h := quadratic{[]float64{p.weight(), 0, 0, p.weight()}, make([]float64, 2)}
		u := []float64{rng.Float64(), rng.Float64()}
		for range trial % 3 {
			h.add([]float64{rng.Float64(), rng.Float64()}, 1)
		}
		more := quadratic{append([]float64(nil), h.a...), make([]float64, 2)}
		scale := math.Sqrt(p.MaxRating / model.Dot(u, u))
		more.add([]float64{u[0] * scale, u[1] * scale}, 1)
		w := []float64{4 * rng.NormFloat64(), 4 * rng.NormFloat64()}
		ratio := determinant(more, w, p.MaxRating) / determinant(h, w, p.MaxRating)
		if ratio < 1-1e-6 || ratio > most*(1+1e-6) {
			t.Fatalf("trial %d: the determinant changes by the factor %v; it must be from 1 to %v", trial, ratio, most)
		}
	}
}

// determinant returns the determinant of HP' + I - P' in two dimensions, H = 2A.
func determinant(q quadratic, w []float64, r float64) float64 {
	const h = 1e-6
	var d, m [4]float64
	for c := range 2 {
		up, down := []float64{w[0], w[1]}, []float64{w[0], w[1]}
		up[c] += h
		down[c] -= h
		kernel.Project(up, r)
		kernel.Project(down, r)
		for i := range 2 {
			d[2*i+c] = (up[i] - down[i]) / (2 * h)
		}
	}
	for i := range 2 {
		for c := range 2 {
			m[2*i+c] = 2*(q.a[2*i]*d[c]+q.a[2*i+1]*d[2+c]) - d[2*i+c]
		}
		m[3*i]++
	}
	return m[0]*m[3] - m[1]*m[2]
}

// Lengths of noise have mean d/β and variance d/β², and no direction is preferred. Five standard
// deviations over 20,000 draws: an alarm that is false in 2 of a million.
func TestObjectiveNoise(t *testing.T) {
	const draws = 20_000
	p := objectiveParams(dp.Rating, 1, 3)
	bits := noise.NewBits(simulated.New(1, "objective").Stream("test", 1))
	eta, sum, beta := make([]float64, 3), make([]float64, 3), p.rate()
	length, square := 0., 0.
	for range draws {
		if err := p.draw(eta, bits); err != nil {
			t.Fatal(err)
		}
		norm := math.Sqrt(model.Dot(eta, eta))
		length += norm / draws
		square += norm * norm / draws
		for i, x := range eta {
			sum[i] += x / norm
		}
	}
	if want, off := 3/beta, 5*math.Sqrt(3./draws)/beta; math.Abs(length-want) > off {
		t.Errorf("the mean length is %v; want %v ± %v", length, want, off)
	}
	// E‖η‖² = 12/β² of Gamma(3), and E‖η‖⁴ = 360/β⁴.
	if want, off := 12/beta/beta, 5*math.Sqrt((360.-144)/draws)/beta/beta; math.Abs(square-want) > off {
		t.Errorf("the mean square is %v; want %v ± %v", square, want, off)
	}
	for i, x := range sum {
		if math.Abs(x) > 5*math.Sqrt(draws/3.) {
			t.Errorf("coordinate %d of directions adds up to %v", i, x)
		}
	}
}

// Without noise a row of rank 1 is the quotient of the normal equations, (λv⁰ + uΣx)/(λ + nu²).
// With u = v⁰ = √3.5 and a ridge of 1, λ = u², and it predicts (3.5 + Σx)/(1 + n). By hand: ratings
// 1 and 4 make 8.5/3, no rating 3.5.
func TestObjectiveWithoutNoise(t *testing.T) {
	p := objectiveParams(dp.Rating, 2, 1)
	p.Epsilon, p.Ridge = math.Inf(1), 1
	rows := []model.Ratings{{Items: []int32{0}, Values: []float32{1}}, {Items: []int32{0}, Values: []float32{4}}}
	v, err := Objective(t.Context(), rows, p, nil, protocol.Workers(1))
	if err != nil {
		t.Fatal(err)
	}
	for j, want := range []float64{8.5 / 3, 3.5} {
		if got := v.Row(j)[0] * math.Sqrt(3.5); math.Abs(got-want) > 1e-6 {
			t.Errorf("item %d is predicted as %v; want %v", j, got, want)
		}
	}
}

// Every row of V, rated or not, has its own noise: no row equals the row without noise.
func TestObjectiveNoisesEveryItem(t *testing.T) {
	p := objectiveParams(dp.User, 50, 2)
	v, err := Objective(t.Context(), make([]model.Ratings, 4), p, simulated.New(1, "objective").Stream("test", 1), protocol.Workers(2))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[float64]bool{}
	for j := range v.Rows() {
		x := v.Row(j)[0]
		if x == p.StartItems().Row(j)[0] || x > 0 && seen[x] {
			t.Errorf("item %d has no noise of its own: %v", j, x)
		}
		seen[x] = true
	}
	if _, err := Objective(t.Context(), nil, p, strings.NewReader("too short"), protocol.Workers(1)); err == nil {
		t.Error("noise of a stream that ended was accepted")
	}
}

func TestObjectiveRefuses(t *testing.T) {
	for _, c := range []struct {
		change func(*ObjectiveParams)
		reason string
	}{
		{func(p *ObjectiveParams) { p.Ridge = 0 }, "ridge is 0"},
		{func(p *ObjectiveParams) { p.Epsilon = 0.1 }, "raise the ridge above"},
		{func(p *ObjectiveParams) { p.ClipRatings = 2 }, "clip-ratings is 2"},
		{func(p *ObjectiveParams) { p.Unit = dp.User }, "clip-ratings is 0"},
	} {
		p := objectiveParams(dp.Rating, 3, 1)
		c.change(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%v; want %s", err, c.reason)
		}
	}
	if p := objectiveParams(dp.User, 3, 1); p.RidgeFor(1) <= 0 {
		t.Error("no ridge is enough")
	} else if p.Ridge = p.RidgeFor(0.25); math.Abs(p.Curvature()-2) > 1e-9 {
		t.Errorf("a quarter of an epsilon of 8 is %v", p.Curvature())
	}
}
