package records

import (
	"bytes"
	"errors"
	"strconv"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dataset/files"
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
	out := RatingRows{Rows: &blockRows{Scanner: s}}
	out.Format, out.Cols = formats().Lines["blocks"].fixed()
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

// wideRows are lines of one user each. Where they are dense, as of Jester, they have a column for each item behind a column with the count
// of the ratings. Else they have a user and all its items, as of LightGCN.
type wideRows struct {
	*Scanner
	dense  bool
	user   []byte
	record [][]byte
	next   int // field of the record
	number []byte
	fields [][]byte
}

func (w *wideRows) Next() ([][]byte, error) {
	for w.next >= len(w.record) {
		record, err := w.Scanner.Next()
		if err != nil {
			return nil, err
		}
		if w.record, w.next, w.user = record, 1, record[0]; w.dense {
			w.user = strconv.AppendInt(nil, int64(w.Line), 10)
			if len(record) < 2 {
				return record, nil // the table says what is wrong
			}
		}
	}
	w.fields = append(w.fields[:0], w.user)
	if w.dense {
		w.number = strconv.AppendInt(w.number[:0], int64(w.next), 10)
		w.fields = append(w.fields, w.number)
	}
	w.fields = append(w.fields, w.record[w.next])
	w.next++
	return w.fields, nil
}

// isLists reports whether lines are lists of whole numbers, of different lengths.
func isLists(lines [][]byte) bool {
	alike := true
	first := -1
	for _, line := range lines {
		fields := bytes.Fields(line)
		if len(bytes.Trim(bytes.Join(fields, nil), "0123456789")) > 0 {
			return false
		}
		alike = alike && (first < 0 || len(fields) == first)
		first = len(fields)
	}
	return !alike
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
