package records

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dataset/files"
	"github.com/fedsim/fedsim/internal/dataset/idtext"
)

// recognize finds the format of separated text by its first record, its name and the files beside it. Without a header the record is a
// rating.
func (r *RatingRows) recognize(first [][]byte, d Dialect, b beginning, in files.Input, o Options) error {
	said, placed := o.Columns, o.Columns.placed()
	if o.NoHeader && !placed && said != (Names{}) {
		return fmt.Errorf("without a header columns have no names; say their places: --columns user=1,item=2,rating=3")
	}
	if !o.NoHeader {
		f, cols, err := parseHeader(first, said)
		if err == nil && (!placed || hasHeader(first, b, d, cols)) {
			if r.Format, r.Cols = f, cols; placed && f.Name == "" {
				r.Format = GenericCSV()
			}
			r.note("header", "first row", dataset.Certain, "it names the columns")
			r.noteColumns(first, dataset.SureIf(placed))
			r.noteFormat()
			return nil
		}
		if !placed && !errors.Is(err, errNoHeader) {
			if errors.Is(err, errLacks) && isWide(first, b, d) {
				return fmt.Errorf("%w; if it has a column for each item, write it anew with a row for each rating", err)
			}
			return err
		}
	}
	r.First = first
	if placed {
		return r.place(said, len(first), o.NoHeader)
	}
	for _, f := range formats().Headless {
		if f.is(first, d, in) {
			r.Format, r.Cols = f.fixed()
			r.note("header", "none", dataset.Certain, "rows are "+f.Layout)
			r.noteFormat()
			return nil
		}
	}
	if o.NoHeader {
		if len(first) > 2 {
			said[Rating] = "3"
		}
		if len(first) > 3 && isTime(first[3]) {
			said[Time] = "4"
		}
		return r.place(said, len(first), true)
	}
	return fmt.Errorf("%w: the first line is %s; %s, or the rows of MovieLens 100K (tabs between) or 1M and 10M (:: between)%s",
		errNoHeader, idtext.Quote(bytes.Join(first, []byte(d.sep))), WantColumns, placeHint(first, d))
}

// isWide reports whether a table may have a column for each item: all its columns but the first have numbers or nothing.
func isWide(header [][]byte, b beginning, d Dialect) bool {
	const least = 4 // fewer columns may be others
	if len(b.lines) < 2 || len(header) < least {
		return false
	}
	row := d.fieldsOf(b.lines[1])
	return len(row) == len(header) && !slices.ContainsFunc(row[1:], func(field []byte) bool { return len(field) > 0 && !isNumber(field) })
}

// placeHint says how rows without a header are read.
func placeHint(first [][]byte, d Dialect) string {
	if len(first) < 2 {
		return ""
	}
	hint := "; if it is a rating, there is no header: --columns user=1,item=2"
	if d.sep != "," {
		hint = "; its fields seem to be separated by " + nameOf(d.sep) + hint
	}
	if len(first) > 2 {
		hint += ",rating=3"
	}
	return hint
}

// is reports whether a first record, in a file, is one of the format.
func (f Format) is(first [][]byte, d Dialect, in files.Input) bool {
	switch {
	case f.Separator != d.sep, f.File != "" && f.File != files.UnpackedName(filepath.Base(in.Path)), f.Beside != "" && !in.Beside(f.Beside):
		return false
	case f.File == "" && len(first) != f.Fields:
		return false
	case f.IMDb:
		return isIMDb(first[f.At[Item]])
	case f.Dated:
		return isTime(first[f.At[Time]]) && !isNumber(first[f.At[Time]])
	}
	return true
}

// fixed returns the format and the columns of its rows, which have no header.
func (f Format) fixed() (Format, Columns) {
	return f, Columns{At: f.At, Count: f.Fields, Want: "(" + f.Layout + ")"}
}

// place takes columns by their places in rows without a header.
func (r *RatingRows) place(said Names, count int, stated bool) error {
	r.Format = GenericCSV()
	r.Cols = Columns{Count: count, Want: "as in the first row"}
	said[User], said[Item] = cmp.Or(said[User], "1"), cmp.Or(said[Item], "2")
	for i, name := range said {
		at, is := position(name)
		switch {
		case name == "":
			at = -1
		case !is:
			return fmt.Errorf("the file has no header with a column %q; say places for all columns: --columns user=1,item=2,rating=3", name)
		case at >= count:
			return fmt.Errorf("%s=%s: the first row has %d fields; if they are more, say what stands between them with --separator", kinds[i], name, count)
		}
		r.Cols.At[i] = at
	}
	r.note("header", "none", dataset.SureIf(stated), "the first row is a rating")
	r.noteColumns(nil, dataset.Stated)
	return nil
}

// noteFormat says which published set the file looks like.
func (r *RatingRows) noteFormat() {
	if r.Format.Name != "" {
		r.note("published set", r.Format.Name, dataset.Likely, fmt.Sprintf("by its columns; the scale is %s to %s", Stars(r.Format.Min), Stars(r.Format.Max)))
	}
}

// noteColumns says where user, item, rating and timestamp are, by name or by place.
func (r *RatingRows) noteColumns(header [][]byte, sure dataset.Sureness) {
	var list []string
	for i, at := range r.Cols.At {
		switch {
		case at < 0:
		case header == nil:
			list = append(list, kinds[i]+"="+strconv.Itoa(at+1))
		default:
			list = append(list, kinds[i]+"="+string(header[at]))
		}
	}
	why := ""
	if r.Cols.At[Rating] < 0 {
		why = "without a column of ratings every row is a click"
	}
	r.note("columns", strings.Join(list, ", "), sure, why)
	var unread []string
	for i, name := range header {
		if len(name) > 0 && !r.Cols.has(i) {
			unread = append(unread, string(name))
		}
	}
	if len(unread) > 0 {
		r.note("not read", strings.Join(unread, ", "), dataset.Certain, "")
	}
}

// hasHeader reports whether the first record of a file, whose columns are said by their places, is a header. Its rating or time is then no
// number or date, and the next record has one.
func hasHeader(first [][]byte, b beginning, d Dialect, cols Columns) bool {
	if len(b.lines) < 2 {
		return cols.At[Rating] >= 0 && !isNumber(first[cols.At[Rating]])
	}
	next := d.fieldsOf(b.lines[1])
	if len(next) != len(first) || slices.ContainsFunc(first, isNumber) {
		return false
	}
	if cols.At[Rating] >= 0 {
		truth, below := TruthOf(first[cols.At[Rating]]), TruthOf(next[cols.At[Rating]]) // a column of yes and no may be called like
		return !isNumber(first[cols.At[Rating]]) && (isNumber(next[cols.At[Rating]]) || below != 0 && truth != below && truth != -below)
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
	if point, is := DecimalComma(field); is {
		field = point
	}
	_, err := ParseRating(field)
	return err == nil
}

// isTime reports whether a field is a number or a date.
func isTime(field []byte) bool {
	_, err := ParseTime(field)
	return err == nil
}
