package linear_test

import (
	"math/rand/v2"
	"testing"

	"github.com/fedsim/fedsim/secagg/internal/linear"
)

// The recurrence of a Mersenne Twister is as long as its state, 19,937 bits. The recurrence of x^5
// + x^2 + 1 has length 5, and an impulse after n zeros needs n + 1.
func TestComplexity(t *testing.T) {
	twister := linear.NewTwister(5489)
	// Its first output for this seed, published with the reference code (and as
	// std::mt19937's default in C++).
	if got := twister.Next(); got != 3499211612 {
		t.Fatalf("first output of MT19937 is %d, want 3499211612", got)
	}
	low := make([]bool, 41_000)
	for i := range low {
		low[i] = twister.Next()&1 == 1
	}
	if got := linear.Complexity(low); got != 19_937 {
		t.Errorf("MT19937: linear complexity %d, want 19,937", got)
	}
	register := make([]bool, 200)
	register[0] = true
	for i := 5; i < len(register); i++ {
		register[i] = register[i-3] != register[i-5]
	}
	if got := linear.Complexity(register); got != 5 {
		t.Errorf("shift register: linear complexity %d, want 5", got)
	}
	for zeros := range 130 {
		if got := linear.Complexity(append(make([]bool, zeros), true)); got != zeros+1 {
			t.Errorf("%d zeros and a one: linear complexity %d, want %d", zeros, got, zeros+1)
		}
	}
	if got := linear.Complexity(make([]bool, 100)); got != 0 {
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
		if got, want := linear.Complexity(s), shortest(s); got != want {
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
