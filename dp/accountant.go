package dp

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/internal/problems"
)

// Accountant is a method of computing ε from the releases.
type Accountant string

const (
	// RDP adds up Rényi divergences and converts the sum once. It covers every mechanism except
	// SubsampledSkellam. It is proved, but not tight.
	RDP Accountant = "rdp"
	// PLD composes the distributions of the privacy loss by Fourier transform, in both directions
	// of add/remove, on a grid that rounds up (Doroshenko et al. 2022). It is proved for Gaussians
	// with and without Poisson sampling, alone or together.
	//
	// It exceeds the least ε by about 5e-6 to 5e-5, relative to ε or to the change of ε that
	// changes δ by a factor of e, if that change is larger. It exceeds ε by more if the rate is
	// below about 1e-4 and δ is below about 1e-10, because then its bound on rounding matters.
	// Beyond its resolution (10^8 releases, ε in the millions) it returns the cost of the same
	// releases without sampling: much higher, but still a bound.
	PLD Accountant = "pld"
	// Exact computes the tight ε of plain Gaussians, which compose to one Gaussian (Balle and Wang
	// 2018). It is proved.
	Exact Accountant = "exact"
	// GDPSkellam charges a Skellam release as a Gaussian that is narrower by (1 + 0.5/V), where V
	// is the variance in integers. A release over Poisson samples is charged as such a Gaussian
	// over the samples. It is as tight as Exact and PLD. It is proved for variances of at least 16
	// (dp/proofs.md); below 16 it uses RDP. Runs with Skellam noise use it by default.
	GDPSkellam Accountant = "gdp-skellam"
	// Best takes the smallest ε of the accountants that apply: exact, pld, gdp-skellam and rdp.
	Best Accountant = "best"
	// Pure names the proof of a mechanism that needs no δ and has no event. ε is a parameter of the
	// noise. Pure composes nothing.
	Pure Accountant = "pure"
	// Shuffling names the proof for messages that users randomise and a shuffler permutes: see
	// [Local.Shuffled].
	Shuffling Accountant = "shuffling"
)

var accountants = []Accountant{RDP, PLD, Exact, GDPSkellam, Best}

// ParseAccountant parses an accountant's name. The error lists the valid ones.
func ParseAccountant(s string) (Accountant, error) { return parse("accountant", s, accountants) }

// ErrNoAccountant is returned if the chosen accountant does not cover the events, or if no
// accountant does.
var ErrNoAccountant = errors.New("dp: no accountant covers this")

// Result answers a Problem.
type Result struct {
	// Epsilon is an upper bound on ε; +Inf if no ε satisfies the requested δ.
	Epsilon float64
	// Accountant names the accountant behind Epsilon. For Best it is the accountant with the
	// smallest ε. For GDPSkellam it is RDP if an event has too little noise for the theorem.
	Accountant Accountant
}

// Problem asks for the cost of a list of releases at one δ.
type Problem struct {
	Events     []Event // in any order; an empty list costs nothing
	Delta      float64 // in (0, 1)
	Accountant Accountant

	// SamplerError is the total-variation distance between the drawn noise and the accounted noise,
	// summed over the whole run: SamplerError(n, L, T), or 0 for exact noise. The answer is then
	// the smallest ε with δ(ε) + SamplerError·(1 + e^ε) <= Delta.
	SamplerError float64

	// Searches are private searches, which cost their runs and their choice together. Only RDP (and
	// so Best) covers them.
	Searches []Search
}

// Validate reports every fault of the problem.
func (p Problem) Validate() error {
	errs := problems.List{p.budget().check(true, "")}
	for i, e := range p.Events {
		if err := e.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("event %d: %w", i, err))
		}
	}
	for _, s := range p.Searches {
		if errs = append(errs, s.Validate()); !s.Private() {
			errs = append(errs, errors.New("dp: no ε covers a search without private selection"))
		}
	}
	return errors.Join(errs...)
}

// budget returns the way to measure the problem, without a limit.
func (p Problem) budget() Budget {
	return Budget{Delta: p.Delta, Accountant: p.Accountant, SamplerError: p.SamplerError}
}

// Epsilon solves the problem. It returns ErrNoAccountant if the accountant does not cover the
// events, and Validate's errors.
func (p Problem) Epsilon() (Result, error) {
	if err := p.Validate(); err != nil {
		return Result{}, err
	}
	if len(p.Searches) > 0 {
		return p.searched(func(curve renyiCurve) renyiCurve { return curve }) // of a unit that is left out
	}
	c, err := compose(p.Events)
	if err != nil {
		return Result{}, err
	}
	return p.budget().cost(c)
}

// privacyBound returns, for a δ, the smallest ε that an accountant shows for a composition. It is
// +Inf for δ <= 0 and falls in δ.
type privacyBound interface {
	epsilon(delta float64) float64
}

