package records

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dataset/files"
)

// separators lists the separators that are tried, in order.
var separators = []struct{ sep, word, plural string }{
	{",", "comma", "commas"},
	{"::", "colons", "double colons"},
	{"\t", "tab", "tabs"},
	{";", "semicolon", "semicolons"},
	{"|", "pipe", "pipes"},
	{" ", "space", "spaces"},
}

// ParseSeparator returns what a word or a character stands for. "" is none.
func ParseSeparator(text string) (string, error) {
	for _, s := range separators {
		if text == s.sep || strings.EqualFold(text, s.word) || strings.EqualFold(text, s.plural) || s.sep == "\t" && text == `\t` {
			return s.sep, nil
		}
	}
	if text == "" || len(text) == 1 && text[0] > ' ' && text[0] < 0x7f && !strings.ContainsAny(text, `"\'.-+`) && !unicode.IsLetter(rune(text[0])) && !unicode.IsDigit(rune(text[0])) {
		return text, nil
	}
	return "", fmt.Errorf("%q is no separator; want comma, semicolon, tab, pipe, space, :: or another character that is no letter or digit", text)
}

// nameOf is a separator in words.
func nameOf(sep string) string {
	for _, s := range separators {
		if s.sep == sep {
			return s.plural
		}
	}
	return fmt.Sprintf("%q", sep)
}

// mostSampled limits the lines that a dialect is found by.
const mostSampled = 200

// beginning holds the first lines of a separated text.
type beginning struct {
	skip  int      // lines before the first record: comments and what says the separator
	lines [][]byte // from the first record on, without line ends and blank lines
	notes []dataset.Finding
	sep   string // stated by the file; "" for none
}

// begin cuts the beginning of a text into lines. The last is left out where it may be cut, unless it is the only one.
func begin(text []byte, whole bool) beginning {
	var b beginning
	text = bytes.TrimPrefix(text, files.ByteOrderMark)
	comments, matrix := 0, false
	for line := range bytes.Lines(text) {
		ended := line[len(line)-1] == '\n'
		line = bytes.TrimRight(line, "\r\n")
		if len(b.lines) == mostSampled || !ended && !whole && len(b.lines) > 0 {
			break
		}
		trimmed := trimField(line)
		first := len(b.lines) == 0
		switch {
		case first && b.sep == "" && len(trimmed) > 4 && len(trimmed) <= 6 && strings.EqualFold(string(trimmed[:4]), "sep="): // as Excel says it
			b.sep = string(trimmed[len("sep="):])
			b.notes = append(b.notes, dataset.Finding{What: "separator", Found: nameOf(b.sep), Sure: dataset.Stated, Why: "the file has a line " + string(trimmed)})
		case first && isComment(trimmed):
			matrix = matrix || bytes.HasPrefix(trimmed, []byte("%%MatrixMarket"))
			comments++
		case first && matrix && len(trimmed) > 0:
			matrix = false
			b.notes = append(b.notes, dataset.Finding{What: "format", Found: "Matrix Market", Sure: dataset.Stated, Why: "the size " + string(trimmed) + " is left out"})
		case len(trimmed) > 0:
			b.lines = append(b.lines, line)
		}
		if len(b.lines) == 0 {
			b.skip++
		}
	}
	if comments > 0 {
		b.notes = append(b.notes, dataset.Finding{What: "comments", Found: fmt.Sprintf("%d lines at the beginning are left out", comments), Sure: dataset.Certain, Why: "they begin with # or %"})
	}
	return b
}

// isComment reports whether a line before the first record is a comment. A line that names the columns is a header.
func isComment(line []byte) bool {
	if len(line) == 0 || line[0] != '#' && line[0] != '%' {
		return false
	}
	fields := bytes.FieldsFunc(line[1:], func(r rune) bool { return strings.ContainsRune(",;|\t :", r) })
	_, _, err := parseHeader(fields, Names{})
	return err != nil
}

// candidate is a separator and how well it fits the lines.
type candidate struct {
	Dialect
	fields int     // of most lines, or of a first line that names known columns
	share  float64 // of the lines that have so many
	clean  float64 // share of fields that hold no other separator
	header bool    // the first line names known columns
}

// open finds how the fields of a text are told apart, by the separator that the caller states or by the beginning of the text, and leaves
// out what stands before the first record. named reports whether a first line has names of columns that are known.
func (s *Scanner) open(separator string, named func(first [][]byte) bool) (b beginning, found []dataset.Finding, err error) {
	text, whole, err := s.sample(files.HeadSize)
	if err != nil && len(text) == 0 {
		return b, nil, err
	}
	s.readErr = nil // an error comes again behind the sample
	b = begin(text, whole)
	s.skip(b.skip)
	switch {
	case separator != "":
		s.Dialect = dialectFor(separator, b.lines)
		found = append(found, dataset.Finding{What: "separator", Found: nameOf(separator), Sure: dataset.Stated})
	case b.sep != "":
		s.Dialect = dialectFor(b.sep, b.lines)
	default:
		var sniffed dataset.Finding
		s.Dialect, sniffed = sniffDialect(b.lines, named)
		found = append(found, sniffed)
	}
	return b, append(found, b.notes...), nil
}

