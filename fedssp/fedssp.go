// Package fedssp trains private recommenders from sufficient statistics. A rating of user i for
// item j is explained as μ + b_i + b_j + <u_i, v_j>. Users send sums. The server solves for the
// items from the noisy sums, all at once. The package follows
//
//   - Krichene, Jain, Song, Sundararajan, Thakurta, Zhang, "Multi-task differential
//     privacy under distribution skew" (ICML 2023): DPALS and AdaDPALS, DPSGD and AdaDPSGD;
//   - Curmei, Krichene, Zhang, Sundararajan, "Private matrix factorization with
//     public item features" (RecSys 2023): DP-CMF;
//   - Krichene, Mayoraz, Rendle, Song, Thakurta, Zhang, "Private learning with
//     public features" (AISTATS 2024): sufficient statistics perturbation, SSP,
//     and its competitors AM-DPSGD and DP-SGD.
//
// docs/divergence.md says where the package departs from the papers and why.
//
// A run is a list of stages ([stages]). Each stage has one file with its releases, their bounds,
// the client's computation and the server's use of the sum. The last stage is a solver's
// ([solvers]), again with one file each. An algorithm is an entry of a table (algorithms.go): its
// stages and the solvers that it may use. Its keys are the keys of both.
//
// An alternating step is one secure sum. Each client is one user ([User], a client.Trainer). It
// solves for its own u_i in closed form against the broadcast items, and contributes statistics.
// Only their noisy sum over users is seen. The server's side is [Strategy], a server.Durable, which
// turns sums into item embeddings. [Params.Steps] lists the releases of each round:
//
//	phase       releases                    per user, and its L2 bound
//	prepare     counts                      1 for each of at most θ_c items          √θ_c
//	            mean                        Σ(y-mid)/(k·half), min(n,k)/k            √2
//	bias        bias                        w_j·clip(y-μ-b_i)                        Γ
//	            weight-counts               w_j                                      1
//	refine      bias                        w_j·clip(residual of b_j, b_i, t_i)      0.85Γ
//	            weight-counts               w_j                                      1
//	popularity  weight-counts               w_j                                      1
//	statistics  gramian (one Gramian)       s·svec(u uᵀ)                             Γ_u²
//	            gramians (one per item)     s·w_j·svec(u uᵀ)                         Γ_u²
//	            moments                     s·w_j·clip(y-μ-b_i-b_j)·u                Γ_yΓ_u
//	            second-moments, first-moments, scales: see variational.go
//	            hessians, gradients         s·w_j·ℓ″·svec(u uᵀ), s·w_j·ℓ′·u          ℓ″Γ_u², ℓ′Γ_u
//	            gradients (DPSGD)           w_j·clip((prediction - y)·u)             Γ
//	            encoder-gradient            clip(Σ_j w_j·(prediction - y)·J_j u)     Γ
//
// Params.NormBias and NormItems replace the bounds of bias, and of moments or gradients, if they
// are smaller. A user whose contribution would be longer takes smaller weights w_j, or a smaller s,
// which is 1 otherwise.
//
// With Params.TopItems all releases except counts cover only the items that are trained on, which
// counts choose. With ByWeights only statistics do, and the weight-counts of all items choose
// (chosen.go).
//
// # Privacy
//
// The unit is a user and the relation zero-out: the user's record is replaced by the empty record,
// whose contribution is zero. So the sensitivity of a release is the largest norm of one user's
// contribution. All bounds rest on two facts that the client ensures whatever the server
// broadcasts:
//
//   - Σ_j w_j² <= 1: see weights.go. The server may choose the counts that shape the
//     weights, but the weights are normalised last.
//   - ‖u‖ <= Γ_u and finite: see local.go. The server may choose the items that u is
//     fitted to, but u is clipped last.
//
// With svec (off-diagonals times √2) the norm of a packed matrix is its Frobenius norm, so ‖svec(u
// uᵀ)‖ = ‖u‖² <= Γ_u². Rows of different items stand at different coordinates. So the norms of
// gramians, moments, bias, hessians and gradients are √(Σ w_j² x_j²) with |x_j| at most the bound
// of one row, hence at most that bound.
//
// The client also measures the norms of bias, moments and gradients, and scales them down to
// NormBias or NormItems (restrain in weighing.go). The factor is at most 1, so no other bound
// grows. gradient.go bounds the solvers that take gradients. Refined sums of biases
// ([Params.BiasRounds]) are measured and scaled down to the bound that their release declares, 0.85
// of the first, whatever residuals the server's biases leave. Their weight-counts are the same w_j
// once more.
//
// A broadcast that is not finite or absurdly large is neutralised with the client, coordinate by
// coordinate, and never answered by an error that would depend on the user's ratings.
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
	// Single broadcasts models in single precision, with one byte for each bias of an item that is
	// not trained on: see single.go.
	Single   bool
	Features *dataset.ItemFeatures // public; nil: items are known by their ids only
	Seed     uint64                // public; draws the start of V and the encoder's batches
	Split    BudgetSplit

	CountsParams
	MeanParams
	BiasParams
	StatisticsParams
	WeighingParams
	SelectionParams
	UserParams
	SolverParams

	choices *choices         // cache of the last choice, shared by all users of the same settings; nil: no cache
	shape   *encoder.Encoder // shared by the clients of a simulation; nil: each makes its own if it needs one
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

// Encodes reports whether items are the output of an encoder.
func (p *Params) Encodes() bool {
	return p.Rounds > 0 && p.Solver.encodes(p)
}

// learned reports whether priors are learned from the statistics.
func (p *Params) learned() bool {
	return p.Solver.learns() || p.Pool.Iterations != 0
}

// middle is every prediction before the first release.
func (p *Params) middle() float64 { return (p.Min + p.Max) / 2 }

func (p *Params) logistic() bool { return p.Solver.logistic(p) }

// packed is the length of a packed d x d matrix.
func (p *Params) packed() int { return p.Rank * (p.Rank + 1) / 2 }

// problems collects errors about settings.
type problems []error

func (e *problems) add(format string, args ...any) { *e = append(*e, fmt.Errorf(format, args...)) }

// within checks a setting against the range of its key. The range is stated only there.
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
	if p.Solver == nil {
		return errors.New("there is no solver; name one")
	}
	e.atLeast("items", p.Items, 1)
	e.atLeast("rank", p.Rank, 1)
	p.checkTop(&e)
	if p.Single && p.Solver.exact() {
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
		e.add("popularity is %v without a bias stage, which releases it", p.Popularity)
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
	if p.learned() {
		p.Pool.check(e)
	}
	if f := p.Features; f != nil {
		if f.Items != p.Items {
			e.add("the features are of %d items; there are %d", f.Items, p.Items)
		}
	}
}

// share checks the share of a release, or of a release that the settings leave out.
func (e *problems) share(name string, x float64, released bool) {
	if !(x >= 0 && x < 1) {
		e.add("the share of %s is %v; it must be from 0 to below 1", name, x)
	} else if released && x == 0 {
		e.add("the share of %s is 0, but they are released; it must be positive", name)
	}
}

// check checks that a share is left for the statistics.
func (s BudgetSplit) check(p *Params, e *problems) {
	if sum := s.Counts + s.Mean + s.Bias; !(sum < 1) && p.Rounds > 0 {
		e.add("the shares of counts, mean and bias are %v together; the statistics need some of 1", sum)
	}
}
