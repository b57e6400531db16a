// Package fedmf is the family of federated matrix factorization: it registers the algorithms, declares their keys and makes
// their parties from a configuration. Package kernel has what the parties compute.
package fedmf

import (
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/fedmf/kernel"
)

type family struct {
	about     algorithm.About
	gradients bool // parties send gradients and not embeddings
	langevin  bool // parties take Langevin steps
}

func (f *family) About() *algorithm.About { return &f.about }

func (f *family) Open(s *algorithm.Setup) (algorithm.Instance, error) {
	p, err := ParamsOf(s)
	if err != nil {
		return nil, err
	}
	var x algorithm.Instance
	switch f.about.Clients {
	case algorithm.ItemParties:
		x, err = openVertical(s, p, f)
	case algorithm.UserParties:
		x, err = openHorizontal(s, p, f)
	default:
		x, err = openUsers(s, p)
	}
	if err != nil {
		return nil, err
	}
	return x, s.CheckRanges()
}

func gradients(c config.Config) bool {
	f, ok := algorithm.Of(c).(*family)
	return ok && f.gradients
}

func init() {
	declareKeys()
	for _, f := range []*family{
		{about: users("lfl-sgdmf", "matrix factorization with one client per user, secure sums and distributed noise", "FMF, section 6")},
		{about: vertical("vfl-sgdmf", "matrix factorization between organisations that each own some items and share the users' embeddings", "FMF, section 4")},
		{about: horizontal("hfl-sgdmf", "matrix factorization between organisations that each have some users and share the items' embeddings", "FMF, section 5")},
		{about: horizontal("hfl-synsgd", "hfl-sgdmf that averages noisy gradients after every step instead of embeddings after several", "FMF, section 5.3"), gradients: true},
		{about: vertical("dp-sgld", "samples factorizations by noisy Langevin steps, by default in one place: the baseline of vfl-sgdmf", "FMF, Figure 5; Liu, Wang, Smola 2015"), langevin: true},
		{about: plain(users("fmf-lfl", "lfl-sgdmf without noise", "FMF, section 6"))},
		{about: plain(vertical("fmf-vfl", "vfl-sgdmf without noise", "FMF, section 4"))},
		{about: plain(horizontal("fmf-hfl", "hfl-sgdmf without noise", "FMF, section 5"))},
	} {
		switch {
		case f.gradients: // one step a round
			f.about.Rounds = algorithm.Always(1000)
		case f.langevin:
			f.about.OneParty, f.about.Keys = true, langevinKeys
		case f.about.Private && f.about.Clients == algorithm.Users:
			f.about.LocalNoise = true // its steps follow from the noise in the sum, no matter which client added it
		}
		algorithm.MustRegister(f)
	}
}

func plain(a algorithm.About) algorithm.About {
	a.Private = false
	a.Keys = slices.DeleteFunc(slices.Clone(a.Keys), func(k *config.Key) bool { return k == algorithm.NoiseDraw.Key })
	return a
}

func users(name, help, paper string) algorithm.About {
	return algorithm.About{
		Name: name, Help: help, Paper: paper, Clients: algorithm.Users, Noise: algorithm.DistributedNoise, Private: true, ByUser: true,
		Units: []dp.Unit{dp.User}, Relation: dp.ZeroOut,
		OtherUnit: "a client of " + name + " is a user and u_i is trained on all its ratings, so one rating moves whatever the user sends: privacy is stated per user",
		Keys:      userKeys,
		Rounds:    algorithm.Always(10), // users talk rarely (FMF paper, section 6.3)
		// In ten noisy rounds nothing above rank 1 is learnt: on the synthetic sets ranks 1 to 20
		// end within 0.004 of one another, and rank 1 sends least.
		Rank: algorithm.Always(1),
	}
}

func vertical(name, help, paper string) algorithm.About {
	return algorithm.About{
		Name: name, Help: help, Paper: paper, Clients: algorithm.ItemParties, Noise: algorithm.PartyNoise, Private: true,
		Units: []dp.Unit{dp.Rating, dp.User}, Relation: dp.AddRemove,
		Genres: func(c config.Config) bool { return partition.Is(c, string(split.CategoryPartition)) },
		Keys:   verticalKeys, Rounds: algorithm.Always(100), Rank: algorithm.Always(1), // FMF paper, section 4.3
	}
}

