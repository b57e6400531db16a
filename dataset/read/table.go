package read

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dataset/files"
	"github.com/fedsim/fedsim/internal/dataset/idtext"
	"github.com/fedsim/fedsim/internal/dataset/records"
	"github.com/fedsim/fedsim/internal/lists"
)

// table is the content of ratings files before the indices are put in order.
type table struct {
	Options
	format       records.Format
	users, items idtext.Table
	features     *catalogue      // of the list of items; nil without one
	ratings      dataset.Ratings // columns only: codes of the two tables, rows as in the file
	times        []float64       // of each rating; nil where they are not asked for, or not there
	odd          tableTimes
	lines        lineRuns // line of each rating
	min, max     float64  // range the ratings were checked against
	clicks       bool     // there is no column of ratings
	comma        bool     // ratings have a decimal comma
	truths       bool     // ratings are truths
	bad          badRows
	left         records.Tally // rows that are not rated
	reread       records.Tally // ratings with an id that is written in another way than it is kept
	mended       records.Tally // rows with a wrong quote in a column that is not used
	zeros        int           // ratings of 0 that may mean that an item was not rated
	notices      []dataset.Notice
	found        []dataset.Finding

	parts []part // the files of the ratings, in their order
	test  int    // where the ratings of the test file begin, which is the last; 0 without one
}

// part is a file of ratings: where they begin.
type part struct {
	from int
	file string
}

func (t *table) fileOf(k int32) (file string) {
	for _, p := range t.parts {
		if int(k) >= p.from {
			file = p.file
		}
	}
	return file
}

func newTable(o Options) *table {
	o.MaybeTimes = o.MaybeTimes && !o.Times
	return &table{Options: o, format: records.GenericCSV(), bad: badRows{skip: o.BadRows == BadRowsSkip}}
}

// open appends the ratings of a file of a source.
func (t *table) open(ctx context.Context, s *files.Source, file string) error {
	in, err := s.InputOf(file, t.Progress)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // read-only: nothing can be lost
	return t.readFile(ctx, in)
}

// openTest appends the ratings of the test file, on the scale of the ratings already read. It may be of
// another format, and has ratings where these have.
func (t *table) openTest(ctx context.Context) error {
	s, err := files.Open(ctx, t.Test, Options{Input: t.Input, Columns: t.Columns}.files())
	if err != nil {
		return fmt.Errorf("the test file: %w", err)
	}
	if t.times != nil {
		t.notices = append(t.notices, dataset.Notice{Kind: dataset.NoticeTimes, Count: len(t.times), Text: "timestamps are not used, as ratings are tested on a file of their own, so that no error with drift is measured"})
	}
	t.test, t.times = t.ratings.Len(), nil
	return errors.Join(t.open(ctx, s, s.File), s.Close())
}

// readFile appends the ratings of a file, whose format it recognizes by its content, its name and the files beside it. A further file has
// ratings and timestamps where the first has. Its errors are *FileError, or errors of the file or of ctx.
func (t *table) readFile(ctx context.Context, in files.Input) error {
	rows, err := sniff(ctx, in, t.Options)
	first := len(t.parts) == 0
	switch empty := errors.Is(err, records.ErrNoRows); {
	case empty && first && t.Skipped != nil: // it shows neither format nor scale
		if t.Min != nil && t.Max != nil {
			t.min, t.max, err = dataset.ScaleOr(t.Min, t.Max, 0, 0)
			return err
		}
		return nil
	case empty && !first && t.test == 0: // Spark writes empty parts
		return nil
	}
	t.parts = append(t.parts, part{t.ratings.Len(), in.Path})
	switch {
	case err != nil:
	case first:
		t.format, t.clicks, t.found = rows.Format, rows.Cols.At[records.Rating] < 0, append(t.found, rows.Found...)
		t.Unrated = slices.Concat(t.Unrated, rows.Format.Unrated)
		t.notices = likelyNotices(rows.Found)
		if names := rows.Unread; len(names) > 0 {
			t.notices = append(t.notices, dataset.Notice{Kind: dataset.NoticeColumns, Text: "every row counts as a click, whatever it has in " + strings.Join(names, ", ") +
				"; if that is a rating, name it with --columns rating=" + names[0]})
		}
		if err = t.scale(); err != nil {
			return fmt.Errorf("%s: %w", in.Path, err)
		}
	case t.clicks != (rows.Cols.At[records.Rating] < 0):
		err = fmt.Errorf("either this file or %s has a column of ratings; want it in both or in none", t.parts[0].file)
	case t.times != nil && rows.Cols.At[records.Time] < 0:
		err = fmt.Errorf("%s has timestamps and this file has none; want them in both or in none", t.parts[0].file)
	}
	if err != nil {
		return rows.Locate(in.Path, err)
	}
	if first && !t.Times && !t.MaybeTimes || !first && t.times == nil {
		rows.Cols.At[records.Time] = -1
	}
	t.comma, t.truths = rows.Comma, rows.Truths
	return t.read(in.Path, rows)
}

