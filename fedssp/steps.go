package fedssp

import (
	"math"

	"github.com/fedsim/fedsim/protocol"
)

// Phases of a run.
const (
	Prepare    = "prepare"
	BiasStage  = "bias"
	Refine     = "refine"
	Popularity = "popularity"
	Statistics = "statistics"
)

// Names of the releases.
const (
	Counts       = "counts"
	Mean         = "mean"
	Bias         = "bias"
	WeightCounts = "weight-counts"
	Gramian      = "gramian"
	Gramians     = "gramians"
	Moments      = "moments"
	Hessians     = "hessians"
	Gradients    = "gradients"
	ByEncoder    = "encoder-gradient"

	SecondMoments = "second-moments"
	FirstMoments  = "first-moments"
	Scales        = "scales"
)

// Step is one iteration of the run: what is asked, and what share of the run's μ² each release
// takes. Shares of all steps add up to 1.
type Step struct {
	Phase    string
	Releases []protocol.Release
	Shares   []float64
}

// commonShare is the part of a sum's second-order share that the Gramian over all users takes where
// implicit feedback releases it beside those of the items: it sums over everybody and needs
// next to nothing.
const commonShare = 0.1

// refined is the bound of what a user adds to later sums of biases, beside that of the first: what biases of items, a user's own and its
// weights of features leave of ratings is less than what its mean does.
const refined = 0.85

// Steps is the schedule: at most one preparation, the bias stage of BiasRounds sums if there is one, then Rounds·Resample
// sums of statistics. Bounds of the releases hold by construction; scale, width and noise are left to
// be set. An error says what is wrong with the settings.
func (q Params) Steps() ([]Step, error) {
	p := &q
	if err := p.Validate(); err != nil {
		return nil, err
	}
	s := p.Shares
	var steps []Step
	var prepare Step
	if p.releasesCounts() {
		prepare.add(p.countsRelease(), s.Counts)
	}
	if p.withMean() {
		prepare.add(protocol.Release{Name: Mean, Len: 2, L2: math.Sqrt2, L1: 2, LInf: 1, MaxNonZero: 2}, s.Mean)
	}
	if prepare.Releases != nil {
		prepare.Phase = Prepare
		steps = append(steps, prepare)
	}
	if p.Bias {
		rounds := max(p.BiasRounds, 1)
		share := s.Bias / float64(rounds)
		for t := range rounds {
			b, bound := Step{Phase: BiasStage}, p.biasBound()
			if t > 0 {
				b.Phase, bound = Refine, refined*bound
			}
			b.add(p.biasRelease(bound), share*(1-s.WeightCounts))
			b.add(p.weightCountsRelease(), share*s.WeightCounts)
			steps = append(steps, b)
		}
	}
	if p.popularity() {
		var all Step
		all.Phase = Popularity
		all.add(p.weightCountsRelease(), 1-s.Counts)
		steps = append(steps, all)
	}
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
		steps = append(steps, step)
	}
	normalise(steps)
	return steps, nil
}

func (s *Step) add(r protocol.Release, share float64) {
	s.Releases, s.Shares = append(s.Releases, r), append(s.Shares, share)
}

// normalise makes the shares of what is released add up to 1.
func normalise(steps []Step) {
	var sum float64
	for _, s := range steps {
		for _, x := range s.Shares {
			sum += x
		}
	}
	for _, s := range steps {
		for i := range s.Shares {
			s.Shares[i] /= sum
		}
	}
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

// atMost is a norm that is bounded as it is, and by the settings if they say one.
func atMost(norm, bound float64) float64 {
	if norm == 0 {
		return bound
	}
	return min(norm, bound)
}

// biasBound is the largest norm of what a user adds to the sums of biases.
func (p *Params) biasBound() float64 { return atMost(p.NormBias, p.ClipBias) }

// targetBound is the largest target of a rating.
func (p *Params) targetBound() float64 {
	if p.Feedback == Implicit {
		return 1
	}
	return p.ClipRating
}

// rows is a release of a row of the given length for each item that is trained on, of which one user's has norm at
// most w_j·bound.
func (p *Params) rows(name string, length int, bound float64) protocol.Release {
	return p.rowsOf(p.trained(), name, length, bound)
}

func (p *Params) rowsOf(items int, name string, length int, bound float64) protocol.Release {
	return protocol.Release{Name: name, Len: items * length, L2: bound, LInf: bound, MaxNonZero: p.mostRated(items) * length}
}

// mostRated is how many of the items a user contributes to at most. Without sampling it is all of them:
// how many a user rated is private: it must not show in the plan or in a message's length.
func (p *Params) mostRated(items int) int {
	if p.Budgeting == Weights {
		return items
	}
	return min(p.PerUser, items)
}

// biased is how many items have biases that are released: those that are trained on or, where weights choose these, all.
func (p *Params) biased() int {
	if p.ByWeights {
		return p.Items
	}
	return p.trained()
}

func (p *Params) biasRelease(bound float64) protocol.Release {
	return p.rowsOf(p.biased(), Bias, 1, bound)
}

func (p *Params) weightCountsRelease() protocol.Release {
	r := p.rowsOf(p.biased(), WeightCounts, 1, 1)
	r.L1 = math.Sqrt(float64(r.MaxNonZero)) // Cauchy-Schwarz
	return r
}

// countsRelease: at most θ_c ones, so that the L1 norm is at most θ_c and the L2 norm √θ_c.
func (p *Params) countsRelease() protocol.Release {
	most := min(p.CountCap, p.Items)
	return protocol.Release{Name: Counts, Len: p.Items, L2: math.Sqrt(float64(most)), L1: float64(most), LInf: 1, MaxNonZero: most}
}

// length is how many coordinates the release of a name has; 0: there is none of that name.
func (p *Params) length(name string) int {
	switch name {
	case Mean:
		return 2
	case Counts:
		return p.Items
	case Bias, WeightCounts:
		return p.biased()
	default:
		return p.solver().length(p, name)
	}
}
