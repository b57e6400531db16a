package fedssp

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/serving"
	"github.com/fedsim/fedsim/internal/fedssp/stage"
	"github.com/fedsim/fedsim/internal/fedssp/user"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// naive is an outer step of DPALS without noise, written from the papers with dense matrices and
// plain loops: users by ridge regression, clipping, weights, then A_j v_j = b_j.
type naive struct {
	p     *kernel.Params
	rows  []model.Ratings
	mean  float64
	bias  []float64 // of items; nil: none
	count []float64
}

// user is the ridge solution (u, b) of one user, u clipped.
func (o naive) user(r model.Ratings, v *mat.Dense) (u []float64, own float64) {
	d, n := o.p.Rank, len(r.Items)
	width := d
	if o.p.Bias {
		width++
	}
	x, y := mat.NewDense(n, width, nil), mat.NewVecDense(n, nil)
	for k, j := range r.Items {
		for a := range d {
			x.Set(k, a, v.At(int(j), a))
		}
		if o.p.Bias {
			x.Set(k, d, 1)
		}
		y.SetVec(k, o.target(r, k))
	}
	var gram mat.Dense
	gram.Mul(x.T(), x)
	if o.p.Feedback == kernel.Implicit {
		var all mat.Dense
		all.Mul(v.T(), v)
		all.Scale(o.p.Unobserved, &all)
		gram.Add(&gram, &all)
	}
	for a := range width {
		ridge := o.p.UserRidge
		if a == d {
			ridge = o.p.UserBiasRidge
		}
		gram.Set(a, a, gram.At(a, a)+ridge)
	}
	var right, beta mat.VecDense
	right.MulVec(x.T(), y)
	if err := beta.SolveVec(&gram, &right); err != nil {
		panic(err)
	}
	norm := 0.0
	for a := range d {
		u = append(u, beta.AtVec(a))
		norm += u[a] * u[a]
	}
	if norm = math.Sqrt(norm); norm > o.p.ClipUser {
		for a := range u {
			u[a] *= o.p.ClipUser / norm
		}
	}
	if o.p.Bias {
		own = beta.AtVec(d)
	}
	return u, own
}

func (o naive) target(r model.Ratings, k int) float64 {
	if o.p.Feedback == kernel.Implicit {
		return 1
	}
	y := float64(r.Values[k]) - o.mean
	if o.bias != nil {
		y -= o.bias[r.Items[k]]
	}
	return y
}

// weights of a user's ratings, Σw² = 1.
func (o naive) weights(r model.Ratings) []float64 {
	w := make([]float64, len(r.Items))
	sum := 0.0
	for k, j := range r.Items {
		w[k] = 1
		if o.count != nil {
			w[k] = math.Pow(math.Max(o.count[j], 1), -o.p.Exponent)
		}
		sum += w[k] * w[k]
	}
	for k := range w {
		w[k] /= math.Sqrt(sum)
	}
	return w
}

// step is the items after one outer step from v.
func (o naive) step(v *mat.Dense) *mat.Dense {
	p, d := o.p, o.p.Rank
	second, first, weight := make([]*mat.Dense, p.Items), make([]*mat.VecDense, p.Items), make([]float64, p.Items)
	for j := range second {
		second[j], first[j] = mat.NewDense(d, d, nil), mat.NewVecDense(d, nil)
	}
	all := mat.NewDense(d, d, nil)
	total := 0.0
	for _, r := range o.rows {
		if len(r.Items) == 0 {
			continue
		}
		u, own := o.user(r, v)
		outer := mat.NewDense(d, d, nil)
		for a := range d {
			for b := range d {
				outer.Set(a, b, u[a]*u[b])
			}
		}
		all.Add(all, outer)
		for k, w := range o.weights(r) {
			j := r.Items[k]
			bound := p.ClipRating
			if p.Feedback == kernel.Implicit {
				bound = 1
			}
			y := math.Max(-bound, math.Min(bound, o.target(r, k)-own))
			var part mat.Dense
			part.Scale(w, outer)
			second[j].Add(second[j], &part)
			first[j].AddScaledVec(first[j], w*y, mat.NewVecDense(d, u))
			weight[j] += w
			total += w
		}
	}
	n := float64(len(o.rows))
	out := mat.NewDense(p.Items, d, nil)
	for j := range p.Items {
		a := second[j]
		if p.Gramian == kernel.One {
			a.Scale(weight[j]/n, all)
		}
		if p.Feedback == kernel.Implicit {
			var extra mat.Dense
			extra.Scale(p.Unobserved*n/total, all)
			a.Add(a, &extra)
		}
		for i := range d {
			a.Set(i, i, a.At(i, i)+p.ItemRidge*weight[j]+p.ItemPrior*n/total)
		}
		var x mat.VecDense
		if err := x.SolveVec(a, first[j]); err != nil {
			panic(err)
		}
		for i := range d {
			out.Set(j, i, x.AtVec(i))
		}
	}
	return out
}