// scale sets the scale of the options, or else of the format. A click counts as the top of the scale.
func (t *table) scale() (err error) {
	lo, hi := t.format.Min, t.format.Max
	if t.clicks {
		lo, hi = 0, 1
	}
	if t.min, t.max, err = dataset.ScaleOr(t.Min, t.Max, lo, hi); err != nil {
		return err
	}
	switch {
	case t.Duplicates == DuplicatesCount && !t.clicks:
		return fmt.Errorf("%w: count is for clicks, and the file has a column of ratings; want error, last or mean", ErrDuplicates)
	case t.Duplicates == DuplicatesCount && t.Max == nil:
		return fmt.Errorf("%w: with count, the top of the scale (--rating-max) has to say how many clicks count at most", ErrDuplicates)
	}
	return nil
}

// read appends all records of a file that was recognized.
func (t *table) read(file string, rows records.RatingRows) error {
	before := t.ratings.Len()
	var err error
	if rows.First != nil { // no header: the first record is a rating
		err = t.add(rows.First, rows.Cols, rows.At())
	}
	for {
		if records.IsMalformed(err) {
			bad := &dataset.FileError{File: file, Line: rows.At(), Err: err}
			if t.Skipped != nil {
				t.Skipped(bad)
				err = nil
			} else if t.bad.add(bad) {
				err = nil
			}
		}
		if err != nil {
			break
		}
		var record [][]byte
		if record, err = rows.Next(); err == nil {
			err = t.add(record, rows.Cols, rows.At())
		}
	}
	if s, isText := rows.Rows.(*records.Scanner); isText {
		t.mended.Join(s.Mended)
	}
	if !errors.Is(err, io.EOF) && !records.IsMalformed(err) {
		return rows.Locate(file, err)
	}
	t.bad.none = t.ratings.Len() == before && t.left.Count == 0
	if err = t.bad.err(); err != nil {
		return err
	}
	if t.ratings.Len() == before && t.Skipped == nil && t.bad.Count+t.left.Count > 0 {
		return &dataset.FileError{File: file, Line: rows.At(), Err: fmt.Errorf("%w: %d rows cannot be used and %d are not rated, and there are no others", dataset.ErrNoRatings, t.bad.Count, t.left.Count)}
	}
	if t.ratings.Len() == before && t.Skipped == nil && (len(t.parts) == 1 || t.test > 0) {
		return rows.Locate(file, fmt.Errorf("%w: the file ends after its header; want a row for each rating", dataset.ErrNoRatings))
	}
	return nil
}

// add appends the rating of one record. A fault in the record is a recordError.
func (t *table) add(record [][]byte, cols records.Columns, line int) error {
	if t.ratings.Len() >= math.MaxInt32 || uint64(line) > math.MaxUint32 {
		return fmt.Errorf("more than %d ratings or %d lines; split the file", math.MaxInt32, uint32(math.MaxUint32))
	}
	if err := t.append(record, cols, line); err != nil {
		return records.Malformed(err)
	}
	return nil
}

