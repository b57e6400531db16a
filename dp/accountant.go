package dp

import (
	"errors"
	"fmt"
	"math"
)

// Accountant is a method of computing ε from the releases.
type Accountant string

const (
	// RDP adds up Rényi divergences and converts once. Proved, covers every
	// mechanism but SubsampledSkellam. It is not tight.
	RDP Accountant = "rdp"
	// PLD composes the distributions of the privacy loss by Fourier transform,
	// in both directions of add/remove, on a grid that rounds up (Doroshenko et
	// al. 2022). Proved, for Gaussians with and without Poisson sampling, alone or
	// together. It exceeds the least ε by about 5e-6 to 5e-5 of it (or of the
	// change of ε that changes δ by a factor of e, where that is larger), and by
	// more where samples are so rare (rates below about 1e-4) and δ is so small
	// (below about 1e-10) that its bound on rounding matters. Beyond what it
	// resolves (10^8 releases, ε in the millions) it gives what the same releases
	// cost without sampling: much higher, but still a bound.
	PLD Accountant = "pld"
	// Exact is the tight answer for plain Gaussians, which compose to one
	// (Balle and Wang 2018). Proved.
	Exact Accountant = "exact"
	// GDPSkellam charges a Skellam release as a Gaussian that is narrower by (1 + 0.5/V), V being
	// its variance in integers, and those over Poisson samples likewise; then it is as tight as Exact
	// and PLD are. Proved from a variance of 16 on (docs/privacy-proofs.md), RDP below; the default
	// of runs with Skellam noise.
	GDPSkellam Accountant = "gdp-skellam"
	// Best is the smallest value among the accountants that apply: exact, pld,
	// gdp-skellam and rdp.
	Best Accountant = "best"
	// Pure is the proof of a mechanism that needs no δ, of which there is no event: its ε is what its noise was
	// made for. It composes nothing.
	Pure Accountant = "pure"
	// Shuffling is the proof of messages that users randomise and somebody shuffles: see [Local.Shuffled].
	Shuffling Accountant = "shuffling"
)

var accountants = []Accountant{RDP, PLD, Exact, GDPSkellam, Best}

// ParseAccountant parses an accountant's name. The error lists the valid ones.
func ParseAccountant(s string) (Accountant, error) { return parse("accountant", s, accountants) }

// ErrNoAccountant is returned for events that the chosen accountant, or every accountant,
// does not cover.
var ErrNoAccountant = errors.New("dp: no accountant covers this")

// Result is an answered Problem.
type Result struct {
	// Epsilon is an upper bound on ε; +Inf where no ε satisfies the δ asked
	// for.
	Epsilon float64
	// Accountant is the one that the number rests on: where Best was asked for, the one
	// with the smallest ε; where GDPSkellam was asked for but an event has too little noise
	// for its theorem, RDP.
	Accountant Accountant
}

// Problem asks what a list of releases costs at one δ.
type Problem struct {
	Events     []Event // in any order; none cost nothing
	Delta      float64 // in (0, 1)
	Accountant Accountant

	// SamplerError is the total-variation distance between the noise that was
	// drawn and the noise that is accounted for, summed over the whole run:
	// SamplerError(n, L, T), or 0 for exact noise. The answer is then the
	// smallest ε with δ(ε) + SamplerError·(1 + e^ε) <= Delta.
	SamplerError float64
}

