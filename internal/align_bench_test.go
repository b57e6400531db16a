package internal_test

import (
	"runtime"
	"testing"

	"github.com/gtank/ristretto255"

	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/protocol"
)

// BenchmarkAlign aligns 10 parties in one process, and compares with the bare multiplications on as many
// cores: each id is multiplied once by each other party and twice by its own. 100,000 ids a party
// cost the same an id and take minutes.
func BenchmarkAlign(b *testing.B) {
	const parties, each = 10, 1000
	lists := make([][]string, parties)
	for k := range lists {
		lists[k] = numbered(k*each/2, k*each/2+each)
	}
	cores := protocol.Workers(runtime.GOMAXPROCS(0))
	s := drawnScalar(b, simulated.New(1, "scalar").Stream("x", 0))
	points := make([]*ristretto255.Element, each)
	for i := range points {
		points[i] = hashedToGroup(b, []byte{byte(i), byte(i >> 8)}, []byte("bench"))
	}
	var floor, whole float64
	for b.Loop() {
		b.StopTimer()
		r := newRing(b, lists)
		r.run = cores
		b.StartTimer()
		before := b.Elapsed()
		if err := r.align(); err != nil {
			b.Fatal(err)
		}
		whole += (b.Elapsed() - before).Seconds()
		b.StopTimer()
		r.check()
		b.StartTimer()
		before = b.Elapsed()
		for range parties * (parties + 1) {
			cores.Each(each, func(i int) { points[i].ScalarMult(s, points[i]) })
		}
		floor += (b.Elapsed() - before).Seconds()
	}
	b.ReportMetric(whole/floor, "of-floor")
	b.ReportMetric(whole*1e6/float64(b.N*parties*each), "µs/id")
	b.ReportMetric(0, "ns/op")
}