func (t *table) append(record [][]byte, cols records.Columns, line int) error {
	if len(record) != cols.Count {
		return fmt.Errorf("%d fields, want %d %s", len(record), cols.Count, cols.Want)
	}
	value := t.max
	if cols.At[records.Rating] >= 0 {
		field := record[cols.At[records.Rating]]
		if t.comma {
			if point, is := records.DecimalComma(field); is {
				field = point
			}
		}
		var err error
		value, err = records.ParseRating(field)
		switch truth := records.TruthOf(field); {
		case truth != 0 && t.truths:
			value = float64(min(max(truth, 0), 1))
		case err == nil && t.truths:
			return fmt.Errorf("rating %s is a number, and the first ratings are truths; write all as numbers", idtext.Quote(field))
		case err != nil:
			return fmt.Errorf("%w; want a number from %v to %v", err, t.min, t.max)
		}
		if slices.Contains(t.Unrated, value) {
			t.left.Add(line)
			return nil
		}
		if value == 0 && t.format.Zeros {
			t.zeros++
		}
		if value < t.min || value > t.max {
			mend := ""
			if value == 0 || value == -1 || value == 99 {
				mend = fmt.Sprintf("; if it means that an item was not rated, leave such rows out with --unrated %v", value)
			}
			return records.OffScale("rating %s is outside the range %v to %v; correct it, or set the scale by --rating-min and --rating-max%s",
				idtext.Quote(record[cols.At[records.Rating]]), t.min, t.max, mend)
		}
	}
	var at records.Moment
	if cols.At[records.Time] >= 0 {
		var err error
		if at, err = t.time(record[cols.At[records.Time]]); err != nil {
			return err
		}
	}
	if err := t.push(record[cols.At[records.User]], record[cols.At[records.Item]], value, line); err != nil {
		return err
	}
	if cols.At[records.Time] >= 0 {
		t.addTime(at, line)
	}
	return nil
}

// push appends a rating that is on the scale.
func (t *table) push(userID, itemID []byte, value float64, line int) error {
	written := len(userID) + len(itemID)
	userID, wrongUser := idtext.Parse(userID)
	itemID, wrongItem := idtext.Parse(itemID)
	var user, item int32
	if wrongUser == nil && wrongItem == nil {
		user, wrongUser = t.users.Index(userID)
	}
	if wrongUser == nil && wrongItem == nil {
		item, wrongItem = t.items.Index(itemID)
	}
	switch {
	case wrongUser != nil:
		return fmt.Errorf("%s %w", t.format.Columns[records.User], wrongUser)
	case wrongItem != nil:
		return fmt.Errorf("%s %w", t.format.Columns[records.Item], wrongItem)
	case len(userID)+len(itemID) < written:
		t.reread.Add(line)
	}
	t.lines.add(t.ratings.Len(), line)
	t.ratings.User = append(t.ratings.User, user)
	t.ratings.Item = append(t.ratings.Item, item)
	t.ratings.Value = append(t.ratings.Value, float32(value))
	return nil
}

// Rating is one rating of a set that is made in memory.
type Rating struct {
	User, Item string  // ids: any text in UTF-8 that a file of ratings may hold
	Value      float64 // stars
	Time       float64 // seconds since 1970, or a number as of [ParseTime]; where all are 0 there are none
}

// FromRatings makes a set of ratings in memory, in any order. The set is the same as one
// read from a file of them. Options must say the rating scale, which is public: it is
// never read off the ratings. Errors name a rating by its number, from 1, as a line.
func FromRatings(name string, list []Rating, o Options) (*dataset.Set, error) {
	t := newTable(Options{Duplicates: o.Duplicates, Times: o.Times, MaybeTimes: o.MaybeTimes})
	t.parts = []part{{file: name}}
	var err error
	if o.Min == nil || o.Max == nil {
		return nil, fmt.Errorf("%s: %w: ratings in memory have none of their own; say rating-min and rating-max", name, dataset.ErrScale)
	}
	switch {
	case o.Test != "":
		return nil, fmt.Errorf("%s: ratings in memory have no test file", name)
	case o.Duplicates == DuplicatesCount:
		return nil, fmt.Errorf("%s: %w: count is for clicks, and these are ratings", name, ErrDuplicates)
	}
	if t.min, t.max, err = dataset.ScaleOr(o.Min, o.Max, *o.Min, *o.Max); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for k, r := range list {
		if math.IsNaN(r.Value) || r.Value < t.min || r.Value > t.max {
			err = records.OffScale("rating %v is outside the range %v to %v; correct it, or set the scale by rating-min and rating-max", r.Value, t.min, t.max)
		} else {
			err = t.push([]byte(r.User), []byte(r.Item), r.Value, k+1)
		}
		if err != nil {
			return nil, &dataset.FileError{File: name, Line: k + 1, Err: err}
		}
	}
	if (o.Times || o.MaybeTimes) && slices.ContainsFunc(list, func(r Rating) bool { return r.Time != 0 }) {
		t.times = lists.Map(list, func(r Rating) float64 { return r.Time })
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: %w", name, dataset.ErrNoRatings)
	}
	return t.sort(name)
}
