package ease

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// itemsOf returns the items of each user, ascending.
func itemsOf(r dataset.Ratings) map[int32][]int32 {
	m := make(map[int32][]int32)
	for k, u := range r.User {
		m[u] = append(m[u], r.Item[k])
	}
	return m
}

// recall is Recall@20 of users held out, if score writes scores by a user's history.
func (x *instance) recall(score func(history []int32, out []float64)) (mean float64) {
	history, targets := itemsOf(x.setup.Held.Test.History), itemsOf(x.setup.Held.Test.Target)
	out, top := make([]float64, x.params.items), make([]float64, 0, 20)
	for u, wanted := range targets {
		score(history[u], out)
		for _, j := range history[u] {
			out[j] = math.Inf(-1)
		}
		top = top[:0] // descending
		for _, v := range out {
			if len(top) == 20 && v <= top[19] {
				continue
			}
			at, _ := slices.BinarySearchFunc(top, v, func(a, b float64) int { return cmp.Compare(b, a) })
			top = slices.Insert(top[:min(len(top), 19)], at, v)
		}
		hits, above, equal, least := 0., 0, 0, top[len(top)-1]
		for _, v := range out {
			switch {
			case v > least:
				above++
			case v == least:
				equal++
			}
		}
		for _, j := range wanted {
			switch {
			case out[j] > least:
				hits++
			case out[j] == least: // the mean over orders of equal scores
				hits += float64(20-above) / float64(equal)
			}
		}
		mean += hits / float64(min(20, len(wanted))*len(targets))
	}
	return mean
}

// drawn is the mean recall over several draws of the planned noise, and the mean number of spikes. Counts have the same
// normal numbers in each run of a seed.
func (x *instance) drawn(draws, seed int) (recall, spikes float64) {
	p := x.params
	var train [][]int32
	exact := make([]float64, p.items)
	for u := range x.setup.Data.Users {
		x.setup.Lend(u, func(r model.Ratings) {
			train = append(train, slices.Clone(r.Items))
			p.countsOf(r.Items).Each(func(j int, v float64) { exact[j] += v })
		})
	}
	noised := func(rng *rand.Rand, step int, exact []float64) []float64 {
		r := x.setup.Schedule[step].Releases[0]
		sum, deviation := slices.Clone(exact), math.Sqrt(r.Noise.Variance)/r.Scale
		for i := range sum {
			sum[i] += deviation * rng.NormFloat64()
		}
		return sum
	}
	for draw := range draws {
		rng := rand.New(rand.NewPCG(uint64(seed), uint64(draw))) // normal noise of a test
		counts := p.withPublic(noised(rng, 0, exact), p.countsOf)
		l := p.newLinear(counts, nil)
		if p.top > 0 {
			gram := make([]float64, p.pairsRelease().Len)
			for _, items := range train {
				l.pairsOf(items, p.norm).Each(func(at int, v float64) { gram[at] += v })
			}
			l = p.newLinear(counts, p.vectorsOf(p.withPublic(noised(rng, 1, gram), func(items []int32) protocol.Vector { return l.choice.pairsOf(items, p.norm) })))
			spikes += float64(countOf(l.vectors.Row(0))) / float64(draws)
		}
		recall += x.recall(func(history []int32, out []float64) { l.Score(0, history, nil, out) }) / float64(draws)
	}
	return recall, spikes
}

// TestNeverFarBelowPopularity holds Recall@20 against private popularity for the same budget, on generated shapes from 20 users
// to thousands. Both have the same draws of noise. Lists with less than a tenth of the Recall@20 of exact counts are noise.
func TestNeverFarBelowPopularity(t *testing.T) {
	shapes, epsilons, seeds := []string{"small"}, effort.Of([]float64{1}, []float64{0.1, 1, 20}, nil), 3
	if effort.Long() {
		shapes = []string{"small", "small-80", "small-5000", "moving", "ml-1m-300", "ml-1m-2000", "ml-10m-1000", "ml-25m-1000", "libimseti-tenth-1000", "ml-20m-1000", "films"}
		epsilons, seeds = []float64{0.1, 1, 5, 20, 100}, 5
	}
	for _, shape := range shapes {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			for _, epsilon := range epsilons {
				m := measure(t, "data=synthetic:"+shape, epsilon, seeds)
				t.Log(m)
				// The means of users held out have a deviation themselves.
				if m.private > m.exact/10 && m.recall < 0.97*m.private-2*m.deviation {
					t.Errorf("%v is more than 3%% below private popularity", m)
				}
			}
		})
	}
}

// measured holds means over seeds.
type measured struct {
	epsilon, recall, private, exact, spikes float64
	deviation                               float64 // of the mean difference of recall and private
}

func (m measured) String() string {
	return fmt.Sprintf("epsilon %v: %.4f (%.0f spikes), private popularity %.4f, exact %.4f: %.3f and %.3f times; deviation %.4f", m.epsilon, m.recall, m.spikes, m.private, m.exact, m.recall/m.exact, m.private/m.exact, m.deviation)
}

func measure(t *testing.T, settings string, epsilon float64, seeds int) (m measured) {
	t.Helper()
	m.epsilon = epsilon
	draws, squares := effort.Of(1, 1, 2), 0.
	for seed := range seeds {
		e := opened.Experiment(t, fmt.Sprintf("algorithm=private-ease %s epsilon=%v seed=%d split.seed=%d", settings, epsilon, seed+1, seed+1))
		x := e.Instance().(*instance)
		draws := draws
		if x.params.top == 0 {
			draws *= 8 // counts alone take little time
		}
		recall, spikes := x.drawn(draws, seed)
		private, _ := opened.Vary(t, e, "private_popularity").Instance().(*instance).drawn(draws, seed)
		exact := make([]float64, x.params.items)
		for _, j := range x.setup.Ratings.Item {
			exact[j]++
		}
		n := float64(seeds)
		m.recall, m.private, m.spikes = m.recall+recall/n, m.private+private/n, m.spikes+spikes/n
		m.exact += x.recall(func(_ []int32, out []float64) { copy(out, exact) }) / n
		squares += (recall - private) * (recall - private) / n
	}
	d := m.recall - m.private
	m.deviation = math.Sqrt(max(0, squares-d*d) / float64(max(1, seeds-1)))
	return m
}

// Likes of MovieLens latest-small, where the aims are 1, 1.5 and 1.8 times popularity by exact counts.
func TestLatestSmall(t *testing.T) {
	const data = "../../../../shared/data/ml-latest-small"
	if _, err := os.Stat(data); err != nil {
		t.Skip(err)
	}
	effort.LongOnly(t, "five seeds take seconds each")
	for epsilon, least := range map[float64]float64{0.1: 0, 0.5: 0, 1: 1, 5: 1.5, 20: 1.8, 100: 1.9} {
		m := measure(t, "data="+data, epsilon, 5)
		t.Log(m)
		if m.recall < least*m.exact {
			t.Errorf("%v, want at least %v times popularity by exact counts", m, least)
		}
	}
}
