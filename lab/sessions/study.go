// Package sessions studies a federation over time: sessions in a row, each on the ratings that were there by then and
// tested on the ratings of the next period. It compares sessions that start from the releases before with sessions that
// start from nothing at the same total ε, and with one session.
package sessions

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/forecast"
	"github.com/fedsim/fedsim/internal/lineage"
	"github.com/fedsim/fedsim/internal/training"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/results"
)

// Arm names a way to spend the budget.
type Arm string

// The ways that a study compares. All have the same total.
const (
	LearningOn Arm = "learning on" // each session starts from the releases before
	Anew       Arm = "anew"        // each session starts from nothing
	Once       Arm = "one session" // the first session has the whole budget, and its model serves all periods
)

// Arms lists them in the order of tables.
var Arms = []Arm{LearningOn, Anew, Once}

// Design says what is studied.
type Design struct {
	Sessions int             // of each arm except Once
	Total    float64         // ε of all sessions together
	Shares   forecast.Shares // of the sessions
	Seeds    int             // runs of the whole study, from the configuration's seed on
}

// Point is the result of an arm after a session.
type Point struct {
	Arm        Arm      `json:"arm"`
	Seed       uint64   `json:"seed"`
	Session    int      `json:"session"` // from 1
	Users      int      `json:"users"`   // who train
	Items      int      `json:"items"`
	Ratings    int      `json:"ratings"`     // in training
	Tested     int      `json:"tested"`      // ratings that quality is measured on
	NewItems   int      `json:"new_items"`   // without a rating before the session
	NewTested  int      `json:"new_tested"`  // tested ratings of them
	RMSE       float64  `json:"rmse"`        // of all tested ratings
	NewRMSE    *float64 `json:"new_rmse"`    // of new items alone; null without any
	Recall     *float64 `json:"recall@20"`   // of lists; null where none is measured
	Epsilon    float64  `json:"epsilon"`     // of the session alone; 0 if nothing was released
	AllEpsilon float64  `json:"all_epsilon"` // of all sessions so far together
	Folder     string   `json:"folder,omitempty"`
}

// Result holds the figures of a study.
type Result struct {
	Algorithm string          `json:"algorithm"`
	Data      string          `json:"data"`
	Sessions  int             `json:"sessions"`
	Total     float64         `json:"total_epsilon"`
	Delta     float64         `json:"delta"`
	Shares    forecast.Shares `json:"shares"`
	Points    []Point         `json:"points"`
	Compared  []ArmComparison `json:"compared"`
}

// Run makes the sessions of a study, and keeps each in a folder inside dir. tell, which may be nil, hears which session begins.
func Run(ctx context.Context, c config.Config, set *dataset.Set, d Design, dir string, tell func(seed uint64, arm Arm, session int)) (*Result, error) {
	about := algorithm.Of(c).About()
	switch {
	case !about.Has(algorithm.StartFrom.Key) || about.Clients != algorithm.Users:
		return nil, config.Errorf("algorithm: sessions of %s cannot be studied; the algorithms whose clients are users and whose sessions start from releases can: lfl-sgdmf, ssp-c, dp-cmf, dpals and ada-dpals", about.Name)
	case algorithm.Ranks(c):
		return nil, config.Errorf("feedback: sessions are studied with explicit feedback")
	case !algorithm.StartFrom.Is(c, ""):
		return nil, config.Errorf("start-from: the first of several sessions starts from nothing; leave it out")
	}
	periods, err := Cut(set, d.Sessions)
	if err != nil {
		return nil, err
	}
	base := c
	algorithm.SplitBy.Set(&base, "random")
	algorithm.SplitTest.Set(&base, 0)
	algorithm.SplitValidation.Set(&base, 0)
	algorithm.Baselines.Set(&base, "quick")
	algorithm.Out.Set(&base, dir)
	s := &underway{ctx: ctx, base: base, periods: periods, design: d, tell: tell, drawn: make(map[noise]bool)}
	if err := s.plan(); err != nil {
		return nil, err
	}
	for k := range d.Seeds {
		if err := s.seed(algorithm.Seed.Of(c) + uint64(k)); err != nil {
			return nil, err
		}
	}
	r := &Result{Algorithm: about.Name, Data: set.Name, Sessions: d.Sessions, Total: d.Total, Delta: s.delta, Shares: d.Shares, Points: s.points}
	r.Compared = Compare(s.points)
	return r, nil
}

