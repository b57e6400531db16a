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
)

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
	var list []float32
	for _, v := range s.levels {
		list = append(list, float32(v))
	}
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
