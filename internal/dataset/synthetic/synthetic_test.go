package synthetic

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/internal/effort"
)

// fitted are the figures of a MovieLens set that a shape was fitted to.
type fitted struct {
	shape                   string
	users, items, ratings   int
	mean, std               float64
	histogram               []int
	userMin, userMax        float64
	userMedian, userAverage float64
	itemMax                 float64
	itemMedian, itemAverage float64

	// Mean squared errors on a random tenth; 0 where none is known.
	constant, userMean, biases float64
}

var movieLensFigures = []fitted{
	{
		shape: "ml-1m", users: 6_040, items: 3_706, ratings: 1_000_209,
		mean: 3.5816, std: 1.1171,
		histogram: []int{56_174, 107_557, 261_197, 348_971, 226_310},
		userMin:   20, userMedian: 96, userAverage: 165.6, userMax: 2_314,
		itemMedian: 123.5, itemAverage: 269.9, itemMax: 3_428,
		constant: 1.247, userMean: 1.070, biases: 0.822,
	},
	{
		shape: "ml-10m", users: 69_878, items: 10_677, ratings: 10_000_054,
		mean: 3.512, std: 1.060,
		histogram: []int{94_988, 384_180, 118_278, 790_306, 370_178, 2_356_676, 879_764, 2_875_850, 585_022, 1_544_812},
		userMin:   20, userMedian: 69, userAverage: 143, userMax: 7_359,
		itemMedian: 135, itemAverage: 936.6, itemMax: 34_864,
		constant: 1.124, biases: 0.75,
	},
	{
		shape: "ml-20m", users: 138_493, items: 26_744, ratings: 20_000_263,
		mean: 3.5255, std: 1.0520,
		histogram: []int{239_125, 680_732, 279_252, 1_430_997, 883_398, 4_291_193, 2_200_156, 5_561_926, 1_534_824, 2_898_660},
		userMin:   20, userMedian: 68, userAverage: 144.4, userMax: 9_254,
		itemMedian: 18, itemAverage: 747.8, itemMax: 67_310,
		constant: 1.107,
	},
	{
		shape: "ml-25m", users: 162_541, items: 59_047, ratings: 25_000_095,
		mean: 3.5339, std: 1.0607,
		histogram: []int{393_068, 776_815, 399_490, 1_640_868, 1_262_797, 4_896_928, 3_177_318, 6_639_798, 2_200_539, 3_612_474},
		userMin:   20, userMedian: 71, userAverage: 153.8, userMax: 32_202,
		itemMedian: 6, itemAverage: 423.4, itemMax: 81_491,
		constant: 1.125,
	},
}

