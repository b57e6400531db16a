package fedssp

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"gonum.org/v1/gonum/diff/fd"
	"gonum.org/v1/gonum/mat"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/fedssp/encoder"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/serving"
	"github.com/fedsim/fedsim/internal/fedssp/solver"
	"github.com/fedsim/fedsim/internal/fedssp/user"
	"github.com/fedsim/fedsim/lab/ssp/steps"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// loss is ℓ in plain formulas.
func loss(p *kernel.Params, s, y float64) float64 {
	own := steps.Of(p)
	switch r := math.Abs(s - y); {
	case own.Loss == steps.Logistic:
		q := 1 / (1 + math.Exp(-s))
		return -y*math.Log(q) - (1-y)*math.Log(1-q)
	case own.Loss == steps.Huber && r > own.LossWidth:
		return own.LossWidth*r - own.LossWidth*own.LossWidth/2
	default:
		return r * r / 2
	}
}

// ℓ, ℓ′ and ℓ″ against the plain formula and its finite differences, away from Huber's corners.
func TestDerivatives(t *testing.T) {
	for _, l := range []steps.Loss{steps.Squared, steps.Huber, steps.Logistic} {
		p := kinds(5, 2)[fmt.Sprintf("convex %s one", l)]
		own := steps.Of(&p)
		for _, s := range []float64{-3, -0.4, 0.1, 0.5, 2} {
			const y = 0.25
			value, first, second := own.Derivatives(s, y)
			f := func(x float64) float64 { return loss(&p, x, y) }
			df := func(x float64) float64 { _, d, _ := own.Derivatives(x, y); return d }
			near(t, fmt.Sprint(l, " at ", s), []float64{value, first, second},
				[]float64{f(s), fd.Derivative(f, s, &fd.Settings{Formula: fd.Central}), fd.Derivative(df, s, &fd.Settings{Formula: fd.Central})}, 1e-6)
		}
		// Far out nothing overflows.
		for _, s := range []float64{-1e4, 1e4, 1e300, -1e300} {
			_, first, second := own.Derivatives(s, 1)
			if math.IsNaN(first) || math.IsNaN(second) || l != steps.Squared && math.Abs(first) > steps.SlopeBound(&p) || second > own.CurvatureBound() {
				t.Errorf("%s at %g: slope %v, curvature %v", l, s, first, second)
			}
		}
	}
}

// On the client a convex loss is minimised: finite differences of the objective, in plain formulas,
// vanish at what the fit returns.
func TestUserMinimisesTheLoss(t *testing.T) {
	for _, l := range []steps.Loss{steps.Squared, steps.Huber, steps.Logistic} {
		p := kinds(20, 3)[fmt.Sprintf("convex %s one", l)]
		_, rows := people(&p, 6, 0.6, 9)
		m := start(p)
		m.Mean, m.Bias = 3.2, make([]float64, 20)
		rng := rand.New(rand.NewPCG(1, 9))
		for j := range m.Bias {
			m.Bias[j] = 0.4 * rng.NormFloat64()
		}
		for i, r := range rows {
			objective := func(x []float64) float64 {
				u, own := x[:3], x[3]
				sum := p.UserRidge/2*(u[0]*u[0]+u[1]*u[1]+u[2]*u[2]) + p.UserBiasRidge/2*own*own
				for k, j := range r.Items {
					s, y := m.Mean+m.Bias[j], float64(r.Values[k])
					if l == steps.Logistic {
						q := (s - 1) / 4
						s, y = math.Log(q/(1-q)), (y-1)/4
					}
					s += own
					for a := range u {
						s += u[a] * m.Items[int(j)*3+a]
					}
					sum += loss(&p, s, y)
				}
				return sum
			}
			u, own := fit(t, &p, m, r)
			slope := fd.Gradient(nil, objective, append(u, own), &fd.Settings{Formula: fd.Central})
			for a, g := range slope {
				if math.Abs(g) > 1e-5 {
					t.Fatalf("%s, user %d: slope %v in direction %d at the minimum", l, i, g, a)
				}
			}
		}
	}
}

