// Package synthetic generates data sets: ratings in the shape of published sets ([Open]). Other packages register generators
// of other sets ([Register]). The package reads no file. The same bits come out everywhere and at any GOMAXPROCS. The generators of
// ratings have a seed of their own: the seed of a run varies splits and noise, not the population.
package synthetic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dataset/idtext"
	"github.com/fedsim/fedsim/internal/dataset/pack"
	"github.com/fedsim/fedsim/internal/lists"
)

// prefix begins the specs of generated sets.
const prefix = "synthetic"

const (
	generatorSeed = 20150101 // of every population; not the seed of a run
	tasteRank     = 12       // dimension of the taste vectors
	tasteDecay    = 0.8      // scale of each dimension relative to the previous one
	usersPerBlock = 64       // of parallel generation
	leastChance   = 0.05     // that a user takes a candidate, however badly it fits
)

// Streams of the generator. User u draws from streamUsers + u.
const (
	streamItems uint64 = iota
	streamActivity
	streamFirst
	streamUsers
)

// ShapeNames lists the synthetic shapes.
func ShapeNames() []string {
	return lists.Map(shapes(), func(s shape) string { return s.Name })
}

// Options vary how a set is generated. The zero value is ready to use. A scale that does not hold the shape's is refused. Packed leaves the
// ratings of sets of 50 million or more packed. Progress hears how many ratings of how many were generated.
type Options struct {
	pack.Options
	// Fields leaves out the features of a regression as numbers, which take far more memory than categories ([dataset.Profile.Fields]).
	Fields bool
	// Times keeps when ratings were given, of a set that has times.
	Times bool
}

// Is reports whether a spec names a generated set.
func Is(spec string) bool {
	return spec == prefix || strings.HasPrefix(spec, prefix+":")
}

// IsShape reports whether a spec names a generated set of ratings, and no regression.
func IsShape(spec string) bool {
	return Is(spec) && registered(nameOf(spec)) == nil
}

// nameOf returns the name of the generated set in a spec, ml-1m where the spec has none.
func nameOf(spec string) string {
	if name, named := strings.CutPrefix(spec, prefix+":"); named {
		return name
	}
	return "ml-1m"
}

// opener generates the set of a name, which is a spec without the prefix.
type opener = func(ctx context.Context, name string, o Options) (*dataset.Set, error)

// openers holds the registered generators by their names.
var openers = map[string]opener{}

// Register makes [Open] call open for the name, and for names that begin with the name and a hyphen. Call it in an init function.
func Register(name string, open opener) { openers[name] = open }

// registered returns the registered generator of a name, nil where there is none.
func registered(name string) opener {
	first, _, _ := strings.Cut(name, "-")
	return openers[first]
}

// Open generates the set that a spec names.
func Open(ctx context.Context, spec string, o Options) (*dataset.Set, error) {
	name := nameOf(spec)
	if open := registered(name); open != nil {
		set, err := open(ctx, name, o)
		if err != nil {
			return nil, fmt.Errorf("data %q: %w", spec, err)
		}
		return set, nil
	}
	s, err := o.shape(spec)
	if err != nil {
		return nil, err
	}
	if o.Packed && s.Ratings >= manyRatings {
		var file bytes.Buffer
		file.Grow(3 * s.Ratings) // it grows by at most half at a time beyond that
		if _, err = Pack(ctx, spec, o, &file); err != nil {
			return nil, err
		}
		return pack.FromBytes(ctx, file.Bytes(), pack.Options{Min: o.Min, Max: o.Max, Packed: true})
	}
	set, err := s.generate(ctx, o.Progress)
	if err != nil {
		return nil, err
	}
	if !o.Times {
		set.Times = nil
	}
	set.Digest = set.ComputeDigest()
	return set, nil
}

// The scale of the published plays, whose most is 9,667.
const fewestPlays, mostPlays = 1, 10_000

// manyRatings is from how many on a generated set is packed, where it may be: unpacked it would take more than a gigabyte. To unpack a user's
// ratings whenever its client works more than doubles the time of lfl-sgdmf.
const manyRatings = 50_000_000

// shape returns the shape that a spec names, with the scale of the options. The error says what is wrong with either.
func (o Options) shape(spec string) (shape, error) {
	s, err := shapeOf(nameOf(spec))
	if err == nil {
		s.Min, s.Max, err = dataset.WiderScale(o.Min, o.Max, s.Min, s.Max, "shape's")
	}
	if err != nil {
		return shape{}, fmt.Errorf("data %q: %w", spec, err)
	}
	return s, nil
}

