package records

import "bytes"

// splitQuoted cuts a record that holds quotes. A quote that is where it does not belong is an error, unless the column is not wanted.
func (s *Scanner) splitQuoted(record []byte) ([][]byte, error) {
	if s.known {
		s.scratch = append(s.scratch[:0], record...)
	}
	fields, err := s.cutQuoted(record)
	if err == nil || !s.known {
		return fields, err
	}
	last := max(s.wanted.User, s.wanted.Item, s.wanted.Rating, s.wanted.Time)
	fields, odd := s.cutLoosely(s.scratch, last, s.wanted.Count)
	if odd <= last && (len(fields) != s.wanted.Count || s.wanted.has(odd)) {
		return nil, err
	}
	for len(fields) < s.wanted.Count {
		fields = append(fields, nil)
	}
	s.fields = fields[:s.wanted.Count]
	s.Mended.Add(s.Line)
	return s.fields, nil
}

// has reports whether a column is wanted.
func (c Columns) has(at int) bool {
	return at == c.User || at == c.Item || at == c.Rating || at == c.Time
}

// cutQuoted unescapes in place: an unescaped field is never longer than its source.
func (s *Scanner) cutQuoted(record []byte) ([][]byte, error) {
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
func (s *Scanner) cutLoosely(record []byte, last, most int) (fields [][]byte, odd int) {
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
func (s *Scanner) regular(record []byte) bool {
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
func (s *Scanner) cutLooseField(record []byte) (field, rest []byte, more bool) {
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
func (s *Scanner) cutField(record []byte) (field, rest []byte, more bool, err error) {
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
func (s *Scanner) closeField(field, after []byte) ([]byte, []byte, bool, error) {
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
