package read

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/dataset/internal/idtext"
	"github.com/fedsim/fedsim/dataset/internal/records"
)

// Bounds of a weight. Sums and quotients of weights within them are finite.
const (
	minWeight = 1e-9
	maxWeight = 1e9
)

const wantFeatures = "want item_id,category,value or item_id,category,value,weight"

// featureColumns says where the fields of a row of features stand.
type featureColumns struct {
	item, category, value int
	weight                int // -1 without such a column
	count                 int
}

// file adds the categories of a file; with FILE.csv:NAME it adds the category of that name only.
func (r *featureReader) file(path string) error {
	only := ""
	if at := strings.LastIndexByte(path, ':'); at > 0 && strings.HasSuffix(strings.ToLower(path[:at]), ".csv") {
		path, only = path[:at], path[at+1:]
		if only == "" {
			return fmt.Errorf("%s: no category stands behind the colon; want FILE.csv:NAME, or FILE.csv for all of them", path)
		}
	}
	info, err := os.Stat(path)
	switch {
	case err != nil && !strings.ContainsAny(path, `./\`): // looks like a word, not a path
		return fmt.Errorf("%w; want genres, year, or a CSV file with the columns item_id, category, value", err)
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a folder; want a CSV file with the columns item_id, category, value", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // read-only: nothing can be lost
	return r.read(path, only, f)
}

// read adds the categories of a file's content, or only one. Its errors are *FileError, errors of
// the reader, or wrap ErrNoFeatures.
func (r *featureReader) read(file, only string, in io.Reader) error {
	if r.index == nil {
		r.index = make(map[string]int32, len(r.set.ItemIDs))
		for j, id := range r.set.ItemIDs {
			r.index[id] = int32(j)
		}
	}
	s := records.NewScanner(context.Background(), in, records.Commas, nil)
	header, err := s.Next()
	if err != nil && !errors.Is(err, io.EOF) {
		return s.Locate(file, err)
	}
	cols, err := featureHeader(header)
	if err != nil {
		return s.Locate(file, err)
	}
	rows := featureRows{featureReader: r, file: file, only: only, cols: cols, tables: make(map[string]*featureTable), lines: make(map[featureKey]int)}
	for {
		var record [][]byte
		if record, err = s.Next(); errors.Is(err, io.EOF) {
			return rows.end()
		}
		if err == nil {
			err = rows.add(record, s.Line)
		}
		if err != nil {
			return s.Locate(file, err)
		}
	}
}

// featureHeader finds the columns. An unknown column is an error: it may be a misspelt weight.
func featureHeader(header [][]byte) (featureColumns, error) {
	if len(header) == 0 {
		return featureColumns{}, fmt.Errorf("the file is empty; its first line must be a header: %s", wantFeatures)
	}
	c := featureColumns{count: len(header)}
	found := 0
	for _, column := range []struct {
		name string
		at   *int
	}{{"item_id", &c.item}, {"category", &c.category}, {"value", &c.value}, {"weight", &c.weight}} {
		var err error
		if *column.at, err = records.FindColumn(header, column.name); err != nil {
			return featureColumns{}, err
		}
		if *column.at >= 0 {
			found++
		}
	}
	if c.item < 0 || c.category < 0 || c.value < 0 || found != len(header) {
		return featureColumns{}, fmt.Errorf("the first line is %s; it must be a header: %s", idtext.Quote(bytes.Join(header, []byte(","))), wantFeatures)
	}
	return c, nil
}

// featureRows adds the rows of one file.
type featureRows struct {
	*featureReader
	file   string
	only   string   // the category that is wanted; "": all
	others []string // categories that are there and not wanted, the first few
	cols   featureColumns
	tables map[string]*featureTable
	lines  map[featureKey]int // of what was said already
	kept   int
	left   int // rows skipped
}

// featureKey identifies a row; a file may state it once.
type featureKey struct{ item, category, value string }

func (r *featureRows) add(record [][]byte, line int) error {
	if len(record) != r.cols.count {
		return fmt.Errorf("%d fields, want %d as in the header", len(record), r.cols.count)
	}
	id, err := idtext.Parse(record[r.cols.item])
	if err != nil {
		return fmt.Errorf("item_id %w", err)
	}
	category, value := record[r.cols.category], record[r.cols.value]
	for _, field := range []struct {
		name string
		text []byte
	}{{"category", category}, {"value", value}} {
		if err = idtext.Check(field.text); err != nil {
			return fmt.Errorf("%s %w", field.name, err)
		}
	}
	weight := 1.
	if r.cols.weight >= 0 {
		if weight, err = parseWeight(record[r.cols.weight]); err != nil {
			return err
		}
	}
	key := featureKey{string(id), string(category), string(value)}
	if before, twice := r.lines[key]; twice {
		return fmt.Errorf("item %q was given the %s %s on line %d already; keep one of the two", id, idtext.Quote(category), idtext.Quote(value), before)
	}
	r.lines[key] = line
	if r.only != "" && key.category != r.only {
		if !slices.Contains(r.others, key.category) && len(r.others) < 10 {
			r.others = append(r.others, key.category)
		}
		return nil
	}
	item, known := r.index[key.item]
	if !known {
		if r.set.Titles != nil {
			return fmt.Errorf("item_id %s is not in the list of items of %s; correct it, or remove the row", idtext.Quote(id), r.set.Name)
		}
		r.left++
		return nil
	}
	t := r.tables[key.category]
	if t == nil {
		if t, err = r.category(key.category, r.file); err != nil {
			return err
		}
		r.tables[key.category] = t
	}
	v, err := t.values.Index(value)
	if err != nil {
		return fmt.Errorf("value %w", err)
	}
	if r.kept == math.MaxInt32 {
		return fmt.Errorf("more than %d features; split the file", math.MaxInt32)
	}
	t.features = append(t.features, feature{item: item, value: v, weight: weight})
	r.kept++
	return nil
}

// end reports a file that was of no use.
func (r *featureRows) end() error {
	if r.kept == 0 && r.left == 0 && len(r.others) > 0 {
		return fmt.Errorf("%s: %w: no row is of the category %q; there are such as %s", r.file, ErrNoFeatures, r.only, strings.Join(r.others, ", "))
	}
	if r.kept == 0 {
		return fmt.Errorf("%s: %w: none of its %d rows is about an item of %s; want its item ids in the column item_id",
			r.file, ErrNoFeatures, r.left, r.set.Name)
	}
	r.skipped += r.left
	return nil
}

// parseWeight parses a finite positive number.
func parseWeight(b []byte) (float64, error) {
	w, err := strconv.ParseFloat(string(b), 64)
	if err != nil && !math.IsInf(w, 0) {
		return 0, fmt.Errorf("weight %s is not a number; want one from %g to %g", idtext.Quote(b), minWeight, maxWeight)
	}
	if !(w >= minWeight && w <= maxWeight) {
		return 0, fmt.Errorf("weight %s is out of range; want a number from %g to %g", idtext.Quote(b), minWeight, maxWeight)
	}
	return w, nil
}