func horizontal(name, help, paper string) algorithm.About {
	return algorithm.About{
		Name: name, Help: help, Paper: paper, Clients: algorithm.UserParties, Noise: algorithm.PartyNoise, Private: true,
		Units: []dp.Unit{dp.User}, Relation: dp.AddRemove,
		OtherUnit: "a party of " + name + " fits u_i to all ratings of the user without noise, so one rating moves every row of V that the user touches, by more than the bound for one rating; " +
			"the provable bound is worse than privacy per user, which the run states",
		Keys: horizontalKeys, Rounds: algorithm.Always(100), Rank: algorithm.Always(1),
	}
}

// Central describes an algorithm with all ratings in one place, without noise and with the keys of a start and of users' fits.
func Central(name, help, paper string) algorithm.About {
	return algorithm.About{
		Name: name, Help: help, Paper: paper, Clients: algorithm.Nobody, Units: []dp.Unit{dp.User}, OtherUnit: name + " protects nothing",
		Relation: dp.ZeroOut,
		Keys:     append([]*config.Key{algorithm.Rank.Key}, fitKeys...), Rounds: algorithm.Always(0), Rank: algorithm.Always(20), // FMF paper, section 4.3
	}
}

// The keys of matrix factorization.
var (
	contribution, partition, clipping, train, pretrain                       config.TextKey
	clipNorm, localSteps, itemSteps, samplingRate, ClipRatings               config.NumberKey
	LearningRate, userRate, itemRate, density, fineTune                      config.NumberKey
	fitSteps, fitRidge, prior                                                config.NumberKey
	fitKeys, userKeys, partyKeys, verticalKeys, horizontalKeys, langevinKeys []*config.Key
)

// The words of train.
const (
	trainItems = "items"
	trainBoth  = "both"
)

// The words of pretrain.
const (
	yes = "yes"
	no  = "no"
)

const (
	// startMean is the prediction before training, as a share of the scale's top: 3.5 of 5 stars.
	startMean = 0.7
	// startSpread is the relative spread of the start of embeddings: enough to let ranks differ, too
	// little to be seen in the error.
	startSpread = 0.01
	// fineTuneRate is the step of an HFL party's fine-tuning for one rating. localPasses is the number
	// of passes over a party's own ratings of the baseline local_only.
	fineTuneRate = 0.01
	localPasses  = 5
	// defaultDensity is a guess for sets without published counts.
	defaultDensity = 0.01
)

// declareKeys must run before the algorithms that use the keys are declared.
func declareKeys() {
	declareUserKeys()
	declarePartyKeys()
	declareModelKeys()
	fitKeys = []*config.Key{fitSteps.Key, fitRidge.Key}
	userKeys = slices.Concat(algorithm.Federated(), fitKeys,
		[]*config.Key{algorithm.Rank.Key, algorithm.CohortSize.Key, algorithm.CohortOver.Key, algorithm.Rounds.Key, algorithm.NoiseDraw.Key, algorithm.StartFrom.Key, contribution.Key, clipNorm.Key, LearningRate.Key})
	partyKeys = slices.Concat(algorithm.Federated(),
		[]*config.Key{algorithm.Rank.Key, algorithm.Rounds.Key, algorithm.Parties.Key, localSteps.Key, samplingRate.Key, ClipRatings.Key, clipping.Key, clipNorm.Key,
			userRate.Key, itemRate.Key, density.Key})
	verticalKeys = slices.Concat(partyKeys, []*config.Key{partition.Key, itemSteps.Key, algorithm.StartFrom.Key})
	langevinKeys = append(slices.DeleteFunc(slices.Clone(verticalKeys), func(k *config.Key) bool {
		return k == clipping.Key || k == clipNorm.Key || k == algorithm.StartFrom.Key
	}), prior.Key)
	horizontalKeys = slices.Concat(partyKeys, fitKeys, []*config.Key{algorithm.StartFrom.Key, train.Key, pretrain.Key, fineTune.Key})
}

func declareUserKeys() {
	contribution = config.DeclareText(config.Key{ // lfl-sgdmf names the paper's algorithm
		Name: "contribution", Kind: config.Word, Default: string(kernel.OneRating), Words: []string{string(kernel.OneRating), string(kernel.AllRatings)}, Flag: true, Placeholder: "WHAT",
		Help: "Ratings in a user's gradient: one-rating (the paper's form) or all-ratings, clipped to --clip-norm, which learns far more from the same budget.",
	})
	clipNorm = config.DeclareNumber(config.Key{
		Name: "clip-norm", Kind: config.Real, Default: "5", Range: config.Positive(), Flag: true, Placeholder: "C", // 2 to 10 end within 0.004
		Help: "Largest norm of an all-ratings contribution, or of a unit's gradient with --clipping gradient or both.",
		When: func(c config.Config) bool {
			if algorithm.Of(c).About().Has(contribution.Key) {
				return contribution.Is(c, string(kernel.AllRatings))
			}
			return !byEmbeddings(c)
		},
	})
}

