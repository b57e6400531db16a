package experiment

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/dataset/pack"
	"github.com/fedsim/fedsim/internal/lineage"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/server"
)

// input holds what a configuration says about its data. Everything from the file to the parts of a split goes by it.
type input struct {
	algorithm string // its name
	profiles  bool   // the algorithm learns from a regression
	ranks     bool   // clicks will do

	read   read.Options
	public publicUsers
	split  split.Params // without Positive, which may depend on the scale
	liked  func(*dataset.Set) float64
}

// inputOf reads what a configuration says about its data.
func inputOf(c config.Config) input {
	in := input{
		algorithm: algorithm.Name.Of(c), profiles: algorithm.Of(c).About().Profiles, ranks: algorithm.Ranks(c),
		read:   DataOptions(c),
		public: publicUsers{count: algorithm.PublicUsers.Int(c), file: algorithm.PublicIDs.Of(c), binary: algorithm.PublicBinary.Is(c, "yes")},
		split: split.Params{
			Test: algorithm.SplitTest.Value(c), Validation: algorithm.SplitValidation.Value(c), Seed: algorithm.SplitSeedOf(c), By: split.By(algorithm.SplitBy.Of(c)),
		},
	}
	p := &in.split
	p.Whole = p.Test == 0
	p.Fold, p.Folds, _ = split.ParseFold(algorithm.SplitFold.Of(c)) // which was checked with the configuration
	if at, err := read.ParseTime(algorithm.SplitTime.Of(c)); err == nil && p.By == split.Time {
		p.Cut = &at
	}
	if in.ranks {
		p.Users, p.Least, p.Exact = split.Users(algorithm.SplitUsers.Of(c)), algorithm.SplitLeast.Int(c), algorithm.TargetsExactly(c)
		in.liked = func(set *dataset.Set) float64 { return algorithm.LikedIn(c, set) }
	}
	return in
}

// DataOptions returns a configuration's options for reading data.
func DataOptions(c config.Config) read.Options {
	about := algorithm.Of(c).About()
	o := read.Options{
		Test: algorithm.SplitTestFile.Of(c), Duplicates: read.Duplicates(algorithm.Duplicates.Of(c)), BadRows: read.BadRows(algorithm.BadRows.Of(c)),
		Times: !algorithm.SplitBy.Is(c, string(split.Random)), Fields: about.Fields,
		MaybeTimes: algorithm.EvalDrift.Is(c, "yes") && !about.Profiles && !algorithm.Ranks(c),
	}
	_ = read.Texts{ // which were checked with the configuration
		Columns: algorithm.Columns.Of(c), Separator: algorithm.Separator.Of(c), Encoding: algorithm.Encoding.Of(c), Member: algorithm.Member.Of(c), Unrated: algorithm.Unrated.Of(c),
		NoHeader: algorithm.NoHeader.Is(c, "yes"), DayFirst: algorithm.DayFirst.Is(c, "yes"),
	}.Set(&o)
	if lo := algorithm.RatingMin.Of(c); lo.Given {
		o.Min = &lo.Value
	}
	if hi := algorithm.RatingMax.Of(c); hi.Given {
		o.Max = &hi.Value
	}
	return o
}

func (in input) open(ctx context.Context, data string) (*dataset.Set, error) {
	set, err := read.Open(ctx, data, in.read)
	if hear, ok := ctx.Value(hearing{}).(func([]dataset.Notice)); ok && err == nil {
		hear(set.Notices)
	}
	return set, refused(err)
}

type hearing struct{}

// Hear returns a context that warns of what reading data dropped, assumed or merged, of each once, where they are opened.
func Hear(ctx context.Context, warn func(text string)) context.Context {
	said := make(map[string]bool)
	return context.WithValue(ctx, hearing{}, func(list []dataset.Notice) {
		for _, n := range list {
			if text := n.String(); !said[text] {
				said[text] = true
				warn(text)
			}
		}
	})
}

// refused names the keys behind the errors of a reader.
func refused(err error) error {
	switch {
	case errors.Is(err, dataset.ErrScale):
		return config.Errorf("rating-min, rating-max: %w", err)
	case errors.Is(err, read.ErrDuplicates):
		return config.Wrap(err)
	default:
		return err
	}
}

// check refuses data that the algorithm cannot learn from: clicks in place of ratings, or a regression.
func (in input) check(set *dataset.Set) error {
	switch {
	case set.Clicks && !in.ranks:
		return config.Errorf("%s has no column of ratings, so that every row is a click; say feedback implicit, with one of the algorithms %s, or which column has the ratings: columns rating=NAME",
			set.Name, names(ranks))
	case set.Profile != nil && !in.profiles:
		return config.Errorf("%s is a regression: its rows are examples with public features and a label. %s learns from ratings; take one of the algorithms %s, or other data",
			set.Name, in.algorithm, names(func(name string) bool { return algorithm.Find(name).About().Profiles }))
	}
	return nil
}

