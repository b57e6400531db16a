// Package binomial bounds probabilities by how often something happened.
package binomial

import (
	"math"
	"sync"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/combin"
)

// Tail is the error rate of each bound of an interval of 95%.
const Tail = 0.025

// Lower is the lower bound of Clopper and Pearson (1934) on the probability of an event that happened in k of n trials. The
// bound is wrong with probability at most tail.
func Lower(k, n int, tail float64) float64 {
	if k == 0 {
		return 0
	}
	asked := [3]float64{float64(k), float64(n), tail}
	known, ok := lowers.Load(asked)
	if !ok {
		known, _ = Halve(0, 1, 60, func(p float64) bool { return AtLeast(k, n, p) < tail })
		lowers.Store(asked, known)
	}
	return known.(float64)
}

// lowers are the bounds that were computed: thresholds of an attack ask for the same counts again and again.
var lowers sync.Map

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
	return math.Exp(combin.LogGeneralizedBinomial(float64(n), float64(k)) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
}

// AtLeast is the probability of k or more in n trials of probability p in (0, 1), k above 0.
func AtLeast(k, n int, p float64) float64 {
	return mathext.RegIncBeta(float64(k), float64(n-k+1), p)
}
