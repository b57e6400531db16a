package fmf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/fedmf"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedmf/kernel"
	"github.com/fedsim/fedsim/internal/problems"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// ObjectiveParams holds the settings of Objective.
type ObjectiveParams struct {
	kernel.Params
	Unit        dp.Unit
	ClipRatings int     // θ, the most ratings of a user that are trained on; with Unit user. 0: all, with Unit rating and without noise
	Ridge       float64 // weight of the start of V, in ratings, positive
	Epsilon     float64 // of V; +Inf for no noise
}

// Validate reports every fault of the settings.
func (p ObjectiveParams) Validate() error {
	errs := problems.List{p.Params.Validate()}
	errs.If(p.Unit == dp.User && p.ClipRatings < 1 && !math.IsInf(p.Epsilon, 1),
		"clip-ratings is %d; a user with any number of ratings could move V by any length: trim each user, to at least 1", p.ClipRatings)
	errs.If(p.Unit == dp.Rating && p.ClipRatings != 0,
		"clip-ratings is %d; with unit rating nothing is trimmed, since one rating would then move others in or out", p.ClipRatings)
	errs.If(!(p.Ridge > 0) || math.IsInf(p.Ridge, 1), "ridge is %v; it must be positive: the price of the curvature falls with it", p.Ridge)
	errs.If(p.Curvature() >= p.Epsilon,
		"epsilon is %v, and with a ridge of %v the curvature alone takes %.3g of it; raise the ridge above %.3g", p.Epsilon, p.Ridge, p.Curvature(), p.RidgeFor(1))
	return errors.Join(errs...)
}

// count returns the largest number of rows of V that a unit touches.
func (p ObjectiveParams) count() float64 {
	if p.Unit == dp.User {
		return float64(p.ClipRatings)
	}
	return 1
}

// length2 returns the largest ‖u‖² of a user while V is trained: of the start, which is public, or
// of a feasible embedding, if a user's own ratings move it.
func (p ObjectiveParams) length2() float64 {
	if p.Unit == dp.User {
		return p.MaxRating
	}
	u := p.StartUser()
	return model.Dot(u, u)
}

// weight returns λ.
func (p ObjectiveParams) weight() float64 { return p.Ridge * p.StartMean }

// Sensitivity bounds how far a unit moves the gradients of the objectives of all items, summed over
// the items in L2 norm each, at any feasible V: count·2R‖u‖. A rating x of an item adds 2(<u,v> -
// x)u to its gradient; for feasible u and v, x and <u,v> are from 0 to R.
func (p ObjectiveParams) Sensitivity() float64 {
	return p.count() * 2 * p.MaxRating * math.Sqrt(p.length2())
}

// Curvature bounds the ε that a unit gives an observer by changing the curvature of the objective: count·ln(1 + ‖u‖²/λ).
func (p ObjectiveParams) Curvature() float64 { return p.count() * math.Log1p(p.length2()/p.weight()) }

// RidgeFor returns the ridge at which curvature takes a share of ε.
func (p ObjectiveParams) RidgeFor(share float64) float64 {
	return p.length2() / math.Expm1(share*p.Epsilon/p.count()) / p.StartMean
}

// rate returns β: a row of noise η has a density in proportion to exp(-β‖η‖).
func (p ObjectiveParams) rate() float64 { return (p.Epsilon - p.Curvature()) / p.Sensitivity() }

