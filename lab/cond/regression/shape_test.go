package regression

import (
	"math"
	"slices"
	"testing"
)

// By definition the Gram matrix of X = √n·UΣVᵀ has trace nΣσ² and Frobenius norm n√Σσ⁴, and Xᵀy =
// n·VΣŷ, of length n·σ_k where ŷ lies in direction k alone.
func TestSyntheticRegression(t *testing.T) {
	const n, p = 300, 6
	for labels, along := range map[Alignment]float64{
		TopLabels: 1, BottomLabels: 1. / 36,
		UniformLabels: math.Sqrt((1 + 1./16 + 1./81 + 1./256 + 1./625 + 1./1296) / 6),
	} {
		r, err := New(Shape{Rows: n, Cols: p, Decay: 2, Labels: labels}, 1)
		if err != nil {
			t.Fatal(err)
		}
		var trace, square, wantTrace, wantSquare, cross, label float64
		for a := range p {
			var xy float64
			for b := range p {
				var g float64
				for i := range n {
					g += r.X[i*p+a] * r.X[i*p+b]
				}
				square += g * g
				if a == b {
					trace += g
				}
			}
			for i, y := range r.Y {
				xy += r.X[i*p+a] * y
			}
			cross += xy * xy
			wantTrace += math.Pow(float64(a+1), -4) * n
			wantSquare += math.Pow(float64(a+1), -8) * n * n
		}
		for _, y := range r.Y {
			label += y * y / n
		}
		for what, pair := range map[string][2]float64{
			"trace": {trace, wantTrace}, "norm": {math.Sqrt(square), math.Sqrt(wantSquare)},
			"Xᵀy": {math.Sqrt(cross), n * along}, "mean square label": {label, 1},
		} {
			if math.Abs(pair[0]-pair[1]) > 1e-9*pair[1] {
				t.Errorf("labels %s: %s is %v; by definition %v", labels, what, pair[0], pair[1])
			}
		}
	}
}

func TestSyntheticRegressionRepeatsAndRefuses(t *testing.T) {
	good := Shape{Rows: 20, Cols: 3, Decay: 1, Labels: TopLabels, Noise: .1}
	of := func(s Shape, seed uint64) *Data {
		r, err := New(s, seed)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if a, b := of(good, 1), of(good, 1); !slices.Equal(a.X, b.X) || !slices.Equal(a.Y, b.Y) {
		t.Error("one seed made two regressions")
	}
	if a, b := of(good, 1), of(good, 2); slices.Equal(a.X, b.X) {
		t.Error("two seeds made one regression")
	}
	for name, change := range map[string]func(*Shape){
		"rows":   func(s *Shape) { s.Rows = 2 },
		"cols":   func(s *Shape) { s.Cols = 0 },
		"decay":  func(s *Shape) { s.Decay = -1 },
		"noise":  func(s *Shape) { s.Noise = math.NaN() },
		"labels": func(s *Shape) { s.Labels = "middle" },
	} {
		s := good
		change(&s)
		if _, err := New(s, 1); err == nil {
			t.Errorf("%s: %+v was taken", name, s)
		}
	}
}
