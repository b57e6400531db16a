package records

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/internal/files"
)

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

// listRows are lines of a user and all its items, with spaces between.
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

// openLists opens the form of LightGCN.
func openLists(s *Scanner) RatingRows {
	out := RatingRows{Rows: &listRows{Scanner: s}, Format: listed1, Cols: Columns{User: 0, Item: 1, Rating: -1, Time: -1, Count: 2}}
	out.note("format", "a list of items for each user", dataset.Likely, "lines are whole numbers, and some have more than others; the first is the user")
	return out
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

// denseRows are lines of one user each, with a column for each item behind a column with the count of the ratings.
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
	s := Scanner{Dialect: d}
	for _, line := range lines {
		fields := s.cut(bytes.Clone(line))
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

// openDense opens the form of Jester.
func openDense(s *Scanner) RatingRows {
	out := RatingRows{Rows: &denseRows{Scanner: s}, Format: jester, Cols: Columns{User: 0, Item: 1, Rating: 2, Time: -1, Count: 3}}
	out.note("format", "a row for each user and a column for each item", dataset.Certain, "the first column counts the numbers of its row that are not 99")
	out.noteFormat()
	return out
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
