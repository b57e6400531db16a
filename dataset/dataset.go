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
