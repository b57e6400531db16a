// Package kernel holds what client and server of a run of sufficient statistics share. Settings
// ([Params]) come with the bounds that follow from them, the model with its bytes. The choice of
// items to train on, public features that clients weigh, and the names of phases and releases stand
// here too. The package predicts with a model, and neither fits a user nor solves for items.
//
// It never imports keys, configuration or algorithms, nor another room of fedssp except encoder.
package kernel

import (
	"fmt"
	"math"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/fedssp/encoder"
)

// Feedback says what a rating means.
type Feedback string

const (
	// Explicit is a value on a scale. Items without a rating are unknown.
	Explicit Feedback = "explicit"
	// Implicit means that the item was consumed (Hu, Koren, Volinsky 2008). The target is 1,
	// whatever the value, and 0 with a small weight for items that were not consumed.
	Implicit Feedback = "implicit"
)

// Params holds the public settings of a run. All clients and the server have the same.
type Params struct {
	Items, Rank int     // m and d
	Min, Max    float64 // the rating scale
	Feedback    Feedback
	Features    *dataset.ItemFeatures // public; nil: items are known by their ids only
	Seed        uint64                // public; draws the start of V and the encoder's batches
	// OrderWeight is the weight of a prediction in the order of lists, by log c_j and taste. The final
	// model then has c_j (choice.go). 0: predictions alone order lists.
	OrderWeight float64
	Split       BudgetSplit

	// Private counts say how many users rated an item. They serve weights, samples and the choice of items.
	CountCap int // θ_c, the most items that a user counts; of releases that need counts only
	// MeanCap is k, the most ratings of a user that enter the mean. 0: nothing is released, and the
	// middle of the scale is used. Explicit feedback only.
	MeanCap int
	// TopItems is the number of items with the largest private counts that are trained on; 0: all
	// items are.
	TopItems int
	// ByWeights chooses the items by the weights that come with the biases of all items, and not by
	// counts before them. The other items keep their biases. Only statistics are limited to the
	// chosen items; the rest covers the whole catalogue.
	ByWeights bool

	BiasParams
	StatisticsParams
	WeighingParams
	UserParams
	SolverParams

	OfStages map[string]float64 // settings that one stage alone reads, by the names of their keys
	Shape    *encoder.Encoder   // shared by the clients of a simulation; nil: each makes its own if it needs one
}

// BudgetSplit divides the run's μ². Counts, Mean and Bias are shares of the whole. The statistics
// of all rounds share the rest, each Growth times the round before. The share of a release that
// does not take place goes to the others in proportion.
type BudgetSplit struct {
	Counts, Mean, Bias float64
	// WeightCounts is the part of the stage that releases them: bias, or without bias the
	// statistics.
	WeightCounts float64
	// Gramian is the part of a sum's μ² for second-order statistics. Moments or gradients have the
	// rest.
	Gramian float64
}

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
	// Tilt lets ratings of popular items weigh less in later sums than in the first. Noise moves the biases of items with
	// few ratings most. A deviation of the logarithm of an item's released weight divides a rating's weight by e^Tilt,
	// before a user's Σw² becomes 1 again. 0: later sums weigh ratings as the first does. Ours.
	Tilt float64
	// BiasRidge pulls b_j to zero with the weight of so many ratings, however many ratings the item
	// has. It is 1/τ² for a prior deviation of τ and residuals of about 1.
	BiasRidge float64
	// UserBiasRidge is the client's ridge on its user's bias, in ratings.
	UserBiasRidge float64
}

// CMFParams holds the settings of collective factorization (DP-CMF). The features S of items are
// factored beside the ratings, S_jk ≈ <f_k, v_j>. S is public, so its statistics are exact.
type CMFParams struct {
	// FeatureWeight is α, the weight of an entry of S beside the summed weights of an item's
	// ratings.
	FeatureWeight float64
	// Unobserved is the weight of a feature that an item does not have. A feature that it has
	// weighs 1.
	Unobserved float64
	// Sweeps is the number of times that features and items are solved for in turn, on the same
	// statistics. Sweeps cost no privacy.
	Sweeps int
}

// Encodes reports whether items are the output of an encoder.
func (p *Params) Encodes() bool {
	return p.Rounds > 0 && p.Solver.Traits().Encodes
}

// Learned reports whether priors are learned from the statistics.
func (p *Params) Learned() bool {
	return p.Solver.Traits().Learns || p.Pool.Iterations != 0
}

// Middle is every prediction before the first release.
func (p *Params) Middle() float64 { return (p.Min + p.Max) / 2 }

// Packed is the length of a packed d x d matrix.
func (p *Params) Packed() int { return p.Rank * (p.Rank + 1) / 2 }

// PoolParams holds the settings of learned priors (package posterior). An item's bias and embedding
// before its ratings follow from its features and from how often it is rated. The statistics say
// how far to trust that. All of it is post-processing.
type PoolParams struct {
	// Iterations counts the iterations of EM that learn the priors; at least 1.
	Iterations int
	// Strength is the weight of public typical values in the learned priors of biases, in items; 0:
	// none. If it is positive, typical values also hold the mean and the law of items' weights
	// (serving/weights.go).
	Strength float64
	// Decay is ρ, from 0 to below 1. Statistics of an outer step weigh 1, those one step older ρ,
	// two steps older ρ², apart from the weights for their noise. Users' embeddings settle after a
	// few steps, and the noise of earlier releases averages out. Pooled solver only.
	Decay float64
}

