package read

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Columns are the names of the columns of a file, where it has others than its format. ""
// leaves a column the name that the format gives it. A whole number that names no column is the place of one, from 1.
type Columns struct {
	User, Item, Rating, Timestamp string
	// Label makes the file one of a regression, with this label: User may then name the column of the examples' ids, and every
	// other one holds features.
	Label string
	// Private are the names of columns with private features of a regression, with + between.
	Private string
}

// privates are the names of private features.
func (c Columns) privates() []string {
	return strings.FieldsFunc(c.Private, func(r rune) bool { return r == '+' })
}

// ParseColumns reads pairs with commas between, such as "user=visitor,item=sku". Names are
// user, item, rating and timestamp, or of a regression label and perhaps user and private. The empty text names none.
func ParseColumns(text string) (Columns, error) {
	var c Columns
	if strings.TrimSpace(text) == "" {
		return c, nil
	}
	for pair := range strings.SplitSeq(text, ",") {
		what, name, paired := strings.Cut(pair, "=")
		what, name = strings.TrimSpace(what), strings.TrimSpace(name)
		to := map[string]*string{"user": &c.User, "item": &c.Item, "rating": &c.Rating, "timestamp": &c.Timestamp, "label": &c.Label, "private": &c.Private}[what]
		switch {
		case !paired || to == nil || name == "":
			return Columns{}, fmt.Errorf("%q is not one of user=NAME, item=NAME, rating=NAME, timestamp=NAME, label=NAME, private=NAME+NAME; a number in place of a name is the place of the column, from 1", strings.TrimSpace(pair))
		case *to != "":
			return Columns{}, fmt.Errorf("%s is named twice, %q and %q; keep one", what, *to, name)
		}
		*to = name
	}
	if c.Private != "" && c.Label == "" {
		return Columns{}, fmt.Errorf("private=%s is of a regression; say which column has the label: label=NAME", c.Private)
	}
	if c.Label != "" && (c.Item != "" || c.Rating != "" || c.Timestamp != "") {
		return Columns{}, fmt.Errorf("label=%s is of a regression, whose other columns are features; beside it only user=NAME, the id of an example, and private=NAME+NAME say something", c.Label)
	}
	return c, nil
}

const (
	ratingColumn = "rating"
	timeColumn   = "timestamp"
)

// columns says where the fields of a record stand.
type columns struct {
	user, item int
	rating     int // -1 without ratings: each record is a click
	time       int // -1 without timestamps
	count      int
	want       string // completes "N fields, want COUNT "
}

// positions counts the columns that are said by their place.
func (c Columns) positions() int {
	n := 0
	for _, name := range []string{c.User, c.Item, c.Rating, c.Timestamp} {
		if _, is := position(name); is {
			n++
		}
	}
	return n
}

// position is the place of a column, from 0, where a number says it.
func position(name string) (int, bool) {
	n, err := strconv.Atoi(name)
	return n - 1, err == nil && n >= 1 && n <= maxPosition
}

// maxPosition is the last column that a number can say.
const maxPosition = 10_000

// formats are the formats with a header, with a file's own names in them. A file that has a name of its own is no MovieLens
// file, though its other columns may be called as in one.
func (c Columns) formats() []format {
	if c.User == "" && c.Item == "" {
		return headed
	}
	var list []format
	for _, known := range headed {
		f := genericCSV
		f.user, f.item = cmp.Or(c.User, known.user), cmp.Or(c.Item, known.item)
		list = append(list, f)
	}
	for _, known := range publishedHeaders { // what is named may be half of what it has
		f := genericCSV
		f.user, f.item, f.rating, f.time = cmp.Or(c.User, known.user), cmp.Or(c.Item, known.item), known.rating, known.time
		list = append(list, f)
	}
	return list
}

// parseHeader recognizes a format by its columns, in any order, in upper or lower
// case, among others. The error of a record that names none is errNoHeader.
func parseHeader(header [][]byte, c Columns) (format, columns, error) {
	header = untyped(header)
	if f, cols, found := publishedHeader(header, c); found {
		return f, cols, nil
	}
	var least []string // missing from the format that lacks the least
	named := c != Columns{}
	for _, f := range c.formats() {
		cols, missing, err := findColumns(header, f, c)
		if err != nil {
			return format{}, columns{}, err
		}
		if len(missing) == 0 {
			return f, cols, nil
		}
		named = named || len(missing) == 1 || cols.rating >= 0
		if least == nil || len(missing) < len(least) {
			least = missing
		}
	}
	if !named {
		return format{}, columns{}, errNoHeader
	}
	want := wantColumns
	if c != (Columns{}) {
		want = "its columns are " + string(bytes.Join(header, []byte(", ")))
	}
	return format{}, columns{}, fmt.Errorf("header lacks %s; %s", strings.Join(least, " and "), want)
}

// publishedHeader recognizes the header of a published set, whose columns the caller may name as they are.
func publishedHeader(header [][]byte, c Columns) (format, columns, bool) {
	for _, f := range publishedHeaders {
		same := func(stated, own string) bool { return stated == "" || strings.EqualFold(stated, own) }
		if !same(c.User, f.user) || !same(c.Item, f.item) || !same(c.Rating, f.rating) || !same(c.Timestamp, cmp.Or(f.time, timeColumn)) {
			continue
		}
		if cols, missing, err := findColumns(header, f, c); err == nil && len(missing) == 0 && cols.rating >= 0 {
			return f, cols, true
		}
	}
	return format{}, columns{}, false
}

// findColumns finds the columns of a format, and lists the columns that the header lacks. A file
// without a column of ratings is a file of clicks. Its timestamps may be missing too, unless the
// options ask for them by name.
func findColumns(header [][]byte, f format, c Columns) (cols columns, missing []string, err error) {
	cols = columns{count: len(header), want: "as in the header"}
	for _, column := range []struct {
		at     *int
		name   string
		needed bool
	}{
		{&cols.user, f.user, true},
		{&cols.item, f.item, true},
		{&cols.rating, cmp.Or(c.Rating, f.rating, ratingColumn), c.Rating != "" || f.rating != ""},
		{&cols.time, cmp.Or(c.Timestamp, f.time, timeColumn), c.Timestamp != ""},
	} {
		if *column.at, err = findColumn(header, column.name); err != nil {
			return columns{}, nil, err
		}
		if *column.at < 0 && column.needed {
			missing = append(missing, strconv.Quote(column.name))
		}
	}
	return cols, missing, nil
}

// untyped are the names of a header of RecBole, which are followed by a type: user_id:token.
func untyped(header [][]byte) [][]byte {
	out := make([][]byte, len(header))
	for i, name := range header {
		out[i] = name
		for _, kind := range []string{":token", ":float", ":token_seq", ":float_seq"} {
			if short, typed := bytes.CutSuffix(name, []byte(kind)); typed && len(short) > 0 {
				out[i] = short
			}
		}
	}
	return out
}

// findColumn returns where a header names a column, -1 when it does not.
func findColumn(header [][]byte, name string) (at int, err error) {
	at = -1
	for i, field := range header {
		if strings.EqualFold(string(field), name) {
			if at >= 0 {
				return at, fmt.Errorf("header names column %q twice; keep one, or say places: --columns user=1,item=2,rating=3", name)
			}
			at = i
		}
	}
	if place, is := position(name); at < 0 && is && place < len(header) {
		at = place
	}
	return at, nil
}

var errNoHeader = errors.New("no header")
