package main

import (
	"math"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/algorithm/peruser"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// levels learns one number, the mean rating, of which a user's ratings count most times at most.
func levels(most float64) (algorithm.Algorithm, error) {
	release := protocol.Release{Name: "level", Len: 2, L2: 2 * most, MaxNonZero: 2}
	return peruser.New(peruser.Algorithm{
		Name: "levels", Help: "one mean of all ratings", Rounds: 1, Rank: 1,
		Release: func(*algorithm.Setup) protocol.Release { return release },
		Rows:    func(*algorithm.Setup) []string { return []string{"level"} },
		Start:   func(*algorithm.Setup) *model.Matrix { return model.NewMatrix(1, 1) },
		Contribute: func(s *algorithm.Setup, _ *model.Matrix, r model.Ratings, _ entropy.Source, _ uint64) (protocol.Vector, error) {
			v := protocol.Vector{Value: make([]float64, 2)}
			for _, stars := range r.Values {
				v.Value[0] += float64(stars) - (s.Data.Min+s.Data.Max)/2
				v.Value[1]++
			}
			return peruser.Clip(v, release), nil
		},
		Absorb: func(s *algorithm.Setup, m *model.Matrix, sum []float64, _ int, _ uint64) {
			m.Row(0)[0] = (s.Data.Min+s.Data.Max)/2 + sum[0]/math.Max(sum[1], 1)
		},
		Predict: func(_ *algorithm.Setup, m *model.Matrix, _ model.Ratings, out []float64) {
			for j := range out {
				out[j] = m.Row(0)[0]
			}
		},
	})
}
