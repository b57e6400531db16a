package experiment

import (
	"math"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/fedssp"
	"github.com/fedsim/fedsim/fedssp/encoder"
)

// Statistics is the part of Config about what users sum in an alternating step, and
// how the server solves for the items (package fedssp).
type Statistics struct {
	Gramian   string `yaml:"gramian"`
	Budgeting string `yaml:"budgeting"`
	Exponent  Number `yaml:"exponent"`
	PerUser   Number `yaml:"per-user"`
	CountCap  Number `yaml:"count-cap"`
	MeanCap   Number `yaml:"mean-cap"`
	BiasFirst string `yaml:"bias-first"`
	Priors    string `yaml:"priors"`
	Memory    Number `yaml:"memory"`

	ClipUser   Number `yaml:"clip-user"`
	ClipRating Number `yaml:"clip-rating"`
	ClipBias   Number `yaml:"clip-bias"`

	UserRidge     Number `yaml:"user-ridge"`
	UserBiasRidge Number `yaml:"user-bias-ridge"`
	TasteWeight   Number `yaml:"taste-weight"`
	ItemRidge     Number `yaml:"item-ridge"`
	ItemPrior     Number `yaml:"item-prior"`
	BiasRidge     Number `yaml:"bias-ridge"`
	Unobserved    Number `yaml:"unobserved"`

	Resample    Number `yaml:"resample"`
	StartSpread Number `yaml:"start-spread"`
	Loss        string `yaml:"loss"`
	LossWidth   Number `yaml:"loss-width"`
	Shares      Shares `yaml:"shares"`
}

// Shares is the part of Config about how μ² is dealt to the releases: see
// fedssp.Shares.
type Shares struct {
	Counts       Number `yaml:"counts"`
	Mean         Number `yaml:"mean"`
	Bias         Number `yaml:"bias"`
	WeightCounts Number `yaml:"weight-counts"`
	Gramian      Number `yaml:"gramian"`
}

// Encoder is the part of Config about the public encoder of items: see
// encoder.Settings.
type Encoder struct {
	Dim       int     `yaml:"dim"`
	Dense     string  `yaml:"dense"`
	IDs       string  `yaml:"ids"`
	StartNorm Number  `yaml:"start-norm"`
	Optimiser string  `yaml:"optimiser"`
	Rate      Number  `yaml:"rate"`
	Decay     string  `yaml:"decay"`
	Steps     Number  `yaml:"steps"`
	Batch     int     `yaml:"batch"`
	WarmStart string  `yaml:"warm-start"`
	Ridge     float64 `yaml:"ridge"`
}

// Collective is the part of Config about the factorization of features beside the
// ratings (DP-CMF): see fedssp.CMFParams.
type Collective struct {
	FeatureWeight Number  `yaml:"feature-weight"`
	FeatureRidge  float64 `yaml:"feature-ridge"`
	Unobserved    float64 `yaml:"unobserved"`
	Sweeps        int     `yaml:"sweeps"`
}

// The words of a choice that the project makes for itself unless it is made.
const (
	yes = "yes"
	no  = "no"
)

func yesIf(v bool) string {
	if v {
		return yes
	}
	return no
}

// implicit reports whether a rating is taken for something that was consumed.
func (c Config) implicit() bool { return c.Feedback == string(fedssp.Implicit) }

// solver is how the server solves for the items. Where an item is known by its id alone
// v_j is all that there is to its encoder, and what gradient steps would end at is had at
// once, unless the statistics change with every step.
func (c Config) solver() fedssp.Solver {
	switch c.Algorithm {
	case DPCMF:
		return fedssp.CMF
	case SSPConvex:
		return fedssp.Convex
	case SSPC, AMSSP:
		if c.exact() {
			return fedssp.Pooled
		}
		if c.Features != "none" || c.Statistics.Resample.Or(1) > 1 {
			return fedssp.Encoded
		}
		return fedssp.ALS
	case SSPI:
		return fedssp.Encoded
	default:
		return fedssp.ALS
	}
}

// exact is the word for an encoder whose best parameters are solved for: a linear one with an
// offset for each item, the priors of which are learned too (fedssp.Pooled).
const exact = "exact"

