package fedssp

import (
	"fmt"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/protocol"
)

// GramianForm names a form of second-order statistics.
type GramianForm string

const (
	// PerItem releases Σ w u uᵀ over the users who rated an item, for each item.
	PerItem GramianForm = "per-item"
	// One releases a single Σ u uᵀ over all users. Item j's sum is taken as c_j times the mean of u
	// uᵀ, where c_j is the sum of the item's weights. Ours: users send far less, and fewer numbers
	// need noise.
	One GramianForm = "one"
)

// StatisticsParams holds the settings of the sums that the solver asks for.
type StatisticsParams struct {
	Gramian GramianForm
	// ClipUser is Γ_u, ClipRating is Γ_y in rating units.
	ClipUser, ClipRating float64
	// NormItems bounds the norm of everything a user adds to moments or gradients. A longer vector
	// is scaled down as a whole, and second-order statistics with it. 0: the clipping of single
	// ratings is the only bound.
	NormItems float64
	// Unobserved is the weight of an item that the user did not rate, beside 1 for a rated item;
	// implicit feedback only.
	Unobserved float64

	// Rounds is T, the number of outer steps. 0 with Bias learns only biases; 0 with implicit
	// feedback learns only how popular items are. Resample is the number of secure sums in each
	// outer step, each with fresh noise: 1 gives SSP-c, and as many as the encoder's gradient steps
	// give SSP-i. Users keep their embeddings within an outer step. Closed forms take one sum.
	Rounds, Resample int
	// SamplingRate is q, the probability that a user is in the batch of a sum of statistics, by its
	// own secret coin. 0 or 1: all users are (am-ssp paper, Algorithm 4, which samples examples).
	SamplingRate float64
	// Growth is the ratio of a sum's μ² for statistics to the sum before's; 0 means 1.
	Growth float64
}

// statistics is the stage of the solver's sums.
type statistics struct{}

func (statistics) keys() []*config.Key {
	return []*config.Key{keys.biasFirst.Key, keys.shareBias.Key, keys.shareWeightCounts.Key, keys.growth.Key, keys.samplingRate.Key, keys.userRidge.Key}
}

// declareStatistics declares the form of the solver's sums, and the bounds of a user's
// contribution.
func declareStatistics() {
	keys.gramian = word("statistics.gramian", []string{string(PerItem), string(One)}, bySums,
		"one, so that far less is sent and noised; per-item in the papers' algorithms, and with posteriors", "Form of the second-order statistics: one for each item, or a single one for all.",
		func(s settings, _ *config.Facts) string {
			if !s.variational() && (s.form().ours || s.pooled()) {
				return string(One)
			}
			return string(PerItem)
		})
	keys.growth = config.DeclareNumber(config.Key{
		Name: "statistics.growth", Kind: config.Real, Default: "auto", Auto: "1.4 of ssp-c at an epsilon of 3 or more, 1.2 with posteriors, else 1", Range: config.Between(0.1, 10), When: items.when(),
		Help:         "Budget of a sum of statistics, relative to the sum before it.",
		ChooseNumber: func(c config.Config, _ *config.Facts) config.Number { return config.Fixed(settingsOf(c).growth()) },
	})
	keys.resample = config.DeclareNumber(config.Key{
		Name: "statistics.resample", Kind: config.Whole, Default: "auto", Auto: "1; as many as encoder.steps of ssp-i; 5 of dpsgd, ada-dpsgd and am-dpsgd", Range: config.Between(1, 10_000), When: condition(func(s settings) bool { return s.items() && s.solver() != namedJoint }).when(),
		Help: "Secure sums, each with fresh noise, that a round takes of the same statistics, or of gradients.",
		ChooseNumber: func(c config.Config, _ *config.Facts) config.Number {
			switch s := settingsOf(c); {
			case s.form().resampled:
				return config.Fixed(s.encoderSteps())
			case s.descends() && s.solver() != namedJoint:
				return config.Fixed(5)
			default:
				return config.Fixed(1)
			}
		},
		Check: checkResample,
	})
	keys.clipUser = number("statistics.clip-user", clips(), bySums, "1; 4 without noise; √(rank + 1) with posteriors, 3·√rank without noise; 0.3 of rankings", "Largest norm of a user's embedding in what it sends.", always(settings.clipUser))
	// The bound is a star of five. Residuals after biases and mean are seldom larger, and the noise
	// grows with the bound. Without noise the bound matters only if priors are learned: it limits
	// the influence of one rating.
	keys.clipRating = number("statistics.clip-rating", clips(), func(s settings) bool {
		return bySums(s) && !s.implicit() && (s.solver() != namedConvex || lossKey.Chosen(s.Config) == string(Squared))
	}, "a quarter of the scale; all of it without noise and with posteriors", "Largest residual of a rating in what a user sends, in stars.",
		byFacts(func(s settings, f *config.Facts) float64 {
			return either(s.private() && !s.variational() || s.solver() == namedPooled, 0.5, 2) * halfScale(f)
		}))
	keys.normItems = longest("norm-items", func(s settings) bool { return s.items() && !s.byUser() && (!s.variational() || s.private()) }, "an eighth of the scale of our forms, a quarter times clip-user with posteriors; 0 of the papers', without noise, and where no biases come first",
		"Largest norm of all that a user adds to the sums for embeddings of items, likewise.", settings.normItems)
	keys.unobserved = number("statistics.unobserved", config.Positive(), implicit, "0.1 or 0.2", "Weight of what a user did not rate, with implicit feedback.",
		always(func(s settings) float64 { return either(s.poolsRanks(), 0.2, 0.1) }))
	keys.shareGramian = share("gramian", bySums, "0.05 of a single Gramian, 0.3 of one an item", "Part of the statistics' share that is for second-order statistics.",
		always(func(s settings) float64 { return gramianShare(keys.gramian.Chosen(s.Config)) }))
}

