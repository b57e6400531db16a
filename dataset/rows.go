package dataset

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go"
)

// Files of rows that are no lines of text are read as the CSV that they would be, so that
// what holds of a column and a rating holds of all files.

// asCSV is a file's content as text, if it is one of JSON lines or of Parquet (rows): a header
// and a line for each row. It tells them by their first bytes. An error is one of reading, or
// with rows one in the content.
func asCSV(r io.Reader) (text io.Reader, rows bool, err error) {
	b := bufio.NewReader(r)
	head, err := b.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	switch {
	case bytes.Equal(head, []byte("PAR1")):
		all, failed := io.ReadAll(io.LimitReader(b, mostParquet+1))
		if failed != nil {
			return nil, false, failed
		}
		text, err = parquetRows(all)
		return text, true, err
	case len(head) > 0 && head[0] == '{':
		d := json.NewDecoder(b)
		d.UseNumber()
		return &rowReader{next: (&jsonLines{d: d}).next}, true, nil
	default:
		return b, false, nil
	}
}

// rowReader writes rows as CSV while it is read.
type rowReader struct {
	next func() ([]string, error) // the header first
	buf  bytes.Buffer
}

// Read implements io.Reader.
func (r *rowReader) Read(p []byte) (int, error) {
	for r.buf.Len() == 0 {
		row, err := r.next()
		if err != nil {
			return 0, err
		}
		w := csv.NewWriter(&r.buf)
		if err = w.Write(row); err != nil {
			return 0, err
		}
		w.Flush()
	}
	return r.buf.Read(p)
}

// jsonLines are objects, one after the other. The first says what the columns are; what an
// object lacks is empty, and what it has besides is left out.
type jsonLines struct {
	d     *json.Decoder
	keys  []string
	first map[string]any
	n     int
}

func (l *jsonLines) next() ([]string, error) {
	object := l.first
	if l.first = nil; object == nil {
		if err := l.d.Decode(&object); err != nil {
			if errors.Is(err, io.EOF) {
				return nil, io.EOF
			}
			return nil, fmt.Errorf("object %d of JSON lines: %w", l.n+1, err)
		}
		l.n++
	}
	if l.keys == nil {
		for key := range object {
			l.keys = append(l.keys, key)
		}
		slices.Sort(l.keys)
		l.first = object
		return l.keys, nil
	}
	row := make([]string, len(l.keys))
	for i, key := range l.keys {
		switch v := object[key].(type) {
		case nil:
		case string:
			row[i] = v
		case json.Number:
			row[i] = v.String()
		default:
			b, err := json.Marshal(v)
			if err != nil {
				return nil, err
			}
			row[i] = string(b)
		}
	}
	return row, nil
}

// mostParquet bounds a file of Parquet, which is read whole: its directory is at its end.
const mostParquet = 4 << 30

// parquetRows are those of a file without nested columns.
func parquetRows(b []byte) (text io.Reader, err error) {
	defer damaged(&err)
	if len(b) > mostParquet {
		return nil, fmt.Errorf("more than %d bytes of Parquet; split the file", mostParquet)
	}
	f, err := parquet.OpenFile(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, fmt.Errorf("the file begins as Parquet does, and is not: %w", err)
	}
	var names []string
	for _, c := range f.Schema().Columns() {
		if len(c) != 1 {
			return nil, fmt.Errorf("the column %q is nested; want columns of plain values", c[0])
		}
		names = append(names, c[0])
	}
	reader, head, row := parquet.NewReader(f), true, make([]parquet.Row, 1)
	return &rowReader{next: func() (_ []string, err error) {
		defer damaged(&err)
		if head {
			head = false
			return names, nil
		}
		if n, err := reader.ReadRows(row); n == 0 {
			if err == nil {
				err = io.ErrNoProgress
			}
			return nil, err
		}
		cells := make([]string, len(names))
		for _, v := range row[0] {
			cells[v.Column()] = cell(v)
		}
		return cells, nil
	}}, nil
}

// damaged makes an error of a panic, with which the library answers some files that are.
func damaged(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("the file is damaged: %v", r)
	}
}

// cell is a value as text.
func cell(v parquet.Value) string {
	switch {
	case v.IsNull():
		return ""
	case v.Kind() == parquet.Float:
		return strconv.FormatFloat(float64(v.Float()), 'g', -1, 32)
	case v.Kind() == parquet.Double:
		return strconv.FormatFloat(v.Double(), 'g', -1, 64)
	default:
		return v.String()
	}
}
