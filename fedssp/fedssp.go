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
// A run is a list of stages ([stages]): what each releases, how that is bounded, what a client computes and what the server makes of the sum
// stand in one file a stage. The last stage is a solver's ([solvers]), again one file each. An algorithm is a table entry: its stages and the
// solvers that it may use (algorithms.go); its keys are those of both.
//
// An alternating step is one secure sum. Each client is one user ([User], a
// client.Trainer): it solves for its own u_i in closed form against the items the
// server broadcast, and contributes statistics of which only the noisy sum over
// users is seen. The server's side is [Strategy], a server.Durable: it turns sums
// into item embeddings. What is released in which round is [Params.Steps]:
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
// the client (restrain in weighing.go), by a factor of at most 1, which no other bound grows by. What the solvers that take gradients
// add is bounded in gradient.go. Sums of biases that are refined
// ([Params.BiasRounds]) are measured and scaled down to what their release declares, 0.85 of the first bound, whatever the fit to
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

	"github.com/fedsim/fedsim/config"
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

// Params are the public settings of a run, the same for everybody.
type Params struct {
	Items, Rank int     // m and d
	Min, Max    float64 // the rating scale
	Feedback    Feedback
	// Single has models broadcast in single precision, with biases of items that are not trained on in a byte each: see single.go.
	Single   bool
	Features *dataset.ItemFeatures // public; nil: items are known by their ids only
	Seed     uint64                // of where V starts, and of the encoder's batches; public
	Split    BudgetSplit

	CountsParams
	MeanParams
	BiasParams
	StatisticsParams
	WeighingParams
	SelectionParams
	UserParams
	SolverParams

	choices *choices         // what was read of a choice last, by all who go by the same settings; nil: it is read anew
	shape   *encoder.Encoder // that clients of a simulation share; nil: each makes its own where it needs one
}

// BudgetSplit deals μ² of the run. Counts, Mean and Bias are shares of the whole; the
// statistics of all rounds share what they leave, each Growth times what the one before has. What is not released gives its
// share to the others in proportion.
type BudgetSplit struct {
	Counts, Mean, Bias float64
	// WeightCounts is the part of the stage that releases them: bias, or without that the statistics.
	WeightCounts float64
	// Gramian is the second-order part of what each sum has for statistics; moments or gradients have the rest.
	Gramian float64
}

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

// within checks a setting against the range of its key, which is stated there alone.
func (e *problems) within(k config.NumberKey, x float64) {
	if !k.Range.Contains(x) {
		e.add("%s is %v; it must be %s", k.Name, x, k.Range)
	}
}

func (e *problems) atLeast(name string, x, least int) {
	if x < least {
		e.add("%s is %d; it must be at least %d", name, x, least)
	}
}

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
	e.within(keys.popularityWeight, p.Popularity)
	e.within(keys.userDrift, p.Drift)
	if p.Drift > 0 && p.Feedback == Implicit {
		e.add("the drift of ratings is followed with explicit feedback")
	}
	if p.Popularity > 0 && !p.Bias {
		e.add("popularity is %v without a bias stage, in which it is released", p.Popularity)
	}
	for _, x := range stages {
		x.check(&p, &e)
	}
	p.Split.check(&p, &e)
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
	if f := p.Features; f != nil {
		if f.Items != p.Items {
			e.add("the features are of %d items; there are %d", f.Items, p.Items)
		}
	}
}

// share checks the share of what is released, or would be.
func (e *problems) share(name string, x float64, released bool) {
	if !(x >= 0 && x < 1) {
		e.add("the share of %s is %v; it must be from 0 to below 1", name, x)
	} else if released && x == 0 {
		e.add("the share of %s is 0, but they are released; it must be positive", name)
	}
}

// check checks that something is left for the statistics.
func (s BudgetSplit) check(p *Params, e *problems) {
	if sum := s.Counts + s.Mean + s.Bias; !(sum < 1) && p.Rounds > 0 {
		e.add("the shares of counts, mean and bias are %v together; the statistics need some of 1", sum)
	}
}
