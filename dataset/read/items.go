package read

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dataset/files"
	"github.com/fedsim/fedsim/internal/dataset/idtext"
	"github.com/fedsim/fedsim/internal/dataset/records"
	"github.com/fedsim/fedsim/internal/lists"
)

// catalogue is the content of a list of items.
type catalogue struct {
	items   []item   // by number; of all items that have ratings or are listed
	columns []string // names of the further columns
	notices []dataset.Notice
}

// item describes one item by its row of a list.
type item struct {
	line   int // in the list; 0 of an item that is not listed
	title  string
	genres []string
	year   int
	others [][]string // the values in each further column
}

// itemFormat is a kind of file that lists items and describes them.
type itemFormat struct {
	file    string // its name, beside the ratings
	id      string // what it calls the id
	dialect records.Dialect
	header  string // the usual one; "" for any
	fields  int    // of a row; 0 until the header says it
	layout  string // the fields of a row, for messages
	latin1  bool   // text that is not UTF-8 is ISO 8859-1
	flags   bool   // genres are flags at the end of the row

	at itemColumns
}

// itemColumns says where the fields of a row stand; -1 for a field that is not there.
type itemColumns struct {
	id, title, genres, year int
	others                  []int
}

// itemFormats are all formats of lists of items. A format of ratings names the file of its list. The last takes a file of any name.
var itemFormats = []itemFormat{
	{file: "movies.csv", header: "movieId,title,genres"},
	// MovieLens 1M writes ISO 8859-1, 10M UTF-8.
	{
		file: "movies.dat", id: "MovieID", dialect: records.Colons, fields: 3, at: itemColumns{title: 1, genres: 2, year: -1},
		layout: " (MovieID::Title::Genres)", latin1: true,
	},
	{
		file: "u.item", id: "movie id", dialect: records.Pipes, fields: 5 + len(flaggedGenres), at: itemColumns{title: 1, genres: -1, year: -1},
		layout: " (movie id | title | release date | video release date | IMDb URL | 19 genre flags)", latin1: true, flags: true,
	},
	{file: "items.csv"},
}

// itemFormatOf returns the format of the list in a file of this name, or else the format of items.csv.
func itemFormatOf(file string) (f itemFormat, known bool) {
	at := slices.IndexFunc(itemFormats, func(f itemFormat) bool { return f.file == file })
	if at < 0 {
		return itemFormats[len(itemFormats)-1], false
	}
	return itemFormats[at], true
}

// flaggedGenres are the genres of u.item in the order of their flags (README of
// MovieLens 100K). The first, which says that the genre is unknown, is none.
var flaggedGenres = [...]string{
	"", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama", "Fantasy",
	"Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western",
}

var titleYear = regexp.MustCompile(`\((\d{4})\)\s*$`)

// noGenres marks a movie without genres in MovieLens.
const noGenres = "(no genres listed)"

// maxItemColumns bounds what a file of a few items can make of memory.
const maxItemColumns = 64

// Items opens a list of items: a file, or the movies.csv, movies.dat, u.item or items.csv of a folder. A file of another name is read like
// items.csv. An organisation without ratings reads its catalogue so: the set has no ratings and no users. Its items and features equal, in
// order, what [Open] finds where the list contains every rated item. Of the options Items uses the scale and Columns.Item alone.
func Items(ctx context.Context, path string, o Options) (*dataset.Set, error) {
	d, file := files.DiskFolder(path), ""
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		d, file = files.DiskFolder(filepath.Dir(path)), filepath.Base(path)
	}
	f, err := findItems(d, file)
	if err != nil {
		return nil, err
	}
	setMin, setMax, err := dataset.ScaleOr(o.Min, o.Max, f.Min, f.Max)
	if err != nil {
		return nil, err
	}
	r, _, err := d.Open(f.Items)
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // read-only: nothing can be lost
	var items idtext.Table
	list, _ := itemFormatOf(f.Items)
	listed, err := list.read(ctx, d.Path(f.Items), r, &items, o.itemNames(f))
	if err != nil {
		return nil, err
	}
	ids, rank := items.Canonical()
	if len(ids) == 0 {
		return nil, fmt.Errorf("%s lists no items", d.Path(f.Items))
	}
	set := &dataset.Set{Name: files.BaseName(path), Min: setMin, Max: setMax, Ratings: dataset.Ratings{Items: len(ids)}, ItemIDs: ids}
	listed.describe(set, rank)
	set.Digest = set.ComputeDigest()
	return set, nil
}

