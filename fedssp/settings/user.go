package settings

import (
	"math"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/fedssp/kernel"
)

// UserFeatures returns the features that clients weigh for their users; nil: none.
func (s Settings) UserFeatures(f *dataset.ItemFeatures) *kernel.UserFeatures {
	if !s.WeighsFeatures() {
		return nil
	}
	return kernel.NewUserFeatures(f, Keys.UserFeatureWeight.Value(s.Config))
}

// declareUser declares the settings of a user's fit, and of the order of lists.
func declareUser() {
	Keys.UserRidge = Number("statistics.user-ridge", config.Positive(), func(s Settings) bool { return s.Items() && !s.Variational() }, "1 or 2, 3 where gradients are summed, 4 without noise; more at a rank above the default", "Ridge of a user's own fit.",
		Always(func(s Settings) float64 { return s.userRidge() * s.rankPenalty() }))
	Keys.UserFeatureWeight = Number("statistics.user-feature-weight", config.Between(0, 10), Settings.WeighsFeatures, "0.35 of our forms, 0 of the papers'",
		"How strongly users are expected to differ in what they think of public features, which each client fits for itself.",
		Always(func(s Settings) float64 { return Either(s.form().Ours, 0.35*math.Sqrt(s.rankPenalty()), 0) }))
	// With noise 0.15 gains 0.001 to 0.002 RMSE on MovieLens latest-small, and loses 0.0007 on
	// synthetic:ml-1m.
	Keys.PopularityWeight = Number("statistics.user-popularity-weight", config.Between(0, 10), Settings.popularity, "0.15 with posteriors, which learn how much users differ; else 0",
		"How strongly users are expected to differ in what they think of items that many rate, which each client fits for itself.",
		Always(func(s Settings) float64 { return Either(s.Variational(), 0.15, 0) }))
	Keys.OrderWeight = Number("statistics.order-weight", config.Between(0, 1000), Settings.orders, "1 for each quarter of the scale of our forms, 10 of rankings with noise; 0 of rankings without, and of the papers'",
		"Weight of a prediction in the order of lists, in units of the natural logarithm a star. Lists also go by how often items are rated, and by public features of what the user rated. 0: by predictions alone.",
		ByFacts(func(s Settings, f *config.Facts) float64 {
			switch {
			case !s.form().Ours && s.form().LearnsItems:
				return 0
			case s.Implicit():
				return Either(s.Private(), rankedWeight, 0) // exact sums tell more than popularity
			default:
				return 2 / halfScale(f)
			}
		}))
}

// orders reports whether lists may be ordered by how often items are rated, which a release tells. The
// papers' forms release it too, and popularity alone has no other order.
func (s Settings) orders() bool {
	return s.Biases() || s.Implicit() && s.form().LearnsItems && !s.byUser()
}

// OrderWeight is the weight of a prediction in the order of lists; 0: predictions alone order them.
func (s Settings) OrderWeight() float64 {
	return Either(s.orders(), Keys.OrderWeight.Value(s.Config), 0)
}

// User returns the settings of what stays with the client. f holds the public features; nil: none.
func (s Settings) User(f *dataset.ItemFeatures) kernel.UserParams {
	c := s.Config
	return kernel.UserParams{
		UserRidge: Keys.UserRidge.Value(c), UserFeatures: s.UserFeatures(f),
		Popularity: Either(s.popularity(), Keys.PopularityWeight.Chosen(c), 0),
	}
}
