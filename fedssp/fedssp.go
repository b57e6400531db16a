// Package fedssp trains private recommenders from sufficient statistics: a rating
// of user i for item j is explained as μ + b_i + b_j + <u_i, v_j>, and what users
// send are sums from which the server solves for the items at once. It follows
//
//   - Krichene, Jain, Song, Sundararajan, Thakurta, Zhang, "Multi-task differential
//     privacy under distribution skew" (ICML 2023): DPALS and AdaDPALS, DPSGD and AdaDPSGD;
//   - Curmei, Krichene, Zhang, Sundararajan, "Private matrix factorization with
//     public item features" (RecSys 2023): DP-CMF;
//   - Krichene, Mayoraz, Rendle, Song, Thakurta, Zhang, "Private learning with
//     public features" (AISTATS 2024): sufficient statistics perturbation, SSP, and AM-DPSGD and DP-SGD, which it is
//     compared with.
//
// docs/divergence.md says where it departs from them and why.
//
// An alternating step is one secure sum. Each client is one user ([User], a
// client.Trainer): it solves for its own u_i in closed form against the items the
// server broadcast, and contributes statistics of which only the noisy sum over
// users is seen. The server's side is [Strategy], a server.Durable: it turns sums
// into item embeddings. What is released in which iteration is [Params.Steps]:
//
//	phase       releases                    per user, and its L2 bound
//	prepare     counts                      1 for each of at most θ_c items          √θ_c
//	            mean                        Σ(y-mid)/(k·half), min(n,k)/k            √2
//	bias        bias                        w_j·clip(y-μ-b_i)                        Γ
//	            weight-counts               w_j                                      1
//	refine      bias                        w_j·clip(what b_j, b_i, t_i leave)       .85Γ
//	            weight-counts               w_j                                      1
//	popularity  weight-counts               w_j                                      1
//	statistics  gramian (one Gramian)       s·svec(u uᵀ)                             Γ_u²
//	            gramians (one per item)     s·w_j·svec(u uᵀ)                         Γ_u²
//	            moments                     s·w_j·clip(y-μ-b_i-b_j)·u                Γ_yΓ_u
//	            second-moments, first-moments, scales: see variational.go
//	            hessians, gradients         s·w_j·ℓ″·svec(u uᵀ), s·w_j·ℓ′·u          ℓ″Γ_u², ℓ′Γ_u
//	            gradients (DPSGD)           w_j·clip((prediction - y)·u)             Γ
//	            encoder-gradient            clip(Σ_j w_j·(prediction - y)·J_j u)      Γ
//
// With Params.NormBias and NormItems the bounds of bias, and of moments or gradients, are those, if they are
// smaller: a user whose contribution would be longer takes smaller weights w_j, or a smaller s, else 1.
//
// With Params.TopItems all but counts are of the items that are trained on, which counts decide, or statistics are, and weight-counts of all
// items decide (chosen.go).
//
// # Privacy
//
// The unit is a user and the relation zero-out: the user's record is replaced by
// the empty one, whose contribution is zero. The sensitivity of a release is then
// the largest norm of one user's contribution. All bounds rest on two facts that
// hold with the client whatever the server broadcasts:
//
//   - Σ_j w_j² <= 1: see weights.go. The server may choose the counts that shape the
//     weights, but they are normalised last.
//   - ‖u‖ <= Γ_u and finite: see local.go. The server may choose the items that u is
//     fitted to, but u is clipped last.
//
// With svec (off-diagonals times √2) the norm of a packed matrix is its Frobenius
// norm, so ‖svec(u uᵀ)‖ = ‖u‖² <= Γ_u²; rows of different items stand at different
// coordinates, so the norms of gramians, moments, bias, hessians and gradients are
// √(Σ w_j² x_j²) with |x_j| at most the bound of one row, hence at most that bound.
// That of bias, moments and gradients is besides measured and scaled down to NormBias or NormItems with
// the client (restrain in user.go), by a factor of at most 1, which no other bound grows by. What the solvers that take gradients
// add is bounded in gradient.go. Sums of biases that are refined
// ([Params.BiasRounds]) are measured and scaled down to what their release declares, .85 of the first bound, whatever the fit to
// the biases of the server left; their weight-counts are the same w_j once more.
//
// A broadcast that is not finite or absurdly large is neutralised with the client,
// coordinate by coordinate, and never answered by an error that would depend on
// what the user rated.
package fedssp

import (
	"errors"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/fedssp/encoder"
	"github.com/fedsim/fedsim/protocol"
)

// Feedback says what a rating is.
type Feedback string

