// Package records finds out how a text is written and reads its records: separated lines, JSON lines, Parquet and the
// shapes of published sets. A format is an entry of formats.yaml. Records are fields with the places of user, item, rating and
// timestamp; what becomes of them is the caller's business.
package records

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dataset/files"
	"github.com/fedsim/fedsim/internal/dataset/idtext"
	"github.com/fedsim/fedsim/internal/dataset/pack"
	"github.com/fedsim/fedsim/internal/lists"
)

// Rows are the records of a file of ratings, one after another.
type Rows interface {
	// Next returns the fields of the next record, or io.EOF. They are valid until the
	// following call.
	Next() ([][]byte, error)
	// At is the line of the record that next returned last, from 1; of Parquet, which has no
	// lines, the row.
	At() int
	// Locate adds file and line to an error in the content; errors of reading and of the
	// context keep their kind.
	Locate(file string, err error) error
}

// RatingRows are the rows of a file that was recognized.
type RatingRows struct {
	Rows
	Format Format
	Cols   Columns
	First  [][]byte // of a file without a header, the record that was read to recognize it

	Comma  bool     // ratings have a decimal comma
	Truths bool     // ratings are truths, worth 1 and 0
	Unread []string // of a file of clicks, other columns that hold numbers or truths
	Found  []dataset.Finding
}

// note appends a finding.
func (r *RatingRows) note(what, found string, sure dataset.Sureness, why string) {
	r.Found = append(r.Found, dataset.Finding{What: what, Found: found, Sure: sure, Why: why})
}

// ErrNoRows is returned for a file without a single record.
var ErrNoRows = fmt.Errorf("%w: the file is empty; %s", dataset.ErrNoRatings, WantColumns)

// opener opens files that begin in one way.
type opener struct {
	begins string // behind a byte order mark; "" fits every file
	fits   func(line []byte) bool
	open   func(s *Scanner, in files.Input, o Options) (RatingRows, error)
}

// openers, in the order in which they are tried.
var openers = []opener{
	{begins: pack.Magic, open: refusePacked},
	{begins: files.ParquetMagic, open: openParquet},
	{begins: "{", open: openJSONLines},
	{begins: "[", open: openJSONLines},
	{fits: isBlockHead, open: openBlocks},
	{open: openText},
}

// Open looks at the beginning of a file of ratings and opens what the file is. The rows are returned with an error too, to say where
// it is.
func Open(ctx context.Context, in files.Input, o Options) (RatingRows, error) {
	s := NewScanner(ctx, in, Commas, in.Progress)
	line, err := s.firstLine()
	if err != nil {
		return RatingRows{Rows: s}, err
	}
	at := slices.IndexFunc(openers, func(o opener) bool {
		return bytes.HasPrefix(line, []byte(o.begins)) && (o.fits == nil || o.fits(line))
	})
	return openers[at].open(s, in, o)
}

func refusePacked(s *Scanner, _ files.Input, _ Options) (RatingRows, error) {
	s.Line = 1
	return RatingRows{Rows: s}, errors.New("it is a packed set, which is opened from its path, and not from an archive, a folder or a pipe")
}

// openText recognizes separated text by its first records, its name and the files beside it.
func openText(s *Scanner, in files.Input, o Options) (RatingRows, error) {
	out := RatingRows{Rows: s}
	b, found, err := s.open(o.Separator, func(first [][]byte) bool {
		_, _, err := parseHeader(first, o.Columns)
		return err == nil && !o.Columns.placed()
	})
	if out.Found = found; err != nil {
		return out, err
	}
	if o.Columns == (Names{}) && !o.NoHeader {
		switch {
		case s.blanks && isLists(b.lines):
			out.Rows = &wideRows{Scanner: s}
			out.Format, out.Cols = formats().Lines["lists"].fixed()
			out.note("format", "a list of items for each user", dataset.Likely, "lines are whole numbers, and some have more than others; the first is the user")
			return out, nil
		case isDense(b.lines, s.Dialect):
			out.Rows = &wideRows{Scanner: s, dense: true}
			out.Format, out.Cols = formats().Lines["dense"].fixed()
			out.note("format", "a row for each user and a column for each item", dataset.Certain, "the first column counts the numbers of its row that are not 99")
			out.noteFormat()
			return out, nil
		}
	}
	first, err := s.Next()
	if errors.Is(err, io.EOF) {
		return out, ErrNoRows
	}
	if err != nil && len(b.lines) > 0 && !errors.Is(err, errLongRecord) && s.readErr == nil { // a quote of a row without a header may be in a column that is not wanted
		first, err = s.fieldsOf(b.lines[0]), nil
	}
	if err != nil {
		return out, err
	}
	if err = out.recognize(first, s.Dialect, b, in, o); err != nil {
		return out, err
	}
	sample := lists.Map(b.lines, s.fieldsOf)
	if out.First == nil {
		sample = sample[min(1, len(sample)):]
		out.Cols.fit(first, sample)
		out.noteValues(first, sample)
	} else {
		out.noteValues(nil, sample)
	}
	if out.Cols.Want != "" && out.Cols.Want[0] != '(' {
		out.Cols.Want += ", with " + nameOf(s.sep) + " between"
	}
	s.wanted = out.Cols
	return out, nil
}

// fit takes all rows for as wide as the first is below a header, if they are, and if what they or the header have more is empty: lines may
// end with a separator.
func (c *Columns) fit(header [][]byte, sample [][][]byte) {
	for _, row := range sample {
		both := min(len(header), len(row))
		if len(row) != len(sample[0]) || both <= slices.Max(c.At[:]) || len(bytes.Join(slices.Concat(header[both:], row[both:]), nil)) > 0 {
			return
		}
	}
	if len(sample) > 0 {
		c.Count = len(sample[0])
	}
}

// noteValues learns from the first records below a header how ratings are written, and which columns hold values that are
// not read where there is no rating.
func (r *RatingRows) noteValues(header [][]byte, sample [][][]byte) {
	truths, others, grouped := false, false, true
	for _, record := range sample {
		if r.Cols.At[Rating] < 0 || r.Cols.At[Rating] >= len(record) || idtext.IsMissing(record[r.Cols.At[Rating]]) {
			continue
		}
		field := record[r.Cols.At[Rating]]
		_, comma := DecimalComma(field)
		r.Comma, grouped = r.Comma || comma, grouped && (!comma || bytes.IndexByte(field, ',') == len(field)-4)
		is := TruthOf(field) != 0
		truths, others = truths || is, others || !is
	}
	switch {
	case r.Comma && grouped:
		r.note("decimal sign", "comma", dataset.Likely, "1,000 is read as 1; if it is a thousand, write it as 1000")
	case r.Comma:
		r.note("decimal sign", "comma", dataset.Certain, "ratings such as 3,5")
	}
	if r.Truths = truths && !others; r.Truths {
		r.note("ratings", "truths", dataset.Certain, "words such as true, yes and like are 1, and their opposites 0")
		if r.Format.Scaleless {
			r.Format.Min, r.Format.Max, r.Format.Scaleless = 0, 1, false
		}
	}
	if r.Cols.At[Rating] >= 0 || r.Format.Name != "" || len(sample) == 0 {
		return
	}
	for i, name := range header {
		if i < len(sample[0]) && len(name) > 0 && !r.Cols.has(i) && (TruthOf(sample[0][i]) != 0 || isNumber(sample[0][i])) {
			r.Unread = append(r.Unread, string(name))
		}
	}
}
