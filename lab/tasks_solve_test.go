package lab_test

import (
	"errors"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/user"
	"github.com/fedsim/fedsim/model"
)

// TaskSet holds many linear regressions on features of the same users (multi-task paper, section 3):
// label y of user j for task i is fitted by <u_j, θ_i>. u_j is known to user j alone, and is not
// learned.
type TaskSet struct {
	Count, Dim int             // the number of tasks, and d
	X          []float64       // u_j, users x Dim
	Rows       []model.Ratings // the tasks and labels of each user: no task twice
}

// TaskOptions sets how the tasks are learned. Bounds are Γ_x = 1 and Γ_* = 1: longer features are
// shortened to norm 1, larger labels clipped to ±1, and solutions of norm above 1 shortened.
type TaskOptions struct {
	Exponent  float64           // μ of ω_i ∝ n_i^-μ, at least 0
	Normalise kernel.Normaliser // how a user's weights are brought to Σ w² <= 1
	Headroom  float64           // of GlobalNorm, positive: 1 over an average user's Σ w²

	// Counts holds n_i by task, if they are public and not from users' data. nil: they are
	// released, with noise, for CountShare of the budget.
	Counts     []float64
	CountShare float64 // in (0, 1) without Counts
	// the most tasks in which a user counts in full; with more, it counts less in each. At least 1
	// without Counts
	CountCap float64
	Margin   float64 // added to released counts, in deviations of their noise; at least 0 (appendix B)

	Steps  int       // T of [DescendTasks], at least 1
	Clip   float64   // Γ of [DescendTasks], of the gradient of one label; positive
	Budget dp.Budget // +Inf: no noise
}

// DefaultTaskOptions returns the paper's options: weights of n^-1/2 that each user normalises.
// Counts are released.
func DefaultTaskOptions(b dp.Budget) TaskOptions {
	return TaskOptions{Exponent: 0.5, Normalise: kernel.PerUserNorm, Headroom: 1, CountShare: 0.1, CountCap: 20, Steps: 100, Clip: 0.5, Budget: b}
}

// TaskRegressions holds fitted tasks.
type TaskRegressions struct {
	Theta     *model.Matrix // θ_i, tasks x Dim
	Statement dp.Statement  // of Theta and of the counts, if they are released
}

// Predict is <u, θ_i>, for u of any norm.
func (f *TaskRegressions) Predict(task int, u []float64) float64 {
	return dense.Dot(f.Theta.Row(task), u)
}

// SolveTasks is task-weighted SSP, AdaDPALS with given vectors of users (multi-task, Algorithm 1).
// It releases Â_i = Σ_j w_ij u_j u_jᵀ and b̂_i = Σ_j w_ij y_ij u_j once, with noise, and solves.
//
// # Sensitivity
//
// User j adds w_ij·(svec(u_j u_jᵀ), y_ij u_j) to the coordinates of task i alone. Its norm is
// w_ij·√(‖u‖⁴ + y²‖u‖²) <= w_ij·√2. Weights depend on public or released counts and on the user's
// own data, and have Σ_i w_ij² <= 1 in every case ([user.Weigh], [user.WeighGlobally]). So the whole addition
// of a user has norm at most √2. The counts, if they are released, move by at most √CountCap. With
// normal noise of z·√2 and z_c·√CountCap the releases are two Gaussian mechanisms, and are
// accounted for as such.
//
// Line 5 of the algorithm adds w_ij·λI inside the noised sum, which the paper's proof leaves out of
// the sensitivity. Here the ridge on θ_i is a function of released sums alone ([solveTask]), and
// costs nothing.
func SolveTasks(t *TaskSet, o TaskOptions, src entropy.Source) (*TaskRegressions, error) {
	r, err := newTasksRun(t, o, 1, math.Sqrt2, src)
	if err != nil {
		return nil, err
	}
	sums := r.statistics()
	if err = r.release(sums, r.sigma); err != nil {
		return nil, err
	}
	d := t.Dim
	each := len(sums) / t.Count
	e := dense.NewEigen(d)
	a := make([]float64, d*d)
	for i := range t.Count {
		s := sums[i*each : (i+1)*each]
		dense.Unpack(a, s, d, 1)
		solveTask(r.theta.Row(i), e, a, s[each-d:], r.sigma)
	}
	return r.done(), nil
}

