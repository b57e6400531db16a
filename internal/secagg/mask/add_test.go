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
		is, want, isWide, wantWide := slices.Clone(dst), slices.Clone(dst), slices.Clone(wide), slices.Clone(wide)
		addFour32(is[:n], r, uint32(extra))
		addFour64(isWide[:m], r, extra)
		addFour32Portable(want[:n], r, uint32(extra))
		addFour64Portable(wantWide[:m], r, extra)
		if !slices.Equal(is, want) || !slices.Equal(isWide, wantWide) {
			t.Fatalf("%d and %d words: the sums differ", n, m)
		}
		if n > 0 && slices.Equal(is, dst) {
			t.Fatalf("%d words: nothing was added", n)
		}
	}
}
