package attack

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/lab/internal/binomial"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/server"
)

// mostLiars leaves some clients to measure, and lists and groups to a model that is still one of theirs.
const mostLiars = 0.5

// Liars are the default shares of lying clients; nil of attacks without any.
func (k Kind) Liars() []float64 {
	if k.lies() {
		return []float64{0.001, 0.01, 0.05}
	}
	return nil
}

// A strategy says what a liar rates, from all that the honest clients know together.
type strategy struct {
	name string
	rate func(s *scene, user int) map[int32]float32
}

// scene holds a liar's knowledge: the public scale, how popular and how liked items are, and how many ratings a user has.
type scene struct {
	target  int32
	set     *dataset.Set
	popular []int32 // most ratings first
	mean    []float64
	row     func(user int) model.Ratings
	typical int               // ratings of the median user
	perm    func(n int) []int // draws an order of n numbers
}

// with rates some items, and the target at the top of the scale.
func (s *scene) with(items []int32, value func(j int32) float32) map[int32]float32 {
	list := make(map[int32]float32)
	for _, j := range items {
		list[j] = value(j)
	}
	list[s.target] = float32(s.set.Max)
	return list
}

func (s *scene) top(int32) float32 { return float32(s.set.Max) }
func (s *scene) companions() int   { return min(s.typical, len(s.popular)) - 1 }

// alike are the items that share most genres with the target, the popular ones first.
func (s *scene) alike() []int32 {
	shared := func(j int32) (n int) {
		for _, g := range s.set.Genres[j] {
			if slices.Contains(s.set.Genres[s.target], g) {
				n++
			}
		}
		return n
	}
	list := slices.Clone(s.popular)
	slices.SortStableFunc(list, func(i, j int32) int { return shared(j) - shared(i) })
	return list[:s.companions()]
}

// strategies returns the ways to rate of a kind of attack, the simplest first.
func (k Kind) strategies(set *dataset.Set) []strategy {
	if k == Degrade {
		return []strategy{
			{"own ratings turned round", func(s *scene, user int) map[int32]float32 {
				r, list := s.row(user), make(map[int32]float32)
				for i, j := range r.Items {
					list[j] = float32(s.set.Min+s.set.Max) - r.Values[i]
				}
				return list
			}},
			{"popular items at the lowest", func(s *scene, _ int) map[int32]float32 {
				list := make(map[int32]float32)
				for _, j := range s.popular[:s.companions()+1] {
					list[j] = float32(s.set.Min)
				}
				return list
			}},
			{"unpopular items at the top", func(s *scene, _ int) map[int32]float32 {
				return s.with(s.popular[len(s.popular)-s.companions():], s.top)
			}},
		}
	}
	list := []strategy{
		{"the item alone", func(s *scene, _ int) map[int32]float32 { return s.with(nil, s.top) }},
		{"with popular items", func(s *scene, _ int) map[int32]float32 {
			return s.with(s.popular[:s.companions()], s.top)
		}},
		{"with items at their means", func(s *scene, _ int) map[int32]float32 {
			some := lists.Map(s.perm(len(s.popular))[:s.companions()], func(k int) int32 { return s.popular[k] })
			return s.with(some, func(j int32) float32 { return float32(s.mean[j]) })
		}},
	}
	if set.Genres != nil {
		list = append(list, strategy{"with items of its genres", func(s *scene, _ int) map[int32]float32 {
			return s.with(s.alike(), s.top)
		}})
	}
	return list
}

// tried is one way to lie.
type tried struct {
	strategy
	bound string
	liars int
}

