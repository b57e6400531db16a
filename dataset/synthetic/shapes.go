package synthetic

import (
	"bytes"
	"context"
	"io"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"sync"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/internal/idtext"
	"github.com/fedsim/fedsim/dataset/pack"
	"github.com/fedsim/fedsim/internal/lists"
)

// shape is a fitted synthetic set. Its constants were fitted once to published
// figures of MovieLens and others, with the generator's seed fixed. No algorithm of this
// module took part, except in the noise of erasShape.
//
// The model (see generate): user u rates n_u items, drawn without repetition in
// proportion to popularity and the more likely the better they match the
// user's taste. The latent rating of item i is
//
//	x = userBias*b_u + b_i + taste*<p_u, q_i> + noise*e
//
// with b_u, p_u and e normal. b_i sums the effects of genres, year and popularity and
// an own part, and q_i mixes the vectors of its genres with a vector of its own.
// x is cut into the levels of the scale.
type shape struct {
	name        string
	description string

	users, items, ratings int
	levels                []float64 // ratings of the scale, ascending
	cuts                  []float64 // latent boundary between each level and the next
	plays                 playCurve // in place of both, where a rating counts plays
	moves                 bool      // over a year users come and go, items appear, and tastes turn; ratings have times
	bare                  bool      // nothing is published of the items: no titles, genres or years

	activity   rankCurve // ratings of the user at each rank
	popularity rankCurve // relative weight of the item at each rank

	firstYear, lastYear int // of release

	userBias  float64 // standard deviation of b_u, in latent units of about one star
	itemBias  float64 // of the item's own part of b_i
	taste     float64 // of the match between taste vectors
	noise     float64 // of e
	liked     float64 // effect of popularity on b_i, per standard deviation of log popularity
	featured  float64 // share of the variance of taste vectors that genres carry, 0 to 1
	dated     float64 // share of years of release, the more alike the closer; 0: genres and years are of MovieLens 1M
	known     float64 // share of popularity
	turning   float64 // share of the genres' part in which a genre's vector turns over the years
	selective float64 // how much taste steers what a user rates: 0 not at all
	narrow    float64 // how far the chance that a user takes an item of mean match is below one half
}

// rankCurve gives a count by rank: a stretched exponential (Laherrere, Sornette
// 1998) with a cut-off that brings it down to floor at the last rank.
//
//	count(x) = floor + (top - floor) * exp(-decay * x^stretch) * (1-x)^cutoff,   x = (rank + 1/2) / ranks
type rankCurve struct{ floor, top, decay, stretch, cutoff float64 }

// at returns the count at relative rank x, 0 < x < 1.
func (c rankCurve) at(x float64) float64 {
	power := float64(c.decay * exp(float64(c.stretch*log(x))))
	return c.floor + float64((c.top-c.floor)*exp(float64(c.cutoff*log(1-x))-power))
}

// chance returns the chance that a user takes a candidate of this match.
func (s *shape) chance(match float64) float64 {
	return max(0.5-s.narrow+float64(s.selective*match), leastChance)
}

// playCurve makes counts of a latent rating x: the whole part of exp(shift + spread*x), from 1 to most.
type playCurve struct{ shift, spread, most float64 }

// at returns the count at a latent rating.
func (c playCurve) at(x float64) float64 {
	return min(max(math.Floor(exp(c.shift+float64(c.spread*x))), 1), c.most)
}

// genre is a genre of MovieLens 1M: how many of its 3,883 films bear it, and the
// mean of their ratings in stars. Both are public statistics of that set.
type genre struct {
	name  string
	films int
	mean  float64
}

var genres = []genre{
	{"Action", 503, 3.49}, {"Adventure", 283, 3.48}, {"Animation", 105, 3.68}, {"Children's", 251, 3.42},
	{"Comedy", 1200, 3.52}, {"Crime", 211, 3.71}, {"Documentary", 127, 3.93}, {"Drama", 1603, 3.77},
	{"Fantasy", 68, 3.45}, {"Film-Noir", 44, 4.08}, {"Horror", 343, 3.22}, {"Musical", 114, 3.67},
	{"Mystery", 106, 3.67}, {"Romance", 471, 3.61}, {"Sci-Fi", 276, 3.47}, {"Thriller", 492, 3.57},
	{"War", 143, 3.89}, {"Western", 68, 3.64},
}

