package read

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

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

// opener opens files that begin in one way.
type opener struct {
	begins string // behind a byte order mark; "" fits every file
	open   func(s *scanner, in input, names Columns) (ratingRows, error)
}

// openers, in the order in which they are tried.
var openers = []opener{
	{pack.Magic, refusePacked},
	{parquetMagic, openParquet},
	{"{", openJSONLines},
	{"", openText},
}

// sniff looks at the beginning of a file of ratings and opens what the file is. The rows are returned with an error too, to say where
// it is.
func sniff(ctx context.Context, in input, names Columns) (ratingRows, error) {
	s := newScanner(ctx, in, commas, in.progress)
	line, err := s.peek()
	if err != nil {
		return ratingRows{rows: s}, err
	}
	at := slices.IndexFunc(openers, func(o opener) bool { return bytes.HasPrefix(bytes.TrimPrefix(line, byteOrderMark), []byte(o.begins)) })
	return openers[at].open(s, in, names)
}

func refusePacked(s *scanner, _ input, _ Columns) (ratingRows, error) {
	return ratingRows{rows: s}, errors.New("it is a packed set, which is opened from its path, and not from an archive, a folder or a pipe")
}

// openText recognizes separated text by its first record, its name and the files beside it.
func openText(s *scanner, in input, names Columns) (ratingRows, error) {
	out := ratingRows{rows: s}
	line, err := s.peek()
	if err != nil {
		return out, err
	}
	s.dialect = dialectOf(line)
	first, err := s.next()
	if errors.Is(err, io.EOF) {
		return out, errNoRows
	}
	if err != nil {
		return out, err
	}
	if out.format, out.cols, err = recognize(first, s.dialect, in, names); err == nil && out.format.fields > 0 {
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
func recognize(first [][]byte, d dialect, in input, names Columns) (format, columns, error) {
	f, cols, err := parseHeader(first, names)
	if !errors.Is(err, errNoHeader) {
		return f, cols, err
	}
	for _, f = range headless {
		named := f.file == "" || f.file == filepath.Base(in.path)
		if f.dialect == d && named && (f.beside == "" || in.beside(f.beside)) {
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