func checkResample(c config.Config) string {
	s := settingsOf(c)
	if s.form().name == "" || !c.InRange(keys.steps.Key) || checkOptimiser(c) != "" {
		return "" // another error says enough
	}
	switch n := keys.resample.Chosen(c); {
	case keys.optimiser.Is(c, exact), s.descends(): // checkOptimiser reports it, and every step is one sum
		return ""
	case n > 1 && !s.encodes():
		return fmt.Sprintf("%s solves in closed form here, and takes the statistics of a round once", s.form().name)
	case n > 1 && n > s.encoderSteps():
		return fmt.Sprintf("%v is above encoder.steps, %v: there is at most one sum for each gradient step", n, s.encoderSteps())
	default:
		return ""
	}
}

func (statistics) read(p *Params, s settings) {
	c := s.Config
	p.StatisticsParams = StatisticsParams{
		Gramian: GramianForm(keys.gramian.Of(c)), ClipUser: keys.clipUser.Value(c), ClipRating: keys.clipRating.Value(c),
		NormItems: keys.normItems.Value(c), Unobserved: keys.unobserved.Value(c), Rounds: algorithm.Rounds.Int(c),
		Resample: int(keys.resample.Or(c, 1)), SamplingRate: keys.samplingRate.Value(c), Growth: keys.growth.Value(c),
	}
	p.Split.Gramian = keys.shareGramian.Value(c)
	p.ItemRidge, p.ItemPrior, p.StartSpread = keys.itemRidge.Value(c), keys.itemPrior.Value(c), keys.startSpread.Value(c)
	sideOf(p).read(p, s)
}

// maxSums is the most sums of statistics in a run, far more than a budget is worth dividing among.
// A schedule contains each of them, and every reader of a statement computes the schedule.
const maxSums = 100_000

func (statistics) check(p *Params, e *problems) {
	e.share("gramian", p.Split.Gramian, p.Rounds > 0 && p.Solver.secondOrder())
	if p.Rounds > 0 {
		e.within(keys.normItems, p.NormItems)
		e.within(keys.itemRidge, p.ItemRidge)
		e.within(keys.itemPrior, p.ItemPrior)
	}
	sideOf(p).check(p, e)
	if p.Feedback == Implicit {
		e.within(keys.unobserved, p.Unobserved)
	}
	if p.Gramian != PerItem && p.Gramian != One && p.Solver.secondOrder() {
		e.add("gramian is %q; it must be %s or %s", p.Gramian, PerItem, One)
	}
	e.atLeast("rounds", p.Rounds, 0)
	if p.Rounds == 0 && !p.Bias && !p.popularity() {
		e.add("rounds is 0 and there is no bias stage; nothing would be learned")
	}
	switch {
	case !(p.SamplingRate >= 0 && p.SamplingRate <= 1):
		e.add("sampling-rate is %v; it must be from 0 to 1", p.SamplingRate)
	case p.Resample < 1:
		e.add("resample is %d; it must be at least 1", p.Resample)
	case p.Resample > 1 && sideOf(p).againstSums(p) != "":
		e.add("resample is %d; %s", p.Resample, sideOf(p).againstSums(p))
	case p.Rounds > maxSums/p.Resample:
		e.add("%d rounds of %d sums are too many; there are at most %d sums", p.Rounds, p.Resample, maxSums)
	}
	if p.Growth != 0 {
		e.within(keys.growth, p.Growth)
	}
}

// ask adds the solver's releases. The first sum brings weight counts if no earlier stage did.
func (statistics) ask(p *Params, to *schedule) {
	s := p.Split
	sums := p.Rounds * p.Resample
	left := 1 - s.Counts - s.Mean - s.Bias
	parts := p.parts(sums)
	for t := range sums {
		step := Step{Phase: Statistics}
		each := left * parts[t]
		if !p.Bias && p.weighsItems() {
			if t == 0 {
				step.add(p.weightCountsRelease(), left*s.WeightCounts)
			}
			each *= 1 - s.WeightCounts
		}
		sideOf(p).ask(p, &step, each)
		to.steps = append(to.steps, step)
	}
}

// answers takes the releases of no other stage.
func (statistics) answers(string) bool { return true }

func (statistics) length(p *Params, release string) int { return sideOf(p).length(p, release) }
func (statistics) beforeChoice(*Params) bool            { return false }
func (statistics) takes(phase string) bool              { return phase == Statistics }

func (statistics) contribute(c *contribution, r protocol.Release) (protocol.Vector, error) {
	return sideOf(c.params).contribute(c, r.Name)
}

func (statistics) absorb(s *Strategy, r absorbed, run protocol.Runner) error {
	if r.values[WeightCounts] != nil {
		s.keepWeights(r)
	}
	return s.solving.solve(s, s.params.undone(r), run)
}

// parts divides the statistics' μ² among so many sums. The parts add up to 1.
func (p *Params) parts(sums int) []float64 {
	parts, each, all := make([]float64, sums), 1., 0.
	for t := range parts {
		parts[t] = each
		all += each
		if p.Growth != 0 {
			each *= p.Growth
		}
	}
	for t := range parts {
		parts[t] /= all
	}
	return parts
}