// Bounds on the number of users of a shape.
const (
	fewestUsers = 20
	mostUsers   = 10_000_000
)

// shapeOf returns the shape of a name: NAME as it is, or NAME-USERS with so many users. The users are
// as active in both, so that there are more or fewer ratings of the same items.
func shapeOf(name string) (shape, error) {
	find := func(name string) int { return slices.IndexFunc(shapes(), func(s shape) bool { return s.Name == name }) }
	if i := find(name); i >= 0 {
		return shapes()[i], nil
	}
	if at := strings.LastIndexByte(name, '-'); at >= 0 && find(name[:at]) >= 0 {
		s := shapes()[find(name[:at])]
		least, most := max(fewestUsers, (s.Items*s.Users-1)/s.Ratings+1), mostUsers // every item has a rating
		users, err := strconv.Atoi(name[at+1:])
		if err != nil || users < least || users > most {
			return shape{}, fmt.Errorf("%q names no number of users of %s; there are %d to %d of them", name[at+1:], s.Name, least, most)
		}
		s.Ratings = int(int64(s.Ratings) * int64(users) / int64(s.Users))
		s.Name, s.Users = name, users
		return s, nil
	}
	known := []string{prefix + ":" + strings.Join(ShapeNames(), ", "+prefix+":"), "one of these with -USERS behind it"}
	known = append(known, lists.Map(slices.Sorted(maps.Keys(openers)), func(name string) string { return prefix + ":" + name })...)
	last := len(known) - 1
	return shape{}, fmt.Errorf("%w %q; want %s or %s", ErrUnknownShape, name, strings.Join(known[:last], ", "), known[last])
}

// population holds the parameters from which the ratings of a synthetic set are drawn.
type population struct {
	shape
	catalog *catalog
	moving  *movement // nil of a set that stands still
	start   []int     // the ratings of user u are start[u]:start[u+1]
	first   [][]int32 // items that each user rates so that no item stays without a rating
}

func (s shape) population() *population {
	p := &population{shape: s, catalog: s.makeCatalog()}
	if s.Moves {
		p.moving = s.makeMovement()
	}
	p.start = s.activityStarts()
	p.first = s.firstRatings(p.start)
	return p
}

// set makes the set of the population, without ratings.
func (p *population) set() *dataset.Set {
	set := &dataset.Set{
		Name: prefix + ":" + p.Name, Min: p.Min, Max: p.Max, Ratings: dataset.Ratings{Users: p.Users, Items: p.Items},
		UserIDs: idtext.Numbered(p.Users), ItemIDs: idtext.Numbered(p.Items),
	}
	if !p.Bare {
		set.Titles, set.Genres, set.Years = p.catalog.titles, p.catalog.genres, p.catalog.years
	}
	return set
}

func (p *population) newRatings(n int) dataset.Ratings {
	r := dataset.NewRatings(p.Users, p.Items, n)
	if p.Moves {
		r.Times = make([]float64, n)
	}
	return r
}