func names(fit func(name string) bool) string {
	return strings.Join(slices.DeleteFunc(algorithm.Names(), func(name string) bool { return !fit(name) }), ", ")
}

// ranks reports whether an algorithm learns from clicks.
func ranks(name string) bool {
	var c config.Config
	algorithm.Name.Set(&c, name)
	algorithm.Feedback.Set(&c, "implicit")
	return algorithm.Ranks(c) && algorithm.Feedback.Check(c) == ""
}

// prepare returns the set without its public users, on a scale that starts at 0, as all algorithms need it except regressions.
func (in input) prepare(set *dataset.Set) (*dataset.Set, error) {
	if !in.profiles {
		set = set.Raised()
	}
	return in.public.takeOut(set)
}

func (in input) params(set *dataset.Set) split.Params {
	p := in.split
	if in.ranks {
		p.Positive = in.liked(set)
	}
	return p
}

// divide splits a set: by its ratings, or for lists of items by its users.
func (in input) divide(set *dataset.Set) (*split.Parts, error) {
	parts, err := split.Divide(set, in.params(set))
	if err != nil {
		return nil, config.Errorf("%s: %w", set.Name, err)
	}
	return parts, nil
}

// training returns the part of a party's own data that is trained on.
func (in input) training(set *dataset.Set) (dataset.Ratings, error) {
	return split.Training(set, in.params(set))
}

// publicUsers say whose ratings a configuration takes for public.
type publicUsers struct {
	count  int
	file   string // of ids; "" takes the count
	binary bool
}

// takeOut returns a set without its public users, if there are any and they are still in it.
func (p publicUsers) takeOut(set *dataset.Set) (*dataset.Set, error) {
	if p.count == 0 && p.file == "" || set.Raters != nil {
		return set, nil
	}
	key, who := algorithm.PublicUsers.Name, split.PublicUsers{Count: p.count}
	var err error
	if p.file != "" {
		key = algorithm.PublicIDs.Name
		if who.IDs, err = read.IDs(p.file, true); err != nil {
			return nil, config.Errorf("%s: %w; want a file with an id in each line", key, err)
		}
	}
	if p.binary {
		who.Least = algorithm.LikedFrom(set)
	}
	out, err := split.TakeOut(set, who)
	if err != nil {
		return nil, config.Errorf("%s: %w", key, err)
	}
	return out, nil
}

// Sample is the experiment with so many of its users, who stand at even distances, and with every setting as it is here: to see
// what a user costs. Ratings that are packed are packed in it. It protects, and shows, nothing.
func (e *Experiment) Sample(users int) (*Experiment, error) {
	if e.Public() {
		return nil, ErrNoRatings
	}
	if users < 1 || users > e.Data.Users {
		return nil, fmt.Errorf("experiment: a sample of %d of %d users", users, e.Data.Users)
	}
	set := *e.Data
	set.Ratings, set.UserIDs = dataset.Ratings{Users: users, Items: e.Data.Items}, nil
	set.Tested = nil
	rows := e.Data.ByUser()
	for u := range users {
		at := int(int64(u) * int64(e.Data.Users) / int64(users))
		set.UserIDs = append(set.UserIDs, e.Data.UserIDs[at])
		items, values := rows.Row(at)
		for k, j := range items {
			set.User, set.Item, set.Value = append(set.User, int32(u)), append(set.Item, j), append(set.Value, values[k])
		}
		set.Times = append(set.Times, rows.Times(at)...)
	}
	if e.Data.Packed != nil {
		packed, err := pack.InMemory(&set)
		if err != nil {
			return nil, err
		}
		return OpenSet(e.Config, packed)
	}
	return OpenSet(e.Config, &set)
}

// readStart reads the releases that the session starts from, if the configuration names any.
func (e *Experiment) readStart() (err error) {
	dir := algorithm.StartFrom.Of(e.Config)
	switch {
	case dir == "" || !e.About().Has(algorithm.StartFrom.Key):
		return nil
	case dir == "last":
		if dir, err = lineage.Newest(algorithm.Out.Of(e.Config)); err != nil {
			return err
		}
		algorithm.StartFrom.Set(&e.Config, dir)
	}
	s, err := lineage.Read(dir)
	if err != nil {
		return config.Errorf("start-from: %w", err)
	}
	e.Start = s
	return e.checkStart()
}

// ErrNoReleases is wrapped by the error for the strategy of a session that starts from releases which are not at hand.
var ErrNoReleases = errors.New("the releases that the session starts from are not here")