// itemNames returns the names that the id column of an items.csv may have.
func (o Options) itemNames(f records.Format) []string {
	var names []string
	for _, name := range []string{o.Columns.Item, f.Columns[records.Item], "item", "item_id", "itemId", "movie_id", "id"} {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// findItems returns the format whose file of items a folder has, or the format of the named file.
func findItems(d files.DiskFolder, named string) (records.Format, error) {
	like, _ := itemFormatOf(named)
	var found []records.Format
	var held []string
	for _, f := range records.WithItems() {
		if named != "" {
			if f.Items != like.file {
				continue
			}
			f.Items = named
		}
		if d.Has(f.Items) && (f.Beside == "" || d.Has(f.Beside)) && !slices.Contains(held, f.Items) { // of formats with one file of items, the first that fits wins
			found, held = append(found, f), append(held, f.Items)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		if err := d.Readable(); err != nil {
			return records.Format{}, err
		}
		return records.Format{}, fmt.Errorf("%s: no list of items: looked in it for movies.csv, movies.dat, u.item, items.csv", d)
	default:
		return records.Format{}, fmt.Errorf("%s holds %s; keep one", d, strings.Join(held, " and "))
	}
}

// read reads a list of items. It adds items without a rating to the ids. names lists the names that the id column may have where a header
// names the columns.
func (f itemFormat) read(ctx context.Context, file string, r io.Reader, ids *idtext.Table, names []string) (*catalogue, error) {
	c := &catalogue{items: make([]item, len(ids.Names))}
	s := records.NewScanner(ctx, r, f.dialect, nil)
	if f.fields == 0 {
		var header [][]byte
		var found []dataset.Finding
		var err error
		s, header, found, err = openHeaded(ctx, files.Input{ReadCloser: io.NopCloser(r), Path: file}, "", names)
		if err != nil {
			return nil, err
		}
		c.notices = likelyNotices(found)
		c.columns, err = f.settle(header, names)
		if err != nil && f.header != "" {
			err = fmt.Errorf("no header; want the first line to be %s", f.header)
		}
		if err != nil {
			return nil, s.Locate(file, err)
		}
	}
	return c, eachRow(s, file, func(row [][]byte, line int) error { return f.add(c, row, ids, line) })
}

// settle finds the columns of a list by its header: the id is called by one of the names. It returns the names of the further columns.
func (f *itemFormat) settle(header [][]byte, names []string) ([]string, error) {
	if len(header) == 0 {
		return nil, errors.New("the file is empty; its first line must be a header with a column of item ids")
	}
	if len(header) > maxItemColumns {
		return nil, fmt.Errorf("header has %d columns; at most %d are supported", len(header), maxItemColumns)
	}
	at := map[string]int{}
	for i, field := range header {
		if len(field) == 0 || bytes.HasPrefix(field, []byte("Unnamed: ")) { // a column of pandas that numbers the rows
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
	take := func(names ...string) int {
		for _, name := range names {
			if i, ok := at[strings.ToLower(name)]; ok {
				delete(at, strings.ToLower(name))
				return i
			}
		}
		return -1
	}
	if f.at.id = take(names...); f.at.id < 0 {
		return nil, fmt.Errorf("header lacks a column with the ids of items; want one of %s", strings.Join(names, ", "))
	}
	f.id, f.fields, f.layout = string(header[f.at.id]), len(header), " as in the header"
	if strings.EqualFold(string(bytes.Join(header, []byte(","))), f.header) {
		f.layout = ": " + f.header + "; a title with a comma must be quoted"
	}
	f.at.title, f.at.genres, f.at.year = take("title"), take("genres"), take("year")
	f.at.others = slices.Sorted(maps.Values(at))
	return lists.Map(f.at.others, func(i int) string { return string(header[i]) }), nil
}

// add stores one item, under its number or under a new one.
func (f *itemFormat) add(to *catalogue, record [][]byte, ids *idtext.Table, line int) error {
	if len(record) != f.fields {
		return fmt.Errorf("%d fields, want %d%s", len(record), f.fields, f.layout)
	}
	id, err := idtext.Parse(record[f.at.id])
	var i int32
	if err == nil {
		i, err = ids.Index(id)
	}
	if err != nil {
		return fmt.Errorf("%s %w", f.id, err)
	}
	if int(i) == len(to.items) {
		to.items = append(to.items, item{})
	}
	about := &to.items[i]
	if about.line != 0 {
		return fmt.Errorf("%s %q was described on line %d already; keep one of the two", f.id, id, about.line)
	}
	about.line = line
	return f.describe(about, record)
}

// describe reads what a row says beyond the id.
func (f *itemFormat) describe(to *item, record [][]byte) (err error) {
	for i, field := range record {
		if record[i], err = f.text(field); err != nil {
			return err
		}
	}
	if f.at.title >= 0 {
		to.title = string(record[f.at.title])
		if match := titleYear.FindStringSubmatch(to.title); match != nil {
			to.year, _ = strconv.Atoi(match[1]) // four digits: cannot fail
		}
	}
	switch {
	case f.flags:
		if to.genres, err = genreFlags(record); err != nil {
			return err
		}
	case f.at.genres >= 0 && string(record[f.at.genres]) != noGenres:
		to.genres = listed(record[f.at.genres])
	}
	if f.at.year >= 0 && len(record[f.at.year]) > 0 {
		year, err := strconv.ParseFloat(string(record[f.at.year]), 64) // pandas writes 1995.0 where some are missing
		if err != nil || year != float64(int(year)) || year < -9999 || year > 9999 {
			return fmt.Errorf("year %s is not a whole number from -9999 to 9999", idtext.Quote(record[f.at.year]))
		}
		to.year = int(year)
	}
	to.others = lists.Map(f.at.others, func(at int) []string { return listed(record[at]) })
	return nil
}

// text returns a field as UTF-8.
func (f *itemFormat) text(field []byte) ([]byte, error) {
	switch {
	case utf8.Valid(field):
		return field, nil
	case !f.latin1:
		return nil, fmt.Errorf("%s %w", idtext.Quote(field), idtext.ErrNotUTF8)
	}
	return charmap.ISO8859_1.NewDecoder().Bytes(field)
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

// genreFlags reads the flags of u.item.
func genreFlags(record [][]byte) ([]string, error) {
	var list []string
	for i, flag := range record[len(record)-len(flaggedGenres):] {
		switch {
		case string(flag) == "1" && flaggedGenres[i] != "":
			list = append(list, flaggedGenres[i])
		case string(flag) != "0" && string(flag) != "1":
			return nil, fmt.Errorf("genre flag %d is %s; want 0 or 1", i+1, idtext.Quote(flag))
		}
	}
	return list, nil
}

// describe gives a set the features of the items. Item i of the list is item rank[i] of the set, which may have more items.
func (c *catalogue) describe(set *dataset.Set, rank []int32) {
	if c == nil {
		return
	}
	set.Titles, set.Genres, set.Years = make([]string, len(rank)), make([][]string, len(rank)), make([]int, len(rank))
	for _, name := range c.columns {
		set.Columns = append(set.Columns, dataset.ItemColumn{Name: name, Values: make([][]string, len(rank))})
	}
	for i, about := range c.items {
		to := rank[i]
		set.Titles[to], set.Genres[to], set.Years[to] = about.title, about.genres, about.year
		for k, values := range about.others {
			set.Columns[k].Values[to] = values
		}
	}
}

// loadItems adds the items and features of the file beside the ratings, if there is one.
func (t *table) loadItems(ctx context.Context, f files.Folder) error {
	list, known := itemFormatOf(t.format.Items)
	if !known || !f.Has(list.file) {
		return nil
	}
	r, _, err := f.Open(list.file)
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // read-only: nothing can be lost
	rated := len(t.items.Names)
	if t.features, err = list.read(ctx, f.Path(list.file), r, &t.items, t.itemNames(t.format)); err != nil {
		return err
	}
	t.notices = append(t.notices, t.features.notices...)
	unrated, both := len(t.items.Names)-rated, 0
	for _, about := range t.features.items[:rated] {
		if about.line > 0 {
			both++
		}
	}
	t.found = append(t.found, dataset.Finding{
		What: "list of items", Found: list.file, Sure: dataset.Certain,
		Why: fmt.Sprintf("by its name; it lists %d items, %d of them rated", unrated+both, both),
	})
	if unrated > both && both < rated/2 {
		t.notices = append(t.notices, dataset.Notice{Kind: dataset.NoticeItems, Count: unrated, Text: fmt.Sprintf(
			"%d of the %d items of %s have no rating, and only %d of the %d rated items are listed; are the ids written in one way? Titles and features of the others are missing",
			unrated, unrated+both, list.file, both, rated)})
	}
	return nil
}

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
