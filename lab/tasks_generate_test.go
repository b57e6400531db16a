package lab_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/fedsim/fedsim/dataset"
)

// Tasks are many regressions on features of the same users: label y of user j for task i is <u_j, θ_i> plus noise (multi-task
// paper, appendix C). As a set, tasks are the items and labels the ratings.
type Tasks struct {
	*dataset.Set
	Dim   int
	X     []float64 // u_j, users x Dim, of norm at most 1
	Theta []float64 // θ_i that labels come of, tasks x Dim, of norm at most 1
	// Rates are q_i, the chance of a user to have a label for a task. They are numbers of the generator and no user's.
	Rates []float64
}

// TaskShape describes synthetic tasks.
type TaskShape struct {
	Users, Tasks, Dim int     // at least 1 each
	Skew              float64 // a of the power law that rates are drawn from, with density a·x^(a-1) on (0, 1); above 0, and the smaller the more skewed
	Each              float64 // Σ q_i: labels of a user in the mean, above 0 and at most Tasks
	Noise             float64 // standard deviation of what is not linear, at least 0
}

// PaperTasks is the shape of the paper's experiment, with power law a.
func PaperTasks(a float64) TaskShape {
	return TaskShape{Users: 10_000, Tasks: 100, Dim: 5, Skew: a, Each: 20, Noise: 1e-3}
}

// Validate reports everything that makes the shape unusable.
func (s TaskShape) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("dataset: tasks: "+format, args...)) }
	if s.Users < 1 || s.Tasks < 1 || s.Dim < 1 {
		bad("%d users, %d tasks and %d dimensions; there must be at least 1 of each", s.Users, s.Tasks, s.Dim)
	}
	if !(s.Skew > 0) || math.IsInf(s.Skew, 1) {
		bad("skew is %v; it must be above 0 and finite", s.Skew)
	}
	if !(s.Each > 0 && s.Each <= float64(s.Tasks)) {
		bad("labels of a user are %v; they must be above 0 and at most one a task", s.Each)
	}
	if !(s.Noise >= 0) || math.IsInf(s.Noise, 1) {
		bad("noise is %v; it must be at least 0 and finite", s.Noise)
	}
	return errors.Join(errs...)
}

// NewTasks makes tasks of the shape. The same seed makes the same tasks.
//
// Vectors are normal and projected to the unit ball. Rates are scaled to the sum Each; a rate above 1
// counts as 1. Labels beyond six deviations of the noise outside of [-1, 1] count as its ends, so that
// the scale is public.
func NewTasks(s TaskShape, seed uint64) (*Tasks, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, 0x7461736b73)) // "tasks"
	t := &Tasks{Dim: s.Dim, X: ball(rng, s.Users, s.Dim), Theta: ball(rng, s.Tasks, s.Dim), Rates: make([]float64, s.Tasks)}
	var sum float64
	for i := range t.Rates {
		t.Rates[i] = math.Pow(1-rng.Float64(), 1/s.Skew) // of (0, 1]
		sum += t.Rates[i]
	}
	for i := range t.Rates {
		t.Rates[i] = min(1, t.Rates[i]*s.Each/sum)
	}
	top := 1 + 6*s.Noise
	r := dataset.Ratings{Users: s.Users, Items: s.Tasks}
	for j := range s.Users {
		u := t.X[j*s.Dim : (j+1)*s.Dim]
		for i, q := range t.Rates {
			if rng.Float64() >= q {
				continue
			}
			y := product(u, t.Theta[i*s.Dim:(i+1)*s.Dim]) + s.Noise*rng.NormFloat64()
			r.User, r.Item, r.Value = append(r.User, int32(j)), append(r.Item, int32(i)), append(r.Value, float32(min(max(y, -top), top)))
		}
	}
	t.Set = &dataset.Set{Name: fmt.Sprintf("tasks-%v", s.Skew), Min: -top, Max: top, Ratings: r, UserIDs: numbered(s.Users), ItemIDs: numbered(s.Tasks)}
	t.Digest = t.ComputeDigest()
	return t, nil
}

// ball draws normal vectors, and shortens vectors of norm above 1 to norm 1.
func ball(rng *rand.Rand, n, d int) []float64 {
	out := make([]float64, n*d)
	for k := range n {
		v := out[k*d : (k+1)*d]
		for c := range v {
			v[c] = rng.NormFloat64()
		}
		if norm := math.Sqrt(product(v, v)); norm > 1 {
			for c := range v {
				v[c] /= norm
			}
		}
	}
	return out
}

func product(v, w []float64) float64 {
	var sum float64
	for i := range v {
		sum += v[i] * w[i]
	}
	return sum
}

// numbered returns the ids "1" to n.
func numbered(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = strconv.Itoa(i + 1)
	}
	return ids
}
