package algorithm

import (
	"fmt"
	"math"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/dp"
)

// declareData declares how data are read: their scale, their columns, and what stands twice.
func declareData() {
	RatingMin = config.DeclareNumber(config.Key{
		Name: "rating-min", Kind: config.Real, Default: "auto", Auto: "by the format of the data", Unit: "stars",
		Flag: true, Placeholder: "STARS", Help: "Bottom of the rating scale, for data whose format does not say it. It may be below 0.",
		ChooseNumber: config.ByFacts(func(_ config.Config, f *config.Facts) float64 { return f.Min - f.Shift }),
		Check:        func(c config.Config) string { return checkFinite(RatingMin.Of(c)) },
	})
	RatingMax = config.DeclareNumber(config.Key{
		Name: "rating-max", Kind: config.Real, Default: "auto", Auto: "by the format of the data", Unit: "stars",
		Flag: true, Placeholder: "STARS", Help: "Top of the rating scale, for data whose format does not say it.",
		ChooseNumber: config.ByFacts(func(_ config.Config, f *config.Facts) float64 { return f.Max - f.Shift }),
		Check:        func(c config.Config) string { return checkFinite(RatingMax.Of(c)) },
	})
	LeastRatings = config.DeclareNumber(config.Key{
		Name: "least-ratings", Kind: config.Whole, Default: "1", Range: config.Between(1, 1e6), Unit: "ratings", Flag: true, Placeholder: "N",
		Help: "Number of ratings that each user has at least, as is publicly known. A user with fewer gives each rating the weight it would have among so many. The larger the number, the less one lying client moves one item.",
	})
	Columns = config.DeclareText(config.Key{
		Name: "columns", Kind: config.Text, Default: "", Scope: config.Own, Flag: true, Placeholder: "user=NAME,...",
		Help:  "Names of the columns, if they are not user, item, rating and timestamp: user=visitor,item=sku. Places work too: user=1,item=2,rating=3. Without a column of ratings every row is a click. label=NAME makes the file a regression: that column is the label, user=NAME may be the id of an example, all other columns are features.",
		Check: reads(func(c config.Config) (read.Columns, error) { return read.ParseColumns(Columns.Of(c)) }),
	})
	Duplicates = config.DeclareText(config.Key{
		Name: "duplicates", Kind: config.Word, Default: string(read.DuplicatesError), Scope: config.Own, Flag: true, Placeholder: "WHAT",
		Words: []string{string(read.DuplicatesError), string(read.DuplicatesLast), string(read.DuplicatesMean), string(read.DuplicatesCount)},
		Help:  "If a user rated an item twice: refuse (error), take the last, the mean, or count clicks (at most rating-max).",
		Check: config.Against(func(c config.Config) bool {
			return Duplicates.Is(c, string(read.DuplicatesCount)) && !RatingMax.Of(c).Given
		}, "count needs rating-max: how many clicks count at most is public, and not read off the data"),
	})
	declareForm()
	PublicUsers = config.DeclareNumber(config.Key{ // DP-CMF paper, section 4 and Figure 5
		Name: "public-users", Kind: config.Whole, Default: "0", Range: config.AtLeast(0), Flag: true, Placeholder: "N",
		Help:  "This many users, drawn by their ids, have public ratings. They leave before the split and are no clients; no epsilon covers them, and none of their ratings is tested on. Their ratings become the items' feature rater. With ssp-c, ssp-i, private-item-bias and private-ease sums have them, too, without noise.",
		Check: config.Against(func(c config.Config) bool { return PublicUsers.Int(c) > 0 && labelled(c) }, "rows of a regression have features of their own"),
	})
	PublicIDs = config.DeclareText(config.Key{
		Name: "public-ids", Kind: config.Text, Default: "", Flag: true, Placeholder: "FILE",
		Help: "File of the ids of public users, one a line, in place of public-users.",
		Check: func(c config.Config) string {
			switch {
			case PublicIDs.Is(c, ""):
			case PublicUsers.Int(c) > 0:
				return "public-users draws as many; say either who they are or how many"
			case labelled(c):
				return "rows of a regression have features of their own"
			}
			return ""
		},
	})
	PublicBinary = config.DeclareText(config.Key{
		Name: "public-binary", Kind: config.Word, Default: "no", Words: []string{"yes", "no"}, Flag: true, Placeholder: "yes|no",
		Help: "Take only public users' ratings of at least 0.8 of the scale's top (four stars of five), each with weight 1. Otherwise the stars are the weight.",
		When: anyPublic,
	})
}

