//go:build unix

package secagg_test

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"syscall"
	"testing"
	"time"

	"filippo.io/edwards25519"

	"github.com/fedsim/fedsim/entropy/simulated"
)

// Proofs about dealt shares and about inputs would consist of sums of multiples of points of
// edwards25519, see lab/attack/lies.md. No federation runs this code.

// pippenger computes Σ s·P by the buckets of Pippenger, in time that depends on the scalars. It
// reads only the lowest width bits of each scalar. It is for many points: edwards25519's own
// multiplication keeps a table of each.
func pippenger(scalars []*edwards25519.Scalar, points []*edwards25519.Point, width int) *edwards25519.Point {
	window := max(4, min(16, bits.Len(uint(len(points)))-3))
	digits := make([][]byte, len(scalars))
	for i, s := range scalars {
		digits[i] = append(s.Bytes(), make([]byte, 8)...)
	}
	buckets := make([]*edwards25519.Point, 1<<window)
	sum := edwards25519.NewIdentityPoint()
	for first := (width - 1) / window * window; first >= 0; first -= window {
		for range window {
			sum.Add(sum, sum)
		}
		clear(buckets)
		for i, p := range points {
			d := binary.LittleEndian.Uint64(digits[i][first/8:]) >> (first % 8) & (1<<window - 1)
			if first+window > width {
				d &= 1<<(width-first) - 1
			}
			switch {
			case d == 0:
			case buckets[d] == nil:
				buckets[d] = new(edwards25519.Point).Set(p)
			default:
				buckets[d].Add(buckets[d], p)
			}
		}
		// Σ d·bucket[d], as the sum of the sums from the top.
		from, all := edwards25519.NewIdentityPoint(), edwards25519.NewIdentityPoint()
		for d := len(buckets) - 1; d > 0; d-- {
			if buckets[d] != nil {
				from.Add(from, buckets[d])
			}
			all.Add(all, from)
		}
		sum.Add(sum, all)
	}
	return sum
}

// scalarsOf are n scalars of width bits.
func scalarsOf(t testing.TB, n, width int) []*edwards25519.Scalar {
	t.Helper()
	r := simulated.New(1, "multiexp").Stream("scalars", uint64(width))
	out := make([]*edwards25519.Scalar, n)
	for i := range out {
		var b [64]byte
		if _, err := r.Read(b[:]); err != nil {
			t.Fatal(err)
		}
		if width < 252 {
			for j := range b {
				if 8*j >= width {
					b[j] = 0
				} else if 8*j+8 > width {
					b[j] &= 1<<(width-8*j) - 1
				}
			}
		}
		var err error
		if out[i], err = edwards25519.NewScalar().SetUniformBytes(b[:]); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// pointsOf are n points: B, 3B, 9B, ...
func pointsOf(n int) []*edwards25519.Point {
	out := make([]*edwards25519.Point, n)
	p := edwards25519.NewGeneratorPoint()
	for i := range out {
		out[i] = new(edwards25519.Point).Set(p)
		p.Add(p, new(edwards25519.Point).Add(p, p))
	}
	return out
}

// The buckets give what edwards25519 does.
func TestPippenger(t *testing.T) {
	for _, n := range []int{1, 2, 40, 700} {
		for _, width := range []int{1, 7, 24, 130, 253} {
			s, p := scalarsOf(t, n, width), pointsOf(n)
			if want := new(edwards25519.Point).VarTimeMultiScalarMult(s, p); pippenger(s, p, width).Equal(want) != 1 {
				t.Errorf("%d points, %d bits: another point than edwards25519 has", n, width)
			}
		}
	}
}

// busy is the time that the process has computed, which other load does not add to.
func busy(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkMultiExp is a sum of multiples: cpu-ns of the whole, and of one of its points.
// 15,532 and 213,540 are coordinates of inputs; 19,800 the shares that 100 clients deal
// on the complete graph, of two secrets each.
func BenchmarkMultiExp(b *testing.B) {
	for _, c := range []struct{ points, width int }{{1024, 253}, {15_532, 24}, {15_532, 253}, {19_800, 253}, {213_540, 24}, {213_540, 253}} {
		s, p := scalarsOf(b, c.points, c.width), pointsOf(c.points)
		run := func(name string, f func()) {
			b.Run(fmt.Sprintf("%s/points=%d/bits=%d", name, c.points, c.width), func(b *testing.B) {
				began := busy(b)
				for b.Loop() {
					f()
				}
				took := float64(busy(b)-began) / float64(b.N)
				b.ReportMetric(took, "cpu-ns/op")
				b.ReportMetric(took/float64(c.points), "cpu-ns/point")
			})
		}
		run("pippenger", func() { pippenger(s, p, c.width) })
		if c.points <= 20_000 && c.width == 253 {
			run("straus", func() { new(edwards25519.Point).VarTimeMultiScalarMult(s, p) })
		}
	}
}

// BenchmarkGroup are single operations of the group and of its scalars.
func BenchmarkGroup(b *testing.B) {
	s, p := scalarsOf(b, 2, 253), pointsOf(2)
	encoded := p[1].Bytes()
	out, t := new(edwards25519.Point), edwards25519.NewScalar()
	for _, c := range []struct {
		name string
		f    func()
	}{
		{"base-multiply", func() { out.ScalarBaseMult(s[0]) }},
		{"double-multiply", func() { out.VarTimeMultiScalarMult(s, p) }},
		{"decode", func() { _, _ = out.SetBytes(encoded) }},
		{"scalar-multiply", func() { t.MultiplyAdd(s[0], s[1], t) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			began := busy(b)
			for b.Loop() {
				c.f()
			}
			b.ReportMetric(float64(busy(b)-began)/float64(b.N), "cpu-ns/op")
		})
	}
}
