package internal_test

import (
	"bytes"
	"errors"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fedsim/fedsim/internal/secagg/mask"
)

// TestPacking takes integers to bytes and back, in every width and for lengths
// around the windows that are read at once; the oracle has integers of any size.
func TestPacking(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := drawWidth(t)
		x := drawInts(t, width, rapid.IntRange(0, 70).Draw(t, "length"))
		v := newVector(t, width, len(x))
		if err := v.AddInts(x); err != nil {
			t.Fatal(err)
		}
		prefix := []byte{1, 2, 3}
		got := v.AppendPacked(slices.Clone(prefix))
		want := packed(width, bigs(x))
		if !bytes.Equal(got, append(prefix, want...)) {
			t.Fatalf("packed %x, want 010203 and %x", got, want)
		}
		if size := mask.PackedSize(width, len(x)); size != len(want) {
			t.Fatalf("packed size %d, want %d", size, len(want))
		}

		// AddPacked adds to what was there, modulo 2^width.
		y := drawInts(t, width, len(x))
		w := newVector(t, width, len(x))
		if err := w.AddPacked(want); err != nil {
			t.Fatal(err)
		}
		if ints := w.AppendInts([]int64{7}); !slices.Equal(ints, append([]int64{7}, x...)) {
			t.Fatalf("unpacked %v, want 7 and %v", ints, x)
		}
		if err := w.AddPacked(packed(width, bigs(y))); err != nil {
			t.Fatal(err)
		}
		sum := bigs(x)
		for j := range sum {
			sum[j].Add(sum[j], big.NewInt(y[j]))
		}
		if got := w.AppendPacked(nil); !bytes.Equal(got, packed(width, sum)) {
			t.Fatalf("%v plus packed %v gives %x, want %x", x, y, got, packed(width, sum))
		}

		// Add and AddInts give the same sum.
		other := newVector(t, width, len(x))
		if err := errors.Join(other.AddInts(y), v.Add(other), other.AddInts(x)); err != nil {
			t.Fatal(err)
		}
		for _, u := range []*mask.Vector{v, other} {
			if got := u.AppendPacked(nil); !bytes.Equal(got, packed(width, sum)) {
				t.Fatalf("%v plus %v gives %x, want %x", x, y, got, packed(width, sum))
			}
		}
	})
}

// TestRingEnds adds the integers at and beyond the ends of every ring.
func TestRingEnds(t *testing.T) {
	for width := uint8(mask.MinWidth); width <= mask.MaxWidth; width++ {
		low, high := int64(math.MinInt64)>>(64-width), int64(math.MaxInt64)>>(64-width)
		v := newVector(t, width, 3)
		if v.Width() != width || v.Len() != 3 {
			t.Errorf("a vector of 3 coordinates of %d bits says %d of %d", width, v.Len(), v.Width())
		}
		if err := v.AddInts([]int64{low, high, 0}); err != nil {
			t.Fatalf("width %d: %v", width, err)
		}
		for where, beyond := range map[string][]int64{
			"coordinate 0": {math.MinInt64, 0, math.MaxInt64},
			"coordinate 1": {1, high + 1, 1},
			"coordinate 2": {1, 1, low - 1},
		} {
			if width == 64 {
				break // it holds every int64
			}
			if err := v.AddInts(beyond); !errors.Is(err, mask.ErrRange) || !strings.Contains(err.Error(), where) {
				t.Errorf("width %d: adding %v: error %v, want ErrRange at %s", width, beyond, err, where)
			}
		}
		if got := v.AppendInts(nil); !slices.Equal(got, []int64{low, high, 0}) {
			t.Errorf("width %d: %v, want %v", width, got, []int64{low, high, 0})
		}
		if err := v.AddInts([]int64{-1, 1, 0}); err != nil {
			t.Fatal(err)
		}
		if got := v.AppendInts(nil); !slices.Equal(got, []int64{high, low, 0}) {
			t.Errorf("width %d: one step beyond the ends is %v, want the other ends, %v", width, got, []int64{high, low, 0})
		}
	}
}

// TestUploadSize is the figure of the specification: 213,540 coordinates of 29 bits
// are 774 KB, 774,083 bytes by hand.
func TestUploadSize(t *testing.T) {
	if got := mask.PackedSize(29, 213_540); got != 774_083 {
		t.Errorf("%d bytes, want 774,083", got)
	}
}

