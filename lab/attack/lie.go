package attack

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/lab/internal/observe"
	"github.com/fedsim/fedsim/lab/page"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Lie holds what some lying clients achieve with one strategy. Figures are means over runs. Other users are the clients
// that do not lie, and each run is compared with a run in which all clients are honest.
type Lie struct {
	Liars    int    `json:"liars"`
	Strategy string `json:"strategy"` // what the liars rate
	Bound    string `json:"bound"`    // what they send of that
	// Exposure is the share of other users' lists of ten that hold the item (ER@10), of users who have not rated it.
	// Honest is the same share without liars.
	Exposure Interval `json:"exposure"`
	Honest   float64  `json:"exposure_honest"`
	// Rank is the median place of the item among the items that a user has not rated.
	Rank       float64  `json:"rank"`
	HonestRank float64  `json:"rank_honest"`
	NDCG       Interval `json:"ndcg_lost"` // of lists of ten
	// RMSE is in stars; nil for algorithms that only rank.
	RMSE *Interval `json:"rmse_lost,omitempty"`
	// ByActivity are fifths of other users by their number of ratings, the fewest first.
	ByActivity []LieAmong `json:"by_activity"`
	// Refused is the share of the rounds whose sum the server refused.
	Refused float64 `json:"rounds_refused"`
	// Largest is the largest coordinate that the liars add to a sum, in standard deviations of its noise; 0 without noise.
	// A server that knew the honest sum would see it.
	Largest float64 `json:"largest_in_noise"`
}

// LieAmong are means over one group of users.
type LieAmong struct {
	Exposure float64 `json:"exposure"`
	NDCG     float64 `json:"ndcg_lost"`
	RMSE     float64 `json:"rmse_lost,omitempty"` // left out for algorithms that only rank
}

// The vectors that liars send.
const (
	// withinBounds: the client role makes the vector from the liar's ratings.
	withinBounds = "within bounds"
	// withinReach is the largest multiple of that vector that the server takes. The liar is taken to know the honest sum and the
	// noise, so no liar does better with this vector.
	withinReach = "within the reach"
	// oneSum is the same for the first sum of each round alone.
	oneSum = "within the reach, one sum"
	// proved is the largest multiple, of each release, that a proof about the input allows (verify-inputs).
	proved = "within the proof"
	// unbounded is the millionfold.
	unbounded = "unbounded"
)

// seenByUser holds figures of each user of a run; NaN of a user who has none.
type seenByUser struct {
	exposed, rank, ndcg, squares, errors []float64
	refused, largest                     float64
}

// lie makes all runs of a budget.
func (a *attacker) lie(ctx context.Context, at *At) error {
	ways, runs := a.ways(), a.cfg.Targets
	honest, seen, liars := make([]*seenByUser, runs), make([][]*seenByUser, len(ways)), make([][][]int, len(ways))
	for w := range ways {
		seen[w], liars[w] = make([]*seenByUser, runs), make([][]int, runs)
	}
	err := a.each(ctx, runs, func(r int) (err error) {
		random := entropy.Public(a.seed, fmt.Sprintf("audit/attack/lie/%d", r))
		s := a.scene(random.Perm)
		order := random.Perm(a.full.Data.Users) // with more liars the first ones stay
		honest[r], err = a.lied(ctx, r, s, nil, tried{})
		for w := 0; w < len(ways) && err == nil; w++ {
			var rows map[int]map[int32]float32
			liars[w][r], rows = a.liars(s, ways[w], order)
			seen[w][r], err = a.lied(ctx, r, s, rows, ways[w])
		}
		return err
	})
	if err != nil {
		return err
	}
	for w, way := range ways {
		at.Lies = append(at.Lies, a.compare(way, honest, seen[w], liars[w]))
	}
	return nil
}

// lied makes one run with liars, or with none, and measures what its users get.
func (a *attacker) lied(ctx context.Context, r int, s *scene, rows map[int]map[int32]float32, way tried) (*seenByUser, error) {
	set := a.full.Data
	if rows != nil {
		set = a.replaced(rows)
	}
	run, f, err := a.open(r, set)
	if err != nil {
		return nil, err
	}
	l := &lying{Strategy: f.Strategy, bound: way.bound, liars: way.liars, rounds: run.Schedule.Rounds(), said: make(map[uint64][][]float64)}
	if f.Strategy = l; run.About().Clients == algorithm.Users {
		for u := range rows {
			f.Trainers[u] = observe.Trainer{Trainer: f.Trainers[u], Told: l.hear}
		}
	}
	out, err := a.simulate(ctx, run, f, nil)
	if err != nil {
		return nil, err
	}
	m, err := run.Final(f, out.Model, protocol.Workers(1))
	if err != nil {
		return nil, err
	}
	seen, err := a.measureLists(run, m, s.target)
	if err == nil {
		seen.refused, seen.largest = float64(l.refused)/float64(len(out.Rounds)), l.largest
	}
	return seen, err
}

// listsOf is the length of the lists that are measured.
const listsOf = 10

