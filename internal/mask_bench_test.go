package internal_test

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"testing"
	"time"

	_ "github.com/fedsim/fedsim/internal/effort" // spares processor time
	"github.com/fedsim/fedsim/internal/secagg/mask"
)

// The vector of the benchmarks, 774 KB packed.
const (
	benchWidth = 29
	benchLen   = 213_540
)

// BenchmarkMask expands masks and adds them: one mask, the masks of clients with 22 and 48
// neighbours, and one mask to a vector of wide words. of-aes compares with AES-CTR alone, over a
// buffer of 16 KiB, for as many bytes: its time divided by the time of the masks. The two take
// turns, so that both see the same load of the machine.
func BenchmarkMask(b *testing.B) {
	for _, c := range []struct {
		masks int
		width uint8
	}{{1, benchWidth}, {23, benchWidth}, {49, benchWidth}, {1, 61}, {49, 61}} {
		b.Run(fmt.Sprintf("masks=%d/bits=%d", c.masks, c.width), func(b *testing.B) {
			v := newVector(b, c.width, benchLen)
			var terms []mask.Term
			for i := range c.masks {
				terms = append(terms, mask.Term{Stream: newStream(b, byte(i), c.width, benchLen), Sub: i%2 == 1})
			}
			size := 4 * benchLen * c.masks
			if c.width > 32 {
				size *= 2
			}
			alone := newAES(b)
			var floor time.Duration
			for b.Loop() {
				if err := mask.AddAll(v, terms); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				start := time.Now()
				alone.expand(size)
				floor += time.Since(start)
				b.StartTimer()
			}
			report(b, size, floor, "aes")
		})
	}
}

// BenchmarkAddRange masks in ranges as a runner would hand out to its workers.
func BenchmarkAddRange(b *testing.B) {
	const masks = 49
	for _, step := range []int{4096, 32_768} {
		b.Run(fmt.Sprintf("step=%d", step), func(b *testing.B) {
			v := newVector(b, benchWidth, benchLen)
			var terms []mask.Term
			for i := range masks {
				terms = append(terms, mask.Term{Stream: newStream(b, byte(i), benchWidth, benchLen), Sub: i%2 == 1})
			}
			alone := newAES(b)
			var floor time.Duration
			for b.Loop() {
				for from := 0; from < benchLen; from += step {
					if err := mask.AddRange(v, terms, from, min(from+step, benchLen)); err != nil {
						b.Fatal(err)
					}
				}
				b.StopTimer()
				start := time.Now()
				alone.expand(4 * benchLen * masks)
				floor += time.Since(start)
				b.StartTimer()
			}
			report(b, 4*benchLen*masks, floor, "aes")
		})
	}
}

// BenchmarkNewStream measures the cost of a mask before its first byte.
func BenchmarkNewStream(b *testing.B) {
	spec := mask.Spec{Name: "V", Width: benchWidth, Len: benchLen}
	for b.Loop() {
		if _, err := mask.NewStream([32]byte{1}, mask.Pair, mask.Context{}, spec); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPack and BenchmarkAddPacked move a vector to and from its packed bytes;
// GB/s is of the packed bytes, and of-copy compares with copying these.
func BenchmarkPack(b *testing.B) {
	forWidths(b, func(v *mask.Vector, packed []byte) error {
		v.AppendPacked(packed[:0])
		return nil
	})
}

func BenchmarkAddPacked(b *testing.B) {
	forWidths(b, func(v *mask.Vector, packed []byte) error { return v.AddPacked(packed) })
}

func forWidths(b *testing.B, f func(v *mask.Vector, packed []byte) error) {
	for _, width := range []uint8{8, benchWidth, 32, 61} {
		b.Run(fmt.Sprintf("bits=%d", width), func(b *testing.B) {
			v := newVector(b, width, benchLen)
			if err := addMask(v, newStream(b, 1, width, benchLen)); err != nil {
				b.Fatal(err)
			}
			packed := v.AppendPacked(nil)
			other := make([]byte, len(packed))
			var floor time.Duration
			for b.Loop() {
				if err := f(v, packed); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				start := time.Now()
				copy(other, packed)
				floor += time.Since(start)
				b.StartTimer()
			}
			report(b, len(packed), floor, "copy")
		})
	}
}

// report prints the speed, and its ratio to the floor's.
func report(b *testing.B, size int, floor time.Duration, name string) {
	b.Helper()
	b.ReportMetric(float64(size)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GB/s")
	b.ReportMetric(float64(floor)/float64(b.Elapsed()), "of-"+name)
	b.ReportMetric(float64(floor.Nanoseconds())/float64(b.N), "floor-ns")
}

// aesAlone is bare AES-128-CTR.
type aesAlone struct {
	ctr    cipher.Stream
	buffer [16 << 10]byte
}

func newAES(b *testing.B) *aesAlone {
	b.Helper()
	block, err := aes.NewCipher(make([]byte, mask.KeySize))
	if err != nil {
		b.Fatal(err)
	}
	return &aesAlone{ctr: cipher.NewCTR(block, make([]byte, aes.BlockSize))}
}

func (a *aesAlone) expand(size int) {
	for size > 0 {
		n := min(size, len(a.buffer))
		a.ctr.XORKeyStream(a.buffer[:n], a.buffer[:n])
		size -= n
	}
}

// newStream returns the mask of the n-th of some secrets.
func newStream(t fatal, n byte, width uint8, length int) *mask.Stream {
	t.Helper()
	return masking{[32]byte{n}, mask.Pair, mask.Context{Round: 1}, mask.Spec{Name: "V", Width: width, Len: length}}.stream(t)
}
