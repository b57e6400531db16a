package synthetic

import (
	"context"
	_ "embed"
	"io"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/goccy/go-yaml"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dataset/pack"
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
	Entry `yaml:",inline"` // its scale is the levels'; of plays, the published file's

	Levels []float64 // ratings of the scale, ascending
	Cuts   []float64 // latent boundary between each level and the next
	Plays  playCurve // in place of both, where a rating counts plays
	Moves  bool      // over a year users come and go, items appear, and tastes turn; ratings have times
	Bare   bool      // nothing is published of the items: no titles, genres or years

	Activity   rankCurve // ratings of the user at each rank
	Popularity rankCurve // relative weight of the item at each rank

	FirstYear int `yaml:"first-year"` // of release
	LastYear  int `yaml:"last-year"`

	UserBias  float64 `yaml:"user-bias"` // standard deviation of b_u, in latent units of about one star
	ItemBias  float64 `yaml:"item-bias"` // of the item's own part of b_i
	Taste     float64 // of the match between taste vectors
	Noise     float64 // of e
	Liked     float64 // effect of popularity on b_i, per standard deviation of log popularity
	Featured  float64 // share of the variance of taste vectors that genres carry, 0 to 1
	Dated     float64 // share of years of release, the more alike the closer; 0: genres and years are of MovieLens 1M
	Known     float64 // share of popularity
	Turning   float64 // share of the genres' part in which a genre's vector turns over the years
	Selective float64 // how much taste steers what a user rates: 0 not at all
	Narrow    float64 // how far the chance that a user takes an item of mean match is below one half
}

// rankCurve gives a count by rank: a stretched exponential (Laherrere, Sornette
// 1998) with a cut-off that brings it down to floor at the last rank.
//
//	count(x) = floor + (top - floor) * exp(-decay * x^stretch) * (1-x)^cutoff,   x = (rank + 1/2) / ranks
type rankCurve struct{ Floor, Top, Decay, Stretch, Cutoff float64 }

// at returns the count at relative rank x, 0 < x < 1.
func (c rankCurve) at(x float64) float64 {
	power := float64(c.Decay * exp(float64(c.Stretch*log(x))))
	return c.Floor + float64((c.Top-c.Floor)*exp(float64(c.Cutoff*log(1-x))-power))
}

// chance returns the chance that a user takes a candidate of this match.
func (s *shape) chance(match float64) float64 {
	return max(0.5-s.Narrow+float64(s.Selective*match), leastChance)
}

// playCurve makes counts of a latent rating x: the whole part of exp(shift + spread*x), from 1 to most.
type playCurve struct{ Shift, Spread, Most float64 }

