package ease

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/internal/training"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/server"
	"github.com/fedsim/fedsim/sim"
)

func init() { algorithm.MustRegister(New()) } // as the family does

func normOf(v protocol.Vector) float64 {
	sum := 0.
	v.Each(func(_ int, x float64) { sum += x * x })
	return math.Sqrt(sum)
}

// TestSensitivity checks the bounds of both releases by hand-made extremes: users with one item and with
// all, and counts that a hostile server may send.
func TestSensitivity(t *testing.T) {
	p := &params{items: 60, top: 40, norm: math.Sqrt(10)}
	all := make([]int32, p.items)
	for j := range all {
		all[j] = int32(j)
	}
	inf := math.Inf(1)
	largest := 0.
	for name, counts := range map[string][]float64{
		"zeros": make([]float64, p.items), "no numbers": slices.Repeat([]float64{math.NaN()}, p.items), "infinite": slices.Repeat([]float64{inf}, p.items), "negative": slices.Repeat([]float64{-1e300}, p.items),
		"one huge": append([]float64{1e300}, make([]float64, p.items-1)...), "both infinities": append([]float64{inf, -inf}, make([]float64, p.items-2)...),
	} {
		p.least, p.noise = 0.5, 0
		exact := p.choose(p.popularityOf(counts))
		p.noise = 2
		noisy := p.choose(p.popularityOf(counts))
		for n := range len(all) + 1 {
			for c, items := range map[*choice][]int32{exact: all[:n], noisy: all[len(all)-n:]} {
				v := c.pairsOf(items, p.norm)
				if err := v.Validate(p.pairsRelease().Len); err != nil {
					t.Fatal(name, n, err)
				}
				norm := normOf(v)
				if !(norm <= p.norm*(1+1e-12)) {
					t.Fatalf("%s: pairs of %d items have the norm %v, bound %v", name, n, norm, p.norm)
				}
				largest = max(largest, norm)
				if x := normOf(p.countsOf(items)); n > 0 && math.Abs(x-1) > 1e-12 || n == 0 && x+norm != 0 {
					t.Fatalf("counts of %d items have the norm %v", n, x)
				}
			}
		}
	}
	if largest < p.norm*(1-1e-12) {
		t.Errorf("the largest norm is %v, and the bound %v is not reached", largest, p.norm)
	}
}

// By hand: of a public least of 20 likes a like counts 1/√20, and of a user with 45 likes 1/√45.
func TestLeastBoundsALike(t *testing.T) {
	p := &params{items: 60, fewest: 20}
	for n, want := range map[int]float64{1: 1 / math.Sqrt(20), 20: 1 / math.Sqrt(20), 45: 1 / math.Sqrt(45)} {
		for _, x := range p.countsOf(make([]int32, n)).Value {
			if math.Abs(x-want) > 1e-15 || x > p.countsRelease().LInf {
				t.Errorf("a like of %d counts %v, want %v, bound %v", n, x, want, p.countsRelease().LInf)
			}
		}
	}
}

// reference holds the output of testdata/reference.py, an implementation in NumPy that shares no code.
type reference struct {
	Items, Top   int
	Norm         float64
	Users        [][]int32
	Counts, Gram []float64
	Sigma, Ridge float64
	Scores       [][]float64 // of every item, by user
	NoisyGram    []float64
	NoisyCounts  []float64
	Popular      []float64 // by them
	CountsNoise  float64
	Spikes       int
	NoisyScores  [][]float64
	Years        []int // of each item; 0: unknown
	DatedScores  [][]float64
	Lists, Noisy [][]int32 // the first five items that the user lacks
	Dated        [][]int32
}

