package internal_test

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/internal/secagg/mask"
)

// Four masks at most are added at a time, by loops on vectors or word by word: the sum is the oracle's for every length, and what lies
// beyond the range is left alone. A block has 1,024 narrow or 512 wide words.
func TestMasksOfEveryLength(t *testing.T) {
	r := rand.New(rand.NewChaCha8([32]byte{1}))
	for _, width := range []uint8{32, 64} {
		block := 32 * 1024 / int(width)
		start := make([]int64, block+80)
		for j := range start {
			start[j] = r.Int64() >> (64 - width)
		}
		sum := bigs(start)
		var terms []mask.Term
		for i := range byte(5) {
			m := masking{[32]byte{i}, mask.Pair, mask.Context{}, mask.Spec{Name: "V", Width: width, Len: len(start)}}
			terms = append(terms, mask.Term{Stream: m.stream(t), Sub: i%2 == 1})
			for j, w := range m.words(t) {
				if i%2 == 1 {
					w = new(big.Int).Neg(w)
				}
				sum[j].Add(sum[j], w)
			}
			if len(terms) != 3 && len(terms) != 5 {
				continue
			}
			whole := unpacked(width, len(start), packed(width, sum))
			for n := range len(start) - 3 {
				if n > 70 && n < block-70 && n%61 != 0 {
					continue
				}
				v := newVector(t, width, len(start))
				if err := v.AddInts(start); err != nil {
					t.Fatal(err)
				}
				if err := mask.AddRange(v, terms, 0, n); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(v.AppendInts(nil), slices.Concat(whole[:n], start[n:])) {
					t.Fatalf("%d masks of %d words of %d bits: another sum", len(terms), n, width)
				}
			}
		}
	}
}