// Objective returns V by objective perturbation (Chaudhuri, Monteleoni and Sarwate 2011; for matrix factorization Hua, Xia and
// Zhong 2015). The FMF paper compares with it in figure 5. With U fixed, each row of V is
//
//	v_j = argmin Σ_i (x_ij - <u_i, v>)² + λ‖v - v⁰‖² + <η_j, v>   over v >= 0, ‖v‖² <= R,
//
// with v⁰ the common start, which is public, and η_j drawn once with a density in proportion to exp(-β‖η_j‖). U may depend on a
// unit's own data at most: with unit rating every u_i is the public start, and with unit user it is fitted to that user's ratings
// against v⁰. random draws the trimming of users and the noise.
//
// # Why V is ε-DP
//
// Units are present or absent (add-remove). Let f be the objective of a row without noise, H = 2Σuuᵀ + 2λI its constant second
// derivative, and P the projection to the feasible set, which is convex. Let w = v + n for the returned v and the outward n that
// holds it there. Then -η = ∇f(Pw) + (w - Pw), because v is the minimiser.
//
// Given η there is one w, and given w one η, and both ways are Lipschitz. So w has the density p(η(w))·|det M|, M = HP' + I - P',
// where P' is the derivative of P. P' exists almost everywhere. As the second derivative of a convex function, it is symmetric with
// eigenvalues from 0 to 1. v = Pw says no more than w.
//
// One more rating adds g = 2(<u,v> - x)u to ∇f(Pw), and Pw is feasible, so ‖g‖ <= 2R‖u‖: the first factor changes by at most
// e^(β‖g‖). To H it adds 2uuᵀ, and det M grows by the factor 1 + 2uᵀP'M⁻¹u. Where P' has an inverse, P'M⁻¹ = (H + P'⁻¹ - I)⁻¹ is at
// most H⁻¹, and so at most I/2λ; elsewhere by continuity. The second factor changes by at most 1 + ‖u‖²/λ. A unit of k ratings, all
// of different items, does so to k rows, whose noise is independent: ε = βk2R‖u‖ + k·ln(1 + ‖u‖²/λ) = β·Sensitivity + Curvature. ∎
//
// The proof needs the exact minimiser: [quadratic.feasible] returns it up to the rounding of float64. Rows are rounded to multiples
// of 2^-24 afterwards, like all messages of parties with noise in floating point; nothing is claimed about bits below. The largest
// noise that 64 bits give is 44/β a coordinate, which the exact law exceeds with a chance of 2^-64.
func Objective(ctx context.Context, rows []model.Ratings, p ObjectiveParams, random io.Reader, run protocol.Runner) (*model.Matrix, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if err := kernel.CheckRatings(rows, p.Items, p.MaxRating); err != nil {
		return nil, err
	}
	start := p.StartItems()
	users := p.StartUsers(len(rows))
	if p.Unit == dp.User {
		run.Each(len(rows), func(i int) { copy(users.Row(i), p.User(rows[i], start)) })
	}
	if p.ClipRatings > 0 {
		var err error
		if rows, err = kernel.Trim(rows, p.ClipRatings, random); err != nil {
			return nil, err
		}
	}
	d := p.Rank
	all := make([]quadratic, p.Items)
	for j := range all {
		all[j] = p.anchored(start.Row(j))
	}
	for i, r := range rows {
		u := users.Row(i)
		for k, j := range r.Items {
			all[j].add(u, float64(r.Values[k]))
		}
	}
	bits := noise.NewBits(random)
	eta := make([]float64, d)
	for j := range all {
		if err := p.draw(eta, bits); err != nil {
			return nil, err
		}
		floats.AddScaled(all[j].b, -0.5, eta) // <η, v> is -2·(-η/2)ᵀv
	}
	v := model.NewMatrix(p.Items, d)
	run.Each(p.Items, func(j int) {
		for c, x := range all[j].feasible(p.MaxRating) {
			v.Row(j)[c] = math.Floor(x*grid) / grid
		}
	})
	return v, ctx.Err()
}

// grid is the fixed point of a row, as of averages of parties (package kernel).
const grid = 1 << 24

// anchored returns λ‖v - v⁰‖², except for a constant.
func (p ObjectiveParams) anchored(start []float64) quadratic {
	d := p.Rank
	q := quadratic{make([]float64, d*d), make([]float64, d)}
	for c, x := range start {
		q.a[c*d+c] = p.weight()
		q.b[c] = p.weight() * x
	}
	return q
}

// add adds (x - <u,v>)², except for a constant.
func (q quadratic) add(u []float64, x float64) {
	for a, ua := range u {
		q.b[a] += x * ua
		row := q.a[a*len(u) : (a+1)*len(u)]
		for b, ub := range u {
			row[b] += ua * ub
		}
	}
}

