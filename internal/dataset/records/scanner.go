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
)

const (
	bufferSize = 256 << 10
	maxRecord  = 1 << 20 // bytes; a longer record is a quote that was never closed
	mostFields = 256     // of a line that shows the dialect
)

// Dialect tells how the fields of a record are separated and quoted.
type Dialect struct {
	sep       string // between fields: one byte, or one byte twice
	quotes    bool   // fields may be quoted as in RFC 4180; else a quote is text like any other
	backslash bool   // a backslash makes the quote behind it text
	blanks    bool   // any number of spaces and tabs is one separator
}

var (
	Commas = Dialect{sep: ",", quotes: true}
	Tabs   = Dialect{sep: "\t"}
	Colons = Dialect{sep: "::"}
	Pipes  = Dialect{sep: "|"}
)

// Errors of a malformed record; the reader adds file and line.
var (
	errLongRecord = fmt.Errorf("record is longer than %d bytes; close its quote or end its line", maxRecord)
	errBareQuote  = Malformed(errors.New(`quote inside an unquoted field; enclose the field in quotes and double those inside`))
	errAfterQuote = Malformed(errors.New("text after a closing quote; want a comma or the end of the line"))
	errUnclosed   = Malformed(errors.New("quoted field is not closed; add the closing quote"))
)

// Scanner splits separated text into records without allocating for each. It
// accepts LF and CRLF line ends and a byte order mark, skips blank lines, and
// drops spaces and tabs around unquoted fields. It exists because encoding/csv
// knows no separator of two bytes, and allocates a string for every record, which
// at ten million records costs more than everything else a load does.
type Scanner struct {
	Dialect
	ctx      context.Context
	r        io.Reader
	progress func(read int64) // after each read of the source; may be nil

	buf        []byte
	start, end int // unread part of buf
	BytesRead  int64
	eof        bool
	readErr    error // the context's or the source's: not about the content

	Line   int      // Line of the record that next returned last, from 1
	Lines  int      // Lines consumed so far
	fields [][]byte // of that record; valid until the following call

	wanted  Columns // without a count until they are known: a quote that is wrong in another column does no harm
	scratch []byte  // fields of that record without what escaped their quotes
	Mended  Tally   // records with such quotes
}

func NewScanner(ctx context.Context, r io.Reader, d Dialect, progress func(read int64)) *Scanner {
	return &Scanner{Dialect: d, ctx: ctx, r: r, progress: progress, buf: make([]byte, bufferSize)}
}

// sample returns the beginning of the source, of size bytes if there are as many, and whether that is all. It consumes nothing.
func (s *Scanner) sample(size int) (text []byte, whole bool, err error) {
	for s.end-s.start < size && !s.eof && err == nil {
		err = s.fill()
	}
	return s.buf[s.start:min(s.end, s.start+size)], s.eof && s.end-s.start <= size, err
}

// firstLine returns the first line of the source that is not blank, as far as a sample reaches. It consumes nothing.
func (s *Scanner) firstLine() ([]byte, error) {
	text, _, err := s.sample(files.HeadSize)
	text = bytes.TrimLeft(text, " \t\r\n\ufeff")
	if len(text) > 0 {
		s.readErr, err = nil, nil // it comes again behind the sample
	}
	line, _, _ := bytes.Cut(text, []byte{'\n'})
	return trimField(bytes.TrimSuffix(line, []byte{'\r'})), err
}

// skip leaves out the next lines.
func (s *Scanner) skip(lines int) {
	for ; lines > 0; lines-- {
		i := bytes.IndexByte(s.buf[s.start:s.end], '\n')
		if i < 0 {
			i = s.end - s.start - 1
		}
		s.start += i + 1
		s.Lines++
	}
}

// Next returns the fields of the next record, or io.EOF. They are valid until
// the following call. Errors of the format concern the record at s.line.
func (s *Scanner) Next() ([][]byte, error) {
	for {
		record, quoted, err := s.record()
		if err != nil {
			return nil, err
		}
		switch {
		case quoted:
			return s.splitQuoted(record)
		case len(trimField(record)) > 0 || !s.blanks && bytes.Contains(record, []byte(s.sep)): // fields of separators alone are empty, the record is not
			return s.split(record), nil
		}
	}
}

