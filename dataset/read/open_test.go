package read

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dataset/files"
	"github.com/fedsim/fedsim/internal/dataset/synthetic"
)

// open opens a spec that must be good.
func open(tb testing.TB, spec string, o Options) *dataset.Set {
	tb.Helper()
	set, err := Open(context.Background(), spec, o)
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

// The expected contents are copied by hand from testdata/good. Ids sort as
// numbers: 1, 2, 10. No user has rated movie 5.
var movieLensSet = dataset.Set{
	Name: "movielens", Min: 0.5, Max: 5,
	Ratings: dataset.Ratings{
		Users: 3, Items: 4,
		User: []int32{0, 0, 1, 2}, Item: []int32{0, 3, 3, 1}, Value: []float32{0.5, 4, 5, 3.5},
	},
	UserIDs: []string{"1", "2", "10"}, ItemIDs: []string{"2", "3", "5", "10"},
	Titles: []string{"American President, The (1995)", "Moonlight", "Never Rated (1990)", `11'09"01 - September 11 (2002)`},
	Genres: [][]string{{"Comedy", "Drama", "Romance"}, nil, {"Horror"}, {"Drama"}},
	Years:  []int{1995, 0, 1990, 2002},
}

func TestOpenMovieLens(t *testing.T) {
	noMovies := movieLensSet // its items are the rated ones
	noMovies.Name, noMovies.Titles, noMovies.Genres, noMovies.Years = "no-movies", nil, nil, nil
	noMovies.Items, noMovies.Item, noMovies.ItemIDs = 3, []int32{0, 2, 2, 1}, []string{"2", "3", "10"}
	partial := noMovies // movies.csv lists the first of them only
	partial.Name = "partial-movies"
	partial.Titles = []string{"American President, The (1995)", "", ""}
	partial.Genres = [][]string{{"Comedy", "Drama", "Romance"}, nil, nil}
	partial.Years = []int{1995, 0, 0}
	file := noMovies
	file.Name = "ratings.csv"
	for spec, want := range map[string]dataset.Set{
		"testdata/good/movielens":             movieLensSet,
		"testdata/good/no-movies":             noMovies,
		"testdata/good/no-movies/ratings.csv": file,
		"testdata/good/partial-movies":        partial,
	} {
		got := *open(t, spec, Options{})
		got.Digest, got.Findings = "", nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", spec, diff)
		}
	}
}

