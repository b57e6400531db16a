package kernel

import (
	"fmt"
	"math"

	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedssp/encoder"
	"github.com/fedsim/fedsim/protocol"
)

// Batched reports whether statistics cover a random batch of the users.
func (p *Params) Batched() bool { return p.SamplingRate > 0 && p.SamplingRate < 1 }

// BiasBound is the largest norm of a user's addition to the sums of biases.
func (p *Params) BiasBound() float64 { return atMost(p.NormBias, p.ClipBias) }

// Biased counts the items whose biases are released: the items that are trained on or, if weights
// choose those, all items.
func (p *Params) Biased() int {
	if p.ByWeights {
		return p.Items
	}
	return p.Trained()
}

// Trained counts the items that are trained on.
func (p *Params) Trained() int {
	if p.TopItems > 0 {
		return p.TopItems
	}
	return p.Items
}

// Chooses reports whether private counts or weights choose the items that are trained on.
func (p *Params) Chooses() bool { return p.TopItems > 0 }

// TakesSome reports whether the solver can train on some of the items.
func (p *Params) TakesSome() bool {
	return !p.Solver.Traits().Exact && p.Popularity == 0
}

// PredictsOthers reports whether features predict embeddings, and whether they predict biases, of
// items that are not trained on.
func (p *Params) PredictsOthers() (items, biases bool) {
	if p.TopItems == 0 {
		return false, false
	}
	items = p.Features != nil && p.Rounds > 0 && p.Solver.Traits().PredictsFromFeatures
	return items, p.Bias && (p.Learned() || p.ByWeights)
}

// WithCounts reports whether weights or samples need the private counts.
func (p *Params) WithCounts() bool {
	return p.Budgeting == TailSample || p.Budgeting == Weights && (p.Exponent > 0 || p.Normalise == GlobalNorm)
}

// ReleasesCounts reports whether private counts are released, for weights or to choose items by.
func (p *Params) ReleasesCounts() bool { return p.WithCounts() || p.Chooses() && !p.ByWeights }

// BiasWidth is 1 if users have a bias of their own, else 0.
func (p *Params) BiasWidth() int { return oneIf(p.Bias) }

// PopularWidth is 1 if clients weigh popularity for their users, else 0.
func (p *Params) PopularWidth() int { return oneIf(p.Popularity > 0) }

func oneIf(v bool) int {
	if v {
		return 1
	}
	return 0
}

// Tilts reports whether later sums of biases weigh ratings otherwise than the first sum. They do not where a rating's weight
// is bounded, since the bound cuts other parts for each user.
func (p *Params) Tilts() bool {
	return p.Tilt > 0 && p.BiasRounds > 1 && p.Popularity > 0 && p.Budgeting == Weights && p.Normalise != GlobalNorm && p.MostWeight() == 1
}

// TiltOf is the factor of a rating's weight in later sums of biases, from the broadcast popularity of its item. It is positive
// and finite whatever was broadcast.
func (p *Params) TiltOf(popularity float64) float64 {
	return math.Exp(-p.Tilt * dense.Clamp(popularity/p.Popularity, mostTilted))
}

// mostTilted is the largest popularity, in deviations, that counts for a tilt.
const mostTilted = 8

// WeightsAt is where weights of features begin in a row: after v_j, the bias's 1 and popularity.
func (p *Params) WeightsAt() int { return p.Rank + p.BiasWidth() + p.PopularWidth() }

// ownWidth counts the weights after u in the numbers that a client keeps: of popularity and of
// features.
func (p *Params) ownWidth() int { return p.PopularWidth() + p.UserFeatures.Width() }

// WithMean reports whether the private mean of ratings is released.
func (p *Params) WithMean() bool { return p.MeanCap > 0 && p.Feedback == Explicit }

// Residual is s, the assumed standard deviation of a residual of a rating, from public numbers: a
// bit less than a star on a scale of five, and at most the clipping bound.
func (p *Params) Residual(clip float64) float64 { return min((p.Max-p.Min)/4.5, clip) }