// measureLists returns what the users of a run get.
func (a *attacker) measureLists(run *experiment.Experiment, m *model.Trained, target int32) (*seenByUser, error) {
	users, items := run.Data.Users, run.Data.Items
	nothing := func() []float64 { return slices.Repeat([]float64{math.NaN()}, users) }
	s := &seenByUser{exposed: nothing(), rank: nothing(), ndcg: nothing(), squares: make([]float64, users), errors: make([]float64, users)}
	all, scores := model.Indices(items), make([]float64, items)
	for u := range users {
		known := slices.Clone(run.Row(u).Items)
		if len(known) == 0 || slices.Contains(known, target) {
			continue
		}
		m.Predict(u, all, scores)
		model.Order(m, known, scores)
		s.exposed[u], s.rank[u] = 0, 1
		if slices.Contains(eval.Top(scores, listsOf, known, u), target) {
			s.exposed[u] = 1
		}
		for j, x := range scores {
			if _, rated := slices.BinarySearch(known, int32(j)); !rated && x > scores[target] { //nolint:gosec // as above
				s.rank[u]++
			}
		}
	}
	params, err := experiment.ListsOf(run.Config, run.Data)
	if err != nil {
		return nil, err
	}
	ndcg, _, err := eval.ListMetric("ndcg@" + strconv.Itoa(listsOf))
	params.Cutoffs, params.MostUsers = []int{listsOf}, 0
	run.Test.EachList(m, params, protocol.Workers(1), func(user int, wanted, list []int32) { s.ndcg[user] = ndcg(wanted, list) })
	if err == nil && run.Test.Held == nil && !run.About().OnlyRanks {
		err = run.Test.EachPrediction(m, func(user int, _ int32, value float32, predicted float64) error {
			s.squares[user] += (float64(value) - predicted) * (float64(value) - predicted)
			s.errors[user]++
			return nil
		})
	}
	return s, err
}

// over holds means over the users for whom of is true.
type over struct{ exposed, ndcg, rmse, rank float64 }

func (s *seenByUser) over(of func(user int) bool) over {
	mean := func(x []float64) float64 {
		var sum, n float64
		for u, v := range x {
			if of(u) && !math.IsNaN(v) {
				sum, n = sum+v, n+1
			}
		}
		return sum / max(n, 1)
	}
	var squares, n float64
	var ranks []float64
	for u := range s.errors {
		if !of(u) {
			continue
		}
		squares, n = squares+s.squares[u], n+s.errors[u]
		if !math.IsNaN(s.rank[u]) {
			ranks = append(ranks, s.rank[u])
		}
	}
	slices.Sort(ranks)
	o := over{exposed: mean(s.exposed), ndcg: mean(s.ndcg), rmse: math.Sqrt(squares / max(n, 1))}
	if len(ranks) > 0 {
		o.rank = ranks[len(ranks)/2]
	}
	return o
}

// fifths are the groups of users by their number of ratings.
const fifths = 5

// compare sets runs with liars beside the honest ones.
func (a *attacker) compare(way tried, honest, seen []*seenByUser, liars [][]int) Lie {
	l := Lie{Liars: way.liars, Strategy: way.name, Bound: way.bound, ByActivity: make([]LieAmong, fifths)}
	n := float64(len(seen))
	active := topItems(a.full.Data.Users, a.full.Data.Users, func(u int) float64 { return -float64(len(a.full.Row(u).Items)) })
	group := make([]int, len(active))
	for place, u := range active {
		group[u] = place * fifths / len(active)
	}
	var exposed, ndcg, rmse []float64
	for r, x := range seen {
		others := func(u int) bool { return !slices.Contains(liars[r], u) }
		now, before := x.over(others), honest[r].over(others)
		exposed, ndcg, rmse = append(exposed, now.exposed), append(ndcg, before.ndcg-now.ndcg), append(rmse, now.rmse-before.rmse)
		l.Honest += before.exposed / n
		l.Rank, l.HonestRank = l.Rank+now.rank/n, l.HonestRank+before.rank/n
		l.Refused, l.Largest = l.Refused+x.refused/n, l.Largest+x.largest/n
		for g := range l.ByActivity {
			of := func(u int) bool { return group[u] == g && others(u) }
			now, before := x.over(of), honest[r].over(of)
			y := &l.ByActivity[g]
			y.Exposure, y.NDCG, y.RMSE = y.Exposure+now.exposed/n, y.NDCG+(before.ndcg-now.ndcg)/n, y.RMSE+(now.rmse-before.rmse)/n
		}
	}
	l.Exposure, l.NDCG = means(exposed, a.seed), means(ndcg, a.seed)
	if slices.Max(honest[0].errors) > 0 {
		l.RMSE = new(means(rmse, a.seed))
	}
	return l
}

// liesFigure draws how often the item is in lists, or how much worse the model is, for each way to lie.
func liesFigure(r *Report, budgets []Epsilon, i int) page.Drawn {
	title, y := "What can clients of %s that lie promote?", "share of other users' lists of ten that hold the item"
	if r.Kind == Degrade {
		title, y = "How much worse do clients of %s that lie make the model?", "NDCG@10 lost by other users"
	}
	d := byBudget(fmt.Sprintf("%s-%d", r.Kind, i), fmt.Sprintf(title, r.name()), y,
		"Bands are intervals of 95% over runs, each with an item, liars and noise of its own.", budgets)
	for k := range r.Budgets[0].Lies {
		x := &r.Budgets[0].Lies[k]
		line(&d, fmt.Sprintf("%d, %s, %s", x.Liars, x.Strategy, x.Bound), budgets, r, func(at *At) *Interval {
			switch {
			case k >= len(at.Lies):
				return nil
			case r.Kind == Degrade:
				return &at.Lies[k].NDCG
			}
			return &at.Lies[k].Exposure
		})
	}
	return numbered(d)
}
