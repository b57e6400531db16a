package kernel

import (
	"github.com/fedsim/fedsim/internal/dense"
)

// Variances holds the variances that the variational solver learns. Variances of weights are
// relative to the size of their features.
type Variances struct {
	Residual   float64 // σ², in squared rating units
	UserBias   float64 // of b_i, in squared rating units
	Features   float64 // of each weight of a public feature
	Popularity float64 // of the weight of popularity
}

// NumVariances counts the numbers of Variances.
const NumVariances = 4

// List returns all variances; none for nil.
func (v *Variances) List() []float64 {
	if v == nil {
		return nil
	}
	return []float64{v.Residual, v.UserBias, v.Features, v.Popularity}
}

// VariancesOf returns the variances of a list, in the order of List.
func VariancesOf(x []float64) *Variances { return &Variances{x[0], x[1], x[2], x[3]} }

// startVariances returns the variances of the first fit.
func (p *Params) startVariances() Variances {
	s := dense.Sqr((p.Max - p.Min) / 4)
	return Variances{Residual: 0.8 * s, UserBias: 0.2 * s, Features: 1, Popularity: 1}
}
