package fedssp

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/settings"
	"github.com/fedsim/fedsim/internal/fedssp/solver"
	"github.com/fedsim/fedsim/internal/fedssp/user"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/model"
)

// uncertain is a model of the variational solver with random posteriors of items.
func uncertain(p *kernel.Params, seed uint64) *kernel.Model {
	rng := rand.New(rand.NewPCG(seed, 7))
	m := start(*p)
	e := p.Joint()
	m.Bias, m.Popularity = make([]float64, p.Items), make([]float64, p.Items)
	m.Covariance = make([]float64, p.Items*p.PackedJoint())
	for j := range p.Items {
		m.Bias[j], m.Popularity[j] = 0.5*rng.NormFloat64(), 0.2*rng.NormFloat64()
		var c mat.SymDense
		root := mat.NewDense(e, e, nil)
		for a := range e {
			for b := range e {
				root.Set(a, b, 0.3*rng.NormFloat64())
			}
		}
		c.SymOuterK(1, root)
		full := make([]float64, e*e)
		for a := range e {
			for b := range e {
				full[a*e+b] = c.At(a, b)
			}
		}
		dense.Pack(m.Covariance[j*p.PackedJoint():(j+1)*p.PackedJoint()], full, e)
	}
	m.Variances = []float64{kernel.ResidualVariance: 0.7, kernel.UserBiasVariance: 0.3, kernel.FeatureVariance: 0.5, kernel.PopularityVariance: 2}
	m.Round()
	return m
}

// A user's posterior is the textbook's for normals, of precision Σ E[h hᵀ]/(σ²σ_i²) + P⁻¹. The
// oracle forms it densely, rating by rating. σ_i² and the expected squares follow from the
// definition, E[(y - hᵀβ)²] for independent normals h and β.
func TestPosteriorOfAUser(t *testing.T) {
	p := kinds(25, 3)["variational"]
	users, rows := people(&p, 1, 0.6, 3)
	m, d, e := uncertain(&p, 1), p.Rank, p.Joint()
	broadcast, err := kernel.OpenBroadcast(m.Encode(), &p)
	if err != nil {
		t.Fatal(err)
	}
	c := user.Contribution{User: users[0], Params: &p, Ratings: users[0].Ratings(nil), Model: broadcast}
	solver.FitVariational(&c)
	w, n := c.Work, c.Work.Width

	cov := func(j, a, b int) float64 { return m.JointCovariance(&p, j, max(a, b), min(a, b)) }
	h := func(j int) []float64 {
		row := make([]float64, n)
		copy(row, m.Items[j*d:(j+1)*d])
		row[d], row[d+1] = 1, m.Popularity[j]
		p.UserFeatures.Row(j, row[d+2:])
		return row
	}
	prior := slices.Repeat([]float64{m.Variances[kernel.FeatureVariance]}, n)
	for k := range d {
		prior[k] = 1
	}
	prior[d], prior[d+1] = m.Variances[kernel.UserBiasVariance], m.Variances[kernel.PopularityVariance]
	var mean *mat.VecDense
	var inverse mat.SymDense
	residuals := func() float64 {
		var sum float64
		for k, item := range rows[0].Items {
			j := int(item)
			row := h(j)
			r := float64(rows[0].Values[k]) - m.Mean - m.Bias[j]
			square := cov(j, d, d)
			for a := range n {
				r -= row[a] * mean.AtVec(a)
				for b := range n {
					square += row[a] * row[b] * inverse.At(a, b)
				}
			}
			for a := range d {
				square += 2 * mean.AtVec(a) * cov(j, a, d)
				for b := range d {
					square += cov(j, a, b) * (mean.AtVec(a)*mean.AtVec(b) + inverse.At(a, b))
				}
			}
			sum += r*r + square
		}
		return sum
	}
	solve := func(precision float64) {
		a, b := mat.NewSymDense(n, nil), mat.NewVecDense(n, nil)
		by := precision / m.Variances[kernel.ResidualVariance]
		for k, item := range rows[0].Items {
			j := int(item)
			row := h(j)
			r := float64(rows[0].Values[k]) - m.Mean - m.Bias[j]
			for x := range n {
				right := row[x] * r
				if x < d {
					right -= cov(j, x, d)
				}
				b.SetVec(x, b.AtVec(x)+by*right)
				for y := x; y < n; y++ {
					z := row[x] * row[y]
					if y < d {
						z += cov(j, x, y)
					}
					a.SetSym(x, y, a.At(x, y)+by*z)
				}
			}
		}
		for x := range n {
			a.SetSym(x, x, a.At(x, x)+1/prior[x])
		}
		var ch mat.Cholesky
		if !ch.Factorize(a) || ch.InverseTo(&inverse) != nil {
			t.Fatal("the test's precision is not positive definite")
		}
		mean = mat.NewVecDense(n, nil)
		mean.MulVec(&inverse, b)
	}
	solve(1)
	ratings := float64(len(rows[0].Items))
	precision := (ratings + 50) / (residuals()/m.Variances[kernel.ResidualVariance] + 50)
	solve(precision)

	near(t, "means", w.Beta, mean.RawVector().Data, 1e-9)
	for a := range n {
		for b := range n {
			near(t, "covariance", []float64{solver.FitsOf(w).Covariance[a*n+b]}, []float64{inverse.At(a, b)}, 1e-9)
		}
	}
	near(t, "precision and residuals", []float64{solver.FitsOf(w).Precision, solver.FitsOf(w).Residuals}, []float64{precision, precision * residuals()}, 1e-9)

	// E[(y - μ - own)·g] is the product of means less the covariance of own and g, which has none
	// with the 1.
	first := solver.FirstMoments(&c, 1)
	for k, item := range rows[0].Items {
		j := int(item)
		row := h(j)
		target := float64(rows[0].Values[k]) - m.Mean
		for b := d; b < n; b++ {
			target -= row[b] * mean.AtVec(b)
		}
		want := make([]float64, e)
		want[d] = target
		for a := range d {
			want[a] = target * mean.AtVec(a)
			for b := d; b < n; b++ {
				want[a] -= row[b] * inverse.At(a, b)
			}
		}
		if scale := dense.Norm(want) / (p.ClipRating * p.ClipUser); scale > 1 || math.Abs(target) > p.ClipRating {
			continue
		}
		near(t, "first moments", first[k*e:(k+1)*e], want, 1e-9)
	}
}

