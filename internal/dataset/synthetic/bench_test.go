package synthetic

import "testing"

// BenchmarkRate draws the ratings of all users of a shape, on one goroutine.
func BenchmarkRate(b *testing.B) {
	for _, name := range []string{"ml-1m", "ml-10m-7000", "moving", "plays"} {
		b.Run(name, func(b *testing.B) {
			s, err := shapeOf(name)
			if err != nil {
				b.Skip(err)
			}
			p := s.population()
			for b.Loop() {
				w := p.newWorker(p.newRatings(s.Ratings), 0)
				for u := range s.Users {
					w.rate(u)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*s.Ratings), "ns/rating")
		})
	}
}
