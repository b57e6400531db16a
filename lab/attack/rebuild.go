package attack

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/lab/internal/observe"
	"github.com/fedsim/fedsim/lab/page"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Rebuilt holds how well an attacker rebuilds a client's ratings from one view of a run.
type Rebuilt struct {
	From string `json:"from"`
	// Precision is the share that the client rated of so many items as it rated: the attacker is told the number.
	Precision Interval `json:"precision"`
	// Error is the root of the mean squared error of the ratings, in stars, of the items that were found. Plain is
	// the same error if each item's mean is guessed.
	Error Interval `json:"rating_rmse"`
	Plain Interval `json:"item_mean_rmse"`
}

// The views of the attacker, in the order of the report.
const (
	fromUpdates    = "plain updates"
	fromNoised     = "updates with the client's share of noise"
	fromOthers     = "sum, all others known"
	fromSum        = "sum"
	fromPopularity = "popularity alone"
)

// mostShadowClients limits the clients that the attacker learns from what a sum or an update looks like: it runs them itself.
const mostShadowClients = 100

// traces holds the attacker's view of one client in a run, by the name of the release. Only releases whose
// coordinates are items, or blocks of items, have a trace. A trace holds each item's sum over rounds and its energy,
// in standard deviations of the unknown part.
type traces map[string]*trace

type trace struct{ sum, energy []float64 }

// take adds a vector of a round.
func (t traces) take(r protocol.Release, items int, x, variance func(j int) float64) {
	if r.Len%items != 0 {
		return
	}
	of := t[r.Name]
	if of == nil {
		of = &trace{energy: make([]float64, items)}
		if r.Len == items {
			of.sum = make([]float64, items)
		}
		t[r.Name] = of
	}
	block := r.Len / items
	for j := range r.Len {
		z := x(j) / math.Sqrt(variance(j))
		of.energy[j/block] += z * z
		if of.sum != nil {
			of.sum[j] += z
		}
	}
}

// features are numbers of an item, alike for clients whose weights differ.
func (t traces) features(item int) []float64 {
	var list []float64
	for _, name := range slices.Sorted(maps.Keys(t)) {
		list = append(list, math.Log1p(t[name].energy[item]))
		if s := t[name].sum; s != nil {
			list = append(list, math.Copysign(math.Log1p(math.Abs(s[item])), s[item]))
		}
	}
	return list
}

// relative are numbers of an item by which ratings show: the signed sums, over their root mean square for
// the items of a list.
func (t traces) relative(item int, list []int32) []float64 {
	var out []float64
	for _, name := range slices.Sorted(maps.Keys(t)) {
		s := t[name].sum
		if s == nil {
			continue
		}
		var square float64
		for _, j := range list {
			square += s[j] * s[j] / float64(len(list))
		}
		square = cmp.Or(square, 1)
		out = append(out, s[item]/math.Sqrt(square))
	}
	return out
}

// watcher hears what some clients send, and the sums.
type watcher struct {
	*listener
	e       *experiment.Experiment
	follow  []int // clients
	updates map[int]traces
	others  map[int]traces
	sum     traces
	pending map[uint64]map[int]*sent // of rounds that are not summed as yet
}

// sent holds what a client sends in a round: its vectors with its share of the noise and, once the survivors are
// known, the part of that noise that it takes back.
type sent struct {
	vectors, removals []protocol.Integers
}

// add adds what was sent of a release to x, and returns the variance of the noise in it. Removals of split noise travel in the
// clear, so the attacker adds them to the vector: noise of variance V/(u1-c) is left of V/w. Replaced noise is summed under masks.
func (s *sent) add(x []int64, i int, r protocol.Release, c protocol.Cohort, survivors int) float64 {
	s.vectors[i].AddTo(x)
	if r.Noise.Kind != protocol.Split || s.removals == nil {
		return r.Noise.Share(c)
	}
	s.removals[i].AddTo(x)
	return r.Noise.Final(c, survivors, survivors) / float64(survivors)
}

// hear keeps what the followed clients send.
func (w *watcher) hear(at time.Duration, e protocol.Envelope) {
	w.arrived.Hear(at, e)
	u := int(e.From.Client)
	if !slices.Contains(w.follow, u) {
		return
	}
	switch m := e.Message.(type) {
	case *protocol.MaskedInput:
		if w.pending[m.Round] == nil {
			w.pending[m.Round] = make(map[int]*sent)
		}
		w.pending[m.Round][u] = &sent{vectors: m.Vectors}
	case *protocol.Unmask:
		if s := w.pending[m.Round][u]; s != nil {
			s.removals = m.Removals
		}
	}
}

