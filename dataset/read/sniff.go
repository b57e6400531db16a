package read

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/fedsim/fedsim/dataset/internal/idtext"
	"github.com/fedsim/fedsim/dataset/pack"
)

// rows are the records of a file of ratings, one after another.
type rows interface {
	// next returns the fields of the next record, or io.EOF. They are valid until the
	// following call.
	next() ([][]byte, error)
	// at is the line of the record that next returned last, from 1; of Parquet, which has no
	// lines, the row.
	at() int
	// locate adds file and line to an error in the content; errors of reading and of the
	// context keep their kind.
	locate(file string, err error) error
}

func (s *scanner) at() int { return s.line }

// ratingRows are the rows of a file that was recognized.
type ratingRows struct {
	rows
	format format
	cols   columns
	first  [][]byte // of a file without a header, the record that was read to recognize it
	bad    error    // what is wrong with that one
}

// errNoRows is returned for a file without a single record.
var errNoRows = errors.New("no rows")

// openRows recognizes a file of ratings by its content, its name and the files beside it. The rows
// are returned with an error too, to say where it is.
func openRows(ctx context.Context, file string, r io.Reader, beside func(string) bool, names Columns, progress func(int64)) (ratingRows, error) {
	s := newScanner(ctx, r, commas, progress)
	out := ratingRows{rows: s}
	line, err := s.peek()
	if err != nil {
		return out, err
	}
	switch {
	case bytes.HasPrefix(line, []byte(pack.Magic)):
		return out, errors.New("it is a packed set, which is opened from its path, and not from an archive, a folder or a pipe")
	case bytes.HasPrefix(line, []byte(parquetMagic)):
		return openParquet(ctx, r, names, progress)
	case bytes.HasPrefix(bytes.TrimPrefix(line, byteOrderMark), []byte("{")):
		return openJSONLines(s, names)
	}
	s.dialect = dialectOf(line)
	first, err := s.next()
	if errors.Is(err, io.EOF) {
		return out, errNoRows
	}
	if err != nil {
		return out, err
	}
	if out.format, out.cols, err = recognize(first, s.dialect, file, beside, names); err == nil && out.format.fields > 0 {
		out.first = first
	}
	return out, err
}

// dialectOf tells how the fields of a ratings file are separated from its first line.
func dialectOf(line []byte) dialect {
	switch {
	case bytes.IndexByte(line, ',') >= 0:
		return commas
	case bytes.Contains(line, []byte(colons.sep)):
		return colons
	case bytes.IndexByte(line, '\t') >= 0:
		return tabs
	default:
		return commas
	}
}

// recognize finds the format of a ratings file by its first record, its name and
// the files beside it. Of a format without a header the record is a rating.
func recognize(first [][]byte, d dialect, file string, beside func(name string) bool, names Columns) (format, columns, error) {
	f, cols, err := parseHeader(first, names)
	if !errors.Is(err, errNoHeader) {
		return f, cols, err
	}
	for _, f = range headless {
		named := f.file == "" || f.file == filepath.Base(file)
		if f.dialect == d && named && (f.beside == "" || beside(f.beside)) {
			cols = columns{user: 0, item: 1, rating: 2, time: -1, count: f.fields, want: "(" + f.layout + ")"}
			if f.fields > 3 {
				cols.time = 3
			}
			return f, cols, nil
		}
	}
	return format{}, columns{}, fmt.Errorf("%w: the first line is %s; %s, or the rows of MovieLens 100K (tabs between) or 1M and 10M (:: between)",
		errNoHeader, idtext.Quote(bytes.Join(first, []byte(d.sep))), wantColumns)
}
