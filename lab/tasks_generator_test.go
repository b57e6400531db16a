package lab_test

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// Rates are in proportion to draws of mean a/(a+1) and mean square a/(a+2) by definition. Their
// squared coefficient of variation is then 1/(a(a+2)), and they add up to Each. A task has q_i·n
// labels within five deviations; labels less noise are <u, θ>.
func TestSyntheticTasks(t *testing.T) {
	for _, a := range []float64{1, 2} {
		s := PaperTasks(a)
		s.Tasks, s.Users, s.Each = 2000, 300, 100
		x, err := NewTasks(s, 1)
		if err != nil {
			t.Fatal(err)
		}
		var sum, square float64
		for _, q := range x.Rates {
			sum += q
			square += q * q
		}
		n := float64(s.Tasks)
		if spread, want := square/n/(sum/n*sum/n)-1, 1/(a*(a+2)); math.Abs(spread-want) > 0.1*want || math.Abs(sum-s.Each) > 1e-9 {
			t.Errorf("a = %v: rates of sum %v, spread %v; want %v, %v", a, sum, spread, s.Each, want)
		}
		sizes := make([]float64, s.Tasks)
		for k, y := range x.Value {
			sizes[x.Item[k]]++
			var along float64
			for c := range s.Dim {
				along += x.X[int(x.User[k])*s.Dim+c] * x.Theta[int(x.Item[k])*s.Dim+c]
			}
			if math.Abs(float64(y)-along) > 6.1*s.Noise {
				t.Fatalf("label %v of %v", y, along)
			}
		}
		for i, q := range x.Rates {
			if size := sizes[i]; math.Abs(size-q*float64(s.Users)) > 5*math.Sqrt(q*float64(s.Users))+1 {
				t.Errorf("task %d: %v labels, rate %v", i, size, q)
			}
		}
		again, err := NewTasks(s, 1)
		if err != nil || again.Digest != x.Digest || !slices.Equal(again.Theta, x.Theta) {
			t.Errorf("another set of the same seed, %v", err)
		}
		if err := x.Validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestSyntheticTasksRefuse(t *testing.T) {
	for want, spoil := range map[string]func(*TaskShape){
		"0 users":              func(s *TaskShape) { s.Users = 0 },
		"skew is 0":            func(s *TaskShape) { s.Skew = 0 },
		"labels of a user":     func(s *TaskShape) { s.Each = 101 },
		"noise is -1":          func(s *TaskShape) { s.Noise = -1 },
		"noise is NaN":         func(s *TaskShape) { s.Noise = math.NaN() },
		"skew is +Inf":         func(s *TaskShape) { s.Skew = math.Inf(1) },
		"-1 dimensions":        func(s *TaskShape) { s.Dim = -1 },
		"labels of a user are": func(s *TaskShape) { s.Each = 0 },
	} {
		s := PaperTasks(1)
		spoil(&s)
		if _, err := NewTasks(s, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
}
