package settings

import (
	"math"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/kernel"
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

// gramianShare is the share of second-order statistics beside the moments. A single Gramian sums
// over all users, so a very small share is enough.
func gramianShare(form string) float64 {
	if form == string(kernel.One) {
		return 0.05
	}
	return 0.3
}

// few reports whether ε·users is too small to learn embeddings of single items without biases
// before them: less than three times MovieLens 1M's users at ε = 1.
func few(epsilon float64, users int) bool { return epsilon*float64(users) < 3*6040 }

// Scarce reports whether ε·users is too small to learn embeddings of single items without biases.
func (s Settings) Scarce(f *config.Facts) bool {
	return few(algorithm.Epsilon.Chosen(s.Config), f.Users)
}

// starved reports whether the budget hardly suffices for biases alone: ε·users is below MovieLens
// 1M's at ε = 1. Then public typical values hold the priors of biases, and biases are refined once.
// If items are many beside users, features say most about an item, and the refinement gained
// nothing.
func (s Settings) starved(f *config.Facts) bool {
	return s.Private() && s.Biases() && s.Learns() && f != nil && s.fewUsers(f)
}

// starvedBelow is a bound on ε·users.
const starvedBelow = 5000

// fewUsers reports whether ε·users is small and items are not many beside the users.
func (s Settings) fewUsers(f *config.Facts) bool {
	return algorithm.Epsilon.Chosen(s.Config)*float64(f.Users) < starvedBelow && f.Items <= 2*f.Users
}

// These shares are for a starved run: biases get all except the mean's share and a last bit. Weight
// counts are drawn to their own law and need little.
const (
	starvedMean   = 0.02
	starvedRest   = 0.005 // of statistics
	starvedCounts = 0.1
)
