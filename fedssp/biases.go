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

// BiasParams holds the settings of item biases.
type BiasParams struct {
	// Bias releases item biases first. Each user then has a bias of its own, which stays with its
	// client. Explicit feedback only.
	Bias     bool
	ClipBias float64 // Γ of the residuals
	// NormBias bounds the norm of everything a user adds to the sums of biases. A longer vector is
	// scaled down as a whole, together with the user's part of the divisor, so the user's ratings
	// weigh less and mean the same. With 0 the clipping of single ratings is the only bound.
	NormBias float64
	// BiasRounds counts the sums that biases are learned from; 0 is 1. A later sum takes the
	// residuals that earlier biases and the users' fits leave. Residuals are smaller than ratings,
	// and so is the noise. An item's bias follows from all sums together.
	BiasRounds int
	// BiasRidge pulls b_j to zero with the weight of so many ratings, however many ratings the item
	// has. It is 1/τ² for a prior deviation of τ and residuals of about 1.
	BiasRidge float64
	// UserBiasRidge is the client's ridge on its user's bias, in ratings.
	UserBiasRidge float64
}

// biasing is the stage of item biases. It takes one sum or several.
type biasing struct{}

func (biasing) keys() []*config.Key {
	return []*config.Key{keys.priors.Key, keys.priorStrength.Key, keys.biasRounds.Key, keys.clipBias.Key, keys.normBias.Key, keys.biasRidge.Key, keys.userBiasRidge.Key, keys.shareWeightCounts.Key}
}

// posteriorsBias is the share of μ² for biases that come before posteriors with noise.
const posteriorsBias = 0.2

// maxBiasRounds limits the sums that biases are learned from.
const maxBiasRounds = 100

// refined multiplies the norm bound of later sums of biases. Item biases, the user's own bias and
// its feature weights leave less of the ratings than the mean does, so a smaller bound is enough.
const refined = 0.85

func declareBiases() {
	keys.biasFirst = config.DeclareText(config.Key{
		Name: "statistics.bias-first", Kind: config.Word, Default: "auto", Auto: "yes of our forms, with explicit feedback", Words: []string{yes, no}, When: items.when(),
		Help:       "Whether private item biases come before the embeddings.",
		ChooseWord: func(c config.Config, _ *config.Facts) string { return yesIf(settingsOf(c).biases()) },
		Check: func(c config.Config) string {
			if s := settingsOf(c); s.implicit() && keys.biasFirst.Is(c, yes) && s.ranked() {
				return "implicit feedback has no scale, and so no biases on it"
			}
			return ""
		},
	})
	keys.priors = word("statistics.priors", []string{"fixed", "learned"}, func(s settings) bool { return s.biases() && !s.pooled() }, "learned",
		"Whether the priors of biases are fixed or learned from the released sums.", func(settings, *config.Facts) string { return "learned" })
	keys.priorStrength = number("statistics.prior-strength", config.AtLeast(0), func(s settings) bool { return s.biases() && s.learns() }, "100 where little can be learned, else 0",
		"Weight of public typical values in the learned priors of biases, in items. With 0 typical values also leave the mean and the number of ratings of items alone.",
		byFacts(func(s settings, f *config.Facts) float64 { return either(s.starved(f), 100, 0) }))
	keys.biasRounds = count("statistics.bias-rounds", config.Between(1, maxBiasRounds), biased, "2 where little can be learned, else 1",
		"Secure sums that biases are learned from. Later sums use the residuals of earlier ones.",
		byFacts(func(s settings, f *config.Facts) float64 {
			return either(s.starved(f) && !keys.chooseBy.Is(s.Config, byWeights), 2, 1)
		}))
	keys.clipBias = number("statistics.clip-bias", clips(), biased, "7/16 of the scale, or half of it", "Largest residual of a rating in the sums for biases, in stars.",
		byFacts(func(s settings, f *config.Facts) float64 { return either(s.learns(), 0.875, 1) * halfScale(f) }))
	// The sum of a user's ratings varies less than a single rating, and the noise grows with the
	// bound.
	keys.normBias = longest("norm-bias", biased, "a quarter of the scale, a sixth where little can be learned; 0 without noise",
		"Largest norm of everything a user adds to the sums for biases, in stars: a longer vector is scaled down. 0: only single ratings are clipped.",
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
			if settingsOf(c).starved(f) {
				return config.Fixed(max(1-starvedRest-keys.shareMean.Value(c)-keys.shareCounts.Value(c), starvedRest))
			}
			if settingsOf(c).noisyPosteriors() {
				return config.Fixed(posteriorsBias) // sums of posteriors learn biases too
			}
			return config.Fixed(biasShare(algorithm.Epsilon.Value(c), f.Users, settingsOf(c).usersOfBiases(f)))
		},
		Check: checkShares,
	})
	// With a small budget the popularity of items is most of what rankings can learn.
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