// generated opens a synthetic set once for all tests, which only read it.
// open generates a set.
func open(tb testing.TB, spec string, o Options) *dataset.Set {
	tb.Helper()
	set, err := Open(context.Background(), spec, o)
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

func generated(tb testing.TB, shape string) *dataset.Set {
	tb.Helper()
	generatedMu.Lock()
	defer generatedMu.Unlock()
	set, ok := generatedSets[shape]
	if !ok {
		set = open(tb, "synthetic:"+shape, Options{})
		generatedSets[shape] = set
	}
	return set
}

var (
	generatedMu   sync.Mutex
	generatedSets = make(map[string]*dataset.Set)
)

// tooLong tells which shapes are left to the long run: ten million ratings take seconds.
func tooLong(shape string) bool {
	return shape != "small" && shape != "ml-1m" && !effort.Long()
}

// TestSyntheticFitsMovieLens compares the generated sets with the published
// figures. The tolerances were chosen before the fit.
func TestSyntheticFitsMovieLens(t *testing.T) {
	for _, want := range movieLensFigures {
		t.Run(want.shape, func(t *testing.T) {
			if tooLong(want.shape) {
				t.Skip("ten million ratings take seconds: FEDSIM_TEST_LONG")
			}
			set := generated(t, want.shape)
			info := set.Info()
			if info.Users != want.users || info.Items != want.items || info.Ratings != want.ratings {
				t.Errorf("%d users, %d items, %d ratings, want exactly %d, %d, %d",
					info.Users, info.Items, info.Ratings, want.users, want.items, want.ratings)
			}
			near := func(what string, got, want, tolerance float64) {
				t.Helper()
				if !(math.Abs(got-want) <= tolerance) {
					t.Errorf("%s is %.4f, want %.4f +- %.4f", what, got, want, tolerance)
				}
			}
			near("mean", info.Mean, want.mean, 0.01)
			near("standard deviation", info.Std, want.std, 0.02)
			if len(info.Histogram) != len(want.histogram) {
				t.Fatalf("%d distinct ratings, want %d", len(info.Histogram), len(want.histogram))
			}
			for i, bin := range info.Histogram {
				near("share of a rating", float64(bin.Count)/float64(want.ratings), float64(want.histogram[i])/float64(want.ratings), 0.015)
			}
			near("lowest activity", float64(info.PerUser.Min), want.userMin, 0)
			near("median activity", info.PerUser.Median, want.userMedian, 0.10*want.userMedian)
			near("mean activity", info.PerUser.Mean, want.userAverage, 0.01*want.userAverage)
			near("highest activity", float64(info.PerUser.Max), want.userMax, 0.15*want.userMax)
			near("median popularity", info.PerItem.Median, want.itemMedian, max(0.10*want.itemMedian, 1))
			near("mean popularity", info.PerItem.Mean, want.itemAverage, 0.01*want.itemAverage)
			near("highest popularity", float64(info.PerItem.Max), want.itemMax, 0.15*want.itemMax)
			if info.PerItem.Min < 1 {
				t.Error("an item has no rating")
			}
			s := mustSplit(t, set, split.Params{Seed: 1})
			near("error of the mean", meanError(s, constantModel(s.Train)), want.constant, 0.02)
			if want.biases > 0 {
				near("error of the biases", meanError(s, biasModel(s.Train)), want.biases, 0.02)
			}
			if want.userMean > 0 {
				near("error of the user mean", meanError(s, userMeanModel(s.Train)), want.userMean, 0.02)
			}
		})
	}
}

// model predicts a rating.
type model func(user, item int32) float64

// meanError returns the mean squared error of a model on the test part.
func meanError(s *split.Parts, predict model) float64 {
	var sum float64
	for k, v := range s.Test.Value {
		d := float64(v) - predict(s.Test.User[k], s.Test.Item[k])
		sum += d * d
	}
	return sum / float64(s.Test.Len())
}

func constantModel(train dataset.Ratings) model {
	mean := train.Mean()
	return func(_, _ int32) float64 { return mean }
}

func userMeanModel(train dataset.Ratings) model {
	mean := train.Mean()
	bias := shrunkMeans(train.User, train.Users, 0, func(k int) float64 { return float64(train.Value[k]) - mean })
	return func(u, _ int32) float64 { return mean + bias[u] }
}

// biasModel is mean + b_i + b_u by ten rounds of alternating ridge regressions
// with penalties 4 (items) and 5 (users), from scratch.
func biasModel(train dataset.Ratings) model {
	mean := train.Mean()
	users, items := make([]float64, train.Users), make([]float64, train.Items)
	for range 10 {
		items = shrunkMeans(train.Item, train.Items, 4, func(k int) float64 { return float64(train.Value[k]) - mean - users[train.User[k]] })
		users = shrunkMeans(train.User, train.Users, 5, func(k int) float64 { return float64(train.Value[k]) - mean - items[train.Item[k]] })
	}
	return func(u, i int32) float64 { return mean + users[u] + items[i] }
}

// shrunkMeans averages residuals by index, counting penalty zeros more; 0 where there is none.
func shrunkMeans(index []int32, n int, penalty float64, residual func(k int) float64) []float64 {
	sum, count := make([]float64, n), make([]float64, n)
	for k, i := range index {
		sum[i] += residual(k)
		count[i]++
	}
	for i := range sum {
		sum[i] /= math.Max(count[i]+penalty, 1)
	}
	return sum
}

// itemMeans returns count and mean rating of every item.
func itemMeans(set *dataset.Set) (counts, means []float64) {
	counts, means = make([]float64, set.Items), make([]float64, set.Items)
	for k, i := range set.Item {
		counts[i]++
		means[i] += float64(set.Value[k])
	}
	for i := range means {
		means[i] /= counts[i]
	}
	return counts, means
}

// TestSyntheticPlays holds the shape of the Million Song Dataset against published figures: counts of
// Liang et al. (WWW 2018); plays of all triplets (mean 2.87, median 1, third quartile 3); the Gini
// coefficients 0.421 and 0.545 that Chin, Chen, Cong (WSDM 2022) give for a like cut.
func TestSyntheticPlays(t *testing.T) {
	if tooLong("msd") {
		t.Skip("33 million plays take seconds: FEDSIM_TEST_LONG")
	}
	set := generated(t, "msd")
	info := set.Info()
	if info.Users != 571_355 || info.Items != 41_140 || info.Ratings != 33_633_450 || info.PerUser.Min != 20 || set.Min != 1 || set.Max != 10_000 {
		t.Errorf("%d users, %d items, %d plays, %d of a user at the least, on a scale from %v to %v", info.Users, info.Items, info.Ratings, info.PerUser.Min, set.Min, set.Max)
	}
	if !(math.Abs(info.Mean-2.87) < 0.1) {
		t.Errorf("mean is %.3f, want 2.87", info.Mean)
	}
	atMost := func(n float32) float64 {
		count := 0
		for _, v := range set.Value {
			if v <= n {
				count++
			}
		}
		return float64(count) / float64(set.Len())
	}
	if one, two, three := atMost(1), atMost(2), atMost(3); one < 0.5 || two > 0.75 || three < 0.75 {
		t.Errorf("shares of 1, up to 2 and up to 3 plays are %.3f, %.3f, %.3f; a median of 1 and a third quartile of 3 want .5 at least, .75 at most, .75 at least", one, two, three)
	}
	perUser, perItem := make([]float64, set.Users), make([]float64, set.Items)
	for k, u := range set.User {
		perUser[u]++
		perItem[set.Item[k]]++
	}
	for _, g := range []struct {
		what      string
		counts    []float64
		want, tol float64
	}{{"users", perUser, 0.421, 0.03}, {"songs", perItem, 0.545, 0.03}} {
		if got := gini(g.counts); !(math.Abs(got-g.want) < g.tol) {
			t.Errorf("Gini coefficient of %s is %.3f, want %.3f +- %.2f", g.what, got, g.want, g.tol)
		}
	}
}

// gini is the mean difference of two counts over twice their mean.
func gini(counts []float64) float64 {
	slices.Sort(counts)
	var sum, ranked float64
	for i, c := range counts {
		sum += c
		ranked += float64(2*i+1-len(counts)) * c
	}
	return ranked / (float64(len(counts)) * sum)
}

// TestSyntheticProfiles: the shape of LibimSeTi, a tenth of it unless long tests run, has the published density a user, 17,359,346
// over 135,359, and nothing to tell of a profile.
func TestSyntheticProfiles(t *testing.T) {
	names := []string{"libimseti-tenth"}
	if !tooLong("libimseti") {
		names = append(names, "libimseti")
	} else {
		effort.NotShort(t, "two million ratings")
	}
	for _, name := range names {
		set := generated(t, name)
		info := set.Info()
		if math.Abs(info.PerUser.Mean-128.25) > 0.01 || info.PerUser.Min != 20 || info.PerItem.Min < 1 || len(info.Histogram) != 10 || set.Min != 1 || set.Max != 10 {
			t.Errorf("%s: %+v", name, info)
		}
		if set.Titles != nil || set.Genres != nil || set.Years != nil {
			t.Errorf("%s: profiles have titles, genres or years", name)
		}
	}
}

// TestPlayCurve: whole numbers from 1 to the most, by the formula.
func TestPlayCurve(t *testing.T) {
	c := playCurve{Shift: 0, Spread: math.Ln2, Most: 100}
	for x, want := range map[float64]float64{-5: 1, 0: 1, 0.99: 1, 1.01: 2, 3.01: 8, 20: 100} { // powers of 2
		if got := c.at(x); got != want {
			t.Errorf("at %v there are %v plays, want %v", x, got, want)
		}
	}
}

// TestSyntheticPopularIsLiked: as in MovieLens, items that are rated more are
// rated higher. In MovieLens 1M the correlation is about 0.4; with 3,706 items
// chance alone stays below 0.1 but once in 10^8.
func TestSyntheticPopularIsLiked(t *testing.T) {
	counts, means := itemMeans(generated(t, "ml-1m"))
	if got := stat.Correlation(counts, means, nil); got < 0.25 || got > 0.55 {
		t.Errorf("correlation of popularity and mean rating is %.3f, want 0.25 to 0.55", got)
	}
}

// TestSyntheticFeaturesMatter: film noir is rated higher than horror, as in
// MovieLens 1M (4.08 and 3.22), and older films higher than recent ones.
func TestSyntheticFeaturesMatter(t *testing.T) {
	set := generated(t, "ml-1m")
	_, means := itemMeans(set)
	meanOf := func(keep func(i int) bool) float64 {
		var kept []float64
		for i := range means {
			if keep(i) {
				kept = append(kept, means[i])
			}
		}
		return stat.Mean(kept, nil)
	}
	noir := meanOf(func(i int) bool { return slices.Contains(set.Genres[i], "Film-Noir") })
	horror := meanOf(func(i int) bool { return slices.Contains(set.Genres[i], "Horror") })
	if noir < horror+0.2 {
		t.Errorf("film noir has mean %.2f, horror %.2f, want at least 0.2 between them", noir, horror)
	}
	old, recent := meanOf(func(i int) bool { return set.Years[i] < 1970 }), meanOf(func(i int) bool { return set.Years[i] > 1995 })
	if old < recent+0.05 {
		t.Errorf("films before 1970 have mean %.2f, after 1995 %.2f, want at least 0.05 between them", old, recent)
	}
	for i, title := range set.Titles {
		if !strings.HasSuffix(title, fmt.Sprintf(" (%d)", set.Years[i])) || len(set.Genres[i]) < 1 || len(set.Genres[i]) > 3 {
			t.Fatalf("item %d is %q of %d with genres %v", i, title, set.Years[i], set.Genres[i])
		}
	}
}

// TestSyntheticTasteSteersChoice: what a user rates says something about what
// else the user rates. Users with at least 50 ratings rate, in their favourite
// genre of the first half of their items, more of the second half than all
// users do on average.
func TestSyntheticTasteSteersChoice(t *testing.T) {
	set := generated(t, "ml-1m")
	rows := set.ByUser()
	share := func(items []int32) map[string]float64 {
		m := make(map[string]float64)
		for _, i := range items {
			for _, g := range set.Genres[i] {
				m[g] += 1 / float64(len(items))
			}
		}
		return m
	}
	all := share(set.Item)
	var lift []float64
	for u := range rows.Len() {
		items, _ := rows.Row(u)
		if len(items) < 50 {
			continue
		}
		first, second := share(items[:len(items)/2]), share(items[len(items)/2:])
		best, at := 0.0, ""
		for _, g := range genres {
			if r := first[g.name] / all[g.name]; r > best && all[g.name] > 0.05 {
				best, at = r, g.name
			}
		}
		lift = append(lift, second[at]/all[at])
	}
	mean, std := stat.MeanStdDev(lift, nil)
	if z := (mean - 1) / (std / math.Sqrt(float64(len(lift)))); mean < 1.02 || z < 5 { // z: false alarms once in 10^6
		t.Errorf("the favourite genre is rated %.3f times as often as by all (%.1f standard errors above 1), want 1.02 and 5", mean, z)
	}
}

// TestSyntheticSameBits: the digests are pinned, and hold at any GOMAXPROCS.
func TestSyntheticSameBits(t *testing.T) {
	effort.NotShort(t, "generated several times")
	for shape, want := range map[string]string{
		"small":  "b8c8cd9076277500d48da07d897e3309792fd72e958fc4521c69beecfcfd384c",
		"ml-1m":  "3c5574d89e3e0033c592aebf37bbec5273883ad1e4ce9ef54b4bf5c51c8f6ed3",
		"ml-10m": "dc4eb175ce23c06aed79ffd48bf66b09726a928b1090f9e1e19629adfaa405f5",
	} {
		if tooLong(shape) {
			continue
		}
		if got := generated(t, shape).Digest; got != want {
			t.Errorf("digest of %s is %s, want %s; if the change is meant, say so in the changelog: results are no longer comparable", shape, got, want)
		}
	}
	want := generated(t, "ml-1m").Digest
	before := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(before + 1)
	got := open(t, "synthetic", Options{}).Digest
	runtime.GOMAXPROCS(before)
	if got != want {
		t.Errorf("digest of synthetic at GOMAXPROCS=%d is %s, want that of synthetic:ml-1m, %s", before+1, got, want)
	}
}

// TestSyntheticIsValid: pairs ascend without repetition, ids and features have
// the right length, every rating is a level of the scale.
func TestSyntheticIsValid(t *testing.T) {
	for _, s := range shapes() {
		if tooLong(s.Name) {
			continue
		}
		set := generated(t, s.Name)
		if err := set.Validate(); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		described := set.Items
		if s.Bare {
			described = 0
		}
		if len(set.UserIDs) != set.Users || len(set.ItemIDs) != set.Items || len(set.Titles) != described ||
			len(set.Genres) != described || len(set.Years) != described {
			t.Errorf("%s: ids or features do not have the length of users or items", s.Name)
		}
		for k, v := range set.Value {
			if s.Plays.Most > 0 {
				if float64(v) != math.Trunc(float64(v)) || float64(v) < 1 || float64(v) > s.Plays.Most {
					t.Fatalf("%s: rating %d is %v, want a whole number of plays up to %v", s.Name, k, v, s.Plays.Most)
				}
			} else if !slices.Contains(s.Levels, float64(v)) {
				t.Fatalf("%s: rating %d is %v, want one of %v", s.Name, k, v, s.Levels)
			}
			if k > 0 && (set.User[k-1] > set.User[k] || set.User[k-1] == set.User[k] && set.Item[k-1] >= set.Item[k]) {
				t.Fatalf("%s: ratings %d and %d are out of order or the same pair", s.Name, k-1, k)
			}
		}
	}
}

// TestList: a listed shape can be opened and has the listed properties.
func TestList(t *testing.T) {
	listed := 0
	for _, e := range Shapes() {
		if e.Name == "" || e.Description == "" || e.Min >= e.Max {
			t.Errorf("incomplete entry %+v", e)
		}
		listed++
		if tooLong(strings.TrimPrefix(e.Name, "synthetic:")) {
			continue
		}
		set := generated(t, strings.TrimPrefix(e.Name, "synthetic:"))
		if set.Name != e.Name || set.Users != e.Users || set.Items != e.Items || set.Len() != e.Ratings || set.Min != e.Min || set.Max != e.Max {
			t.Errorf("%+v is not the set opened: %d users, %d items, %d ratings, range %v to %v", e, set.Users, set.Items, set.Len(), set.Min, set.Max)
		}
	}
	if listed != len(shapes()) {
		t.Errorf("%d synthetic sets are listed, want %d", listed, len(shapes()))
	}
}

// A shape with other users has the same items and as many ratings of a user: small has 20,000 of 600
// users, so 200 users have 6,666.
func TestShapeWithOtherUsers(t *testing.T) {
	small, err := Open(t.Context(), "synthetic:small", Options{})
	if err != nil {
		t.Fatal(err)
	}
	few, err := Open(t.Context(), "synthetic:small-200", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if few.Name != "synthetic:small-200" || few.Users != 200 || few.Items != 400 || few.Len() != 6666 || !slices.Equal(few.Titles, small.Titles) {
		t.Errorf("%s: %d users, %d items and %d ratings", few.Name, few.Users, few.Items, few.Len())
	}
	if err := few.Validate(); err != nil {
		t.Error(err)
	}
}

func mustSplit(tb testing.TB, set *dataset.Set, p split.Params) *split.Parts {
	tb.Helper()
	s, err := split.Divide(set, p)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}
