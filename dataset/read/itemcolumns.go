package read

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/internal/idtext"
	"github.com/fedsim/fedsim/dataset/internal/records"
)

// itemsCSV lists items beside ratings of a format without a list of its own.
var itemsCSV = itemFormat{file: "items.csv", id: "item", dialect: records.Commas}

// maxItemColumns bounds what a file of a few items can make of memory.
const maxItemColumns = 64

// named is the format of an items.csv with this header: what it calls the items is one of
// the names.
func (f *itemFormat) named(header [][]byte, names []string) (*itemFormat, error) {
	out := *f
	out.fields, out.layout = len(header), " as in the header"
	at := map[string]int{}
	for i, field := range header {
		if isIndex(field) {
			continue
		}
		name := strings.ToLower(string(field))
		if _, twice := at[name]; twice {
			return nil, fmt.Errorf("header names column %q twice; keep one", name)
		}
		if err := idtext.Check(field); err != nil {
			return nil, fmt.Errorf("the name of column %d %w", i+1, err)
		}
		at[name] = i
	}
	id := -1
	for _, name := range names {
		if i, ok := at[strings.ToLower(name)]; ok {
			id = i
			break
		}
	}
	if id < 0 {
		return nil, fmt.Errorf("header lacks a column with the ids of items; want one of %s", strings.Join(names, ", "))
	}
	if len(header) > maxItemColumns {
		return nil, fmt.Errorf("header has %d columns; at most %d are supported", len(header), maxItemColumns)
	}
	out.id = string(header[id])
	out.at = &itemColumns{id: id, title: -1, genres: -1, year: -1}
	for i, field := range header {
		switch name := strings.ToLower(string(field)); {
		case i == id || isIndex(field):
		case name == "title":
			out.at.title = i
		case name == "genres":
			out.at.genres = i
		case name == "year":
			out.at.year = i
		default:
			out.at.others = append(out.at.others, i)
			out.columns = append(out.columns, string(field))
		}
	}
	return &out, nil
}

// isIndex reports whether a column numbers the rows, as pandas writes them, and says nothing of the items.
func isIndex(name []byte) bool { return len(name) == 0 || bytes.HasPrefix(name, []byte("Unnamed: ")) }

// itemColumns says where the fields of an items.csv stand; -1 for a column that is not there.
type itemColumns struct {
	id, title, genres, year int
	others                  []int
}

// describe reads what a row of an items.csv says beyond the id.
func (c *itemColumns) describe(to *features, i int32, record [][]byte) error {
	for _, field := range record {
		if !utf8.Valid(field) {
			return fmt.Errorf("%s %w", idtext.Quote(field), idtext.ErrNotUTF8)
		}
	}
	if c.title >= 0 {
		to.titles[i] = string(record[c.title])
		to.years[i] = yearOf(to.titles[i])
	}
	if c.genres >= 0 {
		if to.genres[i] = listed(record[c.genres]); len(to.genres[i]) == 1 && to.genres[i][0] == noGenres {
			to.genres[i] = nil
		}
	}
	if c.year >= 0 && len(record[c.year]) > 0 {
		year, err := strconv.ParseFloat(string(record[c.year]), 64) // pandas writes 1995.0 where some are missing
		if err != nil || year != float64(int(year)) || year < -9999 || year > 9999 {
			return fmt.Errorf("year %s is not a whole number from -9999 to 9999", idtext.Quote(record[c.year]))
		}
		to.years[i] = int(year)
	}
	for k, at := range c.others {
		to.columns[k].Values[i] = listed(record[at])
	}
	return nil
}

// listed are the values of a field with | between; none of an empty one.
func listed(field []byte) []string {
	var list []string
	for value := range strings.SplitSeq(string(field), "|") {
		if value = strings.TrimSpace(value); value != "" && !slices.Contains(list, value) {
			list = append(list, value)
		}
	}
	return list
}

// grow makes room for one more item.
func (f *features) grow() {
	f.titles, f.genres, f.years = append(f.titles, ""), append(f.genres, nil), append(f.years, 0)
	for k := range f.columns {
		f.columns[k].Values = append(f.columns[k].Values, nil)
	}
}

// errNoItemID is returned for a list of items with an empty header.
var errNoItemID = errors.New("the file is empty; its first line must be a header with a column of item ids")

// IDs reads a list of ids, one a line, by the rule of [dataset.ParseID]. An id that stands twice is an error, and so is a
// list without ids. A blank line before the last id is an error unless gaps allows it: where places in a list count, such
// a line would be a place.
func IDs(path string, gaps bool) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var ids []string
	lines := make(map[string]int)
	number, blank := 0, 0
	for line := range bytes.Lines(text) {
		number++
		if len(bytes.Trim(line, " \t\r\n\ufeff")) == 0 {
			if blank == 0 {
				blank = number
			}
			continue
		}
		id, err := idtext.Parse(line)
		switch before := lines[string(id)]; {
		case err != nil:
			return nil, &dataset.FileError{File: path, Line: number, Err: fmt.Errorf("an id %w", err)}
		case blank > 0 && !gaps:
			return nil, &dataset.FileError{File: path, Line: blank, Err: fmt.Errorf("the line is empty; an id is needed on each")}
		case before > 0:
			return nil, &dataset.FileError{File: path, Line: number, Err: fmt.Errorf("the id %q stands on line %d already; keep one of the two", id, before)}
		}
		lines[string(id)] = number
		ids = append(ids, string(id))
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("%s holds no id; one a line is needed", path)
	}
	return ids, nil
}
