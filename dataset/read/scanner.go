package read

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

const (
	bufferSize = 256 << 10
	maxRecord  = 1 << 20 // bytes; a longer record is a quote that was never closed
	mostFields = 256     // of a line that shows the dialect
	aheadSlack = 4 << 10 // before a block that is read ahead: room for the rest of the previous block
)

var byteOrderMark = []byte("\xef\xbb\xbf")

// dialect tells how the fields of a record are separated and quoted.
type dialect struct {
	sep       string // between fields: one byte, or one byte twice
	quotes    bool   // fields may be quoted as in RFC 4180; else a quote is text like any other
	backslash bool   // a backslash makes the quote behind it text
	blanks    bool   // any number of spaces and tabs is one separator
}

var (
	commas = dialect{sep: ",", quotes: true}
	tabs   = dialect{sep: "\t"}
	colons = dialect{sep: "::"}
	pipes  = dialect{sep: "|"}
)

// Errors of a malformed record; the reader adds file and line.
var (
	errLongRecord = fmt.Errorf("record is longer than %d bytes; close its quote or end its line", maxRecord)
	errBareQuote  = errors.New(`quote inside an unquoted field; enclose the field in quotes and double those inside`)
	errAfterQuote = errors.New("text after a closing quote; want a comma or the end of the line")
	errUnclosed   = errors.New("quoted field is not closed; add the closing quote")
)

// scanner splits separated text into records without allocating for each. It
// accepts LF and CRLF line ends and a byte order mark, skips blank lines, and
// drops spaces and tabs around unquoted fields. It exists because encoding/csv
// knows no separator of two bytes, and allocates a string for every record, which
// at ten million records costs more than everything else a load does.
type scanner struct {
	dialect
	ctx      context.Context
	r        io.Reader
	progress func(read int64) // after each read of the source; may be nil

	buf        []byte
	start, end int // unread part of buf
	read       int64
	ahead      ahead
	eof        bool
	readErr    error // the context's or the source's: not about the content

	line   int      // line of the record that next returned last, from 1
	lines  int      // lines consumed so far
	fields [][]byte // of that record; valid until the following call

	wanted  columns // once they are known: a quote that is wrong in another column does no harm
	known   bool    // wanted is known
	scratch []byte  // a record before its quotes are taken off
	mended  tally   // records with such quotes
}

// ahead is a block of the source that was read before it was needed.
type ahead struct {
	buf  []byte // the block stands behind aheadSlack bytes
	n    int    // bytes of it
	err  error  // which comes after them
	full bool   // the block is there
}

func newScanner(ctx context.Context, r io.Reader, d dialect, progress func(read int64)) *scanner {
	return &scanner{dialect: d, ctx: ctx, r: r, progress: progress, buf: make([]byte, bufferSize)}
}

// peek returns the first line that is not blank, or what there is of it where it
// is longer than any record. It consumes nothing. At the end of the source it
// returns nothing.
func (s *scanner) peek() ([]byte, error) {
	for {
		for rest := s.buf[s.start:s.end]; len(rest) > 0; {
			line, after, ended := bytes.Cut(rest, []byte{'\n'})
			if !ended && !s.eof && len(line) <= maxRecord {
				break
			}
			if line = trimField(bytes.TrimSuffix(line, []byte{'\r'})); len(line) > 0 {
				return line, nil
			}
			rest = after
		}
		if s.eof {
			return nil, nil
		}
		if err := s.fill(); err != nil {
			return nil, err
		}
	}
}

// sample returns the beginning of the source, of size bytes if there are as many, and whether that is all. It consumes nothing.
func (s *scanner) sample(size int) (text []byte, whole bool, err error) {
	for s.end-s.start < size && !s.eof && err == nil {
		err = s.fill()
	}
	return s.buf[s.start:min(s.end, s.start+size)], s.eof && s.end-s.start <= size, err
}

// skip leaves out the next lines.
func (s *scanner) skip(lines int) {
	for ; lines > 0; lines-- {
		i := bytes.IndexByte(s.buf[s.start:s.end], '\n')
		if i < 0 {
			i = s.end - s.start - 1
		}
		s.start += i + 1
		s.lines++
	}
}

// next returns the fields of the next record, or io.EOF. They are valid until
// the following call. Errors of the format concern the record at s.line.
func (s *scanner) next() ([][]byte, error) {
	for {
		record, quoted, err := s.record()
		if err != nil {
			return nil, err
		}
		switch {
		case quoted:
			return s.splitQuoted(record)
		case !s.blank(record):
			return s.split(record), nil
		}
	}
}

// blank reports whether a record is empty. One of separators alone is not: its
// fields are.
func (s *scanner) blank(record []byte) bool {
	return len(trimField(record)) == 0 && (s.blanks || !bytes.Contains(record, []byte(s.sep)))
}