// shapes holds the shapes in the order in which they are listed. Counts of users, items and ratings
// come from the README files of MovieLens 1M, 10M, 20M and 25M (GroupLens; Harper, Konstan 2015) and
// LibimSeTi.
var shapes = []shape{
	small,
	moving(),
	{
		// Users, rated items, ratings, both curves and the histogram are of MovieLens latest-small. Tastes are so narrow that
		// co-occurrence tells about as much as there: see TestBestRanking.
		name: "films", description: "the shape of MovieLens latest-small, with its co-occurrence, half stars",
		users: 610, items: 9_724, ratings: 100_836,
		levels:     halfStars,
		cuts:       []float64{-1.805, -1.229, -1.022, -0.471, -0.198, 0.523, 0.922, 1.819, 2.226},
		activity:   rankCurve{floor: 19.6, top: 6_001.1, decay: 4.7345, stretch: 0.25215, cutoff: 1.1087},
		popularity: rankCurve{floor: 0.00048118, top: 1000, decay: 8.5, stretch: 0.16, cutoff: 2.4658},
		firstYear:  1902, lastYear: 2018,
		userBias: 0.41, itemBias: 0.46, taste: 0.5, noise: 0.78, liked: 0.45, featured: 0.5, selective: 0.8, narrow: 0.9,
	},
	erasShape("eras", "the counts of MovieLens latest-small, with its tastes for genres, years and popularity", 610, 9_724, 100_836,
		rankCurve{floor: 19.6, top: 6_001.1, decay: 4.7345, stretch: 0.25215, cutoff: 1.1087},
		rankCurve{floor: 0.00048118, top: 1000, decay: 8.5, stretch: 0.16, cutoff: 2.4658}),
	erasShape("eras-1m", "the counts of MovieLens 1M, with the tastes of latest-small", 6_040, 3_706, 1_000_209,
		rankCurve{floor: 19.6, top: 2864, decay: 3.980, stretch: 0.2965, cutoff: 0.590},
		rankCurve{floor: 0.082, top: 1000, decay: 5.146, stretch: 0.2549, cutoff: 0.852}),
	{
		// Clicks with a long tail, of users with narrow tastes, and of items without features. No set was fitted.
		name: "places", description: "a million clicks of 30,000 users on 40,000 items with a long tail",
		users: 30_000, items: 40_000, ratings: 1_000_000, bare: true,
		levels: []float64{4, 5}, cuts: []float64{0}, // both are likes
		activity:   rankCurve{floor: 9.6, top: 900, decay: 5.2, stretch: 0.3, cutoff: 0.8},
		popularity: rankCurve{floor: 0.3, top: 1000, decay: 7, stretch: 0.2, cutoff: 1},
		firstYear:  1915, lastYear: 2008, // shown nowhere
		userBias: 0.41, itemBias: 0.46, taste: 0.5, noise: 0.78, liked: 0.22, featured: 0, selective: 0.5, narrow: 0.6,
	},
	{
		name: "ml-1m", description: "the shape of MovieLens 1M, whole stars",
		users: 6_040, items: 3_706, ratings: 1_000_209,
		levels: []float64{1, 2, 3, 4, 5},
		// Histogram 56,174 107,557 261,197 348,971 226,310: mean 3.5816, deviation 1.1171.
		cuts: []float64{-1.2283, -0.5481, 0.3403, 1.4067},
		// Ratings of a user: 20 at least, median 96, mean 165.6, 2,314 at most.
		activity: rankCurve{floor: 19.6, top: 2864, decay: 3.980, stretch: 0.2965, cutoff: 0.590},
		// Ratings of an item: 1 at least, median 123.5, mean 269.9, 3,428 at most.
		popularity: rankCurve{floor: 0.082, top: 1000, decay: 5.146, stretch: 0.2549, cutoff: 0.852},
		firstYear:  1919, lastYear: 2000,
		// Squared test error on a random tenth: user mean 1.070, user and item
		// biases 0.822, matrix factorization of rank 20 0.727. What is rated more
		// is rated higher.
		userBias: 0.44, itemBias: 0.475, taste: 0.54, noise: 0.76, liked: 0.25, featured: 0.5, selective: 0.2,
	},
	{
		name: "ml-10m", description: "the shape of MovieLens 10M, half stars",
		users: 69_878, items: 10_677, ratings: 10_000_054,
		levels: halfStars,
		// Histogram 94,988 384,180 118,278 790,306 370,178 2,356,676 879,764
		// 2,875,850 585,022 1,544,812: mean 3.512, deviation 1.060.
		cuts: []float64{-1.9605, -1.2133, -1.0944, -0.5759, -0.4056, 0.3764, 0.6223, 1.5061, 1.7513},
		// Ratings of a user: 20 at least, median 69, mean 143.1, 7,359 at most.
		activity: rankCurve{floor: 19.6, top: 12070, decay: 5.652, stretch: 0.1941, cutoff: 0.878},
		// Ratings of an item: 1 at least, median 135, mean 936.6, 34,864 at most.
		popularity: rankCurve{floor: 0.05, top: 1000, decay: 8.02, stretch: 0.303, cutoff: 1.02},
		firstYear:  1915, lastYear: 2008,
		// Squared test error on a random tenth: biases 0.75, matrix factorization 0.69.
		userBias: 0.41, itemBias: 0.455, taste: 0.49, noise: 0.78, liked: 0.22, featured: 0.5, selective: 0.2,
	},
	{
		// As in the other shapes, items are the rated ones: 26,744 of the 27,278 listed.
		name: "ml-20m", description: "the shape of MovieLens 20M, half stars",
		users: 138_493, items: 26_744, ratings: 20_000_263,
		levels: halfStars,
		// Histogram 239,125 680,732 279,252 1,430,997 883,398 4,291,193 2,200,156
		// 5,561,926 1,534,824 2,898,660: mean 3.5255, deviation 1.0520.
		cuts: []float64{-1.7105, -1.0937, -0.9532, -0.4742, -0.2684, 0.4511, 0.7590, 1.6063, 1.9313},
		// Ratings of a user: 20 at least, median 68, mean 144.4, 9,254 at most.
		activity: rankCurve{floor: 19.6, top: 14_309, decay: 5.8836, stretch: 0.1917, cutoff: 0.86919},
		// Ratings of an item: 1 at least, median 18, mean 747.8, 67,310 at most; Gini
		// coefficient 0.903.
		popularity: rankCurve{floor: 0.0055, top: 1000, decay: 11.52, stretch: 0.32479, cutoff: 1.2002},
		firstYear:  1891, lastYear: 2015,
		// Biases, tastes and noise are taken from 10M: no error of 20M was fitted.
		userBias: 0.41, itemBias: 0.455, taste: 0.49, noise: 0.78, liked: 0.22, featured: 0.5, selective: 0.2,
	},
	{
		// Items are the rated ones: 59,047 of the 62,423 listed.
		name: "ml-25m", description: "the shape of MovieLens 25M, half stars",
		users: 162_541, items: 59_047, ratings: 25_000_095,
		levels: halfStars,
		// Histogram 393,068 776,815 399,490 1,640,868 1,262,797 4,896,928 3,177,318
		// 6,639,798 2,200,539 3,612,474: mean 3.5339, deviation 1.0607.
		cuts: []float64{-1.5443, -1.0243, -0.8643, -0.4276, -0.1908, 0.4736, 0.8336, 1.6425, 2.0080},
		// Ratings of a user: 20 at least, median 71, mean 153.8, 32,202 at most.
		activity: rankCurve{floor: 19.6, top: 4_408_000, decay: 10.885, stretch: 0.062569, cutoff: 1.3273},
		// Ratings of an item: 1 at least, median 6, mean 423.4, 81,491 at most; Gini
		// coefficient 0.942.
		popularity: rankCurve{floor: 0.000312, top: 1000, decay: 14.73, stretch: 0.3114, cutoff: 0},
		firstYear:  1874, lastYear: 2019,
		// Biases, tastes and noise are taken from 10M: no error of 25M was fitted.
		userBias: 0.41, itemBias: 0.455, taste: 0.49, noise: 0.78, liked: 0.22, featured: 0.5, selective: 0.2,
	},
	libimSeTiShape("libimseti", "the shape of LibimSeTi, 1 to 10", 135_359, 168_791, 17_359_346,
		rankCurve{floor: 19.6, top: 51_604, decay: 7.3775, stretch: 0.14279, cutoff: 0.67789},
		rankCurve{floor: 0.0051498, top: 1000, decay: 9.4010, stretch: 0.12811, cutoff: 2.0328}),
	libimSeTiShape("libimseti-tenth", "a tenth of the users and profiles of LibimSeTi, 1 to 10", 13_536, 16_879, 1_735_935,
		rankCurve{floor: 19.6, top: 4_223.5, decay: 4.7070, stretch: 0.25636, cutoff: 1.0160},
		rankCurve{floor: 0.0068696, top: 1000, decay: 7.1128, stretch: 0.24109, cutoff: 1.5156}),
	{
		// Plays of the Taste Profile subset, of users with at least 20 songs and songs with at least
		// 200 listeners. The counts come from Liang, Krishnan, Hoffman, Jebara (WWW 2018); the
		// multi-task paper's Table 1 rounds them.
		name: "msd", description: "the shape of the Million Song Dataset's plays, as Liang et al. take them",
		users: 571_355, items: 41_140, ratings: 33_633_450, bare: true,
		// Plays of all 48,373,586 triplets: mean 2.87, median 1, third quartile 3. How they are
		// correlated with tastes was not fitted.
		plays: playCurve{shift: -0.1656, spread: 1.0378, most: 9_667},
		// Songs of a user: 20 at least, mean 58.9. Of a like cut of the data (Chin, Chen, Cong, WSDM
		// 2022: 659,313 users with 5 songs, 38,473 songs) 1,341 at most, Gini coefficient 0.421.
		activity: rankCurve{floor: 19.6, top: 1_661.06, decay: 4.65229, stretch: 0.219781, cutoff: 0.639359},
		// Listeners of a song: mean 817.5. Of the same cut 197 at least, 83,620 at most, Gini
		// coefficient 0.545; fewer of 571,355 users.
		popularity: rankCurve{floor: 0.0276347, top: 1000, decay: 9.54698, stretch: 0.0759871, cutoff: 1.10546},
		firstYear:  1922, lastYear: 2011, // shown nowhere
		userBias: 0.41, itemBias: 0.455, taste: 0.49, noise: 0.78, liked: 0.22, featured: 0.5, selective: 0.2,
	},
}

