package secagg_test

import (
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/fedsim/fedsim/internal/secagg/mask"
)

// Tests of masks use the linear complexity of a bit sequence to tell a pseudorandom mask from a linear function of a seed. The
// complexity is the length of the shortest linear recurrence that generates the sequence. If every bit of a mask is a linear
// function of 20,000 others, some 40,000 known coordinates disclose the rest, and a sum of such masks is another such mask.

// linearComplexity is the length of the shortest linear recurrence over GF(2) that the bits follow, by
// the algorithm of Berlekamp and Massey (Massey 1969), 64 bits at a time. Of the 2^n strings of n
// bits, 2^min(2n-2L, 2L-1) have the length L > 0 (Rueppel 1986), so n uniform bits have a
// complexity of n/2, give or take a few. It takes time in proportion to n²/64: 0.1 s for 41,000.
func linearComplexity(s []bool) int {
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

// twister is the Mersenne Twister MT19937 (Matsumoto and Nishimura 1998), a generator
// that a test of masks must reject: whatever its seed, each of its bits follows one
// recurrence of length 19,937. Make it with newTwister.
type twister struct {
	state [624]uint32
	used  int
}

// newTwister seeds a generator as the reference code does.
func newTwister(seed uint32) *twister {
	var m twister
	m.state[0] = seed
	for i := 1; i < len(m.state); i++ {
		m.state[i] = 1812433253*(m.state[i-1]^m.state[i-1]>>30) + uint32(i)
	}
	m.used = len(m.state)
	return &m
}

// next is the next output.
func (m *twister) next() uint32 {
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

// The recurrence of a Mersenne Twister is as long as its state, 19,937 bits. The recurrence of x^5
// + x^2 + 1 has length 5, and an impulse after n zeros needs n + 1.
func TestComplexity(t *testing.T) {
	generator := newTwister(5489)
	// Its first output for this seed, published with the reference code (and as
	// std::mt19937's default in C++).
	if got := generator.next(); got != 3499211612 {
		t.Fatalf("first output of MT19937 is %d, want 3499211612", got)
	}
	low := make([]bool, 41_000)
	for i := range low {
		low[i] = generator.next()&1 == 1
	}
	if got := linearComplexity(low); got != 19_937 {
		t.Errorf("MT19937: linear complexity %d, want 19,937", got)
	}
	register := make([]bool, 200)
	register[0] = true
	for i := 5; i < len(register); i++ {
		register[i] = register[i-3] != register[i-5]
	}
	if got := linearComplexity(register); got != 5 {
		t.Errorf("shift register: linear complexity %d, want 5", got)
	}
	for zeros := range 130 {
		if got := linearComplexity(append(make([]bool, zeros), true)); got != zeros+1 {
			t.Errorf("%d zeros and a one: linear complexity %d, want %d", zeros, got, zeros+1)
		}
	}
	if got := linearComplexity(make([]bool, 100)); got != 0 {
		t.Errorf("zeros: linear complexity %d, want 0", got)
	}
}

// Against all recurrences, tried one by one, on short strings.
func TestComplexityAgainstSearch(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		s := make([]bool, 1+rng.IntN(14))
		for i := range s {
			s[i] = rng.IntN(2) == 1
		}
		if got, want := linearComplexity(s), shortest(s); got != want {
			t.Fatalf("%v: linear complexity %d, want %d", s, got, want)
		}
	}
}

// shortest is the least length of a recurrence that foretells every later bit.
func shortest(s []bool) int {
	for length := 0; ; length++ {
		for taps := range 1 << length {
			if foretells(s, length, taps) {
				return length
			}
		}
	}
}

// foretells says whether s[n] = Σ taps[i]·s[n-1-i] over i < length, for n >= length.
func foretells(s []bool, length, taps int) bool {
	for n := length; n < len(s); n++ {
		sum := false
		for i := range length {
			sum = sum != (taps>>i&1 == 1 && s[n-1-i])
		}
		if sum != s[n] {
			return false
		}
	}
	return true
}

// TestMasksAreNotLinear adds up the masks of a client with 48 neighbours and finds the
// length of the shortest linear recurrence behind the lowest bits of n = 41,000
// coordinates. By the count of linearComplexity, uniform bits miss n/2 by more than 40
// with probability below 2^-80; the input is fixed besides.
func TestMasksAreNotLinear(t *testing.T) {
	const length = 41_000
	v, err := mask.NewVector(29, length)
	if err != nil {
		t.Fatal(err)
	}
	var terms []mask.Term
	for i := range byte(49) {
		s, err := mask.NewStream([32]byte{i}, mask.Pair, mask.Context{Round: 1}, mask.Spec{Name: "V", Width: 29, Len: length})
		if err != nil {
			t.Fatal(err)
		}
		terms = append(terms, mask.Term{Stream: s, Sub: i%2 == 1})
	}
	if err := mask.AddAll(v, terms); err != nil {
		t.Fatal(err)
	}
	if got := complexity(v.AppendInts(nil)); got < 20_460 || got > 20_540 {
		t.Errorf("linear complexity %d, want 20,500 ± 40", got)
	}
}