// record returns the bytes of one record without its line end, and whether
// they hold a quote. A line end inside quotes belongs to the record.
func (s *scanner) record() (record []byte, quoted bool, err error) {
	s.line = s.lines + 1
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
		s.lines++
		if s.quotes {
			quotes += s.countQuotes(unread[from:to])
		}
		if quotes%2 == 0 || i < 0 {
			if first > 0 && !s.wellFormed(unread[:to]) {
				return s.cutShort(first), true, nil
			}
			s.start += size
			record = bytes.TrimSuffix(unread[:to], []byte{'\r'})
			if s.line == 1 {
				record = bytes.TrimPrefix(record, byteOrderMark)
			}
			return record, quotes > 0, nil
		}
		if from = size; first == 0 {
			first = size
		}
	}
}

// cutShort takes the first line of what looked like a record of several: a quote of it is not closed, or is none.
func (s *scanner) cutShort(first int) []byte {
	record := bytes.TrimRight(s.buf[s.start:s.start+first], "\r\n")
	if s.lines = s.line; s.line == 1 {
		record = bytes.TrimPrefix(record, byteOrderMark)
	}
	s.start += first
	return record
}

// countQuotes counts the quotes of a line, without those behind a backslash.
func (s *scanner) countQuotes(line []byte) int {
	n := bytes.Count(line, []byte{'"'})
	if s.backslash {
		n -= bytes.Count(line, []byte(`\"`))
	}
	return n
}

// wellFormed reports whether all quotes of a record are where they belong.
func (s *scanner) wellFormed(record []byte) bool {
	s.scratch = append(s.scratch[:0], record...)
	_, err := s.cutQuoted(s.scratch)
	return err == nil
}

// fill reads more of the source behind the unread bytes, which it moves to the
// front of the buffer. At the end of the source it sets eof.
func (s *scanner) fill() error {
	if s.readErr = s.ctx.Err(); s.readErr != nil {
		return s.readErr
	}
	unread := s.buf[s.start:s.end]
	var n int
	var err error
	if s.ahead.full {
		n, err = s.takeAhead(unread)
	} else {
		if len(unread) > len(s.buf)/2 {
			s.buf = make([]byte, 2*len(s.buf))
		}
		s.start, s.end = 0, copy(s.buf, unread)
		n, err = io.ReadAtLeast(s.r, s.buf[s.end:], 1)
		s.end += n
	}
	s.read += int64(n)
	if errors.Is(err, io.EOF) {
		s.eof, err = true, nil
	}
	if s.progress != nil {
		s.progress(s.read)
	}
	s.readErr = err
	return err
}

// readAhead reads a block of the source that fill will take. It touches nothing that the scanner works
// on, so that both may run at the same time.
func (s *scanner) readAhead(size int) {
	a := &s.ahead
	if a.full || s.eof {
		return
	}
	if len(a.buf) < aheadSlack+size+plainSlack {
		a.buf = make([]byte, aheadSlack+size+plainSlack)
	}
	a.n, a.err, a.full = 0, nil, true
	for a.n < size && a.err == nil {
		var n int
		n, a.err = s.r.Read(a.buf[aheadSlack+a.n : aheadSlack+size])
		a.n += n
	}
}

// takeAhead puts the block that was read ahead behind what is unread. An error that ended the block comes alone, after it.
func (s *scanner) takeAhead(unread []byte) (n int, err error) {
	a := &s.ahead
	if a.n == 0 {
		a.full = false
		return 0, a.err
	}
	n = a.n
	if from := aheadSlack - len(unread); from >= 0 {
		copy(a.buf[from:], unread)
		s.buf, a.buf = a.buf, s.buf
		s.start, s.end = from, aheadSlack+n
	} else {
		s.buf = slices.Concat(unread, a.buf[aheadSlack:aheadSlack+n], make([]byte, plainSlack))
		s.start, s.end = 0, len(unread)+n
	}
	a.n, a.full = 0, a.err != nil
	return n, nil
}

// taken returns the bytes of the source that were consumed.
func (s *scanner) taken() int64 { return s.read - int64(s.end-s.start) }