// exact reports whether items are solved for so.
func (c Config) exact() bool {
	switch c.Encoder.Optimiser {
	case exact:
		return true
	case "auto":
		return c.Algorithm == SSPC && c.Statistics.Gramian != string(fedssp.PerItem) && c.Statistics.Resample.Or(1) == 1
	default:
		return false
	}
}

// learns reports whether priors are learned from the statistics: those of biases, and with
// the exact encoder those of items.
func (c Config) learns() bool {
	return c.solver() == fedssp.Pooled || c.Statistics.Priors != "fixed" && c.biases(c.Statistics)
}

// encodes reports whether items are the output of an encoder.
func (c Config) encodes() bool {
	return c.solver() == fedssp.Encoded || c.solver() == fedssp.Convex && c.Features != "none"
}

// biasOnly reports whether nothing but item biases is learned.
func (c Config) biasOnly() bool { return c.Algorithm == PrivateItemBias }

// usesFeatures reports whether the algorithm learns from public features of items.
func (a Algorithm) usesFeatures() bool {
	switch a {
	case DPCMF, SSPC, SSPI, AMSSP, SSPConvex:
		return true
	default:
		return false
	}
}

// biases reports whether item biases are released first, by the section.
func (c Config) biases(s Statistics) bool {
	switch {
	case c.biasOnly():
		return true
	case s.BiasFirst != "auto":
		return s.BiasFirst == yes
	default: // half of what there is to learn is biases, and they need far less noise
		return c.ours() && !c.implicit()
	}
}

// canTaste reports whether devices may weigh public features for their users: where there are any.
func (c Config) canTaste() bool {
	return c.Algorithm.usesFeatures() && c.Features != "none" && !c.implicit()
}

// ours reports whether the algorithm is not a paper's to the letter.
func (c Config) ours() bool {
	switch c.Algorithm {
	case SSPC, SSPI, DPCMF, SSPConvex:
		return true
	default:
		return false
	}
}

// rank is d, or p.
func (c Config) rank() int {
	if c.biasOnly() {
		return 1 // of embeddings that stay zero
	}
	return int(c.Rank.Or(float64(defaultRank(c))))
}

// counted reports whether item counts are released: where weights or samples go by them.
func (s Statistics) counted() bool {
	return s.Budgeting == string(fedssp.TailSample) || s.Budgeting == string(fedssp.Weights) && s.Exponent.Value > 0
}

// iterations is how many secure sums are attempted.
func (c Config) iterations() int {
	if !c.Algorithm.statistical() {
		return c.rounds()
	}
	s := c.statistics()
	n := c.rounds() * int(s.Resample.Or(1))
	if s.counted() || s.MeanCap.Value > 0 {
		n++
	}
	if c.biases(s) {
		n++
	}
	return n
}

// idleStatistics lists the keys of statistics, and of features, that have no effect with
// the algorithm and the other settings.
func (c Config) idleStatistics() []string {
	sections := slices.DeleteFunc(Keys(), func(key string) bool {
		return !strings.HasPrefix(key, "statistics.") && !strings.HasPrefix(key, "encoder.") && !strings.HasPrefix(key, "cmf.")
	})
	if !c.Algorithm.statistical() {
		return append(sections, "features", "feedback", "split.positive")
	}
	s := c.statistics()
	var list []string
	unless := func(used bool, keys ...string) {
		if !used {
			list = append(list, keys...)
		}
	}
	under := func(section string) []string {
		return slices.DeleteFunc(slices.Clone(sections), func(key string) bool { return !strings.HasPrefix(key, section) })
	}
	bias, items, explicit := c.biases(s), !c.biasOnly(), !c.implicit()
	weights := s.Budgeting == string(fedssp.Weights)
	unless(c.Algorithm.usesFeatures(), "features")
	optimised := c.encodes() || c.solver() == fedssp.Pooled
	unless(c.encodes(), slices.DeleteFunc(under("encoder."), func(key string) bool { return optimised && key == "encoder.optimiser" })...)
	unless(c.solver() == fedssp.CMF, under("cmf.")...)
	unless(weights, "statistics.exponent")
	unless(!weights, "statistics.per-user")
	unless(s.counted(), "statistics.count-cap", "statistics.shares.counts")
	unless(explicit, "statistics.mean-cap")
	unless(explicit && s.MeanCap.Value > 0, "statistics.shares.mean")
	unless(items, "statistics.bias-first", "statistics.gramian", "statistics.clip-user", "statistics.user-ridge", "statistics.resample",
		"statistics.shares.gramian", "rounds", "rank")
	unless(items && explicit && (c.solver() != fedssp.Convex || s.Loss == string(fedssp.Squared)), "statistics.clip-rating")
	pooled := c.solver() == fedssp.Pooled
	unless(items && !c.encodes(), "statistics.start-spread")
	unless(items && !pooled, "statistics.item-ridge", "statistics.item-prior")
	unless(c.canTaste(), "statistics.taste-weight")
	unless(bias, "statistics.clip-bias", "statistics.user-bias-ridge")
	unless(bias && !pooled, "statistics.priors")
	unless(bias && !c.learns(), "statistics.bias-ridge")
	unless(pooled, "statistics.memory")
	unless(bias && items, "statistics.shares.bias")
	unless(!explicit, "statistics.unobserved", "split.positive")
	unless(c.solver() == fedssp.Convex, "statistics.loss")
	unless(s.Loss == string(fedssp.Huber), "statistics.loss-width")
	return list
}

