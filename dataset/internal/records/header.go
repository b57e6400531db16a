package records

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Options say how a text is written, where the caller knows. The zero value finds out.
type Options struct {
	Columns   Names
	Separator string // between fields
	NoHeader  bool   // the first row is a rating
}

// Names are the names of the columns of a file, where it has others than its format. "" leaves a column the name that the
// format gives it. A whole number that names no column is the place of one, from 1.
type Names struct{ User, Item, Rating, Time string }

const (
	ratingColumn = "rating"
	timeColumn   = "timestamp"
)

// Columns says where the fields of a record stand.
type Columns struct {
	User, Item int
	Rating     int // -1 without ratings: each record is a click
	Time       int // -1 without timestamps
	Count      int
	Want       string // completes "N fields, want COUNT "
}

// positions counts the columns that are said by their place.
func (c Names) positions() int {
	n := 0
	for _, name := range []string{c.User, c.Item, c.Rating, c.Time} {
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
func (c Names) formats() []Format {
	if c.User == "" && c.Item == "" {
		return headed
	}
	var list []Format
	for _, known := range headed {
		f := GenericCSV
		f.User, f.Item = cmp.Or(c.User, known.User), cmp.Or(c.Item, known.Item)
		list = append(list, f)
	}
	for _, known := range publishedHeaders { // what is named may be half of what it has
		f := GenericCSV
		f.User, f.Item, f.rating, f.time = cmp.Or(c.User, known.User), cmp.Or(c.Item, known.Item), known.rating, known.time
		list = append(list, f)
	}
	return list
}

// parseHeader recognizes a format by its columns, in any order, in upper or lower
// case, among others. The error of a record that names none is errNoHeader.
func parseHeader(header [][]byte, c Names) (Format, Columns, error) {
	header = untyped(header)
	if f, cols, found := publishedHeader(header, c); found {
		return f, cols, nil
	}
	var least []string // missing from the format that lacks the least
	named := c != Names{}
	for _, f := range c.formats() {
		cols, missing, err := findColumns(header, f, c)
		if err != nil {
			return Format{}, Columns{}, err
		}
		if len(missing) == 0 {
			return f, cols, nil
		}
		named = named || len(missing) == 1 || cols.Rating >= 0
		if least == nil || len(missing) < len(least) {
			least = missing
		}
	}
	if !named {
		return Format{}, Columns{}, errNoHeader
	}
	want := WantColumns
	if c != (Names{}) {
		want = "its columns are " + string(bytes.Join(header, []byte(", ")))
	}
	return Format{}, Columns{}, fmt.Errorf("%w %s; %s", errLacks, strings.Join(least, " and "), want)
}

// publishedHeader recognizes the header of a published set, whose columns the caller may name as they are.
func publishedHeader(header [][]byte, c Names) (Format, Columns, bool) {
	for _, f := range publishedHeaders {
		same := func(stated, own string) bool { return stated == "" || strings.EqualFold(stated, own) }
		if !same(c.User, f.User) || !same(c.Item, f.Item) || !same(c.Rating, f.rating) || !same(c.Time, cmp.Or(f.time, timeColumn)) {
			continue
		}
		if cols, missing, err := findColumns(header, f, c); err == nil && len(missing) == 0 && cols.Rating >= 0 {
			return f, cols, true
		}
	}
	return Format{}, Columns{}, false
}

// findColumns finds the columns of a format, and lists the columns that the header lacks. A file
// without a column of ratings is a file of clicks. Its timestamps may be missing too, unless the
// options ask for them by name.
func findColumns(header [][]byte, f Format, c Names) (cols Columns, missing []string, err error) {
	cols = Columns{Count: len(header), Want: "as in the header"}
	for _, column := range []struct {
		at     *int
		name   string
		needed bool
	}{
		{&cols.User, f.User, true},
		{&cols.Item, f.Item, true},
		{&cols.Rating, cmp.Or(c.Rating, f.rating, ratingColumn), c.Rating != "" || f.rating != ""},
		{&cols.Time, cmp.Or(c.Time, f.time, timeColumn), c.Time != ""},
	} {
		if *column.at, err = FindColumn(header, column.name); err != nil {
			return Columns{}, nil, err
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

// FindColumn returns where a header names a column, -1 when it does not.
func FindColumn(header [][]byte, name string) (at int, err error) {
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

// errLacks is the error of a header without a column that every row needs.
var errLacks = errors.New("header lacks")
