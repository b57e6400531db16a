package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// table is the content of a ratings file before the indices are put in order.
type table struct {
	format       format
	users, items idTable
	features     features // by number of the item; no lists without a file of items
	ratings      Ratings  // columns only: indices of the two tables, rows as in the file
	lines        []uint32 // line of each rating
	min, max     float64  // range the ratings were checked against
	skipped      func(*FileError)
}

// readRatings reads a ratings file, whose format it recognizes by its content, its
// name and the files beside it. Its errors are *FileError, errors of r, or those of ctx.
func readRatings(ctx context.Context, file string, r io.Reader, beside func(name string) bool, o Options, progress func(int64)) (*table, error) {
	s := newScanner(ctx, r, commas, progress)
	line, err := s.peek()
	if err != nil {
		return nil, s.locate(file, err)
	}
	s.dialect = dialectOf(line)
	first, err := s.next()
	if errors.Is(err, io.EOF) && o.Skipped != nil {
		return emptyTable(o)
	}
	if errors.Is(err, io.EOF) {
		return nil, s.locate(file, fmt.Errorf("%w: the file is empty; %s", ErrNoRatings, wantColumns))
	}
	if err != nil {
		return nil, s.locate(file, err)
	}
	f, cols, err := recognize(first, s.dialect, file, beside)
	if err != nil {
		return nil, s.locate(file, err)
	}
	t := &table{format: f, skipped: o.Skipped}
	if t.min, t.max, err = o.scaleOr(f.min, f.max); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if f.fields > 0 { // no header: the first record is a rating
		err = t.add(first, cols, s.line)
	}
	for {
		if unusable(err) && o.Skipped != nil {
			o.Skipped(&FileError{File: file, Line: s.line, Err: err})
			err = nil
		}
		if err != nil {
			break
		}
		var record [][]byte
		if record, err = s.next(); err == nil {
			err = t.add(record, cols, s.line)
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, s.locate(file, err)
	}
	if t.ratings.Len() == 0 && o.Skipped == nil {
		return nil, s.locate(file, fmt.Errorf("%w: the file ends after its header; want a row for each rating", ErrNoRatings))
	}
	return t, nil
}

// emptyTable is that of a file without a row, which says neither format nor scale.
func emptyTable(o Options) (*table, error) {
	t := &table{format: genericCSV}
	if o.Min == nil || o.Max == nil {
		return t, nil
	}
	var err error
	t.min, t.max, err = o.scaleOr(0, 0)
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
	return &FileError{File: file, Line: s.line, Err: err}
}

// add appends the rating of one record. What is wrong with it is a recordError.
func (t *table) add(record [][]byte, cols columns, line int) error {
	if len(t.lines) == math.MaxInt32 || uint64(line) > math.MaxUint32 {
		return fmt.Errorf("more than %d ratings or %d lines; split the file", math.MaxInt32, uint32(math.MaxUint32))
	}
	if err := t.append(record, cols, line); err != nil {
		return recordError{err}
	}
	return nil
}

func (t *table) append(record [][]byte, cols columns, line int) error {
	if len(record) != cols.count {
		return fmt.Errorf("%d fields, want %d %s", len(record), cols.count, cols.want)
	}
	value, err := parseRating(record[cols.rating])
	if err != nil {
		return fmt.Errorf("%w; want a number from %v to %v", err, t.min, t.max)
	}
	if value < t.min || value > t.max {
		return fmt.Errorf("rating %s is outside the range %v to %v; correct it, or set the range of the scale",
			quoteShort(record[cols.rating]), t.min, t.max)
	}
	user, err := t.users.index(record[cols.user])
	if err != nil {
		return fmt.Errorf("%s %w", t.format.user, err)
	}
	item, err := t.items.index(record[cols.item])
	if err != nil {
		return fmt.Errorf("%s %w", t.format.item, err)
	}
	t.ratings.User = append(t.ratings.User, user)
	t.ratings.Item = append(t.ratings.Item, item)
	t.ratings.Value = append(t.ratings.Value, float32(value))
	t.lines = append(t.lines, uint32(line))
	return nil
}

// sort puts users, items, features and ratings into canonical order and checks
// that no pair occurs twice; where records may be skipped, the last one in the file counts. Name and digest of the set remain to be filled in.
func (t *table) sort(file string) (*Set, error) {
	userIDs, userRank := t.users.canonical()
	itemIDs, itemRank := t.items.canonical()
	r := t.ratings
	r.Users, r.Items = len(userIDs), len(itemIDs)
	for k := range r.User {
		r.User[k], r.Item[k] = userRank[r.User[k]], itemRank[r.Item[k]]
	}
	perm := r.order(rowStarts(r.User, r.Users))
	if twice := r.repeated(perm); len(twice) > 0 {
		again := func(k, line int32, format string) *FileError {
			return &FileError{File: file, Line: int(t.lines[k]), Err: fmt.Errorf(format,
				t.format.user, userIDs[r.User[k]], t.format.item, itemIDs[r.Item[k]], t.lines[line])}
		}
		if t.skipped == nil {
			p := slices.MinFunc(twice, func(a, b [2]int32) int { return cmp.Compare(a[1], b[1]) })
			return nil, again(p[1], p[0], "%s %q has rated %s %q on line %d already; keep one of the two")
		}
		for _, p := range twice {
			t.skipped(again(p[0], p[1], "%s %q rates %s %q again on line %d, which counts"))
		}
		perm = r.lastOfEach(perm)
	}
	features := t.features.reorder(itemRank)
	return &Set{
		Min: t.min, Max: t.max, Ratings: r.gather(perm), UserIDs: userIDs, ItemIDs: itemIDs,
		Titles: features.titles, Genres: features.genres, Years: features.years,
	}, nil
}

// parseRating parses a finite decimal number.
func parseRating(b []byte) (float64, error) {
	if v, ok := parseShortDecimal(b); ok {
		return v, nil
	}
	if len(b) == 0 {
		return 0, errors.New("rating is empty")
	}
	v, err := strconv.ParseFloat(string(b), 64)
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return 0, fmt.Errorf("rating %s is not finite", quoteShort(b))
	case err != nil:
		return 0, fmt.Errorf("rating %s is not a number", quoteShort(b))
	}
	if v == 0 {
		return 0, nil // -0 too, so that equal ratings have equal digests
	}
	return v, nil
}

