package stage

import (
	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/fedssp/serving"
	"github.com/fedsim/fedsim/fedssp/settings"
	"github.com/fedsim/fedsim/fedssp/solver"
	"github.com/fedsim/fedsim/fedssp/user"
	"github.com/fedsim/fedsim/internal/problems"
	"github.com/fedsim/fedsim/protocol"
)

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

// checkSums checks how many sums there are.
func checkSums(p *kernel.Params, e *problems.List) {
	e.If(p.Rounds == 0 && !p.Bias && !p.OnlyPopularity(), "rounds is 0 and there is no bias stage; nothing would be learned")
	switch {
	case p.Resample < 1:
		e.Add("resample is %d; it must be at least 1", p.Resample)
	case p.Resample > 1 && solver.Of(p).CheckResample(p) != "":
		e.Add("resample is %d; %s", p.Resample, solver.Of(p).CheckResample(p))
	case p.Rounds > maxSums/p.Resample:
		e.Add("%d rounds of %d sums are too many; there are at most %d sums", p.Rounds, p.Resample, maxSums)
	}
}

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
