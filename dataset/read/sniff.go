package read

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/fedsim/fedsim/dataset"
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

	size  int64 // bytes of the rows, 0 where that is unknown
	comma bool  // ratings have a decimal comma
	found []dataset.Finding
}

// note appends a finding.
func (r *ratingRows) note(what, found string, sure dataset.Sureness, why string) {
	r.found = append(r.found, dataset.Finding{What: what, Found: found, Sure: sure, Why: why})
}

// errNoRows is returned for a file without a single record.
var errNoRows = errors.New("no rows")

// opener opens files that begin in one way.
type opener struct {
	begins string // behind a byte order mark; "" fits every file
	fits   func(line []byte) bool
	open   func(s *scanner, in input, o Options) (ratingRows, error)
}

// openers, in the order in which they are tried.
var openers = []opener{
	{begins: pack.Magic, open: refusePacked},
	{begins: parquetMagic, open: openParquet},
	{begins: "{", open: openJSONLines},
	{begins: "[", open: openJSONLines},
	{fits: isBlockHead, open: openBlocks},
	{open: openText},
}

// sniff looks at the beginning of a file of ratings and opens what the file is. The rows are returned with an error too, to say where
// it is.
func sniff(ctx context.Context, in input, o Options) (ratingRows, error) {
	_, found, err := in.unwrap(ctx, o)
	s := newScanner(ctx, in, commas, in.progress)
	if err != nil {
		s.line = 1
		return ratingRows{rows: s}, err
	}
	line, err := s.peek()
	if err != nil {
		return ratingRows{rows: s}, err
	}
	line = bytes.TrimPrefix(line, byteOrderMark)
	at := slices.IndexFunc(openers, func(o opener) bool {
		return bytes.HasPrefix(line, []byte(o.begins)) && (o.fits == nil || o.fits(line))
	})
	out, err := openers[at].open(s, in, o)
	out.size, out.found = in.size, append(found, out.found...)
	return out, err
}

func refusePacked(s *scanner, _ input, _ Options) (ratingRows, error) {
	s.line = 1
	return ratingRows{rows: s}, errors.New("it is a packed set, which is opened from its path, and not from an archive, a folder or a pipe")
}

// openText recognizes separated text by its first records, its name and the files beside it.
func openText(s *scanner, in input, o Options) (ratingRows, error) {
	out := ratingRows{rows: s}
	text, whole, err := s.sample(headSize)
	if err != nil && len(text) == 0 {
		return out, err
	}
	b := begin(text, whole)
	var found dataset.Finding
	if s.dialect, found = sniffDialect(b, o); found.What != "" {
		out.found = append(out.found, found)
	}
	out.found = append(out.found, b.notes...)
	s.skip(b.skip)
	if o.Columns == (Columns{}) && !o.Form.NoHeader {
		switch {
		case s.blanks && isLists(b.lines):
			lists := openLists(s)
			lists.found = append(out.found, lists.found...)
			return lists, nil
		case isDense(b.lines, s.dialect):
			dense := openDense(s)
			dense.found = append(out.found, dense.found...)
			return dense, nil
		}
	}
	first, err := s.next()
	if errors.Is(err, io.EOF) {
		return out, errNoRows
	}
	if err != nil && len(b.lines) > 0 && !errors.Is(err, errLongRecord) && s.readErr == nil { // a quote of a row without a header may be in a column that is not wanted
		first = s.cut(bytes.Clone(b.lines[0]))
		err = nil
	}
	if err != nil {
		return out, err
	}
	if err = out.recognize(first, s.dialect, b, in, o); err != nil {
		return out, err
	}
	s.wanted, s.known = out.cols, true
	out.comma = hasDecimalCommas(b.lines, s.dialect, out.cols)
	if out.comma {
		out.note("decimal sign", "comma", dataset.Certain, "ratings such as 3,5")
	}
	return out, nil
}

// hasDecimalCommas reports whether some rating of the lines has a decimal comma.
func hasDecimalCommas(lines [][]byte, d dialect, cols columns) bool {
	s := scanner{dialect: d}
	for _, line := range lines {
		fields := s.cut(bytes.Clone(line))
		if cols.rating < 0 || cols.rating >= len(fields) {
			continue
		}
		if _, is := decimalComma(fields[cols.rating]); is {
			return true
		}
	}
	return false
}