// parseShortDecimal parses digits with at most one point among or after them,
// 16 bytes at most, the form of nearly every rating. The quotient of two integers
// below 2^53 is rounded once, so the result is that of strconv.ParseFloat.
func parseShortDecimal(b []byte) (v float64, ok bool) {
	if len(b) == 0 || len(b) > 16 || b[0] == '.' {
		return 0, false
	}
	digits, scale, point := uint64(0), uint64(1), false
	for _, c := range b {
		switch {
		case '0' <= c && c <= '9':
			digits = digits*10 + uint64(c-'0')
			if point {
				scale *= 10
			}
		case c == '.' && !point:
			point = true
		default:
			return 0, false
		}
	}
	if digits >= 1<<53 {
		return 0, false
	}
	return float64(digits) / float64(scale), true
}

// quoteShort quotes text of a file for an error message, at most 60 bytes of it.
func quoteShort(b []byte) string {
	if len(b) > 60 {
		return strconv.Quote(string(b[:60])) + "..."
	}
	return strconv.Quote(string(b))
}

// errNotUTF8 is the reason given for text in another encoding.
var errNotUTF8 = errors.New("is not UTF-8; convert the file")

// checkID reports an id that cannot be used.
func checkID(id []byte) error {
	if len(id) == 0 {
		return errors.New("is empty; every row needs one")
	}
	if !utf8.Valid(id) {
		return fmt.Errorf("%s %w", quoteShort(id), errNotUTF8)
	}
	return nil
}