// With the squared loss the Newton step from anywhere is the ALS step, as long as no residual is
// clipped: both minimise the same quadratic.
func TestConvexSquaredIsALS(t *testing.T) {
	for _, form := range []kernel.GramianForm{kernel.PerItem, kernel.One} {
		a := full(15, 2)
		a.Gramian, a.ClipRating, a.ClipUser = form, 100, 100
		if form == kernel.One {
			a.Rounds = 1 // its Gramian is not the gradient's, and the forms part after a step from zero
			a.StartSpread = 1e-9
		}
		b := a
		withLoss(&b, steps.Convex, steps.Settings{Loss: steps.Squared})
		users, rows := people(&a, 30, 0.4, 5)
		var convex []*user.User
		for _, r := range rows {
			convex = append(convex, NewUser(&b, r))
		}
		x, y := newStrategy(t, a, 30, 0), newStrategy(t, b, 30, 0)
		train(t, x, users)
		train(t, y, convex)
		near(t, string(form), y.Current().Items, x.Current().Items, 1e-9)
	}
}

// Users' contributions to the convex solver are compared with plain loops over their ratings; the
// derivatives are tested above.
func TestHessiansAndGradients(t *testing.T) {
	for _, l := range []steps.Loss{steps.Squared, steps.Huber, steps.Logistic} {
		p := kinds(10, 3)[fmt.Sprintf("convex %s per-item", l)]
		users, rows := people(&p, 8, 0.5, 13)
		s := newStrategy(t, p, 8, 0)
		round(t, s, users, nil)
		round(t, s, users, nil)
		m := s.Current()
		plan, _, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		for i, one := range users {
			v := contribute(t, one, plan, i)
			u, own := fit(t, &p, m, rows[i])
			if norm := math.Sqrt(u[0]*u[0] + u[1]*u[1] + u[2]*u[2]); norm > p.ClipUser {
				for a := range u {
					u[a] *= p.ClipUser / norm
				}
			}
			w := naive{p: &p, count: m.Counts}.weights(rows[i])
			hessians, gradients := make([]float64, 10*6), make([]float64, 10*3)
			for k, j := range rows[i].Items {
				s, y := m.Mean+m.Bias[j], float64(rows[i].Values[k])
				if l == steps.Logistic {
					q := math.Max(0.01, math.Min(0.99, (s-1)/4))
					s, y = math.Log(q/(1-q)), (y-1)/4
				}
				s += own
				for a := range u {
					s += u[a] * m.Items[int(j)*3+a]
				}
				_, first, second := steps.Of(&p).Derivatives(s, y) // tested above
				if l == steps.Squared {
					first = math.Max(-p.ClipRating, math.Min(p.ClipRating, first))
				}
				at := 0
				for a := range 3 {
					gradients[int(j)*3+a] = w[k] * first * u[a]
					for b := 0; b <= a; b++ {
						x := w[k] * second * u[a] * u[b]
						if a != b {
							x *= math.Sqrt2
						}
						hessians[int(j)*6+at] = x
						at++
					}
				}
			}
			near(t, fmt.Sprint(l, " hessians"), spread(v[0], 60), hessians, 1e-9)
			near(t, fmt.Sprint(l, " gradients"), spread(v[1], 30), gradients, 1e-9)
		}
	}
}