// underway is a study under way.
type underway struct {
	ctx     context.Context
	base    config.Config
	periods []Period
	design  Design
	tell    func(uint64, Arm, int)
	budgets []float64 // ε of each session
	delta   float64
	points  []Point
	drawn   map[noise]bool // of the sessions so far
}

// noise names the noise of a session: sessions with the same seed and releases draw the same.
type noise struct {
	seed    uint64
	session protocol.SessionID
}

// plan divides the budget.
func (s *underway) plan() error {
	c := s.base
	algorithm.Epsilon.Set(&c, s.design.Total)
	e, err := experiment.OpenSet(c, s.periods[0].Train)
	if err != nil {
		return err
	}
	_, f, err := forecast.Sessions(e, s.design.Sessions, s.design.Total, s.design.Shares)
	if err != nil {
		return err
	}
	for _, part := range f.Parts {
		s.budgets = append(s.budgets, slices.Repeat([]float64{part.Epsilon}, part.Sessions)...)
	}
	s.delta = f.Delta
	return nil
}

// seed makes all arms of a seed. The first session of two arms is the same: it is made once.
func (s *underway) seed(seed uint64) error {
	algorithm.Seed.Set(&s.base, seed)
	var on, anew, once []algorithm.PastSession
	var last, only string
	for i := range s.periods {
		p, record, err := s.session(LearningOn, i, s.budgets[i], last)
		if err != nil {
			return err
		}
		last, on = p.Folder, record.Sessions
		if err = s.add(p, on); err != nil {
			return err
		}
		if i > 0 {
			if p, record, err = s.session(Anew, i, s.budgets[i], ""); err != nil {
				return err
			}
		}
		p.Arm = Anew
		anew = append(anew, record.Sessions[len(record.Sessions)-1])
		if err = s.add(p, anew); err != nil {
			return err
		}
		if i == 0 {
			if p, record, err = s.session(Once, i, s.design.Total, ""); err != nil {
				return err
			}
			only, once = p.Folder, record.Sessions
		} else if p, err = s.served(i, only); err != nil {
			return err
		}
		if err = s.add(p, once); err != nil {
			return err
		}
	}
	return nil
}

// add notes a point with the cost of the sessions so far.
func (s *underway) add(p *Point, so []algorithm.PastSession) error {
	all, _, err := lineage.Cost(so)
	p.AllEpsilon = all.Epsilon
	s.points = append(s.points, *p)
	return err
}

// open opens a session.
func (s *underway) open(arm Arm, i int, epsilon float64, from string) (*experiment.Experiment, error) {
	if s.tell != nil {
		s.tell(algorithm.Seed.Of(s.base), arm, i+1)
	}
	c := s.base
	algorithm.Epsilon.Set(&c, epsilon)
	algorithm.StartFrom.Set(&c, from)
	algorithm.RunName.Set(&c, fmt.Sprintf("%s-%02d-seed%d", map[Arm]string{LearningOn: "on", Anew: "anew", Once: "once"}[arm], i+1, algorithm.Seed.Of(c)))
	e, err := experiment.OpenSet(c, s.periods[i].Train)
	for err == nil && arm == Anew && s.drawn[noise{algorithm.Seed.Of(c), e.Session()}] {
		// An earlier session has releases of the same size. With the same noise, the releases of both would differ by
		// what was rated meanwhile, without noise.
		algorithm.Seed.Set(&c, algorithm.Seed.Of(c)+anotherNoise)
		e, err = experiment.OpenSet(c, s.periods[i].Train)
	}
	return e, err
}

// anotherNoise is between the seeds of sessions that would draw the same noise. Seeds of a study are closer together.
const anotherNoise = 1 << 32

