package secagg_test

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"filippo.io/edwards25519"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// The work of the comparison with other implementations: 100 clients, 10,677
// items x 20, a ring of 32 bits. They choose k = 20 and t = 11; here both follow
// from what is assumed, and the floors are computed for what follows. One thread
// (-cpu 1).
const (
	benchClients = 100
	benchLen     = 213_540
	benchBytes   = 4 * benchLen
)

func benchPlan(width uint8, tolerance, colluders float64) *protocol.Plan {
	p := plan(benchClients, exact("V", benchLen, width))
	p.Cohort = protocol.Cohort{Clients: benchClients, Tolerance: tolerance, Colluders: colluders}
	return p
}

// floors are the operations of the standard library that the protocol cannot do
// without, timed one by one.
type floors struct{ ecdh, generate, keystream, multiplyAdd, addVector time.Duration }

func measureFloors(b *testing.B) floors {
	b.Helper()
	least := func(n int, f func()) time.Duration {
		best := time.Duration(1 << 62)
		for range 5 { // the least of five, against the least of what is measured: other load is no part of the ratio
			start := time.Now()
			for range n {
				f()
			}
			best = min(best, time.Since(start)/time.Duration(n))
		}
		return best
	}
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	block, err := aes.NewCipher(make([]byte, 16))
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 16<<10)
	x, sum := edwards25519.NewScalar(), make([]uint32, benchLen)
	return floors{
		ecdh: least(200, func() { _, _ = key.ECDH(key.PublicKey()) }),
		generate: least(200, func() {
			_, _ = ecdh.X25519().GenerateKey(rand.Reader)
		}),
		keystream: least(20, func() {
			s := cipher.NewCTR(block, make([]byte, 16))
			for done := 0; done < benchBytes; done += len(buf) {
				s.XORKeyStream(buf[:min(len(buf), benchBytes-done)], buf[:min(len(buf), benchBytes-done)])
			}
		}),
		multiplyAdd: least(2000, func() { x.MultiplyAdd(x, x, x) }),
		addVector: least(20, func() {
			for i := range sum {
				sum[i] += uint32(i)
			}
		}),
	}
}

// BenchmarkClient is a client through all stages, noise aside.
func BenchmarkClient(b *testing.B) {
	fl := measureFloors(b)
	f := newFederationWith(b, benchPlan(32, 0.1, 0.1), secagg.Params{}, nil) // k = 22 and t = 11
	f.through(protocol.StageMaskedInput)
	k, t := f.choice().Degree, f.choice().Threshold
	floor := time.Duration(2*k)*fl.ecdh + 2*fl.generate + time.Duration(k+1)*fl.keystream + time.Duration(2*k*t)*fl.multiplyAdd
	best := time.Duration(1 << 62)
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		c, err := join(f.party(0, 0), f.plan)
		if err != nil {
			b.Fatal(err)
		}
		f.clients[0] = c
		b.StartTimer()
		start := time.Now()
		for _, s := range f.stages() {
			if _, err = f.answer(s, 0); err != nil {
				b.Fatal(err)
			}
		}
		best = min(best, time.Since(start))
	}
	b.ReportMetric(float64(floor.Nanoseconds()), "floor-ns")
	b.ReportMetric(float64(best)/float64(floor), "of-floor")
	b.ReportMetric(float64(k), "k")
	b.ReportMetric(float64(t), "t")
	b.ReportMetric(float64(protocol.Size(&protocol.MaskedInput{Packed: benchPlan(29, 0.1, 0.1).PackedSize()})), "upload-B-at-29-bits")
}

// BenchmarkUnmask is the aggregator after the last answer: secrets restored and
// checked, and the remaining masks taken off.
func BenchmarkUnmask(b *testing.B) {
	fl := measureFloors(b)
	for _, percent := range []int{0, 10, 30} {
		b.Run(fmt.Sprintf("drop=%d", percent), func(b *testing.B) {
			var floor time.Duration
			best := time.Duration(1 << 62)
			b.StopTimer()
			for range b.N {
				f := newFederationWith(b, benchPlan(32, 0.3, 0.05), secagg.Params{}, nil)
				t := f.choice().Threshold
				f.through(protocol.StageShare)
				for i := range benchClients {
					f.alive[i] = i*percent%100 >= percent // the ring is random, the pattern need not be
				}
				for _, s := range []protocol.Stage{protocol.StageMaskedInput, protocol.StageUnmask} {
					if err := f.stage(s); err != nil {
						b.Fatal(err)
					}
				}
				pairs, lost := 0, 0
				for i, alive := range f.alive {
					if !alive {
						lost++
						for _, s := range f.deliveries[i].Shares {
							if f.alive[s.Peer] {
								pairs++
							}
						}
					}
				}
				floor = time.Duration(benchClients-lost)*(fl.keystream+fl.addVector) + time.Duration(pairs)*(fl.ecdh+fl.keystream) +
					time.Duration(benchClients*t)*fl.multiplyAdd
				b.StartTimer()
				start := time.Now()
				_, err := f.aggregator.Sum(serial{})
				best = min(best, time.Since(start))
				b.StopTimer()
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(floor.Nanoseconds()), "floor-ns")
			b.ReportMetric(float64(best)/float64(floor), "of-floor")
		})
	}
}
