package fedssp

import (
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/protocol"
)

// GramianForm says which second-order statistic is released.
type GramianForm string

const (
	// PerItem: Σ w u uᵀ over the users who rated an item, for each item.
	PerItem GramianForm = "per-item"
	// One: a single Σ u uᵀ over all users. That of item j is taken to be c_j times its mean, c_j
	// the sum of the item's weights. Ours: far less is sent, and less is noised.
	One GramianForm = "one"
)

// StatisticsParams are the settings of the sums that the solver asks for.
type StatisticsParams struct {
	Gramian GramianForm
	// ClipUser is Γ_u, ClipRating Γ_y in rating units.
	ClipUser, ClipRating float64
	// NormItems is the largest norm of all that a user adds to moments or gradients. What would be longer is scaled down as a whole, and
	// second-order statistics with it. 0: what the clipping of single ratings comes to.
	NormItems float64
	// Unobserved is what an item that a user did not rate weighs beside one it did; implicit feedback only.
	Unobserved float64

	// Rounds is T, the outer steps; 0 with Bias: biases only; 0 with implicit feedback: how popular items are, and nothing else. Resample is how many secure sums,
	// each with fresh noise, are taken in each: 1 is SSP-c, as many as the encoder takes
	// gradient steps SSP-i. Users keep their embeddings within an outer step. Closed forms take one.
	Rounds, Resample int
	// SamplingRate is q, the chance of a user to be in the batch of a sum of statistics, by its own secret coin; 0 or 1: all
	// are (am-ssp paper, Algorithm 4, which samples examples).
	SamplingRate float64
	// Growth is what the statistics of a sum have of μ² beside those of the sum before; 0 is 1, the same.
	Growth float64
}

// statistics is the stage of the solver's sums.
type statistics struct{}

func (statistics) keys() []*config.Key {
	return []*config.Key{keys.biasFirst.Key, keys.shareBias.Key, keys.shareWeightCounts.Key, keys.growth.Key, keys.samplingRate.Key, keys.userRidge.Key}
}

// maxSums is how many sums of statistics a run takes at most, far more than a budget is worth dealing to: a
// schedule has each of them, and is made by everybody to whom settings are stated.
const maxSums = 100_000

func (statistics) check(p *Params, e *problems) {
	e.share("gramian", p.Shares.Gramian, p.Rounds > 0 && p.solver().secondOrder())
	if p.Rounds > 0 {
		e.notNegative("norm-items", p.NormItems)
		e.notNegative("item-ridge", p.ItemRidge)
		e.notNegative("item-prior", p.ItemPrior)
	}
	p.solver().check(p, e)
	if p.Feedback == Implicit {
		e.positive("unobserved", p.Unobserved)
	}
	if p.Gramian != PerItem && p.Gramian != One && p.solver().secondOrder() {
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
	case p.Resample > 1 && p.solver().againstSums(p) != "":
		e.add("resample is %d; %s", p.Resample, p.solver().againstSums(p))
	case p.Rounds > maxSums/p.Resample:
		e.add("%d rounds of %d sums are too many; there are at most %d sums", p.Rounds, p.Resample, maxSums)
	}
	if !(p.Growth >= 0.1 && p.Growth <= 10) && p.Growth != 0 {
		e.add("growth is %v; it must be from 0.1 to 10", p.Growth)
	}
}

// ask: the first sum brings weight counts where no stage before did.
func (statistics) ask(p *Params, to *schedule) {
	s := p.Shares
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
		p.solver().ask(p, &step, each)
		to.steps = append(to.steps, step)
	}
}

// answers: what no other stage does.
func (statistics) answers(string) bool { return true }

func (statistics) length(p *Params, release string) int { return p.solver().length(p, release) }
func (statistics) beforeChoice(*Params) bool            { return false }
func (statistics) takes(phase string) bool              { return phase == Statistics }

func (statistics) contribute(c *contribution, r protocol.Release) (protocol.Vector, error) {
	return c.params.solver().contribute(c, r.Name)
}

func (statistics) absorb(s *Strategy, r absorbed, run protocol.Runner) error {
	if r.values[WeightCounts] != nil {
		s.keepWeights(r)
	}
	return s.solving.solve(s, s.params.undone(r), run)
}

// parts are what each of so many sums has of the statistics' μ², together 1.
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