// maxClip is far above all ratings and embeddings, and its inverse far below; variances, in which norms
// are squared twice, stay far from what a float64 holds.
const maxClip = 1e9

// checkStatistics checks what only sums of statistics have.
func (c Config) checkStatistics(k *checker) {
	s := c.Statistics
	k.oneOf("feedback", c.Feedback, string(fedssp.Explicit), string(fedssp.Implicit))
	k.oneOf("statistics.gramian", s.Gramian, "auto", string(fedssp.PerItem), string(fedssp.One))
	k.oneOf("statistics.budgeting", s.Budgeting, "auto", string(fedssp.Weights), string(fedssp.UniformSample), string(fedssp.TailSample))
	k.oneOf("statistics.bias-first", s.BiasFirst, "auto", yes, no)
	k.oneOf("statistics.priors", s.Priors, "auto", "fixed", "learned")
	k.oneOf("statistics.loss", s.Loss, "auto", string(fedssp.Squared), string(fedssp.Huber), string(fedssp.Logistic))
	k.whole("statistics.per-user", s.PerUser, 1, 1e6)
	k.whole("statistics.count-cap", s.CountCap, 1, 1e6)
	k.whole("statistics.mean-cap", s.MeanCap, 0, 1e6)
	k.whole("statistics.resample", s.Resample, 1, 10_000)
	k.within("statistics.taste-weight", s.TasteWeight, 0, 10)
	if s.Memory.Given {
		k.below("statistics.memory", s.Memory.Value, 0, 1)
	}
	k.within("statistics.exponent", s.Exponent, 0, 2)
	k.within("statistics.clip-user", s.ClipUser, 1/maxClip, maxClip)
	k.within("statistics.clip-rating", s.ClipRating, 1/maxClip, maxClip)
	k.within("statistics.clip-bias", s.ClipBias, 1/maxClip, maxClip)
	for _, n := range []struct {
		key string
		Number
	}{
		{"statistics.user-ridge", s.UserRidge}, {"statistics.user-bias-ridge", s.UserBiasRidge}, {"statistics.bias-ridge", s.BiasRidge},
		{"statistics.unobserved", s.Unobserved}, {"statistics.start-spread", s.StartSpread}, {"statistics.loss-width", s.LossWidth},
		{"encoder.start-norm", c.Encoder.StartNorm}, {"encoder.rate", c.Encoder.Rate}, {"cmf.feature-weight", c.CMF.FeatureWeight},
	} {
		if n.Given {
			k.positive(n.key, n.Value)
		}
	}
	for _, n := range []struct {
		key string
		Number
	}{{"statistics.item-ridge", s.ItemRidge}, {"statistics.item-prior", s.ItemPrior}} {
		if n.Given {
			k.below(n.key, n.Value, 0, math.Inf(1))
		}
	}
	if s.ItemRidge == Fixed(0) && s.ItemPrior == Fixed(0) {
		k.bad("statistics.item-prior", "it is 0, and statistics.item-ridge too: an item that hardly anybody rated would have no solution")
	}
	c.checkShares(k)
	c.checkEncoder(k)
	k.positive("cmf.feature-ridge", c.CMF.FeatureRidge)
	k.below("cmf.unobserved", c.CMF.Unobserved, 0, 1)
	k.least("cmf.sweeps", c.CMF.Sweeps, 1)
	if !c.Algorithm.statistical() || len(k.list) > 0 {
		return
	}
	c.checkFeedback(k)
	if c.solver() == fedssp.CMF && c.Features == "none" {
		k.bad("features", "%s factors features beside the ratings; name some, or use %s", c.Algorithm, SSPC)
	}
	switch n := c.statistics().Resample; {
	case n.Value > 1 && !c.encodes():
		k.bad("statistics.resample", "%s solves in closed form here, and takes the statistics of a round once", c.Algorithm)
	case n.Value > 1 && n.Value > c.encoderSteps():
		k.bad("statistics.resample", "%v is above encoder.steps, %v: there is a sum for each gradient step at the most", n.Value, c.encoderSteps())
	}
}

