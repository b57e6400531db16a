package synthetic

import (
	"math"
	"math/bits"
	"slices"
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
		if r.uniform() < max(0.5+float64(w.selective*w.match(i)), leastChance) {
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