func TestOpenGeneric(t *testing.T) {
	got := *open(t, "testdata/good/generic.csv", Options{})
	got.Digest, got.Notices, got.Findings = "", nil, nil
	want := dataset.Set{
		Name: "generic.csv", Min: 0, Max: 5,
		Ratings: dataset.Ratings{
			Users: 2, Items: 2,
			User: []int32{0, 1, 1}, Item: []int32{0, 0, 1}, Value: []float32{0, 1, 4.25},
		},
		UserIDs: []string{"adam", "zoë"}, ItemIDs: []string{"Coffee", "Tea, green"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOpenRange(t *testing.T) {
	set := open(t, "testdata/good/ten-stars.csv", Options{Min: new(1.), Max: new(10.)})
	if set.Min != 1 || set.Max != 10 {
		t.Errorf("range is %v to %v, want the 1 to 10 asked for", set.Min, set.Max)
	}
	set = open(t, "synthetic:small", Options{Min: new(0.), Max: new(10.)})
	if set.Min != 0 || set.Max != 10 {
		t.Errorf("range is %v to %v, want the 0 to 10 asked for", set.Min, set.Max)
	}
}

// TestDigest holds what Set.Digest promises: equal for equal content however it
// is written down, different for every kind of content that differs.
func TestDigest(t *testing.T) {
	want := open(t, "testdata/good/movielens", Options{}).Digest
	if got := open(t, "testdata/good/shuffled", Options{}).Digest; got != want {
		t.Error("shuffled rows, CRLF, byte order mark and quotes change the digest")
	}
	if got := open(t, "testdata/good/movielens", Options{Min: new(0.), Max: new(9.)}).Digest; got != want {
		t.Error("the range changes the digest")
	}
	fresh := func() *dataset.Set { return open(t, "testdata/good/movielens", Options{}) }
	for name, change := range map[string]func(*dataset.Set){
		"user id": func(s *dataset.Set) { s.UserIDs[0] = "3" },
		"item id": func(s *dataset.Set) { s.ItemIDs[0] = "1" },
		"user":    func(s *dataset.Set) { s.User[0] = 1 },
		"item":    func(s *dataset.Set) { s.Item[0] = 1 },
		"value":   func(s *dataset.Set) { s.Value[0] = 1 },
		"title":   func(s *dataset.Set) { s.Titles[1] = "" },
		"genre":   func(s *dataset.Set) { s.Genres[2] = []string{"War"} },
		"moved genre": func(s *dataset.Set) {
			s.Genres[0], s.Genres[1] = s.Genres[0][:2], s.Genres[0][2:]
		},
		"year":                       func(s *dataset.Set) { s.Years[1] = 2016 },
		"id of an item nobody rated": func(s *dataset.Set) { s.ItemIDs[2] = "6" },
	} {
		s := fresh()
		change(s)
		if s.ComputeDigest() == want {
			t.Errorf("another %s does not change the digest", name)
		}
	}
}

// TestOpenBadFile gives the exact message for every bad fixture.
func TestOpenBadFile(t *testing.T) {
	const (
		want    = "want the columns userId, movieId, rating (MovieLens) or user, item, rating (any CSV), or other names by --columns user=NAME,item=NAME,rating=NAME"
		orRows  = want + ", or the rows of MovieLens 100K (tabs between) or 1M and 10M (:: between)"
		first   = "; if it is a rating, there is no header: --columns user=1,item=2,rating=3"
		dat     = "UserID::MovieID::Rating::Timestamp"
		skips   = "; --bad-rows skip leaves the row out"
		flagged = "movie id | title | release date | video release date | IMDb URL | 19 genre flags"
	)
	messages := map[string]string{
		"empty.csv":           `:1: no ratings: the file is empty; ` + want,
		"header-only.csv":     `:2: no ratings: the file ends after its header; want a row for each rating`,
		"no-header.csv":       `:1: no header: the first line is "1,10,4.0,964982703"; ` + orRows + first,
		"missing-generic.csv": `:1: header lacks "item"; ` + want,
		"mixed-columns.csv":   `:1: header lacks "movieId"; ` + want,
		"twice-column.csv":    `:1: header names column "rating" twice; keep one, or say places: --columns user=1,item=2,rating=3`,
		"short-row.csv":       `:3: 3 fields, want 4 as in the header, with commas between` + skips,
		"long-row.csv":        `:2: 5 fields, want 4 as in the header, with commas between`,
		"nan.csv":             `:2: rating is missing: "NaN" stands for no value; want a number from 0.5 to 5`,
		"inf.csv":             `:2: rating "-Inf" is not finite; want a number from 0.5 to 5`,
		"huge.csv":            `:2: rating "1e999" is not finite; want a number from 0.5 to 5`,
		"word.csv":            `:2: rating "good" is not a number; want a number from 0.5 to 5`,
		"empty-rating.csv":    `:2: rating is empty; want a number from 0.5 to 5`,
		"too-high.csv":        `:3: rating "5.5" is outside the range 0.5 to 5; correct it, or set the scale by --rating-min and --rating-max` + skips,
		"too-low.csv":         `:2: rating "0" is outside the range 0.5 to 5; correct it, or set the scale by --rating-min and --rating-max; if it means that an item was not rated, leave such rows out with --unrated 0`,
		"generic-range.csv":   `:2: rating "7" is outside the range 0 to 5; correct it, or set the scale by --rating-min and --rating-max`,
		"empty-user.csv":      `:3: user is empty; every row needs one` + skips,
		"empty-item.csv":      `:2: movieId is empty; every row needs one`,
		// The first repetition in the file, past a blank line, not the first pair.
		"duplicate.csv":   `:6: userId "3" has rated movieId "7" on line 5 already; keep one of the two, or choose with --duplicates last`,
		"bare-quote.csv":  `:2: quote inside an unquoted field; enclose the field in quotes and double those inside`,
		"after-quote.csv": `:2: text after a closing quote; want a comma or the end of the line`,
		"open-quote.csv":  `:3: quoted field is not closed; add the closing quote` + skips,
		"long-text.csv": `:2: rating "` + strings.Repeat("9", 30) + strings.Repeat("x", 30) +
			`"... is not a number; want a number from 0 to 5`,

		"short.dat":         `:2: 3 fields, want 4 (` + dat + `)` + skips,
		"word.dat":          `:1: rating "four" is not a number; want a number from 0.5 to 5`,
		"single-colons.dat": `:1: no header: the first line is "1:661:4:978302109"; ` + orRows,
		"duplicate.dat":     `:4: UserID "1" has rated MovieID "661" on line 1 already; keep one of the two, or choose with --duplicates last`,
		"too-high.data":     `:1: rating "6" is outside the range 1 to 5; correct it, or set the scale by --rating-min and --rating-max`,
		"three.data":        `:1: no header: the first line is "196\t242\t3"; ` + orRows + "; its fields seem to be separated by tabs" + first,
		"empty-item.data":   `:1: item id is empty; every row needs one`,
		"libimseti":         `/ratings.dat:2: rating "11" is outside the range 1 to 10; correct it, or set the scale by --rating-min and --rating-max` + skips,

		"msd": `/train_triplets.txt:2: rating "0" is outside the range 1 to 10000; correct it, or set the scale by --rating-min and --rating-max; if it means that an item was not rated, leave such rows out with --unrated 0` + skips,

		"movies-no-header": `/movies.csv:1: no header; want the first line to be movieId,title,genres`,
		"movies-empty":     `/movies.csv:1: no header; want the first line to be movieId,title,genres`,
		"movies-unquoted":  `/movies.csv:2: 4 fields, want 3: movieId,title,genres; a title with a comma must be quoted`,
		"movies-twice":     `/movies.csv:4: movieId "2" was described on line 2 already; keep one of the two`,
		"ml-100k-flag":     `/u.item:1: genre flag 9 is "2"; want 0 or 1`,
		"ml-100k-short":    `/u.item:1: 7 fields, want 24 (` + flagged + `)`,
		"ml-10m-fields":    `/movies.dat:1: 4 fields, want 3 (MovieID::Title::Genres)`,
		"movies-empty-id":  `/movies.csv:2: movieId is empty; every row needs one`,
	}
	fixtures, err := os.ReadDir("testdata/bad")
	if err != nil {
		t.Fatal(err)
	}
	if len(fixtures) != len(messages) {
		t.Errorf("%d fixtures and %d messages, want one for each", len(fixtures), len(messages))
	}
	for _, fixture := range fixtures {
		path := "testdata/bad/" + fixture.Name()
		_, err := Open(context.Background(), path, Options{})
		if err == nil {
			t.Errorf("%s: no error", path)
			continue
		}
		if want := path + messages[fixture.Name()]; err.Error() != want {
			t.Errorf("%s\n got %s\nwant %s", path, err, want)
		}
		var at *dataset.FileError
		if !errors.As(err, &at) {
			t.Errorf("%s: error is %T, want *FileError", path, err)
		}
		if noRatings := strings.Contains(messages[fixture.Name()], "no ratings"); errors.Is(err, dataset.ErrNoRatings) != noRatings {
			t.Errorf("%s: errors.Is(err, ErrNoRatings) is %v, want %v", path, !noRatings, noRatings)
		}
	}
}

func TestOpenBadSpec(t *testing.T) {
	const wanted = "; want a folder, zip archive or file of ratings, one of ml-100k, ml-1m, ml-10m, ml-20m, ml-25m, ml-latest-small, libimseti, " +
		"or synthetic[:small|:moving|:films|:eras|:eras-1m|:places|:ml-1m|:ml-10m|:ml-20m|:ml-25m|:libimseti|:libimseti-tenth|:msd]"
	for _, c := range []struct {
		spec    string
		options Options
		message string
		is      error
	}{
		{"testdata/none", Options{}, `data "testdata/none": stat testdata/none: no such file or directory` + wanted, fs.ErrNotExist},
		{"testdata/good", Options{}, `testdata/good: no ratings: no file of it has a name such as ratings.csv, and there may be ratings in clicks.csv, comma-decimal.csv, generic.csv, generic.tsv, latin1-id.csv, one.csv, ten-stars.csv; say in which, as --member clicks.csv`, dataset.ErrNoRatings},
		{"", Options{}, `data "": stat : no such file or directory` + wanted, fs.ErrNotExist},
		{
			"synthetic:ml-50m", Options{},
			`data "synthetic:ml-50m": unknown synthetic shape "ml-50m"; want synthetic:small, synthetic:moving, synthetic:films, synthetic:eras, synthetic:eras-1m, synthetic:places, synthetic:ml-1m, synthetic:ml-10m, synthetic:ml-20m, synthetic:ml-25m, synthetic:libimseti, synthetic:libimseti-tenth, synthetic:msd or one of these with -USERS behind it`, synthetic.ErrUnknownShape,
		},
		{"synthetic:", Options{}, `data "synthetic:": unknown synthetic shape ""; want synthetic:small, synthetic:moving, synthetic:films, synthetic:eras, synthetic:eras-1m, synthetic:places, synthetic:ml-1m, synthetic:ml-10m, synthetic:ml-20m, synthetic:ml-25m, synthetic:libimseti, synthetic:libimseti-tenth, synthetic:msd or one of these with -USERS behind it`, synthetic.ErrUnknownShape},
		// 400 items have a rating each where users have 33 1/3 on average, from 12 on; 20 are the fewest.
		{"synthetic:small-19", Options{}, `data "synthetic:small-19": "19" names no number of users of small; there are 20 to 10000000 of them`, nil},
		{"synthetic:small-many", Options{}, `data "synthetic:small-many": "many" names no number of users of small; there are 20 to 10000000 of them`, nil},
		{"synthetic:ml-1m-22", Options{}, `data "synthetic:ml-1m-22": "22" names no number of users of ml-1m; there are 23 to 10000000 of them`, nil},
		{
			"synthetic:small", Options{Min: new(1.), Max: new(5.)},
			`data "synthetic:small": impossible rating scale: 1 to 5 does not hold the shape's 0.5 to 5`, dataset.ErrScale,
		},
		{
			"testdata/good/one.csv", Options{Min: new(5.), Max: new(1.)},
			`testdata/good/one.csv: impossible rating scale: 5 to 1; want two finite numbers, the lower first`, dataset.ErrScale,
		},
		{ // the other end is the format's
			"testdata/good/one.csv", Options{Min: new(5.)},
			`testdata/good/one.csv: impossible rating scale: 5 to 5; want two finite numbers, the lower first`, dataset.ErrScale,
		},
	} {
		_, err := Open(context.Background(), c.spec, c.options)
		if err == nil || err.Error() != c.message {
			t.Errorf("%q\n got %v\nwant %s", c.spec, err, c.message)
		}
		if c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%q: error does not wrap %v", c.spec, c.is)
		}
	}
}

func TestOpenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, spec := range []string{"synthetic:small", "testdata/good/movielens"} {
		if _, err := Open(ctx, spec, Options{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error is %v, want context.Canceled", spec, err)
		}
	}
}

// TestOpenProgress: progress only grows and ends at the total, which is the
// size of the file, unpacked, or the number of ratings.
func TestOpenProgress(t *testing.T) {
	small := open(t, "synthetic:small", Options{})
	file := writeCSV(t, small)
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	archive := zipped(t, "small.zip", map[string]string{"ratings.csv": file})
	for spec, want := range map[string]int64{file: info.Size(), archive: info.Size(), "synthetic:small": int64(small.Len())} {
		var last int64
		open(t, spec, Options{Progress: func(done, total int64) {
			if done < last || total != want {
				t.Errorf("%s: progress is %d of %d after %d, want it to grow to %d", filepath.Base(spec), done, total, last, want)
			}
			last = done
		}})
		if last != want {
			t.Errorf("%s: progress ends at %d, want %d", filepath.Base(spec), last, want)
		}
	}
}

// TestWrittenAndRead: a set that is written as a CSV file is read back as it was.
func TestWrittenAndRead(t *testing.T) {
	want := open(t, "synthetic:small", Options{})
	got := open(t, writeCSV(t, want), Options{})
	if diff := cmp.Diff(want.Ratings, got.Ratings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestMovieLensLatestSmall reads the real set, whose counts its README states:
// 9742 movies, the records of movies.csv. How many are rated, and how often, was
// counted with Python's csv and collections modules.
func TestMovieLensLatestSmall(t *testing.T) {
	const dir = "../../shared/data/ml-latest-small"
	if _, err := os.Stat(dir); err != nil {
		t.Skip("MovieLens latest-small is not at hand")
	}
	set := open(t, dir, Options{})
	info := set.Info()
	if info.Ratings != 100_836 || info.Users != 610 || info.Items != 9_742 || info.RatedItems != 9_724 {
		t.Errorf("%d ratings, %d users, %d items, %d of them rated, want 100836, 610, 9742, 9724",
			info.Ratings, info.Users, info.Items, info.RatedItems)
	}
	if p := info.PerItem; p.Min != 0 || p.Q1 != 1 || p.Median != 3 || p.Q3 != 9 || p.Max != 329 {
		t.Errorf("ratings of an item are %+v, want 0, 1, 3, 9, 329", p)
	}
	if info.Mean < 3.5015 || info.Mean > 3.5016 { // 3.501557, by awk over the file
		t.Errorf("mean is %.6f, want 3.5016", info.Mean)
	}
	if set.Titles[0] != "Toy Story (1995)" || set.Years[0] != 1995 || len(set.Genres[0]) != 5 {
		t.Errorf("item 0 is %q of %d with genres %v, want Toy Story (1995) with 5", set.Titles[0], set.Years[0], set.Genres[0])
	}
}

// noClose is a reader that needs no closing, and is still all else that it was.
type noClose struct{ *io.SectionReader }

func (noClose) Close() error { return nil }

// inputOf is an input from memory.
func inputOf(path string, r io.Reader, beside func(string) bool) files.Input {
	in := files.Input{ReadCloser: io.NopCloser(r), Path: path, Beside: beside}
	if whole, ok := r.(*io.SectionReader); ok {
		in.ReadCloser = noClose{whole}
	}
	return in
}

// readRatings reads a file of ratings alone.
func readRatings(ctx context.Context, in files.Input, o Options) (*table, error) {
	t := newTable(o)
	return t, t.readFile(ctx, in)
}