// answers says yes to weight counts as well: other stages use the same release.
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

// biasBound is the largest norm of a user's addition to the sums of biases.
func (p *Params) biasBound() float64 { return atMost(p.NormBias, p.ClipBias) }

// biased counts the items whose biases are released: the items that are trained on or, if weights
// choose those, all items.
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

// biases is w_j·(y - μ - b_i) with the residual clipped. b_i is the user's shrunken mean residual.
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

// sumsOfBiases is the user's addition to sums of biases. The first sum takes biases. A refined sum
// takes w_j·e_j, where e_j is the clipped residual of the rating after the model's biases, the
// user's own bias and its feature weights.
//
// Its norm is at most the bound that the release declares. With Σ w_j² <= 1 and |e_j| at most
// ClipBias the norm is at most ClipBias. The first sums scale the weights down so that the norm is
// at most NormBias. The bound of refined sums is smaller: the client measures the vector and scales
// it down as a whole if it is longer. The broadcast model has no influence on that bound.
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

// keepWeights stores the released weights and averages them over several rounds.
func (s *Strategy) keepWeights(r absorbed) {
	weight, noise := dense.Scaled(r.values[WeightCounts], 1/r.users), r.noise[WeightCounts]/r.users
	s.weight, s.weightNoise = averaged(s.weight, s.weightNoise, weight, noise)
}

// averaged is the mean of two noisy measurements of the same vector, weighted by the inverse noise
// variances, with the noise deviation of the result. Without a first measurement it returns the
// second.
func averaged(first []float64, noise1 float64, second []float64, noise2 float64) ([]float64, float64) {
	if first == nil {
		return second, noise2
	}
	share := 0.5 // weight of the second
	if v := dense.Sqr(noise1) + dense.Sqr(noise2); v > 0 {
		share = dense.Sqr(noise1) / v
	}
	out := dense.Scaled(first, 1-share)
	dense.Axpy(out, share, second)
	return out, math.Hypot((1-share)*noise1, share*noise2)
}

// left holds the sums for biases of the rounds so far, scaled to N clients. Each comes with the
// biases that were subtracted before it. nil: none.
type left struct {
	sums  []float64
	noise float64
}

// remaining is the part of an item's missing bias that residuals still show. Users' own fits, of a
// few dozen ratings each, absorb the rest. Chosen on validation data; 0.6 to 0.85 are about as
// good.
const remaining = 0.77

// measured combines the sums for biases of all rounds, and returns the deviation of their noise. To
// a sum of residuals it adds the subtracted biases again, times the weights of the ratings.
func (s *Strategy) measured(sums []float64, noise float64) ([]float64, float64) {
	p, n := &s.params.Params, s.params.total()
	if p.BiasRounds <= 1 {
		return sums, noise
	}
	if b := s.Current().Bias; b != nil {
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

// popularity sets the feature by which clients model that some users rate popular items differently
// than others. It follows from released weights alone, and its deviation is Params.Popularity.
func (s *Strategy) popularity() {
	if p := &s.params.Params; p.Popularity > 0 {
		c, typical := s.weights()
		s.Current().Popularity = dense.Scaled(standardLogs(c, typical), p.Popularity)
	}
}

// solveBiases solves for b_j: the system of an outer step in one dimension.
func (s *Strategy) solveBiases(r absorbed) error {
	p, n := &s.params.Params, s.params.total()/r.users
	sums, noise := s.measured(dense.Scaled(r.values[Bias], n), r.noise[Bias]*n)
	if p.learned() {
		b, err := s.pooledBiases(sums, noise)
		if err == nil {
			s.Current().Bias = b
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
	s.Current().Bias = b
	return nil
}
