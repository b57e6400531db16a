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
func (p Params) Steps() ([]Step, error) {
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
		p.addStatistics(&step, each)
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

// addStatistics adds what an alternating step sums, for a share of μ².
func (p *Params) addStatistics(s *Step, share float64) {
	if p.descends() {
		s.add(p.gradientRelease(), share)
		return
	}
	second, first := share*p.Shares.Gramian, share*(1-p.Shares.Gramian)
	curvature, name := 1.0, Moments
	items := Gramians
	if p.Solver == Convex {
		curvature, name = p.curvatureBound(), Gradients
		items = Hessians
	}
	norm2 := p.ClipUser * p.ClipUser
	if p.Solver == Variational {
		p.addMoments(s, second, first)
		return
	}
	if p.Gramian == One || p.Feedback == Implicit {
		common := protocol.Release{Name: Gramian, Len: p.packed(), L2: norm2, LInf: norm2, MaxNonZero: p.packed()}
		if p.Gramian == One {
			s.add(common, second)
		} else {
			s.add(common, second*commonShare)
			second *= 1 - commonShare
		}
	}
	if p.Gramian == PerItem {
		s.add(p.rows(items, p.packed(), curvature*norm2), second)
	}
	s.add(p.rows(name, p.Rank, p.itemsBound()), first)
}

// addMoments adds what a step of the variational solver sums ([contribution.variational]). No rating weighs more
// than 1/√m.
func (p *Params) addMoments(s *Step, second, first float64) {
	norm2, each := p.ClipUser*p.ClipUser, 1/math.Sqrt(float64(p.Items))
	items, biased := p.rows(SecondMoments, p.packedJoint(), norm2), p.rows(FirstMoments, p.joint(), p.ClipRating*p.ClipUser)
	items.LInf *= each
	biased.LInf *= each
	s.add(protocol.Release{Name: Gramian, Len: p.packed(), L2: norm2, LInf: norm2, MaxNonZero: p.packed()}, second*commonShare)
	s.add(protocol.Release{Name: Scales, Len: numScales, L2: p.scalesBound() * math.Sqrt(numScales), LInf: p.scalesBound(), MaxNonZero: numScales}, second*commonShare)
	s.add(items, second*(1-2*commonShare))
	s.add(biased, first)
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

// itemsBound is that of moments or gradients.
func (p *Params) itemsBound() float64 {
	switch {
	case p.Solver == Convex:
		return atMost(p.NormItems, p.slopeBound()*p.ClipUser)
	case p.descends():
		return atMost(p.NormItems, p.Descent.Clip)
	}
	return atMost(p.NormItems, p.targetBound()*p.ClipUser)
}

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
	case Gramian:
		return p.packed()
	case Scales:
		return numScales
	case SecondMoments:
		return p.Items * p.packedJoint()
	case FirstMoments:
		return p.Items * p.joint()
	case Gramians, Hessians:
		return p.trained() * p.packed()
	case Moments, Gradients:
		return p.trained() * p.Rank
	case ByEncoder:
		if !p.byUser() {
			return 0
		}
		return p.parameters()
	default:
		return 0
	}
}