// record returns the bytes of one record without its line end, and whether
// they hold a quote. A line end inside quotes belongs to the record.
func (s *Scanner) record() (record []byte, quoted bool, err error) {
	s.Line = s.Lines + 1
	from := 0  // bytes of the record that were searched already
	first := 0 // bytes of its first line
	quotes := 0
	for {
		unread := s.buf[s.start:s.end]
		i := bytes.IndexByte(unread[from:], '\n')
		if i < 0 && !s.eof {
			if len(unread) > maxRecord && first > 0 {
				return s.cutShort(first), true, nil
			}
			if len(unread) > maxRecord {
				return nil, false, errLongRecord
			}
			if err = s.fill(); err != nil {
				return nil, false, err
			}
			continue
		}
		to, size := from+i, from+i+1
		if i < 0 {
			if len(unread) == 0 {
				return nil, false, io.EOF
			}
			to, size = len(unread), len(unread)
		}
		s.Lines++
		if s.quotes {
			quotes += bytes.Count(unread[from:to], []byte{'"'})
			if s.backslash {
				quotes -= bytes.Count(unread[from:to], []byte(`\"`))
			}
		}
		if quotes%2 == 0 || i < 0 {
			if first > 0 {
				if _, odd := s.cutQuoted(unread[:to], -1, 0); odd != nil {
					return s.cutShort(first), true, nil
				}
			}
			s.start += size
			record = bytes.TrimSuffix(unread[:to], []byte{'\r'})
			if s.Line == 1 {
				record = bytes.TrimPrefix(record, files.ByteOrderMark)
			}
			return record, quotes > 0, nil
		}
		if from = size; first == 0 {
			first = size
		}
	}
}

// cutShort takes the first line of what looked like a record of several: a quote of it is not closed, or is none.
func (s *Scanner) cutShort(first int) []byte {
	record := bytes.TrimRight(s.buf[s.start:s.start+first], "\r\n")
	if s.Lines = s.Line; s.Line == 1 {
		record = bytes.TrimPrefix(record, files.ByteOrderMark)
	}
	s.start += first
	return record
}

// fill reads more of the source behind the unread bytes, which it moves to the
// front of the buffer. At the end of the source it sets eof.
func (s *Scanner) fill() error {
	if s.readErr = s.ctx.Err(); s.readErr != nil {
		return s.readErr
	}
	unread := s.buf[s.start:s.end]
	if len(unread) > len(s.buf)/2 {
		s.buf = make([]byte, 2*len(s.buf))
	}
	s.start, s.end = 0, copy(s.buf, unread)
	n, err := io.ReadAtLeast(s.r, s.buf[s.end:], 1)
	s.end += n
	s.BytesRead += int64(n)
	if errors.Is(err, io.EOF) {
		s.eof, err = true, nil
	}
	if s.progress != nil {
		s.progress(s.BytesRead)
	}
	s.readErr = err
	return err
}

// split cuts a record without quotes at its separators.
func (s *Scanner) split(record []byte) [][]byte {
	s.fields = s.fields[:0]
	if s.blanks { // at runs of spaces and tabs
		s.fields = slices.AppendSeq(s.fields, bytes.FieldsFuncSeq(record, func(r rune) bool { return r == ' ' || r == '\t' }))
		return s.fields
	}
	sep, width := s.sep[0], len(s.sep)
	from := 0
	for i := 0; i+width <= len(record); i++ {
		if record[i] == sep && record[i+width-1] == sep {
			s.fields = append(s.fields, trimField(record[from:i]))
			from = i + width
			i = from - 1
		}
	}
	s.fields = append(s.fields, trimField(record[from:]))
	return s.fields
}

// fieldsOf cuts a line of a sample in any way that it can be cut.
func (d Dialect) fieldsOf(line []byte) [][]byte {
	s := &Scanner{Dialect: d}
	if !d.quotes || bytes.IndexByte(line, '"') < 0 {
		return s.split(line)
	}
	_, _ = s.cutQuoted(line, mostFields, mostFields) // odd quotes are text
	return s.fields
}

// trimField drops the spaces and tabs around an unquoted field.
func trimField(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// Locate adds file and line to an error in the content; errors of reading and of the context keep their kind.
func (s *Scanner) Locate(file string, err error) error {
	if s.readErr != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return &dataset.FileError{File: file, Line: s.Line, Err: err}
}

func (s *Scanner) At() int { return s.Line }

// recordError is about one record of a file of ratings: the next one may be right.
type recordError struct{ error }

func (e recordError) Unwrap() error { return e.error }

// Malformed says that an error is about one record.
func Malformed(err error) error { return recordError{err} }

// IsMalformed reports whether an error is about one record. A quote that is never closed makes
// all that follows it one.
func IsMalformed(err error) bool {
	_, is := errors.AsType[recordError](err)
	return is
}

// Tally counts records and keeps the lines of the first.
type Tally struct {
	Count int
	Lines []int
}

func (c *Tally) Add(line int) {
	if c.Count++; len(c.Lines) < MostLines {
		c.Lines = append(c.Lines, line)
	}
}

// Join adds records of another file.
func (c *Tally) Join(other Tally) {
	c.Count += other.Count
	c.Lines = append(c.Lines, other.Lines...)
	c.Lines = c.Lines[:min(len(c.Lines), MostLines)]
}

// Notice makes a notice of the records that were counted.
func (c *Tally) Notice(kind dataset.NoticeKind, text string) dataset.Notice {
	return dataset.Notice{Kind: kind, Text: fmt.Sprintf("%d %s", c.Count, text), Count: c.Count, Lines: c.Lines}
}

// MostLines limits the lines of a notice.
const MostLines = 10
