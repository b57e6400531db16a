package read

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/internal/files"
	"github.com/fedsim/fedsim/dataset/internal/idtable"
	"github.com/fedsim/fedsim/dataset/internal/idtext"
	"github.com/fedsim/fedsim/dataset/internal/records"
)

// features are the public features of the items of a set, one entry for each item.
type features struct {
	titles  []string
	genres  [][]string
	years   []int
	columns []dataset.ItemColumn

	listed, rated int // items of a list, and listed items with a rating
	notices       []dataset.Notice
}

// itemFormat is a kind of file that lists items and describes them: an id, a
// title with the year at its end, and genres.
type itemFormat struct {
	file    string // its name, beside the ratings
	id      string // what it calls the id
	dialect records.Dialect
	header  string // "" for none
	fields  int    // of a row; the first two are id and title
	layout  string // what they are, for messages
	latin1  bool   // text that is not UTF-8 is ISO 8859-1
	genres  func(record [][]byte) ([]string, error)

	// Of an items.csv, whose header says what its columns are; nil in the list of formats.
	at      *itemColumns
	columns []string
}

var (
	moviesCSV = itemFormat{
		file: "movies.csv", id: "movieId", dialect: records.Commas, header: "movieId,title,genres", fields: 3,
		layout: ": movieId,title,genres; a title with a comma must be quoted", genres: listedGenres,
	}
	// MovieLens 1M writes ISO 8859-1, 10M UTF-8.
	moviesDat = itemFormat{
		file: "movies.dat", id: "MovieID", dialect: records.Colons, fields: 3,
		layout: " (MovieID::Title::Genres)", latin1: true, genres: listedGenres,
	}
	uItem = itemFormat{
		file: "u.item", id: "movie id", dialect: records.Pipes, fields: 5 + len(flaggedGenres),
		layout: " (movie id | title | release date | video release date | IMDb URL | 19 genre flags)",
		latin1: true, genres: genreFlags,
	}
)

// itemFormats are all formats of lists of items. A format of ratings names the file of its list.
var itemFormats = []*itemFormat{&moviesCSV, &moviesDat, &uItem, &itemsCSV}

// itemFormatOf is the format of the list in a file of this name; nil where no list is called so.
func itemFormatOf(file string) *itemFormat {
	for _, f := range itemFormats {
		if f.file == file {
			return f
		}
	}
	return nil
}

// flaggedGenres are the genres of u.item in the order of their flags (README of
// MovieLens 100K). The first, which says that the genre is unknown, is none.
var flaggedGenres = [...]string{
	"", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama", "Fantasy",
	"Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western",
}

var titleYear = regexp.MustCompile(`\((\d{4})\)\s*$`)

// Items opens a list of items: a file, or the movies.csv, movies.dat, u.item or items.csv of a folder. A file of another name is
// read like items.csv. Ratings may
// stand beside it or not; an organisation without ratings reads its catalogue so. The set has no
// ratings and no users. Its items and features equal, in order, what [Open] finds where the list
// contains every rated item. Its scale comes from the options, or else from the format. Of the other
// options Items uses Columns.Item alone.
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
	var items idtable.Table
	listed, err := cmp.Or(itemFormatOf(f.Items), &itemsCSV).readItems(ctx, d.Path(f.Items), r, &items, o.itemNames(f))
	if err != nil {
		return nil, err
	}
	ids, rank := items.Canonical()
	if len(ids) == 0 {
		return nil, fmt.Errorf("%s lists no items", d.Path(f.Items))
	}
	listed = listed.reorder(rank)
	set := &dataset.Set{
		Name: files.BaseName(path), Min: setMin, Max: setMax, Ratings: dataset.Ratings{Items: len(ids)}, ItemIDs: ids,
		Titles: listed.titles, Genres: listed.genres, Years: listed.years, Columns: listed.columns,
	}
	set.Digest = set.ComputeDigest()
	return set, nil
}