// libimSeTiShape is LibimSeTi (Brozovsky, Petricek 2007) or a part of its users and profiles. The
// counts are published, and so is that a user gave at least 20 ratings. The published squared test
// error of a matrix factorization is 4.24 (FMF paper, section 4.3); the noise was chosen towards it
// but not held against it. The histogram, whose ends are its highest, the medians, 60 ratings of a
// user and 14 of a profile, and the maxima are assumed. No study of how popular profiles are should
// rest on them.
func libimSeTiShape(name, description string, users, items, ratings int, activity, popularity rankCurve) shape {
	return shape{
		name: name, description: description, users: users, items: items, ratings: ratings, bare: true,
		levels:   []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10},
		cuts:     []float64{-1.947, -1.3062, -0.6754, -0.1134, 0.703, 1.2823, 2.0309, 3.0501, 3.908},
		activity: activity, popularity: popularity, firstYear: 1915, lastYear: 2006, // shown nowhere
		userBias: 1.35, itemBias: 1.45, taste: 1.05, noise: 1.85, liked: 0.3, featured: 0.5, selective: 0.2,
	}
}

// erasShape has what features say of ratings in MovieLens latest-small. It was fitted to the covariance of a user's ratings by genres in
// common and distance of years (TestSyntheticEras), and to the effect of the year of release. Its noise was fitted to the errors of ssp-c,
// which differ by at most 0.003 from latest-small's with and without features of eras (fedssp/divergence.md).
func erasShape(name, description string, users, items, ratings int, activity, popularity rankCurve) shape {
	return shape{
		name: name, description: description, users: users, items: items, ratings: ratings,
		levels:   halfStars,
		cuts:     []float64{-1.805, -1.229, -1.022, -0.471, -0.198, 0.523, 0.922, 1.819, 2.226},
		activity: activity, popularity: popularity, firstYear: 1902, lastYear: 2018,
		userBias: 0.33, itemBias: 0.28, taste: 0.56, noise: 0.8, liked: 0.4,
		featured: 0.5, dated: 0.28, known: 0.06, turning: 0.5, selective: 0.8, narrow: 0.9,
	}
}