// session makes a session, keeps and measures it.
func (s *underway) session(arm Arm, i int, epsilon float64, from string) (*Point, *algorithm.Start, error) {
	e, err := s.open(arm, i, epsilon, from)
	if err != nil {
		return nil, nil, err
	}
	m, err := s.measured(e, i)
	if err != nil {
		return nil, nil, err
	}
	r, err := training.Keep(s.ctx, e, nil, training.KeepOptions{Measured: m})
	if err != nil {
		return nil, nil, err
	}
	shared, err := os.ReadFile(filepath.Join(r.Folder, results.SharedFile))
	if err != nil {
		return nil, nil, err
	}
	p, err := s.measure(m, arm, i, shared)
	if err != nil {
		return nil, nil, err
	}
	s.drawn[noise{algorithm.Seed.Of(e.Config), e.Session()}] = true
	p.Seed, p.Users, p.Ratings, p.Epsilon, p.Folder = algorithm.Seed.Of(s.base), e.Data.Users, e.Split.Train.Len(), r.Privacy.Epsilon, r.Folder
	return p, r.Record, nil
}

// served measures the model of an earlier session in a later period. New items start from released sums and features, which costs nothing.
func (s *underway) served(i int, from string) (*Point, error) {
	whole := s.base
	defer func() { s.base = whole }()
	if k := config.Find("statistics.start-decay"); algorithm.Of(s.base).About().Has(k) {
		if err := s.base.Set(k.Name, "1"); err != nil {
			return nil, err
		}
	}
	e, err := s.open(Once, i, s.design.Total, from)
	if err != nil {
		return nil, err
	}
	strategy, err := e.Strategy()
	if err != nil {
		return nil, err
	}
	m, err := s.measured(e, i)
	if err != nil {
		return nil, err
	}
	return s.measure(m, Once, i, strategy.Model())
}

// measured opens what a session is measured on, with the settings that the session chose.
func (s *underway) measured(e *experiment.Experiment, i int) (*experiment.Experiment, error) {
	c := e.Config
	algorithm.StartFrom.Set(&c, "")
	algorithm.SplitTest.Set(&c, 0.1) // the set says what is tested
	return experiment.OpenSet(c, s.periods[i].Measured)
}

// measure fits every user of a period to a model, as their clients do, and measures the predictions of the tested ratings.
func (s *underway) measure(m *experiment.Experiment, arm Arm, i int, shared []byte) (*Point, error) {
	clients, err := m.Instance().ClientSide()
	if err != nil {
		return nil, err
	}
	run := m.Workers()
	trained, err := clients.Final(shared, run)
	if err != nil {
		return nil, err
	}
	p := &Point{Arm: arm, Seed: algorithm.Seed.Of(m.Config), Session: i + 1, Users: s.periods[i].Train.Users, Items: m.Data.Items,
		Ratings: s.periods[i].Train.Len(), Tested: m.Split.Test.Len(), RMSE: m.Test.Measure(trained, run).RMSE}
	lists, err := m.MeasureLists(trained, run)
	if err != nil {
		return nil, err
	}
	if lists != nil {
		for _, at := range lists.At {
			if at.K == eval.RankingCutoff {
				p.Recall = &at.Recall
			}
		}
	}
	var places []int32 // of tested ratings of new items
	for k, item := range m.Split.Test.Item {
		if s.periods[i].New[item] {
			places = append(places, int32(k)) //nolint:gosec // ratings are counted in 32 bits
		}
	}
	fresh := m.Split.Test.Gather(places)
	for _, n := range s.periods[i].New {
		if n {
			p.NewItems++
		}
	}
	if p.NewTested = fresh.Len(); p.NewTested > 0 {
		parts := *m.Split
		parts.Test, parts.Held = fresh, nil
		test := eval.NewTest(&parts, m.Data.Min, m.Data.Max, 1)
		if v := test.Measure(trained, run).RMSE; !math.IsNaN(v) {
			p.NewRMSE = &v
		}
	}
	return p, nil
}

// Period is the data of a session.
type Period struct {
	// Train has the ratings before the session. Its items are all that appear before the next session.
	Train *dataset.Set
	// Measured also has the ratings until the next session. Tested marks the later half of each user's ratings in the
	// period. The earlier half is on the user's device when the later half is predicted; a user without an earlier rating is not tested.
	Measured *dataset.Set
	// New marks the items of both without a rating before the session.
	New []bool
}