// Collective factorization against dense matrices: S with its zeros, weights of absent features, and
// inverses, as the paper's Algorithm 1 writes it (lines 3, 10 and 11), on a system made up here.
func TestCollectiveStep(t *testing.T) {
	const m, d = 7, 3
	for _, one := range []bool{false, true} {
		p := kinds(m, d)["cmf"]
		p.CMF.Sweeps = 1
		rng := rand.New(rand.NewPCG(8, 8))
		v := mat.NewDense(m, d, nil)
		for i := range m * d {
			v.RawMatrix().Data[i] = rng.NormFloat64()
		}
		gram := mat.NewDense(d, d, nil)
		for range 5 {
			u := mat.NewVecDense(d, []float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()})
			gram.RankOne(gram, 1, u, u)
		}
		y := &serving.Equations{Params: &p, Typical: 0.3, Weight: []float64{1, 2, 3, 4, 5, 6, 7}, B: make([]float64, m*d)}
		for i := range y.B {
			y.B[i] = rng.NormFloat64()
		}
		if one {
			y.Gramian, y.Share = gram.RawMatrix().Data, y.Weight
		} else {
			y.Items = make([]float64, m*6)
			for j := range m {
				var a mat.Dense
				a.Scale(y.Weight[j], gram)
				dense.Pack(y.Items[6*j:6*j+6], a.RawMatrix().Data, d)
			}
		}
		// S and which entries it has.
		const features = 6
		s, has := mat.NewDense(features, m, nil), mat.NewDense(features, m, nil)
		for c, cat := range p.Features.Categories {
			for j := range m {
				for k := cat.Start[j]; k < cat.Start[j+1]; k++ {
					s.Set(3*c+int(cat.Value[k]), j, cat.Weight[k])
					has.Set(3*c+int(cat.Value[k]), j, 1)
				}
			}
		}
		entry := func(k, j int) float64 { return math.Max(has.At(k, j), p.CMF.Unobserved) }
		ridge := func(a *mat.Dense, x float64) {
			for i := range d {
				a.Set(i, i, a.At(i, i)+x)
			}
		}
		solve := func(a *mat.Dense, b *mat.VecDense) []float64 {
			var x mat.VecDense
			if err := x.SolveVec(a, b); err != nil {
				t.Fatal(err)
			}
			return x.RawVector().Data
		}
		f := mat.NewDense(features, d, nil)
		for k := range features {
			a, b := mat.NewDense(d, d, nil), mat.NewVecDense(d, nil)
			for j := range m {
				a.RankOne(a, entry(k, j), v.RowView(j), v.RowView(j))
				b.AddScaledVec(b, s.At(k, j), v.RowView(j))
			}
			ridge(a, 0.1)
			f.SetRow(k, solve(a, b))
		}
		var want []float64
		for j := range m {
			a, b := mat.NewDense(d, d, nil), mat.NewVecDense(d, append([]float64(nil), y.B[j*d:(j+1)*d]...))
			a.Scale(y.Weight[j], gram)
			for k := range features {
				a.RankOne(a, p.CMF.FeatureWeight*entry(k, j), f.RowView(k), f.RowView(k))
				b.AddScaledVec(b, p.CMF.FeatureWeight*s.At(k, j), f.RowView(k))
			}
			ridge(a, p.ItemRidge*y.Weight[j]+p.ItemPrior*y.Typical)
			want = append(want, solve(a, b)...)
		}
		c := solver.NewCollective(&p)
		got := append([]float64(nil), v.RawMatrix().Data...)
		c.Alternate(y, got, serial{})
		near(t, fmt.Sprint("items, one Gramian ", one), got, want, 1e-9)
	}
}

// Two genres, an item of each and one of both: the start of the third is the mean of the others'.
func TestCollectiveStartsFromFeatures(t *testing.T) {
	p := kinds(4, 2)["cmf"]
	p.Features = &dataset.ItemFeatures{Items: 4, Categories: []dataset.Category{{
		Name: "genres", Values: []string{"a", "b"}, Start: []int32{0, 1, 2, 4, 4}, Value: []int32{0, 1, 0, 1}, Weight: []float64{1, 1, 1, 1},
	}}}
	v := start(p).Items
	near(t, "the item of both", v[4:6], []float64{(v[0] + v[2]) / 2, (v[1] + v[3]) / 2}, 2*rounding)
	if v[6] == 0 || v[0] == v[2] {
		t.Errorf("items start at %v", v)
	}
}

// An encoder of ids only, linear and without a ridge of its own, is V itself: enough gradient steps
// end where the closed form does, with noise and with one Gramian as without.
func TestEncoderOfIDsReachesTheClosedForm(t *testing.T) {
	for _, form := range []kernel.GramianForm{kernel.PerItem, kernel.One} {
		for _, variance := range []float64{0, 0.5} {
			p := full(12, 2)
			p.Gramian, p.ItemPrior, p.Rounds = form, 5, 1
			users, rows := people(&p, 40, 0.5, 5)
			closed := newStrategy(t, p, 40, variance)
			e := p
			e.Solver = solver.Encoded
			e.Encoder = encoder.Settings{StartNorm: 0.5, Optimiser: encoder.SGD, Rate: 4, Steps: 6000}
			fitted := newStrategy(t, e, 40, variance)
			closed.Current().Items = append([]float64(nil), fitted.Current().Items...) // one start for both
			others := make([]*user.User, len(users))
			for i, r := range rows {
				others[i] = NewUser(&e, r)
			}
			train(t, closed, users)
			train(t, fitted, others)
			near(t, fmt.Sprint(form, ", variance ", variance), fitted.Current().Items, closed.Current().Items, 1e-6)
		}
	}
}