// Validate reports everything that is wrong with the problem.
func (p Problem) Validate() error {
	errs := []error{checkSettings(p.Accountant, p.Delta, p.SamplerError)}
	for i, e := range p.Events {
		if err := e.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("event %d: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

func checkSettings(a Accountant, delta, samplerError float64) error {
	_, err := ParseAccountant(string(a))
	errs := []error{err}
	if !(delta > 0 && delta < 1) {
		errs = append(errs, fmt.Errorf("dp: delta is %v; it must be above 0 and below 1", delta))
	}
	if !(samplerError >= 0 && samplerError < 1) {
		errs = append(errs, fmt.Errorf("dp: sampler error is %v; it must be at least 0 and below 1", samplerError))
	}
	return errors.Join(errs...)
}

// Epsilon solves the problem. It returns ErrNoAccountant where the accountant
// does not cover the events, and Validate's errors.
func (p Problem) Epsilon() (Result, error) {
	if err := p.Validate(); err != nil {
		return Result{}, err
	}
	c, err := compose(p.Events)
	if err != nil {
		return Result{}, err
	}
	return settings{p.Accountant, p.Delta, p.SamplerError}.epsilon(c)
}

// settings is how compositions are measured; comparable, a key of Cache.
type settings struct {
	accountant   Accountant
	delta        float64
	samplerError float64
}

// privacyBound is what an accountant makes of a composition: the smallest ε
// it shows at a δ, +Inf for δ <= 0, falling in δ.
type privacyBound interface {
	epsilon(delta float64) float64
}

func (s settings) epsilon(c composition) (Result, error) {
	if len(c) == 0 {
		return Result{Epsilon: 0, Accountant: s.accountant}, nil
	}
	if s.accountant == Best {
		return s.best(c)
	}
	b, used, err := s.accountant.bound(c)
	if err != nil {
		return Result{}, err
	}
	return Result{Epsilon: s.solve(b), Accountant: used}, nil
}

// best tries the accountants, the tightest first.
func (s settings) best(c composition) (Result, error) {
	found := Result{Epsilon: math.NaN()}
	var errs []error
	tried := []Accountant{Exact, PLD, RDP}
	if _, integer := c.first(Mechanism.Integer); integer {
		tried = []Accountant{GDPSkellam, RDP}
	}
	for _, a := range tried {
		r, err := settings{a, s.delta, s.samplerError}.epsilon(c)
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

// solve finds the smallest ε with δ(ε) + E·(1 + e^ε) <= δ, E being the samplers' error, and exceeds it by at most slack·(1 + ε).
// Iterating ε <- bound(δ - E·(1 + e^ε)) from below climbs to the smallest fixed point, since the right side rises with ε. Where
// E leaves nothing of δ there is no such ε. Where the two sides nearly touch, the plain climb takes thousands of steps: see leap.
func (s settings) solve(b privacyBound) float64 {
	eps := b.epsilon(s.delta - 2*s.samplerError)
	if s.samplerError == 0 || math.IsInf(eps, 1) {
		return eps
	}
	for step := math.Inf(1); ; {
		raised := raise(eps)
		next := s.rest(b, raised)
		if next <= raised {
			return raised
		}
		if math.IsInf(next, 1) {
			return next
		}
		slow := next-raised > slowly*step
		if eps, step = next, next-raised; slow {
			break
		}
	}
	curve, ok := b.(renyiCurve)
	if !ok {
		return s.leap(b, eps)
	}
	least := math.Inf(1)
	for i := range curve { // an order alone is convex, the best of all orders is not
		least = min(least, s.leap(renyiOrder{curve[i], i}, eps))
	}
	return least
}

// slack makes an ε that solve finds from below satisfy the inequality.
const slack = 1e-10

func raise(epsilon float64) float64 { return epsilon + slack*(1+epsilon) }

// slowly is the ratio of two plain steps above which solve leaps: from there the climb would take more than 16 steps.
const slowly = 0.25

// rest is the ε that a bound gives for what the samplers' error leaves of δ at epsilon.
func (s settings) rest(b privacyBound, epsilon float64) float64 {
	return b.epsilon(s.delta - s.samplerError*(1+math.Exp(epsilon)))
}

// leap climbs on from eps by secants. Let γ = e^ε. δ is convex in γ, as the supremum of P(S) - γ·Q(S) over events S, and it falls;
// so its inverse is convex, and so is G(γ) = e^bound(δ - E·(1 + γ)) - γ. To the right of two points a convex function is above
// the secant through them: the secant's zero is not beyond the smallest zero of G, and if the secant does not fall, then G,
// positive in both, has no zero to the right. Rounding may exceed the smallest zero or miss one that only just exists; both err towards more ε.
func (s settings) leap(b privacyBound, eps float64) float64 {
	x0 := raise(eps)
	y0 := s.rest(b, x0)
	x1 := raise(y0)
	for y0 > x0 {
		y1 := s.rest(b, x1)
		if y1 <= x1 || math.IsInf(y1, 1) {
			return max(x1, y1)
		}
		// G in units of e^x1.
		g0, g1, step := math.Exp(x0-x1)*math.Expm1(y0-x0), math.Expm1(y1-x1), -math.Expm1(x0-x1)
		if !(g0 > g1) {
			return math.Inf(1)
		}
		x0, y0, x1 = x1, y1, raise(max(y1, x1+math.Log1p(g1*step/(g0-g1))))
	}
	return x0
}

// renyiOrder is what one of renyiOrders shows.
type renyiOrder struct {
	divergence float64
	order      int
}

func (o renyiOrder) epsilon(delta float64) float64 {
	if !(delta > 0) {
		return math.Inf(1)
	}
	return max(0, o.divergence+renyiLogs[o.order][0]-(math.Log(delta)+renyiLogs[o.order][1])/(renyiOrders[o.order]-1))
}
