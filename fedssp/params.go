package fedssp

import (
	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/fedssp/settings"
	"github.com/fedsim/fedsim/fedssp/solver"
	"github.com/fedsim/fedsim/fedssp/stage"
)

// paramsOf returns the public settings of the algorithm, with nothing left open.
func paramsOf(setup *algorithm.Setup) kernel.Params {
	c := setup.Config
	s := settings.Of(c)
	p := kernel.Params{
		Items: setup.Data.Items, Rank: int(algorithm.Rank.Or(c, s.Rank())), Min: setup.Bottom(), Max: setup.Top(),
		Feedback: kernel.Feedback(algorithm.Feedback.Chosen(c)), Features: setup.Features, Seed: algorithm.Seed.Of(c),
		Cache: new(kernel.ChoiceCache), Single: s.Broadcasts() && settings.Keys.Broadcast.Is(c, settings.Single),
		WeighingParams: s.Weighing(), UserParams: s.User(setup.Features), OrderWeight: s.OrderWeight(),
	}
	p.Solver = solver.ALS // never asked without embeddings
	if x := s.Solver(); x != nil {
		p.Solver = x
	}
	for _, x := range stage.All {
		x.Read(&p, s)
	}
	p.TopItems = s.TopItems(p.Items)
	p.ByWeights = p.TopItems > 0 && settings.Keys.ChooseBy.Is(c, settings.ByWeights)
	if !s.Items() { // biases get the whole budget, and nothing else is fitted
		p.Rank, p.Rounds, p.SamplingRate = 1, 0, 1
		p.Gramian, p.ClipUser, p.ClipRating, p.UserRidge, p.ItemPrior, p.StartSpread = kernel.One, 1, 1, 1, 1, 1
		p.Split.Bias, p.Resample = 1-p.Split.Counts-p.Split.Mean, 1
		if s.Popular() {
			p.Solver, p.Unobserved, p.Split.Bias, p.Split.WeightCounts = solver.ALS, 1, 0, 0.5 // none of these settings is used
		}
	}
	return p
}

// list reads the public list of items, if there is one.
func list(p *kernel.Params, s *algorithm.Setup) error {
	path := settings.Keys.ItemsFile.Of(s.Config)
	if path == "" || s.Public() || !settings.BySums(settings.Of(s.Config)) {
		return nil
	}
	listed, err := read.ListedItems(s.Data, path)
	if err != nil {
		return config.Errorf("statistics.items-file: %w", err)
	}
	p.Listed, p.TopItems = listed, len(listed)
	return nil
}
