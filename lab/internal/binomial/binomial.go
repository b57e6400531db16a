// Package binomial bounds probabilities by how often something happened.
package binomial

import "math"

// Tail is the error rate of each bound of an interval of 95%.
const Tail = 0.025

// Lower is the lower bound of Clopper and Pearson (1934) on the probability of an event that happened in k of n trials. The
// bound is wrong with probability at most tail.
func Lower(k, n int, tail float64) float64 {
	if k == 0 {
		return 0
	}
	return Solve(func(p float64) bool { return AtLeast(k, n, p) < tail })
}

// Upper is the upper bound of Clopper and Pearson, wrong with probability at most tail.
func Upper(k, n int, tail float64) float64 { return 1 - Lower(n-k, n, tail) }

// Solve is the largest p in [0, 1] for which something holds that holds below it.
func Solve(holds func(p float64) bool) float64 {
	lo, hi := 0., 1.
	for range 60 {
		if mid := (lo + hi) / 2; holds(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// AtLeast is the probability of k or more in n trials of probability p in (0, 1), k above 0.
func AtLeast(k, n int, p float64) float64 {
	log := func(i int) float64 {
		x, _ := math.Lgamma(float64(i) + 1)
		return x
	}
	term := math.Exp(log(n) - log(k) - log(n-k) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
	above := float64(k) > p*float64(n)
	if term == 0 && !above {
		return 1 // all but nothing lies above k
	}
	odds, sum := p/(1-p), 0.
	for i := k; i <= n; i++ {
		sum += term
		term *= float64(n-i) / float64(i+1) * odds
		if term < 1e-18*sum && float64(i) > p*float64(n) {
			break
		}
	}
	return min(1, sum)
}