// Turning users and items changes no prediction. By the metric of users' second moment S, vᵀSv, the
// product <v_j, v_k> stays, and that metric is then I. Covariances turn alike.
func TestTurnKeepsWhatIsPredicted(t *testing.T) {
	p := kinds(12, 3)["variational"]
	s := newStrategy(t, p, 9, 0)
	*s.Current() = *uncertain(&p, 2)
	d, e := p.Rank, p.Joint()
	rng := rand.New(rand.NewPCG(4, 4))
	second := make([]float64, d*d) // of users: Σ u uᵀ
	for range 9 {
		u := []float64{rng.NormFloat64(), 2 * rng.NormFloat64(), 0.3 * rng.NormFloat64()}
		for a := range d {
			for b := range d {
				second[a*d+b] += u[a] * u[b]
			}
		}
	}
	metric := func(m *kernel.Model, j, k int, s []float64) (x, c float64) {
		for a := range d {
			for b := range d {
				x += m.Items[j*d+a] * s[a*d+b] * m.Items[k*d+b]
				c += s[a*d+b] * m.JointCovariance(&p, j, max(a, b), min(a, b))
			}
		}
		return x, c
	}
	mean := make([]float64, d*d)
	unit := make([]float64, d*d)
	for i := range mean {
		mean[i] = second[i] / 9
	}
	for i := range d {
		unit[i*d+i] = 1
	}
	before := *s.Current()
	before.Items, before.Covariance = slices.Clone(s.Current().Items), slices.Clone(s.Current().Covariance)
	packed := make([]float64, p.Packed())
	dense.Pack(packed, second, d)
	prior := &solver.ItemPrior{Mean: make([]float64, p.Items*e), Variance: make([]float64, e)}
	solver.Turn(s, prior, packed, 9, serial{})
	var off float64
	for j := range p.Items {
		for k := range p.Items {
			x, c := metric(&before, j, k, mean)
			gotX, gotC := metric(s.Current(), j, k, unit)
			near(t, "metric", []float64{gotX, gotC}, []float64{x, c}, 1e-9)
		}
		near(t, "variance of the bias", []float64{s.Current().JointCovariance(&p, j, d, d)}, []float64{before.JointCovariance(&p, j, d, d)}, 1e-12)
		off += s.Current().Items[j*d]*s.Current().Items[j*d+1] + s.Current().JointCovariance(&p, j, 1, 0)
	}
	near(t, "second moment of items off the diagonal", []float64{off}, []float64{0}, 1e-9)
}

