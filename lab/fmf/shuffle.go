package fmf

import (
	"errors"
	"fmt"
	"math"
)

// Local describes messages that each user randomises: Rounds rounds of N users. One message is
// ε₀-private by itself.
type Local struct {
	Epsilon float64 // ε₀ of one message, for any replacement of the user's data
	Users   int
	Rounds  int
}

// Total returns the cost of all messages of a user for an observer who sees them with the user's
// name: Rounds·ε₀, without a δ.
func (l Local) Total() float64 { return float64(l.Rounds) * l.Epsilon }

// Shuffled returns the cost, at δ, for an observer who sees the messages of all users in a shuffled
// order in each round. It is the smaller of two proved bounds, both by optimal composition. One
// bound forgets the shuffling. In the other the shuffling amplifies each round: a theorem of
// Feldman, McMillan and Talwar (2021, theorem 3.1) gives
//
//	ε <= ln(1 + (e^ε₀ - 1)/(e^ε₀ + 1)·(8√(e^ε₀·ln(4/δ)/n) + 8e^ε₀/n)) for ε₀ <= ln(n/(16·ln(2/δ))).
//
// Half of δ is for the rounds, an equal part for each, and half for their composition. The bound
// holds for a user who is replaced, and so for a user whose record is empty and who sends all the
// same.
func (l Local) Shuffled(delta float64) (float64, error) {
	if !(l.Epsilon >= 0) || l.Users < 1 || l.Rounds < 1 || !(delta > 0 && delta < 1) {
		return 0, fmt.Errorf("gd-dr: %d rounds of %d users with messages of epsilon %v at delta %v; rounds and users must be at least 1, delta above 0 and below 1", l.Rounds, l.Users, l.Epsilon, delta)
	}
	least := composed(l.Epsilon, l.Rounds, delta)
	each := delta / 2 / float64(l.Rounds)
	if amplified, ok := amplified(l.Epsilon, float64(l.Users), each); ok {
		least = min(least, composed(amplified, l.Rounds, delta/2))
	}
	return least, nil
}

// amplified returns the ε of shuffled messages; false if the theorem does not apply.
func amplified(local, n, delta float64) (float64, bool) {
	if local > math.Log(n/(16*math.Log(2/delta))) {
		return 0, false
	}
	e := math.Exp(local)
	return math.Log1p(math.Tanh(local/2) * (8*math.Sqrt(e*math.Log(4/delta)/n) + 8*e/n)), true
}

// composed returns the least ε at δ of k releases that are (each, 0)-private and chosen as an
// adversary likes. It is the ε of k answers of randomised response (Kairouz, Oh and Viswanath 2015,
// theorem 3.3), by bisection from above, so never less than that ε. The δ of each release adds to
// delta.
func composed(each float64, k int, delta float64) float64 {
	low, high := 0., float64(k)*each
	for range 100 {
		if middle := (low + high) / 2; composedDelta(each, k, middle) <= delta {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

// composedDelta returns Σ_l C(k,l)·max(0, e^((k-l)·each) - e^(ε+l·each))/(1+e^each)^k, with
// logarithms for terms that would overflow.
func composedDelta(each float64, k int, epsilon float64) float64 {
	n := float64(k)
	norm := n * (each + math.Log1p(math.Exp(-each))) // ln(1 + e^each)^k
	lk, _ := math.Lgamma(n + 1)
	sum := 0.
	for l := range k + 1 {
		x := float64(l)
		a, _ := math.Lgamma(x + 1)
		b, _ := math.Lgamma(n - x + 1)
		up, down := (n-x)*each, epsilon+x*each
		if up > down {
			sum += math.Exp(lk-a-b+up-norm) * -math.Expm1(down-up)
		}
	}
	return sum
}

// LocalFor returns the largest ε₀ with which shuffled messages cost at most the target.
func LocalFor(epsilon, delta float64, users, rounds int) (Local, error) {
	if !(epsilon > 0) || math.IsInf(epsilon, 1) {
		return Local{}, errors.New("gd-dr: epsilon must be positive and finite")
	}
	l := Local{Users: users, Rounds: rounds}
	// One answer of randomised response with ε₀ = ε + ln(1/δ) has a δ near 1 at ε, so no ε₀ beyond it will do.
	low, high := 0., epsilon+math.Log(1/delta)
	for range 100 {
		l.Epsilon = (low + high) / 2
		got, err := l.Shuffled(delta)
		if err != nil {
			return Local{}, err
		}
		if got <= epsilon {
			low = l.Epsilon
		} else {
			high = l.Epsilon
		}
	}
	l.Epsilon = low
	return l, nil
}
