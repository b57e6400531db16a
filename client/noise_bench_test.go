package client

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/protocol"
)

var normals float64

// A client's noise in a round of 500 clients: 150 may be lost and 25 may collude. It is drawn
// before the survivors are known, and taken back in part afterwards. The floor is a normal draw of
// math/rand/v2. The least time of all runs counts, so that a busy machine shows the same.
func BenchmarkNoise(b *testing.B) {
	r := protocol.Release{Name: "items", Len: 15_532, L2: 1, MaxNonZero: 15_532, Scale: 100, Width: 24, Noise: protocol.Noise{Kind: protocol.Split, Variance: 3e6}}
	p := &protocol.Plan{Round: 1, Cohort: protocol.Cohort{Clients: 500, Tolerance: 0.3, Colluders: 0.05}, Releases: []protocol.Release{r}}
	inputs := []protocol.Integers{{Index: []uint32{}}}
	src, rng := simulated.New(1, "client"), rand.New(rand.NewPCG(1, 2))
	for _, survivors := range []int{500, 450, 350} {
		b.Run(fmt.Sprintf("survivors=%d", survivors), func(b *testing.B) {
			s, add, remove, floor := new(Samplers), time.Hour, time.Hour, time.Hour
			for b.Loop() {
				start := time.Now()
				_, sh, err := s.draw(p, src, inputs)
				if err != nil {
					b.Fatal(err)
				}
				add = min(add, time.Since(start))
				start = time.Now()
				if _, err = s.remove(p, sh, survivors); err != nil {
					b.Fatal(err)
				}
				remove = min(remove, time.Since(start))
				start = time.Now()
				for range r.Len {
					normals += rng.NormFloat64()
				}
				floor = min(floor, time.Since(start))
			}
			b.ReportMetric(float64(add)/float64(floor), "add-of-normal")
			b.ReportMetric(float64(remove)/float64(floor), "remove-of-normal")
		})
	}
}
