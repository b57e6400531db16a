package noise

import (
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkGaussian adds noise to 100,000 coordinates, the key stream included. The generator of
// the standard library and the bare key stream take turns with it, so that all see the same load of
// the machine. The library's generator is not cryptographic and discards bits of its words.
func BenchmarkGaussian(b *testing.B) {
	g, err := NewGaussian(2)
	if err != nil {
		b.Fatal(err)
	}
	dst := make([]float64, 100_000)
	stream := newCTR(b, 1)
	bits := NewBits(stream)
	block := make([]byte, bufferSize)
	normal := rand.New(rand.NewPCG(1, 2))
	var others, bare time.Duration
	for b.Loop() {
		if err = g.Add(dst, bits); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		start := time.Now()
		for i := range dst {
			dst[i] += 2 * normal.NormFloat64()
		}
		others += time.Since(start)
		start = time.Now()
		for range 8 * len(dst) / len(block) {
			if _, err = stream.Read(block); err != nil {
				b.Fatal(err)
			}
		}
		bare += time.Since(start)
		b.StartTimer()
	}
	draws := float64(b.N) * float64(len(dst))
	ns := float64(b.Elapsed().Nanoseconds())
	b.ReportMetric(ns/draws, "ns/draw")
	b.ReportMetric(ns/float64(others.Nanoseconds()), "of-normal")
	b.ReportMetric(8*draws/ns, "GB/s")
	b.ReportMetric(8*draws/float64(bare.Nanoseconds()), "stream-GB/s")
}

// BenchmarkNewZiggurat builds the table, which a program does once.
func BenchmarkNewZiggurat(b *testing.B) {
	for b.Loop() {
		_ = newZiggurat()
	}
}
