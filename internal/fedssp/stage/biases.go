package stage

import (
	"math"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/serving"
	"github.com/fedsim/fedsim/internal/fedssp/settings"
	"github.com/fedsim/fedsim/internal/fedssp/solver"
	"github.com/fedsim/fedsim/internal/fedssp/user"
	"github.com/fedsim/fedsim/protocol"
)

// Biasing is the stage of item biases. It takes one sum or several.
type Biasing struct{}

func (Biasing) Keys() []*config.Key {
	return []*config.Key{settings.Keys.Priors.Key, settings.Keys.PriorStrength.Key, settings.Keys.BiasRounds.Key, settings.Keys.ClipBias.Key, settings.Keys.NormBias.Key, settings.Keys.BiasRidge.Key, settings.Keys.UserBiasRidge.Key, settings.Keys.ShareWeightCounts.Key}
}

// refined multiplies the norm bound of later sums of biases. Item biases, the user's own bias and
// its feature weights leave less of the ratings than the mean does, so a smaller bound is enough.
const refined = 0.85

func (Biasing) Read(p *kernel.Params, s settings.Settings) {
	c := s.Config
	p.BiasParams = kernel.BiasParams{
		Bias: s.Biases(), ClipBias: settings.Keys.ClipBias.Value(c), NormBias: settings.Keys.NormBias.Value(c), BiasRounds: int(settings.Keys.BiasRounds.Or(c, 1)),
		Tilt:      settings.Keys.BiasTilt.Value(c),
		BiasRidge: settings.Keys.BiasRidge.Value(c), UserBiasRidge: settings.Keys.UserBiasRidge.Value(c),
	}
	p.Pool.Strength = settings.Keys.PriorStrength.Value(c)
	if s.Learns() {
		p.Pool.Iterations = serving.PriorSteps
	}
	p.Split.Bias, p.Split.WeightCounts = settings.Keys.ShareBias.Value(c), settings.Keys.ShareWeightCounts.Value(c)
}

func (Biasing) appendReleases(p *kernel.Params, to *schedule) {
	if !p.Bias {
		return
	}
	s, rounds := p.Split, max(p.BiasRounds, 1)
	share := s.Bias / float64(rounds)
	for t := range rounds {
		b, bound := kernel.Step{Phase: kernel.BiasStage}, p.BiasBound()
		if t > 0 {
			b.Phase, bound = kernel.Refine, refined*bound
		}
		b.Add(solver.Weighed(p, solver.RowsOf(p, p.Biased(), kernel.Bias, 1, bound), p.ClipBias), share*(1-s.WeightCounts))
		b.Add(weightCountsRelease(p), share*s.WeightCounts)
		to.steps = append(to.steps, b)
	}
}

// owns says yes to weight counts as well: other stages use the same release.
func (Biasing) owns(release string) bool {
	return release == kernel.Bias || release == kernel.WeightCounts
}
func (Biasing) BeforeChoice(p *kernel.Params) bool { return p.ByWeights }
func (Biasing) Takes(phase string) bool            { return phase == kernel.BiasStage || phase == kernel.Refine }

func (Biasing) Contribute(c *user.Contribution, r protocol.Release) (protocol.Vector, error) {
	if err := c.Weigh(); err != nil {
		return protocol.Vector{}, err
	}
	if r.Name == kernel.Bias {
		return sumsOfBiases(c, r.L2), nil
	}
	return protocol.Vector{Index: c.Items(), Value: slices.Clone(c.Weights)}, nil
}

func (Biasing) Absorb(s *serving.Strategy, r serving.Absorbed, _ protocol.Runner) error {
	tilts := s.KeepWeights(r)
	popularity(s)
	err := SolveBiases(s, r, tilts)
	if s.Before != nil {
		popularity(s) // the weights have moved
	}
	if err != nil || !s.All.ByWeights {
		return err
	}
	return s.Narrow()
}

func weightCountsRelease(p *kernel.Params) protocol.Release {
	r := solver.Weighed(p, solver.RowsOf(p, p.Biased(), kernel.WeightCounts, 1, 1), 1)
	r.L1 = math.Sqrt(float64(r.MaxNonZero)) // Cauchy-Schwarz
	return r
}

