package noise

import "math/bits"

// uint256 is an unsigned integer of four words, least significant first. Table weights use it
// because math/big would spend most of a table's building time on allocation and normalisation.
type uint256 [4]uint64

// add returns x + y modulo 2^256.
func (x uint256) add(y uint256) uint256 {
	var z uint256
	var carry uint64
	for i := range z {
		z[i], carry = bits.Add64(x[i], y[i], carry)
	}
	return z
}

// mul returns x * m modulo 2^256.
func (x uint256) mul(m uint64) uint256 {
	var z uint256
	var carry uint64
	for i := range z {
		hi, lo := bits.Mul64(x[i], m)
		var c uint64
		z[i], c = bits.Add64(lo, carry, 0)
		carry = hi + c // at most 2^64-1, since x[i]*m+carry < 2^128
	}
	return z
}

// div returns x / d rounded down; d is not zero.
func (x uint256) div(d uint64) uint256 {
	var z uint256
	var rem uint64
	for i := len(z) - 1; i >= 0; i-- {
		z[i], rem = bits.Div64(rem, x[i], d)
	}
	return z
}

// shl returns x * 2^s modulo 2^256.
func (x uint256) shl(s uint) uint256 {
	var z uint256
	words, rest := int(s/64), s%64
	for i := len(z) - 1; i >= words; i-- {
		z[i] = x[i-words] << rest
		if i > words {
			z[i] |= x[i-words-1] >> (64 - rest)
		}
	}
	return z
}

// shr returns x / 2^s rounded down.
func (x uint256) shr(s uint) uint256 {
	var z uint256
	words, rest := int(s/64), s%64
	for i := 0; i+words < len(z); i++ {
		z[i] = x[i+words] >> rest
		if i+words+1 < len(z) {
			z[i] |= x[i+words+1] << (64 - rest)
		}
	}
	return z
}

// bitLen returns the number of bits of x; zero has none.
func (x uint256) bitLen() int {
	for i := len(x) - 1; i >= 0; i-- {
		if x[i] != 0 {
			return 64*i + bits.Len64(x[i])
		}
	}
	return 0
}

// scale returns x * y / 2^192 rounded down, modulo 2^128, for x and y below
// 2^192.
func scale(x, y uint256) (hi, lo uint64) {
	var p [6]uint64
	for i := range 3 {
		var carry uint64
		for j := range 3 {
			h, l := bits.Mul64(x[i], y[j])
			var c uint64
			l, c = bits.Add64(l, p[i+j], 0)
			h += c
			p[i+j], c = bits.Add64(l, carry, 0)
			carry = h + c
		}
		p[i+3] = carry
	}
	return p[4], p[3]
}