// ways are all ways to lie. The vector of an organisation has no reach of one client's: liars are its users.
func (a *attacker) ways() (list []tried) {
	strategies := a.cfg.Kind.strategies(a.full.Data)
	counts := []int{1}
	for _, share := range a.cfg.Liars {
		counts = append(counts, max(1, int(math.Round(share*float64(a.full.Data.Users)))))
	}
	slices.Sort(counts)
	counts = slices.Compact(counts)
	try := func(bound string, liars int) {
		list = append(list, lists.Map(strategies, func(s strategy) tried { return tried{s, bound, liars} })...)
	}
	for _, n := range counts {
		try(withinBounds, n)
	}
	if a.full.About().Clients != algorithm.Users {
		return list
	}
	if a.cfg.Kind == Promote {
		strategies = strategies[:1] // whose vector has least in other places
	}
	for _, bound := range []string{withinReach, oneSum, unbounded} {
		try(bound, 1)
	}
	for _, n := range counts {
		try(proved, n)
	}
	return list
}

// scene draws the item of a run: a rated item that is not in the most rated tenth.
func (a *attacker) scene(perm func(n int) []int) *scene {
	set := a.full.Data
	s := &scene{set: set, mean: make([]float64, set.Items), row: a.full.Row, perm: perm}
	count, lengths := make([]float64, set.Items), []int(nil)
	for u := range set.Users {
		r := a.full.Row(u)
		for i, j := range r.Items {
			count[j]++
			s.mean[j] += (float64(r.Values[i]) - s.mean[j]) / count[j]
		}
		if len(r.Items) > 0 {
			lengths = append(lengths, len(r.Items))
		}
	}
	s.popular = topItems(set.Items, set.Items, func(j int) float64 { return count[j] })
	s.popular = slices.DeleteFunc(s.popular, func(j int32) bool { return count[j] == 0 })
	slices.Sort(lengths)
	s.typical = lengths[len(lengths)/2]
	s.target = s.popular[len(s.popular)/10+perm(len(s.popular) * 9 / 10)[0]]
	return s
}

// liars draws the clients that lie, and what they rate. None has a user whose rating of the item the split keeps from
// training: which pairs of user and item it keeps is public.
func (a *attacker) liars(s *scene, way tried, order []int) (users []int, rows map[int]map[int32]float32) {
	all := make(map[int]map[int32]float32)
	for _, u := range order {
		all[u] = way.rate(s, u)
	}
	kept := func(int) bool { return true }
	if parts, err := experiment.Divide(a.config, a.replaced(all)); err == nil && a.cfg.Kind == Promote {
		train := parts.Train.ByUser()
		kept = func(u int) bool {
			items, _ := train.Row(u)
			return slices.Contains(items, s.target)
		}
	}
	rows = make(map[int]map[int32]float32)
	for _, u := range order {
		if len(users) < way.liars && kept(u) {
			users, rows[u] = append(users, u), all[u]
		}
	}
	return users, rows
}

// replaced is the data with other rows of some users.
func (a *attacker) replaced(rows map[int]map[int32]float32) *dataset.Set {
	set := a.full.Data.Where(func(user, _ int32) bool { return rows[int(user)] == nil })
	times, tested := set.Times != nil, set.Tested != nil
	for u, row := range rows {
		for j, v := range row {
			set.User, set.Item, set.Value = append(set.User, int32(u)), append(set.Item, j), append(set.Value, v) //nolint:gosec // users are counted in 32 bits
			if times {
				set.Times = append(set.Times, 0)
			}
			if tested {
				set.Tested = append(set.Tested, false)
			}
		}
	}
	order := model.Indices(len(set.User))
	slices.SortFunc(order, func(x, y int32) int {
		return cmp.Or(cmp.Compare(set.User[x], set.User[y]), cmp.Compare(set.Item[x], set.Item[y]))
	})
	if tested {
		set.Tested = model.At(set.Tested, order)
	}
	set.Ratings = set.Gather(order)
	return set
}

// lying is a server's strategy whose sums have lies in them.
type lying struct {
	server.Strategy
	bound   string
	liars   int
	rounds  int // of the session
	lock    sync.Mutex
	said    map[uint64][][]float64 // by round: the sum of what liars contribute to each release
	refused int
	largest float64
}

