package read

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/internal/dataset/idtext"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/npy"
)

const (
	components  = 16    // principal components of vectors that become features
	mostNumbers = 4096  // of a vector
	mostEntry   = 1e100 // in size: squares and their sums are finite
	weightUnits = 1e6   // of 1; whole ones are alike on all machines
)

// vectors adds the category of a matrix of floats, a row for each item, which is named like the file. A row
// of zeros is no vector. Rows less their mean, in norm 1, are turned to their first principal components, each as two
// values: 3+ and 3- are the positive and the negative part of component 3. The largest entry of a component is positive.
func (r *featureReader) vectors(path string) error {
	a, err := npy.ReadMatrix(path)
	if err != nil {
		return err
	}
	rows, cols, ids := a.Shape[0], a.Shape[1], r.set.ItemIDs
	switch {
	case rows != len(ids):
		return fmt.Errorf("%s has %d rows, and %s has %d items; want a row for each line of fedsim data ids DATA --of items, in that order", path, rows, r.set.Name, len(ids))
	case cols == 0 || cols > mostNumbers:
		return fmt.Errorf("%s has %d columns; want 1 to %d", path, cols, mostNumbers)
	}
	for i, x := range a.Float {
		if !(math.Abs(x) <= mostEntry) {
			return fmt.Errorf("%s: row %d, column %d (counted from 0; item %q) is %v; want finite numbers, and zeros for an item without a vector", path, i/cols, i%cols, ids[i/cols], x)
		}
	}
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	if err = idtext.Check([]byte(name)); err != nil {
		return fmt.Errorf("%s: the file's name, which names the category, %w", path, err)
	}
	k := min(components, cols)
	scores, all := principal(a.Float, rows, cols, k), make([]weighted, rows)
	for j := range all {
		all[j] = make(weighted)
		for c, x := range scores[j*k : (j+1)*k] {
			sign := map[bool]string{false: "+", true: "-"}[x < 0]
			if weight := math.Round(math.Abs(x)*weightUnits) / weightUnits; weight > 0 {
				all[j][fmt.Sprintf("%d%s", c, sign)] = weight
			}
		}
	}
	return r.listed(name, path, path+": all its rows are zeros or equal", all)
}

// principal centres the rows of x that are not zero, scales them to norm 1, and returns for each its first k <= cols principal components.
func principal(x []float64, rows, cols, k int) []float64 {
	row := func(j int) []float64 { return x[j*cols : (j+1)*cols] }
	mean, n := make([]float64, cols), 0.
	for j := range rows {
		if floats.Norm(row(j), 2) > 0 {
			floats.Add(mean, row(j))
			n++
		}
	}
	for j := range rows {
		if own := floats.Norm(row(j), 2); own > 0 {
			floats.AddScaled(row(j), -1/n, mean)
			floats.Scale(1/max(floats.Norm(row(j), 2), 1e-6*own), row(j)) // a row that is the mean has its rounding left, and no weight
		}
	}
	all, moment := dense.General(x, rows, cols), dense.General(make([]float64, cols*cols), cols, cols)
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, all, all, 0, moment)
	_, axes := dense.Leading(moment.Data, cols, k)
	for c := range k {
		axis := blas64.Vector{N: cols, Inc: k, Data: axes.Data[c:]}
		blas64.Scal(math.Copysign(1, axis.Data[blas64.Iamax(axis)*k]), axis)
	}
	scores := dense.General(make([]float64, rows*k), rows, k)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, all, axes, 0, scores)
	return scores.Data
}
