package encoder

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/fedsim/fedsim/protocol"
)

func fit(t testing.TB, e *Encoder, o Objective, round uint64) {
	t.Helper()
	if err := e.Fit(o, round, Slice{0, 1}, serial); err != nil {
		t.Fatal(err)
	}
}

// A linear encoder of ids alone is the item solve of matrix factorization: v_j solves
// A_j v = b_j. Gradient descent at 1/L, where L is the largest eigenvalue of A_j/m,
// contracts by 1 - μ/L a step. Rates fall, to 0.55 of 1/L on average: steps are twice as many as bring that to 1e-14.
func TestFitIDs(t *testing.T) {
	const items, rank = 20, 3
	o := newQuadratic(items, rank)
	least, most := math.Inf(1), 0.0
	for _, a := range o.a {
		var eig mat.EigenSym
		eig.Factorize(a, false)
		values := eig.Values(nil)
		least, most = min(least, values[0]), max(most, values[rank-1])
	}
	s := plain()
	s.Rate, s.Steps = items/most, 2*int(math.Log(1e-14)/math.Log1p(-least/most))
	e, err := New(nil, items, rank, s, 3)
	if err != nil {
		t.Fatal(err)
	}
	fit(t, e, o, 1)
	v := make([]float64, items*rank)
	e.Embed(v, serial)
	for j := range items {
		var want mat.VecDense
		if err := want.SolveVec(o.a[j], o.b[j]); err != nil {
			t.Fatal(err)
		}
		if d := furthest(v[j*rank:(j+1)*rank], want.RawVector().Data); d > 1e-10 {
			t.Errorf("item %d after %d steps is off its solution by %v", j, s.Steps, d)
		}
	}
}

// A linear encoder with a ridge has one least squares solution,
//
//	(1/m Σ_j x_j x_jᵀ ⊗ A_j + ρI) vec θ = 1/m Σ_j x_j ⊗ b_j,
//
// solved here by Cholesky. SGD and Adam both get there: SGD by the contraction at
// 1/L; Adam, which has no such bound, with its rate falling to a tenth, close by.
func TestFitLeastSquares(t *testing.T) {
	const items, rank, ridge = 60, 2, 0.05
	o := newQuadratic(items, rank)
	s := plain()
	s.Ridge = ridge
	e, f := variant{"", true, s}.build(t, items, rank)
	r, n := newReference(e, f), len(e.theta)
	normal, right := mat.NewSymDense(n, nil), mat.NewVecDense(n, nil)
	for j := range items {
		x := mat.NewDense(rank, n, nil) // v_j = x θ
		column := 0
		for _, bag := range r.x {
			for _, weight := range bag.RawRowView(j) {
				for c := range rank {
					x.Set(c, column+c, weight)
				}
				column += rank
			}
		}
		var ax, xax, xb mat.Dense
		ax.Mul(o.a[j], x)
		xax.Mul(x.T(), &ax)
		xb.Mul(x.T(), o.b[j])
		for p := range n {
			right.SetVec(p, right.AtVec(p)+xb.At(p, 0)/items)
			for q := p; q < n; q++ {
				normal.SetSym(p, q, normal.At(p, q)+xax.At(p, q)/items)
			}
		}
	}
	for p := range n {
		normal.SetSym(p, p, normal.At(p, p)+ridge)
	}
	var chol mat.Cholesky
	if !chol.Factorize(normal) {
		t.Fatal("the normal equations are not positive definite")
	}
	var want mat.VecDense
	if err := chol.SolveVecTo(&want, right); err != nil {
		t.Fatal(err)
	}
	var eig mat.EigenSym
	eig.Factorize(normal, false)
	least, most := eig.Values(nil)[0], eig.Values(nil)[n-1]
	for _, c := range []struct {
		Optimiser
		rate      float64
		steps     int
		tolerance float64
	}{
		{SGD, 1 / most, 2 * int(math.Log(1e-14)/math.Log1p(-least/most)), 1e-11},
		{Adam, 0.01, 3000, 1e-6},
	} {
		s.Optimiser, s.Rate, s.Steps = c.Optimiser, c.rate, c.steps
		e, _ := variant{"", true, s}.build(t, items, rank)
		if d := furthest(e.theta, want.RawVector().Data); d < 0.1 {
			t.Errorf("the start is at %v of the solution already", d)
		}
		fit(t, e, o, 1)
		if d := furthest(e.theta, want.RawVector().Data); d > c.tolerance {
			t.Errorf("%s: after %d steps θ is off the solution by %v", c.Optimiser, c.steps, d)
		}
	}
}