// generate makes the set of a shape. Every user has a random stream of its own,
// so the result does not depend on how many work at it.
func (s shape) generate(ctx context.Context, progress func(done, total int64)) (*dataset.Set, error) {
	p := s.population()
	out := p.newRatings(s.Ratings)
	err := p.inOrder(ctx, progress, func(from, _ int, part dataset.Ratings) error {
		at := p.start[from]
		copy(out.User[at:], part.User)
		copy(out.Item[at:], part.Item)
		copy(out.Value[at:], part.Value)
		if s.Moves {
			copy(out.Times[at:], part.Times)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	set := p.set()
	set.Ratings = out
	return set, nil
}

// activityStarts draws how many ratings each user has: the activity curve,
// corrected to the exact total and dealt to users in random order.
func (s shape) activityStarts() []int {
	counts := make([]int, s.Users)
	total := 0
	for rank := range counts {
		x := (float64(rank) + 0.5) / float64(s.Users)
		counts[rank] = min(int(s.Activity.at(x)+0.5), s.Items)
		total += counts[rank]
	}
	// Rounding leaves a few ratings too many or too few. Spread them over the
	// middle ranks, which moves neither the minimum nor the maximum.
	for rank := s.Users / 4; total != s.Ratings; rank++ {
		step := 1
		if total > s.Ratings {
			step = -1
		}
		counts[rank%(s.Users/2)+s.Users/4] += step
		total += step
	}
	shuffle(newRandom(generatorSeed, streamActivity), counts)
	start := make([]int, s.Users+1)
	for u, n := range counts {
		start[u+1] = start[u] + n
	}
	return start
}

// firstRatings gives every item a first rating, by a user drawn in proportion to activity.
func (s shape) firstRatings(start []int) [][]int32 {
	r := newRandom(generatorSeed, streamFirst)
	first := make([][]int32, s.Users)
	for i := range s.Items {
		for {
			at := r.below(s.Ratings)
			u, _ := slices.BinarySearch(start, at+1) // start[u-1] <= at < start[u]
			u--
			if len(first[u]) < start[u+1]-start[u] {
				first[u] = append(first[u], int32(i))
				break
			}
		}
	}
	return first
}

// worker draws the ratings of one user at a time.
type worker struct {
	*population
	out    dataset.Ratings
	base   int       // ratings before the ratings of out
	chosen []uint64  // bit i: the user at hand rates item i
	likes  []float64 // taste vector of the user at hand
	at     []float64 // when the user at hand rates each item that it rates, of a moving set
}

func (p *population) newWorker(out dataset.Ratings, base int) *worker {
	w := &worker{population: p, out: out, base: base, chosen: make([]uint64, (p.Items+63)/64), likes: make([]float64, tasteRank)}
	if p.moving != nil {
		w.at = make([]float64, p.Items)
	}
	return w
}

// rate draws the ratings of user u, of a moving set each at its own time.
func (w *worker) rate(u int) {
	r := newRandom(generatorSeed, streamUsers+uint64(u))
	bias := float64(w.UserBias * r.normal())
	early := r.normals(tasteRank)
	var late []float64
	if w.moving == nil {
		copy(w.likes, early)
		w.choose(u, r)
	} else {
		late = r.normals(tasteRank)
		w.chooseMoving(u, r, early, late)
	}
	k := w.start[u] - w.base
	for word, set := range w.chosen {
		for ; set != 0; set &= set - 1 {
			i := word*64 + bits.TrailingZeros64(set)
			x := bias + w.catalog.bias[i]
			if w.moving != nil {
				t := w.at[i]
				w.tasteAt(t, early, late)
				x += float64((t - 0.5) * w.moving.slope[i])
				w.out.Times[k] = yearStart + math.Floor(yearSeconds*t)
			}
			x = x + float64(w.Taste*w.match(i)) + float64(w.Noise*r.normal())
			w.out.User[k], w.out.Item[k], w.out.Value[k] = int32(u), int32(i), w.level(x)
			k++
		}
		w.chosen[word] = 0
	}
}

// choose marks the items that user u rates. A candidate comes by popularity and
// is taken the more likely the better it matches the user's taste.
func (w *worker) choose(u int, r *random) {
	left := w.start[u+1] - w.start[u] - len(w.first[u])
	for _, i := range w.first[u] {
		w.mark(int(i))
	}
	for left > 0 {
		i := int(w.catalog.choice.draw(r))
		if w.free(i) && r.uniform() < w.chance(w.match(i)) {
			w.mark(i)
			left--
		}
	}
}

// mark has the user at hand rate item i, and free reports whether the user does not.
func (w *worker) mark(i int)      { w.chosen[i/64] |= 1 << (i % 64) }
func (w *worker) free(i int) bool { return w.chosen[i/64]&(1<<(i%64)) == 0 }

// match returns how well item i fits the user's taste, with variance 1 over users and items.
func (w *worker) match(i int) float64 {
	var sum float64
	for k, q := range w.catalog.taste[i*tasteRank : (i+1)*tasteRank] {
		sum += float64(q * w.likes[k])
	}
	return sum
}

// level cuts a latent rating.
func (w *worker) level(x float64) float32 {
	if w.Plays.Most > 0 {
		return float32(w.Plays.at(x))
	}
	return float32(w.Levels[sort.Search(len(w.Cuts), func(i int) bool { return x < w.Cuts[i] })])
}

// ErrUnknownShape is wrapped by the error of a synthetic shape that does not exist; the error lists
// the shapes that do.
var ErrUnknownShape = errors.New("unknown synthetic shape")