func checkFinite(v config.Number) string {
	if v.Given && (math.IsInf(v.Value, 0) || math.IsNaN(v.Value)) {
		return fmt.Sprintf("%v is not finite", v.Value)
	}
	return ""
}

// declareForm declares how the text of a file is written, where its beginning does not show it.
func declareForm() {
	Separator = config.DeclareText(config.Key{
		Name: "separator", Kind: config.Text, Default: "", Scope: config.Own, Flag: true, Placeholder: "SEP",
		Help:  "Separator of the data's fields: comma, semicolon, tab, pipe, space, :: or another character. Default: found by the first lines.",
		Check: reads(func(c config.Config) (string, error) { return read.ParseSeparator(Separator.Of(c)) }),
	})
	NoHeader = config.DeclareText(config.Key{
		Name: "no-header", Kind: config.Word, Default: "no", Words: []string{"yes", "no"}, Scope: config.Own, Flag: true, Switch: true, Placeholder: "yes|no",
		Help: "The first row of the data is a rating, and the columns are user, item, rating and timestamp unless columns says other places.",
	})
	DayFirst = config.DeclareText(config.Key{
		Name: "day-first", Kind: config.Word, Default: "no", Words: []string{"yes", "no"}, Scope: config.Own, Flag: true, Switch: true, Placeholder: "yes|no",
		Help: "Dates with slashes, such as 05/06/2024, have the day before the month. Default: found by days above 12, else the month is first.",
	})
	Encoding = config.DeclareText(config.Key{
		Name: "encoding", Kind: config.Text, Default: "", Scope: config.Own, Flag: true, Placeholder: "NAME",
		Help:  "Encoding of the data, such as latin1, utf-16 or gbk. Default: found by the first bytes.",
		Check: func(c config.Config) string { return message(read.ParseEncoding(Encoding.Of(c))) },
	})
	Member = config.DeclareText(config.Key{
		Name: "member", Kind: config.Text, Default: "", Scope: config.Own, Flag: true, Placeholder: "NAME",
		Help: "The file of a folder or archive that holds the ratings. Default: the file named ratings, or the only file that begins like ratings.",
	})
	Unrated = config.DeclareText(config.Key{
		Name: "unrated", Kind: config.Text, Default: "", Scope: config.Own, Flag: true, Placeholder: "N,...",
		Help:  "Values of the column of ratings that mean not rated, such as 0,-1,99. Their rows are left out and counted.",
		Check: reads(func(c config.Config) ([]float64, error) { return read.ParseUnrated(Unrated.Of(c)) }),
	})
	BadRows = config.DeclareText(config.Key{
		Name: "bad-rows", Kind: config.Word, Default: string(read.BadRowsError), Words: []string{string(read.BadRowsError), string(read.BadRowsSkip)}, Scope: config.Own, Flag: true, Placeholder: "error|skip",
		Help: "Rows that cannot be used: error refuses the data and names the first ten, skip leaves them out and counts them.",
	})
}

// reads makes a check that refuses a value which cannot be read.
func reads[T any](read func(config.Config) (T, error)) func(config.Config) string {
	return func(c config.Config) string {
		_, err := read(c)
		return message(err)
	}
}

// message is the text of an error, "" of none.
func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// labelled reports whether the data are a regression's.
func labelled(c config.Config) bool {
	columns, err := read.ParseColumns(Columns.Of(c))
	return err == nil && columns.Label != ""
}

func anyPublic(c config.Config) bool { return PublicUsers.Int(c) > 0 || !PublicIDs.Is(c, "") }

