package mask

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Loops on vectors add what the portable ones do, of every length, and leave what lies beyond alone.
func TestVectorsArePortable(t *testing.T) {
	random := rand.NewChaCha8([32]byte{1})
	r := new(rows)
	for i := range r {
		_, _ = random.Read(r[i][:])
	}
	for n := range blockSize/4 + 1 {
		if n > 70 && n < blockSize/4-70 && n%61 != 0 {
			continue
		}
		extra := random.Uint64()
		dst := make([]uint32, n+3)
		wide := make([]uint64, min(n, blockSize/8)+3)
		for i := range dst {
			dst[i] = uint32(random.Uint64())
		}
		for i := range wide {
			wide[i] = random.Uint64()
		}
		m := len(wide) - 3
		for name, c := range map[string]struct{ is, want func([]uint32, []uint64) }{
			"four": {func(d []uint32, w []uint64) { addFour32(d[:n], r, uint32(extra)); addFour64(w[:m], r, extra) },
				func(d []uint32, w []uint64) {
					addFour32Portable(d[:n], r, uint32(extra))
					addFour64Portable(w[:m], r, extra)
				}},
			"one": {func(d []uint32, w []uint64) {
				addOne32(d[:n], r[1][1:1+4*n], uint32(extra))
				addOne64(w[:m], r[2][3:3+8*m], extra)
			},
				func(d []uint32, w []uint64) {
					addOne32Portable(d[:n], r[1][1:1+4*n], uint32(extra))
					addOne64Portable(w[:m], r[2][3:3+8*m], extra)
				}},
		} {
			is, want, isWide, wantWide := slices.Clone(dst), slices.Clone(dst), slices.Clone(wide), slices.Clone(wide)
			c.is(is, isWide)
			c.want(want, wantWide)
			if !slices.Equal(is, want) || !slices.Equal(isWide, wantWide) {
				t.Fatalf("%s, %d and %d words: the sums differ", name, n, m)
			}
			if n > 0 && slices.Equal(is, dst) {
				t.Fatalf("%s, %d words: nothing was added", name, n)
			}
		}
	}
}
