package settings

import (
	"math"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/dense"
)

// biasShare is the biases' share of μ². If few users share a small budget, biases are most of what
// can be learned. On validation data with 6,040 users the best shares at ε of 1, 5 and 20 were
// about 0.95, 0.6 and 0.5. With 610 users 0.7 to 0.95 were best at each ε.
//
// For a wide catalogue without features, users are counted as if it were not wide. In
// synthetic:libimseti-20000, with 168,791 items of 14 ratings each, the budget of statistics is
// better spent on biases.
func biasShare(epsilon float64, users int, of float64) float64 {
	return min(max(0.95-0.215*math.Log(epsilon*of/6040), 0.5), 0.95) - (meanShare(epsilon, users) - leastMean)
}

// leastMean and mostMean bound the mean's share of μ².
const (
	leastMean = 0.01
	mostMean  = 0.05
)

// meanShare is the mean's share of μ² if biases follow. Its noise should move the mean by about
// 0.05 stars on a scale of five, if the budget reaches that far. The predictions of users with few
// ratings are close to the mean.
func meanShare(epsilon float64, users int) float64 {
	return min(max(leastMean*dense.Sqr(2640/(epsilon*float64(users))), leastMean), mostMean)
}

// users is ε·users: the budget that the users of a run share.
func (s Settings) users(f *config.Facts) float64 {
	return algorithm.Epsilon.Chosen(s.Config) * float64(f.Users)
}

// Scarce reports whether ε·users is too small to learn embeddings of single items without biases
// before them: less than three times MovieLens 1M's users at ε = 1.
func (s Settings) Scarce(f *config.Facts) bool { return s.users(f) < 3*6040 }

// fewUsers reports whether ε·users is small and items are not many beside the users.
func (s Settings) fewUsers(f *config.Facts) bool { return s.users(f) < 5000 && f.Items <= 2*f.Users }

// refines reports whether biases are refined in a second sum. If items are many beside users,
// features say most about an item, and a second sum of half the budget costs more than it says. In
// a wide catalogue weights choose the items after one sum, unless the budget is small.
func (s Settings) refines(f *config.Facts) bool {
	return s.Private() && s.Biases() && s.Learns() && !s.Variational() && f != nil && f.Items <= 2*f.Users && (!s.wide(f) || s.fewUsers(f))
}

// starved reports whether the budget hardly suffices for biases alone: ε·users is below MovieLens
// 1M's at ε = 1.
func (s Settings) starved(f *config.Facts) bool { return s.refines(f) && s.fewUsers(f) }

// holds reports whether public typical values hold the priors, and V near zero. A few hundred items
// say too little about the deviation of V, and EM takes noise for it. On synthetic:small V costs
// 0.016 and 0.004 RMSE at ε = 10 and 20. On synthetic:ml-1m it gains 0.004 at ε = 2, which is 12,080
// for ε·users.
func (s Settings) holds(f *config.Facts) bool {
	return s.starved(f) || s.refines(f) && s.users(f) <= 20_000 && s.users(f)*float64(f.Items) < 15e6
}

// These shares are for a starved run: biases get all except the mean's share and a last bit. Weight
// counts are drawn to their own law and need little.
const (
	starvedMean   = 0.02
	starvedRest   = 0.005 // of statistics
	starvedCounts = 0.1
)
