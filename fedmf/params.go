package fedmf

import (
	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/fedmf/kernel"
)

// ParamsOf returns the settings of a factorization, with its start.
func ParamsOf(s *algorithm.Setup) (kernel.Params, error) {
	c := s.Config
	p := kernel.Params{
		Items: s.Data.Items, Rank: algorithm.Rank.Int(c), MaxRating: s.Top(), Seed: algorithm.Seed.Of(c),
		StartMean: startMean.Value(c), Spread: startSpread.Value(c),
		Fit: kernel.Fit{Steps: fitSteps.Int(c), Ridge: fitRidge.Value(c)},
	}
	if err := p.Validate(); err != nil || !s.Start.Known() {
		return p, config.Wrap(err)
	}
	return p, startFrom(&p, s)
}

// partyParamsOf returns the settings of parties, except the learning rates.
func partyParamsOf(s *algorithm.Setup, p kernel.Params, clients algorithm.Clients) kernel.PartyParams {
	c := s.Config
	out := kernel.PartyParams{
		Params: p, Users: s.Data.Users, Unit: dp.Unit(algorithm.Unit.Of(c)), Clipping: kernel.Clipping(clipping.Of(c)),
		Rounds: algorithm.Rounds.Int(c), LocalSteps: localSteps.Int(c),
		SamplingRate: samplingRate.Value(c), Density: density.Value(c), ClipRatings: ClipRatings.Int(c),
		TrainUsers: train.Is(c, trainBoth), RandomUsers: !pretrains(c), FineTune: fineTune.Int(c), FineTuneRate: fineTuneRate.Value(c),
	}
	if clients == algorithm.ItemParties {
		out.ItemSteps = itemSteps.Int(c)
	}
	out.Clip = clipNorm.Value(c)
	return out
}