// split cuts a record without quotes at its separators.
func (s *scanner) split(record []byte) [][]byte {
	s.fields = s.fields[:0]
	if s.blanks {
		return s.splitBlanks(record)
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

// splitBlanks cuts a record at runs of spaces and tabs.
func (s *scanner) splitBlanks(record []byte) [][]byte {
	for record = trimField(record); len(record) > 0; record = trimField(record) {
		n := bytes.IndexAny(record, " \t")
		if n < 0 {
			n = len(record)
		}
		s.fields, record = append(s.fields, record[:n]), record[n:]
	}
	return s.fields
}

// cut cuts a line in any way that it can be cut.
func (s *scanner) cut(line []byte) [][]byte {
	if !s.quotes || bytes.IndexByte(line, '"') < 0 {
		return s.split(line)
	}
	s.scratch = append(s.scratch[:0], line...)
	if fields, err := s.cutQuoted(line); err == nil {
		return fields
	}
	fields, _ := s.cutLoosely(s.scratch, mostFields, mostFields)
	return fields
}

// splitQuoted cuts a record that holds quotes. A quote that is where it does not belong is an error, unless the column is not wanted.
func (s *scanner) splitQuoted(record []byte) ([][]byte, error) {
	if s.known {
		s.scratch = append(s.scratch[:0], record...)
	}
	fields, err := s.cutQuoted(record)
	if err == nil || !s.known {
		return fields, err
	}
	last := max(s.wanted.user, s.wanted.item, s.wanted.rating, s.wanted.time)
	fields, odd := s.cutLoosely(s.scratch, last, s.wanted.count)
	if odd <= last && (len(fields) != s.wanted.count || s.wanted.has(odd)) {
		return nil, err
	}
	for len(fields) < s.wanted.count {
		fields = append(fields, nil)
	}
	s.fields = fields[:s.wanted.count]
	s.mended.add(s.line)
	return s.fields, nil
}

// has reports whether a column is wanted.
func (c columns) has(at int) bool {
	return at == c.user || at == c.item || at == c.rating || at == c.time
}

// cutQuoted unescapes in place: an unescaped field is never longer than its source.
func (s *scanner) cutQuoted(record []byte) ([][]byte, error) {
	s.fields = s.fields[:0]
	for {
		field, rest, more, err := s.cutField(record)
		if err != nil {
			return nil, err
		}
		s.fields = append(s.fields, field)
		if !more {
			return s.fields, nil
		}
		record = rest
	}
}

// cutLoosely cuts a record in which quotes stand where they do not belong: they are text. odd is the first field with one. Of fields
// behind it, and behind the last that is needed, nothing is told, nor of more than most.
func (s *scanner) cutLoosely(record []byte, last, most int) (fields [][]byte, odd int) {
	s.fields, odd = s.fields[:0], -1
	for {
		var field, rest []byte
		var more bool
		if s.regular(record) {
			field, rest, more, _ = s.cutField(record)
		} else {
			if odd < 0 {
				odd = len(s.fields)
			}
			field, rest, more = s.cutLooseField(record)
		}
		s.fields = append(s.fields, field)
		if !more || odd > last || len(s.fields) > most {
			return s.fields, max(odd, 0)
		}
		record = rest
	}
}

// regular reports whether the first field of a record has no quote in the wrong place.
func (s *scanner) regular(record []byte) bool {
	open := bytes.TrimLeft(record, " \t")
	if len(open) == 0 || open[0] != '"' {
		field, _, _ := bytes.Cut(record, []byte(s.sep))
		return bytes.IndexByte(field, '"') < 0
	}
	for i := 1; i < len(open); i++ {
		switch {
		case s.backslash && open[i] == '\\' && i+1 < len(open):
			i++
		case open[i] == '"' && i+1 < len(open) && open[i+1] == '"':
			i++
		case open[i] == '"':
			_, _, _, err := s.closeField(nil, open[i+1:])
			return err == nil
		}
	}
	return false
}

// cutLooseField returns a field up to a separator behind a quote, where it begins with one and there is such a separator, else up to the
// next separator.
func (s *scanner) cutLooseField(record []byte) (field, rest []byte, more bool) {
	if open := trimField(record); len(open) > 0 && open[0] == '"' {
		for i := 1; i < len(open); i++ {
			if open[i] != '"' || s.backslash && open[i-1] == '\\' {
				continue
			}
			after := bytes.TrimLeft(open[i+1:], " ")
			if len(after) == 0 || after[0] == s.sep[0] {
				return open[1:i], after[min(1, len(after)):], len(after) > 0
			}
		}
	}
	field, rest, more = bytes.Cut(record, []byte(s.sep))
	return trimField(field), rest, more
}

// cutField returns the first field of a record, what follows its separator, and
// whether there was one.
func (s *scanner) cutField(record []byte) (field, rest []byte, more bool, err error) {
	open := bytes.TrimLeft(record, " \t")
	if s.sep == "\t" {
		open = bytes.TrimLeft(record, " ")
	}
	if len(open) == 0 || open[0] != '"' {
		if s.blanks {
			record = open
		}
		field, rest, more = bytes.Cut(record, []byte(s.sep))
		if bytes.IndexByte(field, '"') >= 0 {
			return nil, nil, false, errBareQuote
		}
		return trimField(field), rest, more && !(s.blanks && len(trimField(rest)) == 0), nil
	}
	text := open[1:]
	n := 0 // length of the unescaped field, which overwrites text
	for i := 0; i < len(text); i++ {
		switch {
		case s.backslash && text[i] == '\\' && i+1 < len(text) && (text[i+1] == '"' || text[i+1] == '\\'):
			i++
		case text[i] == '"':
			if i+1 == len(text) || text[i+1] != '"' {
				return s.closeField(text[:n], text[i+1:])
			}
			i++
		}
		text[n] = text[i]
		n++
	}
	return nil, nil, false, errUnclosed
}

// closeField is a quoted field and what follows its closing quote.
func (s *scanner) closeField(field, after []byte) ([]byte, []byte, bool, error) {
	trimmed := bytes.TrimLeft(after, " ")
	if s.sep != "\t" {
		trimmed = trimField(after)
	}
	switch {
	case len(trimmed) == 0:
		return field, nil, false, nil
	case s.blanks && len(trimmed) < len(after):
		return field, trimmed, true, nil
	case s.blanks || trimmed[0] != s.sep[0]:
		return nil, nil, false, errAfterQuote
	}
	return field, trimmed[1:], true, nil
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