func TestMaskErrors(t *testing.T) {
	v := newVector(t, 29, 3)
	if err := v.AddInts([]int64{5, -6, 7}); err != nil {
		t.Fatal(err)
	}
	stream := newStream(t, 1, 29, 3)
	create := func(width uint8, length int) error { _, err := mask.NewVector(width, length); return err }
	derive := func(kind mask.Kind, spec mask.Spec) error {
		_, err := mask.NewStream([32]byte{}, kind, mask.Context{}, spec)
		return err
	}
	add := func(s *mask.Stream) error { return mask.AddAll(v, []mask.Term{{Stream: stream}, {Stream: s}}) }
	part := func(from, to int) error { return mask.AddRange(v, nil, from, to) }
	wrong := mask.Spec{Name: "V", Width: 7, Len: -1}
	for _, c := range []struct {
		err  error
		is   error
		text string
	}{
		{create(7, 3), mask.ErrWidth, "7 bits; it must have 8 to 64"},
		{create(65, 3), mask.ErrWidth, "65 bits; it must have 8 to 64"},
		{create(8, -1), mask.ErrLen, "-1 coordinates; there must be 0 to 1073741824"},
		{create(8, mask.MaxLen+1), mask.ErrLen, "1073741825 coordinates"},
		{derive(mask.Pair, wrong), mask.ErrWidth, `vector "V"`},
		{derive(mask.Pair, wrong), mask.ErrLen, "-1 coordinates"},
		{derive(3, wrong), mask.ErrKind, "Kind(3); it must be Pair or Self"},
		{derive(3, wrong), mask.ErrWidth, "7 bits"},
		{derive(0, mask.Spec{Width: 8}), mask.ErrKind, "Kind(0)"},
		{add(nil), mask.ErrShape, "term 2 of 2 has no mask"},
		{add(newStream(t, 1, 28, 3)), mask.ErrShape, `term 2 of 2 is a mask of 3 coordinates of 28 bits (vector "V"), the vector has 3 of 29 bits`},
		{add(newStream(t, 1, 29, 4)), mask.ErrShape, "a mask of 4 coordinates"},
		{addMask(newVector(t, 29, 2), stream), mask.ErrShape, "the vector has 2 of 29 bits"},
		{subMask(newVector(t, 30, 3), stream), mask.ErrShape, "the vector has 3 of 30 bits"},
		{part(-1, 2), mask.ErrShape, "coordinates -1 to 2 of a vector of 3"},
		{part(0, 4), mask.ErrShape, "coordinates 0 to 4 of a vector of 3"},
		{part(2, 1), mask.ErrShape, "coordinates 2 to 1"},
		{v.Add(newVector(t, 29, 4)), mask.ErrShape, "4 coordinates of 29 bits to 3 of 29 bits"},
		{v.Add(newVector(t, 28, 3)), mask.ErrShape, "3 coordinates of 28 bits to 3 of 29 bits"},
		{v.AddInts(make([]int64, 2)), mask.ErrShape, "2 integers to 3 coordinates"},
		{v.AddInts([]int64{0, 0, 1 << 28}), mask.ErrRange, "coordinate 2 does not fit 29 bits"},
		{v.AddPacked(make([]byte, 10)), mask.ErrPacked, "10 bytes; 3 coordinates of 29 bits have 11"},
		{v.AddPacked(make([]byte, 12)), mask.ErrPacked, "12 bytes; 3 coordinates of 29 bits have 11"},
		{v.AddPacked(append(make([]byte, 10), 0x80)), mask.ErrPacked, "the 1 bits left over in the last byte are not zero"},
	} {
		if !errors.Is(c.err, c.is) || !strings.Contains(c.err.Error(), c.text) {
			t.Errorf("error %v, want one that is %q and says %q", c.err, c.is, c.text)
		}
	}
	if got := v.AppendInts(nil); !slices.Equal(got, []int64{5, -6, 7}) {
		t.Errorf("after all these errors the vector is %v, want [5 -6 7] still", got)
	}
}

// FuzzAddPacked accepts exactly the strings of the right length with zeros in the bits
// left over, reads them as the oracle does and packs them to the same bytes again.
// Adding the bytes accepts the same, and adds the same.
func FuzzAddPacked(f *testing.F) {
	f.Add(uint8(29), uint16(3), append(make([]byte, 10), 0x80))
	f.Add(uint8(29), uint16(3), append(make([]byte, 10), 0x7f))
	f.Add(uint8(8), uint16(2), []byte{0x80, 0x7f})
	f.Add(uint8(64), uint16(1), bytes.Repeat([]byte{0xff}, 8))
	f.Add(uint8(33), uint16(9), bytes.Repeat([]byte{0x55}, 38))
	f.Add(uint8(61), uint16(0), []byte{})
	f.Add(uint8(7), uint16(1), []byte{1})
	f.Fuzz(func(t *testing.T, width uint8, length uint16, b []byte) {
		v, err := mask.NewVector(width, int(length))
		if err != nil {
			if width >= 8 && width <= 64 {
				t.Fatalf("%d coordinates of %d bits: %v", length, width, err)
			}
			return
		}
		bits := int(width) * int(length)
		want := len(b) == (bits+7)/8 && fromLittleEndian(b).BitLen() <= bits
		if err = v.AddPacked(b); (err == nil) != want {
			t.Fatalf("%d coordinates of %d bits from %x: error %v", length, width, b, err)
		}
		sum := newVector(t, width, int(length))
		for range 2 {
			if added := sum.AddPacked(b); (added == nil) != want {
				t.Fatalf("%d coordinates of %d bits, adding %x: error %v", length, width, b, added)
			}
		}
		if err != nil {
			if slices.ContainsFunc(sum.AppendInts(nil), func(x int64) bool { return x != 0 }) {
				t.Errorf("%x is refused and added", b)
			}
			return
		}
		twice := bigs(unpacked(width, int(length), b))
		for _, x := range twice {
			x.Lsh(x, 1)
		}
		if got, want := sum.AppendPacked(nil), packed(width, twice); !bytes.Equal(got, want) {
			t.Errorf("%x twice in %d bits is %x, want %x", b, width, got, want)
		}
		if got, want := v.AppendInts(nil), unpacked(width, int(length), b); !slices.Equal(got, want) {
			t.Errorf("%x in %d bits is %v, want %v", b, width, got, want)
		}
		if got := v.AppendPacked(nil); !bytes.Equal(got, b) {
			t.Errorf("%x in %d bits came back as %x", b, width, got)
		}
	})
}

// drawInts draws integers that the ring holds, its ends more often.
func drawInts(t *rapid.T, width uint8, n int) []int64 {
	low, high := int64(math.MinInt64)>>(64-width), int64(math.MaxInt64)>>(64-width)
	one := rapid.OneOf(rapid.SampledFrom([]int64{low, -1, 0, 1, high}), rapid.Int64Range(low, high))
	return rapid.SliceOfN(one, n, n).Draw(t, "integers")
}
