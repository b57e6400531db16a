package noise

import (
	"encoding/binary"
	"fmt"
	"math"
)

// minSigma and maxSigma bound sigma; outside of them sigma times a draw would overflow or lose
// digits.
const (
	minSigma = 0x1p-900
	maxSigma = 0x1p900
)

// Gaussian draws from the normal distribution of mean 0 and standard deviation sigma, in float64,
// by the ziggurat method (Marsaglia and Tsang 2000). Layer, sign and abscissa come from disjoint
// bits of a word, as Doornik 2005 asks. Gaussian is immutable, so any number of goroutines may
// share it, each with its own Bits.
//
// # How exact a draw is
//
// Up to the rounding of float64 the law is the normal one. The 1,024 layers make up its density to
// a relative error below 1e-14. A draw is sigma times an odd multiple of x/2^54, with x < 4.28 the
// width of its layer. So values are at most 4.8e-16·sigma apart, none is zero, and a value and its
// negative are equally likely. In the tails, |draw| > 4.04·sigma, which 1 draw in 18,617 reaches,
// 52 uniform bits are turned into a value. No such value is beyond 13.2·sigma; the exact law has
// less than 1e-38 there.
//
// # What the low bits give away
//
// The float64 values that value + noise can take depend on value. So the low bits of a sum may
// betray value, for any law of the noise (Mironov 2012, "On significance of the least significant
// bits for differential privacy"). This package claims nothing about these bits. Round sums to a
// fixed grid before any other party sees them: a grid that depends on no data and is coarser by
// many orders than the spacing above. Parties do so, because they send only fixed point. For noise
// whose law is exact to the last bit use [Skellam].
//
// Noise added to a value that is 2^53 times as large is lost to rounding; the caller must bound the
// values.
type Gaussian struct {
	sigma float64
}

// NewGaussian returns the normal distribution of mean 0 and standard deviation
// sigma, which must lie between 2^-900 and 2^900.
func NewGaussian(sigma float64) (*Gaussian, error) {
	if !(sigma >= minSigma && sigma <= maxSigma) { // written this way, it refuses NaN
		return nil, fmt.Errorf("noise: Gaussian: standard deviation %v; must be positive, between 2^-900 and 2^900", sigma)
	}
	return &Gaussian{sigma: sigma}, nil
}

// Add adds an independent draw to every coordinate of dst. It reads one word of the stream per
// coordinate, and more for 1 in 234 of them. Neither sigma nor the division of a vector into calls
// changes which words make a draw.
//
// Equal words give equal sums, to the last bit, on every architecture: no product is fused with a
// sum, and no function is used whose rounding the language leaves open.
//
// If the stream fails, Add clears dst, so that nothing with too little noise can leave by mistake,
// and returns the stream's error.
func (g *Gaussian) Add(dst []float64, b *Bits) error {
	for rest := dst; len(rest) > 0 && b.err == nil; {
		done := g.addInside(rest, b.buf[b.pos:b.size])
		b.pos += 8 * done
		if rest = rest[done:]; len(rest) > 0 {
			rest[0] += float64(g.sigma * zig.draw(b))
			rest = rest[1:]
		}
	}
	if b.err != nil {
		clear(dst)
		return b.err
	}
	return nil
}

// addInside adds the draws of the words in block until a draw needs a second word, and returns the
// number of draws. The sampler spends most of its time here: one load from the stream, one from a
// table of 16 KiB, and a branch that goes the same way 995 times in 1,000.
func (g *Gaussian) addInside(dst []float64, block []byte) int {
	sigma := g.sigma
	n := min(len(dst), len(block)/8)
	for i := range n {
		word := binary.LittleEndian.Uint64(block[8*i:])
		l := &zig.layers[word%layers]
		j := abscissa(word)
		if !l.inside(j) {
			return i
		}
		dst[i] += float64(sigma * l.at(j))
	}
	return n
}

// abscissa returns the part of a word that gives the draw's place in its layer: an odd integer
// between -2^54 and 2^54. Its lowest bit, always set, takes the place of the highest bit of the
// layer's number, so that place and layer are independent. Being odd it is symmetric about zero.
func abscissa(word uint64) int64 {
	return int64(word)>>(layerBits-1) | 1
}

// unit returns a number in (0, 1), the middle of one of 2^52 equal parts.
func unit(word uint64) float64 {
	return float64((float64(word>>12) + 0.5) * 0x1p-52)
}

// draw returns a standard normal variable, or anything if the stream fails.
func (z *ziggurat) draw(b *Bits) float64 {
	for b.err == nil {
		word := b.Uint64()
		i := word % layers
		l := &z.layers[i]
		j := abscissa(word)
		x := l.at(j)
		switch {
		case l.inside(j):
			return x
		case i == 0:
			return math.Copysign(tail(b), x)
		case z.under(i, x, unit(b.Uint64())):
			return x
		}
	}
	return 0
}

// under reports whether the point at x and at the height u, from 0 to 1, of layer
// i is under the curve.
func (z *ziggurat) under(i uint64, x, u float64) bool {
	y := z.y[i] + float64(u*(z.y[i+1]-z.y[i]))
	return y < density(x)
}

// tail returns a standard normal variable given that it is above baseEdge
// (Marsaglia 1964), or anything if the stream fails. An exponential variable of
// rate baseEdge, above baseEdge, has the density exp(-baseEdge·a), which is kept
// with probability exp(-a²/2).
func tail(b *Bits) float64 {
	for b.err == nil {
		a := -log(unit(b.Uint64())) / baseEdge
		if -2*log(unit(b.Uint64())) > a*a {
			return baseEdge + a
		}
	}
	return baseEdge
}
