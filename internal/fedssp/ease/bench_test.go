package ease

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkPairs sums the pairs of 1,000 users with 60 of M items each, and cleans the sum. "times" compares the time of the
// users with one pass of the bare multiplications in the same run, MB is a client's vector of integers of four bytes.
func BenchmarkPairs(b *testing.B) {
	for _, m := range []int{1000, 2000} {
		b.Run(fmt.Sprint(m), func(b *testing.B) {
			p := &params{items: m, top: m, norm: 3, least: 0.1, sigma: 1, ridge: 0.5}
			rng := rand.New(rand.NewPCG(1, uint64(m))) // items of a benchmark
			users, popularity := make([][]int32, 1000), make([]float64, m)
			for j := range popularity {
				popularity[j] = 1 + 100*rng.Float64()
			}
			for u := range users {
				for at, step := 0, m/60; at+step <= m; at += step {
					users[u] = append(users[u], int32(at+rng.IntN(step)))
				}
			}
			c, gram := p.choose(popularity), make([]float64, m*(m+1)/2)
			var summed, bare time.Duration
			for b.Loop() {
				start := time.Now()
				for _, items := range users {
					c.pairsOf(items, p.norm).Each(func(at int, v float64) { gram[at] += v })
				}
				summed += time.Since(start)
				start = time.Now()
				for _, items := range users {
					for a, i := range items {
						row := int(i)*m - int(i)*(int(i)-1)/2
						for _, j := range items[a:] {
							gram[row+int(j)-int(i)] += c.weight[i] * c.weight[j]
						}
					}
				}
				bare += time.Since(start)
			}
			start := time.Now()
			p.vectorsOf(gram)
			b.ReportMetric(float64(summed)/float64(bare), "times")
			b.ReportMetric(time.Since(start).Seconds(), "s-server")
			b.ReportMetric(4*float64(len(gram))/1e6, "MB")
		})
	}
}
