package encoder

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dense"
)

// EmbedOthers returns the embeddings of other items, items x rank, row by row. Their features have
// the categories and vocabularies of the encoder's own, as with [dataset.ItemFeatures.Pick]. Their
// ids were never trained on, nor were values that none of the encoder's items has: these count as
// zero. An item with nothing else is zero.
func (e *Encoder) EmbedOthers(f *dataset.ItemFeatures) []float64 {
	dim, d := e.settings.Dim, e.rank
	v, h := make([]float64, f.Items*d), make([]float64, e.hidden)
	for j := range f.Items {
		clear(h)
		for k := range f.Categories {
			b := &e.bags[k]
			values, weights := f.Categories[k].Features(j)
			sum := floats.Sum(weights)
			for i, value := range values {
				if b.byValue.start[value] < b.byValue.start[value+1] {
					floats.AddScaled(h[b.column:][:dim], weights[i]/sum, e.theta[b.first+int(value)*dim:][:dim])
				}
			}
		}
		row := v[j*d : (j+1)*d]
		if !e.settings.Dense {
			copy(row, h)
			continue
		}
		blas64.Gemv(blas.Trans, 1, dense.General(e.dense, e.hidden, d), dense.Vector(h), 0, dense.Vector(row))
	}
	return v
}