// Without noise a run of two rounds is plain ALS. The reference above uses none of the code under
// test, except the start of V.
func TestWithoutNoiseItIsALS(t *testing.T) {
	for _, name := range []string{"plain", "full", "full per item", "implicit", "implicit one"} {
		p := kinds(25, 3)[name]
		p.ItemPrior = 0.5
		users, rows := people(&p, 60, 0.3, 21)
		rows[7] = model.Ratings{}
		users[7] = NewUser(&p, rows[7])
		s := newStrategy(t, p, len(users), 0)
		o := naive{p: &p, rows: rows, mean: s.Current().Mean}
		v := mat.NewDense(p.Items, p.Rank, append([]float64(nil), s.Current().Items...))
		for k, step := range s.Params.Steps {
			round(t, s, users, nil)
			if step.Phase != kernel.Statistics {
				o.mean, o.bias, o.count = s.Current().Mean, s.Current().Bias, s.Current().Counts // checked by tests of their own
				continue
			}
			v = o.step(v)
			model.Round(v.RawMatrix().Data)
			near(t, fmt.Sprintf("%s: items after round %d", name, k+1), s.Current().Items, v.RawMatrix().Data, 1e-8+rounding)
		}
		train(t, s, users)
		if name == "full" { // what is left with the client
			u, own := fit(t, &p, s.Current(), rows[0])
			wide := p
			wide.ClipUser = 1e9
			o.p = &wide
			wantU, want := o.user(rows[0], v)
			near(t, "a user's own fit", append(u, own), append(wantU, want), 1e-8)
		}
	}
}

// By hand: one item, rank 1, two users who rate it 4 and 2 on a scale of 1 to 5 around 3, so that
// targets are 1 and -1; v starts at s. Then u = ±s/(s² + λ), w = 1, A = Σu² = 2u², b = Σyu = 2u.
// So v = 2u/(2u² + 2λ_v). With u = 0.5/(0.25 + 0.5) = 2/3 and λ_v = 0.1, v = (2/3)/(4/9 + 1/10) = 60/49.
func TestHandComputedStep(t *testing.T) {
	p := plain(1, 1)
	p.Rounds = 1
	s := newStrategy(t, p, 2, 0)
	s.Current().Items[0] = 0.5
	users := []*user.User{NewUser(&p, model.Ratings{Items: []int32{0}, Values: []float32{4}}), NewUser(&p, model.Ratings{Items: []int32{0}, Values: []float32{2}})}
	train(t, s, users)
	near(t, "v", s.Current().Items, []float64{60.0 / 49}, rounding)
}

// Counts, mean and biases against their definitions in plain loops, where the caps cut nothing off.
func TestFirstStages(t *testing.T) {
	p := full(12, 2)
	p.CountCap, p.MeanCap, p.Exponent = 12, 12, 0.5
	users, rows := people(&p, 50, 0.4, 3)
	s := newStrategy(t, p, len(users), 0)
	round(t, s, users, nil)
	counts, sum, n := make([]float64, 12), 0.0, 0.0
	for _, r := range rows {
		for k, j := range r.Items {
			counts[j]++
			sum += float64(r.Values[k])
			n++
		}
	}
	near(t, "counts", s.Current().Counts, counts, 1e-12)
	near(t, "mean", []float64{s.Current().Mean}, []float64{sum / n}, 1e-12)
	round(t, s, users, nil)
	r, c, total := make([]float64, 12), make([]float64, 12), 0.0
	for _, row := range rows {
		own := 0.0
		for _, y := range row.Values {
			own += float64(y) - sum/n
		}
		own /= float64(len(row.Values)) + p.UserBiasRidge
		for k, w := range (naive{p: &p, count: counts}).weights(row) {
			e := math.Max(-p.ClipBias, math.Min(p.ClipBias, float64(row.Values[k])-sum/n-own))
			r[row.Items[k]] += w * e
			c[row.Items[k]] += w
			total += w
		}
	}
	for j := range r {
		r[j] /= c[j] + p.BiasRidge*50/total
	}
	near(t, "biases", s.Current().Bias, r, rounding)
}