// Six steps on v² - 3v from ±1/2 at a rate of 0.3, by Kingma & Ba's algorithm 1 as
// Python computes it.
func TestAdamSteps(t *testing.T) {
	golden := map[float64][]float64{
		0.5: {0.7999999985000001, 1.0927161470226459, 1.3680383503133058, 1.6101931235340108, 1.8002138289130762, 1.924393567952033},
		-0.5: {-0.2000000007499998, 0.0977546713950157, 0.39108852016934587, 0.677149147153858, 0.9522870854151952,
			1.2120118049541744},
	}
	o := quadratic{a: []*mat.SymDense{mat.NewSymDense(1, []float64{2})}, b: []*mat.VecDense{mat.NewVecDense(1, []float64{3})}}
	s := plain()
	s.Optimiser, s.Rate, s.StartNorm = Adam, 0.3, 0.5
	e, err := New(nil, 1, 1, s, 1)
	if err != nil {
		t.Fatal(err)
	}
	if want := golden[e.theta[0]]; want == nil {
		t.Fatalf("the start is %v", e.theta[0])
	}
	for i, want := range golden[e.theta[0]] {
		fit(t, e, o, uint64(i)) // a step each: the moments outlive the call
		if math.Abs(e.theta[0]-want) > 1e-14 {
			t.Errorf("step %d: %v, want %v", i+1, e.theta[0], want)
		}
	}
}

// The rates of five steps from 0.4, and of a single step, were computed in Python.
func TestDecay(t *testing.T) {
	s := Settings{Rate: 0.4, Steps: 5}
	for step, rate := range []float64{0.4, 0.3472792206135786, 0.22, 0.09272077938642147, 0.04} {
		if got := s.rate(step); math.Abs(got-rate) > 1e-15 {
			t.Errorf("step %d: %v, want %v", step, got, rate)
		}
	}
	if s.Steps = 1; s.rate(0) != 0.4 {
		t.Errorf("a single step: %v", s.rate(0))
	}
}

// A fit is Adam as the paper writes it, vector by vector, on the reference's gradient:
// of all parameters, with decay, ridge and batches.
func TestFitPlainAdam(t *testing.T) {
	const items, rank, steps = 50, 3, 8
	o := newQuadratic(items, rank)
	for _, c := range variants() {
		c.settings.Optimiser, c.settings.Steps = Adam, steps
		c.settings.Batch *= 5
		e, _ := c.build(t, items, rank)
		twin, f := c.build(t, items, rank)
		mean, sq := make([]float64, len(twin.theta)), make([]float64, len(twin.theta))
		for step := range steps {
			twin.deal(3, step, step == 0)
			g, _ := newReference(twin, f).gradient(o, twin.pass.batch)
			rate := 0.1 * (0.1 + 0.9*(1+math.Cos(math.Pi*float64(step)/(steps-1)))/2)
			for i := range g {
				mean[i] = 0.9*mean[i] + 0.1*g[i]
				sq[i] = 0.999*sq[i] + 0.001*g[i]*g[i]
				m := mean[i] / (1 - math.Pow(0.9, float64(step+1)))
				v := sq[i] / (1 - math.Pow(0.999, float64(step+1)))
				twin.theta[i] -= rate * m / (math.Sqrt(v) + 1e-8)
			}
		}
		fit(t, e, o, 3)
		if d := furthest(e.theta, twin.theta); d > 1e-9 {
			t.Errorf("%s: θ is off by %v", c.name, d)
		}
	}
}

// visits counts how often each item is asked for.
type visits struct {
	quadratic
	n []atomic.Int32
}

func (v *visits) Gradient(j int, x, g []float64) float64 {
	v.n[j].Add(1)
	return v.quadratic.Gradient(j, x, g)
}

// Two epochs visit every item twice; batches are as large as asked for at most and
// differ by one at most; epochs, rounds and seeds have orders of their own.
func TestBatches(t *testing.T) {
	for batch, sizes := range map[int][]int{0: {10}, 1: slices.Repeat([]int{1}, 10), 3: {2, 3, 2, 3}, 4: {3, 3, 4}, 9: {5, 5}, 10: {10}, 11: {10}} {
		s := plain()
		s.Batch, s.Steps = batch, 2*len(sizes)
		e, err := New(nil, 10, 2, s, 5)
		if err != nil {
			t.Fatal(err)
		}
		o := &visits{newQuadratic(10, 2), make([]atomic.Int32, 10)}
		fit(t, e, o, 1)
		for j := range o.n {
			if n := o.n[j].Load(); n != 2 {
				t.Errorf("batches of %d: item %d was visited %d times in two epochs", batch, j, n)
			}
		}
		order := func(e *Encoder, round uint64, epoch int) (all []int32) {
			for k, size := range sizes {
				e.deal(round, epoch*len(sizes)+k, k == 0)
				if all = append(all, e.pass.batch...); len(e.pass.batch) != size {
					t.Errorf("batches of %d: batch %d has %d items, want %d", batch, k, len(e.pass.batch), size)
				}
			}
			return all
		}
		other, err := New(nil, 10, 2, s, 6)
		if err != nil {
			t.Fatal(err)
		}
		first := order(e, 1, 0)
		if !slices.Equal(first, order(e, 1, 0)) {
			t.Errorf("batches of %d: the same epoch comes in two orders", batch)
		}
		for what, o := range map[string][]int32{"epoch": order(e, 1, 1), "round": order(e, 2, 0), "seed": order(other, 1, 0)} {
			if slices.Equal(first, o) != (len(sizes) == 1) {
				t.Errorf("batches of %d: another %s: %v after %v", batch, what, o, first)
			}
		}
	}
}