// sumsOfBiases is the user's addition to sums of biases. The first sum takes biases. A refined sum
// takes w_j·e_j, where e_j is the clipped residual of the rating after the model's biases, the
// user's own bias and its feature weights.
//
// Its norm is at most the bound that the release declares. With Σ w_j² <= 1 and |e_j| at most
// ClipBias the norm is at most ClipBias. The first sums scale the weights down so that the norm is
// at most NormBias. The bound of refined sums is smaller: the client measures the vector and scales
// it down as a whole if it is longer. The broadcast model has no influence on that bound.
func sumsOfBiases(c *user.Contribution, bound float64) protocol.Vector {
	p, v := c.Params, c.Biases()
	if c.Phase != kernel.Refine {
		return v
	}
	if c.Model.Bias != nil { // else the first sums were lost
		w := user.NewWorkspace(p)
		defer w.Free()
		left := make([]float64, len(c.Ratings.Items))
		w.Residuals(p, c.Model, c.Ratings, left)
		for i, k := range c.Chosen {
			v.Value[i] = c.Weights[i] * dense.Clamp(left[k], p.ClipBias)
		}
	}
	user.Restrain(v.Value, dense.Norm(v.Value), min(bound, p.BiasBound()))
	return v
}

// remaining is the part of an item's missing bias that residuals still show. Users' own fits, of a
// few dozen ratings each, absorb the rest. Chosen on validation data; 0.6 to 0.85 are about as
// good.
const remaining = 0.77

// measured combines the clients' sums for biases of all rounds, for each user. To a sum of residuals, and to the donors' last
// sum, it adds the subtracted biases again, times the weights of the ratings.
func measured(s *serving.Strategy, sums *serving.Sum, given []float64) *serving.Sum {
	if s.Params.BiasRounds <= 1 {
		return sums
	}
	if b := s.Current().Bias; b != nil && !s.StartedIn(kernel.BiasStage) {
		c, n := s.OwnWeights(), s.Params.Total()
		for j, of := range s.Given {
			given[j], c[j] = given[j]/remaining+of*b[j], c[j]-of
		}
		for j, x := range b {
			sums.Value[j] = sums.Value[j]/remaining + max(c[j], 0)/n*x
			sums.Precision[j] *= remaining * remaining
		}
	}
	s.Left = sums.Joined(s.Left)
	return s.Left
}

// popularity sets the feature by which clients model that some users rate popular items differently
// than others. It follows from released weights alone, and its deviation is Params.Popularity.
func popularity(s *serving.Strategy) {
	if p := &s.Params.Params; p.Popularity > 0 {
		c, typical := s.Weights()
		s.Current().Popularity = dense.Scaled(serving.StandardLogs(c, typical), p.Popularity)
	}
}

// SolveBiases solves for b_j: the system of an outer step in one dimension. [serving.Strategy.KeepWeights] returns the tilts.
func SolveBiases(s *serving.Strategy, r serving.Absorbed, tilts []float64) error {
	private, given := r.Sum(kernel.Bias), r.Donated[kernel.Bias]
	for j, x := range given {
		private.Value[j] -= x / s.Params.Total()
	}
	given = serving.Quotients(given, tilts)
	sums, each := s.Biases(measured(s, private.Untilted(tilts), given))
	return solveFor(s, sums, given, each)
}

// Resume solves for the biases of earlier sums, about the mean that is known by now.
func (Biasing) Resume(s *serving.Strategy, _ protocol.Runner) error {
	if s.Weight == nil {
		return nil
	}
	if s.Params.OnlyPopularity() {
		s.Current().Bias = s.Weight
		return nil
	}
	popularity(s)
	sums, each := s.Biases(nil)
	if !s.Params.Bias || sums == nil {
		return nil
	}
	return solveFor(s, sums, nil, each)
}

// solveFor solves for b_j by sums over all clients, with the deviation of the noise of each item. given are the sums of donors,
// which have no noise; nil: there are none.
func solveFor(s *serving.Strategy, sums, given, noise []float64) error {
	p := &s.Params.Params
	if p.Learned() {
		b, err := solver.PooledBiases(s, sums, given, noise)
		if err == nil {
			s.Current().Bias = b
		}
		return err
	}
	c, typical := s.Weights()
	b := slices.Clone(sums)
	if given != nil {
		dense.Axpy(b, 1, given)
	}
	for j := range b {
		rho := dense.Sqr(noise[j]) / typical
		weight := c[j] / (c[j] + rho)
		b[j] = dense.Clamp(weight*b[j]/(weight*c[j]+p.BiasRidge*typical), p.ClipBias)
	}
	s.Current().Bias = b
	return nil
}