const (
	// Explicit: a value on a scale; what was not rated is unknown.
	Explicit Feedback = "explicit"
	// Implicit: something was consumed (Hu, Koren, Volinsky 2008): the target is 1,
	// whatever the value, and 0 with a small weight for what was not.
	Implicit Feedback = "implicit"
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

// Budgeting says how a user's sensitivity is dealt to its ratings.
type Budgeting string

const (
	// Weights: every rating takes part, with w_j ∝ n̂_j^-Exponent and Σ w_j² = 1.
	Weights Budgeting = "weights"
	// UniformSample: at most PerUser ratings, each as likely, with w = 1/√PerUser.
	UniformSample Budgeting = "uniform"
	// TailSample: at most PerUser ratings, those of the rarest items by the private counts.
	TailSample Budgeting = "tail"
)

// Normaliser says how weights are brought to Σ w² <= 1 of a user.
type Normaliser string

const (
	// PerUserNorm: a user's weights are scaled so that Σ w² is 1, as am-ssp E.1.4 has it.
	PerUserNorm Normaliser = "user"
	// GlobalNorm: one scale for all, by which Σ w² of an average user is 1/Headroom, and weights of a
	// user beyond 1 are scaled back: equations (11) and (12) of the multi-task paper, with β = 1 and
	// c(n) = Headroom.
	GlobalNorm Normaliser = "global"
)

// Params are the public settings of a run, the same for everybody.
type Params struct {
	Items, Rank int     // m and d
	Min, Max    float64 // the rating scale
	Feedback    Feedback
	Solver      Solver
	Gramian     GramianForm
	Budgeting   Budgeting
	Exponent    float64    // of the weights, 0 (equal) to 2
	Normalise   Normaliser // "" is PerUserNorm
	Headroom    float64    // c(n) of GlobalNorm, positive; else 0
	CountMargin float64    // deviations of their noise that are added to the counts, at least 0
	PerUser     int        // ratings that a user's sample has at most; of the samplings only
	CountCap    int        // θ_c, the items a user counts at most; of releases that need counts only
	// TopItems is how many items are trained on, those with the largest private counts; 0: all are. See chosen.go.
	TopItems int
	// Listed are the items that are trained on, ascending, where a public list names them, and no counts; TopItems is then how
	// many they are.
	Listed []int32
	// ByWeights has the items chosen by the weights that are released with biases of all items, and not by counts before them: the
	// others keep their biases, and all that is not of the chosen alone is of the whole catalogue. See chosen.go.
	ByWeights bool
	// Single has models broadcast in single precision, with biases of items that are not trained on in a byte each: see single.go.
	Single bool
	// MeanCap is k: the ratings of a user that the mean is taken over, at most. 0: the
	// middle of the scale is used and nothing is released. Explicit feedback only.
	MeanCap int
	// Bias: item biases are released first, and a user has a bias of its own, which
	// stays with the client. Explicit feedback only.
	Bias bool

	ClipUser, ClipRating, ClipBias float64 // Γ_u, Γ_y in rating units, Γ of the residuals of the bias stage
	// NormBias and NormItems are the largest norms of all that a user adds to the sums of biases, and to moments or
	// gradients. What would be longer is scaled down as a whole, and with it the user's part of what the sums
	// are divided by: its ratings weigh less, and say nothing else. 0: what the clipping of single ratings comes to.
	NormBias, NormItems float64

	// BiasRounds is how many sums biases are learned from; 0 is 1. Later ones are of what the biases before, and users' fits to them, leave of
	// ratings, which is less, and so is the noise; an item's bias is what all of them say together.
	BiasRounds int

	// UserRidge and UserBiasRidge are what the client adds to the diagonal for u and
	// its bias. A rating adds ‖v_j‖² and 1.
	UserRidge, UserBiasRidge float64
	// ItemRidge is λ_v, added to A_j in proportion to c_j, as if to every rating.
	ItemRidge float64
	// ItemPrior and BiasRidge are how many ratings' weight pulls each coordinate of v_j and b_j to
	// zero, whatever an item's ratings; where the statistics are noisy, that of the noise with it. They are 1/τ² for
	// a prior deviation of τ and residuals of about 1.
	ItemPrior, BiasRidge float64
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

	Seed uint64 // of where V starts, and of the encoder's batches; public
	// StartSpread is the standard deviation of the coordinates of V at the start; an encoder has a
	// start norm of its own.
	StartSpread float64

	Loss         Loss // Convex only
	LossWidth    float64
	CMF          CMFParams
	Descent      DescentParams         // of the solvers that take gradients
	Pool         PoolParams            // where priors are learned: with Pool.Iterations > 0 those of biases, with Pooled of items too
	Encoder      encoder.Settings      // where there is one, see Encodes
	Drift        float64               // variance of the drift of a user's ratings over time, beside that of a rating; 0: it is not followed. See drift.go
	UserFeatures *UserFeatures         // public features that clients weigh for themselves; nil: none. Explicit feedback only
	Popularity   float64               // how strongly users are expected to differ in what they think of what many rate; 0: not at all. With Bias only
	Features     *dataset.ItemFeatures // public; nil: items are known by their ids only
	Shares       Shares

	choices *choices         // what was read of a choice last, by all who go by the same settings; nil: it is read anew
	shape   *encoder.Encoder // that clients of a simulation share; nil: each makes its own where it needs one
}

// Shares deal μ² of the run. Counts, Mean and Bias are shares of the whole; the
// statistics of all rounds share what they leave, each Growth times what the one before has. What is not released gives its
// share to the others in proportion.
type Shares struct {
	Counts, Mean, Bias float64
	// WeightCounts is the part of the stage that releases them: bias, or without that the statistics.
	WeightCounts float64
	// Gramian is the second-order part of what each sum has for statistics; moments or gradients have the rest.
	Gramian float64
}

// withCounts reports whether something needs the private counts.
func (p *Params) withCounts() bool {
	return p.Budgeting == TailSample || p.Budgeting == Weights && (p.Exponent > 0 || p.Normalise == GlobalNorm)
}

// releasesCounts reports whether private counts are released, for weights or to choose items by.
func (p *Params) releasesCounts() bool { return p.withCounts() || p.chooses() && !p.ByWeights }

// popularity reports whether all that is learned is how popular items are: of implicit feedback without rounds.
func (p *Params) popularity() bool { return p.Feedback == Implicit && p.Rounds == 0 }

func (p *Params) withMean() bool { return p.MeanCap > 0 && p.Feedback == Explicit }

// Encodes reports whether items are the output of an encoder.
func (p *Params) Encodes() bool {
	return p.Rounds > 0 && p.solver().encodes(p)
}

// learned reports whether priors are learned from the statistics.
func (p *Params) learned() bool {
	return p.solver().learns() || p.Pool.Iterations != 0
}

// middle is what every prediction is before anything is released.
func (p *Params) middle() float64 { return (p.Min + p.Max) / 2 }

// logistic reports whether predictions are logits.
func (p *Params) logistic() bool { return p.solver().logistic(p) }

// packed is the length of a packed d x d matrix.
func (p *Params) packed() int { return p.Rank * (p.Rank + 1) / 2 }

// problems collects what is wrong with settings.
type problems []error

func (e *problems) add(format string, args ...any) { *e = append(*e, fmt.Errorf(format, args...)) }

func (e *problems) positive(name string, x float64) {
	if !(x > 0) || math.IsInf(x, 1) {
		e.add("%s is %v; it must be positive and finite", name, x)
	}
}

func (e *problems) notNegative(name string, x float64) {
	if !(x >= 0) || math.IsInf(x, 1) {
		e.add("%s is %v; it must be at least 0 and finite", name, x)
	}
}

func (e *problems) atLeast(name string, x, least int) {
	if x < least {
		e.add("%s is %d; it must be at least %d", name, x, least)
	}
}

// maxSums is how many sums of statistics a run takes at most, far more than a budget is worth dealing to: a
// schedule has each of them, and is made by everybody to whom settings are stated.
const maxSums = 100_000

// maxBiasRounds is how many sums biases are learned from at most.
const maxBiasRounds = 100

// Validate reports everything that makes the settings unusable.
func (p Params) Validate() error {
	var e problems
	e.atLeast("items", p.Items, 1)
	e.atLeast("rank", p.Rank, 1)
	p.checkTop(&e)
	if p.Single && p.solver().exact() {
		e.add("solver %s broadcasts numbers that must be exact; models must be in double precision", p.Solver)
	}
	if p.Items >= 1 && p.Rank >= 1 && float64(p.trained())*float64(p.Rank)*float64(p.Rank+1)/2 > protocol.MaxLen {
		e.add("%d items of rank %d make statistics of more than %d coordinates; lower the rank", p.trained(), p.Rank, protocol.MaxLen)
	}
	if !(p.Min < p.Max) || math.IsInf(p.Min, 0) || math.IsInf(p.Max, 0) {
		e.add("the rating scale is %v to %v; it must be two finite numbers, the lower first", p.Min, p.Max)
	}
	p.checkForm(&e)
	p.checkBudgeting(&e)
	p.checkUserFeatures(&e)
	e.notNegative("popularity", p.Popularity)
	e.notNegative("drift", p.Drift)
	if p.Drift > 0 && p.Feedback == Implicit {
		e.add("the drift of ratings is followed with explicit feedback")
	}
	if p.Popularity > 0 && !p.Bias {
		e.add("popularity is %v without a bias stage, in which it is released", p.Popularity)
	}
	if p.Rounds > 0 {
		e.notNegative("norm-items", p.NormItems)
		e.notNegative("item-ridge", p.ItemRidge)
		e.notNegative("item-prior", p.ItemPrior)
	}
	p.solver().check(&p, &e)
	if p.Bias {
		e.positive("clip-bias", p.ClipBias)
		e.notNegative("norm-bias", p.NormBias)
		if p.BiasRounds < 0 || p.BiasRounds > maxBiasRounds {
			e.add("bias-rounds is %d; it must be from 0 to %d", p.BiasRounds, maxBiasRounds)
		}
		if !p.learned() {
			e.positive("bias-ridge", p.BiasRidge)
		}
		e.positive("user-bias-ridge", p.UserBiasRidge)
	}
	if p.Feedback == Implicit {
		e.positive("unobserved", p.Unobserved)
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
	case p.Resample > 1 && p.solver().againstSums(&p) != "":
		e.add("resample is %d; %s", p.Resample, p.solver().againstSums(&p))
	case p.Rounds > maxSums/p.Resample:
		e.add("%d rounds of %d sums are too many; there are at most %d sums", p.Rounds, p.Resample, maxSums)
	}
	if !(p.Growth >= 0.1 && p.Growth <= 10) && p.Growth != 0 {
		e.add("growth is %v; it must be from 0.1 to 10", p.Growth)
	}
	p.Shares.check(&p, &e)
	return errors.Join(e...)
}

// checkForm checks what is learned, and from which statistics.
func (p *Params) checkForm(e *problems) {
	switch p.Feedback {
	case Explicit:
	case Implicit:
		if p.Bias || p.MeanCap > 0 {
			e.add("implicit feedback has no rating scale: the bias stage and the mean must be off")
		}
	default:
		e.add("feedback is %q; it must be %s or %s", p.Feedback, Explicit, Implicit)
	}
	p.Solver.check(e)
	if p.learned() {
		p.Pool.check(e)
	}
	if p.Gramian != PerItem && p.Gramian != One && p.solver().secondOrder() {
		e.add("gramian is %q; it must be %s or %s", p.Gramian, PerItem, One)
	}
	if f := p.Features; f != nil {
		if f.Items != p.Items {
			e.add("the features are of %d items; there are %d", f.Items, p.Items)
		}
	}
}

func (p *Params) checkBudgeting(e *problems) {
	switch p.Budgeting {
	case Weights:
		if !(p.Exponent >= 0 && p.Exponent <= 2) {
			e.add("exponent is %v; it must be from 0 to 2", p.Exponent)
		}
		switch p.Normalise {
		case PerUserNorm, "":
		case GlobalNorm:
			if !(p.Headroom >= 1e-3 && p.Headroom <= 1e3) {
				e.add("headroom is %v; it must be from 0.001 to 1000", p.Headroom)
			}
		default:
			e.add("normalise is %q; it must be %s or %s", p.Normalise, PerUserNorm, GlobalNorm)
		}
	case UniformSample, TailSample:
		e.atLeast("per-user", p.PerUser, 1)
	default:
		e.add("budgeting is %q; it must be %s, %s or %s", p.Budgeting, Weights, UniformSample, TailSample)
	}
	if p.releasesCounts() {
		e.atLeast("count-cap", p.CountCap, 1)
		if !(p.CountMargin >= 0 && p.CountMargin <= 100) {
			e.add("count-margin is %v; it must be from 0 to 100", p.CountMargin)
		}
	}
	e.atLeast("mean-cap", p.MeanCap, 0)
}

// check checks that everything released has a share.
func (s Shares) check(p *Params, e *problems) {
	for _, x := range []struct {
		name  string
		value float64
		used  bool
	}{
		{"counts", s.Counts, p.releasesCounts()}, {"mean", s.Mean, p.withMean()}, {"bias", s.Bias, p.Bias},
		{"weight-counts", s.WeightCounts, p.weighsItems()}, {"gramian", s.Gramian, p.Rounds > 0 && p.solver().secondOrder()},
	} {
		if !(x.value >= 0 && x.value < 1) {
			e.add("the share of %s is %v; it must be from 0 to below 1", x.name, x.value)
		} else if x.used && x.value == 0 {
			e.add("the share of %s is 0, but they are released; it must be positive", x.name)
		}
	}
	if sum := s.Counts + s.Mean + s.Bias; !(sum < 1) && p.Rounds > 0 {
		e.add("the shares of counts, mean and bias are %v together; the statistics need some of 1", sum)
	}
}