// draw draws η with a density in proportion to exp(-β‖η‖): a length of Gamma(d, 1/β), the sum of d
// exponential draws, and the direction of a normal vector.
func (p ObjectiveParams) draw(eta []float64, bits *noise.Bits) error {
	clear(eta)
	if math.IsInf(p.Epsilon, 1) {
		return nil
	}
	length := 0.
	for range eta {
		length -= math.Log((float64(bits.Uint64())+0.5)*0x1p-64) / p.rate()
	}
	normal, err := noise.NewGaussian(1)
	if err == nil {
		err = normal.Add(eta, bits)
	}
	if err != nil {
		return fmt.Errorf("fmf: drawing noise: %w", err)
	}
	floats.Scale(length/math.Sqrt(model.Dot(eta, eta)), eta)
	return nil
}

// curvatureShare is the share of ε for the curvature if no ridge is given. On synthetic:small at ε = 5 a tenth is 0.03 worse per
// user and a 40th 0.013, over seeds 1 to 3; per rating all are within 0.004.
const curvatureShare = 0.05

// alone is the number of steps of a user who trains alone: as many as in LFL.
const alone = 10

// objectiveInstance is objective perturbation with all ratings in one place.
type objectiveInstance struct {
	algorithm.OnePlace
	setup  *algorithm.Setup
	params ObjectiveParams
}

func openObjective(s *algorithm.Setup, p kernel.Params) (algorithm.Instance, error) {
	o := ObjectiveParams{Params: p, Unit: algorithm.UnitOf(s.Config), ClipRatings: fedmf.ClipRatings.Int(s.Config), Epsilon: algorithm.Epsilon.Value(s.Config)}
	still := 1.
	if s.Private() {
		still = o.RidgeFor(curvatureShare)
	}
	itemRidge.Set(&s.Config, itemRidge.Or(s.Config, still))
	o.Ridge = itemRidge.Value(s.Config)
	if err := o.Validate(); err != nil {
		return nil, config.Wrap(err)
	}
	if s.Private() {
		s.Privacy.Proved = dp.Result{Epsilon: o.Epsilon, Accountant: dp.Pure}
	}
	return &objectiveInstance{setup: s, params: o}, nil
}

// Epochs returns 1: there is one pass.
func (x *objectiveInstance) Epochs() int { return 1 }

// Train returns V, which the statement of privacy is about. Users are fitted to it afterwards, each
// to its own ratings and without noise, so their embeddings are left out.
func (x *objectiveInstance) Train(ctx context.Context, run protocol.Runner, _ algorithm.Passes, src entropy.Source, passed func(algorithm.Epoch) error) (*model.Trained, error) {
	seed, err := entropy.NewSeed(src, "objective", 1)
	if err != nil {
		return nil, err
	}
	f, err := x.factors(ctx, x.params, seed.Stream("noise"), run)
	if err != nil {
		return nil, err
	}
	t := &model.Trained{Predictor: f, Matrices: []model.Named{{Name: "item_embeddings", Matrix: f.Items}}}
	return t, passed(algorithm.Epoch{Number: 1, Model: f, Save: f.Items.Encode})
}

// factors returns V and the users fitted to it.
func (x *objectiveInstance) factors(ctx context.Context, p ObjectiveParams, random io.Reader, run protocol.Runner) (*model.Factors, error) {
	items, err := Objective(ctx, x.setup.Rows(), p, random, run)
	if err != nil {
		return nil, err
	}
	return kernel.FitUsers(p.Params, x.setup.Train, items, run), nil
}

func (x *objectiveInstance) Baselines() []algorithm.Baseline {
	still := algorithm.Baseline{Name: "non_private", Itself: !x.setup.Private()}
	if !still.Itself {
		still.Note = "this objective without noise, of all ratings and a start that weighs one rating"
		still.Predict = func(run protocol.Runner) (model.Predictor, error) {
			p := x.params
			p.Epsilon, p.Ridge, p.ClipRatings = math.Inf(1), 1, 0
			return x.factors(context.Background(), p, nil, run)
		}
	}
	return append(fedmf.StartBaselines(x.setup, x.params.Params, alone), still)
}