func (c Config) checkEncoder(k *checker) {
	x := c.Encoder
	k.oneOf("encoder.dense", x.Dense, yes, no)
	k.oneOf("encoder.ids", x.IDs, "auto", yes, no)
	k.oneOf("encoder.warm-start", x.WarmStart, yes, no)
	k.oneOf("encoder.optimiser", x.Optimiser, "auto", exact, string(encoder.Adam), string(encoder.SGD))
	if x.Optimiser == exact && c.Algorithm.statistical() {
		switch s := c.Statistics; {
		case c.Algorithm != SSPC && c.Algorithm != AMSSP:
			k.bad("encoder.optimiser", "%s is for %s and %s", exact, SSPC, AMSSP)
		case s.Gramian == string(fedssp.PerItem):
			k.bad("encoder.optimiser", "%s takes statistics.gramian: %s", exact, fedssp.One)
		case s.Resample.Or(1) > 1:
			k.bad("encoder.optimiser", "%s solves for a round's statistics once; statistics.resample must be 1", exact)
		}
	}
	k.oneOf("encoder.decay", x.Decay, string(encoder.Constant), string(encoder.Cosine), string(encoder.Linear))
	k.least("encoder.dim", x.Dim, 0)
	if x.Dim > 0 && x.Dense == no && x.Dim != c.rank() {
		k.bad("encoder.dim", "%d is not the rank %d: embeddings of features are added up where encoder.dense is no", x.Dim, c.rank())
	}
	k.whole("encoder.steps", x.Steps, 1, 1e6)
	k.least("encoder.batch", x.Batch, 0)
	k.below("encoder.ridge", x.Ridge, 0, math.Inf(1))
}

// checkFeedback refuses what there is not without a scale of ratings.
func (c Config) checkFeedback(k *checker) {
	if !c.implicit() {
		return
	}
	switch c.Algorithm {
	case PrivateItemBias, SSPConvex:
		k.bad("feedback", "%s is about ratings on a scale; it takes explicit feedback", c.Algorithm)
	default:
		if c.Statistics.BiasFirst == yes {
			k.bad("statistics.bias-first", "implicit feedback has no scale, and so no biases on it")
		}
	}
}

func (c Config) checkShares(k *checker) {
	s, known := c.Statistics.Shares, len(k.list)
	for _, n := range []struct {
		key string
		Number
	}{
		{"statistics.shares.counts", s.Counts}, {"statistics.shares.mean", s.Mean}, {"statistics.shares.bias", s.Bias},
		{"statistics.shares.weight-counts", s.WeightCounts}, {"statistics.shares.gramian", s.Gramian},
	} {
		if !n.Given {
			continue
		}
		if !(n.Value > 0 && n.Value < 1) {
			k.bad(n.key, "%v is outside; it must be above 0 and below 1", n.Value)
		}
	}
	if before := s.Counts.Value + s.Mean.Value + s.Bias.Value; before >= 1 && len(k.list) == known {
		k.bad("statistics.shares.bias", "the shares of counts, mean and bias are %v together; the statistics need some of 1", before)
	}
}
