package dp

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrUnattainable is returned by calibrations if no amount of noise meets the budget. Either ε is
// below the smallest value that the accountant's conversion can show at that δ, or the samplers'
// error uses up δ.
var ErrUnattainable = errors.New("dp: no noise meets the budget")

// minNoise and maxNoise limit the search for the noise. The result is never below minNoise. Both
// are far outside practical values.
const (
	minNoise = 1e-6
	maxNoise = 1e18
	// calibrationPrecision is relative; the result is rounded up by at most this share.
	calibrationPrecision = 1e-8
)

// NoiseMultiplier returns the least noise multiplier z with which steps Gaussian releases meet the
// budget, and their cost, at most b.Epsilon. Each release is over a Poisson sample of rate
// samplingRate (1: no sampling). z is within 1e-8 relative of the least, and at least 1e-6. PLD
// rounds ε up by a few 1e-5, relative, and not always by the same amount; its z is as close to the
// least as that.
func NoiseMultiplier(b Budget, steps int, samplingRate float64) (z float64, r Result, err error) {
	return Calibrate(b, func(z float64) []Event {
		if samplingRate == 1 {
			return []Event{Gaussian(z).Times(steps)}
		}
		return []Event{SubsampledGaussian(z, samplingRate).Times(steps)}
	})
}

// SkellamVariance returns the least variance V with which release meets the budget, and its cost,
// at most b.Epsilon. release is a Skellam or SubsampledSkellam event with its sensitivities and
// count; its own variance is ignored. V is within 1e-8 relative of the least, and at least 1e-6.
func SkellamVariance(b Budget, release Event) (v float64, r Result, err error) {
	release.Variance = 1
	return SkellamFactor(b, []Event{release})
}

// SkellamFactor calibrates several releases that share a budget in fixed proportions. It returns
// the least factor for their variances with which all of them together meet the budget, and their
// cost, at most b.Epsilon.
//
// releases contains at least one Skellam or SubsampledSkellam event, with sensitivities and counts.
// Their variances are positive and finite, in any unit. The factor is within 1e-8 relative of the
// least, and leaves the largest variance at 1e-6 or more. Under GDPSkellam ε jumps where an event
// gets enough noise for the theorem; SkellamFactor searches all pieces between jumps.
func SkellamFactor(b Budget, releases []Event) (factor float64, r Result, err error) {
	if len(releases) == 0 {
		return 0, Result{}, errors.New("dp: no releases are given; there is nothing to calibrate")
	}
	variances := make([]float64, len(releases))
	for i, e := range releases {
		if !e.Mechanism.Integer() {
			return 0, Result{}, fmt.Errorf("dp: a %s event has no variance to calibrate; use a %s or %s one",
				e.Mechanism, SkellamMechanism, SubsampledSkellamMechanism)
		}
		if !(e.Variance > 0) || math.IsInf(e.Variance, 1) {
			return 0, Result{}, fmt.Errorf("dp: the variance to be multiplied is %v; it must be positive and finite", e.Variance)
		}
		variances[i] = e.Variance
	}
	scaled := slices.Clone(releases)
	return CalibrateFactor(b, variances, func(factor float64) []Event {
		for i, e := range releases {
			scaled[i].Variance = factor * e.Variance
		}
		return scaled
	})
}

// CalibrateFactor is SkellamFactor for callers that make the events of the multiplied variances
// themselves, because they charge several releases as one.
func CalibrateFactor(b Budget, variances []float64, events func(factor float64) []Event) (factor float64, r Result, err error) {
	var starts []float64
	if b.Accountant == GDPSkellam || b.Accountant == Best {
		for _, v := range variances {
			starts = append(starts, MinGaussianVariance/v)
		}
	}
	slices.Sort(starts)
	return calibrate(b, minNoise/max(slices.Max(variances), 1), slices.Compact(starts), events)
}

// Calibrate returns the least noise with which events(noise) meets the budget, and the cost, at
// most b.Epsilon. It calibrates several releases that share a budget: events maps the noise, in any
// unit, to the releases, and more noise must not cost more. The result is within 1e-8 relative of
// the least, and at least 1e-6.
//
// Under GDPSkellam ε jumps where an event has too little noise for the theorem. The budget is met
// all the same, but a smaller noise on the other side of the jump may meet it too. PLD is monotone
// to a few 1e-5, see NoiseMultiplier.
func Calibrate(b Budget, events func(noise float64) []Event) (noise float64, r Result, err error) {
	return calibrate(b, minNoise, nil, events)
}

// calibrate searches the pieces that begin at minNoise and at each of starts, in ascending order.
// On each piece ε falls with the noise. If minNoise lies above the first start, or meets the
// budget, the search continues down to least.
func calibrate(b Budget, least float64, starts []float64, events func(noise float64) []Event) (float64, Result, error) {
	if err := b.ValidateFinite(); err != nil {
		return 0, Result{}, err
	}
	var refused error // why the last tried noise had no ε
	cheapest := Result{Epsilon: math.Inf(1)}
	meets := func(noise float64) (Result, bool, error) {
		r, err := Problem{Events: events(noise), Delta: b.Delta, Accountant: b.Accountant, SamplerError: b.SamplerError}.Epsilon()
		if errors.Is(err, ErrNoAccountant) { // perhaps covered at another noise
			refused = err
			return Result{}, false, nil
		}
		if err == nil && r.Epsilon < cheapest.Epsilon {
			cheapest = r
		}
		return r, err == nil && r.Epsilon <= b.Epsilon, err
	}
	bounds := append(append([]float64{minNoise}, starts...), math.Inf(1))
	if bounds[0] >= bounds[1] {
		bounds[0] = least
	}
	for i, lo := range bounds[:len(bounds)-1] {
		hi := min(maxNoise, math.Nextafter(bounds[i+1], 0))
		noise, r, err := searchPiece(lo, hi, meets)
		if err == nil && i == 0 && noise == minNoise && least < minNoise {
			noise, r, err = searchPiece(least, minNoise, meets)
		}
		if err != nil {
			return 0, Result{}, err
		}
		if noise > 0 {
			return noise, r, nil
		}
	}
	if refused != nil && math.IsInf(cheapest.Epsilon, 1) {
		return 0, Result{}, refused
	}
	return 0, Result{}, fmt.Errorf("%w: epsilon %v at delta %v with accountant %s and sampler error %v; the smallest that can be shown is %v",
		ErrUnattainable, b.Epsilon, b.Delta, b.Accountant, b.SamplerError, cheapest.Epsilon)
}

// searchPiece finds the least noise in [lo, hi] that meets the budget, by bisection of its
// logarithm; 0 if hi does not meet the budget.
func searchPiece(lo, hi float64, meets func(float64) (Result, bool, error)) (float64, Result, error) {
	best, ok, err := meets(hi)
	if err != nil || !ok {
		return 0, Result{}, err
	}
	if r, ok, err := meets(lo); err != nil || ok {
		return lo, r, err
	}
	for hi > lo*(1+calibrationPrecision) {
		mid := math.Sqrt(lo) * math.Sqrt(hi)
		r, ok, err := meets(mid)
		if err != nil {
			return 0, Result{}, err
		}
		if ok {
			hi, best = mid, r
		} else {
			lo = mid
		}
	}
	return hi, best, nil
}