// statistics returns Σ_j w_ij·(svec(u_j u_jᵀ), y_ij u_j), one task after the other.
func (r *tasksRun) statistics() []float64 {
	d := r.t.Dim
	each := d*(d+1)/2 + d
	sums, add := make([]float64, r.t.Count*each), make([]float64, each)
	for j, row := range r.t.Rows {
		u := r.t.clipped(j)
		dense.PackOuter(add, u)
		for k, i := range row.Items {
			y := dense.Clamp(float64(row.Values[k]), 1)
			for c, x := range u {
				add[each-d+c] = y * x
			}
			dense.Axpy(sums[int(i)*each:(int(i)+1)*each], r.weights[j][k], add)
		}
	}
	return sums
}

// solveTask sets theta to the solution of Aθ = b for released sums with noise of deviation sigma. A
// is projected to the positive semidefinite matrices, and θ is zero in directions that A does not
// cover. A ridge holds θ. With A = aI, noise of variance 2σ² in b - Aθ, and θ of variance 1/d a
// coordinate, the ridge 2σ²d/a has the least error. a is computed from the trace.
func solveTask(theta []float64, e *dense.Eigen, a, b []float64, sigma float64) {
	e.Decompose(a)
	d := len(theta)
	var trace float64
	for _, x := range e.Values {
		trace += x / float64(d)
	}
	ridge := 0.
	if sigma > 0 {
		ridge = 2 * sigma * sigma * float64(d) / max(trace, sigma)
	}
	clear(theta)
	for k, x := range e.Values {
		if x+ridge <= 1e-9*e.Values[d-1] || x+ridge == 0 {
			continue
		}
		var along float64
		for c := range d {
			along += e.Vectors[c*d+k] * b[c]
		}
		for c := range d {
			theta[c] += e.Vectors[c*d+k] * along / (x + ridge)
		}
	}
	shorten(theta)
}

// DescendTasks is task-weighted noisy gradient descent, AdaDPSGD with given vectors of users
// (multi-task, Algorithm 2). Every step releases Σ_j w_ij·g_ij of all tasks with noise, where g_ij
// = (<u_j, θ_i> - y_ij)u_j, shortened to norm Clip.
//
// # Sensitivity
//
// User j adds vectors of norm w_ij·Clip to disjoint coordinates, and Σ_i w_ij² <= 1: at most Clip
// together, in each of the steps. Line 5 of the algorithm clips the sum over users instead, which
// does not bound a single user's part.
//
// The rates follow Theorem 3.12(b): 1/(λ_i t). Here λ_i is the curvature that task i has by its
// count, ω_i n_i/d, as if features had norm 1 in all directions alike, plus a ridge that matches
// the noise.
func DescendTasks(t *TaskSet, o TaskOptions, src entropy.Source) (*TaskRegressions, error) {
	if err := checkDescent(o); err != nil {
		return nil, err
	}
	r, err := newTasksRun(t, o, o.Steps, o.Clip, src)
	if err != nil {
		return nil, err
	}
	d := t.Dim
	ridge, curvature := make([]float64, t.Count), make([]float64, t.Count)
	mean := r.sigma / math.Sqrt(float64(o.Steps)) // deviation of the steps' mean
	for i := range curvature {
		a := r.scale * math.Pow(user.ClampCount(r.counts[i]), 1-o.Exponent) / float64(d)
		ridge[i] = mean * mean * float64(d) / max(a, mean, 1e-300)
		curvature[i] = a + ridge[i]
	}
	g := make([]float64, t.Count*d)
	for step := range o.Steps {
		r.gradient(g, o.Clip)
		if err = r.release(g, r.sigma); err != nil {
			return nil, err
		}
		for i := range t.Count {
			theta := r.theta.Row(i)
			rate := 1 / (curvature[i] * float64(step+1))
			for c := range theta {
				theta[c] -= rate * (g[i*d+c] + ridge[i]*theta[c])
			}
			shorten(theta)
		}
	}
	return r.done(), nil
}

// gradient sets g to Σ_j w_ij·g_ij at theta, one task after the other.
func (r *tasksRun) gradient(g []float64, clip float64) {
	d := r.t.Dim
	clear(g)
	for j, row := range r.t.Rows {
		u := r.t.clipped(j)
		norm := math.Sqrt(dense.Dot(u, u))
		if norm == 0 {
			continue
		}
		for k, i := range row.Items {
			residual := dense.Dot(r.theta.Row(int(i)), u) - dense.Clamp(float64(row.Values[k]), 1)
			dense.Axpy(g[int(i)*d:(int(i)+1)*d], r.weights[j][k]*dense.Clamp(residual, clip/norm), u)
		}
	}
}

