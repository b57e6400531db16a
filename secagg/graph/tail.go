package graph

import (
	"slices"
	"sort"
)

const (
	// negligible ends the walk along a distribution: what lies beyond is less
	// than any bound can notice and is counted as nothing.
	negligible = 1e-300

	// roundUp covers rounding. A weight is the product of at most MaxClients
	// ratios of four roundings each: a relative error below 2^20·4·2^-53, 5e-10,
	// and as much again for the sum. The computed probability is therefore not
	// less than the true one.
	roundUp = 1 + 1e-8
)

// upperTail holds P[X >= x] for a random integer X, from above: 1 up to
// low, p[x-low] from there on, nothing beyond p.
type upperTail struct {
	low int
	p   []float64
}

// hypergeometric is the upper tail of the number of marked items among sample items drawn without
// replacement from population items. It walks from the mode in both directions by the ratio of
// neighbouring probabilities and divides by the sum. It uses no logarithm or gamma function, since
// their last bits differ between architectures: so every party reaches the same decision.
func hypergeometric(population, marked, sample int) upperTail {
	least, most := max(0, marked+sample-population), min(marked, sample)
	mode := int(int64(marked+1) * int64(sample+1) / int64(population+2))
	mode = min(max(mode, least), most)
	// P[X = x+1] / P[X = x] = up/down
	ratio := func(x int) (up, down float64) {
		return float64(marked-x) * float64(sample-x), float64(x+1) * float64(population-marked-sample+x+1)
	}
	var weights []float64
	for x, w := mode, 1.0; w > negligible; x-- {
		weights = append(weights, w)
		if x == least {
			break
		}
		up, down := ratio(x - 1)
		w *= down / up
	}
	slices.Reverse(weights)
	low := mode - len(weights) + 1
	for x, w := mode, 1.0; x < most; x++ {
		up, down := ratio(x)
		w *= up / down
		if w <= negligible {
			break
		}
		weights = append(weights, w)
	}
	// Smallest first, in place: weights become upper tails.
	for i := len(weights) - 2; i >= 0; i-- {
		weights[i] += weights[i+1]
	}
	total := weights[0]
	for i, w := range weights {
		weights[i] = min(1, w/total*roundUp)
	}
	return upperTail{low, weights}
}

// atLeast is P[X >= x].
func (u upperTail) atLeast(x int) float64 {
	switch i := x - u.low; {
	case i < 0:
		return 1
	case i >= len(u.p):
		return 0
	default:
		return u.p[i]
	}
}

// first is the smallest x with P[X >= x] below the limit, which is below 1.
func (u upperTail) first(limit float64) int {
	return u.low + sort.Search(len(u.p), func(i int) bool { return u.p[i] < limit })
}

// cutByChance bounds the probability that a ring of degree k falls apart if missing clients in
// random places are gone. The bound is the expected number of pairs of gaps of at least k/2 among
// the survivors. It holds for fewer missing, too.
func cutByChance(clients, missing, k int) float64 {
	survivors := clients - missing
	if missing < k {
		return 0 // two gaps do not fit
	}
	// The expectation grows with missing as long as missing <= (survivors+1)·k/2.
	// Beyond, the average gap is a cut, and no degree of that size is any use.
	if survivors < 2 || missing > (survivors+1)*(k/2) {
		return 1
	}
	p := float64(survivors) * float64(survivors-1) / 2
	for i := range k {
		p *= float64(missing-i) / float64(clients-1-i)
		if p <= negligible {
			return 0
		}
	}
	return min(1, p*roundUp)
}

// cutByChoice bounds the probability that an attacker who sees the ring can cut it by dropping lost
// clients, where colluding clients are no obstacle. It is the probability that two arcs of k/2, a
// client between them on either side, hold that few honest clients.
func cutByChoice(clients, colluding, lost, k int) float64 {
	if k >= clients-1 || k > colluding+lost {
		return 0
	}
	pairs := float64(clients) * float64(clients-k-1) / 2
	return min(1, pairs*hypergeometric(clients, colluding, k).atLeast(k-lost))
}
