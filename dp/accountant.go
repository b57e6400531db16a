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

// solve finds the smallest ε with δ(ε) + E·(1 + e^ε) <= δ, E being the
// samplers' error. Iterating ε <- bound(δ - E·(1 + e^ε)) from below climbs to
// the smallest fixed point, since the right side rises with ε. Where E leaves
// nothing of δ there is no such ε.
func (s settings) solve(b privacyBound) float64 {
	// The iterates approach the fixed point from below; a step of slack past
	// it makes the answer satisfy the inequality.
	const slack = 1e-10
	eps := b.epsilon(s.delta - 2*s.samplerError)
	for s.samplerError > 0 && !math.IsInf(eps, 1) {
		raised := eps + slack*(1+eps)
		next := b.epsilon(s.delta - s.samplerError*(1+math.Exp(raised)))
		if next <= raised {
			return raised
		}
		eps = next
	}
	return eps
}