var halfStars = []float64{0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5}

// small is no published set: the 10M scale and tastes, with the activity and popularity curves shortened to
// the size.
var small = shape{
	name: "small", description: "600 users for quick tests, half stars",
	users: 600, items: 400, ratings: 20_000,
	levels:     halfStars,
	cuts:       []float64{-2.2250, -1.4627, -1.3409, -0.8244, -0.6637, 0.1155, 0.3713, 1.2572, 1.5007},
	activity:   rankCurve{floor: 9.6, top: 230, decay: 3.671, stretch: 0.5, cutoff: 0.6},
	popularity: rankCurve{floor: 0.5, top: 1000, decay: 4.5, stretch: 0.35, cutoff: 0.85},
	firstYear:  1915, lastYear: 2008,
	userBias: 0.41, itemBias: 0.46, taste: 0.52, noise: 0.76, liked: 0.22, featured: 0.5, selective: 0.2,
}

// moving returns small with twice the users, over a year.
func moving() shape {
	s := small
	s.name, s.description, s.moves = "moving", "1,200 users over a year in which items appear and tastes turn, with times", true
	s.users, s.ratings = 2*small.users, 2*small.ratings
	return s
}

// ShapeInfo describes a synthetic set of ratings.
type ShapeInfo struct {
	Name                  string // its spec
	Description           string
	Users, Items, Ratings int
	Min, Max              float64 // rating range in stars
}