// Statistics is the stage of the solver's sums.
type Statistics struct{}

func (Statistics) Keys() []*config.Key {
	return []*config.Key{settings.Keys.BiasFirst.Key, settings.Keys.ShareBias.Key, settings.Keys.ShareWeightCounts.Key, settings.Keys.Growth.Key, settings.Keys.SamplingRate.Key, settings.Keys.UserRidge.Key}
}

func (Statistics) Read(p *kernel.Params, s settings.Settings) {
	c := s.Config
	p.StatisticsParams = kernel.StatisticsParams{
		Gramian: kernel.GramianForm(settings.Keys.Gramian.Of(c)), ClipUser: settings.Keys.ClipUser.Value(c), ClipRating: settings.Keys.ClipRating.Value(c),
		NormItems: settings.Keys.NormItems.Value(c), Unobserved: settings.Keys.Unobserved.Value(c), Rounds: algorithm.Rounds.Int(c),
		Resample: int(settings.Keys.Resample.Or(c, 1)), SamplingRate: settings.Keys.SamplingRate.Value(c), Growth: settings.Keys.Growth.Value(c),
	}
	p.Split.Gramian = settings.Keys.ShareGramian.Value(c)
	p.ItemRidge, p.ItemPrior, p.StartSpread = settings.Keys.ItemRidge.Value(c), settings.Keys.ItemPrior.Value(c), settings.Keys.StartSpread.Value(c)
	solver.Of(p).Read(p, s)
}

// maxSums is the most sums of statistics in a run, far more than a budget is worth dividing among.
// A schedule contains each of them, and every reader of a statement computes the schedule.
const maxSums = 100_000

// appendReleases adds the solver's releases. The first sum brings weight counts if no earlier stage did.
func (Statistics) appendReleases(p *kernel.Params, to *schedule) {
	s := p.Split
	sums := p.Rounds * p.Resample
	left := 1 - s.Counts - s.Mean - s.Bias
	parts := parts(p, sums)
	for t := range sums {
		step := kernel.Step{Phase: kernel.Statistics}
		each := left * parts[t]
		if !p.Bias && p.WeighsItems() {
			if t == 0 {
				step.Add(weightCountsRelease(p), left*s.WeightCounts)
			}
			each *= 1 - s.WeightCounts
		}
		solver.Of(p).AppendReleases(p, &step, each)
		to.steps = append(to.steps, step)
	}
}

// owns takes the releases of no other stage.
func (Statistics) owns(string) bool                 { return true }
func (Statistics) BeforeChoice(*kernel.Params) bool { return false }
func (Statistics) Takes(phase string) bool          { return phase == kernel.Statistics }

func (Statistics) Contribute(c *user.Contribution, r protocol.Release) (protocol.Vector, error) {
	return solver.Of(c.Params).Contribute(c, r.Name)
}

func (Statistics) Absorb(s *serving.Strategy, r serving.Absorbed, run protocol.Runner) error {
	if r.Values[kernel.WeightCounts] != nil {
		s.KeepWeights(r)
	}
	if s.Weight == nil && !s.Params.Solver.Traits().ByUser {
		return nil
	}
	return s.Solving.Solve(s, Undone(&s.Params.Params, r), run)
}

// Resume solves for the items of earlier sums.
func (Statistics) Resume(s *serving.Strategy, run protocol.Runner) error {
	if x, ok := s.Solving.(serving.Resumer); ok && s.Params.Rounds > 0 {
		return x.Resume(s, run)
	}
	return nil
}

// parts divides the statistics' μ² among so many sums. The parts add up to 1.
func parts(p *kernel.Params, sums int) []float64 {
	parts, each, all := make([]float64, sums), 1., 0.
	for t := range parts {
		parts[t] = each
		all += each
		if p.Growth != 0 {
			each *= p.Growth
		}
	}
	for t := range parts {
		parts[t] /= all
	}
	return parts
}
