package cond_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/internal/dataset/synthetic"
	"github.com/fedsim/fedsim/lab/cond/regression"
)

func TestSyntheticRegressionNames(t *testing.T) {
	for name, want := range map[string]regression.Shape{
		"regression":             {Rows: 20000, Cols: 100, Decay: 1, Labels: regression.BottomLabels, Noise: 0.1},
		"regression-0.5-uniform": {Rows: 20000, Cols: 100, Decay: 0.5, Labels: regression.UniformLabels, Noise: 0.1},
		"regression-2":           {Rows: 20000, Cols: 100, Decay: 2, Labels: regression.BottomLabels, Noise: 0.1},
	} {
		if got, err := regression.ParseShape(name); err != nil || got != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	for _, name := range []string{"regression-x", "regression-1-left", "regression-1-top-3", "regression--1", "regression-NaN", "regression-inf"} {
		if _, err := regression.ParseShape(name); err == nil || !strings.Contains(err.Error(), "want regression, or regression-DECAY-LABELS") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The names that a wrong spec is answered with include registered sets.
func TestUnknownShapeNamesRegressions(t *testing.T) {
	_, err := synthetic.Open(t.Context(), "synthetic:none", synthetic.Options{})
	if !errors.Is(err, synthetic.ErrUnknownShape) || !strings.HasSuffix(err.Error(), "one of these with -USERS behind it, synthetic:fields or synthetic:regression") {
		t.Error(err)
	}
}