// Cut divides a set with times into n sessions and what comes before the first. The n + 1 parts have about the same number of ratings.
func Cut(set *dataset.Set, n int) ([]Period, error) {
	set = set.Unpacked()
	switch {
	case set.Profile != nil || set.Raters != nil:
		return nil, config.Errorf("sessions: %s has public users or examples; sessions are of users with ratings on a scale", set.Name)
	case set.Times == nil || slices.ContainsFunc(set.Times, math.IsNaN):
		return nil, config.Errorf("sessions: %s does not say when each rating was given; use data with a column of timestamps, or synthetic:moving", set.Name)
	}
	times := slices.Sorted(slices.Values(set.Times))
	cuts := make([]float64, n+1)
	for s := range cuts {
		cuts[s] = math.Inf(1)
		if s < n {
			cuts[s] = times[len(times)*(s+1)/(n+1)]
		}
		if s > 0 && !(cuts[s] > cuts[s-1]) || cuts[s] == times[0] {
			return nil, config.Errorf("sessions: the ratings of %s are of too few moments for %d sessions; study fewer", set.Name, n)
		}
	}
	first := make([]float64, set.Items) // when an item was first rated
	for i := range first {
		first[i] = math.Inf(1)
	}
	for k, i := range set.Item {
		first[i] = min(first[i], set.Times[k])
	}
	periods := make([]Period, n)
	for s := range periods {
		from, to := cuts[s], cuts[s+1]
		items := func(i int) bool { return first[i] < to && !math.IsInf(first[i], 1) }
		p := &periods[s]
		p.Train = part(set, items, from)
		p.Measured = part(set, items, to)
		p.Measured.Tested = tested(p.Measured, from)
		for i := range set.Items {
			if items(i) {
				p.New = append(p.New, first[i] >= from)
			}
		}
		p.Measured.Digest = p.Measured.ComputeDigest()
		if !slices.Contains(p.Measured.Tested, true) {
			return nil, config.Errorf("sessions: nothing can be tested after session %d of %d; study fewer", s+1, n)
		}
	}
	return periods, nil
}

// part returns the ratings before a moment, with the users who gave any, and with some of the items.
func part(set *dataset.Set, items func(i int) bool, before float64) *dataset.Set {
	there := make([]bool, set.Users)
	for k, u := range set.User {
		there[u] = there[u] || set.Times[k] < before
	}
	out := *set
	out.Ratings, out.Tested, out.Notices, out.Findings = dataset.Ratings{}, nil, nil, nil
	var userAt, itemAt []int32
	out.UserIDs, userAt = picked(set.UserIDs, func(u int) bool { return there[u] })
	out.ItemIDs, itemAt = picked(set.ItemIDs, items)
	out.Titles, _ = picked(set.Titles, items)
	out.Genres, _ = picked(set.Genres, items)
	out.Years, _ = picked(set.Years, items)
	out.Columns = slices.Clone(set.Columns)
	for c := range out.Columns {
		out.Columns[c].Values, _ = picked(set.Columns[c].Values, items)
	}
	out.Users, out.Items = len(out.UserIDs), len(out.ItemIDs)
	for k, at := range set.Times {
		if at < before {
			out.User, out.Item = append(out.User, userAt[set.User[k]]), append(out.Item, itemAt[set.Item[k]])
			out.Value, out.Times = append(out.Value, set.Value[k]), append(out.Times, at)
		}
	}
	out.Digest = out.ComputeDigest()
	return &out
}

// picked returns some of a list, and the place of each element among them; nil stays nil.
func picked[T any](list []T, keep func(i int) bool) (out []T, place []int32) {
	for i, x := range list {
		place = append(place, int32(len(out)))
		if keep(i) {
			out = append(out, x)
		}
	}
	return out, place
}

// tested marks the later half of each user's ratings from a moment on.
func tested(set *dataset.Set, from float64) []bool {
	out := make([]bool, set.Len())
	for k := 0; k < set.Len(); {
		end := k
		var later []int
		for ; end < set.Len() && set.User[end] == set.User[k]; end++ {
			if set.Times[end] >= from {
				later = append(later, end)
			}
		}
		slices.SortStableFunc(later, func(a, b int) int { return cmp.Compare(set.Times[a], set.Times[b]) })
		known := len(later) / 2
		if known == 0 && end-k == len(later) {
			known = len(later)
		}
		for _, at := range later[known:] {
			out[at] = true
		}
		k = end
	}
	return out
}