func declarePartyKeys() {
	partition = config.DeclareText(config.Key{ // random needs no categories
		Name: "partition", Kind: config.Word, Default: string(split.RandomPartition), Words: []string{string(split.RandomPartition), string(split.CategoryPartition)},
		Flag: true, Placeholder: "HOW", Help: "How items are dealt to parties.",
		When: func(c config.Config) bool { return algorithm.Parties.Chosen(c) > 1 },
	})
	localSteps = config.DeclareNumber(config.Key{ // FMF paper, section 4.3
		Name: "local-steps", Kind: config.Whole, Default: "auto", Auto: "10; 1 with hfl-synsgd", Range: config.Between(1, 100_000), Flag: true, Placeholder: "N",
		Help:         "Steps that a party takes between two averages.",
		ChooseNumber: config.Either(gradients, config.Fixed(1), config.Fixed(10)),
		Check: func(c config.Config) string {
			if gradients(c) && localSteps.Chosen(c) != 1 {
				return fmt.Sprintf("%s averages the gradient of a single step; it must be 1", algorithm.Name.Of(c))
			}
			return ""
		},
	})
	itemSteps = config.DeclareNumber(config.Key{
		Name: "item-steps", Kind: config.Whole, Default: "0", Range: config.AtLeast(0), Flag: true, Placeholder: "N",
		Help: "Last steps of vfl-sgdmf, on items alone.",
	})
	samplingRate = config.DeclareNumber(config.Key{ // the paper's 0.01 needs more noise than it saves time
		Name: "sampling-rate", Kind: config.Real, Default: "0.05", Range: config.Above(0, 1), Flag: true, Placeholder: "Q",
		Help: "Chance of a unit to be in the sample of a step.",
	})
	ClipRatings = config.DeclareNumber(config.Key{
		Name: "clip-ratings", Kind: config.Whole, Default: "auto", Auto: "10, 5 or 2, by the number of parties; 0, which trims nothing, with unit rating and where gradients are clipped", Range: config.Between(0, 1e6),
		Flag: true, Placeholder: "N", Help: "Most ratings of a user that a party trains on, with unit user.",
		When:         func(c config.Config) bool { return algorithm.UnitOf(c) == dp.User },
		ChooseNumber: func(c config.Config, _ *config.Facts) config.Number { return config.Fixed(defaultClipRatings(c)) },
		Check:        checkClipRatings,
	})
	clipping = config.DeclareText(config.Key{
		Name: "clipping", Kind: config.Word, Default: string(kernel.EmbeddingClipping), Words: []string{string(kernel.EmbeddingClipping), string(kernel.GradientClipping), string(kernel.BothClippings)},
		Flag: true, Placeholder: "HOW", Help: "Bound of a party's gradients: embedding (the paper's form), gradient (DP-SGD, to --clip-norm) or both, which needs far less noise.",
	})
	train = config.DeclareText(config.Key{
		Name: "train", Kind: config.Word, Default: "auto", Auto: "items; both for hfl-synsgd, as in the paper, and if users are not pre-trained", Words: []string{trainItems, trainBoth}, Flag: true, Placeholder: "WHAT",
		Help:       "Embeddings that an HFL party trains in a step: items (its users are fitted before) or both.",
		ChooseWord: config.Either(func(c config.Config) bool { return gradients(c) || !pretrains(c) }, trainBoth, trainItems),
	})
}

// pretrains reports whether users are fitted before anything is shared. Only parties of HFL in the
// vanilla form do not fit them.
func pretrains(c config.Config) bool {
	return pretrain.Is(c, yes) || algorithm.Of(c).About().Clients != algorithm.UserParties
}

// defaultClipRatings is θ (FMF paper, sections 4.3 and 5.3); 0 if nothing is trimmed. If a user's
// whole gradient is clipped, trimming would only lose ratings.
func defaultClipRatings(c config.Config) float64 {
	if algorithm.UnitOf(c) == dp.Rating || !byEmbeddings(c) {
		return 0
	}
	switch s := algorithm.Parties.Chosen(c); {
	case s == 1 || !algorithm.Of(c).About().Has(algorithm.Parties.Key) || algorithm.Of(c).About().Clients == algorithm.UserParties:
		return 10
	case s <= 10:
		return 5
	default:
		return 2
	}
}