func (x *objectiveInstance) Words() algorithm.Words {
	return algorithm.Words{Model: "each user fitted to it afterwards; only item embeddings are written"}
}

// quadratic is vᵀAv - 2bᵀv with A positive definite, rows one after the other.
type quadratic struct {
	a, b []float64
}

// feasible returns the v that minimises q over the feasible embeddings, v >= 0 and ‖v‖² <= r. It is exact up to the rounding of
// float64. In one dimension it is a quotient, cut to the interval. In more it is the minimiser over v >= 0 of an active set. If
// that is outside the ball, it is the minimiser with A + τI, for the τ that puts it on the ball's edge.
func (q quadratic) feasible(r float64) []float64 {
	v := q.positive(0)
	if model.Dot(v, v) <= r {
		return v
	}
	// ‖v‖ falls in τ: v minimises over v >= 0, so vᵀ(A+τI)v = bᵀv, and τ‖v‖² <= bᵀv <= ‖b‖‖v‖.
	low, high := 0., math.Sqrt(model.Dot(q.b, q.b)/r)
	for {
		middle := low + (high-low)/2
		if middle <= low || middle >= high {
			return v
		}
		at := q.positive(middle)
		if model.Dot(at, at) > r {
			low = middle
		} else {
			high, v = middle, at // inside, so that the returned v is feasible
		}
	}
}

// positive minimises q + τ‖v‖² over v >= 0 (Lawson and Hanson 1974, chapter 23, on the Gram matrix). Coordinates enter by the
// steepest gain, unless it is rounding. The value falls with every set that is left, so no set comes back and it ends.
func (q quadratic) positive(tau float64) []float64 {
	d := len(q.b)
	v, free, refused := make([]float64, d), make([]bool, d), make([]bool, d)
	least := 1e-14 * math.Sqrt(model.Dot(q.b, q.b))
	for {
		enter, most := -1, least
		for i := range d {
			if gain := q.b[i] - model.Dot(q.a[i*d:(i+1)*d], v) - tau*v[i]; !free[i] && !refused[i] && gain > most {
				enter, most = i, gain
			}
		}
		if enter < 0 {
			return v
		}
		free[enter] = true
		if !q.settle(v, free, enter, tau) {
			refused[enter] = true // its gain was rounding
			continue
		}
		clear(refused)
	}
}

// settle moves v to the minimiser over its free coordinates, and fixes at 0 the coordinates that reach 0 on the way. It reports
// false if the coordinate that entered last would be negative at once.
func (q quadratic) settle(v []float64, free []bool, entered int, tau float64) bool {
	for first := true; ; first = false {
		to := q.solve(free, tau)
		if first && to[entered] <= 0 {
			free[entered] = false
			return false
		}
		share := 1. // share of the way without a negative coordinate
		for i := range v {
			if free[i] && to[i] <= 0 {
				share = min(share, v[i]/(v[i]-to[i]))
			}
		}
		done := true
		for i := range v {
			if !free[i] {
				continue
			}
			blocked := to[i] <= 0 && v[i]/(v[i]-to[i]) <= share
			if v[i] += share * (to[i] - v[i]); blocked {
				v[i], free[i], done = 0, false, false
			}
		}
		if done {
			copy(v, to)
			return true
		}
	}
}

// solve solves (A + τI)x = b over the free coordinates by Cholesky's decomposition; the others are 0.
func (q quadratic) solve(free []bool, tau float64) []float64 {
	d := len(q.b)
	which := slices.DeleteFunc(model.Indices(d), func(i int32) bool { return !free[i] })
	n := len(which)
	a, x := make([]float64, n*n), make([]float64, n)
	for i, k := range which {
		for j, l := range which {
			a[i*n+j] = q.a[int(k)*d+int(l)]
		}
		a[i*n+i] += tau
		x[i] = q.b[k]
	}
	dense.SolveUpper(a, x, n)
	out := make([]float64, d)
	for i, k := range which {
		out[k] = x[i]
	}
	return out
}
