package internal_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math/big"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/fedsim/fedsim/internal/secagg/mask"
)

// TestMaskVectors follows testdata/masks.json, which a program in another language
// computed with OpenSSL's AES and integers of any size.
func TestMaskVectors(t *testing.T) {
	file, err := os.ReadFile("testdata/masks.json")
	if err != nil {
		t.Fatal(err)
	}
	type octets string // in hexadecimal
	var vectors []struct {
		Title, Kind                     string
		Secret, Session, Binding, Name  octets
		Round                           uint64
		Width                           uint8
		Ints                            []int64
		Info, Key, Packed, Mask, Masked octets
	}
	if err = json.Unmarshal(file, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) != 7 {
		t.Fatalf("%d vectors, want 7", len(vectors))
	}
	for _, v := range vectors {
		t.Run(v.Title, func(t *testing.T) {
			raw := func(o octets) []byte {
				b, err := hex.DecodeString(string(o))
				if err != nil {
					t.Fatal(err)
				}
				return b
			}
			equal := func(what string, got []byte, want octets) {
				if hex.EncodeToString(got) != string(want) {
					t.Errorf("%s is %x, want %s", what, got, want)
				}
			}
			kind := map[string]mask.Kind{"pair": mask.Pair, "self": mask.Self}[v.Kind]
			m := masking{
				[32]byte(raw(v.Secret)), kind, mask.Context{Session: [16]byte(raw(v.Session)), Round: v.Round, Binding: [32]byte(raw(v.Binding))},
				mask.Spec{Name: string(raw(v.Name)), Width: v.Width, Len: len(v.Ints)},
			}
			equal("the oracle's transcript", m.info(), v.Info)
			key, err := mask.DeriveKey(m.secret, m.kind, m.ctx, m.spec)
			if err != nil {
				t.Fatal(err)
			}
			equal("the key", key[:], v.Key)

			x := newVector(t, v.Width, len(v.Ints))
			if err = addMask(x, m.stream(t)); err != nil {
				t.Fatal(err)
			}
			equal("the mask", x.AppendPacked(nil), v.Mask)
			if err = x.AddInts(v.Ints); err != nil {
				t.Fatal(err)
			}
			equal("the masked vector", x.AppendPacked(nil), v.Masked)
			if err = subMask(x, m.stream(t)); err != nil {
				t.Fatal(err)
			}
			equal("the vector", x.AppendPacked(nil), v.Packed)
			if got := x.AppendInts(nil); !slices.Equal(got, v.Ints) {
				t.Errorf("integers %v, want %v", got, v.Ints)
			}
		})
	}
}

// TestAnyPartition adds masks to a vector in ranges, in any order; the result is
// the oracle's sum. Lengths go over several blocks of either word.
func TestAnyPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width, length := drawWidth(t), rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(0, 3000)).Draw(t, "length")
		sum := make([]*big.Int, length)
		for j := range sum {
			sum[j] = new(big.Int)
		}
		var terms []mask.Term
		for i := range rapid.IntRange(0, 10).Draw(t, "masks") {
			m := masking{[32]byte{byte(i)}, mask.Pair, mask.Context{Round: 3}, mask.Spec{Name: "V", Width: width, Len: length}}
			sub := rapid.Bool().Draw(t, "sub")
			terms = append(terms, mask.Term{Stream: m.stream(t), Sub: sub})
			for j, w := range m.words(t) {
				if sub {
					w.Neg(w)
				}
				sum[j].Add(sum[j], w)
			}
		}
		cuts := append(rapid.SliceOfN(rapid.IntRange(0, length), 0, 6).Draw(t, "cuts"), 0, length)
		slices.Sort(cuts)
		v := newVector(t, width, length)
		for _, i := range rapid.Permutation(indices(len(cuts)-1)).Draw(t, "order") {
			if err := mask.AddRange(v, terms, cuts[i], cuts[i+1]); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := v.AppendPacked(nil), packed(width, sum); !bytes.Equal(got, want) {
			t.Fatalf("%d masks in ranges cut at %v give %x, want %x", len(terms), cuts, got, want)
		}
		whole := newVector(t, width, length)
		if err := mask.AddAll(whole, terms); err != nil {
			t.Fatal(err)
		}
		if got := whole.AppendPacked(nil); !bytes.Equal(got, packed(width, sum)) {
			t.Fatalf("AddAll gives %x, want %x", got, packed(width, sum))
		}
	})
}

// TestPairsCancel masks the inputs of four clients, each pair with opposite signs,
// in every width: the sum of the masked vectors is the sum of the inputs, although
// no masked vector is its input.
func TestPairsCancel(t *testing.T) {
	const clients, length = 4, 1100
	random := rand.New(rand.NewChaCha8([32]byte{3}))
	for width := uint8(mask.MinWidth); width <= mask.MaxWidth; width++ {
		sum := newVector(t, width, length)
		want := make([]int64, length)
		for me := range clients {
			x := make([]int64, length)
			for j := range x {
				x[j] = random.Int64N(1<<(width-3)) - 1<<(width-4) // four times it fits
				want[j] += x[j]
			}
			v := newVector(t, width, length)
			if err := v.AddInts(x); err != nil {
				t.Fatal(err)
			}
			var terms []mask.Term
			for peer := range clients {
				if peer != me {
					pair := byte(1<<me | 1<<peer)
					terms = append(terms, mask.Term{Stream: newStream(t, pair, width, length), Sub: peer < me})
				}
			}
			if err := mask.AddAll(v, terms); err != nil {
				t.Fatal(err)
			}
			// At 8 bits a coordinate is left as it was with probability 1/256. More than 55 of
			// 1,100 are with probability less than 1e-39 (Chernoff: exp(-1100·KL(0.05, 1/256))),
			// and in any of the 228 vectors with less than 1e-36.
			same := 0
			for j, y := range v.AppendInts(nil) {
				if y == x[j] {
					same++
				}
			}
			if same > length/20 {
				t.Fatalf("width %d: %d of %d coordinates are not masked", width, same, length)
			}
			if err := sum.AddPacked(v.AppendPacked(nil)); err != nil {
				t.Fatal(err)
			}
		}
		if got := sum.AppendInts(nil); !slices.Equal(got, want) {
			t.Fatalf("width %d: the masks do not cancel", width)
		}
	}
}

