// Package itemmean is an algorithm that fedsim does not have: a private mean of every item.
// Importing it makes it known.
package itemmean

import (
	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/algorithm/peruser"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

const most = 20 // ratings of a user that count, each by two numbers of at most 1: the norm is at most √40

func init() {
	peruser.Algorithm{
		Name: "item-mean", Help: "a private mean of every item", Rounds: 1, Rank: 1,
		Release: func(s *algorithm.Setup) protocol.Release { // Σ(x - middle)/half, and how many
			return protocol.Release{Name: "means", Len: 2 * s.Data.Items, L2: 6.33, LInf: 1, MaxNonZero: min(2*most, 2*s.Data.Items)}
		},
		Start: func(s *algorithm.Setup) *model.Matrix { return model.NewMatrix(s.Data.Items, 1) },
		Contribute: func(s *algorithm.Setup, _ *model.Matrix, r model.Ratings, _ entropy.Source, _ uint64) (protocol.Vector, error) {
			v := protocol.Vector{Index: []uint32{}}
			for k := range min(most, len(r.Items)) {
				v.Index = append(v.Index, uint32(2*r.Items[k]), uint32(2*r.Items[k]+1))
				v.Value = append(v.Value, (2*float64(r.Values[k])-s.Data.Max-s.Data.Min)/(s.Data.Max-s.Data.Min), 1)
			}
			return v, nil
		},
		Absorb: func(_ *algorithm.Setup, m *model.Matrix, sum []float64, _ int, _ uint64) {
			for j := range m.Rows() {
				m.Row(j)[0] = sum[2*j] / (max(sum[2*j+1], 0) + 30) // as if 30 users more had given the middle
			}
		},
		Predict: func(s *algorithm.Setup, m *model.Matrix, _ model.Ratings, out []float64) {
			for j := range out {
				out[j] = (s.Data.Max + s.Data.Min + m.Row(j)[0]*(s.Data.Max-s.Data.Min)) / 2
			}
		},
	}.MustRegister()
}
