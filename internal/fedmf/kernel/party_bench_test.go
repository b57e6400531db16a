package kernel

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// BenchmarkVFLStep takes a private local step of one of ten parties of the size of MovieLens 10M:
// 69,878 users, 1,068 items, rank 20, 908,414 ratings, a hundredth of the units in a step. ns/draw
// is the step's time over its n·p + m_k·p normal draws. of-normal is that time over the time of a
// draw of the standard library. The two take turns, so that both see the same load of the machine.
func BenchmarkVFLStep(b *testing.B) {
	for _, unit := range []dp.Unit{dp.Rating, dp.User} {
		b.Run(string(unit), func(b *testing.B) { benchmarkStep(b, unit) })
	}
}

func benchmarkStep(b *testing.B, unit dp.Unit) {
	const users, items, rank, each = 69_878, 1068, 20, 13
	p := soundParams(users, 10*items, rank)
	p.Rounds, p.LocalSteps, p.SamplingRate, p.Density, p.UserRate, p.ItemRate = 100, 10, 0.01, 0.0134, 1e-4, 1e-4
	if p.Unit = unit; unit == dp.User {
		p.ClipRatings = 5
	}
	rng := rand.New(rand.NewPCG(1, 2))
	rows := make([]model.Ratings, users)
	for i := range rows {
		r := model.Ratings{Items: make([]int32, each), Values: make([]float32, each)}
		first := rng.IntN(items)
		for k := range r.Items {
			r.Items[k], r.Values[k] = int32((first+82*k)%items), 0.5*float32(1+rng.IntN(10))
		}
		rows[i] = r
	}
	party, err := NewVertical(&p, model.Indices(items), rows)
	if err != nil {
		b.Fatal(err)
	}
	noise := protocol.Noise{Kind: protocol.PartyNoise, Multiplier: 1, SamplingRate: p.SamplingRate, Steps: p.LocalSteps, Spread: unit == dp.User}
	if _, err = party.Contribute(planOf(&p, 1, p.StartUsers(users), noise), simulated.New(1, "party"), serial{}); err != nil {
		b.Fatal(err)
	}
	const draws = (users + items) * rank
	normal, sink := rand.New(rand.NewPCG(3, 4)), 0.0
	var standard time.Duration
	for b.Loop() {
		if err = party.step(500, true); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		start := time.Now()
		for range draws {
			sink += normal.NormFloat64()
		}
		standard += time.Since(start)
		b.StartTimer()
	}
	if sink == 0 {
		b.Fatal("the draws are gone")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/draws, "ns/draw")
	b.ReportMetric(float64(b.Elapsed())/float64(standard), "of-normal")
}