func declareSplit() {
	SplitTest = config.DeclareNumber(config.Key{ // FMF paper, section 4.3
		Name: "split.test", Kind: config.Real, Default: "0.1", Range: config.AtLeast(0), Scope: config.Simulated,
		Help:  "Share of the ratings that quality is measured on. With implicit feedback it is a share of the users, or from 1 on their number. 0 trains on all ratings and measures nothing, as in a deployment.",
		Check: func(c config.Config) string { return checkHeldOut(c, SplitTest) },
		When: func(c config.Config) bool {
			return SplitTestFile.Is(c, "") && SplitFold.Is(c, "") && (holdsUsersOut(c) || !SplitBy.Is(c, string(split.LeaveOneOut)))
		},
	})
	SplitValidation = config.DeclareNumber(config.Key{
		Name: "split.validation", Kind: config.Real, Default: "0", Range: config.AtLeast(0), Scope: config.Simulated,
		Help:  "Share that is neither trained nor tested on, for choosing settings. With implicit feedback a value from 1 on is a number of users. With leave-one-out any value above 0 takes each user's rating before the last.",
		Check: func(c config.Config) string { return checkHeldOut(c, SplitValidation) },
	})
	SplitFold = config.DeclareText(config.Key{
		Name: "split.fold", Kind: config.Text, Default: "", Scope: config.Simulated,
		Help: "Of cross-validation, which fold of how many is the test, such as 1/5, in place of split.test. Folds are of the ratings, or with implicit feedback of the users that are held out, by chance.",
		Check: func(c config.Config) string {
			fold, folds, err := split.ParseFold(SplitFold.Of(c))
			switch share := SplitValidation.Value(c); {
			case err != nil:
				return err.Error()
			case folds == 0:
				return ""
			case !SplitBy.Is(c, string(split.Random)):
				return fmt.Sprintf("folds are by chance, and split.by is %s; leave one of the two out", SplitBy.Of(c))
			case !SplitTestFile.Is(c, ""):
				return "there is a split.test-file, which says what the test is; leave one of the two out"
			case share >= 1 || 1/float64(folds)+share >= 1:
				return fmt.Sprintf("fold %d of %d and a validation part of %v leave nothing to train on", fold, folds, share)
			}
			return ""
		},
	})
	SplitBy = config.DeclareText(config.Key{
		Name: "split.by", Kind: config.Word, Default: string(split.Random), Scope: config.Simulated,
		Words: []string{string(split.Random), string(split.Time), string(split.UserTime), string(split.LeaveOneOut)},
		Help: "Which ratings are the test: a random share, all after one moment (time), each user's latest share (user-time), or each user's last rating (leave-one-out; without timestamps a random rating). " +
			"With implicit feedback it chooses what to predict for held-out users.",
		Check: config.Against(func(c config.Config) bool {
			return !SplitBy.Is(c, string(split.Random)) && !SplitTestFile.Is(c, "")
		}, "there is a split.test-file, which says what the test is; leave one of the two out"),
	})
	SplitTime = config.DeclareText(config.Key{
		Name: "split.time", Kind: config.Text, Default: "", Scope: config.Simulated,
		Help:  "Moment of split.by time, as a date (2024-05-31, in UTC) or seconds since 1970. Default: the moment after which the share split.test lies.",
		When:  func(c config.Config) bool { return SplitBy.Is(c, string(split.Time)) },
		Check: checkSplitTime,
	})
	SplitTestFile = config.DeclareText(config.Key{
		Name: "split.test-file", Kind: config.Text, Default: "", Scope: config.Own,
		Help: "A file of ratings to measure on, in any format of data, in place of a part of them. With implicit feedback its users are held out.",
		Check: config.Against(func(c config.Config) bool {
			return SplitTestFile.Is(c, "-") && Data.Is(c, "-")
		}, "standard input can be read once, as data or as the test file; save one of the two as a file"),
	})
	SplitSeed = config.DeclareSeed(config.Key{
		Name: "split.seed", Kind: config.Seed, Default: "auto", Auto: "the seed of the run", Scope: config.Simulated,
		Help: "Seed of the split alone. Runs of several seeds with one split.seed train and measure on the same ratings.",
		When: func(c config.Config) bool {
			if !SplitTestFile.Is(c, "") { // it says what the test is, and leaves the validation part to draw
				return SplitValidation.Value(c) > 0
			}
			return holdsUsersOut(c) || !SplitBy.Is(c, string(split.Time))
		},
	})
	Positive = config.DeclareNumber(config.Key{
		Name: "split.positive", Kind: config.Real, Default: "auto", Auto: "0.8 of the scale's top, four stars of five; 1 of clicks that are counted", Range: config.AtLeast(0), Unit: "stars",
		Help: "Fewest stars that count as liked, with implicit feedback.",
		When: Ranks,
		ChooseNumber: func(c config.Config, f *config.Facts) config.Number {
			switch {
			case Duplicates.Is(c, string(read.DuplicatesCount)):
				return config.Fixed(1)
			case f == nil:
				return config.Auto
			}
			return config.Fixed(positiveShare * (f.Max - f.Shift))
		},
	})
}

