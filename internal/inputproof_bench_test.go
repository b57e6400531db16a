package internal_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fedsim/fedsim/internal/secagg/inputproof"
	"github.com/fedsim/fedsim/internal/secagg/mask"
)

// BenchmarkProof is of one client's proof, on one thread, beside what a plain sum takes of its vector. of-plain is its time by the
// time of masking with 20 neighbours or, of the aggregator, of adding the masked vector. The bounds fit noised vectors.
func BenchmarkProof(b *testing.B) {
	for _, c := range []struct {
		coordinates int
		linf        int64
	}{{1000, 250}, {10_000, 250}, {15_532, 250}, {15_532, 4000}, {213_540, 250}} {
		list := []inputproof.Bound{{Len: c.coordinates, LInf: c.linf, Squares: 1 << 24}}
		s, x := shapeOf(b, list), vectorsOf(list, 1)
		proof, _ := prove(b, s, x)
		v, err := mask.NewVector(29, c.coordinates)
		if err != nil {
			b.Fatal(err)
		}
		terms := make([]mask.Term, 21)
		for i := range terms {
			if terms[i].Stream, err = mask.NewStream([32]byte{byte(i)}, mask.Pair, mask.Context{}, mask.Spec{Name: "V", Width: 29, Len: c.coordinates}); err != nil {
				b.Fatal(err)
			}
		}
		packed := v.AppendPacked(nil)
		run := func(role string, proves, plain func() error) {
			b.Run(fmt.Sprintf("%s/coordinates=%d/bound=%d", role, c.coordinates, c.linf), func(b *testing.B) {
				var alone time.Duration
				for b.Loop() {
					if err := proves(); err != nil {
						b.Fatal(err)
					}
					b.StopTimer()
					start := time.Now()
					if err := plain(); err != nil {
						b.Fatal(err)
					}
					alone += time.Since(start)
					b.StartTimer()
				}
				b.ReportMetric(float64(b.Elapsed())/float64(alone), "of-plain")
				b.ReportMetric(float64(s.Size())/float64(len(packed)), "bytes-of-plain")
			})
		}
		run("client", func() error { prove(b, s, x); return nil }, func() error { return mask.AddAll(v, terms) })
		run("aggregator", func() error { return s.Verify([]byte("here"), proof) }, func() error { return v.AddPacked(packed) })
	}
}
