package fedssp

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/posterior"
	"github.com/fedsim/fedsim/internal/fedssp/serving"
	"github.com/fedsim/fedsim/internal/fedssp/solver"
	"github.com/fedsim/fedsim/internal/fedssp/user"
	"github.com/fedsim/fedsim/protocol"
)

// By hand: three items of weights 1, e and e², so that logarithms stand at -√1.5, 0 and √1.5
// deviations. "b" is of one item only and gives no column; the norm of the third item's weights 3
// and 4 is 5.
func TestDesign(t *testing.T) {
	p := plain(3, 1)
	p.Features = &dataset.ItemFeatures{Items: 3, Categories: []dataset.Category{
		{Name: "one", Values: []string{"a", "b"}, Start: []int32{0, 1, 2, 3}, Value: []int32{0, 1, 0}, Weight: []float64{2, 1, 1}},
		{Name: "two", Values: []string{"c", "d"}, Start: []int32{0, 2, 2, 4}, Value: []int32{0, 1, 0, 1}, Weight: []float64{1, 1, 3, 4}},
	}}
	d := serving.Design(p.Features, []float64{1, math.E, math.E * math.E}, 0.5)
	got := mat.NewDense(3, len(d.Group), nil)
	for j := range 3 {
		for k := d.Start[j]; k < d.Start[j+1]; k++ {
			got.Set(j, d.Column[k], d.Value[k])
		}
	}
	far, half := math.Sqrt(1.5), math.Sqrt(0.5)
	want := mat.NewDense(3, 5, []float64{
		1, -far, 1, half, half,
		1, 0, 0, 0, 0,
		1, far, 1, .6, .8,
	})
	if !mat.EqualApprox(got, want, 1e-12) {
		t.Errorf("design\n%v\nwant\n%v", mat.Formatted(got), mat.Formatted(want))
	}
	for c, g := range []int{0, 1, 2, 3, 3} {
		if d.Group[c] != g {
			t.Errorf("column %d is in group %d, want %d", c, d.Group[c], g)
		}
	}
}

// A vocabulary beyond the limit keeps the values that most items have.
func TestDesignKeepsTheCommonest(t *testing.T) {
	const n = 3 * (mostColumns + 10)
	p := plain(n, 1)
	cat := dataset.Category{Name: "word", Start: []int32{0}}
	for v := range mostColumns + 10 {
		cat.Values = append(cat.Values, strings.Repeat("x", v+1))
	}
	add := func(values ...int32) {
		for _, v := range values {
			cat.Value, cat.Weight = append(cat.Value, v), append(cat.Weight, 1)
		}
		cat.Start = append(cat.Start, int32(len(cat.Value)))
	}
	for j := range n { // value v stands with two items, the last ten with three
		v := int32(j % (mostColumns + 10))
		if j < 2*(mostColumns+10) || v >= mostColumns {
			add(v)
		} else {
			add()
		}
	}
	p.Features = &dataset.ItemFeatures{Items: n, Categories: []dataset.Category{cat}}
	columns, _ := kernel.Commonest(p.Features, mostColumns)
	kept := 0
	for v, c := range columns[0] {
		if c >= 0 {
			kept++
		} else if v >= mostColumns {
			t.Errorf("value %d of three items has no column, others of two have", v)
		}
	}
	if kept != mostColumns {
		t.Errorf("%d columns, want %d", kept, mostColumns)
	}
}

// A step of the pooled solver is, in the eigenbasis of the mean Gramian, one posterior a
// coordinate: put together here from what the round released with gonum's own decomposition, for
// two steps with memory.
func TestPooledStep(t *testing.T) {
	const n, m, d, rho, deviation = 40, 9, 2, 0.5, 0.3
	p := kinds(m, d)["pooled"]
	users, _ := people(&p, n, 0.5, 5)
	s := newStrategy(t, p, n, 0) // noise is set below: what it is made of is not the point here
	for i := range s.Params.Steps {
		for k := range s.Params.Steps[i].Releases {
			s.Params.Steps[i].Releases[k].Noise = protocol.Noise{Kind: protocol.Split, Variance: dense.Sqr(deviation * s.Params.Steps[i].Releases[k].Scale)}
		}
	}
	round(t, s, users, nil)
	round(t, s, users, nil)
	var gram *mat.SymDense
	var moments *mat.Dense
	seen, variance := 0.0, 0.0
	for range 2 {
		plan, sums := summed(t, s, users)
		g, b := mat.NewSymDense(d, nil), mat.NewDense(m, d, sums.Values[1])
		at := 0
		for i := range d {
			for j := range i + 1 {
				x := sums.Values[0][at] / n
				if i != j {
					x /= math.Sqrt2
				}
				g.SetSym(i, j, x)
				at++
			}
		}
		if gram == nil {
			gram, moments = mat.NewSymDense(d, nil), mat.NewDense(m, d, nil)
		}
		gram.ScaleSym(rho, gram)
		gram.AddSym(gram, g)
		moments.Scale(rho, moments)
		moments.Add(moments, b)
		seen, variance = 1+rho*seen, deviation*deviation+rho*rho*variance
		if err := s.Absorb(plan, sums, serial{}); err != nil {
			t.Fatal(err)
		}
		var eig mat.EigenSym
		if !eig.Factorize(gram, true) {
			t.Fatal("no decomposition")
		}
		var q, turned, v mat.Dense
		eig.VectorsTo(&q)
		turned.Mul(moments, &q)
		total := 0.0
		for _, c := range s.Weight {
			total += n * c
		}
		typical := n / total
		v.CloneFrom(&turned)
		for k, a := range eig.Values(nil) {
			x := posterior.Measurements{}
			for j := range m {
				h := a / seen * n * s.Weight[j]
				x.Value = append(x.Value, turned.At(j, k)/seen)
				x.Gain = append(x.Gain, h)
				// A scale of 1 to 5: residuals of 4/4.5 stars.
				x.Variance = append(x.Variance, variance/seen/seen+typical*(4/4.5)*(4/4.5)*h)
			}
			design := serving.Design(s.Params.Features, dense.Scaled(s.Weight, n), typical)
			got, _, _, err := posterior.EstimateEffects(design, x, posterior.Prior{Own: .4, Groups: []float64{.3, .3, .3, .3}}, 3)
			if err != nil {
				t.Fatal(err)
			}
			for j, value := range got {
				v.Set(j, k, value)
			}
		}
		turned.Mul(&v, q.T())
		near(t, "V", s.Current().Items, turned.RawMatrix().Data, 1e-9+rounding)
	}
}