// checkStart refuses releases of another algorithm, scale or unit of privacy.
func (e *Experiment) checkStart() error {
	s := e.Start
	switch name, feedback := e.About().Name, algorithm.Feedback.Chosen(e.Config); {
	case s.Algorithm != name:
		return config.Errorf("start-from: %s was trained by %s, and this session is of %s; say --algorithm %s, or start from another folder", s.From, s.Algorithm, name, s.Algorithm)
	case s.Feedback != feedback:
		return config.Errorf("start-from: %s was trained on %s feedback, and this session is of %s feedback; say --feedback %s, or start from another folder", s.From, s.Feedback, feedback, s.Feedback)
	case s.Min != e.Data.Min || s.Max != e.Data.Max:
		return config.Errorf("start-from: %s was trained on ratings from %v to %v, and these are from %v to %v; say --rating-min %v --rating-max %v, or start from another folder",
			s.From, s.Min, s.Max, e.Data.Min, e.Data.Max, s.Min, s.Max)
	}
	unit := algorithm.UnitOf(e.Config) // no ε would hold for sessions with several units together
	for _, past := range s.Sessions {
		if past.Unit != unit {
			return config.Errorf("start-from: %s depends on a session that protects each %s, and this session protects each %s; say --unit %s, or start from another folder",
				s.From, past.Unit, unit, past.Unit)
		}
	}
	return nil
}

// checkSearches refuses to start from a session whose settings a plain search chose, unless this session states no ε either.
func (e *Experiment) checkSearches() error {
	if e.Start == nil || !e.Private() || e.Search != nil && !e.Search.Private() {
		return nil
	}
	for _, past := range e.Start.Sessions {
		if past.Search != nil && !past.Search.Private() {
			return config.Errorf("start-from: %s: %s, so no ε would cover this session with it. Start from a run of fedsim tune --private, or of settings that other data chose. With --set %s=plain this session starts there too, and states no ε",
				e.Start.From, dp.NoEpsilonHolds, algorithm.ChosenBy.Name)
		}
	}
	return nil
}

// takeRank gives an open rank the value of the session that this session starts from, and refuses another value.
func (e *Experiment) takeRank() error {
	if e.Start == nil || !e.About().Has(algorithm.Rank.Key) {
		return nil
	}
	rank := algorithm.Rank.Of(e.Config)
	if rank.Given && rank.Value != float64(e.Start.Rank) {
		return config.Errorf("start-from: %s was trained with rank %d, and this session has rank %v; say --rank %d, or start from another folder", e.Start.From, e.Start.Rank, rank.Value, e.Start.Rank)
	}
	algorithm.Rank.Set(&e.Config, float64(e.Start.Rank))
	return nil
}

// Record returns what the session of a strategy released, for a later session to start from; nil if its algorithm
// has nothing to start from. trained is the model that a simulated session ended with; nil in a deployment. skipped
// counts the rounds that released nothing.
func (e *Experiment) Record(s server.Strategy, trained *model.Trained, skipped int) (*algorithm.Start, error) {
	x, ok := e.instance.(algorithm.Recorder)
	strategy, durable := s.(algorithm.Strategy)
	if !ok || !durable || !e.About().Has(algorithm.StartFrom.Key) {
		return nil, nil
	}
	open := e.Features != nil && slices.ContainsFunc(e.Features.Categories, func(c dataset.Category) bool { return c.Name == read.RatersCategory })
	if gave := e.About().Donors; e.Data.Raters != nil && (open || gave != nil && gave(e.Config)) {
		return nil, nil // a later session would have what donors gave, and its epsilon would not say so
	}
	released, err := x.Record(strategy, trained)
	if err != nil || released == nil {
		return nil, err
	}
	past, err := e.Past(e.Released().Events, skipped)
	if err != nil {
		return nil, err
	}
	out := &algorithm.Start{Released: released, Basis: algorithm.Basis{
		Algorithm: e.About().Name, Feedback: algorithm.Feedback.Chosen(e.Config), Rank: int(algorithm.Rank.Chosen(e.Config)),
		Min: e.Data.Min, Max: e.Data.Max,
	}}
	if e.Start != nil {
		out.Sessions = append(out.Sessions, e.Start.Sessions...)
	}
	out.Sessions = append(out.Sessions, past)
	return out, nil
}

// Past states the cost of this session, whose releases were charged. A private search that chose the settings covers the
// run that won, so that no release of that run counts again.
func (e *Experiment) Past(charged []dp.Event, skipped int) (algorithm.PastSession, error) {
	p := algorithm.PastSession{Session: hex.EncodeToString(e.session[:]), Unit: algorithm.UnitOf(e.Config), Skipped: skipped, Events: []dp.Event{}}
	if !e.Private() {
		return p, nil
	}
	cost := e.Planned
	if e.Search == nil && e.Privacy.Proved.Accountant == "" {
		cost = func() (dp.Result, error) { return e.Cost(charged) }
	}
	spent, err := cost()
	if err != nil || math.IsInf(spent.Epsilon, 1) {
		return p, err
	}
	b, all := e.Privacy.Budget, e.Released()
	if p.Search = e.Search; e.Search != nil {
		spent.Epsilon, charged = e.Statement(spent).Epsilon, all.Events
	}
	p.Delta, p.Accountant, p.SamplerError = b.Delta, b.Accountant, all.SamplerError
	if !math.IsInf(spent.Epsilon, 1) {
		p.Epsilon = &spent.Epsilon
	}
	p.Events = append(p.Events, charged...)
	return p, nil
}
