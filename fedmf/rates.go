package fedmf

import (
	"math"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/fedmf/kernel"
)

// chooseRate chooses η ([LFLParams]) by the noise: a small η learns little, a large η mostly noise.
// All its inputs are public, so the choice costs no privacy. Its constants were fitted at ε from 1
// to inf on splits of other seeds than the reported ones, on the synthetic sets and, for
// all-ratings, on MovieLens latest-small too.
func chooseRate(s *algorithm.Setup, p kernel.Params) float64 {
	r := s.Schedule.First()
	sigma := math.Sqrt(r.Noise.Target(s.Cohort)) / r.Scale // of the summed gradient
	scale := math.Sqrt(p.StartMean) / float64(s.Cohort.Wanted())
	m := float64(p.Items)
	if p.Contribution == kernel.AllRatings {
		// Two figures count: how far one user can move V, g = η·m·C, and the noise that a
		// prediction gains in a round at g = 1. With g beyond 185, items that half of the
		// users rated overshoot.
		const still, linear, square = 1. / 185, 6, 450
		kappa := scale * sigma / p.Clip
		return 1 / (m * p.Clip * (still + linear*kappa + square*kappa*kappa))
	}
	// With one rating the sum's signal for an item falls with the number of items. So η itself
	// counts, and the noise that a prediction gains at η = 1. Without noise popular items overshoot
	// beyond 0.03. If items outnumber users, a single rating overshoots when it takes its item more
	// than a sixth of the way.
	const linear, square = 5.6, 0.21
	still := max(1/0.03, 6*2*p.StartMean*m/float64(s.Cohort.Wanted()))
	kappa := scale * m * sigma
	return 1 / (still + linear*kappa + square*kappa*kappa)
}

// chooseRates chooses the learning rates of organisations that were given none. Without noise a
// rate is as large as the users and items allow that have far more ratings than their even share.
// With noise, the noise of all steps together moves a prediction by a fixed part of a star: less
// learns too little, more drowns it. All its inputs are public.
func chooseRates(s *algorithm.Setup, p *kernel.PartyParams, clients algorithm.Clients, z float64) {
	userNoise, itemNoise := 0.45, 0.4 // stars of five
	userStill, itemStill := 0.4, 0.1  // in units of the density, of predictions that start at 3.5
	steps := float64(p.Rounds * p.LocalSteps)
	// sway returns how far the noise of all steps moves a prediction at a rate of 1.
	sway := func(both bool, columns, averaged float64) float64 {
		return z * p.Sensitivity(both) * math.Sqrt(p.StartMean*steps/averaged) / (p.SamplingRate * p.Density * columns)
	}
	users, items := float64(p.Users), float64(p.Items)
	parties := algorithm.Parties.Value(s.Config)
	userSway, itemSway := 0., 0.
	if clients == algorithm.ItemParties {
		averaged := parties
		if s.Alone {
			averaged, userNoise = 1, 0.2 // no averaging reduces its own mistakes
		}
		userSway, itemSway = sway(true, items/parties, averaged), sway(true, users, 1)
	} else {
		itemSway = sway(false, users/parties, parties)
		itemNoise, itemStill = 0.6, 0.5 // users do not move along
	}
	// On a longer scale a prediction may sway more, and steps are steeper.
	rate := func(still, noise, sway float64) float64 {
		return 1 / (1/(still*p.Density*(3.5/p.StartMean)) + sway/(noise*(p.MaxRating/5)))
	}
	userRate.Set(&s.Config, userRate.Or(s.Config, rate(userStill, userNoise, userSway)))
	itemRate.Set(&s.Config, itemRate.Or(s.Config, rate(itemStill, itemNoise, itemSway)))
	p.UserRate, p.ItemRate = userRate.Value(s.Config), itemRate.Value(s.Config)
}
