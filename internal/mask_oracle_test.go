package internal_test

import (
	"crypto/aes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"math/big"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/internal/secagg/mask"
)

// The oracle of package mask: its comment, step by step, with HKDF spelled out over
// crypto/hmac, AES one block at a time, and integers of any size.

// masking is everything that a mask depends on.
type masking struct {
	secret [32]byte
	kind   mask.Kind
	ctx    mask.Context
	spec   mask.Spec
}

// info writes down the transcript.
func (m masking) info() []byte {
	kinds := map[mask.Kind]string{mask.Pair: "pair", mask.Self: "self"}
	integer := func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
	var info []byte
	for _, item := range [][]byte{
		[]byte("fedsim/secagg/mask/v1"), []byte(kinds[m.kind]), m.ctx.Session[:], integer(m.ctx.Round), m.ctx.Binding[:],
		[]byte(m.spec.Name), integer(uint64(m.spec.Width)), integer(uint64(m.spec.Len)),
	} {
		info = append(append(info, integer(uint64(len(item)))...), item...)
	}
	return info
}

// key is RFC 5869 for 16 bytes: PRK = HMAC(zeros, secret), OKM = HMAC(PRK, info ‖ 1).
func (m masking) key() []byte {
	extract := hmac.New(sha256.New, make([]byte, 32))
	extract.Write(m.secret[:])
	expand := hmac.New(sha256.New, extract.Sum(nil))
	expand.Write(append(m.info(), 1))
	return expand.Sum(nil)[:16]
}

// words returns the mask, one word of keystream a coordinate, not yet reduced.
func (m masking) words(t fatal) []*big.Int {
	t.Helper()
	block, err := aes.NewCipher(m.key())
	if err != nil {
		t.Fatalf("%v", err)
	}
	size := 4
	if m.spec.Width > 32 {
		size = 8
	}
	var stream []byte
	for i := uint64(0); len(stream) < size*m.spec.Len; i++ {
		var b [aes.BlockSize]byte
		binary.BigEndian.PutUint64(b[8:], i)
		block.Encrypt(b[:], b[:])
		stream = append(stream, b[:]...)
	}
	words := make([]*big.Int, m.spec.Len)
	for j := range words {
		words[j] = fromLittleEndian(stream[size*j:][:size])
	}
	return words
}

func (m masking) stream(t fatal) *mask.Stream {
	t.Helper()
	s, err := mask.NewStream(m.secret, m.kind, m.ctx, m.spec)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return s
}

// packed is Σ (x_j mod 2^width)·2^(j·width), little endian, in the fewest bytes for
// all bits.
func packed(width uint8, x []*big.Int) []byte {
	modulus := new(big.Int).Lsh(big.NewInt(1), uint(width))
	sum := new(big.Int)
	for _, n := range slices.Backward(x) {
		sum.Lsh(sum, uint(width)).Or(sum, new(big.Int).Mod(n, modulus))
	}
	b := sum.FillBytes(make([]byte, (int(width)*len(x)+7)/8))
	slices.Reverse(b)
	return b
}

// unpacked returns the integers nearest zero of what packed packs.
func unpacked(width uint8, length int, b []byte) []int64 {
	all := fromLittleEndian(b)
	modulus := new(big.Int).Lsh(big.NewInt(1), uint(width))
	half := new(big.Int).Rsh(modulus, 1)
	x := make([]int64, length)
	for j := range x {
		n := new(big.Int).Mod(all, modulus)
		if n.Cmp(half) >= 0 {
			n.Sub(n, modulus)
		}
		x[j] = n.Int64()
		all.Rsh(all, uint(width))
	}
	return x
}

func fromLittleEndian(b []byte) *big.Int {
	b = slices.Clone(b)
	slices.Reverse(b)
	return new(big.Int).SetBytes(b)
}

func bigs(x []int64) []*big.Int {
	list := make([]*big.Int, len(x))
	for i, n := range x {
		list[i] = big.NewInt(n)
	}
	return list
}

// fatal is the part that *testing.T, *testing.B and *rapid.T share.
type fatal interface {
	Helper()
	Fatalf(format string, args ...any)
}

// TestMaskOracle checks the packing of the oracle by hand: 1, 2 and -1 in 12 bits are
// the nibbles 1 0 0, 2 0 0, f f f, in bytes with the first nibble low.
func TestMaskOracle(t *testing.T) {
	got := packed(12, bigs([]int64{1, 2, -1}))
	if want := []byte{0x01, 0x20, 0x00, 0xff, 0x0f}; !slices.Equal(got, want) {
		t.Errorf("packed %x, want %x", got, want)
	}
	if got, want := unpacked(12, 3, got), []int64{1, 2, -1}; !slices.Equal(got, want) {
		t.Errorf("unpacked %v, want %v", got, want)
	}
}

// addMask adds a mask to a vector.
func addMask(dst *mask.Vector, s *mask.Stream) error {
	return mask.AddAll(dst, []mask.Term{{Stream: s}})
}

// subMask subtracts a mask from a vector.
func subMask(dst *mask.Vector, s *mask.Stream) error {
	return mask.AddAll(dst, []mask.Term{{Stream: s, Sub: true}})
}

func newVector(t fatal, width uint8, length int) *mask.Vector {
	t.Helper()
	v, err := mask.NewVector(width, length)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return v
}