// The data follow the model, and a third of them is seen. Predictions of the rest are nearer to
// the drawn values than the pooled solver's. The learned variances are near the true variances.
func TestVariationalLearnsMore(t *testing.T) {
	const users, items, d = 300, 60, 2
	rng := rand.New(rand.NewPCG(8, 8))
	normals := func(n int, by float64) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = by * rng.NormFloat64()
		}
		return x
	}
	u, v, bu, bj := normals(users*d, 1), normals(items*d, 0.4), normals(users, 0.4), normals(items, 0.4)
	truth := func(i, j int) float64 { return 3 + bu[i] + bj[j] + dense.Dot(u[i*d:(i+1)*d], v[j*d:(j+1)*d]) }
	rows := make([]model.Ratings, users)
	for i := range rows {
		for j := range items {
			if rng.IntN(3) == 0 {
				y := min(max(truth(i, j)+0.8*rng.NormFloat64(), 0), 6)
				rows[i].Items, rows[i].Values = append(rows[i].Items, int32(j)), append(rows[i].Values, float32(y))
			}
		}
	}
	missed := map[string]float64{}
	for _, name := range []string{"pooled", "variational"} {
		p := kinds(items, d)[name]
		p.Min, p.Max, p.Features, p.UserFeatures, p.Popularity = 0, 6, nil, nil, 0
		p.ClipRating, p.ClipBias, p.ClipUser, p.Rounds, p.Exponent, p.CountCap, p.StartSpread = 6, 6, 6, 15, 0, 0, 0.3
		p.Split.Counts, p.Pool.Iterations, p.Pool.Decay = 0, 20, 0
		if name == "pooled" {
			p.UserRidge = 0.64 / 0.16
		}
		list := make([]*user.User, users)
		for i := range list {
			list[i] = NewUser(&p, rows[i])
		}
		s := newStrategy(t, p, users, 0)
		train(t, s, list)
		for i := range users {
			e, bias := fit(t, &p, s.Current(), rows[i])
			for j := range items {
				if !slices.Contains(rows[i].Items, int32(j)) {
					missed[name] += dense.Sqr(s.Current().Predict(e, bias, j) - truth(i, j))
				}
			}
		}
		if x := s.Current().Variances; x != nil && (math.Abs(math.Sqrt(x[kernel.ResidualVariance])-0.8) > 0.08 || math.Abs(math.Sqrt(x[kernel.UserBiasVariance])-0.4) > 0.1) {
			t.Errorf("deviations of %v and %v; drawn with .8 and .4", math.Sqrt(x[kernel.ResidualVariance]), math.Sqrt(x[kernel.UserBiasVariance]))
		}
	}
	if !(missed["variational"] < 0.9*missed["pooled"]) {
		t.Errorf("it misses by %v, the pooled solver by %v", missed["variational"], missed["pooled"])
	}
}

// Settings that posteriors cannot serve are refused if posteriors are asked for; otherwise
// posteriors are left out.
func TestPosteriorsRefused(t *testing.T) {
	for set, want := range map[string]string{
		"feedback=implicit epsilon=inf": "", "epsilon=inf statistics.gramian=one": "per-item",
		"epsilon=inf encoder.optimiser=adam": "exact", "epsilon=inf statistics.bias-first=no": "biases come first",
		"epsilon=inf statistics.budgeting=tail": "weights", "epsilon=inf": "-",
	} {
		e, err := opened.Try(t, "algorithm=ssp-c statistics.posteriors=yes "+set)
		switch {
		case want == "-":
			if err != nil || settings.PosteriorsKey.Of(e.Config) != "yes" {
				t.Errorf("%s: %v", set, err)
			}
		case err == nil || !strings.Contains(err.Error(), want):
			t.Errorf("%s: %v; want %q", set, err, want)
		}
		if want == "-" {
			continue
		}
		e, err = opened.Try(t, "algorithm=ssp-c "+set)
		if err != nil || settings.PosteriorsKey.Of(e.Config) == "yes" {
			t.Errorf("%s, left open: %v", set, err)
		}
	}
}
