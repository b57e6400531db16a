package synthetic

import (
	"math"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/internal/effort"
)

// score writes the logarithm of the chance that user u takes and likes each item, up to a constant. It multiplies popularity, the chance by
// taste, and the chance of a rating at the given level or above.
func (w *worker) score(u, level int, popularity, out []float64) {
	r := newRandom(generatorSeed, streamUsers+uint64(u))
	bias := float64(w.UserBias * r.normal())
	copy(w.likes, r.normals(tasteRank))
	for i := range out {
		m := w.match(i)
		out[i] = math.Log(popularity[i] * w.chance(m))
		if level > 0 {
			x := bias + w.catalog.bias[i] + w.Taste*m
			out[i] += math.Log(math.Erfc((w.Cuts[level-1]-x)/w.Noise/math.Sqrt2) / 2)
		}
	}
}

// TestBestRanking measures the rankings of the generator itself, beside popularity by exact counts: what a learner may reach of a
// shape, by the splits of a run of these seeds with feedback implicit.
func TestBestRanking(t *testing.T) {
	effort.NotShort(t, "hundreds of thousands of ratings")
	for shape, least := range map[string]float64{"films": 2, "places": 1.9} {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			if shape != "films" {
				effort.LongOnly(t, "a million clicks take seconds")
			}
			s, err := shapeOf(shape)
			if err != nil {
				t.Fatal(err)
			}
			set := open(t, "synthetic:"+shape, Options{})
			level := slices.IndexFunc(s.Levels, func(x float64) bool { return x >= 4 })
			w := s.population().newWorker(set.Ratings, 0)
			r := newRandom(generatorSeed, streamItems)
			for range genres {
				r.normals(tasteRank) // makeCatalog draws tastes first
			}
			popularity := s.popularityWeights(r)
			var best, popular float64
			const seeds = 2
			for seed := range seeds {
				held := mustSplit(t, set, split.Params{Seed: uint64(seed + 1), Users: split.UsersHeldOut, Positive: 4}).Held
				counts := make([]float64, s.Items)
				for _, j := range held.Train.Item {
					counts[j]++
				}
				history, target := held.Test.History.ByUser(), held.Test.Target.ByUser()
				scores, users := make([]float64, s.Items), 0.
				var b, p float64
				for _, u := range held.Test.Users[:min(len(held.Test.Users), 500)] {
					known, _ := history.Row(int(u))
					wanted, _ := target.Row(int(u))
					if len(wanted) == 0 {
						continue
					}
					users++
					w.score(int(u), level, popularity, scores)
					b += recall(scores, known, wanted)
					copy(scores, counts)
					p += recall(scores, known, wanted)
				}
				best, popular = best+b/users/seeds, popular+p/users/seeds
			}
			t.Logf("Recall@20: the generator %.4f, popularity by exact counts %.4f: %.2f times", best, popular, best/popular)
			if best < least*popular {
				t.Errorf("the generator ranks %.4f, popularity %.4f", best, popular)
			}
		})
	}
}

// recall is Recall@20 without the known items.
func recall(scores []float64, known, wanted []int32) (hits float64) {
	for _, j := range known {
		scores[j] = math.Inf(-1)
	}
	for _, j := range wanted {
		above := 0
		for _, x := range scores {
			if x > scores[j] {
				above++
			}
		}
		if above < 20 {
			hits++
		}
	}
	return hits / float64(min(20, len(wanted)))
}
