package cond

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/fedsim/fedsim/dp/noise"
)

// laplace draws integers k with probabilities in proportion to e^(-rate·|k|): the discrete Laplace, or two-sided geometric, law. If a
// unit moves counts by at most s in L1 norm, noise of this law on the counts is (rate·s)-DP, without a δ. It is immutable, so any
// number of goroutines may share it, each with its own Bits.
//
// The algorithm is algorithm 2 of Canonne, Kamath and Steinke 2020 ("The Discrete Gaussian for Differential Privacy"). It uses whole
// numbers only and no table, and is exact for a rate that is a ratio of integers, given uniform bits. The number of words of a draw
// depends on the draw.
type laplace struct{ rate ratio }

// ratio is the parameter num/den of samplers without rounding. Both are at least 1 and at most
// 2^31, which callers see to.
type ratio struct{ num, den uint64 }

// float returns the ratio as a number.
func (r ratio) float() float64 { return float64(r.num) / float64(r.den) }

// add adds an independent draw to every coordinate of dst. If the stream fails, add clears dst, so that nothing with too little
// noise can leave by mistake, and returns the stream's error.
func (l laplace) add(dst []int64, b *noise.Bits) error {
	for i := range dst {
		dst[i] += l.draw(b)
	}
	if b.Err() != nil {
		clear(dst)
	}
	return b.Err()
}

// draw returns 0 once the stream has failed. x = u + den·v is den·(a geometric variable of rate 1)
// with digits u. It has probabilities in proportion to e^(-x/den), and its quotient by num has the
// law of the rate. A sign makes it two-sided; 0 must not count twice.
func (l laplace) draw(b *noise.Bits) int64 {
	for b.Err() == nil {
		u := below(b, l.rate.den)
		if !happensExp(b, u, l.rate.den) {
			continue
		}
		var v uint64
		for b.Err() == nil && happensExp(b, 1, 1) {
			v++
		}
		k := (u + l.rate.den*v) / l.rate.num
		if negative := b.Uint64()>>63 == 1; !negative {
			return int64(k)
		} else if k > 0 {
			return -int64(k)
		}
	}
	return 0
}

// responder is randomised response over n values: the true value with probability e^ε/(e^ε + n - 1), each other value with 1/(e^ε + n -
// 1). It is ε-DP for the value, without a δ: no answer is more than e^ε times as likely with another value. It is immutable, so any
// number of goroutines may share it, each with its own Bits.
type responder struct {
	n       uint64 // at least 1 and at most 2^31
	epsilon ratio
}

// keep returns the probability of the true value less the probability of any other value: (e^ε -
// 1)/(e^ε + n - 1).
func (r responder) keep() float64 {
	up := math.Expm1(r.epsilon.float())
	return up / (up + float64(r.n))
}

// randomise replaces every value, from 0 to n-1, by an answer. It draws answers by rejection, in
// whole numbers only: a value drawn evenly is accepted if it is the true value, and otherwise with
// the probability e^-ε. That is exact for the ratio ε, given uniform bits, and takes at most min(n,
// e^ε) attempts on average. A value out of range is an error. If the stream fails, randomise clears
// values and returns the stream's error.
func (r responder) randomise(values []int, b *noise.Bits) error {
	for i, v := range values {
		if v < 0 || uint64(v) >= r.n {
			clear(values)
			return fmt.Errorf("value %d at %d; it must be from 0 to %d", v, i, r.n-1)
		}
		values[i] = r.answer(v, b)
	}
	if b.Err() != nil {
		clear(values)
	}
	return b.Err()
}

// answer returns 0 once the stream has failed.
func (r responder) answer(v int, b *noise.Bits) int {
	for b.Err() == nil {
		if a := int(below(b, r.n)); a == v || r.other(b) {
			return a
		}
	}
	return 0
}

// other returns true with the probability e^-ε: whole units of ε first, then the rest.
func (r responder) other(b *noise.Bits) bool {
	for range r.epsilon.num / r.epsilon.den {
		if !happensExp(b, 1, 1) {
			return false
		}
	}
	return happensExp(b, r.epsilon.num%r.epsilon.den, r.epsilon.den)
}

// happensExp returns true with the probability e^(-num/den), num <= den <= 2^31, by von Neumann's
// series. Of events with the chances γ, γ/2, γ/3, ... the first event that does not happen has an
// odd number with that probability. It returns false once the stream has failed.
func happensExp(b *noise.Bits, num, den uint64) bool {
	k := uint64(1)
	for below(b, den*k) < num && b.Err() == nil {
		k++ // den·k has room for 2^31 of them, which do not happen: the chance is below 1/k!
	}
	return k&1 == 1 && b.Err() == nil
}

// below draws an integer below n >= 1, each equally likely (Lemire's method); 0 once the stream has failed.
func below(b *noise.Bits, n uint64) uint64 {
	for {
		hi, lo := bits.Mul64(b.Uint64(), n)
		if lo >= n || lo >= -n%n || b.Err() != nil {
			return hi
		}
	}
}
