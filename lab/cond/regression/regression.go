// Package regression makes sets of regressions. It reads tables of features with a label for each row (columns label=NAME). A program
// that imports this package opens such tables with package dataset/read. Every example is a user of the set, and rates its single
// item, the label.
//
// The package also generates such sets: "synthetic:regression-DECAY-LABELS" has features as numbers, "synthetic:fields" has
// categories, and "synthetic:fields-ROWS-private" has ROWS rows with some private fields.
package regression

import (
	"fmt"
	"math"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dataset/synthetic"
)

func init() {
	read.RegisterRegressions(readFile)
	synthetic.Register(regressionName, openRegression)
	synthetic.Register(fieldsName, openFields)
}

// Data holds examples: public features and a label each.
type Data struct {
	Rows, Cols int
	X          []float64 // row by row, Rows x Cols
	Y          []float64 // Rows labels
}

// NewSet makes a set of a regression. Its examples are the users 1 to Rows, and each rates the
// single item, by its label. Labels beyond the scale count as its ends, since a refused label would
// reveal its value. columns are the names of the features; nil numbers them.
func NewSet(name string, r *Data, columns []string, lo, hi float64) (*dataset.Set, error) {
	if r.Rows < 1 || r.Cols < 1 || len(r.X) != r.Rows*r.Cols || len(r.Y) != r.Rows || columns != nil && len(columns) != r.Cols {
		return nil, fmt.Errorf("%s: %d features, %d labels and %d names for %d rows and %d columns; there must be a feature for each row and column, a label for each row and a name for each column",
			name, len(r.X), len(r.Y), len(columns), r.Rows, r.Cols)
	}
	if !(lo < hi) || math.IsInf(lo, 0) || math.IsInf(hi, 0) {
		return nil, fmt.Errorf("%s: %w: %v to %v; want two finite numbers, the lower first", name, dataset.ErrScale, lo, hi)
	}
	for k, v := range r.X {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%s: feature %d of row %d is %v; features must be finite", name, k%r.Cols+1, k/r.Cols+1, v)
		}
	}
	if columns == nil {
		columns = make([]string, r.Cols)
		for j := range columns {
			columns[j] = fmt.Sprintf("x%d", j+1)
		}
	}
	return dataset.FromLabels(name, dataset.NewProfile(columns, r.X), r.Y, lo, hi), nil
}
