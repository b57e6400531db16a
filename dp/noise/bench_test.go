package noise

import (
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

// ctr is the stream of a deployment: AES-CTR over zeros.
type ctr struct{ cipher.Stream }

func (c ctr) Read(p []byte) (int, error) {
	clear(p)
	c.XORKeyStream(p, p)
	return len(p), nil
}

func newCTR(b *testing.B, key byte) io.Reader {
	b.Helper()
	block, err := aes.NewCipher([]byte{15: key})
	if err != nil {
		b.Fatal(err)
	}
	return ctr{cipher.NewCTR(block, make([]byte, aes.BlockSize))}
}

// keepNum/keepDen is the keep probability of the benchmarks: up to 30% of 100 clients may be lost,
// 10% are.
const keepNum, keepDen = 70, 90

var benchMeans = []float64{300, 1e4, 1e6, 1e7}

// perCoordinate reports the time of one coordinate of f, and its ratio to gonum's time. f and gonum
// take turns, so that both see the same load of the machine.
func perCoordinate(b *testing.B, f func(dst []int64) error, gonum func() int64) {
	b.Helper()
	const draws = 1000
	dst := make([]int64, 10_000)
	var other time.Duration
	for b.Loop() {
		if err := f(dst); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		start := time.Now()
		for range draws {
			sink += gonum()
		}
		other += time.Since(start)
		b.StartTimer()
	}
	n := float64(b.N)
	ns := float64(b.Elapsed().Nanoseconds()) / n / float64(len(dst))
	b.ReportMetric(ns, "ns/coord")
	b.ReportMetric(ns/(float64(other.Nanoseconds())/n/draws), "of-gonum")
}

// sink keeps the compiler from dropping gonum's draws.
var sink int64

func BenchmarkAdd(b *testing.B) {
	for _, mean := range benchMeans {
		b.Run(fmt.Sprintf("mean=%g", mean), func(b *testing.B) {
			s, err := NewSkellam(2 * mean)
			if err != nil {
				b.Fatal(err)
			}
			bits := NewBits(newCTR(b, 1))
			p := distuv.Poisson{Lambda: mean, Src: rand.NewPCG(1, 2)}
			perCoordinate(b,
				func(dst []int64) error { return s.Add(dst, bits) },
				func() int64 { return int64(p.Rand() - p.Rand()) })
		})
	}
}

func BenchmarkRemoval(b *testing.B) {
	for _, mean := range benchMeans {
		b.Run(fmt.Sprintf("mean=%g", mean), func(b *testing.B) {
			s, err := NewSkellam(2 * mean)
			if err != nil {
				b.Fatal(err)
			}
			thinning, err := NewThinning(mean, keepNum, keepDen)
			if err != nil {
				b.Fatal(err)
			}
			noise, thin := NewBits(newCTR(b, 1)), NewBits(newCTR(b, 2))
			src := rand.NewPCG(1, 2)
			p := distuv.Poisson{Lambda: mean, Src: src}
			removed := func() float64 {
				n := p.Rand()
				return n - distuv.Binomial{N: n, P: float64(keepNum) / keepDen, Src: src}.Rand()
			}
			perCoordinate(b,
				func(dst []int64) error { return s.Removal(dst, noise, thin, thinning) },
				func() int64 { return int64(removed() - removed()) })
		})
	}
}

// BenchmarkNewPoisson builds one table.
func BenchmarkNewPoisson(b *testing.B) {
	for _, mean := range []float64{300, 1e6, 1e9} {
		b.Run(fmt.Sprintf("mean=%g", mean), func(b *testing.B) {
			for b.Loop() {
				tablesInUse.forget()
				if _, err := NewPoisson(mean); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkNewThinning builds the tables of one thinning.
func BenchmarkNewThinning(b *testing.B) {
	for _, mean := range benchMeans {
		b.Run(fmt.Sprintf("mean=%g", mean), func(b *testing.B) {
			for b.Loop() {
				tablesInUse.forget()
				if _, err := NewThinning(mean, keepNum, keepDen); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
