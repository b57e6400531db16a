// Package linear measures the linear complexity of a bit sequence: the length of the shortest
// linear recurrence that generates it. Tests of masks use it to tell a pseudorandom mask from a
// linear function of a seed. If every bit of a mask is a linear function of 20,000 others, some
// 40,000 known coordinates disclose the rest, and a sum of such masks is another such mask.
package linear

import "math/bits"

// Complexity is the length of the shortest linear recurrence over GF(2) that the bits follow, by
// the algorithm of Berlekamp and Massey (Massey 1969), 64 bits at a time. Of the 2^n strings of n
// bits, 2^min(2n-2L, 2L-1) have the length L > 0 (Rueppel 1986), so n uniform bits have a
// complexity of n/2, give or take a few. It takes time in proportion to n²/64: 0.1 s for 41,000.
func Complexity(s []bool) int {
	words := len(s)/64 + 1
	c, b, past := make([]uint64, words), make([]uint64, words), make([]uint64, words)
	old := make([]uint64, words)
	c[0], b[0] = 1, 1
	length := 0
	for n, bit := range s {
		shiftIn(b, 0)
		if bit {
			shiftIn(past, 1) // bit i of past is s[n-i]
		} else {
			shiftIn(past, 0)
		}
		var odd uint64
		for i := range c {
			odd ^= c[i] & past[i]
		}
		if bits.OnesCount64(odd)%2 == 0 {
			continue // the recurrence foretells this bit
		}
		copy(old, c)
		for i := range c {
			c[i] ^= b[i]
		}
		if 2*length <= n {
			length = n + 1 - length
			copy(b, old)
		}
	}
	return length
}

// shiftIn multiplies the polynomial by x and adds the bit.
func shiftIn(p []uint64, bit uint64) {
	for i, w := range p {
		p[i], bit = w<<1|bit, w>>63
	}
}

// Twister is the Mersenne Twister MT19937 (Matsumoto and Nishimura 1998), a generator
// that a test of masks must reject: whatever its seed, each of its bits follows one
// recurrence of length 19,937. Make it with NewTwister.
type Twister struct {
	state [624]uint32
	used  int
}

// NewTwister seeds a generator as the reference code does.
func NewTwister(seed uint32) *Twister {
	var m Twister
	m.state[0] = seed
	for i := 1; i < len(m.state); i++ {
		m.state[i] = 1812433253*(m.state[i-1]^m.state[i-1]>>30) + uint32(i)
	}
	m.used = len(m.state)
	return &m
}

// Next is the next output.
func (m *Twister) Next() uint32 {
	n := len(m.state)
	if m.used == n {
		for i := range n {
			y := m.state[i]&0x80000000 | m.state[(i+1)%n]&0x7fffffff
			m.state[i] = m.state[(i+397)%n] ^ y>>1 ^ (y&1)*0x9908b0df
		}
		m.used = 0
	}
	y := m.state[m.used]
	m.used++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}