// watch records the traces of the targets in a round.
func (w *watcher) watch(p *protocol.Plan, sums *protocol.Sums) error {
	items := w.e.Data.Items
	own, err := w.sendings(p)
	if err != nil {
		return err
	}
	for i, r := range p.Releases {
		if r.Len%items != 0 {
			continue
		}
		noised := w.e.Draw().String() == "client" && r.Noise.Distributed()
		for _, u := range w.follow {
			share := 1. / 12          // the variance of rounding
			x := make([]int64, r.Len) // zeros if the client was lost
			if s := w.pending[p.Round][u]; s != nil {
				if v := s.add(x, i, r, p.Cohort, sums.Survivors); noised {
					share += v
				}
			} else if noised {
				share += r.Noise.Share(p.Cohort)
			}
			w.updates[u].take(r, items, func(j int) float64 { return float64(x[j]) }, func(int) float64 { return share })
		}
		b := newBackground(r, p.Cohort, sums.Values[i])
		noise := b.variance[0]
		w.sum.take(r, items, func(j int) float64 { return sums.Values[i][j] }, func(int) float64 { return noise })
		for u, list := range own {
			if w.arrived.Of(p.Round, u) {
				b.add(list, i)
			}
		}
		for _, u := range w.follow {
			mine := make([]float64, r.Len)
			if w.arrived.Of(p.Round, u) {
				for _, vectors := range own[u] {
					vectors[i].Each(func(j int, x float64) { mine[j] += x / float64(len(own[u])) })
				}
			}
			w.others[u].take(r, items, func(j int) float64 { return b.left[j] + mine[j] }, func(j int) float64 { return b.variance[j] })
		}
	}
	delete(w.pending, p.Round)
	return nil
}

// sendings returns, for every client, the vectors that it might send in a round.
func (w *watcher) sendings(p *protocol.Plan) ([]sendings, error) {
	n := 1
	drawn, err := w.draws(p)
	if err != nil {
		return nil, err
	}
	if drawn {
		n = drawsOfOthers
	}
	own := make([]sendings, len(w.full))
	for u, t := range w.full {
		if own[u], err = w.draw(t, p, u, n); err != nil {
			return nil, err
		}
	}
	return own, nil
}

// reconstruct makes a run whose clients leave the noise to the sum, so that what they send is plain, and
// one in which they add their shares, as a deployment's do.
func (a *attacker) reconstruct(ctx context.Context, at *At) error {
	follow := a.shadowClients()
	for _, t := range a.targets {
		follow = append(follow, t.user)
	}
	seen := make([]*watcher, a.cfg.runs(Epsilon(algorithm.Epsilon.Value(a.full.Config))))
	err := a.each(ctx, len(seen), func(r int) error {
		var err error
		seen[r], err = a.watched(ctx, r, follow)
		return err
	})
	if err != nil {
		return err
	}
	add := func(from string, of func(user int) traces) {
		at.Reconstruction = append(at.Reconstruction, a.rebuild(from, of))
	}
	add(fromUpdates, func(u int) traces { return seen[0].updates[u] })
	if len(seen) > 1 {
		add(fromNoised, func(u int) traces { return seen[1].updates[u] })
	}
	add(fromOthers, func(u int) traces { return seen[0].others[u] })
	add(fromSum, func(int) traces { return seen[0].sum })
	add(fromPopularity, func(int) traces { return traces{} })
	return nil
}

// shadowClients are users that the attacker learns from, in the order of their numbers.
func (a *attacker) shadowClients() []int {
	random := entropy.Public(a.seed, "audit/attack/students")
	var list []int
	for _, u := range random.Perm(a.full.Data.Users) {
		attacked := slices.ContainsFunc(a.targets, func(t target) bool { return t.user == u })
		if items, _ := a.full.Train.Row(u); len(list) < mostShadowClients && len(items) > 0 && !attacked {
			list = append(list, u)
		}
	}
	slices.Sort(list)
	return list
}

// watched makes a run: the second one has clients draw their noise.
func (a *attacker) watched(ctx context.Context, r int, follow []int) (*watcher, error) {
	b := *a
	if r == 1 {
		algorithm.NoiseDraw.Set(&b.config, "client")
	}
	run, f, err := b.open(r, a.full.Data)
	if err != nil {
		return nil, err
	}
	l, err := a.newListener(algorithm.Seed.Of(run.Config))
	if err != nil {
		return nil, err
	}
	w := &watcher{listener: l, e: run, follow: follow, updates: make(map[int]traces), others: make(map[int]traces), sum: make(traces),
		pending: make(map[uint64]map[int]*sent)}
	for _, u := range follow {
		w.updates[u], w.others[u] = make(traces), make(traces)
	}
	f.Strategy = observe.Strategy{Strategy: f.Strategy, Told: w.watch}
	_, err = a.simulate(ctx, run, f, w.hear)
	return w, err
}