// cost returns the ε of a composition.
func (b Budget) cost(c composition) (Result, error) {
	if len(c) == 0 {
		return Result{Epsilon: 0, Accountant: b.Accountant}, nil
	}
	if b.Accountant == Best {
		return b.best(c)
	}
	bound, used, err := b.Accountant.bound(c)
	if err != nil {
		return Result{}, err
	}
	return Result{Epsilon: b.solve(bound), Accountant: used}, nil
}

// best tries the accountants, the tightest first.
func (b Budget) best(c composition) (Result, error) {
	found := Result{Epsilon: math.NaN()}
	var errs []error
	tried := []Accountant{Exact, PLD, RDP}
	if slices.ContainsFunc(c, func(e Event) bool { return e.Mechanism.Integer() }) {
		tried = []Accountant{GDPSkellam, RDP}
	}
	for _, a := range tried {
		b.Accountant = a
		r, err := b.cost(c)
		switch {
		case errors.Is(err, ErrNoAccountant):
			errs = append(errs, err)
		case err != nil:
			return Result{}, err
		case !(found.Epsilon <= r.Epsilon):
			found = r
		}
	}
	if math.IsNaN(found.Epsilon) {
		return Result{}, errors.Join(errs...)
	}
	return found, nil
}

func (a Accountant) bound(c composition) (b privacyBound, used Accountant, err error) {
	switch a {
	case RDP:
		b, err = renyiSum(c)
	case PLD:
		b, err = pldBound(c)
	case Exact:
		b, err = exactComposition(c)
	case GDPSkellam:
		return gdpSkellamBound(c)
	default:
		err = fmt.Errorf("%w: accountant %q", ErrNoAccountant, a)
	}
	return b, a, err
}

// solve finds the smallest ε with δ(ε) + E·(1 + e^ε) <= δ, where E is the samplers' error. It
// exceeds that ε by at most slack·(1 + ε). Iterating ε <- bound(δ - E·(1 + e^ε)) from below climbs
// to the smallest fixed point, since the right side rises with ε. If E leaves nothing of δ, there
// is no such ε. If the two sides nearly touch, the plain climb takes thousands of steps: where two steps have a ratio above a
// quarter, from where the climb would take more than 16 steps, it leaps.
func (b Budget) solve(bound privacyBound) float64 {
	eps := bound.epsilon(b.Delta - 2*b.SamplerError)
	if b.SamplerError == 0 || math.IsInf(eps, 1) {
		return eps
	}
	for step := math.Inf(1); ; {
		raised := raise(eps)
		next := b.rest(bound, raised)
		if next <= raised {
			return raised
		}
		if math.IsInf(next, 1) {
			return next
		}
		slow := next-raised > step/4
		if eps, step = next, next-raised; slow {
			break
		}
	}
	curve, ok := bound.(renyiCurve)
	if !ok {
		return b.leap(bound, eps)
	}
	least := math.Inf(1)
	for i := range curve { // a single order is convex, the best of all orders is not
		alone := slices.Repeat(renyiCurve{math.Inf(1)}, len(curve))
		alone[i] = curve[i]
		least = min(least, b.leap(alone, eps))
	}
	return least
}

// slack makes an ε that solve finds from below satisfy the inequality.
const slack = 1e-10

func raise(epsilon float64) float64 { return epsilon + slack*(1+epsilon) }

// rest returns the ε that a bound gives for the δ that the samplers' error leaves at epsilon.
func (b Budget) rest(bound privacyBound, epsilon float64) float64 {
	return bound.epsilon(b.Delta - b.SamplerError*(1+math.Exp(epsilon)))
}

// leap climbs further from eps by secants. Let γ = e^ε. δ is convex in γ, as the supremum of P(S) -
// γ·Q(S) over events S, and it falls. So its inverse is convex, and so is G(γ) = e^bound(δ - E·(1 +
// γ)) - γ. To the right of two points a convex function lies above the secant through them. So the
// secant's zero is not beyond the smallest zero of G. If the secant does not fall, then G, positive
// in both points, has no zero to the right. Rounding may exceed the smallest zero, or miss a zero
// that only just exists; both err towards more ε.
func (b Budget) leap(bound privacyBound, eps float64) float64 {
	x0 := raise(eps)
	y0 := b.rest(bound, x0)
	x1 := raise(y0)
	for y0 > x0 {
		y1 := b.rest(bound, x1)
		if y1 <= x1 || math.IsInf(y1, 1) {
			return max(x1, y1)
		}
		// G in units of e^x1
		g0, g1, step := math.Exp(x0-x1)*math.Expm1(y0-x0), math.Expm1(y1-x1), -math.Expm1(x0-x1)
		if !(g0 > g1) {
			return math.Inf(1)
		}
		x0, y0, x1 = x1, y1, raise(max(y1, x1+math.Log1p(g1*step/(g0-g1))))
	}
	return x0
}