// TestParallel masks disjoint ranges at the same time with the same streams; the
// race detector watches. The oracle is one goroutine.
func TestParallel(t *testing.T) {
	const length, workers = 10_000, 4
	var terms []mask.Term
	for i := range byte(6) {
		terms = append(terms, mask.Term{Stream: newStream(t, i, 29, length), Sub: i > 2})
	}
	alone, shared := newVector(t, 29, length), newVector(t, 29, length)
	if err := mask.AddAll(alone, terms); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			if err := mask.AddRange(shared, terms, i*length/workers, (i+1)*length/workers); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if !bytes.Equal(alone.AppendPacked(nil), shared.AppendPacked(nil)) {
		t.Error("four workers mask otherwise than one")
	}
}

// TestNothingCoincides derives the masks of whole runs that share every secret, the
// worst case: no two keys are the same, and no two first blocks of keystream. Names
// imitate what follows them in a transcript.
func TestNothingCoincides(t *testing.T) {
	number := func(n uint64) string { return string(binary.BigEndian.AppendUint64(nil, n)) }
	names := []string{
		"", "a", "ab", "abc", "b", "bc", "c", "\x00", "a\x00", "pair", "self", number(8), "a" + number(8), "a" + number(8) + number(4),
		"a" + number(8) + number(8) + number(8) + number(4), "fedsim/secagg/mask/v1",
	}
	keys, blocks := make(map[[16]byte]masking), make(map[string]masking)
	for _, secret := range []byte{0, 1} {
		for _, kind := range []mask.Kind{mask.Pair, mask.Self} {
			for _, session := range [][16]byte{{}, {15: 1}, {1}} {
				for _, round := range []uint64{0, 1, 256, 1 << 63} {
					for _, binding := range [][32]byte{{}, {31: 1}, {1}} {
						for _, name := range names {
							for _, width := range []uint8{8, 29, 32, 33, 64} {
								for _, length := range []int{2, 4, 8, 29} {
									m := masking{[32]byte{secret}, kind, mask.Context{Session: session, Round: round, Binding: binding}, mask.Spec{Name: name, Width: width, Len: length}}
									distinct(t, m, keys, blocks)
								}
							}
						}
					}
				}
			}
		}
	}
	if want := 2 * 2 * 3 * 4 * 3 * len(names) * 5 * 4; len(keys) != want {
		t.Errorf("%d keys of %d inputs", len(keys), want)
	}
}

// distinct records the key of a mask and, where the whole words of its vector show
// it, its first block.
func distinct(t *testing.T, m masking, keys map[[16]byte]masking, blocks map[string]masking) {
	t.Helper()
	key, err := mask.DeriveKey(m.secret, m.kind, m.ctx, m.spec)
	if err != nil {
		t.Fatal(err)
	}
	if other, ok := keys[key]; ok {
		t.Fatalf("one key for %+v and %+v", m, other)
	}
	keys[key] = m
	if 8*mask.PackedSize(m.spec.Width, m.spec.Len) < 128 || m.spec.Width%32 != 0 {
		return
	}
	v := newVector(t, m.spec.Width, m.spec.Len)
	if err = addMask(v, m.stream(t)); err != nil {
		t.Fatal(err)
	}
	block := string(v.AppendPacked(nil)[:16])
	if other, ok := blocks[block]; ok {
		t.Fatalf("one first block for %+v and %+v", m, other)
	}
	blocks[block] = m
}

// TestWipe: what is left of a wiped stream is its zero value, which masks nothing.
func TestWipe(t *testing.T) {
	s := newStream(t, 1, 29, 5)
	s.Wipe()
	if *s != (mask.Stream{}) {
		t.Error("a wiped stream is not the zero stream")
	}
	v := newVector(t, 29, 5)
	if err := addMask(v, s); err == nil || !strings.Contains(err.Error(), "term 1 of 1") {
		t.Errorf("adding a wiped stream: %v, want an error that names the term", err)
	}
}

// TestMemory adds eight masks to a vector of 4 MB: less than 64 KiB is allocated,
// blocks and the state of the ciphers.
func TestMemory(t *testing.T) {
	const length = 1_000_000
	v := newVector(t, 29, length)
	var terms []mask.Term
	for i := range byte(8) {
		terms = append(terms, mask.Term{Stream: newStream(t, i, 29, length)})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := mask.AddAll(v, terms)
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 64<<10 {
		t.Errorf("%d bytes allocated, want at most 64 KiB", used)
	}
}

func drawWidth(t *rapid.T) uint8 {
	return rapid.OneOf(rapid.SampledFrom([]uint8{8, 16, 29, 31, 32, 33, 57, 63, 64}), rapid.Uint8Range(8, 64)).Draw(t, "width")
}

func indices(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}
