package settings

import (
	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/kernel"
)

// WeighingKeys lists the keys of the division of sensitivity among ratings.
func WeighingKeys() []*config.Key {
	return []*config.Key{Keys.Budgeting.Key, Keys.Exponent.Key, Keys.Normalise.Key, Keys.Headroom.Key, Keys.PerUser.Key, algorithm.LeastRatings.Key}
}

func declareWeighing() {
	Keys.Budgeting = Word("statistics.budgeting", []string{string(kernel.Weights), string(kernel.UniformSample), string(kernel.TailSample)}, nil,
		"weights; uniform of dpals and dpsgd", "How a user's sensitivity is dealt to its ratings: by weights, or to a sample of them.",
		func(s Settings, _ *config.Facts) string {
			if s.form().Sampled {
				return string(kernel.UniformSample)
			}
			return string(kernel.Weights)
		})
	// Counts cost more than the weights gain if the biases come first, and with noise weights of
	// 1/4 are worse than equal weights.
	Keys.Exponent = Number("statistics.exponent", config.Between(0, 2), Settings.weights, "0; 0.1 of ada-dpals, ada-dpsgd and am-ssp-ids; 0.25 of am-ssp, am-dpsgd and dp-sgd-mf, as published",
		"How much more a rating of a rare item weighs: by the item's private count to the power of minus this.",
		Always(func(s Settings) float64 {
			if s.form().Dense {
				return 0.25
			}
			return Either(s.form().Weighted, 0.1, 0)
		}))
	Keys.Normalise = config.DeclareText(config.Key{
		Name: "statistics.normalise", Kind: config.Word, Default: string(kernel.PerUserNorm), Words: []string{string(kernel.PerUserNorm), string(kernel.GlobalNorm)},
		When: condition(Settings.weights).When(),
		Help: "How weights are brought to the bound of a user: by each user's own scale, or by one for all users, with larger weights scaled back (multi-task, (11) and (12)).",
	})
	Keys.Headroom = config.DeclareNumber(config.Key{
		Name: "statistics.headroom", Kind: config.Real, Default: "1", Range: config.Between(1e-3, 1e3), When: condition(func(s Settings) bool { return s.weights() && s.global() }).When(),
		Help: "By how much the square of an average user's weights stays below the bound with one scale for all: c(n) of the multi-task paper.",
	})
	// Half as many (multi-task paper, section 5.1) lose more than their noise costs.
	Keys.PerUser = count("statistics.per-user", config.Between(1, 1e6), func(s Settings) bool { return !s.weights() || s.noisyPosteriors() }, "100; 1000 without noise",
		"Most ratings of a user in a sample. With posteriors under noise: how many ratings of a user count in full; if a user has more, each weighs less.", Always(func(s Settings) float64 { return Either(s.Private(), 100, 1000) }))
}

// perUser is Params.PerUser; 0 if all of a user's ratings count in full.
func (s Settings) perUser() int {
	if s.weights() && !s.noisyPosteriors() {
		return 0
	}
	return Keys.PerUser.Int(s.Config)
}

// Weighing returns the settings of the division of sensitivity among ratings.
func (s Settings) Weighing() kernel.WeighingParams {
	c := s.Config
	return kernel.WeighingParams{
		Budgeting: kernel.Budgeting(Keys.Budgeting.Of(c)), Exponent: Keys.Exponent.Value(c), Normalise: kernel.Normaliser(Keys.Normalise.Of(c)),
		Headroom: Keys.Headroom.Value(c), PerUser: s.perUser(), Least: algorithm.LeastRatings.Int(c),
	}
}
