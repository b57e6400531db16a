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
	lower, _ := Halve(0, 1, 60, func(p float64) bool { return AtLeast(k, n, p) < tail })
	return lower
}

// Upper is the upper bound of Clopper and Pearson, wrong with probability at most tail.
func Upper(k, n int, tail float64) float64 { return 1 - Lower(n-k, n, tail) }

// Halve halves an interval so many times. It returns the interval in which something that holds below ends to hold.
func Halve(low, high float64, times int, holds func(x float64) bool) (float64, float64) {
	for range times {
		if mid := (low + high) / 2; holds(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low, high
}

// Mass is the probability of k in n trials of probability p in (0, 1).
func Mass(k, n int, p float64) float64 {
	log := func(i int) float64 {
		x, _ := math.Lgamma(float64(i) + 1)
		return x
	}
	return math.Exp(log(n) - log(k) - log(n-k) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
}

// AtLeast is the probability of k or more in n trials of probability p in (0, 1), k above 0.
func AtLeast(k, n int, p float64) float64 {
	term := Mass(k, n, p)
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