// At any number of workers, the same to the bit.
func TestFitWorkers(t *testing.T) {
	o := newQuadratic(1500, 3)
	for _, c := range variants() {
		c.settings.Optimiser, c.settings.Steps, c.settings.Batch = Adam, 5, 300*min(1, c.settings.Batch)
		var want []byte
		for _, workers := range []protocol.Workers{1, 2, 8} {
			e, _ := c.build(t, 1500, 3)
			if err := e.Fit(o, 1, Slice{0, 1}, workers); err != nil {
				t.Fatal(err)
			}
			v := make([]float64, 1500*3)
			e.Embed(v, workers)
			got := fmt.Appendf(e.Save(), "%x", v)
			if want == nil {
				want = got
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %d workers do not give what one gives", c.name, workers)
			}
		}
	}
}

// The parts of a round together are the round, wherever it is cut. The next round continues.
func TestParts(t *testing.T) {
	o := newQuadratic(12, 3)
	for _, c := range variants() {
		c.settings.Optimiser, c.settings.Steps = Adam, 7
		e, _ := c.build(t, 12, 3)
		fit(t, e, o, 1)
		whole := e.Save()
		for _, of := range []int{2, 3, 7} {
			parts, _ := c.build(t, 12, 3)
			for i := range of {
				if err := parts.Fit(o, 1, Slice{i, of}, serial); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(parts.Save(), whole) {
				t.Errorf("%s: %d parts are not the whole", c.name, of)
			}
		}
		if fit(t, e, o, 1); slices.Equal(e.Save(), whole) {
			t.Errorf("%s: the round again changes nothing", c.name)
		}
	}
	e, _ := variants()[0].build(t, 12, 3)
	for _, part := range []Slice{{0, 0}, {-1, 1}, {1, 1}, {0, 2}} {
		if err := e.Fit(o, 1, part, serial); err == nil || !strings.Contains(err.Error(), "parts are counted from 0") {
			t.Errorf("part %+v of one step: %v", part, err)
		}
	}
}

// constant is an objective of one loss and gradient everywhere.
type constant struct{ loss, slope float64 }

func (c constant) Gradient(_ int, _, g []float64) float64 {
	for i := range g {
		g[i] = c.slope
	}
	return c.loss
}

// A number that is not finite is reported, with the settings to lower, and the encoder is as new.
func TestFitDiverges(t *testing.T) {
	q := newQuadratic(12, 3)
	for name, c := range map[string]struct {
		o   Objective
		set func(*Settings)
	}{
		"rate":              {q, func(s *Settings) { s.Rate, s.Steps = 1e6, 500 }},
		"loss":              {constant{math.NaN(), 0}, func(*Settings) {}},
		"loss at the start": {constant{math.Inf(-1), 0}, func(*Settings) {}},
		"last step":         {constant{0, math.MaxFloat64}, func(s *Settings) { s.Rate = 100 }},
		// The mean is finite, its square is not, and θ would never move again.
		"square": {constant{0, 1e200}, func(s *Settings) { s.Optimiser = Adam }},
		"mean":   {constant{0, math.Inf(1)}, func(s *Settings) { s.Optimiser = Adam }},
	} {
		s := plain()
		c.set(&s)
		fresh, _ := variant{"", true, s}.build(t, 12, 3)
		e, _ := variant{"", true, s}.build(t, 12, 3)
		err := e.Fit(c.o, 4, Slice{0, 1}, serial)
		if !errors.Is(err, ErrDiverged) || !strings.Contains(err.Error(), "in round 4") ||
			!strings.Contains(err.Error(), fmt.Sprintf("lower the rate, which is %v", s.Rate)) {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Equal(e.Save(), fresh.Save()) {
			t.Errorf("%s: the encoder is not as new", name)
		}
	}
}

// A step allocates nothing up to the rank at which gonum's products start goroutines:
// ten more cost what two cost.
func TestStepAllocatesNothing(t *testing.T) {
	for _, rank := range []int{3, 64} {
		for _, c := range variants() {
			if c.settings.Batch != 0 {
				continue // an epoch has its order to draw
			}
			c.settings.Dim = 0
			allocations := func(steps int) float64 {
				c.settings.Steps = steps
				e, _ := c.build(t, 70, rank)
				return testing.AllocsPerRun(2, func() { fit(t, e, still{}, 1) })
			}
			if few, many := allocations(2), allocations(12); many > few {
				t.Errorf("%s, rank %d: 2 steps allocate %v times, 12 steps %v times", c.name, rank, few, many)
			}
		}
	}
}

// still is ½‖v - 1‖², without allocation.
type still struct{}

func (still) Gradient(_ int, v, g []float64) float64 {
	copy(g, v)
	floats.AddConst(-1, g)
	return floats.Dot(g, g) / 2
}