// sniffDialect finds the separator that fits some lines best.
func sniffDialect(lines [][]byte, named func(first [][]byte) bool) (Dialect, dataset.Finding) {
	best := candidate{Dialect: Commas}
	for _, s := range separators {
		c := rate(dialectFor(s.sep, lines), lines, named)
		if c.fields >= 2 && c.better(best) {
			best = c
		}
	}
	found := dataset.Finding{What: "separator", Found: nameOf(best.sep), Sure: dataset.Certain}
	switch {
	case best.fields < 2:
		found.Sure, found.Why = dataset.Likely, "the lines have no other separator"
	case best.header:
		found.Why = "the first line then names the columns"
	case best.share == 1:
		found.Why = fmt.Sprintf("%d fields on each of the first %d lines", best.fields, len(lines))
	default:
		found.Sure, found.Why = dataset.Likely, fmt.Sprintf("%d fields on %.0f%% of the first %d lines", best.fields, 100*best.share, len(lines))
	}
	return best.Dialect, found
}

// better orders candidates: who names known columns, then whose fields are alike and clean.
func (c candidate) better(than candidate) bool {
	if c.header != than.header {
		return c.header
	}
	if than.fields < 2 {
		return true
	}
	return c.share*c.clean > than.share*than.clean+1e-9
}

// dialectFor is a dialect with a separator. Fields may be quoted where commas or semicolons stand between, or where fields begin and
// end with a quote.
func dialectFor(sep string, lines [][]byte) Dialect {
	d := Dialect{sep: sep, quotes: sep == "," || sep == ";", blanks: sep == " "}
	if len(sep) == 1 && !d.quotes {
		d.quotes = quoted(lines, d)
	}
	if d.quotes {
		d.backslash = slices.ContainsFunc(lines, func(line []byte) bool { return escapes(line, sep) })
	}
	return d
}

// quoted reports whether some field of the lines is enclosed in quotes, and no quote stands anywhere else.
func quoted(lines [][]byte, d Dialect) bool {
	d.quotes = true
	s := Scanner{Dialect: d}
	enclosed := false
	for _, line := range lines {
		if bytes.IndexByte(line, '"') < 0 {
			continue
		}
		if _, err := s.cutQuoted(line, -1, 0); err != nil {
			return false
		}
		enclosed = true
	}
	return enclosed
}

// escapes reports whether a backslash before a quote of a line can only make the quote text.
func escapes(line []byte, sep string) bool {
	for {
		at := bytes.Index(line, []byte(`\"`))
		if at < 0 {
			return false
		}
		line = line[at+2:]
		if after := trimField(line); len(after) > 0 && after[0] != '"' && after[0] != sep[0] {
			return true
		}
	}
}

// rate counts the fields of the lines.
func rate(d Dialect, lines [][]byte, named func(first [][]byte) bool) candidate {
	c := candidate{Dialect: d}
	counts := map[int]int{}
	clean, all, first := 0, 0, 0
	for i, line := range lines {
		fields := d.fieldsOf(line)
		counts[len(fields)]++
		if i == 0 {
			c.header, first = named(fields), len(fields)
		}
		for _, field := range fields {
			all++
			if isClean(field, d.sep) {
				clean++
			}
		}
	}
	for n, lines := range counts {
		if c.header {
			n, lines = first, counts[first]
		}
		if lines > counts[c.fields] || lines == counts[c.fields] && n > c.fields {
			c.fields = n
		}
	}
	if len(lines) > 0 {
		c.share, c.clean = float64(counts[c.fields])/float64(len(lines)), float64(clean)/float64(all)
	}
	if d.blanks && tabbed(lines) {
		c.clean, c.header = 0, c.header && counts[first] > 1
	}
	return c
}

// tabbed reports whether all lines below the first have as many tabs, and some: spaces between are then text.
func tabbed(lines [][]byte) bool {
	tab, rows := []byte{'\t'}, lines[min(1, max(0, len(lines)-1)):]
	return len(rows) > 0 && bytes.Contains(rows[0], tab) && !slices.ContainsFunc(rows, func(line []byte) bool { return bytes.Count(line, tab) != bytes.Count(rows[0], tab) })
}

// isClean reports whether a field holds no separator but the dialect's, or is a number with a decimal comma.
func isClean(field []byte, sep string) bool {
	_, is := DecimalComma(field)
	others := []string{",", ";", "\t", "|", "::"}
	return is || !slices.ContainsFunc(others, func(other string) bool { return other != sep && bytes.Contains(field, []byte(other)) })
}

