package read

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/internal/idtext"
)

// table is the content of ratings files before the indices are put in order.
type table struct {
	format       format
	users, items idTable
	features     features        // by number of the item; no lists without a file of items
	ratings      dataset.Ratings // columns only: codes of the two tables, rows as in the file
	times        []float64       // of each rating; nil where they are not asked for, or not there
	odd          tableTimes
	maybe        bool     // [Options.MaybeTimes]
	lines        lineRuns // line of each rating
	min, max     float64  // range the ratings were checked against
	clicks       bool     // there is no column of ratings
	duplicates   Duplicates
	skipped      func(*dataset.FileError)
	unrated      []float64 // values that say that an item was not rated
	comma        bool      // ratings have a decimal comma
	dayFirst     bool      // [Form.DayFirst]
	bad          badRows
	left         tally // rows that are not rated
	spaced       tally // ratings with spaces around an id
	mended       tally // rows with a wrong quote in a column that is not used
	zeros        int   // ratings of 0 that may mean that an item was not rated
	notices      []dataset.Notice
	found        []dataset.Finding

	file, testFile string
	parts          []part // files with more of the same
	test           int    // where the ratings of the test file begin, behind all others; 0 without one
}

// fileOf is the file that a rating is from.
func (t *table) fileOf(k int32) string {
	if t.test > 0 && int(k) >= t.test {
		return t.testFile
	}
	file := t.file
	for _, p := range t.parts {
		if int(k) >= p.from {
			file = p.file
		}
	}
	return file
}

// part is a file with more ratings of a set: where they begin.
type part struct {
	from int
	file string
}

// readPart appends the ratings of a file of the same form.
func (t *table) readPart(ctx context.Context, s *source, name string, o Options) error {
	in, err := s.inputOf(name, nil)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // read-only: nothing can be lost
	rows, err := sniff(ctx, in, o)
	if errors.Is(err, errNoRows) { // Spark writes empty parts
		return nil
	}
	if err == nil && t.clicks != (rows.cols.rating < 0) {
		err = fmt.Errorf("either this file or %s has a column of ratings; want it in both or in none", t.file)
	}
	if err == nil && t.times != nil && rows.cols.time < 0 {
		err = fmt.Errorf("%s has timestamps and this file has none; want them in both or in none", t.file)
	}
	if err != nil {
		return rows.locate(in.path, err)
	}
	if t.times == nil {
		rows.cols.time = -1
	}
	t.comma = rows.comma
	t.parts = append(t.parts, part{t.ratings.Len(), in.path})
	return t.read(in.path, rows, t.newPlainReader(rows, rows.size, pieceSize, runtime.GOMAXPROCS(0)))
}

// readRatings reads a ratings file, whose format it recognizes by its content, its name and the files
// beside it. Its errors are *FileError, or errors of r or of ctx.
func readRatings(ctx context.Context, in input, o Options) (*table, error) {
	t, rows, err := openTable(ctx, in, o)
	if err != nil || rows.rows == nil {
		return t, err
	}
	return t, t.read(in.path, rows, t.newPlainReader(rows, rows.size, pieceSize, runtime.GOMAXPROCS(0)))
}

// openTable recognizes a ratings file. There are no rows where it is empty and may be.
func openTable(ctx context.Context, in input, o Options) (*table, ratingRows, error) {
	rows, err := sniff(ctx, in, o)
	if errors.Is(err, errNoRows) && o.Skipped != nil {
		t, bad := emptyTable(o)
		return t, ratingRows{}, bad
	}
	if errors.Is(err, errNoRows) {
		err = fmt.Errorf("%w: the file is empty; %s", dataset.ErrNoRatings, wantColumns)
	}
	if err != nil {
		return nil, rows, rows.locate(in.path, err)
	}
	t := &table{
		format: rows.format, file: in.path, clicks: rows.cols.rating < 0, duplicates: o.Duplicates, skipped: o.Skipped, found: rows.found,
		unrated: slices.Concat(o.Unrated, rows.format.unrated), comma: rows.comma, dayFirst: o.Form.DayFirst, bad: badRows{skip: o.BadRows == BadRowsSkip},
	}
	t.notifyEncoding()
	if err = t.scale(o); err != nil {
		return nil, rows, fmt.Errorf("%s: %w", in.path, err)
	}
	if t.maybe = !o.Times && o.MaybeTimes; !o.Times && !o.MaybeTimes {
		rows.cols.time = -1
	}
	return t, rows, nil
}

