package settings

import (
	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/kernel"
)

// PosteriorsKey chooses whether users send moments of posteriors.
var PosteriorsKey config.TextKey

// declarePosteriors declares the key that chooses this solver. Keys are chosen in the order of
// their declaration, so this key comes before the keys that depend on it.
func declarePosteriors() {
	PosteriorsKey = Word("statistics.posteriors", []string{yes, no}, func(s Settings) bool { return s.Items() && s.form().Offers(withPosteriors) && !s.Implicit() },
		"yes of ssp-c without noise or where it is small: ε at least 100, and ε·users at least 3000 times the items, at most 20000",
		"Whether users send moments of the posteriors of their embeddings, not embeddings as if they were certain, and items have posteriors.", Settings.posteriors)
	PosteriorsKey.Check = func(c config.Config) string {
		if PosteriorsKey.Is(c, yes) {
			return Of(c).problemOfPosteriors()
		}
		return ""
	}
}

// withPosteriors reports whether a solver has posteriors of items: it learns priors, and needs all
// items in double precision.
func withPosteriors(x kernel.Traits) bool { return x.Learns && x.Exact }

// Variational reports whether users contribute moments of posteriors. They do if the noise allows
// it and no setting needs another solver.
func (s Settings) Variational() bool {
	switch {
	case PosteriorsKey.Is(s.Config, yes):
		return s.problemOfPosteriors() == ""
	case PosteriorsKey.Is(s.Config, no):
		return false
	default: // with noise, facts decide: see posteriors
		return !s.Private() && s.problemOfPosteriors() == "" && Keys.Gramian.Is(s.Config, "auto")
	}
}

// Decided settles the choice of posteriors, for keys that are chosen before it.
func (s Settings) Decided(f *config.Facts) Settings {
	return Settings{s.Config.Choose([]*config.Key{PosteriorsKey.Key}, f)}
}

func (s Settings) noisyPosteriors() bool { return s.Private() && s.Variational() }

// problemOfPosteriors says why users cannot send moments of posteriors; "" if they can.
func (s Settings) problemOfPosteriors() string {
	switch c := s.Config; {
	case !s.form().Offers(withPosteriors):
		return "they are of ssp-c"
	case s.Implicit():
		return "they are of explicit feedback"
	case Keys.Gramian.Is(c, string(kernel.One)):
		return "each item has its own; statistics.gramian must be " + string(kernel.PerItem)
	case !Keys.Optimiser.Is(c, "auto") && !Keys.Optimiser.Is(c, exact):
		return "they are solved for; encoder.optimiser must be " + exact
	case Keys.Resample.Or(c, 1) > 1:
		return "a round's statistics are taken once; statistics.resample must be 1"
	case !s.Biases():
		return "biases come first; statistics.bias-first must be yes"
	case !Keys.Budgeting.Is(c, "auto") && !Keys.Budgeting.Is(c, string(kernel.Weights)):
		return "all ratings take part; statistics.budgeting must be " + string(kernel.Weights)
	case Keys.SamplingRate.Or(c, 1) < 1:
		return "all users take part; statistics.sampling-rate must be 1"
	case s.OfSomeItems():
		return "they are of all items; leave out statistics.top-items and statistics.items-file"
	default:
		return ""
	}
}

// Posteriors are worth their noise from leastSignal on, and their bytes from leastEpsilon on.
//
// The variance of the noise in an item's sums is inversely proportional to μ², about 2ε, and
// proportional to the number of a user's ratings that count in full. An average item has
// users/items times as many ratings. So ε·users/items is, up to a constant, the ratio of an average
// item's sum to the variance of its noise, and it is public.
//
// On validation data of MovieLens latest-small posteriors gain 0.011 RMSE at 630 and lose 0.003 at
// 190. On synthetic:ml-1m they gain 0.003 at 1630 and lose 0.010 at 490. On the 600 users of
// synthetic:small they lose 0.005 at 1950 and gain 0.002 at 3000.
const (
	leastSignal  = 3000
	leastEpsilon = 100
)

// posteriors chooses whether users send moments of posteriors, if the settings leave it open.
func (s Settings) posteriors(f *config.Facts) string {
	switch {
	case !s.Private():
		return yesIf(s.Variational())
	case s.problemOfPosteriors() != "" || !Keys.Gramian.Is(s.Config, "auto"):
		return no
	case f == nil:
		return "auto"
	}
	epsilon := algorithm.Epsilon.Chosen(s.Config)
	return yesIf(epsilon >= leastEpsilon && epsilon*float64(f.Users) >= leastSignal*float64(f.Items) && !s.wide(f))
}