// byEmbeddings reports whether the norms of embeddings alone bound a gradient.
func byEmbeddings(c config.Config) bool {
	return slices.Contains([]kernel.Clipping{kernel.EmbeddingClipping, kernel.ResidualClipping}, clippingOf(c))
}

// clippingOf returns how a run bounds gradients: Langevin steps have their own way.
func clippingOf(c config.Config) kernel.Clipping {
	if f, ok := algorithm.Of(c).(*family); ok && f.langevin {
		return kernel.ResidualClipping
	}
	return kernel.Clipping(clipping.Of(c))
}

func checkClipRatings(c config.Config) string {
	unit, theta := algorithm.UnitOf(c), ClipRatings.Chosen(c)
	switch {
	case !algorithm.Of(c).About().Has(ClipRatings.Key):
		return ""
	case unit == dp.User && theta < 1 && byEmbeddings(c):
		return "with unit user and clipping embedding a party must trim each user, to at least 1 rating"
	case unit == dp.Rating && theta > 0:
		return "with unit rating nothing is trimmed: which ratings of a user are kept would depend on the others"
	default:
		return ""
	}
}

func declareModelKeys() {
	byNoise := "by the noise: what learns most of it"
	real := func(name, standard, auto string, r config.Range, help string) config.NumberKey {
		return config.DeclareNumber(config.Key{Name: "model." + name, Kind: config.Real, Default: standard, Auto: auto, Range: r, Help: help})
	}
	whole := func(name, standard string, low float64, help string) config.NumberKey {
		return config.DeclareNumber(config.Key{Name: "model." + name, Kind: config.Whole, Default: standard, Range: config.AtLeast(low), Help: help})
	}
	fitted := func(k config.NumberKey) config.NumberKey {
		k.When = pretrains
		return k
	}
	LearningRate = real("learning-rate", "auto", byNoise, config.Positive(), "Step of the server, or of sgd-mf for one rating.")
	userRate = real("user-rate", "auto", byNoise, config.Positive(), "Step of parties on the embeddings of users.")
	itemRate = real("item-rate", "auto", byNoise, config.Positive(), "Step of parties on the embeddings of items.")
	density = config.DeclareNumber(config.Key{
		Name: "model.density", Kind: config.Real, Default: "auto", Auto: "by the published counts of the data set, else 0.01", Range: config.Above(0, 1),
		Help: "Share of all pairs of a user and an item that are rated; parties scale their steps by it. Reading it from the ratings would cost privacy.",
		ChooseNumber: config.ByFacts(func(_ config.Config, f *config.Facts) float64 {
			if f.Published > 0 {
				return float64(f.Published) / float64(f.Users) / float64(f.Items)
			}
			return defaultDensity
		}),
	})
	pretrain = config.DeclareText(config.Key{ // FMF paper, section 5.1: yes makes it HFL-SGDMF
		Name: "model.pretrain", Kind: config.Word, Default: yes, Words: []string{yes, no},
		Help: "Whether an HFL party fits its users to their ratings before items are trained. With no, users begin at random and are trained in stages 2 and 3: the paper's vanilla form.",
		Check: config.Against(func(c config.Config) bool {
			return pretrain.Is(c, no) && train.Is(c, trainItems) && algorithm.Of(c).About().Clients == algorithm.UserParties
		}, "with train items no step would train users that begin at random; use train both"),
	})
	prior = config.DeclareNumber(config.Key{
		Name: "model.prior", Kind: config.Real, Default: "1", Range: config.AtLeast(0),
		Help: "Precision of the Gaussian prior of embeddings in dp-sgld; a rating's error there has the precision 2.",
	})
	fineTune = whole("fine-tune", "5", 0, "Passes over its own ratings with which an HFL party fine-tunes: 5 are best for parties of 15 to 600 users, more overfit.")
	fitSteps = fitted(whole("fit-steps", "50", 0, "Most steps in which a user's embedding is fitted to its ratings: converged for the ranks that noise allows."))
	fitRidge = fitted(real("fit-ridge", "1", "", config.AtLeast(0), "How many ratings the start of a user's embedding weighs: with 1 a user with one rating is believed half, and cold users do not overfit."))
}