// A statistic is divided by the survivors of its own round: when the second half of users, who are
// the first half's twins, is lost in some rounds, nothing changes.
func TestDropoutsDoNotShrink(t *testing.T) {
	for _, name := range kindNames() {
		p := kinds(15, 2)[name]
		p.CountCap, p.MeanCap, p.PerUser = 15, min(15, p.MeanCap*15), 15 // nothing is sampled
		_, rows := people(&p, 20, 0.4, 5)
		twins := func() []*user.User {
			var all []*user.User
			for _, r := range slices.Concat(rows, rows) {
				all = append(all, NewUser(&p, r))
			}
			return all
		}
		for odd := range 2 {
			whole, lossy := newStrategy(t, p, 40, 0), newStrategy(t, p, 40, 0)
			all, others := twins(), twins()
			for i := 0; round(t, whole, all, nil); i++ {
				round(t, lossy, others, func(u int) bool { return i%2 == odd && u >= 20 })
			}
			near(t, name+": items", lossy.Current().Items, whole.Current().Items, 1e-9)
			near(t, name+": biases", lossy.Current().Bias, whole.Current().Bias, 1e-9)
			near(t, name+": counts", lossy.Current().Counts, whole.Current().Counts, 1e-9)
		}
	}
}

// By hand, with 10 of 20 clients alive: noise of deviation 2 in the sum of weights is 0.2 a user,
// and 4 in a sum scaled to 20 clients. A weight of -3 or 1 in the sum, 2 in 20, counts as 4, a
// weight of 5 as 10. The mean stays in the middle of the scale if its denominator, 1.5, is below
// its noise, 2. With any noise the mean is on the scale.
func TestNoisyFirstStages(t *testing.T) {
	p := full(3, 2)
	s := newStrategy(t, p, 20, 4)
	s.KeepWeights(serving.Absorbed{Values: map[string][]float64{kernel.WeightCounts: {-3, 1, 5}}, Noise: map[string]float64{kernel.WeightCounts: 2}, Users: 10})
	c, typical := s.Weights()
	near(t, "weights", c, []float64{4, 4, 10}, 1e-12)
	near(t, "typical weight", []float64{typical}, []float64{1}, 1e-12) // 20/12, but a weight is at most 1
	// A rating of a sample of at most 25 weighs 1/5, whatever the noise did to the sums.
	p.Budgeting, p.PerUser = kernel.UniformSample, 25
	s = newStrategy(t, p, 20, 4)
	s.KeepWeights(serving.Absorbed{Values: map[string][]float64{kernel.WeightCounts: {-3, 1, 5}}, Noise: map[string]float64{kernel.WeightCounts: 2}, Users: 10})
	_, typical = s.Weights()
	near(t, "typical weight of a sample", []float64{typical}, []float64{0.2}, 1e-12)
	p = full(3, 2)
	for _, x := range []struct{ sum, n, want float64 }{{1, 1.5, 3}, {1, 4, 3.5}, {-9, 4, 1}, {9, 4, 5}, {1, -4, 3}} {
		s := newStrategy(t, p, 20, 4)
		if err := (stage.Averaging{}).Absorb(s, serving.Absorbed{Values: map[string][]float64{kernel.Mean: {x.sum, x.n}}, Noise: map[string]float64{kernel.Mean: 2}, Users: 10}, serial{}); err != nil {
			t.Fatal(err)
		}
		near(t, "mean", []float64{s.Current().Mean}, []float64{x.want}, 1e-12)
	}
}

// By hand: moments with noise of deviation 3 from 10 of 20 clients have 6 in what 20 make; with w̃
// = 1/2, ρ = 36/(1/2).
func TestDiscountFollowsTheNoise(t *testing.T) {
	for name, names := range map[string][2]string{"full": {kernel.Gramians, kernel.Moments}, "full per item": {kernel.Gramians, kernel.Moments}, "convex squared one": {"hessians", "gradients"}} {
		p := kinds(2, 1)[name]
		s := newStrategy(t, p, 20, 4)
		s.Weight = []float64{1, 1}
		r := serving.Absorbed{Values: map[string][]float64{}, Noise: map[string]float64{}, Users: 10}
		for _, release := range append(names[:], kernel.Gramian) {
			r.Values[release], r.Noise[release] = []float64{1, 1}, 3
		}
		near(t, name, []float64{s.Equations(r, 2, names[0], names[1]).Rho}, []float64{72}, 1e-12)
	}
}

