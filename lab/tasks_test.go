package lab_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/model"
)

// taskData are synthetic tasks with the split of a seed.
type taskData struct {
	*Tasks
	tasks *TaskSet
	test  dataset.Ratings
	sizes []float64 // n_i that are expected of the training part, which no user decides on
}

func newTaskData(t testing.TB, skew float64, users int, seed uint64) *taskData {
	t.Helper()
	shape := PaperTasks(skew)
	shape.Users = users
	data, err := NewTasks(shape, seed)
	if err != nil {
		t.Fatal(err)
	}
	split, err := split.Divide(data.Set, split.Params{Test: 0.2, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	rows := split.Train.ByUser()
	x := &taskData{Tasks: data, tasks: &TaskSet{Count: shape.Tasks, Dim: shape.Dim, X: data.X}, test: split.Test}
	for u := range users {
		items, values := rows.Row(u)
		x.tasks.Rows = append(x.tasks.Rows, model.Ratings{Items: items, Values: values})
	}
	for _, q := range data.Rates {
		x.sizes = append(x.sizes, 0.8*q*float64(users))
	}
	return x
}

func (x *taskData) rmse(f *TaskRegressions) float64 {
	var sum float64
	for k, y := range x.test.Value {
		u := int(x.test.User[k])
		e := float64(y) - f.Predict(int(x.test.Item[k]), x.X[u*x.Dim:(u+1)*x.Dim])
		sum += e * e
	}
	return math.Sqrt(sum / float64(x.test.Len()))
}

func pld(epsilon float64) dp.Budget {
	return dp.Budget{Epsilon: epsilon, Delta: 1e-5, Accountant: dp.PLD}
}

// A user's addition is the whole release if no other user has a label. It is no longer than √2,
// Clip and √CountCap, however adversarial the user, the counts and the model are. There are 1,000
// users; every second one is extreme.
func TestTasksSensitivity(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	extremes := []float64{0, 1, -1, 1e-300, -1e300, 1e300, math.MaxFloat32, 5e-324}
	largest := [3]float64{}
	for unit := range 1000 {
		odd := unit%2 == 1
		draw := func(of float64) float64 {
			if odd && rng.IntN(2) == 0 {
				return extremes[rng.IntN(len(extremes))]
			}
			return of * rng.NormFloat64()
		}
		d, m := 1+rng.IntN(6), 1+rng.IntN(40)
		p := &TaskSet{Count: m, Dim: d, Rows: make([]model.Ratings, 2)} // the second user has none
		for range 2 * d {
			p.X = append(p.X, draw(1))
		}
		for i := range m {
			if rng.IntN(3) > 0 || odd {
				p.Rows[0].Items = append(p.Rows[0].Items, int32(i))
				p.Rows[0].Values = append(p.Rows[0].Values, float32(max(-math.MaxFloat32, min(math.MaxFloat32, draw(1)))))
			}
		}
		o := DefaultTaskOptions(pld(math.Inf(1)))
		o.Exponent, o.Clip, o.CountCap = 2*rng.Float64(), 0.1+rng.Float64(), 1+9*rng.Float64()
		o.Headroom = math.Exp(rng.NormFloat64())
		if unit%4 > 1 {
			o.Normalise = kernel.GlobalNorm
		}
		if unit%3 > 0 {
			for range m {
				o.Counts = append(o.Counts, []float64{draw(100), math.NaN(), math.Inf(-1), math.Inf(1)}[rng.IntN(4)])
			}
		}
		r, err := newTasksRun(p, o, 1, 1, simulated.New(1, "tasks"))
		if err != nil {
			t.Fatal(err)
		}
		g := make([]float64, m*d)
		for i := range m {
			for c := range d {
				r.theta.Row(i)[c] = draw(1)
			}
			shorten(r.theta.Row(i))
		}
		r.gradient(g, o.Clip)
		if err = r.count(o, 0); err != nil {
			t.Fatal(err)
		}
		for k, x := range []struct {
			what  string
			moved []float64
			bound float64
		}{{"statistics", r.statistics(), math.Sqrt2}, {"gradient", g, o.Clip}, {"counts", r.counts, math.Sqrt(o.CountCap)}} {
			norm := math.Sqrt(dense.Dot(x.moved, x.moved))
			if !(norm <= x.bound*(1+1e-12)) {
				t.Fatalf("unit %d: %s move by %v, above %v", unit, x.what, norm, x.bound)
			}
			largest[k] = max(largest[k], norm/x.bound)
		}
	}
	for k, x := range largest {
		if x < 0.99 { // bounds that no user reaches would be too loose to be tested
			t.Errorf("release %d: the largest part of its bound is %v", k, x)
		}
	}
}

// Without noise a task is weighted least squares, by gonum's QR. Weights of users follow appendix
// C, by hand.
func TestTasksAreLeastSquares(t *testing.T) {
	x := newTaskData(t, 1, 300, 3)
	for _, mu := range []float64{0, 0.5, 1} {
		o := DefaultTaskOptions(pld(math.Inf(1)))
		o.Exponent, o.Counts = mu, x.sizes
		f, err := SolveTasks(x.tasks, o, simulated.New(1, "tasks"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range x.tasks.Count {
			var a, b []float64
			for j, row := range x.tasks.Rows {
				square, at := 0., -1
				for k, l := range row.Items {
					square += math.Pow(max(1, x.sizes[l]), -2*mu)
					if int(l) == i {
						at = k
					}
				}
				if at < 0 {
					continue
				}
				root := math.Sqrt(math.Pow(max(1, x.sizes[i]), -mu) / math.Sqrt(square))
				for c := range x.Dim {
					a = append(a, root*x.X[j*x.Dim+c])
				}
				b = append(b, root*float64(row.Values[at]))
			}
			if len(b) < 20 {
				continue
			}
			var want mat.VecDense
			if err := want.SolveVec(mat.NewDense(len(b), x.Dim, a), mat.NewVecDense(len(b), b)); err != nil {
				t.Fatal(err)
			}
			norm := max(1, mat.Norm(&want, 2))
			for c := range x.Dim {
				if got := f.Theta.Row(i)[c]; math.Abs(got-want.AtVec(c)/norm) > 1e-6 {
					t.Fatalf("μ = %v, task %d: %v, want %v", mu, i, f.Theta.Row(i), want.RawVector().Data)
				}
			}
		}
	}
}

// The charged ε fits the noise that is really added. Releases of empty data are noise alone, so the
// test measures its deviation σ. Normal releases of the sensitivities that [TestTasksSensitivity]
// checks have μ² = 2/σ² + cap/σ_c², or T·clip²/σ² + cap/σ_c². ε is where the closed form of Gaussian
// privacy has δ. 200,000 draws have a deviation within 1% of σ, except with a chance below 1e-9.
func TestTasksChargeWhatIsAdded(t *testing.T) {
	p := &TaskSet{Count: 100, Dim: 5, X: make([]float64, 10), Rows: make([]model.Ratings, 2)}
	for _, public := range []bool{true, false} {
		for _, steps := range []int{0, 40} {
			o := DefaultTaskOptions(pld(3))
			if public {
				o.Counts = make([]float64, 100)
			}
			sensitivity, times := math.Sqrt2, 1
			if steps > 0 {
				sensitivity, times = o.Clip, steps
			}
			r, err := newTasksRun(p, o, times, sensitivity, simulated.New(1, "tasks"))
			if err != nil {
				t.Fatal(err)
			}
			deviation := func(sigma float64) float64 {
				sums := make([]float64, 200_000)
				if err := r.release(sums, sigma); err != nil {
					t.Fatal(err)
				}
				return math.Sqrt(dense.Dot(sums, sums) / float64(len(sums)))
			}
			square := float64(times) * math.Pow(sensitivity/deviation(r.sigma), 2)
			if !public {
				sigma, err := (&tasksRun{}).calibrate(o, times, sensitivity)
				if err != nil {
					t.Fatal(err)
				}
				square += o.CountCap / math.Pow(deviation(sigma), 2)
			}
			if got := dp.GaussianEpsilon(math.Sqrt(square), 1e-5); math.Abs(got-r.statement.Epsilon) > 0.03*3 || r.statement.Epsilon > 3 {
				t.Errorf("public counts %v, steps %d: noise is worth ε = %v, stated is %v", public, steps, got, r.statement.Epsilon)
			}
		}
	}
}

func TestTasksRefuse(t *testing.T) {
	good := func() (*TaskSet, TaskOptions) {
		return &TaskSet{Count: 2, Dim: 1, X: []float64{1, 2}, Rows: []model.Ratings{{Items: []int32{0, 1}, Values: []float32{1, 1}}, {}}}, DefaultTaskOptions(pld(1))
	}
	for want, spoil := range map[string]func(*TaskSet, *TaskOptions){
		"2 features a user":         func(p *TaskSet, _ *TaskOptions) { p.Dim = 2 },
		"features must be finite":   func(p *TaskSet, _ *TaskOptions) { p.X[1] = math.NaN() },
		"each task needs one":       func(p *TaskSet, _ *TaskOptions) { p.Rows[0].Values = p.Rows[0].Values[:1] },
		"they are from 0 to 1":      func(p *TaskSet, _ *TaskOptions) { p.Rows[0].Items[1] = 2 },
		"task 0 twice":              func(p *TaskSet, _ *TaskOptions) { p.Rows[0].Items[1] = 0 },
		"labels must be finite":     func(p *TaskSet, _ *TaskOptions) { p.Rows[0].Values[1] = float32(math.Inf(1)) },
		"exponent is -1":            func(_ *TaskSet, o *TaskOptions) { o.Exponent = -1 },
		"must be user or global":    func(_ *TaskSet, o *TaskOptions) { o.Normalise = "" },
		"headroom is 0":             func(_ *TaskSet, o *TaskOptions) { o.Normalise, o.Headroom = kernel.GlobalNorm, 0 },
		"each of the 2 tasks needs": func(_ *TaskSet, o *TaskOptions) { o.Counts = []float64{1} },
		"share of counts is 1":      func(_ *TaskSet, o *TaskOptions) { o.CountShare = 1 },
		"cap of counts is 0.5":      func(_ *TaskSet, o *TaskOptions) { o.CountCap = 0.5 },
		"margin of counts is -1":    func(_ *TaskSet, o *TaskOptions) { o.Margin = -1 },
		"epsilon is 0":              func(_ *TaskSet, o *TaskOptions) { o.Budget.Epsilon = 0 },
		"steps are 0":               func(_ *TaskSet, o *TaskOptions) { o.Steps = 0 },
		"clip is 0":                 func(_ *TaskSet, o *TaskOptions) { o.Clip = 0 },
	} {
		p, o := good()
		spoil(p, &o)
		if _, err := DescendTasks(p, o, simulated.New(1, "tasks")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
	p, o := good()
	if f, err := DescendTasks(p, o, simulated.New(1, "tasks")); err != nil || f.Statement.Validate() != nil {
		t.Errorf("%v", err)
	}
}

// This is Figure 6, with fewer users. At ε = 4 equal weights are worse than n^-1/2, for both ways,
// and the gain is larger if tasks are more skewed. All five seeds have to say so: without a
// difference chance would say so for one way once in 32. Private counts are tested, too.
func TestTasksByExponent(t *testing.T) {
	effort.NotShort(t, "thirty fits of 48,000 labels")
	for way, learn := range map[string]func(*TaskSet, TaskOptions, uint64) *TaskRegressions{
		"SSP": func(p *TaskSet, o TaskOptions, seed uint64) *TaskRegressions {
			f, err := SolveTasks(p, o, simulated.New(seed, "tasks"))
			if err != nil {
				t.Fatal(err)
			}
			return f
		},
		"descent": func(p *TaskSet, o TaskOptions, seed uint64) *TaskRegressions {
			f, err := DescendTasks(p, o, simulated.New(seed, "tasks"))
			if err != nil {
				t.Fatal(err)
			}
			return f
		},
	} {
		gain := map[float64]float64{}
		for skew, seeds := range map[float64]uint64{0.5: 5, 2: 2} {
			for seed := range seeds {
				x := newTaskData(t, skew, 3000, seed+1)
				o := DefaultTaskOptions(pld(4))
				o.Steps, o.Counts = 30, x.sizes
				half := x.rmse(learn(x.tasks, o, seed))
				o.Exponent = 0
				equal := x.rmse(learn(x.tasks, o, seed))
				gain[skew] += math.Log(equal/half) / float64(seeds)
				if skew == 0.5 && half >= equal {
					t.Errorf("%s, skew %v, seed %d: RMSE %v with μ = 1/2, %v with 0", way, skew, seed, half, equal)
				}
				if seed == 0 && skew == 0.5 {
					o.Counts, o.Exponent = nil, 0.5
					if private := x.rmse(learn(x.tasks, o, seed)); private >= equal {
						t.Errorf("%s: RMSE %v with μ = 1/2 by private counts, %v with 0", way, private, equal)
					}
				}
			}
		}
		t.Logf("%s: mean logarithm of the gain of μ = 1/2: %v", way, gain)
		if gain[0.5] <= gain[2] {
			t.Errorf("%s: gains by skew %v; the more skewed, the more", way, gain)
		}
	}
}
