package kernel

import (
	"fmt"

	"github.com/fedsim/fedsim/fedssp/encoder"
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
func (p *Params) Chooses() bool { return p.TopItems > 0 && p.Listed == nil }

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
func (p *Params) BiasWidth() int {
	if p.Bias {
		return 1
	}
	return 0
}

// PopularWidth is 1 if clients weigh popularity for their users, else 0.
func (p *Params) PopularWidth() int {
	if p.Popularity > 0 {
		return 1
	}
	return 0
}

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