// scale sets the scale of the options, or else of the format. A click counts as the top of the scale.
func (t *table) scale(o Options) (err error) {
	lo, hi := t.format.min, t.format.max
	if t.clicks {
		lo, hi = 0, 1
	}
	if t.min, t.max, err = dataset.ScaleOr(o.Min, o.Max, lo, hi); err != nil {
		return err
	}
	switch {
	case t.duplicates == DuplicatesCount && !t.clicks:
		return fmt.Errorf("%w: count is for clicks, and the file has a column of ratings; want error, last or mean", ErrDuplicates)
	case t.duplicates == DuplicatesCount && o.Max == nil:
		return fmt.Errorf("%w: with count, the top of the scale (--rating-max) has to say how many clicks count at most", ErrDuplicates)
	}
	return nil
}

// read appends all records of a file that was recognized. Plain lines may have a faster reader than the rows; the result is
// the same with it and without.
func (t *table) read(file string, rows ratingRows, plain *plainReader) error {
	before := t.ratings.Len()
	defer plain.finish()
	err := rows.bad
	if err == nil && rows.first != nil { // no header: the first record is a rating
		err = t.add(rows.first, rows.cols, rows.at())
	}
	for {
		if unusable(err) && t.skipped != nil {
			t.skipped(&dataset.FileError{File: file, Line: rows.at(), Err: err})
			err = nil
		} else if unusable(err) && t.bad.add(&dataset.FileError{File: file, Line: rows.at(), Err: err}) {
			err = nil
		}
		if err != nil {
			break
		}
		plain.read()
		var record [][]byte
		if record, err = rows.next(); err == nil {
			err = t.add(record, rows.cols, rows.at())
		}
	}
	if s, isText := rows.rows.(*scanner); isText {
		t.mended.join(s.mended)
	}
	if !errors.Is(err, io.EOF) && !unusable(err) {
		return rows.locate(file, err)
	}
	if err = t.bad.err(); err != nil {
		return err
	}
	if t.ratings.Len() == before && t.skipped == nil && t.bad.count+t.left.count > 0 {
		return &dataset.FileError{File: file, Line: rows.at(), Err: fmt.Errorf("%w: %d rows cannot be used and %d are not rated, and there are no others", dataset.ErrNoRatings, t.bad.count, t.left.count)}
	}
	if t.ratings.Len() == before && t.skipped == nil && len(t.parts) == 0 {
		return rows.locate(file, fmt.Errorf("%w: the file ends after its header; want a row for each rating", dataset.ErrNoRatings))
	}
	return nil
}

// readTest appends the ratings of a test file, on the scale of the ratings already read. It may be of
// another format, and has ratings where these have.
func (t *table) readTest(ctx context.Context, in input, o Options) error {
	rows, err := sniff(ctx, in, o)
	if errors.Is(err, errNoRows) {
		err = fmt.Errorf("%w: the file is empty; %s", dataset.ErrNoRatings, wantColumns)
	}
	if err == nil && t.clicks != (rows.cols.rating < 0) {
		err = fmt.Errorf("either this file or %s has a column of ratings; want it in both or in none", t.file)
	}
	if err != nil {
		return rows.locate(in.path, err)
	}
	rows.cols.time = -1
	if t.times != nil {
		t.notices = append(t.notices, dataset.Notice{Kind: dataset.NoticeTimes, Count: len(t.times), Text: "timestamps are not used, as ratings are tested on a file of their own, so that no drift of users is followed"})
	}
	t.test, t.testFile, t.times, t.comma = t.ratings.Len(), in.path, nil, rows.comma
	return t.read(in.path, rows, t.newPlainReader(rows, rows.size, pieceSize, runtime.GOMAXPROCS(0)))
}

// emptyTable returns the table of a file without a row, which shows neither format nor scale.
func emptyTable(o Options) (*table, error) {
	t := &table{format: genericCSV}
	if o.Min == nil || o.Max == nil {
		return t, nil
	}
	var err error
	t.min, t.max, err = dataset.ScaleOr(o.Min, o.Max, 0, 0)
	return t, err
}

// recordError is about one record of a file of ratings: the next one may be right.
type recordError struct{ error }