// OnlyPopularity reports whether the run learns only how popular items are: implicit feedback without
// rounds.
func (p *Params) OnlyPopularity() bool { return p.Feedback == Implicit && p.Rounds == 0 }

// Orders reports whether the final model says how often items are rated, to order lists by.
func (p *Params) Orders() bool { return p.OrderWeight > 0 && p.WeighsItems() }

// WeighsItems reports whether the weights of items' ratings are released.
func (p *Params) WeighsItems() bool { return p.Bias || !p.Solver.Traits().ByUser }

// atMost is the smaller of a norm and the settings' bound; bound 0 means none.
func atMost(norm, bound float64) float64 {
	if norm == 0 {
		return bound
	}
	return min(norm, bound)
}

// TargetBound is the largest target of a rating.
func (p *Params) TargetBound() float64 {
	if p.Feedback == Implicit {
		return 1
	}
	return p.ClipRating
}

// Width is the length of a user's embedding with its weights of popularity and of public features.
func (p *Params) Width() int { return p.Rank + p.ownWidth() }

// Joint is e, the length of [v_j, b_j]; packedJoint is the length of its packed covariance.
func (p *Params) Joint() int       { return p.Rank + 1 }
func (p *Params) PackedJoint() int { return p.Joint() * (p.Joint() + 1) / 2 }

// Bounded reports whether all of a user's moments together are bounded, as noise needs them to be.
// Without noise each rating is bounded.
func (p *Params) Bounded() bool { return p.PerUser > 0 }

// Parameters counts the numbers of an encoder's gradient.
func (p *Params) Parameters() int {
	f, s := p.Solver.Encoder(p)
	return int(encoder.Parameters(f, p.Items, p.Rank, s))
}

// NewEncoder returns the encoder of the solver at its start, which the seed draws.
func (p *Params) NewEncoder() (*encoder.Encoder, error) {
	features, settings := p.Solver.Encoder(p)
	e, err := encoder.New(features, p.Items, p.Rank, settings, p.Seed)
	if err != nil {
		return nil, fmt.Errorf("fedssp: %w", err)
	}
	return e, nil
}

// ItemsBound is the largest norm of a user's addition to moments or gradients.
func (p *Params) ItemsBound() float64 { return atMost(p.NormItems, p.Solver.Bound(p)) }

// These are the places of the variances that the variational solver learns. Variances of weights are
// relative to the size of their features.
const (
	ResidualVariance   = iota // σ², in squared rating units
	UserBiasVariance          // of b_i, in squared rating units
	FeatureVariance           // of each weight of a public feature
	PopularityVariance        // of the weight of popularity
	NumVariances
)

// choiceSize is the length in bytes of a broadcast choice.
func (p *Params) choiceSize() int { return (p.Items + 7) / 8 }

// ModelSize is the largest length in bytes of the model that comes with the plans of a phase. Its
// parts besides V grow as phases release them.
func (p *Params) ModelSize(phase string) int {
	size := modelHead + 8 // and the mean
	if p.Chooses() && (phase == Prepare || phase == BiasStage && p.ByWeights) {
		return size
	}
	items, later := p.Trained(), phase == Statistics || phase == Refine
	n := 0 // of numbers of items
	if phase == Statistics && p.Rounds > 0 {
		n += items * p.Rank
	}
	if phase != Prepare && p.WithCounts() {
		n += items
	}
	if later && p.Bias || phase == Statistics && p.OnlyPopularity() {
		n += items
	}
	if later {
		n += items * p.PopularWidth()
	}
	if phase == Statistics {
		n += p.Solver.Sends(p).all()
	}
	size += 4 * n
	if p.Feedback == Implicit {
		size += 8 * p.Packed()
	}
	if p.TopItems > 0 {
		size += p.choiceSize()
	}
	if p.ByWeights {
		size += p.Items - items
	}
	return size
}

// FinalSize is the length of the model that a run ends with. Beyond the model of the phase Statistics it
// has how often items are rated, and what features predict for items that were not trained on.
func (p *Params) FinalSize() int {
	size, others := p.ModelSize(Statistics), p.Items-p.Trained()
	if p.Orders() && !p.WithCounts() {
		size += 4 * p.Trained()
	}
	items, biases := p.PredictsOthers()
	if items {
		size += 4 * others * p.Rank
	}
	if biases && !p.ByWeights {
		size += others
	}
	return size
}