// Shapes lists the synthetic sets of ratings.
func Shapes() []ShapeInfo {
	list := make([]ShapeInfo, len(shapes))
	for i, s := range shapes {
		lo, hi := s.scale()
		list[i] = ShapeInfo{prefix + ":" + s.name, s.description, s.users, s.items, s.ratings, lo, hi}
	}
	return list
}

// A moving set covers a year in which users come and go, items appear, and tastes turn. These constants shape it; no study of how
// fast real tastes move should rest on them.
const (
	yearStart   = 1_577_836_800 // 2020-01-01, in seconds
	yearSeconds = 366 * 86_400

	bornEarly   = 0.5  // share of the items that are there from the start
	lastBirth   = 0.95 // when the last item appears, as a share of the year
	cameEarly   = 0.4  // share of the users who are there from the start
	lastCome    = 0.85 // when the last user comes
	stayAtLeast = 0.15 // a user's shortest stay, unless the year ends
	turn        = 0.4  // share of a user's taste that is another by the end of the year
	biasMoves   = 0.2  // by how much an item's bias moves in the year: the deviation, in latent units

	patience = 20_000 // candidates that a user looks at before it takes any item that has appeared
)

// movement holds what moves, of all items. Streams of its own leave the items themselves as a still set has them.
type movement struct {
	born  []float64 // when an item appears, as a share of the year
	slope []float64 // of its bias
}

func (s shape) makeMovement() *movement {
	r := newRandom(generatorSeed+1, streamItems)
	m := &movement{born: make([]float64, s.items), slope: make([]float64, s.items)}
	for i := range s.items {
		at := r.uniform()
		if r.uniform() >= bornEarly {
			m.born[i] = lastBirth * at
		}
		m.slope[i] = float64(biasMoves * r.normal())
	}
	return m
}

// rateMoving draws the ratings of user u, each at its own time.
func (w *worker) rateMoving(u int) {
	r := newRandom(generatorSeed, streamUsers+uint64(u))
	bias := float64(w.userBias * r.normal())
	early, late := r.normals(tasteRank), r.normals(tasteRank)
	come := 0.0
	if at := r.uniform(); r.uniform() >= cameEarly {
		come = lastCome * at
	}
	leave := min(1, come+stayAtLeast+float64((1-stayAtLeast)*r.uniform()))
	if w.at == nil {
		w.at = make([]float64, w.items)
	}
	for _, i := range w.first[u] {
		from := max(come, w.moving.born[i])
		w.take(int(i), from+float64((1-from)*r.uniform()))
	}
	times := make([]float64, w.start[u+1]-w.start[u]-len(w.first[u]))
	for k := range times {
		times[k] = come + float64((leave-come)*r.uniform())
	}
	slices.Sort(times)
	for _, t := range times {
		w.tasteAt(t, early, late)
		w.take(w.chooseAt(t, r), t)
	}
	k := w.start[u] - w.base
	for word, set := range w.chosen {
		for ; set != 0; set &= set - 1 {
			i := word*64 + bits.TrailingZeros64(set)
			t := w.at[i]
			w.tasteAt(t, early, late)
			x := bias + w.catalog.bias[i] + float64((t-0.5)*w.moving.slope[i]) + float64(w.taste*w.match(i)) + float64(w.noise*r.normal())
			w.out.User[k], w.out.Item[k], w.out.Value[k] = int32(u), int32(i), w.level(x)
			if w.out.Times != nil {
				w.out.Times[k] = yearStart + math.Floor(yearSeconds*t)
			}
			k++
		}
		w.chosen[word] = 0
	}
}

// take marks an item as rated at a time.
func (w *worker) take(i int, t float64) {
	w.chosen[i/64] |= 1 << (i % 64)
	w.at[i] = t
}

