package read

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/internal/idtext"
)

// recognize finds the format of separated text by its first record, its name and the files beside it. Without a header the record is a
// rating.
func (r *ratingRows) recognize(first [][]byte, d dialect, b beginning, in input, o Options) error {
	names, placed := o.Columns, o.Columns.positions() > 0
	if o.Form.NoHeader && !placed && names != (Columns{}) {
		return fmt.Errorf("without a header columns have no names; say their places: --columns user=1,item=2,rating=3")
	}
	if !o.Form.NoHeader {
		f, cols, err := parseHeader(first, names)
		if err == nil && (!placed || hasHeader(first, b, d, cols)) {
			if r.format, r.cols = f, cols; placed && f.name == "" {
				r.format = genericCSV
			}
			r.noteHeader(first, placed)
			return nil
		}
		if !placed && !errors.Is(err, errNoHeader) {
			return err
		}
	}
	r.first = first
	if placed {
		return r.place(names, len(first), o.Form.NoHeader)
	}
	for _, f := range headless {
		if f.is(first, d, in) {
			r.format, r.cols = f, f.columns()
			r.note("header", "none", dataset.Certain, "rows are "+f.layout)
			r.noteFormat()
			return nil
		}
	}
	if o.Form.NoHeader {
		names = Columns{User: "1", Item: "2"}
		if len(first) > 2 {
			names.Rating = "3"
		}
		if len(first) > 3 && isTime(first[3]) {
			names.Timestamp = "4"
		}
		return r.place(names, len(first), true)
	}
	return fmt.Errorf("%w: the first line is %s; %s, or the rows of MovieLens 100K (tabs between) or 1M and 10M (:: between)%s",
		errNoHeader, idtext.Quote(bytes.Join(first, []byte(d.sep))), wantColumns, placeHint(first, d))
}

// placeHint says how rows without a header are read.
func placeHint(first [][]byte, d dialect) string {
	if len(first) < 2 {
		return ""
	}
	hint := "; if it is a rating, there is no header"
	if d.sep != "," {
		hint = "; its fields seem to be separated by " + nameOf(d.sep) + "; if it is a rating, there is no header"
	}
	if len(first) == 2 {
		return hint + ": --columns user=1,item=2"
	}
	return hint + ": --columns user=1,item=2,rating=3"
}

// is reports whether a first record, in a file, is one of the format.
func (f format) is(first [][]byte, d dialect, in input) bool {
	named := f.file == "" || f.file == unpackedName(filepath.Base(in.path))
	switch {
	case f.dialect.sep != d.sep, !named, f.beside != "" && !in.beside(f.beside):
		return false
	case (f.ids != nil || f.dated) && len(first) != f.fields:
		return false
	case f.ids != nil && !f.ids(first):
		return false
	case f.dated:
		_, _, err := parseTime(first[f.at[3]])
		return err == nil && !isNumber(first[f.at[3]])
	}
	return true
}

// columns says where the columns of a format without a header stand.
func (f format) columns() columns {
	cols := columns{user: 0, item: 1, rating: 2, time: -1, count: f.fields, want: "(" + f.layout + ")"}
	switch {
	case f.at != nil:
		cols.user, cols.item, cols.rating, cols.time = f.at[0], f.at[1], f.at[2], f.at[3]
	case f.fields > 3:
		cols.time = 3
	}
	return cols
}

// place takes columns by their places in rows without a header.
func (r *ratingRows) place(names Columns, count int, stated bool) error {
	r.format = genericCSV
	r.cols = columns{rating: -1, time: -1, count: count, want: "as in the first row"}
	if names.User == "" {
		names.User = "1"
	}
	if names.Item == "" {
		names.Item = "2"
	}
	for _, c := range []struct {
		at         *int
		name, what string
	}{{&r.cols.user, names.User, "user"}, {&r.cols.item, names.Item, "item"}, {&r.cols.rating, names.Rating, "rating"}, {&r.cols.time, names.Timestamp, "timestamp"}} {
		if c.name == "" {
			continue
		}
		at, is := position(c.name)
		switch {
		case !is:
			return fmt.Errorf("the file has no header with a column %q; say places for all columns: --columns user=1,item=2,rating=3", c.name)
		case at >= count:
			return fmt.Errorf("%s=%s: the first row has %d fields; if they are more, say what stands between them with --separator", c.what, c.name, count)
		}
		*c.at = at
	}
	sure := dataset.Certain
	if stated {
		sure = dataset.Stated
	}
	r.note("header", "none", sure, "the first row is a rating")
	r.noteColumns(nil, dataset.Stated)
	return nil
}

// noteHeader says what the columns are called.
func (r *ratingRows) noteHeader(header [][]byte, placed bool) {
	r.note("header", "first row", dataset.Certain, "it names the columns")
	sure := dataset.Certain
	if placed {
		sure = dataset.Stated
	}
	r.noteColumns(header, sure)
	r.noteFormat()
}

// noteFormat says which published set the file looks like.
func (r *ratingRows) noteFormat() {
	if r.format.name != "" {
		r.note("published set", r.format.name, dataset.Likely, fmt.Sprintf("by its columns; the scale is %s to %s", stars(r.format.min), stars(r.format.max)))
	}
}

// noteColumns says where user, item, rating and timestamp are, by name or by place.
func (r *ratingRows) noteColumns(header [][]byte, sure dataset.Sureness) {
	var list []string
	for _, c := range []struct {
		what string
		at   int
	}{{"user", r.cols.user}, {"item", r.cols.item}, {"rating", r.cols.rating}, {"timestamp", r.cols.time}} {
		switch {
		case c.at < 0:
		case header == nil:
			list = append(list, c.what+"="+strconv.Itoa(c.at+1))
		default:
			list = append(list, c.what+"="+string(header[c.at]))
		}
	}
	why := ""
	if r.cols.rating < 0 {
		why = "without a column of ratings every row is a click"
	}
	r.note("columns", strings.Join(list, ", "), sure, why)
}

// hasHeader reports whether the first record of a file, whose columns are said by their places, is a header. Its rating or time is then no
// number or date, and the next record has one.
func hasHeader(first [][]byte, b beginning, d dialect, cols columns) bool {
	if len(b.lines) < 2 {
		return cols.rating >= 0 && !isNumber(first[cols.rating])
	}
	s := scanner{dialect: d}
	next := s.cut(bytes.Clone(b.lines[1]))
	if len(next) != len(first) || slices.ContainsFunc(first, isNumber) {
		return false
	}
	if cols.rating >= 0 {
		return !isNumber(first[cols.rating]) && isNumber(next[cols.rating])
	}
	for k := range first {
		if isTime(first[k]) {
			return false
		}
		if isTime(next[k]) {
			return true
		}
	}
	return false
}

// isNumber takes a decimal comma too.
func isNumber(field []byte) bool {
	if point, is := decimalComma(field); is {
		field = point
	}
	_, err := parseRating(field)
	return err == nil
}

// isTime reports whether a field is a number or a date.
func isTime(field []byte) bool {
	_, _, err := parseTime(field)
	return err == nil
}