// Without noise, fresh sums within an outer step say what the first one said: users keep their
// embeddings, and a run that takes four is the run that takes one.
func TestResamplingKeepsTheOuterStep(t *testing.T) {
	one := kinds(12, 2)["encoder"]
	one.Gramian = kernel.PerItem
	four := one
	four.Resample = 4
	users, rows := people(&one, 15, 0.4, 5)
	others := make([]*user.User, len(users))
	for i, r := range rows {
		others[i] = NewUser(&four, r)
	}
	a, b := newStrategy(t, one, 15, 0), newStrategy(t, four, 15, 0)
	train(t, a, users)
	train(t, b, others)
	if !bytes.Equal(a.Model(), b.Model()) {
		t.Error("the models differ")
	}
	if n := len(b.Params.Steps) - len(a.Params.Steps); n != 6 {
		t.Errorf("%d more rounds; 6 were expected", n)
	}
}

// By hand: two rounds lead, then four sums make an outer step.
func TestOuterSteps(t *testing.T) {
	s := newStrategy(t, kinds(12, 2)["encoder of ids, resampled"], 15, 0)
	for _, c := range []struct {
		round uint64
		step  int
		index int
	}{{3, 0, 0}, {6, 0, 3}, {7, 1, 0}, {10, 1, 3}} {
		s.Round = c.round
		if step, part := s.Outer(); step != c.step || part != (encoder.Slice{Index: c.index, Of: 4}) {
			t.Errorf("round %d is part %+v of outer step %d; want %d of %d", c.round, part, step, c.index, c.step)
		}
	}
}

// The sum that ends an outer step is lost: V follows all the same what the others moved.
func TestVFollowsWhenTheLastSumIsLost(t *testing.T) {
	p := kinds(12, 2)["encoder of ids, resampled"]
	users, _ := people(&p, 15, 0.4, 5)
	s := newStrategy(t, p, 15, 0)
	for range 2 + 3 {
		round(t, s, users, nil)
	}
	before := s.Model()
	plan, _, err := s.Next()
	if err != nil {
		t.Fatal(err)
	}
	s.Skip(plan, fmt.Errorf("too few"))
	after, err := kernel.DecodeModel(s.Model(), &p)
	if err != nil || bytes.Equal(before, s.Model()) {
		t.Fatalf("V stayed (%v)", err)
	}
	want := make([]float64, 24)
	s.Encoder.Embed(want, protocol.Workers(1))
	model.Round(want)
	near(t, "V", after.Items, want, 0)
}

// The model does not depend on how many workers solve for it.
func TestWorkersDoNotMatter(t *testing.T) {
	effort.NotShort(t, "whole runs")
	for _, name := range kindNames() {
		p := kinds(200, 3)[name] // several blocks of items
		var models [][]byte
		for _, workers := range []int{1, 2, 7} {
			users, _ := people(&p, 10, 0.3, 5)
			s := newStrategy(t, p, 10, 0.01)
			for {
				plan, done, err := s.Next()
				if err != nil {
					t.Fatal(err)
				}
				if done {
					break
				}
				sums := protocol.Sums{Survivors: 10}
				for k, r := range plan.Releases {
					sums.Values = append(sums.Values, spread(contribute(t, users[0], plan, 0)[k], r.Len))
				}
				if err := s.Absorb(plan, sums, protocol.Workers(workers)); err != nil {
					t.Fatal(err)
				}
			}
			models = append(models, s.Model())
		}
		if !bytes.Equal(models[0], models[1]) || !bytes.Equal(models[0], models[2]) {
			t.Errorf("%s: models differ", name)
		}
	}
}

// A solver writes seven methods: Base has the others. The methods of Solver are counted by reflection.
func TestSevenMethods(t *testing.T) {
	all, base := reflect.TypeFor[solver.Solver](), reflect.TypeFor[solver.Base]()
	var own []string
	for i := range all.NumMethod() {
		name := all.Method(i).Name
		if _, ok := base.MethodByName(name); !ok {
			own = append(own, name)
		}
	}
	if len(own) != 7 {
		t.Errorf("a solver must write %v; seven methods were expected", own)
	}
}