// tasksRun holds the common state of SolveTasks and DescendTasks.
type tasksRun struct {
	t         *TaskSet
	counts    []float64   // public or released
	scale     float64     // ω_i = scale·n_i^-μ, about, if users normalise their weights
	weights   [][]float64 // w_ij, by user
	sigma     float64     // deviation of the noise of a release
	bits      *noise.Bits
	theta     *model.Matrix
	statement dp.Statement
}

// newTasksRun calibrates the noise of steps releases of a sensitivity, releases the counts if they
// are not public, and weighs all users.
func newTasksRun(t *TaskSet, o TaskOptions, steps int, sensitivity float64, src entropy.Source) (*tasksRun, error) {
	if err := errors.Join(t.Validate(), o.validate(t)); err != nil {
		return nil, err
	}
	r := &tasksRun{t: t, counts: o.Counts, bits: noise.NewBits(src.Stream("tasks", 0)), theta: model.NewMatrix(t.Count, t.Dim)}
	countSigma, err := r.calibrate(o, steps, sensitivity)
	if err != nil {
		return nil, err
	}
	if r.counts == nil {
		if err := r.count(o, countSigma); err != nil {
			return nil, err
		}
	}
	headroom := 1.
	if o.Normalise == kernel.GlobalNorm {
		headroom = o.Headroom
	}
	r.scale = user.GlobalScale(r.counts, len(t.Rows), o.Exponent, headroom)
	r.weights = make([][]float64, len(t.Rows))
	var of []float64
	for j, row := range t.Rows {
		of = of[:0]
		for _, i := range row.Items {
			of = append(of, r.counts[i])
		}
		w := make([]float64, len(of))
		switch {
		case len(w) == 0:
		case o.Normalise == kernel.GlobalNorm:
			user.WeighGlobally(w, of, o.Exponent, r.scale)
		default:
			user.Weigh(w, of, o.Exponent)
		}
		r.weights[j] = w
	}
	return r, nil
}

// calibrate sets the noise of a release and the statement, and returns the noise of the counts.
// With a share s of μ² for counts, their multiplier is z/√s and each step's z·√(steps/(1-s)), where
// z is the multiplier of a single release.
func (r *tasksRun) calibrate(o TaskOptions, steps int, sensitivity float64) (counts float64, err error) {
	r.statement = dp.Statement{Epsilon: math.Inf(1), Delta: o.Budget.Delta, Unit: dp.User, Relation: dp.ZeroOut, Accountant: dp.Unaccounted, Sampling: dp.NoSampling, Noise: dp.NoNoise}
	if math.IsInf(o.Budget.Epsilon, 1) {
		return 0, r.statement.Validate()
	}
	share := o.CountShare
	if r.counts != nil {
		share = 0
	}
	events := func(z float64) []dp.Event {
		list := []dp.Event{dp.Gaussian(z * math.Sqrt(float64(steps)/(1-share))).Times(steps)}
		if share > 0 {
			list = append(list, dp.Gaussian(z/math.Sqrt(share)))
		}
		return list
	}
	z, cost, err := dp.Calibrate(o.Budget, events)
	if err != nil {
		return 0, err
	}
	list := events(z)
	r.sigma = list[0].NoiseMultiplier * sensitivity
	if share > 0 {
		counts = list[1].NoiseMultiplier * math.Sqrt(o.CountCap)
	}
	r.statement.Epsilon, r.statement.Accountant, r.statement.Noise = cost.Epsilon, cost.Accountant, dp.FloatGaussianNoise
	return counts, r.statement.Validate()
}

// count releases the number of users of each task. A user of k tasks adds min(1, √(CountCap/k)) to
// each of them, a vector of norm at most √CountCap.
func (r *tasksRun) count(o TaskOptions, sigma float64) error {
	r.counts = make([]float64, r.t.Count)
	for _, row := range r.t.Rows {
		each := math.Min(1, math.Sqrt(o.CountCap/float64(len(row.Items))))
		for _, i := range row.Items {
			r.counts[i] += each
		}
	}
	if err := r.release(r.counts, sigma); err != nil {
		return err
	}
	for i := range r.counts {
		r.counts[i] += o.Margin * sigma
	}
	return nil
}

// taskGridBits is the base-2 logarithm of the ratio of the noise to the grid of released sums. The
// grid is coarse against the spacing of draws, whose low bits may betray the sum.
const taskGridBits = 20

