package regression

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/synthetic"
)

// prefix begins the specs of generated sets.
const prefix = "synthetic:"

// regressionName begins the names of synthetic regressions, within synthetic:.
const regressionName = "regression"

// The size of synthetic regressions, their noise, and the public range of labels, whose mean square is 1: six deviations
// leave out one in 10⁹ where they are normal.
const (
	regressionRows, regressionCols = 20_000, 100
	regressionNoise                = 0.1
	regressionRange                = 6
	regressionSeed                 = 1 // of the population, not of a run
)

// parseRegression reads regression[-DECAY[-LABELS]]: σ_i = i^-DECAY, by default 1, and labels in the bottom direction.
func parseRegression(name string) (Shape, error) {
	s := Shape{Rows: regressionRows, Cols: regressionCols, Decay: 1, Labels: BottomLabels, Noise: regressionNoise}
	parts := strings.Split(name, "-")
	var err error
	if len(parts) > 1 {
		s.Decay, err = strconv.ParseFloat(parts[1], 64)
	}
	if len(parts) > 2 {
		s.Labels = Alignment(parts[2])
	}
	if err == nil {
		err = s.Validate()
	}
	if err != nil || len(parts) > 3 {
		return s, fmt.Errorf("%q is no regression; want %s, or %s-DECAY-LABELS such as %s-0.5-uniform: singular values i^-DECAY, and labels in the directions %s, %s or %s",
			name, regressionName, regressionName, regressionName, TopLabels, UniformLabels, BottomLabels)
	}
	return s, nil
}

// openRegression generates the regression of a name.
func openRegression(ctx context.Context, name string, o synthetic.Options) (*dataset.Set, error) {
	s, err := parseRegression(name)
	if err != nil {
		return nil, err
	}
	lo, hi, err := dataset.ScaleOr(o.Min, o.Max, -regressionRange, regressionRange)
	if err != nil {
		return nil, err
	}
	r, err := New(s, regressionSeed)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return NewSet(prefix+name, r, nil, lo, hi)
}