// summed is a plan and what the users' vectors for it add up to.
func summed(t *testing.T, s *serving.Strategy, users []*user.User) (*protocol.Plan, protocol.Sums) {
	t.Helper()
	plan, done, err := s.Next()
	if err != nil || done {
		t.Fatal(done, err)
	}
	sums := protocol.Sums{Survivors: len(users)}
	for k, r := range plan.Releases {
		sums.Values = append(sums.Values, make([]float64, r.Len))
		for i, u := range users {
			for c, x := range spread(contribute(t, u, plan, i)[k], r.Len) {
				sums.Values[k][c] += x
			}
		}
	}
	return plan, sums
}

// Biases are posterior means of what was released, in the noise of both sums. Weights are their own
// posterior means (TestWeightsAreShrunk), and where noise leaves nothing of their law, at least the
// noise.
func TestPooledBiases(t *testing.T) {
	const n, m = 40, 9
	for _, noise := range []float64{0.04, 40_000} {
		p := kinds(m, 2)["pooled"]
		users, _ := people(&p, n, 0.5, 5)
		s := newStrategy(t, p, n, noise)
		round(t, s, users, nil)
		plan, sums := summed(t, s, users)
		if err := s.Absorb(plan, sums, serial{}); err != nil {
			t.Fatal(err)
		}
		total := 0.0
		for _, c := range sums.Values[1] {
			total += c
		}
		own, counts := serving.Deviation(plan.Releases[0]), serving.Deviation(plan.Releases[1])
		x := posterior.Measurements{Value: sums.Values[0], Gain: sums.Values[1], Variance: make([]float64, m)}
		k := serving.Shrink(sums.Values[1], func(int) float64 { return counts }, counts == 0, n)
		weights, logs := k.Mean, k.Middle
		if counts*m > 10*max(total, n) {
			weights, logs = make([]float64, m), make([]float64, m)
			for j, c := range x.Gain {
				weights[j], logs[j], k.Variance[j] = max(c, counts), max(c, counts), counts*counts
			}
		} else {
			x.Gain = k.Mean
		}
		if noisy := &logs[0] != &k.Middle[0]; noisy != (noise > 1) {
			t.Fatalf("noise %v: weights of deviation %v and total %v", noise, counts, total)
		}
		for j, c := range weights {
			x.Variance[j] = own*own + k.Variance[j]*.4*.4 + c*n/max(total, n)*(4/4.5)*(4/4.5)
		}
		got, _, _, err := posterior.EstimateEffects(serving.Design(s.Params.Features, logs, n/max(total, n)), x, posterior.Prior{Own: .4, Groups: []float64{.3, .3, .3, .3}}, 3)
		if err != nil {
			t.Fatal(err)
		}
		near(t, fmt.Sprintf("biases in noise %v", noise), s.Current().Bias, dense.ClampAll(got, p.ClipBias), 1e-9+rounding)
	}
}

// A state with earlier statistics that do not fit is refused.
func TestPooledRestoreRefuses(t *testing.T) {
	p := kinds(6, 2)["pooled"]
	users, _ := people(&p, 10, 0.5, 5)
	s := newStrategy(t, p, 10, 0.01)
	for range 3 {
		round(t, s, users, nil)
	}
	state, err := s.Save()
	if err != nil {
		t.Fatal(err)
	}
	fresh := newStrategy(t, p, 10, 0.01)
	cut := changedState(t, state, "solving", func(b []byte) []byte { return b[:len(b)-1] })
	if err = fresh.Restore(cut); err == nil || !strings.Contains(err.Error(), "bytes of earlier statistics") {
		t.Errorf("cut off: %v", err)
	}
	nan := changedState(t, state, "solving", func(b []byte) []byte { return append(b[:len(b)-8], 0, 0, 0, 0, 0, 0, 0xf8, 0x7f) })
	if err = fresh.Restore(nan); err == nil || !strings.Contains(err.Error(), "hold NaN") {
		t.Errorf("NaN: %v", err)
	}
	if fresh.Round != 0 || fresh.Solving.(*solver.Kept).Weight != 0 {
		t.Error("a refused state changed the strategy")
	}
	if err = fresh.Restore(state); err != nil || fresh.Solving.(*solver.Kept).Weight != 1 {
		t.Errorf("the state itself: %v, weight %v", err, fresh.Solving.(*solver.Kept).Weight)
	}
}

// Weights below the floor count as the floor, so that an item without ratings, of weight zero
// without noise, leaves the others their places. By hand: logarithms 0, 0, 1 and 3 of weights at
// least 1, of mean 1 and deviation √1.5.
func TestLogarithmsOfNothing(t *testing.T) {
	got := serving.StandardLogs([]float64{0, 1, math.E, math.E * math.E * math.E}, 1)
	far := 1 / math.Sqrt(1.5)
	near(t, "logarithms", got, []float64{-far, -far, 0, 2 * far}, 1e-12)
}