// rebuild learns from the shadow clients to tell rated items and their ratings, and tries on the targets.
func (a *attacker) rebuild(from string, seen func(user int) traces) Rebuilt {
	learn := a.shadowClients()
	count, mean := a.popularity(learn)
	view := func(u, j int) []float64 {
		f := []float64{math.Log1p(count[j])}
		if len(seen(u)) > 0 {
			f = append(f, seen(u).features(j)...)
		}
		return f
	}
	value := func(u, j int, list []int32) []float64 {
		return append([]float64{mean[j]}, seen(u).relative(j, list)...)
	}
	var x, y, v, w [][]float64
	for _, u := range learn {
		r := a.full.Row(u)
		rated := make(map[int32]bool)
		for k, j := range r.Items {
			rated[j] = true
			v, w = append(v, value(u, int(j), r.Items)), append(w, []float64{float64(r.Values[k])})
		}
		for j := range a.full.Data.Items {
			is := 0.
			if rated[int32(j)] { //nolint:gosec // items are counted in 32 bits
				is = 1
			}
			x, y = append(x, view(u, j)), append(y, []float64{is})
		}
	}
	detector, reader := fitRidge(x, y), fitRidge(v, w)
	var found []float64
	var squares, plain [][]float64
	for _, t := range a.targets {
		r := a.full.Row(t.user)
		list := topItems(a.full.Data.Items, len(r.Items), func(j int) float64 { return detector.predict(view(t.user, j))[0] })
		right := 0.
		var s, p []float64
		for k, j := range r.Items {
			if !slices.Contains(list, j) {
				continue
			}
			right++
			miss := reader.predict(value(t.user, int(j), list))[0] - float64(r.Values[k])
			s, p = append(s, miss*miss), append(p, (mean[j]-float64(r.Values[k]))*(mean[j]-float64(r.Values[k])))
		}
		found = append(found, right/float64(len(r.Items)))
		squares, plain = append(squares, s), append(plain, p)
	}
	return Rebuilt{From: from, Precision: means(found, a.seed), Error: rootMeans(squares, a.seed), Plain: rootMeans(plain, a.seed)}
}

// topItems are the n items of the largest scores, the first of equal ones.
func topItems(items, n int, of func(j int) float64) []int32 {
	scores, order := make([]float64, items), model.Indices(items)
	for j := range scores {
		scores[j] = of(j)
	}
	slices.SortStableFunc(order, func(i, j int32) int { return cmp.Compare(scores[j], scores[i]) })
	return order[:n]
}

// popularity returns for each item the number of its ratings by the shadow clients, and their mean. The mean
// counts one more rating, equal to the mean of all ratings.
func (a *attacker) popularity(learn []int) (count, mean []float64) {
	count, mean = make([]float64, a.full.Data.Items), make([]float64, a.full.Data.Items)
	var all, n float64
	for _, u := range learn {
		r := a.full.Row(u)
		for k, j := range r.Items {
			count[j]++
			mean[j] += float64(r.Values[k])
			all, n = all+float64(r.Values[k]), n+1
		}
	}
	for j := range mean {
		mean[j] = (mean[j] + all/n) / (count[j] + 1)
	}
	return count, mean
}

// rootMeans is the root of the mean of lists of squares, one of each target, with the interval of a bootstrap over
// targets; all 0 where nothing was found.
func rootMeans(lists [][]float64, seed uint64) Interval {
	return bootstrap(len(lists), seed, func(pick func(i int) int) float64 {
		var sum, n float64
		for i := range lists {
			for _, x := range lists[pick(i)] {
				sum, n = sum+x, n+1
			}
		}
		return math.Sqrt(sum / max(n, 1))
	})
}

// rebuiltFigure draws the share of a client's rated items that is found.
func rebuiltFigure(r *Report, budgets []Epsilon, i int) page.Drawn {
	d := byBudget(fmt.Sprintf("%s-%d", Reconstruction, i), fmt.Sprintf("What did a client of %s rate?", r.name()), "share of the rated items among as many that the attacker names",
		"Without the secure sum a server sees updates; with it, it sees sums. A client's share of the noise is made to suffice in the sum of all, and does not by itself. Bands are intervals of 95% over targets.", budgets)
	for _, from := range []string{fromUpdates, fromNoised, fromOthers, fromSum} {
		line(&d, from, budgets, r, func(at *At) *Interval { return at.seen(from) })
	}
	if x := r.Budgets[0].seen(fromPopularity); x != nil {
		level(&d, fromPopularity, x.Value)
	}
	return numbered(d)
}