func readReference(t *testing.T) (r reference) {
	t.Helper()
	b, err := os.ReadFile("testdata/reference.json")
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestReference compares sums, Gram matrix, scores and lists with NumPy's, without noise and with noise.
func TestReference(t *testing.T) {
	r := readReference(t)
	p := &params{items: r.Items, top: r.Top, norm: r.Norm, least: 0.1, ridge: r.Ridge}
	counts := make([]float64, p.items)
	for _, items := range r.Users {
		p.countsOf(items).Each(func(j int, x float64) { counts[j] += x })
	}
	near(t, "counts", counts, r.Counts, 1e-9)
	near(t, "popularity", (&params{noise: r.CountsNoise}).popularityOf(r.NoisyCounts), r.Popular, 1e-9)
	c := p.choose(p.popularityOf(counts))
	gram := make([]float64, p.pairsRelease().Len)
	for _, items := range r.Users {
		c.pairsOf(items, p.norm).Each(func(at int, x float64) { gram[at] += x })
	}
	near(t, "Gram matrix", gram, r.Gram, 1e-9)
	for _, x := range []struct {
		name   string
		gram   []float64
		sigma  float64
		dated  bool
		scores [][]float64
		lists  [][]int32
	}{{"exact", r.Gram, 0, false, r.Scores, r.Lists}, {"noisy", r.NoisyGram, r.Sigma, false, r.NoisyScores, r.Noisy}, {"dated", r.Gram, 0, true, r.DatedScores, r.Dated}} {
		p.sigma = x.sigma
		if x.dated {
			p.features = released(t, r.Years)
		}
		l := p.newLinear(counts, p.vectorsOf(x.gram))
		if spikes := countOf(l.vectors.Row(0)); x.sigma > 0 && spikes != r.Spikes {
			t.Errorf("%d eigenvalues stand out, want %d", spikes, r.Spikes)
		}
		for u, items := range r.Users[:len(x.scores)] {
			out := make([]float64, p.items)
			l.Score(u, items, nil, out)
			near(t, x.name+" scores", out, x.scores[u], 1e-7)
			if got := first(out, items, 5); !slices.Equal(got, x.lists[u]) {
				t.Errorf("%s: user %d gets %v, want %v", x.name, u, got, x.lists[u])
			}
		}
	}
}

// released are features that are years of release alone.
func released(t *testing.T, years []int) *dataset.ItemFeatures {
	t.Helper()
	set := &dataset.Set{Years: years, Ratings: dataset.Ratings{Items: len(years)}, ItemIDs: make([]string, len(years))}
	f, err := read.Features(set, "released")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func countOf(row []float64) (n int) {
	for _, x := range row {
		if x != 0 {
			n++
		}
	}
	return n
}

func first(scores []float64, without []int32, n int) []int32 {
	var list []int32
	for j := range scores {
		if !slices.Contains(without, int32(j)) {
			list = append(list, int32(j))
		}
	}
	slices.SortStableFunc(list, func(a, b int32) int {
		switch {
		case scores[a] > scores[b]:
			return -1
		case scores[a] < scores[b]:
			return 1
		}
		return 0
	})
	return list[:n]
}

func near(t *testing.T, what string, got, want []float64, by float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i := range got {
		if !(math.Abs(got[i]-want[i]) <= by*max(1, math.Abs(want[i]))) {
			t.Fatalf("%s: number %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// TestUsersWithoutItemsGetPopularity checks the order of a list for an unknown user against the counts, and that no
// spike of the noise alone changes any list.
func TestUsersWithoutItemsGetPopularity(t *testing.T) {
	p := &params{items: 300, top: 50, norm: 3, noise: 4, sigma: 1, ridge: 0.5}
	rng := rand.New(rand.NewPCG(1, 2)) // public numbers of a test
	counts := make([]float64, p.items)
	for j := range counts {
		counts[j] = 100*math.Exp(-float64(j)/60) + 4*rng.NormFloat64()
	}
	noise := make([]float64, p.pairsRelease().Len)
	for i := range noise {
		noise[i] = 0.9 * rng.NormFloat64() // below the stated deviation, so that no eigenvalue passes the edge
	}
	l := p.newLinear(counts, p.vectorsOf(noise))
	for name, history := range map[string][]int32{"no items": nil, "noise alone": {0, 3, 20, 200}} {
		out := make([]float64, p.items)
		l.Score(0, history, nil, out)
		order := func(x []float64) []int32 { return first(x, nil, p.items) }
		if !slices.Equal(order(out), order(counts)) {
			t.Errorf("%s: the list is not in the order of the counts", name)
		}
	}
}

// listening keeps the sums that a strategy absorbs.
type listening struct {
	server.Durable
	sums map[string][]float64
}

func (l listening) Absorb(p *protocol.Plan, sums protocol.Sums, run protocol.Runner) error {
	l.sums[p.Phase] = sums.Values[0]
	return l.Durable.Absorb(p, sums, run)
}

// sumsOf runs an experiment and returns the sum of each phase.
func sumsOf(t *testing.T, settings string) (*experiment.Experiment, map[string][]float64) {
	t.Helper()
	e := opened.Experiment(t, "algorithm=private-ease data=synthetic:small-80 pairs.items=60 split.test=0.1 dropout=0 seed=3 "+settings)
	f, err := e.Federation()
	if err != nil {
		t.Fatal(err)
	}
	sums := make(map[string][]float64)
	f.Strategy = listening{f.Strategy.(server.Durable), sums}
	if _, err := sim.Run(t.Context(), training.Simulation(e, f, nil)); err != nil {
		t.Fatal(err)
	}
	return e, sums
}

// TestNoiseOfARealSum compares the noise in sums of masked integers with the plan. The mean square of n
// coordinates of noise has a relative deviation of at most √(3/n); five of these are passed once in a million seeds.
func TestNoiseOfARealSum(t *testing.T) {
	e, noisy := sumsOf(t, "secagg=real epsilon=20")
	p := e.Instance().(*instance).params
	c := p.choose(p.popularityOf(noisy[countsName]))
	exact := map[string][]float64{countsName: make([]float64, p.items), pairsName: make([]float64, p.pairsRelease().Len)}
	for u := range e.Data.Users {
		items := e.Row(u).Items
		p.countsOf(items).Each(func(j int, x float64) { exact[countsName][j] += x })
		c.pairsOf(items, p.norm).Each(func(j int, x float64) { exact[pairsName][j] += x })
	}
	for step, r := range e.Schedule.All() {
		want, n := r.Noise.Variance/(r.Scale*r.Scale), float64(r.Len)
		got := 0.
		for j, x := range noisy[step.Phase] {
			got += (x - exact[step.Phase][j]) * (x - exact[step.Phase][j]) / n
		}
		if len(noisy[step.Phase]) != r.Len || math.Abs(got/want-1) > 5*math.Sqrt(3/n) {
			t.Errorf("%s: noise of variance %.4g, planned %.4g", step.Phase, got, want)
		}
	}
}

// TestPublicUsersJoinTheSums compares the server's counts and pairs with sums over the file's own lines: a public user's likes are
// exact, and in no client's vector. Under noise a public user counts like three clients.
func TestPublicUsersJoinTheSums(t *testing.T) {
	for settings, weight := range map[string]float64{"epsilon=inf secagg=ideal": 1, "epsilon=20 secagg=ideal": 3} {
		e, sums := sumsOf(t, "public-users=12 "+settings)
		p := e.Instance().(*instance).params
		whole, err := read.Open(t.Context(), "synthetic:small-80", read.Options{})
		if err != nil {
			t.Fatal(err)
		}
		likes := make(map[string][]int32)
		for k, u := range whole.User {
			if id := whole.UserIDs[u]; whole.Value[k] >= 4 && slices.Contains(e.Data.Raters.IDs, id) {
				likes[id] = append(likes[id], whole.Item[k])
			}
		}
		s := &strategy{params: p}
		absorb := func(phase string) {
			if err := s.Absorb(&protocol.Plan{Phase: phase}, protocol.Sums{Values: [][]float64{sums[phase]}}, nil); err != nil {
				t.Fatal(err)
			}
		}
		absorb(countsName)
		counts, pairs := slices.Clone(sums[countsName]), slices.Clone(sums[pairsName])
		for _, items := range likes {
			for _, j := range items {
				counts[j] += weight / math.Sqrt(float64(len(items)))
			}
		}
		near(t, settings+" counts", s.counts, counts, 1e-9)
		c := p.choose(p.popularityOf(counts))
		for _, items := range likes {
			slices.Sort(items)
			c.pairsOf(items, p.norm).Each(func(at int, x float64) { pairs[at] += weight * x })
		}
		absorb(pairsName)
		near(t, settings+" vectors", s.vectors.Data(), p.vectorsOf(pairs).Data(), 1e-6)
		if e.Data.Users != 68 || len(likes) != 12 {
			t.Errorf("%d users and %d public users with likes, want 68 of 80 and 12", e.Data.Users, len(likes))
		}
	}
}

// One list for all has no user's taste for features, although the run beside it has.
func TestPrivatePopularityIsOneList(t *testing.T) {
	e := opened.Experiment(t, "algorithm=private-ease data=synthetic:small-80 split.test=0.1")
	x := e.Instance().(*instance)
	if f := x.params.features; f == nil || f.Categories[1].Name != "released" || x.params.newLinear(make([]float64, x.params.items), nil).years == nil {
		t.Fatalf("the run has features %v, want genres and single years", f)
	}
	b := x.Baselines()[0]
	other, err := e.Vary(b)
	if err != nil {
		t.Fatal(err)
	}
	if p := other.Instance().(*instance).params; b.Name != "private_popularity" || p.features != nil || p.top != 0 {
		t.Errorf("%s takes features (%t) and pairs of %d items", b.Name, p.features != nil, p.top)
	}
}

// One release is noised as far as samplers go, at a coarser fixed point: ε = 0.1 of 600 users was refused.
func TestPrivatePopularityAtSmallEpsilon(t *testing.T) {
	e := opened.Experiment(t, "algorithm=private-ease epsilon=0.1 feedback=implicit")
	if p := e.Instance().(*instance).params; p.top != 0 || !(p.noise > 0) {
		t.Errorf("pairs of %d items, noise of counts %v; want popularity alone", p.top, p.noise)
	}
}

// A client's vector of pairs is below its bound in megabytes, and no further below than by a number of bits that suits the sum.
func TestPairsKeepTheUpload(t *testing.T) {
	for _, most := range []float64{0.02, 0.005} {
		e := opened.Experiment(t, fmt.Sprintf("algorithm=private-ease data=synthetic:small epsilon=20 pairs.max-upload=%v", most))
		r := e.Instance().(*instance).setup.Schedule[1].Releases[0]
		if m := e.Instance().(*instance).params.top; r.Len != m*(m+1)/2 || m != int(math.Sqrt(2e6*most/2.5)) {
			t.Errorf("%v MB: %d items, %d numbers", most, m, r.Len)
		}
		if mb := float64(r.Len*int(r.Width)) / 8e6; mb > 1.2*most || mb < 0.5*most {
			t.Errorf("bound %v MB: %d numbers of %d bits are %v MB", most, r.Len, r.Width, mb)
		}
	}
}

// More directions stand out than the model has columns. The eigenvectors are the discrete cosine transform, so that the inverse is a
// known sum over all directions: the kept with their eigenvalues, and the others with their mean.
func TestMoreDirectionsThanColumns(t *testing.T) {
	const m = mostDirections + 44
	var table [m][m]float64
	for k := range m {
		for i := range m {
			table[k][i] = math.Sqrt(2./m) * math.Cos(math.Pi*float64(k)*(float64(i)+0.5)/m)
			if k == 0 {
				table[k][i] = 1 / math.Sqrt(m)
			}
		}
	}
	vector := func(k, i int) float64 { return table[k][i] }
	value := func(k int) float64 { return 5000 - 10*float64(k) }
	rest, trace := 0., 0.
	for k := range m {
		trace += value(k)
		if k >= mostDirections {
			rest += value(k) / (m - mostDirections)
		}
	}
	var gram []float64
	for i := range m {
		for j := i; j < m; j++ {
			sum := 0.
			for k := range m {
				sum += value(k) * vector(k, i) * vector(k, j)
			}
			gram = append(gram, sum)
		}
	}
	p := &params{items: m, top: m, norm: 3, least: 0.1}
	r := ridgeOfUsers * math.Sqrt(trace)
	e := p.vectorsOf(gram)
	for _, i := range []int{0, 1, 77, m - 1} {
		for _, j := range []int{0, 76, m - 1} {
			want, got := 0., -dense.Dot(e.Row(i), e.Row(j))
			if i == j {
				got++
			}
			for k := range m {
				l := value(k)
				if k >= mostDirections {
					l = rest
				}
				want += vector(k, i) * vector(k, j) / (l + r)
			}
			if want *= rest + r; math.Abs(got-want) > 1e-8 {
				t.Errorf("entry %d, %d is %v, want %v", i, j, got, want)
			}
		}
	}
}

// By hand: the part is the usual one where pairs predict like popularity, and each liked item is a vote otherwise. Half a reliance halves
// the usual part and doubles its weight.
func TestPartOfPairs(t *testing.T) {
	for _, x := range []struct {
		ratios   []float64
		reliance float64
		want     float64
	}{
		{nil, 1, 0.4}, {[]float64{1, 1, 1}, 1, 0.4}, {[]float64{0, 0}, 1, 0.2}, {[]float64{1e300, 1e300, 1e300}, 1, 3.8 / 5}, {[]float64{1e300, 0}, 1, 1.8 / 4},
		{[]float64{1, 1}, 0.5, 0.2}, {[]float64{1e300}, 0.5, 1.8 / 5},
	} {
		if got := partOf(x.ratios, x.reliance); !(math.Abs(got-x.want) < 1e-9) {
			t.Errorf("ratios %v at the reliance %v: part %v, want %v", x.ratios, x.reliance, got, x.want)
		}
	}
}

// 900 items without likes beside 100 with 10, noise of deviation 1: most of the popularity is of the hundred, and the order of noisy
// counts stays. By the positive parts of noisy counts alone, the 900 would have 900/√(2π) = 359 of 1359.
func TestPopularityOfNoisyCounts(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4)) // public numbers of a test
	counts := make([]float64, 1000)
	for j := range counts {
		counts[j] = rng.NormFloat64()
		if j < 100 {
			counts[j] += 10
		}
	}
	counts = append(counts, -9, -30, 40)
	popular := (&params{noise: 1}).popularityOf(counts)
	liked, others := 0., 0.
	for j, x := range popular[:1000] {
		if j < 100 {
			liked += x
		} else {
			others += x
		}
	}
	if math.Abs(liked-1000) > 50 || !(others < 60) {
		t.Errorf("the liked have %v, want 1000; the others %v, want little", liked, others)
	}
	if order := first(popular, nil, len(counts)); !slices.Equal(order, first(counts, nil, len(counts))) {
		t.Error("the order is not by counts")
	}
	if x := popular[1002]; math.Abs(x-40) > 2 || !(popular[1001] > 0) {
		t.Errorf("a count of 40 becomes %v, one of -30 %v", x, popular[1001])
	}
}
