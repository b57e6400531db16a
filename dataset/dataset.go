// Package dataset holds explicit ratings and the public features of the items
// they are about: it reads MovieLens and generic CSV files, generates synthetic
// sets of MovieLens' shape, splits a set into training, validation and test
// parts, and describes it.
//
//	set, err := dataset.Open(ctx, "synthetic:ml-1m", dataset.Options{})
//	...
//	split, err := set.Split(dataset.SplitParams{Test: 0.1, Seed: 1})
//	...
//	rows := split.Train.ByUser()
//	items, values := rows.Row(0)
//
// What it promises:
//
//   - Users and items have dense indices from 0 in a canonical order: numeric
//     when all ids are integers, else lexicographic. Ratings are sorted by
//     user, then item. Neither depends on the order of rows in a file, nor do
//     digests and splits.
//   - The items of a set are a public catalogue where the source gives one: with
//     a movies.csv they are the movies it lists, rated or not. Without it, and
//     in a generic CSV file, the items are those with at least one rating. The
//     list of rated items is then taken to be public: no privacy statement
//     about the set protects it. So it is with an item that is rated but not
//     listed in movies.csv, which becomes an item of the set all the same.
//   - The part of a split that a rating falls into depends on the seed and on the
//     rating's user and item id alone. Adding or removing any other rating, user
//     or item moves nothing from one part to another.
//   - The rating range is public: it comes from the format or from [Options],
//     never from the ratings.
//   - A (user, item) pair is rated once. A file that repeats one, or that holds
//     anything that is not a finite rating within the range, is refused with a
//     [*FileError] that says where; nothing is repaired silently.
//   - Synthetic sets are the same bits everywhere and at any GOMAXPROCS. They
//     have generator seeds of their own: the seed of a run varies splits and
//     noise, not the population.
package dataset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// Set is a data set: ratings, who and what they are about, and public item features.
type Set struct {
	Name string // "synthetic:ml-1m", or the base name of the folder or file

	// Min and Max are the public range of the rating scale in stars. They are
	// never read off the ratings, which are private.
	Min, Max float64

	Ratings

	UserIDs []string // id of each user in the source
	ItemIDs []string // id of each item in the source, with or without ratings

	// Public item features, one entry for each item; nil when the source has none.
	Titles []string   // "" for an item without a title
	Genres [][]string // nil for an item without a genre
	Years  []int      // year of release, 0 when unknown

	// Digest is a hex SHA-256 over ids, ratings and item features in canonical
	// order, without name and range. Two sources of equal content have equal
	// digests, whatever their paths and the order of their rows.
	Digest string
}

// Options vary how a set is opened. The zero value is ready to use.
type Options struct {
	// Min and Max are the ends of the rating scale in stars. Where one is nil the
	// format's own holds: 0.5 and 5 for MovieLens files, 0 and 5 for other CSV
	// files, the shape's for synthetic sets. Ratings outside are refused.
	Min, Max *float64

	// Progress, when not nil, hears how much of the whole is done: bytes for
	// files (total is 0 where the size is unknown), ratings for synthetic sets.
	// Calls do not overlap.
	Progress func(done, total int64)
}

// ErrScale is returned for a rating scale that cannot be.
var ErrScale = errors.New("impossible rating scale")

// scaleOr returns the scale asked for, each end else the given one.
func (o Options) scaleOr(lo, hi float64) (float64, float64, error) {
	if o.Min != nil {
		lo = *o.Min
	}
	if o.Max != nil {
		hi = *o.Max
	}
	if !(lo < hi) || math.IsInf(lo, 0) || math.IsInf(hi, 0) {
		return 0, 0, fmt.Errorf("%w: %v to %v; want two finite numbers, the lower first", ErrScale, lo, hi)
	}
	return lo, hi, nil
}

const syntheticPrefix = "synthetic"

// Open opens a data set. The spec is one of
//
//	synthetic           the same as synthetic:ml-1m
//	synthetic:SHAPE     a generated set; List names the shapes
//	DIR                 a folder that holds ratings.csv
//	FILE                a CSV file
//
// A CSV file has a header. With the columns userId, movieId and rating it is a
// MovieLens file, and a movies.csv beside it (movieId,title,genres) lists and
// describes its items. It may be missing; then, and in part where it lacks rated
// movies, the ratings say what the items are. With the columns user, item and
// rating it is a generic file, whose ids may be any text and whose items are
// those with a rating. Columns may stand in any order and
// among others, which are ignored. Line ends may be LF or CRLF, a byte order
// mark may lead, and fields may be quoted. Values are kept as the nearest float32.
//
// Errors in a file's content are [*FileError]; a file without ratings wraps
// [ErrNoRatings], a missing one [fs.ErrNotExist], an unknown shape
// [ErrUnknownShape]. When ctx ends, Open returns its error.
func Open(ctx context.Context, spec string, o Options) (*Set, error) {
	if spec == syntheticPrefix || strings.HasPrefix(spec, syntheticPrefix+":") {
		return openSynthetic(ctx, spec, o)
	}
	return openPath(ctx, spec, o)
}

// openPath opens a folder or a file.
func openPath(ctx context.Context, path string, o Options) (*Set, error) {
	file := path
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		file = filepath.Join(path, "ratings.csv")
	}
	t, err := loadRatings(ctx, file, o)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("data %q: %w; want a folder that holds ratings.csv, a CSV file, or synthetic[:%s]",
			path, err, strings.Join(shapeNames(), "|:"))
	}
	if err != nil {
		return nil, err
	}
	if t.format.movies {
		if err = t.loadMovies(ctx, filepath.Join(filepath.Dir(file), "movies.csv")); err != nil {
			return nil, err
		}
	}
	set, err := t.sort(file)
	if err != nil {
		return nil, err
	}
	set.Name = baseName(path)
	set.Digest = set.digest()
	return set, nil
}

// loadRatings reads a file of ratings.
func loadRatings(ctx context.Context, file string, o Options) (*table, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read-only: nothing can be lost
	var progress func(int64)
	if o.Progress != nil {
		total := sizeOf(f)
		progress = func(read int64) { o.Progress(read, total) }
	}
	return readRatings(ctx, file, f, o, progress)
}

// sizeOf returns the size of a regular file in bytes, 0 of anything else.
func sizeOf(f *os.File) int64 {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}

// loadMovies adds the items and features of a movies.csv, which may be missing.
func (t *table) loadMovies(ctx context.Context, file string) error {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read-only: nothing can be lost
	t.movies, err = readMovies(ctx, file, f, &t.items)
	return err
}

// baseName names a path by its last element, and "." by the folder it stands for.
func baseName(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return filepath.Base(path)
}
