package fedssp

import (
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// BiasParams are the settings of item biases.
type BiasParams struct {
	// Bias: item biases are released first, and a user has a bias of its own, which
	// stays with the client. Explicit feedback only.
	Bias     bool
	ClipBias float64 // Γ of the residuals
	// NormBias is the largest norm of all that a user adds to the sums of biases. What would be longer is scaled down as a whole, and with it the
	// user's part of what the sums are divided by: its ratings weigh less, and say nothing else. 0: what the clipping of single ratings comes to.
	NormBias float64
	// BiasRounds is how many sums biases are learned from; 0 is 1. Later ones are of what the biases before, and users' fits to them, leave of
	// ratings, which is less, and so is the noise; an item's bias is what all of them say together.
	BiasRounds int
	// BiasRidge is how many ratings' weight pulls b_j to zero, whatever an item's ratings. It is 1/τ² for a prior deviation of τ and residuals
	// of about 1.
	BiasRidge float64
	// UserBiasRidge is what the client adds to the diagonal for its user's bias.
	UserBiasRidge float64
}

// biasing is the stage of item biases, of one sum or several.
type biasing struct{}

func (biasing) keys() []*config.Key {
	return []*config.Key{keys.priors.Key, keys.priorStrength.Key, keys.biasRounds.Key, keys.clipBias.Key, keys.normBias.Key, keys.biasRidge.Key, keys.userBiasRidge.Key, keys.shareWeightCounts.Key}
}

// posteriorsBias is the share of biases before posteriors under noise.
const posteriorsBias = 0.2

// maxBiasRounds is how many sums biases are learned from at most.
const maxBiasRounds = 100

// refined is the bound of what a user adds to later sums of biases, beside that of the first: what biases of items, a user's own and its
// weights of features leave of ratings is less than what its mean does.
const refined = 0.85

// declareBiases declares the keys of item biases.
func declareBiases() {
	keys.biasFirst = config.DeclareText(config.Key{
		Name: "statistics.bias-first", Kind: config.Word, Default: "auto", Auto: "yes of our forms, with explicit feedback", Words: []string{yes, no}, When: items.when(),
		Help:       "Whether private item biases come before the embeddings.",
		ChooseWord: func(c config.Config, _ *config.Facts) string { return yesIf((settings{c}).biases()) },
		Check: func(c config.Config) string {
			if s := (settings{c}); s.implicit() && keys.biasFirst.Is(c, yes) && s.ranked() {
				return "implicit feedback has no scale, and so no biases on it"
			}
			return ""
		},
	})
	keys.priors = word("statistics.priors", []string{"fixed", "learned"}, func(s settings) bool { return s.biases() && !s.pooled() }, "learned",
		"Whether the priors of biases are fixed or learned from the released sums.", func(settings, *config.Facts) string { return "learned" })
	keys.priorStrength = number("statistics.prior-strength", config.AtLeast(0), func(s settings) bool { return s.biases() && s.learns() }, "100 where little can be learned, else 0",
		"How many items' worth what is usual of ratings weighs in learned priors of biases; with 0 the mean and how often items are rated are not held to it either.",
		byFacts(func(s settings, f *config.Facts) float64 { return either(s.starved(f), 100, 0) }))
	keys.biasRounds = count("statistics.bias-rounds", config.Between(1, maxBiasRounds), biased, "2 where little can be learned, else 1",
		"Secure sums that biases are learned from, the later ones from what is left of ratings.",
		byFacts(func(s settings, f *config.Facts) float64 {
			return either(s.starved(f) && !keys.chooseBy.Is(s.Config, byWeights), 2, 1)
		}))
	keys.clipBias = number("statistics.clip-bias", clips(), biased, "7/16 of the scale, or half of it", "Largest residual of a rating in the sums for biases, in stars.",
		byFacts(func(s settings, f *config.Facts) float64 { return either(s.learns(), 0.875, 1) * halfScale(f) }))
	// What all of a user's ratings come to together varies less than one of them does, and the noise grows with its bound.
	keys.normBias = longest("norm-bias", biased, "a quarter of the scale, a sixth where little can be learned; 0 without noise",
		"Largest norm of all that a user adds to the sums for biases, in stars: a longer one is scaled down. 0: what single ratings are clipped to.",
		settings.normBias)
	keys.userBiasRidge = number("statistics.user-bias-ridge", config.Positive(), biased, "5", "Ridge of a user's own bias.", value(5))
	keys.biasRidge = number("statistics.bias-ridge", config.Positive(), func(s settings) bool { return s.biases() && !s.learns() }, "4", "How many ratings pull a bias to zero, with fixed priors.", value(4))
	keys.shareBias = config.DeclareNumber(config.Key{
		Name: "statistics.shares.bias", Kind: config.Real, Default: "auto", Auto: "0.2 with posteriors, else 0.5 to 0.95, by ε and how many users there are, of a wide catalogue without features by how many for each item", Range: config.Inside(0, 1),
		When: condition(func(s settings) bool { return s.biases() && s.items() }).when(), Help: "Share of the budget for item biases.",
		ChooseNumber: func(c config.Config, f *config.Facts) config.Number {
			if f == nil {
				return config.Auto
			}
			if (settings{c}).starved(f) {
				return config.Fixed(max(1-starvedRest-keys.shareMean.Value(c)-keys.shareCounts.Value(c), starvedRest))
			}
			if (settings{c}).noisyPosteriors() {
				return config.Fixed(posteriorsBias) // sums of posteriors learn biases too
			}
			return config.Fixed(biasShare(algorithm.Epsilon.Value(c), f.Users, settings{c}.usersOfBiases(f)))
		},
		Check: checkShares,
	})
	// What many liked is most of what rankings know where little can be learned.
	keys.shareWeightCounts = share("weight-counts", func(s settings) bool { return !s.popular() && (s.biases() || !s.byUser()) }, "0.3, 0.1 where little can be learned; 0.8 of rankings", "Part of the biases' share, or else of the statistics', that is for how much each item was rated.",
		byFacts(func(s settings, f *config.Facts) float64 {
			return either(s.starved(f), starvedCounts, either(s.poolsRanks(), 0.8, 0.3))
		}))
}

func checkShares(c config.Config) string {
	sum := 0.
	for _, k := range []config.NumberKey{keys.shareCounts, keys.shareMean, keys.shareBias} {
		if !c.InRange(k.Key) {
			return ""
		}
		sum += k.Value(c)
	}
	if sum >= 1 {
		return fmt.Sprintf("the shares of counts, mean and bias are %v together; the statistics need some of 1", sum)
	}
	return ""
}

func (biasing) read(p *Params, s settings) {
	c := s.Config
	p.BiasParams = BiasParams{
		Bias: s.biases(), ClipBias: keys.clipBias.Value(c), NormBias: keys.normBias.Value(c), BiasRounds: int(keys.biasRounds.Or(c, 1)),
		BiasRidge: keys.biasRidge.Value(c), UserBiasRidge: keys.userBiasRidge.Value(c),
	}
	p.Pool.Iterations, p.Pool.Strength = int(either(s.learns(), priorSteps, 0)), keys.priorStrength.Value(c)
	p.Split.Bias, p.Split.WeightCounts = keys.shareBias.Value(c), keys.shareWeightCounts.Value(c)
}

func (biasing) check(p *Params, e *problems) {
	e.share("bias", p.Split.Bias, p.Bias)
	e.share("weight-counts", p.Split.WeightCounts, p.weighsItems())
	if !p.Bias {
		return
	}
	e.within(keys.clipBias, p.ClipBias)
	e.within(keys.normBias, p.NormBias)
	if p.BiasRounds != 0 {
		e.within(keys.biasRounds, float64(p.BiasRounds))
	}
	if !p.learned() {
		e.within(keys.biasRidge, p.BiasRidge)
	}
	e.within(keys.userBiasRidge, p.UserBiasRidge)
}

func (biasing) ask(p *Params, to *schedule) {
	if !p.Bias {
		return
	}
	s, rounds := p.Split, max(p.BiasRounds, 1)
	share := s.Bias / float64(rounds)
	for t := range rounds {
		b, bound := Step{Phase: BiasStage}, p.biasBound()
		if t > 0 {
			b.Phase, bound = Refine, refined*bound
		}
		b.add(p.rowsOf(p.biased(), Bias, 1, bound), share*(1-s.WeightCounts))
		b.add(p.weightCountsRelease(), share*s.WeightCounts)
		to.steps = append(to.steps, b)
	}
}

// answers: weight counts of other stages are the same release.
func (biasing) answers(release string) bool    { return release == Bias || release == WeightCounts }
func (biasing) length(p *Params, _ string) int { return p.biased() }
func (biasing) beforeChoice(p *Params) bool    { return p.ByWeights }
func (biasing) takes(phase string) bool        { return phase == BiasStage || phase == Refine }

func (biasing) contribute(c *contribution, r protocol.Release) (protocol.Vector, error) {
	if err := c.weigh(); err != nil {
		return protocol.Vector{}, err
	}
	if r.Name == Bias {
		return c.sumsOfBiases(r.L2), nil
	}
	return protocol.Vector{Index: c.items(), Value: c.weights}, nil
}

func (biasing) absorb(s *Strategy, r absorbed, _ protocol.Runner) error {
	s.keepWeights(r)
	s.popularity()
	if err := s.solveBiases(r); err != nil || !s.all.ByWeights {
		return err
	}
	return s.narrow()
}

// biasBound is the largest norm of what a user adds to the sums of biases.
func (p *Params) biasBound() float64 { return atMost(p.NormBias, p.ClipBias) }

// biased is how many items have biases that are released: those that are trained on or, where weights choose these, all.
func (p *Params) biased() int {
	if p.ByWeights {
		return p.Items
	}
	return p.trained()
}

func (p *Params) weightCountsRelease() protocol.Release {
	r := p.rowsOf(p.biased(), WeightCounts, 1, 1)
	r.L1 = math.Sqrt(float64(r.MaxNonZero)) // Cauchy-Schwarz
	return r
}

// biases is w_j·(y - μ - b_i), the residual clipped, b_i the user's shrunken mean residual.
func (c *contribution) biases() protocol.Vector {
	p, centre := c.params, c.model.centre()
	var sum float64
	for _, y := range c.ratings.Values {
		sum += float64(y) - centre
	}
	own := sum / (float64(len(c.ratings.Values)) + p.UserBiasRidge)
	v := protocol.Vector{Index: c.items(), Value: make([]float64, len(c.chosen))}
	for i, k := range c.chosen {
		v.Value[i] = c.weights[i] * dense.Clamp(float64(c.ratings.Values[k])-centre-own, p.ClipBias)
	}
	return v
}

// sumsOfBiases is what the user adds to sums of biases: biases or, where those are refined, w_j·e_j with e_j what the model's biases, the user's
// own and its weights of features leave of the rating, clipped.
//
// Its norm is at most the bound that the release declares. With Σ w_j² <= 1 and |e_j| at most ClipBias it is at most ClipBias, and the
// weights are scaled down for that of biases to be at most NormBias. The bound of refined sums is smaller: the vector is measured and, where it is longer,
// scaled down as a whole. Which model was broadcast makes no difference to that.
func (c *contribution) sumsOfBiases(bound float64) protocol.Vector {
	p, v := c.params, c.biases()
	if c.phase != Refine {
		return v
	}
	if c.model.bias != nil { // else the first sums were lost
		w := newWorkspace(p)
		defer w.free()
		left := make([]float64, len(c.ratings.Items))
		w.residuals(p, c.model, c.ratings, left)
		for i, k := range c.chosen {
			v.Value[i] = c.weights[i] * dense.Clamp(left[k], p.ClipBias)
		}
	}
	restrain(v.Value, dense.Norm(v.Value), min(bound, p.biasBound()))
	return v
}

// keepWeights takes in weights, and averages those of several rounds.
func (s *Strategy) keepWeights(r absorbed) {
	weight, noise := dense.Scaled(r.values[WeightCounts], 1/r.users), r.noise[WeightCounts]/r.users
	s.weight, s.weightNoise = averaged(s.weight, s.weightNoise, weight, noise)
}

// averaged is the mean of two measurements of the same by the inverse of the variance of the noise in them, and the deviation of what noise
// it has; the second where there is no first.
func averaged(first []float64, noise1 float64, second []float64, noise2 float64) ([]float64, float64) {
	if first == nil {
		return second, noise2
	}
	share := 0.5 // of the second
	if v := dense.Sqr(noise1) + dense.Sqr(noise2); v > 0 {
		share = dense.Sqr(noise1) / v
	}
	out := dense.Scaled(first, 1-share)
	dense.Axpy(out, share, second)
	return out, math.Hypot((1-share)*noise1, share*noise2)
}

// left are the sums for biases of the rounds so far, each with what biases before it took from it, scaled to N clients. nil: none.
type left struct {
	sums  []float64
	noise float64
}

// remaining is how much of what a bias has missed is left in residuals, when users' own fits have taken the rest for theirs, as they do with a
// few dozen ratings. Chosen on validation data; from 0.6 to 0.85 hardly matters.
const remaining = 0.77

// measured is what all rounds so far say of biases, and the deviation of its noise. A sum that is of what biases left has
// them, times the weights of ratings, added again.
func (s *Strategy) measured(sums []float64, noise float64) ([]float64, float64) {
	p, n := &s.params.Params, s.params.total()
	if p.BiasRounds <= 1 {
		return sums, noise
	}
	if b := s.model.Bias; b != nil {
		c := dense.Scaled(s.weight, n)
		if p.learned() && p.Pool.held() {
			c = shrink(c, s.weightNoise*n, n).mean
		}
		noise /= remaining
		for j, x := range b {
			sums[j] = sums[j]/remaining + max(c[j], 0)*x
		}
	}
	s.left.sums, s.left.noise = averaged(s.left.sums, s.left.noise, sums, noise)
	return s.left.sums, s.left.noise
}

// popularity is what clients weigh for their users: how many rated an item is rated otherwise by some users than by
// others. It follows from what was released, and is of deviation Params.Popularity.
func (s *Strategy) popularity() {
	if p := &s.params.Params; p.Popularity > 0 {
		c, typical := s.weights()
		s.model.Popularity = dense.Scaled(standardLogs(c, typical), p.Popularity)
	}
}

// solveBiases solves for b_j: the system of an outer step in one dimension.
func (s *Strategy) solveBiases(r absorbed) error {
	p, n := &s.params.Params, s.params.total()/r.users
	sums, noise := s.measured(dense.Scaled(r.values[Bias], n), r.noise[Bias]*n)
	if p.learned() {
		b, err := s.pooledBiases(sums, noise)
		if err == nil {
			s.model.Bias = b
		}
		return err
	}
	c, typical := s.weights()
	rho := dense.Sqr(noise) / typical
	b := slices.Clone(sums)
	for j := range b {
		weight := c[j] / (c[j] + rho)
		b[j] = dense.Clamp(weight*b[j]/(weight*c[j]+p.BiasRidge*typical), p.ClipBias)
	}
	s.model.Bias = b
	return nil
}
