package internal_test

import (
	"fmt"

	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/solver"
	"github.com/fedsim/fedsim/internal/fedssp/stage"
)

// The schedule of biases first and one Gramian: what is released when, how long it is, how far one user can
// move it, and what it takes of the run's μ².
func Example_stages() {
	steps, err := stage.Steps(kernel.Params{
		Items: 1000, Rank: 8, Min: 1, Max: 5, Feedback: kernel.Explicit,
		Split:            kernel.BudgetSplit{Mean: 0.01, Bias: 0.49, WeightCounts: 0.1, Gramian: 0.02},
		MeanCap:          50,
		BiasParams:       kernel.BiasParams{Bias: true, ClipBias: 1.5, BiasRidge: 4, UserBiasRidge: 2},
		StatisticsParams: kernel.StatisticsParams{Gramian: kernel.One, ClipUser: 0.5, ClipRating: 1, Rounds: 2, Resample: 1},
		WeighingParams:   kernel.WeighingParams{Budgeting: kernel.Weights},
		UserParams:       kernel.UserParams{UserRidge: 1},
		SolverParams:     kernel.SolverParams{Solver: solver.ALS, ItemRidge: 0.03, ItemPrior: 3, StartSpread: 0.1},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, s := range steps {
		for k, r := range s.Releases {
			fmt.Printf("%d %-10s %-13s %5d %.2f %.3f\n", i+1, s.Phase, r.Name, r.Len, r.L2, s.Shares[k])
		}
	}
	// Output:
	// 1 prepare    mean              2 1.41 0.010
	// 2 bias       bias           1000 1.50 0.441
	// 2 bias       weight-counts  1000 1.00 0.049
	// 3 statistics gramian          36 0.25 0.005
	// 3 statistics moments        8000 0.50 0.245
	// 4 statistics gramian          36 0.25 0.005
	// 4 statistics moments        8000 0.50 0.245
}