// release adds noise of deviation sigma to sums, and rounds to a grid that depends on sigma alone.
func (r *tasksRun) release(sums []float64, sigma float64) error {
	if sigma == 0 {
		return nil
	}
	normal, err := noise.NewGaussian(sigma)
	if err != nil {
		return err
	}
	if err = normal.Add(sums, r.bits); err != nil {
		return fmt.Errorf("fedssp: drawing noise: %w", err)
	}
	_, exponent := math.Frexp(sigma)
	grid := math.Ldexp(1, exponent-taskGridBits)
	for k, x := range sums {
		sums[k] = math.RoundToEven(x/grid) * grid
	}
	return nil
}

func (r *tasksRun) done() *TaskRegressions {
	return &TaskRegressions{Theta: r.theta, Statement: r.statement}
}

// clipped is u_j, shortened to norm 1.
func (t *TaskSet) clipped(j int) []float64 {
	u := append([]float64(nil), t.X[j*t.Dim:(j+1)*t.Dim]...)
	shorten(u)
	return u
}

// shorten shortens a vector to norm 1, if it is longer.
func shorten(x []float64) {
	if norm := math.Sqrt(dense.Dot(x, x)); norm > 1 {
		for c := range x {
			x[c] /= norm
		}
	}
}

// Validate reports everything that makes the tasks unusable.
func (t *TaskSet) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("fedssp: tasks: "+format, args...)) }
	if t.Count < 1 || t.Dim < 1 || len(t.X) != len(t.Rows)*t.Dim {
		bad("%d tasks of dimension %d, and %d features for %d users; there must be at least one of each, and %d features a user", t.Count, t.Dim, len(t.X), len(t.Rows), t.Dim)
		return errors.Join(errs...)
	}
	for k, x := range t.X {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			bad("feature %d of user %d is %v; features must be finite", k%t.Dim, k/t.Dim, x)
			break
		}
	}
	seen := make([]int, t.Count) // the last user that had the task, from 1
	for j, row := range t.Rows {
		if len(row.Items) != len(row.Values) {
			bad("user %d has %d tasks and %d labels; each task needs one", j, len(row.Items), len(row.Values))
			return errors.Join(errs...)
		}
		for k, i := range row.Items {
			switch y := float64(row.Values[k]); {
			case i < 0 || int(i) >= t.Count:
				bad("user %d has task %d; they are from 0 to %d", j, i, t.Count-1)
				return errors.Join(errs...)
			case seen[i] == j+1:
				bad("user %d has task %d twice; a user has one label a task", j, i)
				return errors.Join(errs...)
			case math.IsNaN(y) || math.IsInf(y, 0):
				bad("user %d has the label %v; labels must be finite", j, y)
				return errors.Join(errs...)
			}
			seen[i] = j + 1
		}
	}
	return errors.Join(errs...)
}

func (o TaskOptions) validate(t *TaskSet) error {
	errs := []error{o.Budget.Validate()}
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("fedssp: tasks: "+format, args...)) }
	if !(o.Exponent >= 0 && o.Exponent <= 2) {
		bad("exponent is %v; it must be from 0 to 2", o.Exponent)
	}
	if o.Normalise != kernel.PerUserNorm && o.Normalise != kernel.GlobalNorm {
		bad("normalise is %q; it must be %s or %s", o.Normalise, kernel.PerUserNorm, kernel.GlobalNorm)
	}
	if o.Normalise == kernel.GlobalNorm && (!(o.Headroom > 0) || math.IsInf(o.Headroom, 1)) {
		bad("headroom is %v; it must be positive and finite", o.Headroom)
	}
	if o.Counts != nil {
		if len(o.Counts) != t.Count {
			bad("there are %d counts; each of the %d tasks needs one", len(o.Counts), t.Count)
		}
		return errors.Join(errs...)
	}
	if !(o.CountShare > 0 && o.CountShare < 1) {
		bad("the share of counts is %v; it must be above 0 and below 1 where they are not public", o.CountShare)
	}
	if !(o.CountCap >= 1) || math.IsInf(o.CountCap, 1) {
		bad("the cap of counts is %v; it must be at least 1 and finite: without it a user could move them by any length", o.CountCap)
	}
	if !(o.Margin >= 0) || math.IsInf(o.Margin, 1) {
		bad("the margin of counts is %v; it must be at least 0 and finite", o.Margin)
	}
	return errors.Join(errs...)
}

func checkDescent(o TaskOptions) error {
	var errs []error
	if o.Steps < 1 {
		errs = append(errs, fmt.Errorf("fedssp: tasks: steps are %d; there must be at least 1", o.Steps))
	}
	if !(o.Clip > 0) || math.IsInf(o.Clip, 1) {
		errs = append(errs, fmt.Errorf("fedssp: tasks: clip is %v; it must be positive and finite", o.Clip))
	}
	return errors.Join(errs...)
}