// DecimalComma returns a number with a point in place of its decimal comma.
func DecimalComma(field []byte) (point []byte, is bool) {
	at := bytes.IndexByte(field, ',')
	if at < 1 || at == len(field)-1 {
		return nil, false
	}
	for i, c := range field {
		if i != at && (c < '0' || c > '9') && !(i == 0 && (c == '-' || c == '+') && at > 1) {
			return nil, false
		}
	}
	point = bytes.Clone(field)
	point[at] = '.'
	return point, true
}

// OpenTable opens a table whose first record names its columns. The separator is one with which that record has one of
// the names, if there is any. The header is nil where the file is empty.
func OpenTable(ctx context.Context, in files.Input, names []string) (s *Scanner, header [][]byte, err error) {
	s = NewScanner(ctx, in, Commas, in.Progress)
	_, _, err = s.open("", func(first [][]byte) bool {
		return slices.ContainsFunc(first, func(field []byte) bool {
			return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, string(field)) })
		})
	})
	if err == nil {
		header, err = s.Next()
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return s, header, err
}

// splitQuoted cuts a record that holds quotes. A quote that is where it does not belong is an error, unless the column is not wanted.
func (s *Scanner) splitQuoted(record []byte) ([][]byte, error) {
	last, most := -1, 0
	if s.wanted.Count > 0 {
		last, most = slices.Max(s.wanted.At[:]), s.wanted.Count
	}
	odd, err := s.cutQuoted(record, last, most)
	if err == nil {
		return s.fields, nil
	}
	if most == 0 || odd > most || odd <= last && (len(s.fields) != most || s.wanted.has(odd)) {
		return nil, err
	}
	for len(s.fields) < most {
		s.fields = append(s.fields, nil)
	}
	s.fields = s.fields[:most]
	s.Mended.Add(s.Line)
	return s.fields, nil
}

// has reports whether a column is wanted.
func (c Columns) has(at int) bool { return slices.Contains(c.At[:], at) }

// cutQuoted cuts a record into s.fields. err is about the first field with a quote where it does not belong, and odd is its place. Such
// quotes are text. Behind an odd field beyond the last that is needed, and behind more than most fields, the record is not read.
func (s *Scanner) cutQuoted(record []byte, last, most int) (odd int, err error) {
	s.fields, s.scratch = s.fields[:0], s.scratch[:0]
	for {
		field, rest, more, wrong := s.cutField(record)
		if wrong != nil {
			if err == nil {
				odd, err = len(s.fields), wrong
			}
			field, rest, more = s.cutLooseField(record)
		}
		s.fields = append(s.fields, field)
		if !more || err != nil && (odd > last || len(s.fields) > most) {
			return odd, err
		}
		record = rest
	}
}

// cutLooseField returns a field up to a separator behind a quote, where it begins with one and there is such a separator, else up to the
// next separator.
func (s *Scanner) cutLooseField(record []byte) (field, rest []byte, more bool) {
	if open := s.trimLeft(record); len(open) > 0 && open[0] == '"' {
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
func (s *Scanner) cutField(record []byte) (field, rest []byte, more bool, err error) {
	open := s.trimLeft(record)
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
	text, plain := open[1:], true
	for i := 0; i < len(text); i++ {
		switch {
		case s.isEscape(text[i:]):
			plain = false
			i++
		case text[i] == '"' && plain:
			return s.closeField(text[:i], text[i+1:])
		case text[i] == '"':
			return s.closeField(s.unescape(text[:i]), text[i+1:])
		}
	}
	return nil, nil, false, errUnclosed
}

// isEscape reports whether the first byte of quoted text is there only to say that the second is text.
func (s *Scanner) isEscape(text []byte) bool {
	return len(text) > 1 && (text[0] == '"' && text[1] == '"' || s.backslash && text[0] == '\\' && (text[1] == '"' || text[1] == '\\'))
}

// unescape returns quoted text without the bytes that escape others, in memory of the record.
func (s *Scanner) unescape(text []byte) []byte {
	from := len(s.scratch)
	for i := 0; i < len(text); i++ {
		if s.isEscape(text[i:]) {
			i++
		}
		s.scratch = append(s.scratch, text[i])
	}
	return s.scratch[from:]
}

// trimLeft drops the blanks before a field.
func (s *Scanner) trimLeft(record []byte) []byte {
	if s.sep == "\t" {
		return bytes.TrimLeft(record, " ")
	}
	return bytes.TrimLeft(record, " \t")
}

// closeField is a quoted field and what follows its closing quote.
func (s *Scanner) closeField(field, after []byte) ([]byte, []byte, bool, error) {
	trimmed := s.trimLeft(after)
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