// itemNames returns the names that the id column of an items.csv may have.
func (o Options) itemNames(f records.Format) []string {
	var names []string
	for _, name := range []string{o.Columns.Item, f.Item, "item", "item_id", "itemId", "movie_id", "id"} {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// findItems returns the format whose file of items a folder has, or the format of the named file.
func findItems(d files.DiskFolder, named string) (records.Format, error) {
	like := named
	if named != "" && itemFormatOf(named) == nil {
		like = itemsCSV.file
	}
	var found []records.Format
	var files []string
	for _, f := range records.WithItems() {
		if named != "" {
			if f.Items != like {
				continue
			}
			f.Items = named
		}
		if d.Has(f.Items) && (f.Beside == "" || d.Has(f.Beside)) && !slices.Contains(files, f.Items) { // of formats with one file of items, the first that fits wins
			found, files = append(found, f), append(files, f.Items)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		if err := d.Readable(); err != nil {
			return records.Format{}, err
		}
		return records.Format{}, fmt.Errorf("%s: no list of items: looked in it for %s, %s, %s, %s", d, moviesCSV.file, moviesDat.file, uItem.file, itemsCSV.file)
	default:
		return records.Format{}, fmt.Errorf("%s holds %s; keep one", d, strings.Join(files, " and "))
	}
}

// readItems reads a file of items. It adds items without a rating to the items, and returns the
// features of all items by their number. An item that the file does not list keeps an empty title, no
// genre and year 0.
//
// names lists the names that the id column of an items.csv may have.
func (f *itemFormat) readItems(ctx context.Context, file string, r io.Reader, items *idtable.Table, names []string) (features, error) {
	f, s, notices, err := f.begin(ctx, file, r, names)
	if err != nil {
		return features{}, err
	}
	n := len(items.Names)
	out := features{titles: make([]string, n), genres: make([][]string, n), years: make([]int, n), notices: notices}
	for _, name := range f.columns {
		out.columns = append(out.columns, dataset.ItemColumn{Name: name, Values: make([][]string, n)})
	}
	lines := make([]int, n) // line of each item, 0 while it has none
	for {
		record, err := s.Next()
		if errors.Is(err, io.EOF) {
			return out.count(lines, n), nil
		}
		if err == nil {
			lines, err = f.add(&out, record, items, lines, s.Line)
		}
		if err != nil {
			return features{}, s.Locate(file, err)
		}
	}
}

// count counts the items of a list by their lines, and those among the first n items, which have ratings.
func (f features) count(lines []int, n int) features {
	for i, line := range lines {
		if line > 0 {
			f.listed++
			if i < n {
				f.rated++
			}
		}
	}
	return f
}

// begin reads a list of items up to its first item. The format with names of columns is settled by the header.
func (f *itemFormat) begin(ctx context.Context, file string, r io.Reader, names []string) (*itemFormat, *records.Scanner, []dataset.Notice, error) {
	if f.genres != nil && f.header == "" {
		return f, records.NewScanner(ctx, r, f.dialect, nil), nil, nil
	}
	s, header, found, err := openHeaded(ctx, files.Input{ReadCloser: io.NopCloser(r), Path: file}, "", names, f.dialect)
	if err != nil {
		return nil, s, nil, err
	}
	t := table{found: found}
	t.notifyEncoding()
	if f.header != "" && strings.EqualFold(string(bytes.Join(header, []byte(","))), f.header) {
		return f, s, t.notices, nil
	}
	named, err := f, errNoItemID
	if header != nil {
		named, err = f.named(header, names)
	}
	if err != nil && f.header != "" {
		err = fmt.Errorf("no header; want the first line to be %s", f.header)
	}
	if err != nil {
		return nil, s, nil, s.Locate(file, err)
	}
	return named, s, t.notices, nil
}

// add stores one item, under its number or under a new one, and returns the lines
// with its own.
func (f *itemFormat) add(to *features, record [][]byte, items *idtable.Table, lines []int, line int) ([]int, error) {
	if len(record) != f.fields {
		return nil, fmt.Errorf("%d fields, want %d%s", len(record), f.fields, f.layout)
	}
	id := record[0]
	if f.at != nil {
		id = record[f.at.id]
	}
	id, err := idtext.Parse(id)
	if err != nil {
		return nil, fmt.Errorf("%s %w", f.id, err)
	}
	i, err := items.Index(id)
	if err != nil {
		return nil, fmt.Errorf("%s %w", f.id, err)
	}
	if int(i) == len(lines) {
		to.grow()
		lines = append(lines, 0)
	}
	if lines[i] != 0 {
		return nil, fmt.Errorf("%s %q was described on line %d already; keep one of the two", f.id, id, lines[i])
	}
	lines[i] = line
	if f.at != nil {
		return lines, f.at.describe(to, i, record)
	}
	if to.titles[i], err = f.text(record[1]); err != nil {
		return nil, fmt.Errorf("title %w", err)
	}
	to.years[i] = yearOf(to.titles[i])
	if to.genres[i], err = f.genres(record); err != nil {
		return nil, err
	}
	return lines, nil
}

// text returns a field as UTF-8.
func (f *itemFormat) text(field []byte) (string, error) {
	switch {
	case utf8.Valid(field):
		return string(field), nil
	case !f.latin1:
		return "", fmt.Errorf("%s %w", idtext.Quote(field), idtext.ErrNotUTF8)
	}
	runes := make([]rune, len(field))
	for i, c := range field {
		runes[i] = rune(c) // the first 256 characters of Unicode are ISO 8859-1
	}
	return string(runes), nil
}

// reorder returns the features with item i moved to rank[i]. Without features it returns none.
func (f features) reorder(rank []int32) features {
	if f.titles == nil {
		return features{}
	}
	out := features{titles: make([]string, len(rank)), genres: make([][]string, len(rank)), years: make([]int, len(rank))}
	for i, to := range rank {
		out.titles[to], out.genres[to], out.years[to] = f.titles[i], f.genres[i], f.years[i]
	}
	for _, c := range f.columns {
		values := make([][]string, len(rank))
		for i, to := range rank {
			values[to] = c.Values[i]
		}
		out.columns = append(out.columns, dataset.ItemColumn{Name: c.Name, Values: values})
	}
	return out
}

// yearOf returns the year at the end of a title such as "Heat (1995)", 0 when there is none.
func yearOf(title string) int {
	match := titleYear.FindStringSubmatch(title)
	if match == nil {
		return 0
	}
	year, _ := strconv.Atoi(match[1]) // four digits: cannot fail
	return year
}

// noGenres marks a movie without genres in MovieLens.
const noGenres = "(no genres listed)"

// listedGenres splits "Comedy|Drama" in the third field; "(no genres listed)" and
// the empty text mean none.
func listedGenres(record [][]byte) ([]string, error) {
	text := record[2]
	if len(text) == 0 || string(text) == noGenres {
		return nil, nil
	}
	if !utf8.Valid(text) {
		return nil, fmt.Errorf("genres %s %w", idtext.Quote(text), idtext.ErrNotUTF8)
	}
	return strings.Split(string(text), "|"), nil
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

// loadItems adds the items and features of the file beside the ratings, if there is one.
func (t *table) loadItems(ctx context.Context, f files.Folder, o Options) error {
	list := itemFormatOf(t.format.Items)
	if list == nil || !f.Has(list.file) {
		return nil
	}
	r, _, err := f.Open(list.file)
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // read-only: nothing can be lost
	if t.features, err = list.readItems(ctx, f.Path(list.file), r, &t.items, o.itemNames(t.format)); err != nil {
		return err
	}
	t.notices = append(t.notices, t.features.notices...)
	t.found = append(t.found, dataset.Finding{
		What: "list of items", Found: list.file, Sure: dataset.Certain,
		Why: fmt.Sprintf("by its name; it lists %d items, %d of them rated", t.features.listed, t.features.rated),
	})
	if n := t.features.listed - t.features.rated; n > t.features.rated && t.features.rated < t.rated()/2 {
		t.notices = append(t.notices, dataset.Notice{Kind: dataset.NoticeItems, Count: n, Text: fmt.Sprintf(
			"%d of the %d items of %s have no rating, and only %d of the %d rated items are listed; are the ids written in one way? Titles and features of the others are missing",
			n, t.features.listed, list.file, t.features.rated, t.rated())})
	}
	return nil
}

// rated returns the number of items with ratings, before a list adds others.
func (t *table) rated() int {
	return len(t.items.Names) - (t.features.listed - t.features.rated)
}