// tasteAt sets the taste of the user at hand to its taste at a time: it turns from one vector towards another, with variance 1 throughout.
func (w *worker) tasteAt(t float64, early, late []float64) {
	share := float64(turn * t)
	rest := math.Sqrt(1 - float64(share*share))
	for k := range w.likes {
		w.likes[k] = float64(rest*early[k]) + float64(share*late[k])
	}
}

// chooseAt returns an item that the user at hand rates at a time. The item has appeared by then, and is drawn by popularity and taste.
func (w *worker) chooseAt(t float64, r *random) int {
	free := func(i int) bool { return w.chosen[i/64]&(1<<(i%64)) == 0 }
	for range patience {
		i := int(w.catalog.choice.draw(r))
		if !free(i) || w.moving.born[i] > t {
			continue
		}
		if r.uniform() < w.chance(w.match(i)) {
			return i
		}
	}
	best := -1
	for i := range w.items { // the user has rated nearly all that there is
		if free(i) && (best < 0 || w.moving.born[i] < w.moving.born[best]) {
			best = i
		}
	}
	return best
}

// pack writes the set of a shape as it is generated.
func (s shape) pack(ctx context.Context, o Options, w io.Writer) (pack.Report, error) {
	p := s.population()
	set := &dataset.Set{Name: prefix + ":" + s.name, UserIDs: idtext.Numbered(s.users), ItemIDs: idtext.Numbered(s.items)}
	set.Min, set.Max = o.scale(s)
	if !s.bare {
		set.Titles, set.Genres, set.Years = p.catalog.titles, p.catalog.genres, p.catalog.years
	}
	set.Ratings = dataset.Ratings{Users: s.users, Items: s.items}
	out := pack.NewWriter(w, s.steps())
	d := dataset.NewDigester()
	d.Head(set, s.ratings)
	err := p.inOrder(ctx, o.Progress, func(from, to int, part dataset.Ratings) error {
		for u := from; u < to; u++ {
			at, end := p.start[u]-p.start[from], p.start[u+1]-p.start[from]
			if err := out.Record(part.Item[at:end], part.Value[at:end]); err != nil {
				return err
			}
		}
		d.Columns(part)
		return nil
	})
	if err != nil {
		return pack.Report{}, err
	}
	d.Tail(set)
	set.Digest = d.Sum()
	return out.Close(set)
}

// steps are all ratings that a shape may give.
func (s shape) steps() []float32 {
	list := lists.Map(s.levels, func(v float64) float32 { return float32(v) })
	for v := 1; v <= int(s.plays.most); v++ {
		list = append(list, float32(v))
	}
	return list
}

// inOrder generates users block by block on all cores, and hands the blocks over in their order.
func (p *population) inOrder(ctx context.Context, progress func(done, total int64), take func(from, to int, part dataset.Ratings) error) error {
	type block struct {
		from, to int
		dataset.Ratings
	}
	blocks := make([]block, 8*runtime.GOMAXPROCS(0))
	for from := 0; from < p.users; {
		var group sync.WaitGroup
		n := 0
		for ; n < len(blocks) && from < p.users; n++ {
			b := &blocks[n]
			b.from, b.to = from, min(from+usersPerBlock, p.users)
			from = b.to
			group.Go(func() {
				b.Ratings = p.newRatings(p.start[b.to] - p.start[b.from])
				w := p.newWorker(b.Ratings, p.start[b.from])
				for u := b.from; u < b.to; u++ {
					w.rate(u)
				}
			})
		}
		group.Wait()
		for _, b := range blocks[:n] {
			if err := take(b.from, b.to, b.Ratings); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if progress != nil {
			progress(int64(p.start[from]), int64(p.ratings))
		}
	}
	return nil
}

// packedShape generates a shape in the packed form, in memory.
func (s shape) packedShape(ctx context.Context, o Options) (*dataset.Set, error) {
	var file bytes.Buffer
	file.Grow(3 * s.ratings) // it grows by at most half at a time beyond that
	if _, err := s.pack(ctx, o, &file); err != nil {
		return nil, err
	}
	return pack.FromBytes(ctx, file.Bytes(), pack.Options{Min: o.Min, Max: o.Max, Packed: true})
}

// Pack writes the set of a shape in the packed form as it is generated, and never holds it in memory
// as a whole. [IsShape] must know the spec.
func Pack(ctx context.Context, spec string, o Options, w io.Writer) (pack.Report, error) {
	s, err := o.shape(spec, nameOf(spec))
	if err != nil {
		return pack.Report{}, err
	}
	return s.pack(ctx, o, w)
}
