package internal_test

import (
	"bytes"
	"math/big"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/internal/secagg/shamir"
)

// The oracle of package shamir: the scheme of its comment in math/big, coefficients to
// powers and Lagrange's formula as it is written.

// order is ℓ, from RFC 8032, section 5.1.
var order, _ = new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)

// number reads little endian bytes.
func number(b []byte) *big.Int {
	b = slices.Clone(b)
	slices.Reverse(b)
	return new(big.Int).SetBytes(b)
}

// encode writes x in size bytes, little endian.
func encode(x *big.Int, size int) []byte {
	b := x.FillBytes(make([]byte, size))
	slices.Reverse(b)
	return b
}

// coefficients returns the polynomial that the dealer draws from random.
func coefficients(secret *big.Int, random []byte) []*big.Int {
	c := []*big.Int{secret}
	for chunk := range slices.Chunk(random, 64) {
		c = append(c, new(big.Int).Mod(number(chunk), order))
	}
	return c
}

// at returns Σ c_i·x^i mod ℓ.
func at(c []*big.Int, x *big.Int) *big.Int {
	sum := new(big.Int)
	for i, ci := range c {
		p := new(big.Int).Exp(x, big.NewInt(int64(i)), order)
		sum.Add(sum, p.Mul(p, ci))
	}
	return sum.Mod(sum, order)
}

// through returns the coefficients of the polynomial of degree below len(x) that
// is y[i] at x[i]: Σ y_i·Π (X - x_j)/(x_i - x_j).
func through(x, y []*big.Int) []*big.Int {
	sum := make([]*big.Int, len(x))
	for i := range sum {
		sum[i] = new(big.Int)
	}
	for i := range x {
		basis, below := []*big.Int{big.NewInt(1)}, big.NewInt(1)
		for j := range x {
			if j == i {
				continue
			}
			next := make([]*big.Int, len(basis)+1) // basis·(X - x_j)
			for k := range next {
				next[k] = new(big.Int)
				if k > 0 {
					next[k].Set(basis[k-1])
				}
				if k < len(basis) {
					next[k].Sub(next[k], new(big.Int).Mul(basis[k], x[j]))
				}
				next[k].Mod(next[k], order)
			}
			basis = next
			below.Mul(below, new(big.Int).Sub(x[i], x[j])).Mod(below, order)
		}
		below.ModInverse(below, order)
		for k := range basis {
			term := new(big.Int).Mul(basis[k], below)
			sum[k].Add(sum[k], term.Mul(term, y[i])).Mod(sum[k], order)
		}
	}
	return sum
}

func secretOf(t fatal, x *big.Int) shamir.Secret {
	t.Helper()
	s, err := shamir.ParseSecret(encode(x, shamir.Size))
	if err != nil {
		t.Fatalf("secret %v: %v", x, err)
	}
	return s
}

// TestShamirOracle checks the oracle on numbers that one can check by hand:
// 3 + 2x + x² is 6, 11, 18 at 1, 2, 3.
func TestShamirOracle(t *testing.T) {
	c := []*big.Int{big.NewInt(3), big.NewInt(2), big.NewInt(1)}
	x := []*big.Int{big.NewInt(1), big.NewInt(2), big.NewInt(3)}
	want := []*big.Int{big.NewInt(6), big.NewInt(11), big.NewInt(18)}
	for i := range x {
		if got := at(c, x[i]); got.Cmp(want[i]) != 0 {
			t.Errorf("at %v: %v, want %v", x[i], got, want[i])
		}
	}
	for i, got := range through(x, want) {
		if got.Cmp(c[i]) != 0 {
			t.Errorf("coefficient %d: %v, want %v", i, got, c[i])
		}
	}
	if got := encode(number([]byte{1, 2, 3}), 4); !bytes.Equal(got, []byte{1, 2, 3, 0}) {
		t.Errorf("encoding of a number: %x, want 01020300", got)
	}
}