// hear adds what a liar contributes.
func (l *lying) hear(p *protocol.Plan, list []protocol.Vector) {
	l.lock.Lock()
	defer l.lock.Unlock()
	of := l.said[p.Round]
	if of == nil {
		of = append(of, lists.Map(p.Releases, func(r protocol.Release) []float64 { return make([]float64, r.Len) })...)
		l.said[p.Round] = of
	}
	for i := range list {
		list[i].Each(func(j int, x float64) { of[i][j] += x })
	}
}

// hugely is the factor of a liar without bounds.
const hugely = 1e6

// Absorb adds the rest of a multiplied lie, and has the server's checks judge the sum.
func (l *lying) Absorb(p *protocol.Plan, sums protocol.Sums, run protocol.Runner) error {
	said := l.said[p.Round]
	delete(l.said, p.Round)
	if said == nil {
		return l.Strategy.Absorb(p, sums, run)
	}
	factor := 1.
	switch l.bound {
	case unbounded:
		factor = hugely
	case proved:
		for i, r := range p.Releases {
			l.stretch(p, r, sums.Values[i], said[i])
		}
	case withinReach, oneSum:
		if l.bound == oneSum {
			for _, x := range said[1:] {
				clear(x)
			}
		}
		largest, _ := binomial.Halve(0, math.Log(hugely), 30, func(log float64) bool { return l.refuse(p, raised(sums, said, math.Exp(log))) == nil })
		factor = math.Exp(largest)
	}
	for i, r := range p.Releases {
		if deviation := math.Sqrt(r.Noise.Target(p.Cohort)) / r.Scale; r.Noise.Distributed() && deviation > 0 {
			for _, x := range said[i] {
				l.largest = max(l.largest, math.Abs(factor*x)/deviation)
			}
		}
	}
	if sums = raised(sums, said, factor); factor > 1 || l.bound == proved {
		if err := l.refuse(p, sums); err != nil {
			l.refused++
			l.Skip(p, err)
			return nil
		}
	}
	return l.Strategy.Absorb(p, sums, run)
}

// stretch makes the lies of a release as large as the proofs of so many clients allow, in the sum as well: the bound of each has room
// for the noise of an honest client. The noise that a client says it takes back may be another lie, up to its own bound.
func (l *lying) stretch(p *protocol.Plan, r protocol.Release, sum, lies []float64) {
	linf, l2 := p.InputBound(r, l.rounds)
	if r.Noise.Kind == protocol.Split {
		removal, norm := p.RemovalBound(r, l.rounds, p.Cohort.Wanted())
		linf, l2 = linf+removal, l2+norm
	}
	var largest, squares float64
	for _, x := range lies {
		largest, squares = max(largest, math.Abs(x)), squares+x*x
	}
	if most := min(linf/largest, l2/math.Sqrt(squares)) * float64(l.liars) / r.Scale; largest > 0 {
		for j, x := range lies {
			lies[j] *= most
			sum[j] += lies[j] - x
		}
	}
}

// raised returns sums in which lies have a factor.
func raised(sums protocol.Sums, said [][]float64, factor float64) protocol.Sums {
	out := protocol.Sums{Survivors: sums.Survivors, Values: make([][]float64, len(said))}
	for i, values := range sums.Values {
		out.Values[i] = slices.Clone(values)
		floats.AddScaled(out.Values[i], factor-1, said[i])
	}
	return out
}

// refuse makes the server's checks of released sums. All survivors have answered: no client is lost.
func (l *lying) refuse(p *protocol.Plan, sums protocol.Sums) error {
	integers := make([][]int64, len(sums.Values))
	for i, r := range p.Releases {
		for _, x := range sums.Values[i] {
			integers[i] = append(integers[i], int64(math.Round(x*r.Scale)))
		}
	}
	return server.Refuse(l.Strategy, p, integers, sums, sums.Survivors)
}
