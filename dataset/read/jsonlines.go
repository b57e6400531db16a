package read

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/internal/idtext"
)

// sniffed is how much of JSON lines is read before the columns are settled, in bytes.
const sniffed = 1 << 20

// jsonLines are records of JSON lines: objects, one a line, whose names are the names of columns.
type jsonLines struct {
	*scanner
	names  []string // of the fields that are wanted
	absent []string // columns that no object had that was read to settle the columns
	fields [][]byte
	ahead  []jsonLine // read to settle the columns, and not yet returned
	now    int        // the line that next returned last
}

// jsonLine is an object or what is wrong with its line.
type jsonLine struct {
	object map[string]json.RawMessage
	line   int
	err    error
}

// openJSONLines settles the columns by the names of all objects of the first megabyte: any of them may lack a field.
func openJSONLines(s *scanner, _ input, names Columns) (ratingRows, error) {
	s.dialect = tabs // no quotes: a line is a record
	j := &jsonLines{scanner: s}
	out := ratingRows{rows: j}
	keys := map[string]bool{}
	for s.taken() < sniffed {
		object, err := j.object()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !unusable(err) {
			j.now = s.line
			return out, err
		}
		j.ahead = append(j.ahead, jsonLine{object, s.line, err})
		for key := range object {
			keys[key] = true
		}
	}
	if j.now = s.line; len(j.ahead) > 0 {
		j.now = j.ahead[0].line
	}
	if len(keys) == 0 && len(j.ahead) > 0 && j.ahead[0].err != nil {
		return out, j.ahead[0].err
	}
	var header [][]byte
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		header = append(header, []byte(name))
	}
	f, cols, err := parseHeader(header, names)
	if errors.Is(err, errNoHeader) {
		err = fmt.Errorf("the object has no user and item; %s", wantColumns)
	}
	if err != nil {
		return out, err
	}
	if cols.rating < 0 {
		j.absent = append(j.absent, cmp.Or(names.Rating, ratingColumn))
	}
	if cols.time < 0 {
		j.absent = append(j.absent, cmp.Or(names.Timestamp, timeColumn))
	}
	out.format = f
	out.cols = j.choose(header, cols)
	return out, nil
}

func (j *jsonLines) at() int { return j.now }

func (j *jsonLines) locate(file string, err error) error {
	if j.readErr != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return &dataset.FileError{File: file, Line: j.now, Err: err}
}

// choose makes the columns that are there the fields of a record, in the order user, item, rating,
// timestamp.
func (j *jsonLines) choose(header [][]byte, cols columns) columns {
	for _, at := range []*int{&cols.user, &cols.item, &cols.rating, &cols.time} {
		if *at >= 0 {
			j.names = append(j.names, string(header[*at]))
			*at = len(j.names) - 1
		}
	}
	cols.count = len(j.names)
	return cols
}

// object reads the next line that is not blank.
func (j *jsonLines) object() (map[string]json.RawMessage, error) {
	for {
		line, _, err := j.record()
		if err != nil {
			return nil, err
		}
		if line = trimField(line); len(line) == 0 {
			continue
		}
		var object map[string]json.RawMessage
		if err = json.Unmarshal(line, &object); err != nil || object == nil {
			return nil, recordError{fmt.Errorf("%s is no JSON object; want one a line", idtext.Quote(line))}
		}
		return object, nil
	}
}

func (j *jsonLines) next() ([][]byte, error) {
	var read jsonLine
	if len(j.ahead) > 0 {
		read, j.ahead = j.ahead[0], j.ahead[1:]
	} else {
		read.object, read.err = j.object()
		read.line = j.line
	}
	j.now = read.line
	if read.err != nil {
		return nil, read.err
	}
	for _, name := range j.absent {
		if _, late := read.object[name]; late {
			return nil, fmt.Errorf("the object has %q, and no object of the first %d bytes has; write it into every object, or into the first", name, sniffed)
		}
	}
	return j.pick(read.object)
}

// pick are the fields of an object. Texts and numbers are as they stand there; null, and what is not
// there, is empty.
func (j *jsonLines) pick(object map[string]json.RawMessage) ([][]byte, error) {
	j.fields = j.fields[:0]
	for _, name := range j.names {
		field := []byte(object[name])
		switch {
		case len(field) == 0 || string(field) == "null":
			field = nil
		case field[0] == '"':
			var text string
			if err := json.Unmarshal(field, &text); err != nil {
				return nil, recordError{err}
			}
			field = []byte(text)
		case strings.IndexByte("{[tf", field[0]) >= 0:
			return nil, recordError{fmt.Errorf("%q is %s; want a text or a number", name, idtext.Quote(field))}
		}
		j.fields = append(j.fields, field)
	}
	return j.fields, nil
}
