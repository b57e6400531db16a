// Package dataset reads, generates and divides data sets of ratings or clicks, together
// with public features of the items. It reads every format of MovieLens, LibimSeTi, the
// Million Song Dataset's plays, RecBole, CSV, JSON lines and Parquet, from folders, zip archives and pipes, and generates synthetic sets of
// MovieLens' shape. It splits a set into training, validation and test parts, by chance or by time, or holds
// out users; it partitions items or users among parties; it describes a set, and verifies
// copies of published ones. It never downloads anything: see package download below it.
//
//	set, err := dataset.Open(ctx, "ml-1m.zip", dataset.Options{})
//	...
//	split, err := set.Split(dataset.SplitParams{Test: 0.1, Seed: 1})
//	...
//	rows := split.Train.ByUser()
//	items, values := rows.Row(0)
//	...
//	parties, err := set.PartitionItems(dataset.CategoryPartition, 18, 1)
//
// What it promises:
//
//   - Users and items have dense indices from 0 in a canonical order: numeric when all
//     ids are integers, else lexicographic. Ratings are sorted by user, then item.
//     Neither depends on the order of rows in a file, nor do digests and splits.
//   - The items of a set are a public catalogue where the source has one: a movies.csv,
//     movies.dat or u.item lists all movies, rated or not. Without one, and in LibimSeTi,
//     the Million Song Dataset and generic CSV files, the items are those with at least one rating. The list of
//     rated items is then assumed to be public: no privacy statement about the set
//     protects it. The same holds for an item that is rated but not listed, which becomes
//     an item of the set all the same.
//   - Which part of a split a rating belongs to depends only on the seed and on the
//     rating's user and item id; so does which users are held out. Adding or removing any
//     other rating, user or item moves nothing from one part to another.
//   - Which party of a partition has an item or a user depends on the seed and on the ids
//     and genres of the catalogue, never on a rating.
//   - The rating range is public: it comes from the format or from [Options], never from
//     the ratings.
//   - A (user, item) pair is rated once. A file that repeats one, unless [Options] say what that means, or that contains
//     anything but a finite rating within the range, is refused with a [*FileError] that
//     says where; nothing is repaired silently. Who must not refuse a file for its ratings
//     is told what is left out of it instead ([Options]).
//   - Synthetic sets are the same bits everywhere and at any GOMAXPROCS. Their generators
//     have separate seeds: the seed of a run varies splits and noise, not the population.
package dataset

import (
	"errors"
	"fmt"
	"io"
	"math"
)

// Set is a data set: ratings, who and what they are about, and public item features.
type Set struct {
	Name string // "synthetic:ml-1m", "ml-1m", or the base name of the folder or file

	// Min and Max are the public range of the rating scale in stars. They are
	// never read off the ratings, which are private.
	Min, Max float64

	Ratings

	// Clicks: the source has no column of ratings. Each record says that something was
	// consumed, and its value is the top of the scale, or how many there are of the pair
	// ([DuplicatesCount]).
	Clicks bool
	// MaybeTimes: the timestamps were no more than welcome ([Options]), and are not in the digest.
	MaybeTimes bool
	// Tested says of each rating whether it is one of the test file ([Options]); nil without one.
	Tested []bool

	UserIDs []string // id of each user in the source
	ItemIDs []string // id of each item in the source, with or without ratings

	// Public item features, one entry for each item; nil when the source has none.
	Titles []string   // "" for an item without a title
	Genres [][]string // nil for an item without a genre
	Years  []int      // year of release, 0 when unknown

	Columns []ItemColumn // others that an items.csv has

	// Raters are public users that were taken out of the set ([Set.TakeOut]); nil where there are none.
	Raters *Raters

	// Profile are public features of the users; nil where there are none.
	Profile *Profile

	// Notices are what reading the file dropped, assumed or merged. They are for the owner of the data.
	Notices []Notice

	// Digest is a hex SHA-256 over ids, ratings and item features in canonical
	// order, Times that were asked for, Tested and Raters included where they are there, without name and range. Two sources of equal content have equal
	// digests, whatever their paths and the order of their rows.
	Digest string
}

// Options vary how a set is opened. The zero value is ready to use.
type Options struct {
	// Min and Max are the ends of the rating scale in stars. Where one is nil the
	// format's default holds: 1 and 5 for MovieLens 100K and 1M, 0.5 and 5 for the later
	// ones, 1 and 10 for LibimSeTi, 1 and 10,000 for plays of the Million Song Dataset, 0 and 5 for
	// other files of ratings, 0 and 1 for clicks, the
	// shape's for synthetic sets. Ratings outside are refused.
	Min, Max *float64

	// Columns are names of columns that are not those of a format.
	Columns Columns

	// Duplicates says what becomes of several records of one pair; "" refuses the file. The
	// errors of what cannot be counted wrap ErrDuplicates.
	Duplicates Duplicates

	// Times keeps the timestamps, which take 8 bytes a rating, where the source has them.
	Times bool
	// MaybeTimes keeps timestamps too. A rating whose timestamp cannot be read has the time NaN, and a notice says so. The
	// digest is the digest of the set without times: the split does not depend on them.
	MaybeTimes bool

	// Test is a file of ratings to be tested on: a part of the set, of which the data themselves hold
	// none. "" is no file. Its users and items are among those of the set, whether or not they are
	// in the data.
	Test string

	// Fields leaves out the features of a regression as numbers, which take far more memory than categories ([Profile.Fields]).
	Fields bool

	// Packed leaves ratings packed ([Packed]) of a file in that form, and of a generated set of 50 million or more.
	// Without it they are in columns, of any source, at 12 bytes a rating.
	Packed bool

	// Input is what the spec "-" reads; nil stands for [os.Stdin].
	Input io.Reader

	// Skipped, when not nil, hears of each record of a file of ratings that cannot be used:
	// a rating that is off the scale or no number, a row that is not like the others, the earlier
	// one of two ratings of one pair, of which the last in the file counts. The set is then
	// made of all others, and may be empty. It is for who must take part with whatever the
	// file holds; nil refuses the file. A file of no known format, or that cannot be read, is
	// refused either way. Of a file without a single row nothing tells the scale: where it is
	// not among the options the set's is 0 to 0.
	Skipped func(*FileError)

	// Cache is where sets of a published name are looked for; "" means [UserCache].
	Cache Cache

	// Progress, when not nil, is called with how much of the whole is done: unpacked
	// bytes for files (total is 0 where the size is unknown), ratings for synthetic sets.
	// Calls do not overlap.
	Progress func(done, total int64)
}

// ErrDuplicates is wrapped by the error where duplicates are to be counted and cannot be.
var ErrDuplicates = errors.New("duplicates")

// ErrScale is returned for an impossible rating scale.
var ErrScale = errors.New("impossible rating scale")

// ScaleOr returns the scale from low to high, each end replaced by the given one if there is one.
func ScaleOr(low, high *float64, lo, hi float64) (float64, float64, error) {
	if low != nil {
		lo = *low
	}
	if high != nil {
		hi = *high
	}
	if !(lo < hi) || math.IsInf(lo, 0) || math.IsInf(hi, 0) {
		return 0, 0, fmt.Errorf("%w: %v to %v; want two finite numbers, the lower first", ErrScale, lo, hi)
	}
	return lo, hi, nil
}