func (e recordError) Unwrap() error { return e.error }

// unusable reports whether an error is about one record. A quote that is never closed makes
// all that follows it one.
func unusable(err error) bool {
	_, is := errors.AsType[recordError](err)
	return is || errors.Is(err, errBareQuote) || errors.Is(err, errAfterQuote) || errors.Is(err, errUnclosed)
}

// locate adds file and line to an error in the content; errors of reading and of the context keep their kind.
func (s *scanner) locate(file string, err error) error {
	if s.readErr != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return &dataset.FileError{File: file, Line: s.line, Err: err}
}

// add appends the rating of one record. A fault in the record is a recordError.
func (t *table) add(record [][]byte, cols columns, line int) error {
	if t.full(1, line-1) {
		return fmt.Errorf("more than %d ratings or %d lines; split the file", math.MaxInt32, uint32(math.MaxUint32))
	}
	if err := t.append(record, cols, line); err != nil {
		return recordError{err}
	}
	return nil
}

// full reports whether n more ratings, one a line, may be more than a table holds.
func (t *table) full(n, lines int) bool {
	return t.ratings.Len()+n > math.MaxInt32 || uint64(lines+n) > math.MaxUint32
}

// reserve makes room for n more ratings.
func (t *table) reserve(n int) {
	t.ratings.User, t.ratings.Item, t.ratings.Value = slices.Grow(t.ratings.User, n), slices.Grow(t.ratings.Item, n), slices.Grow(t.ratings.Value, n)
}

func (t *table) append(record [][]byte, cols columns, line int) error {
	if len(record) != cols.count {
		return fmt.Errorf("%d fields, want %d %s", len(record), cols.count, cols.want)
	}
	value := t.max
	if cols.rating >= 0 {
		field := record[cols.rating]
		if t.comma {
			if point, is := decimalComma(field); is {
				field = point
			}
		}
		var err error
		if value, err = parseRating(field); err != nil {
			return fmt.Errorf("%w; want a number from %v to %v", err, t.min, t.max)
		}
		if slices.Contains(t.unrated, value) {
			t.left.add(line)
			return nil
		}
		if value == 0 && t.format.zeros {
			t.zeros++
		}
		if value < t.min || value > t.max {
			return offScale("rating %s is outside the range %v to %v; correct it, or set the scale by --rating-min and --rating-max",
				idtext.Quote(record[cols.rating]), t.min, t.max)
		}
	}
	var at, dayFirst float64
	if cols.time >= 0 {
		var err error
		if at, dayFirst, err = t.time(record[cols.time]); err != nil {
			return err
		}
	}
	if err := t.push(record[cols.user], record[cols.item], value, line); err != nil {
		return err
	}
	if cols.time >= 0 {
		t.addTime(record[cols.time], at, dayFirst, line)
	}
	return nil
}

// push appends a rating that is on the scale. Spaces around an id do not belong to it.
func (t *table) push(userID, itemID []byte, value float64, line int) error {
	spaced := len(userID) + len(itemID)
	userID, itemID = bytes.TrimSpace(userID), bytes.TrimSpace(itemID)
	user, err := t.users.code(userID)
	if err != nil {
		return fmt.Errorf("%s %w", t.format.user, err)
	}
	item, err := t.items.code(itemID)
	if err != nil {
		return fmt.Errorf("%s %w", t.format.item, err)
	}
	if len(userID)+len(itemID) < spaced {
		t.spaced.add(line)
	}
	t.lines.add(t.ratings.Len(), line)
	t.ratings.User = append(t.ratings.User, user)
	t.ratings.Item = append(t.ratings.Item, item)
	t.ratings.Value = append(t.ratings.Value, float32(value))
	return nil
}

// openTest adds the ratings of the test file.
func (t *table) openTest(ctx context.Context, o Options) error {
	s, err := openSource(ctx, o.Test, Options{Input: o.Input, Columns: o.Columns})
	if err != nil {
		return fmt.Errorf("the test file: %w", err)
	}
	in, err := s.input(nil)
	if err == nil {
		err = t.readTest(ctx, in, o)
		err = errors.Join(err, in.Close())
	}
	t.items.settle()
	for t.features.titles != nil && len(t.features.titles) < len(t.items.names) { // items that the list of items does not have
		t.features.grow()
	}
	return errors.Join(err, s.close())
}
