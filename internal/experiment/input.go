package experiment

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dataset/split"
)

// input holds what a configuration says about its data. Everything from the file to the parts of a split goes by it.
type input struct {
	algorithm string // its name
	profiles  bool   // the algorithm learns from a regression
	ranks     bool   // clicks will do

	read   read.Options
	public publicUsers
	split  split.Params  // without Positive, which may depend on the scale
	liked  config.Number // fewest stars of a like; open: a share of the top of the scale
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
		if in.liked = algorithm.Positive.Of(c); !in.liked.Given {
			in.liked = algorithm.Positive.ChooseNumber(c, nil)
		}
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
	return set, refused(err)
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

// names lists the algorithms that fit.
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

// params returns how to split a set on its scale.
func (in input) params(set *dataset.Set) split.Params {
	p := in.split
	switch {
	case !in.ranks:
	case in.liked.Given:
		p.Positive = in.liked.Value + set.Shift
	default:
		p.Positive = algorithm.LikedFrom(set)
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
