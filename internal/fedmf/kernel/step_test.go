package kernel

import (
	"errors"
	"io"
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/stat/combin"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// A step moves by the negative gradient of each unit's squared error, scaled down to norm C if
// gradients are clipped, and summed: of U and V together, or of V alone. The gradient is by central
// differences, which are exact except for rounding, since the loss is quadratic in each coordinate.
func TestGradients(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const users, items, rank, c = 5, 6, 3, 6.0
	u, v, rows := someMatrix(rng, users, rank), someMatrix(rng, items, rank), someRatings(rng, users, items, 0.6)
	for _, unit := range []dp.Unit{dp.Rating, dp.User} {
		for _, clipping := range []Clipping{EmbeddingClipping, GradientClipping, BothClippings} {
			for _, both := range []bool{true, false} {
				p := soundParams(users, items, rank)
				p.Unit, p.Clipping, p.Clip, p.ClipRatings = unit, clipping, c, items
				got := sumOfGradients(t, &p, newTable(rows), u, v, sensitive{moved: both, itemOnly: !both})
				want := make([]float64, len(got))
				shorter, longer := 0, 0
				for i, r := range rows {
					for _, one := range units(r, unit) {
						g := differences(u, v, i, one, both)
						norm, scale := 0.0, 1.0
						for _, x := range g {
							norm = math.Hypot(norm, x)
						}
						if norm <= c {
							shorter++
						} else {
							longer++
							if clipping != EmbeddingClipping {
								scale = c / norm
							}
						}
						for k, x := range g {
							want[k] -= scale * x
						}
					}
				}
				if shorter == 0 || longer == 0 {
					t.Fatalf("unit %s, U %t: %d gradients shorter than C and %d longer: the test needs some of each", unit, both, shorter, longer)
				}
				if apart(got, want) > 1e-9 {
					t.Errorf("unit %s, clipping %s, U %t: %v, want %v", unit, clipping, both, got, want)
				}
			}
		}
	}
}

// units cuts a user's ratings into the parts that are clipped as one.
func units(r model.Ratings, unit dp.Unit) []model.Ratings {
	if unit == dp.User {
		return []model.Ratings{r}
	}
	var out []model.Ratings
	for k := range r.Items {
		out = append(out, model.Ratings{Items: r.Items[k : k+1], Values: r.Values[k : k+1]})
	}
	return out
}

// differences returns the gradient of the squared error of user i's ratings r: of V, followed by
// the gradient of U if both.
func differences(u, v *model.Matrix, i int, r model.Ratings, both bool) []float64 {
	u, v = u.Clone(), v.Clone()
	loss := func() (sum float64) {
		for k, j := range r.Items {
			e := float64(r.Values[k]) - model.Dot(u.Row(i), v.Row(int(j)))
			sum += e * e
		}
		return sum
	}
	var out []float64
	slope := func(x []float64) {
		const h = 1e-2
		for k, at := range x {
			x[k] = at + h
			up := loss()
			x[k] = at - h
			out = append(out, (up-loss())/(2*h))
			x[k] = at
		}
	}
	if slope(v.Data()); both {
		slope(u.Data())
	}
	return out
}

// Each index is in a Poisson sample with probability q, independently. The test checks how often
// each part of them is sampled, the law of the gaps between them, the variance of the sample's
// size, and the correlation of the sizes of its halves.
func TestSampler(t *testing.T) {
	for _, c := range []struct {
		q      float64
		n      int
		draws  int
		longer int // one long draw, for the gaps
	}{
		{0.5, 400, 1000, 100_000}, {0.01, 10_000, 1000, 10_000_000}, {1e-5, 2_000_000, 2000, 1 << 33},
	} {
		s := newSampler(c.q, simulated.New(7, "party").Stream("sample", 0))
		const parts = 400 // each index for itself where q = 1/2
		var in [parts]float64
		var dispersion, together float64
		var picked []int
		for range c.draws {
			var err error
			if picked, err = s.draw(c.n, picked[:0]); err != nil {
				t.Fatal(err)
			}
			var halves [2]float64
			for k, i := range picked {
				if i < 0 || i >= c.n || k > 0 && picked[k-1] >= i {
					t.Fatalf("q = %v: sample %v of %d does not ascend below it", c.q, picked, c.n)
				}
				in[i*parts/c.n]++
				halves[2*i/c.n]++
			}
			mean := float64(c.n) * c.q
			d := float64(len(picked)) - mean
			dispersion += d * d / (mean * (1 - c.q))
			together += (halves[0] - mean/2) * (halves[1] - mean/2) / (mean / 2 * (1 - c.q))
		}
		draws := float64(c.draws)
		var square float64
		for _, x := range in {
			mean := draws * float64(c.n) / parts * c.q
			square += (x - mean) * (x - mean) / (mean * (1 - c.q))
		}
		checkChiSquared(t, "inclusion", square, parts)
		// (size - nq)² over its mean nq(1-q) has variance 2 + (1-6q(1-q))/(nq(1-q)).
		npq := float64(c.n) * c.q * (1 - c.q)
		if z := (dispersion - draws) / math.Sqrt(draws*(2+(1-6*c.q*(1-c.q))/npq)); math.Abs(z) > limit {
			t.Errorf("q = %v: the variance of sizes is %.3f times nq(1-q), %.1f deviations off", c.q, dispersion/draws, z)
		}
		if z := together / math.Sqrt(draws); math.Abs(z) > limit {
			t.Errorf("q = %v: the sizes of the halves are correlated, %.1f deviations", c.q, z)
		}
		checkGaps(t, c.q, c.longer)
	}
}

// checkGaps compares the gaps of one long draw with the geometric law, in bins
// of about a twentieth each.
func checkGaps(t *testing.T, q float64, n int) {
	t.Helper()
	picked, err := newSampler(q, simulated.New(8, "party").Stream("sample", 0)).draw(n, nil)
	if err != nil {
		t.Fatal(err)
	}
	// A gap of at least g has probability (1-q)^g.
	upTo := func(g int) float64 { return math.Exp(float64(g) * math.Log1p(-q)) }
	edges := []int{0}
	for b := 1; b < 20; b++ {
		if g := int(math.Ceil(math.Log1p(-float64(b)/20) / math.Log1p(-q))); g > edges[len(edges)-1] {
			edges = append(edges, g)
		}
	}
	counts, want := make([]float64, len(edges)), make([]float64, len(edges))
	last := -1
	for _, i := range picked {
		b := len(edges) - 1
		for edges[b] > i-last-1 {
			b--
		}
		counts[b]++
		last = i
	}
	for b := range edges {
		share := upTo(edges[b])
		if b+1 < len(edges) {
			share -= upTo(edges[b+1])
		}
		want[b] = share * float64(len(picked))
	}
	checkCounts(t, "gaps", counts, want)
}

// With q = 1 everything takes part and no randomness is read; otherwise a stream that fails leaves
// no sample.
func TestSamplerEdges(t *testing.T) {
	if got, err := newSampler(1, nil).draw(4, []int{9}); err != nil || !cmp.Equal(got, []int{9, 0, 1, 2, 3}) {
		t.Errorf("everything: %v, %v", got, err)
	}
	if got, err := newSampler(0.5, nil).draw(0, nil); err == nil || got != nil {
		t.Errorf("without randomness: %v, %v; want an error", got, err)
	}
	broken := errors.New("broken")
	if got, err := newSampler(0.5, io.MultiReader(io.LimitReader(zeros{}, 80), failing{broken})).draw(1000, nil); !errors.Is(err, broken) || got != nil {
		t.Errorf("a stream that breaks: %v, %v; want no sample and its error", got, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// With unit rating each rating is sampled by itself, with unit user all ratings
// of a user together. Users have three ratings each, of items of their own; V is
// zero and U is not, so that an item's gradient shows whether it was sampled.
// The plan's rate counts, not the settings'.
func TestWhatIsSampled(t *testing.T) {
	const users, steps, q = 200, 200, 0.3
	rows := make([]model.Ratings, users)
	for i := range rows {
		rows[i] = model.Ratings{Items: []int32{int32(3 * i), int32(3*i + 1), int32(3*i + 2)}, Values: []float32{1, 2, 3}}
	}
	for _, unit := range []dp.Unit{dp.Rating, dp.User} {
		p := soundParams(users, 3*users, 1)
		p.Unit, p.ClipRatings, p.SamplingRate = unit, 3, 0.9
		s := newStepper(&p, newTable(rows), model.NewMatrix(3*users, 1))
		if err := s.begin(protocol.Noise{SamplingRate: q}, simulated.New(1, "party"), "local-steps", 1); err != nil {
			t.Fatal(err)
		}
		var counts, want [8]float64 // by which of the three were sampled
		for range steps {
			if err := s.gradients(p.StartUsers(users), true); err != nil {
				t.Fatal(err)
			}
			for i := range users {
				mask := 0
				for k := range 3 {
					if s.gradV.Data()[3*i+k] != 0 {
						mask |= 1 << k
					}
				}
				counts[mask]++
			}
		}
		for mask := range want {
			k := bits.OnesCount(uint(mask))
			want[mask] = users * steps * math.Pow(q, float64(k)) * math.Pow(1-q, float64(3-k))
		}
		if unit == dp.Rating {
			checkCounts(t, "ratings", counts[:], want[:])
			continue
		}
		checkCounts(t, "users", []float64{counts[0], counts[7]}, []float64{users * steps * (1 - q), users * steps * q})
		if counts[0]+counts[7] != users*steps {
			t.Errorf("unit user: ratings of a user are sampled one by one: %v", counts)
		}
	}
}

// Why ratings are sampled if a rating is protected, and not rows as in the FMF paper (section
// 4.1.2). The user's other ratings may tell whether a row is in a step. Over 1,000 steps at q =
// 0.01 and z = 1, a row is in k of them with the binomial probability, and these steps release a
// Gaussian mechanism with μ = √k/z. With k in sight, δ(ε) is the mean over k, and ε at δ = 1e-5 is
// 23.4; with ratings sampled the accountant states 1.83.
func TestSampledRowsDoNotAmplify(t *testing.T) {
	const steps, q, z, delta = 1000, 0.01, 1.0, 1e-5
	phi := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	stick := func(eps float64) (sum float64) {
		for k := 1; k <= steps; k++ {
			mu := math.Sqrt(float64(k)) / z
			log := combin.LogGeneralizedBinomial(steps, float64(k)) + float64(k)*math.Log(q) + float64(steps-k)*math.Log1p(-q)
			sum += math.Exp(log) * (phi(mu/2-eps/mu) - math.Exp(eps)*phi(-mu/2-eps/mu))
		}
		return sum
	}
	lo, hi := 0.0, 100.0
	for range 60 {
		if mid := (lo + hi) / 2; stick(mid) > delta {
			lo = mid
		} else {
			hi = mid
		}
	}
	if !(lo > 10) || math.Abs(lo-23.391) > 0.001 {
		t.Errorf("sampling rows gives ε = %.3f; it should be 23.391, far above the 1.83 of sampled ratings", lo)
	}
}

// Of more than θ ratings θ stay, every choice of them equally likely. Of fewer all stay, and
// trimming does not change its table.
func TestTrim(t *testing.T) {
	rows := []model.Ratings{
		{Items: []int32{4, 9}, Values: []float32{1, 2}}, {},
		{Items: []int32{0, 1, 2, 3, 4, 5}, Values: []float32{0, 10, 20, 30, 40, 50}},
		{Items: []int32{7}, Values: []float32{3}},
	}
	before, table := newTable(rows), newTable(rows)
	random := simulated.New(5, "party").Stream("trim", 0)
	const times = 6000
	var chosen [64]float64
	for range times {
		got, err := Trim(table.all(), 2, random)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range []int{0, 1, 3} {
			if d := cmp.Diff(before.row(i), got[i]); d != "" {
				t.Fatalf("row %d (-want +got):\n%s", i, d)
			}
		}
		r := got[2]
		if len(r.Items) != 2 || r.Items[0] == r.Items[1] || r.Values[0] != 10*float32(r.Items[0]) || r.Values[1] != 10*float32(r.Items[1]) {
			t.Fatalf("trimmed to %v", r)
		}
		chosen[1<<r.Items[0]|1<<r.Items[1]]++
	}
	var pairs, want []float64
	for mask, x := range chosen {
		if bits.OnesCount(uint(mask)) == 2 {
			pairs, want = append(pairs, x), append(want, times/15.)
		}
	}
	checkCounts(t, "choices of 2 of 6", pairs, want)
	if d := cmp.Diff(before, table, cmp.AllowUnexported(*table)); d != "" {
		t.Errorf("the original changed (-want +got):\n%s", d)
	}
	if got, err := Trim(table.all(), 2, failing{io.ErrClosedPipe}); !errors.Is(err, io.ErrClosedPipe) || got != nil {
		t.Errorf("without randomness: %v, %v; want an error", got, err)
	}
}
