package fedssp

import (
	"math"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/serving"
	"github.com/fedsim/fedsim/internal/fedssp/solver"
	"github.com/fedsim/fedsim/internal/fedssp/stage"
	"github.com/fedsim/fedsim/internal/fedssp/user"
	"github.com/fedsim/fedsim/lab/ssp/steps"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// By hand: on a scale of 1 to 5 around 3 a user rates two items 5, so that residuals are 2 and its
// own mean is 4/(2+2) = 1. Weights are √½, and the user adds √½·1 to each item's bias, a vector of
// norm 1. With NormBias of ½, weights and additions are half as large. A bound of 1 or more
// changes nothing.
func TestNormOfBiases(t *testing.T) {
	for bound, want := range map[float64]float64{0: 1, 0.5: 0.5, 1.25: 1} {
		p := full(2, 1)
		p.MeanCap, p.Exponent, p.NormBias = 0, 0, bound
		u := NewUser(&p, model.Ratings{Items: []int32{0, 1}, Values: []float32{5, 5}})
		s := newStrategy(t, p, 1, 0)
		plan, sums := summed(t, s, []*user.User{u})
		if plan.Phase != kernel.BiasStage {
			t.Fatal(plan.Phase)
		}
		each := want * math.Sqrt(0.5)
		near(t, "biases", sums.Values[0], []float64{each, each}, 1e-12)
		near(t, "weights", sums.Values[1], []float64{each, each}, 1e-12)
		declared := map[float64]float64{0: 1.5, 0.5: 0.5, 1.25: 1.25}[bound]
		if plan.Releases[0].L2 != declared {
			t.Errorf("with a bound of %v the release declares %v, want %v", bound, plan.Releases[0].L2, declared)
		}
	}
}

// A user's additions to the sums of a step are its additions without NormItems, times one factor
// for all of them. Moments or gradients then have the declared norm. The oracle is the run without
// the bound.
func TestNormOfItems(t *testing.T) {
	for name, p := range kinds(12, 3) {
		if p.OnlyPopularity() || p.Solver == solver.Variational { // has no such bound
			continue
		}
		free := p
		_, rows := people(&p, 40, 0.5, 8)
		const bound = 0.05
		p.NormItems = bound
		held, before := complete(t, p, 0), complete(t, free, 0)
		broadcast := ordinary(t, free)
		scaledDown := 0
		for i, row := range rows {
			for step := range held {
				if held[step].Phase != kernel.Statistics {
					continue
				}
				plan := func(s kernel.Step) *protocol.Plan {
					return &protocol.Plan{Round: uint64(step + 1), Phase: s.Phase, Cohort: protocol.Cohort{Clients: 40}, Releases: s.Releases, Broadcast: broadcast}
				}
				one, other := NewUser(&p, row), NewUser(&free, row)
				if p.Solver == steps.Joint { // it begins at zero, and says nothing there
					contribute(t, one, plan(held[step]), i) // draws the sample, if there is one
					contribute(t, other, plan(before[step]), i)
					begin(t, one, slices.Repeat([]float64{1}, p.Width()), 0)
					begin(t, other, slices.Repeat([]float64{1}, p.Width()), 0)
				}
				got, want := contribute(t, one, plan(held[step]), i), contribute(t, other, plan(before[step]), i)
				last := len(got) - 1
				long := dense.Norm(spread(want[last], before[step].Releases[last].Len))
				by := 1.
				if long > bound {
					by = bound / long
					scaledDown++
				}
				for k, r := range held[step].Releases {
					times := by
					if r.Name == kernel.WeightCounts {
						times = 1
					}
					near(t, name+", "+r.Name, spread(got[k], r.Len), dense.Scaled(spread(want[k], r.Len), times), 1e-9)
				}
			}
		}
		if scaledDown == 0 {
			t.Errorf("%s: nobody's statistics were longer than %v", name, bound)
		}
	}
}

// ordinary is an ordinary model of the settings: what they start with.
func ordinary(t *testing.T, p kernel.Params) []byte {
	t.Helper()
	m, err := p.Start()
	if err != nil {
		t.Fatal(err)
	}
	if p.WithCounts() {
		m.Counts = make([]float64, p.Items)
		for j := range m.Counts {
			m.Counts[j] = float64(j + 1)
		}
	}
	if p.Bias {
		m.Bias = make([]float64, p.Items)
	}
	if descends(&p) {
		e, err := p.NewEncoder()
		if err != nil {
			t.Fatal(err)
		}
		m.Theta = e.Theta()
	}
	return m.Encode()
}

// By hand: with a growth of 2 three sums have 1, 2 and 4 of 7 parts of what the statistics have.
func TestGrowth(t *testing.T) {
	p := plain(5, 2)
	p.Rounds, p.Growth = 3, 2
	steps, err := stage.Steps(p)
	if err != nil {
		t.Fatal(err)
	}
	for k, want := range []float64{1. / 7, 2. / 7, 4. / 7} {
		shares := steps[k].Shares
		var sum float64
		for _, x := range shares[len(shares)-2:] { // second and first order; weights come before in the first
			sum += x
		}
		near(t, "share", []float64{sum}, []float64{want * 0.8}, 1e-12)
	}
}

// By hand: a step with four times the variance of the last step weighs a quarter. With decay ½ the
// mean of 8 and then 2 is (½·¼·8 + 1·2)/(½·¼ + 1). Its noise has the variance (1 + (½·¼)²·4)/(9/8)²
// in units of the last.
func TestPrecision(t *testing.T) {
	p := kinds(1, 1)["pooled"]
	p.Features, p.Rounds = nil, 2
	s := newStrategy(t, p, 10, 1)
	at := func(x float64) *serving.Equations { return &serving.Equations{B: []float64{x}, Gramian: []float64{x}} }
	s.Solving.(*solver.Kept).Remember(s, at(8), 2)
	y := at(2)
	variance := s.Solving.(*solver.Kept).Remember(s, y, 1)
	near(t, "mean", append(y.B, y.Gramian...), []float64{8. / 3, 8. / 3}, 1e-12)
	near(t, "variance", []float64{variance}, []float64{(1 + 4./64) / (81. / 64)}, 1e-12)
}

// By hand: on a scale of 1 to 5 a model of mean 3 gives both items a bias of 1, and a user rates
// them 5. The residuals are 1 each, and the user's own bias is 2/(2+2). Half of a star is left
// after the bias. Weights are √½, so the norm is ½: within the bound of 0.85·1.5. With NormBias of
// ¼, weights are a quarter as large, as in the first sum, whose norm would be 1. The norm is a
// quarter too, an eighth: within 0.85/4.
func TestRefinedBiases(t *testing.T) {
	for bound, want := range map[float64]float64{0: 0.5, 0.25: 0.125} {
		p := full(2, 1)
		p.MeanCap, p.Exponent, p.NormBias, p.BiasRounds, p.UserBiasRidge = 0, 0, bound, 2, 2
		u := NewUser(&p, model.Ratings{Items: []int32{0, 1}, Values: []float32{5, 5}})
		s := newStrategy(t, p, 1, 0)
		summed(t, s, []*user.User{u})
		s.Current().Bias = []float64{1, 1}
		plan, sums := summed(t, s, []*user.User{u})
		if plan.Phase != kernel.Refine {
			t.Fatal(plan.Phase)
		}
		each := want * math.Sqrt(0.5)
		near(t, "biases", sums.Values[0], []float64{each, each}, 1e-12)
		if declared := 0.85 * p.BiasBound(); plan.Releases[0].L2 != declared {
			t.Errorf("with a bound of %v the release declares %v, want %v", bound, plan.Releases[0].L2, declared)
		}
	}
}