// declareHoldOut declares how users are held out, as Liang et al. (WWW 2018) do where these are at other values.
func declareHoldOut() {
	SplitLeast = config.DeclareNumber(config.Key{
		Name: "split.least", Kind: config.Whole, Default: "0", Range: config.AtLeast(0), When: Ranks,
		Help: "Users with fewer liked items are left out of training and test, with implicit feedback.",
	})
	SplitUsers = config.DeclareText(config.Key{
		Name: "split.users", Kind: config.Word, Default: string(split.UsersHeldOut), Words: []string{string(split.UsersHeldOut), string(split.UsersSeen)}, Scope: config.Simulated, When: Ranks,
		Help: "For whom rankings are measured, with implicit feedback: users held out of training, or users that training has seen. Of the latter some liked items are held out.",
	})
	SplitTarget = config.DeclareText(config.Key{
		Name: "split.target", Kind: config.Word, Default: targetEach, Words: []string{targetEach, targetExact}, Scope: config.Simulated,
		When: func(c config.Config) bool {
			return holdsUsersOut(c) && SplitTestFile.Is(c, "") && SplitBy.Is(c, string(split.Random))
		},
		Help: "Which fifth of what a held-out user likes is to be predicted: each item by itself with that probability, or exactly so many, rounded down.",
	})
}

// holdsUsersOut reports whether rankings are for users that training has not seen.
func holdsUsersOut(c config.Config) bool {
	return Ranks(c) && SplitUsers.Is(c, string(split.UsersHeldOut))
}

// The words of split.target.
const (
	targetEach  = "each"
	targetExact = "exact"
)

// TargetsExactly reports whether exactly a share of what each held-out user likes is to be predicted.
func TargetsExactly(c config.Config) bool { return SplitTarget.Is(c, targetExact) }

// checkHeldOut checks a part that may be a share, or a number of users.
func checkHeldOut(c config.Config, k config.NumberKey) string {
	switch v := k.Value(c); {
	case k == SplitTest && v == 0 && !SplitBy.Is(c, string(split.Random)):
		return fmt.Sprintf("0 leaves no test, and split.by %s asks for one; leave one of the two out", SplitBy.Of(c))
	case v < 1:
		return ""
	case !holdsUsersOut(c):
		return fmt.Sprintf("%v is no share: ratings are held out by a share below 1. Users are held out by number, with feedback implicit", v)
	case v != math.Trunc(v):
		return fmt.Sprintf("%v is neither a share below 1 nor a whole number of users", v)
	default:
		return ""
	}
}

// positiveShare of the scale's top counts as liked: four stars of five, as Liang et al. have it.
const positiveShare = 0.8

// LikedFrom returns the fewest stars that count as liked in a set unless a setting says otherwise, on the scale of the set.
func LikedFrom(set *dataset.Set) float64 { return positiveShare*(set.Max-set.Shift) + set.Shift }

// LikedIn returns the fewest stars that count as liked in a set, on its scale, as the settings say or as [LikedFrom].
func LikedIn(c config.Config, set *dataset.Set) float64 {
	liked := Positive.Of(c)
	if !liked.Given {
		liked = Positive.ChooseNumber(c, nil)
	}
	if liked.Given {
		return liked.Value + set.Shift
	}
	return LikedFrom(set)
}

func checkSplitTime(c config.Config) string {
	text := SplitTime.Of(c)
	if text == "" {
		return ""
	}
	if _, err := read.ParseTime(text); err != nil {
		return err.Error()
	}
	if SplitValidation.Value(c) > 0 {
		return "a stated moment leaves no validation part; leave split.validation at 0"
	}
	return ""
}

// SplitSeedOf returns the seed of the split: the seed of the run where the split has none.
func SplitSeedOf(c config.Config) uint64 { return SplitSeed.Or(c, Seed.Of(c)) }

// splitWarnings are about what ε says of a run whose split follows from ratings.
func splitWarnings(c config.Config) []string {
	switch {
	case !Private(c):
	case SplitBy.Is(c, string(split.Time)) && SplitTime.Is(c, ""):
		return []string{"split.by time finds its moment by the timestamps of all users, which epsilon takes for public; set split.time to a moment of your own"}
	case UnitOf(c) == dp.Rating && (SplitBy.Is(c, string(split.UserTime)) || SplitBy.Is(c, string(split.LeaveOneOut))):
		return []string{fmt.Sprintf("split.by %s: an added rating may move another rating into the training part, which epsilon with unit rating does not cover; use unit user or split.by random", SplitBy.Of(c))}
	}
	return nil
}