// By hand: residuals of deviation 3, all 20 clients alive, weights 8 and 2 that 20/10 brings to
// w̃ = 1 at most. So ρ = 9, and b = W·r/(W·c + λ) with W = c/(c + ρ), λ = 2. For r = 4, b is
// (8/17·4)/(8/17·8 + 2) and (2/11·4)/(2/11·2 + 2).
func TestNoisyBiases(t *testing.T) {
	p := full(2, 2)
	s := newStrategy(t, p, 20, 4)
	s.Weight = []float64{0.4, 0.1}
	if err := stage.SolveBiases(s, serving.Absorbed{Values: map[string][]float64{kernel.Bias: {4, 4}}, Noise: map[string]float64{kernel.Bias: 3}, Users: 20}, nil); err != nil {
		t.Fatal(err)
	}
	near(t, "biases", s.Current().Bias, []float64{(32.0 / 17) / (64.0/17 + 2), (8.0 / 11) / (4.0/11 + 2)}, 1e-12)
}

// Where all users' embeddings are the same, c_j·G/n is the item's own Gramian, and the two forms
// agree.
func TestOneGramianOfEqualUsers(t *testing.T) {
	p := plain(8, 3)
	p.Rounds, p.ItemPrior = 1, 0.3
	one := p
	one.Gramian = kernel.One
	var users, others []*user.User
	for range 30 { // all users like items 0 to 4 equally
		likes := model.Ratings{Items: []int32{0, 1, 2, 3, 4}, Values: []float32{5, 4, 3, 2, 1}}
		users, others = append(users, NewUser(&p, likes)), append(others, NewUser(&one, likes))
	}
	a, b := newStrategy(t, p, 30, 0), newStrategy(t, one, 30, 0)
	train(t, a, users)
	train(t, b, others)
	near(t, "items", b.Current().Items, a.Current().Items, 1e-9)
}

// A round that released nothing leaves the model as it is, and later ones run.
func TestSkippedSteps(t *testing.T) {
	p := full(10, 2)
	users, _ := people(&p, 20, 0.4, 5)
	steps := len(newStrategy(t, p, 20, 0).Params.Steps)
	for lost := range steps {
		s := newStrategy(t, p, 20, 0)
		before := s.Model()
		for k := range steps {
			if k != lost {
				round(t, s, users, nil)
				continue
			}
			before = s.Model()
			plan, _, err := s.Next()
			if err != nil {
				t.Fatal(err)
			}
			s.Skip(plan, fmt.Errorf("too few"))
			if string(s.Model()) != string(before) {
				t.Fatalf("the model changed when round %d was skipped", k+1)
			}
		}
		m := s.Current()
		if (m.Counts == nil) != (lost == 0) || (m.Mean == 3) != (lost == 0) || (m.Bias == nil) != (lost == 1) {
			t.Errorf("round %d skipped: counts %v, mean %v, biases %v", lost+1, m.Counts, m.Mean, m.Bias)
		}
		if moved := string(s.Model()) != string(before); moved != (lost != 1 && lost < steps-1) { // without the weight counts of the bias stage V stays
			t.Errorf("round %d skipped: moved afterwards: %v", lost+1, moved)
		}
		for _, x := range m.Items {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				t.Fatalf("round %d skipped: an item at %v", lost+1, x)
			}
		}
	}
}

// However large the noise, the model stays finite.
func TestNoiseLeavesTheModelFinite(t *testing.T) {
	effort.NotShort(t, "whole runs")
	for _, name := range kindNames() {
		for _, deviation := range []float64{1e-6, 1, 1e4, 1e9} {
			p := kinds(15, 3)[name]
			p.Rounds = 3
			users, _ := people(&p, 20, 0.4, 5)
			s := newStrategy(t, p, 20, deviation*deviation)
			rng := rand.New(rand.NewPCG(uint64(deviation), 4))
			for {
				plan, done, err := s.Next()
				if err != nil {
					t.Fatal(err)
				}
				if done {
					break
				}
				sums := protocol.Sums{Survivors: 20}
				for k, r := range plan.Releases {
					sums.Values = append(sums.Values, make([]float64, r.Len))
					for i, u := range users {
						for c, x := range spread(contribute(t, u, plan, i)[k], r.Len) {
							sums.Values[k][c] += x
						}
					}
					for c := range sums.Values[k] {
						sums.Values[k][c] += deviation * rng.NormFloat64()
					}
				}
				if err := s.Absorb(plan, sums, serial{}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := kernel.DecodeModel(s.Model(), &p); err != nil {
				t.Errorf("%s, noise %g: %v", name, deviation, err)
			}
		}
	}
}