// InStatistics reports whether the coin decides if a user contributes to the release.
func InStatistics(name string) bool {
	switch name {
	case Counts, Mean, Bias, WeightCounts:
		return false
	default:
		return true
	}
}

// These are the phases of a run.
const (
	Prepare    = "prepare"
	BiasStage  = "bias"
	Refine     = "refine"
	Popularity = "popularity"
	Statistics = "statistics"
)

// These are the names of the releases.
const (
	Counts       = "counts"
	Mean         = "mean"
	Bias         = "bias"
	WeightCounts = "weight-counts"
	Gramian      = "gramian"
	Gramians     = "gramians"
	Moments      = "moments"

	SecondMoments = "second-moments"
	FirstMoments  = "first-moments"
	Scales        = "scales"
)

// Step is one round of the run: its releases, and the share of the run's μ² that each takes.
// Shares of all steps add up to 1.
type Step struct {
	Phase    string
	Releases []protocol.Release
	Shares   []float64
}

// Add adds a release that takes a share of the run's μ².
func (s *Step) Add(r protocol.Release, share float64) {
	s.Releases, s.Shares = append(s.Releases, r), append(s.Shares, share)
}

// LineOf is the length of a line: the head of an item's row, room for the target of a rating, and
// zeros up to a multiple of [dense.Lane].
func LineOf(p *Params) int { return (p.WeightsAt() + dense.Lane) / dense.Lane * dense.Lane }

// Line writes the head of an item's row to dst, which becomes a line: v_j, 1 for the bias if there
// is one, popularity if it is weighed, zeros. It returns the offset of the item's ratings.
func Line(dst []float64, p *Params, m *Model, s scale, centre float64, j int) (offset float64) {
	clear(dst)
	copy(dst, m.Row(j))
	if p.Bias {
		dst[p.Rank] = 1
	}
	if p.PopularWidth() > 0 {
		dst[p.WeightsAt()-1] = m.PopularityOf(j)
	}
	if p.Feedback == Implicit {
		return 0
	}
	return s.Offset(centre, m.ItemBias(j))
}

// Table holds the lines and offsets of all items of a model. Users who are fitted to one model in
// one process read it in place of the model.
type Table struct {
	step    int
	lines   []float64
	offsets []float64
	Popular []float64 // the popularity of each item; zeros if there is none
}

// tableOf reads the lines of all items that ratings may be of.
func tableOf(p *Params, m *Model) *Table {
	t := &Table{step: LineOf(p), offsets: make([]float64, p.Items), Popular: make([]float64, p.Items)}
	t.lines = make([]float64, p.Items*t.step)
	s, centre := p.Scale(), m.Centre()
	for j := range t.offsets {
		t.offsets[j] = Line(t.lines[j*t.step:(j+1)*t.step], p, m, s, centre, j)
		t.Popular[j] = m.PopularityOf(j)
	}
	return t
}

// Copy copies the lines and offsets of some items.
func (t *Table) Copy(lines, offsets []float64, items []int32) {
	t.Offsets(offsets, items)
	if t.step == dense.Line8 {
		dense.Pick(lines, t.lines, items)
		return
	}
	step := t.step
	for k, j := range items {
		copy(lines[k*step:(k+1)*step], t.lines[int(j)*step:])
	}
}

// Offsets copies the offsets of some items.
func (t *Table) Offsets(dst []float64, items []int32) {
	for k, j := range items {
		dst[k] = t.offsets[j]
	}
}

// Line is the line of an item, not to be changed.
func (t *Table) Line(j int) []float64 { return t.lines[j*t.step : (j+1)*t.step : (j+1)*t.step] }

// Tabulate makes the model's table, for the settings of the items that are trained on. The model must not
// change afterwards.
func (m *Model) Tabulate() {
	if !m.Unchosen {
		m.Table = tableOf(m.Params, m)
	}
}