// SolverParams holds the settings of solvers: common ones, and each solver's own.
type SolverParams struct {
	Solver Solver
	// ItemRidge is λ_v, added to A_j in proportion to c_j, as if to every rating.
	ItemRidge float64
	// ItemPrior pulls each coordinate of v_j to zero with the weight of so many ratings, however
	// many ratings the item has. If the statistics are noisy, the discount for noise pulls as well.
	// It is 1/τ² for a prior deviation of τ and residuals of about 1.
	ItemPrior float64
	// StartSpread is the standard deviation of the coordinates of V at the start. An encoder has a
	// start norm of its own.
	StartSpread float64
	Logits      bool // predictions are logits
	CMF         CMFParams
	Pool        PoolParams       // Pool.Iterations > 0: priors of biases are learned; with Pooled, priors of items too
	Encoder     encoder.Settings // of the solvers with an encoder, see Encodes
	Own         any              // of a solver of another package, which alone reads them; nil: none
}

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

// UserParams holds the settings of everything that stays with the client.
type UserParams struct {
	UserRidge    float64       // added to the diagonal for u; a rating adds ‖v_j‖²
	UserFeatures *UserFeatures // public features that clients weigh for themselves; nil: none. Explicit feedback only
	Popularity   float64       // how strongly users' taste for popular items varies; 0: not at all. With Bias only
}

// Held reports whether typical values hold the priors.
func (c PoolParams) Held() bool { return c.Iterations > 0 && c.Strength > 0 }

// Budgeting says how a user's sensitivity is divided among its ratings.
type Budgeting string

const (
	// Weights uses every rating, with w_j ∝ n̂_j^-Exponent and Σ w_j² = 1.
	Weights Budgeting = "weights"
	// UniformSample uses at most PerUser ratings, all equally likely, with w = 1/√PerUser.
	UniformSample Budgeting = "uniform"
	// TailSample uses at most PerUser ratings, of the rarest items by the private counts.
	TailSample Budgeting = "tail"
)

// Normaliser says how weights are brought to Σ w² <= 1 of a user.
type Normaliser string

const (
	// PerUserNorm scales each user's weights so that Σ w² is 1, as in am-ssp E.1.4.
	PerUserNorm Normaliser = "user"
	// GlobalNorm uses one scale for all users: Σ w² of an average user is 1/Headroom. The weights
	// of a user beyond 1 are scaled back. These are equations (11) and (12) of the multi-task
	// paper, with β = 1 and c(n) = Headroom.
	GlobalNorm Normaliser = "global"
)

// WeighingParams sets how a user's sensitivity is divided among its ratings.
type WeighingParams struct {
	Budgeting Budgeting
	Exponent  float64    // of the weights, 0 (equal) to 2
	Normalise Normaliser // "" is PerUserNorm
	Headroom  float64    // c(n) of GlobalNorm, positive; else 0
	// PerUser is the most ratings in a user's sample. With the variational solver it is the number
	// of a user's ratings that count in full, and positive if there is noise; else 0.
	PerUser int
	// Least is the public least number of a user's ratings. It bounds the weight of a rating by [WeighingParams.MostWeight].
	Least int
}

// MostWeight is the largest weight of a rating: the equal weight of a user with Least ratings.
func (p *WeighingParams) MostWeight() float64 { return 1 / math.Sqrt(float64(max(1, p.Least))) }

// Solver computes the items from the statistics. The interface has what models and bounds
// depend on. String is its name in errors and settings.
type Solver interface {
	fmt.Stringer
	Traits() Traits
	// Encoder returns the features and settings of the encoder, if items are the output of one.
	Encoder(*Params) (*dataset.ItemFeatures, encoder.Settings)
	// Bound is the largest norm of a user's addition to moments or gradients.
	Bound(*Params) float64
	// Start improves the start of V, which is drawn at random.
	Start(p *Params, v []float64, draw func() float64)
	// Sends counts the numbers of the solver's part of a broadcast beside the items.
	Sends(*Params) Sends
}

// Sends counts the numbers of the lists in a solver's part of a broadcast ([Model.Theta] and others).
type Sends struct{ Theta, Covariance, Variances int }

func (n Sends) all() int { return n.Theta + n.Covariance + n.Variances }

// Traits are facts about a solver. The zero value describes a solver of normal equations.
type Traits struct {
	Encodes              bool // items are the output of an encoder
	Table                bool // the encoder is a table of items, and has no settings
	Learns               bool // priors are always learned from the statistics
	PredictsFromFeatures bool // features predict items that are not trained on
	Exact                bool // the solver needs all items
	FirstOrder           bool // users send gradients, and no second-order statistics
	ByUser               bool // a user's gradient is clipped as a whole
	ByItem               bool // each item is solved for by itself, also in rankings
	OneSum               bool // a round has one sum
	Clips                bool // residuals are clipped closely without noise, too
}

// Choice holds the items that are trained on, and the others.
type Choice struct {
	Items  []int32 // ascending
	Others []int32 // the rest of the catalogue, ascending
	// for each item of the catalogue: its place among items, or ^ its place among the others
	Place []int32
	Inner *Params               // the settings over items alone
	Rest  *dataset.ItemFeatures // of the others; nil: none
	Late  bool                  // chosen by weights: items keep their numbers in the catalogue
}
