package peruser_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"github.com/fedsim/fedsim"
	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/algorithm/peruser"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// An algorithm whose shared model is one number, the mean of all ratings. It runs by its value.
func ExampleNew() {
	release := protocol.Release{Name: "level", Len: 2, L2: 20, MaxNonZero: 2} // a sum of ratings, and how many
	level, err := peruser.New(peruser.Algorithm{
		Name: "level", Help: "one mean of all ratings", Rounds: 1, Rank: 1,
		Release: func(*algorithm.Setup) protocol.Release { return release },
		Rows:    func(*algorithm.Setup) []string { return []string{"level"} },
		Start:   func(*algorithm.Setup) *model.Matrix { return model.NewMatrix(1, 1) },
		Contribute: func(s *algorithm.Setup, _ *model.Matrix, r model.Ratings, _ entropy.Source, _ uint64) (protocol.Vector, error) {
			v := protocol.Vector{Value: make([]float64, 2)}
			for _, stars := range r.Values {
				v.Value[0] += float64(stars) - s.Data.Min
				v.Value[1]++
			}
			return peruser.Clip(v, release), nil
		},
		Absorb: func(s *algorithm.Setup, m *model.Matrix, sum []float64, _ int, _ uint64) {
			m.Row(0)[0] = s.Data.Min + sum[0]/math.Max(sum[1], 1)
		},
		Predict: func(_ *algorithm.Setup, m *model.Matrix, _ model.Ratings, out []float64) {
			for j := range out {
				out[j] = m.Row(0)[0]
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	result, err := fedsim.Run(context.Background(), fedsim.Options{Own: level, Epsilon: 5, Settings: map[string]string{"data": "synthetic:small"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: RMSE %.1f\n", result.Algorithm, result.RMSE())
	// Output:
	// level: RMSE 1.1
}

// A vector of norm 10 is shrunk to the norm 5 that the release allows.
func ExampleClip() {
	v := peruser.Clip(protocol.Vector{Value: []float64{6, 0, 8}}, protocol.Release{Len: 3, L2: 5, MaxNonZero: 2})
	fmt.Println(v.Index, v.Value)
	// Output:
	// [0 2] [3 4]
}