// at returns the count at a latent rating.
func (c playCurve) at(x float64) float64 {
	return min(max(math.Floor(exp(c.Shift+float64(c.Spread*x))), 1), c.Most)
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

//go:embed shapes.yaml
var stated []byte

// shapes returns the shapes of shapes.yaml in the order in which they are listed.
var shapes = sync.OnceValue(func() (list []shape) {
	if err := yaml.UnmarshalWithOptions(stated, &list, yaml.Strict(), yaml.AllowDuplicateMapKey()); err != nil {
		panic(err) // the file is a part of the program
	}
	for i := range list {
		if s := &list[i]; s.Plays.Most > 0 {
			s.Min, s.Max = fewestPlays, mostPlays
		} else {
			s.Min, s.Max = s.Levels[0], s.Levels[len(s.Levels)-1]
		}
	}
	return list
})

// Entry describes a set, or a format of files.
type Entry struct {
	Name        string  `json:"name"`
	Description string  `json:"description"`
	Users       int     `json:"users,omitempty"` // 0 for a format, likewise the two below
	Items       int     `json:"items,omitempty"`
	Ratings     int     `json:"ratings,omitempty"`
	Min         float64 `json:"min"` // rating range in stars
	Max         float64 `json:"max"`
}

// Shapes lists the synthetic sets of ratings by their specs.
func Shapes() []Entry {
	return lists.Map(shapes(), func(s shape) Entry {
		s.Name, s.Description = prefix+":"+s.Name, prefix+": "+s.Description
		return s.Entry
	})
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
	m := &movement{born: make([]float64, s.Items), slope: make([]float64, s.Items)}
	for i := range s.Items {
		at := r.uniform()
		if r.uniform() >= bornEarly {
			m.born[i] = lastBirth * at
		}
		m.slope[i] = float64(biasMoves * r.normal())
	}
	return m
}

// chooseMoving marks the items that user u rates, and when.
func (w *worker) chooseMoving(u int, r *random, early, late []float64) {
	come := 0.0
	if at := r.uniform(); r.uniform() >= cameEarly {
		come = lastCome * at
	}
	leave := min(1, come+stayAtLeast+float64((1-stayAtLeast)*r.uniform()))
	take := func(i int, t float64) {
		w.mark(i)
		w.at[i] = t
	}
	for _, i := range w.first[u] {
		from := max(come, w.moving.born[i])
		take(int(i), from+float64((1-from)*r.uniform()))
	}
	times := make([]float64, w.start[u+1]-w.start[u]-len(w.first[u]))
	for k := range times {
		times[k] = come + float64((leave-come)*r.uniform())
	}
	slices.Sort(times)
	for _, t := range times {
		w.tasteAt(t, early, late)
		take(w.chooseAt(t, r), t)
	}
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
	for range patience {
		i := int(w.catalog.choice.draw(r))
		if !w.free(i) || w.moving.born[i] > t {
			continue
		}
		if r.uniform() < w.chance(w.match(i)) {
			return i
		}
	}
	best := -1
	for i := range w.Items { // the user has rated nearly all that there is
		if w.free(i) && (best < 0 || w.moving.born[i] < w.moving.born[best]) {
			best = i
		}
	}
	return best
}

// inOrder generates users block by block on all cores, and hands the blocks over in their order.
func (p *population) inOrder(ctx context.Context, progress func(done, total int64), take func(from, to int, part dataset.Ratings) error) error {
	workers := runtime.GOMAXPROCS(0)
	blocks := make([]dataset.Ratings, 8*workers)
	user := func(block int) int { return min(block*usersPerBlock, p.Users) }
	for first := 0; user(first) < p.Users; first += len(blocks) {
		lists.Each(workers, len(blocks), func(i int) {
			from, to := user(first+i), user(first+i+1)
			blocks[i] = p.newRatings(p.start[to] - p.start[from])
			w := p.newWorker(blocks[i], p.start[from])
			for u := from; u < to; u++ {
				w.rate(u)
			}
		})
		for i, part := range blocks {
			if err := take(user(first+i), user(first+i+1), part); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if progress != nil {
			progress(int64(p.start[user(first+len(blocks))]), int64(p.Ratings))
		}
	}
	return nil
}

// Pack writes the set of a shape in the packed form as it is generated, and never holds it in memory
// as a whole. [IsShape] must know the spec.
func Pack(ctx context.Context, spec string, o Options, w io.Writer) (pack.Report, error) {
	s, err := o.shape(spec)
	if err != nil {
		return pack.Report{}, err
	}
	p := s.population()
	set := p.set()
	steps := lists.Map(s.Levels, func(v float64) float32 { return float32(v) }) // all ratings that the shape may give
	for v := 1; v <= int(s.Plays.Most); v++ {
		steps = append(steps, float32(v))
	}
	out := pack.NewWriter(w, steps)
	d := dataset.NewDigester()
	d.Head(set, s.Ratings)
	err = p.inOrder(ctx, o.Progress, func(from, to int, part dataset.Ratings) error {
		for u := from; u < to; u++ {
			at, end := p.start[u]-p.start[from], p.start[u+1]-p.start[from]
			if failed := out.Record(part.Item[at:end], part.Value[at:end]); failed != nil {
				return failed
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
	if p.Moves {
		set.Notices = append(set.Notices, pack.Untimed)
	}
	return out.Close(set)
}
