package fedssp

import (
	"math"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/fedssp/encoder"
)

// FitCost follows Proposition 2 and (9) of the am-ssp paper. The statistics are taken once for each
// sum. DP-SGD has as many batches in an epoch as gradient steps that cover all items once. Solvers
// that sum gradients have nothing to compare.
func (x *instance) FitCost() (*algorithm.FitCost, error) {
	p := &x.params
	if !p.Encodes() || p.Solver.Traits().FirstOrder || x.setup.Public() || x.setup.Ratings.Len() == 0 {
		return nil, nil
	}
	e, err := p.NewEncoder()
	if err != nil {
		return nil, err
	}
	counts := make([]float64, p.Items)
	x.setup.Ratings.Each(func(_, j int32, _ float32) { counts[j]++ })
	c := &algorithm.FitCost{Batch: p.Items, Pass: e.PassCost()}
	if p.Encoder.Batch > 0 {
		c.Batch = min(p.Encoder.Batch, p.Items)
	}
	batches := math.Ceil(float64(p.Items) / float64(c.Batch))
	c.Epochs = float64(p.Rounds*p.Encoder.Steps) / batches
	ratings := float64(x.setup.Ratings.Len())
	taken := float64(p.Rounds * p.Resample) // times that a rating is in the statistics
	if p.Batched() {
		taken *= p.SamplingRate
	}
	cost := encoder.Cost{Examples: ratings * taken, Items: float64(p.Items), Rank: float64(p.Rank), Pass: c.Pass, Epochs: c.Epochs,
		Visits: encoder.Visits(counts, ratings/batches)}
	c.Visits, c.Ratio = cost.Visits/float64(p.Items), cost.Ratio()
	return c, nil
}
