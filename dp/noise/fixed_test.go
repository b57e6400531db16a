package noise

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func toBig(words ...uint64) *big.Int {
	z := new(big.Int)
	for i := len(words) - 1; i >= 0; i-- {
		z.Lsh(z, 64).Or(z, new(big.Int).SetUint64(words[i]))
	}
	return z
}

// word draws words, and favours the values where carries happen.
func word(t *rapid.T, label string) uint64 {
	return rapid.OneOf(rapid.SampledFrom([]uint64{0, 1, 1 << 63, math.MaxUint64}), rapid.Uint64()).Draw(t, label)
}

// TestUint256 compares every operation with math/big.
func TestUint256(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := uint256{word(t, "x0"), word(t, "x1"), word(t, "x2"), word(t, "x3")}
		y := uint256{word(t, "y0"), word(t, "y1"), word(t, "y2"), word(t, "y3")}
		m, s := max(1, word(t, "m")), uint(rapid.IntRange(0, 1200).Draw(t, "s"))
		bx, by, bm := toBig(x[:]...), toBig(y[:]...), toBig(m)
		check := func(name string, got, want *big.Int, size uint) {
			t.Helper()
			mask := new(big.Int).Lsh(big.NewInt(1), size)
			if want.Mod(want, mask); got.Cmp(want) != 0 {
				t.Errorf("%s: got %v, math/big says %v", name, got, want)
			}
		}
		sum, product, quotient, right := x.add(y), x.mul(m), x.div(m), x.shr(s)
		check("add", toBig(sum[:]...), new(big.Int).Add(bx, by), 256)
		check("mul", toBig(product[:]...), new(big.Int).Mul(bx, bm), 256)
		check("div", toBig(quotient[:]...), new(big.Int).Div(bx, bm), 256)
		check("shr", toBig(right[:]...), new(big.Int).Rsh(bx, s), 256)
		hi, lo := scale(uint256{x[0], x[1], x[2]}, uint256{y[0], y[1], y[2]})
		scaled := new(big.Int).Mul(toBig(x[:3]...), toBig(y[:3]...))
		check("scale", toBig(lo, hi), scaled.Rsh(scaled, 192), 128)
	})
}
