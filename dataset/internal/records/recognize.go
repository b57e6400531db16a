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
	"github.com/fedsim/fedsim/dataset/internal/files"
	"github.com/fedsim/fedsim/dataset/internal/idtext"
)

// recognize finds the format of separated text by its first record, its name and the files beside it. Without a header the record is a
// rating.
func (r *RatingRows) recognize(first [][]byte, d Dialect, b beginning, in files.Input, o Options) error {
	said, placed := o.Columns, o.Columns.positions() > 0
	if o.NoHeader && !placed && said != (Names{}) {
		return fmt.Errorf("without a header columns have no names; say their places: --columns user=1,item=2,rating=3")
	}
	if !o.NoHeader {
		f, cols, err := parseHeader(first, said)
		if err == nil && (!placed || hasHeader(first, b, d, cols)) {
			if r.Format, r.Cols = f, cols; placed && f.Name == "" {
				r.Format = GenericCSV
			}
			r.note("header", "first row", dataset.Certain, "it names the columns")
			sure := dataset.Certain
			if placed {
				sure = dataset.Stated
			}
			r.noteColumns(first, sure)
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
	for _, f := range headless {
		if f.is(first, d, in) {
			r.Format, r.Cols = f, f.columns()
			r.note("header", "none", dataset.Certain, "rows are "+f.layout)
			r.noteFormat()
			return nil
		}
	}
	if o.NoHeader {
		said = Names{User: "1", Item: "2"}
		if len(first) > 2 {
			said.Rating = "3"
		}
		if len(first) > 3 && isTime(first[3]) {
			said.Time = "4"
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
func (f Format) is(first [][]byte, d Dialect, in files.Input) bool {
	named := f.file == "" || f.file == files.UnpackedName(filepath.Base(in.Path))
	switch {
	case f.dialect.sep != d.sep, !named, f.Beside != "" && !in.Beside(f.Beside):
		return false
	case (f.IDs != nil || f.dated || f.dialect == tabs && f.file == "") && len(first) != f.Fields:
		return false
	case f.IDs != nil && !f.IDs(first):
		return false
	case f.dated:
		_, _, err := ParseTime(first[f.at[3]])
		return err == nil && !isNumber(first[f.at[3]])
	}
	return true
}

// columns says where the columns of a format without a header stand.
func (f Format) columns() Columns {
	cols := Columns{User: 0, Item: 1, Rating: 2, Time: -1, Count: f.Fields, Want: "(" + f.layout + ")"}
	switch {
	case f.at != nil:
		cols.User, cols.Item, cols.Rating, cols.Time = f.at[0], f.at[1], f.at[2], f.at[3]
	case f.Fields > 3:
		cols.Time = 3
	}
	return cols
}

// place takes columns by their places in rows without a header.
func (r *RatingRows) place(said Names, count int, stated bool) error {
	r.Format = GenericCSV
	r.Cols = Columns{Rating: -1, Time: -1, Count: count, Want: "as in the first row"}
	said.User, said.Item = cmp.Or(said.User, "1"), cmp.Or(said.Item, "2")
	for _, c := range []struct {
		at         *int
		name, what string
	}{{&r.Cols.User, said.User, "user"}, {&r.Cols.Item, said.Item, "item"}, {&r.Cols.Rating, said.Rating, "rating"}, {&r.Cols.Time, said.Time, "timestamp"}} {
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

// noteFormat says which published set the file looks like.
func (r *RatingRows) noteFormat() {
	if r.Format.Name != "" {
		r.note("published set", r.Format.Name, dataset.Likely, fmt.Sprintf("by its columns; the scale is %s to %s", Stars(r.Format.Min), Stars(r.Format.Max)))
	}
}

// noteColumns says where user, item, rating and timestamp are, by name or by place.
func (r *RatingRows) noteColumns(header [][]byte, sure dataset.Sureness) {
	var list []string
	for _, c := range []struct {
		what string
		at   int
	}{{"user", r.Cols.User}, {"item", r.Cols.Item}, {"rating", r.Cols.Rating}, {"timestamp", r.Cols.Time}} {
		switch {
		case c.at < 0:
		case header == nil:
			list = append(list, c.what+"="+strconv.Itoa(c.at+1))
		default:
			list = append(list, c.what+"="+string(header[c.at]))
		}
	}
	why := ""
	if r.Cols.Rating < 0 {
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
		return cols.Rating >= 0 && !isNumber(first[cols.Rating])
	}
	next := d.fieldsOf(b.lines[1])
	if len(next) != len(first) || slices.ContainsFunc(first, isNumber) {
		return false
	}
	if cols.Rating >= 0 {
		_, truth := ParseTruth(first[cols.Rating])
		_, below := ParseTruth(next[cols.Rating])
		return !isNumber(first[cols.Rating]) && (isNumber(next[cols.Rating]) || below && !truth)
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
	_, _, err := ParseTime(field)
	return err == nil
}

// The formats of files whose lines hold several ratings, or none.
var (
	netflix = Format{Name: "Netflix Prize", User: "customer", Item: "movie", Min: 1, Max: 5, Items: "items.csv"}
	jester  = Format{Name: "Jester", User: "row", Item: "column", Min: -10, Max: 10, Unrated: []float64{99}}
	listed1 = Format{User: "user", Item: "item", Min: 0, Max: 1, Items: "items.csv"}
)

// blockRows are ratings below a line with their item, as "1:".
type blockRows struct {
	*Scanner
	item   []byte
	fields [][]byte
}

// isBlockHead reports whether a line is a number and a colon.
func isBlockHead(line []byte) bool {
	number, colon := bytes.CutSuffix(line, []byte(":"))
	return colon && len(number) > 0 && len(bytes.Trim(number, "0123456789")) == 0
}

// openBlocks opens the form of the Netflix Prize: movies, and below each the customers who rated it.
func openBlocks(s *Scanner, _ files.Input, o Options) (RatingRows, error) {
	s.Dialect = Dialect{sep: ","}
	b := &blockRows{Scanner: s}
	out := RatingRows{Rows: b, Format: netflix, Cols: Columns{User: 0, Item: 1, Rating: 2, Time: 3, Count: 4, Want: "(customer,rating,date below a line MOVIE:)"}}
	if o.Columns != (Names{}) {
		s.Line = 1
		return out, errors.New("the file has a line for each item, as 1:, and rows of user, rating and date below it; it has no columns to name, leave --columns out")
	}
	out.note("format", "blocks", dataset.Certain, "the first line is an item and a colon, and ratings of it follow")
	out.noteFormat()
	return out, nil
}

func (b *blockRows) Next() ([][]byte, error) {
	for {
		record, err := b.Scanner.Next()
		if err != nil {
			return nil, err
		}
		if len(record) == 1 && isBlockHead(record[0]) {
			b.item = append(b.item[:0], record[0][:len(record[0])-1]...)
			continue
		}
		if len(record) == 2 {
			record = append(record, nil)
		}
		if len(record) != 3 {
			return record, nil // the table says what is wrong
		}
		b.fields = append(b.fields[:0], record[0], b.item, record[1], record[2])
		return b.fields, nil
	}
}

// listRows are lines of a user and all its items, with spaces between: the form of LightGCN.
type listRows struct {
	*Scanner
	user   []byte
	items  [][]byte
	fields [2][]byte
}

// isLists reports whether lines are lists of whole numbers, of different lengths.
func isLists(lines [][]byte) bool {
	alike := true
	first := -1
	for _, line := range lines {
		fields := bytes.Fields(line)
		for _, field := range fields {
			if len(bytes.Trim(field, "0123456789")) > 0 {
				return false
			}
		}
		alike = alike && (first < 0 || len(fields) == first)
		first = len(fields)
	}
	return !alike
}

func (l *listRows) Next() ([][]byte, error) {
	for len(l.items) == 0 {
		record, err := l.Scanner.Next()
		if err != nil {
			return nil, err
		}
		l.user, l.items = record[0], record[1:]
	}
	l.fields, l.items = [2][]byte{l.user, l.items[0]}, l.items[1:]
	return l.fields[:], nil
}

// denseRows are lines of one user each, as Jester has them, with a column for each item behind a column with the count of the ratings.
type denseRows struct {
	*Scanner
	user   []byte
	record [][]byte
	next1  int
	number []byte
	fields [][]byte
}

// isDense reports whether lines have the form of Jester: numbers from -10 to 10 or 99, behind their count.
func isDense(lines [][]byte, d Dialect) bool {
	for _, line := range lines {
		fields := d.fieldsOf(line)
		if len(fields) < 4 {
			return false
		}
		rated := 0
		for _, field := range fields[1:] {
			v, err := strconv.ParseFloat(string(field), 64)
			if err != nil || v != 99 && (v < -10 || v > 10) {
				return false
			}
			if v != 99 {
				rated++
			}
		}
		if count, err := strconv.Atoi(string(fields[0])); err != nil || count != rated {
			return false
		}
	}
	return len(lines) > 0
}

func (d *denseRows) Next() ([][]byte, error) {
	if d.next1 >= len(d.record) {
		record, err := d.Scanner.Next()
		if err != nil {
			return nil, err
		}
		d.record, d.next1 = record, 1
		d.user = strconv.AppendInt(d.user[:0], int64(d.Line), 10)
		if len(record) < 2 {
			return record, nil // the table says what is wrong
		}
	}
	d.number = strconv.AppendInt(d.number[:0], int64(d.next1), 10)
	d.fields = append(d.fields[:0], d.user, d.number, d.record[d.next1])
	d.next1++
	return d.fields, nil
}
