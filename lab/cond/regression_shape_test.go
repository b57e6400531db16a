package cond_test

import (
	"math"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/lab/cond/regression"
)

// By definition the Gram matrix of X = √n·UΣVᵀ has trace nΣσ² and Frobenius norm n√Σσ⁴, and Xᵀy =
// n·VΣŷ, of length n·σ_k where ŷ lies in direction k alone.
func TestSyntheticRegression(t *testing.T) {
	const n, p = 300, 6
	for labels, along := range map[regression.Alignment]float64{
		regression.TopLabels: 1, regression.BottomLabels: 1. / 36,
		regression.UniformLabels: math.Sqrt((1 + 1./16 + 1./81 + 1./256 + 1./625 + 1./1296) / 6),
	} {
		r := regression.New(regression.Shape{Rows: n, Cols: p, Decay: 2, Labels: labels}, 1)
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

func TestSyntheticRegressionRepeats(t *testing.T) {
	good := regression.Shape{Rows: 20, Cols: 3, Decay: 1, Labels: regression.TopLabels, Noise: .1}
	if a, b := regression.New(good, 1), regression.New(good, 1); !slices.Equal(a.X, b.X) || !slices.Equal(a.Y, b.Y) {
		t.Error("one seed made two regressions")
	}
	if a, b := regression.New(good, 1), regression.New(good, 2); slices.Equal(a.X, b.X) {
		t.Error("two seeds made one regression")
	}
}
