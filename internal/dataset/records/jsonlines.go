package records

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dataset/files"
	"github.com/fedsim/fedsim/internal/dataset/idtext"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/strictjson"
)

// sniffed bounds the bytes of JSON lines that are read to settle the columns.
const sniffed = 1 << 20

// jsonLines are records of JSON lines: objects, one a line, whose names are the names of columns.
type jsonLines struct {
	*Scanner
	names  []string // of the fields that are wanted; the first two are of ids
	array  bool     // the objects are the elements of one array
	begun  bool     // its bracket was read
	absent []string // columns that no object had that was read to settle the columns
	fields [][]byte
	ahead  []jsonLine // read to settle the columns, and not yet returned
}

// jsonLine is an object or what is wrong with its line.
type jsonLine struct {
	object map[string]json.RawMessage
	line   int
	err    error
}

// openJSONLines settles the columns by the names of all objects of the first megabyte: any of them may lack a field.
func openJSONLines(s *Scanner, _ files.Input, o Options) (RatingRows, error) {
	s.Dialect = Tabs // no quotes: a line is a record
	line, err := s.firstLine()
	if err != nil {
		return RatingRows{Rows: s}, err
	}
	j := &jsonLines{Scanner: s, array: line[0] == '['}
	out := RatingRows{Rows: j}
	if o.Columns.placed() {
		s.Line = 1
		return out, errors.New("objects have no places; say the names of their fields: --columns user=NAME,item=NAME,rating=NAME")
	}
	keys := map[string]bool{}
	for s.BytesRead-int64(s.end-s.start) < sniffed { // consumed
		object, failed := j.object()
		if errors.Is(failed, io.EOF) {
			break
		}
		if failed != nil && !IsMalformed(failed) {
			return out, failed
		}
		j.ahead = append(j.ahead, jsonLine{object, s.Line, failed})
		for key := range object {
			keys[key] = true
		}
	}
	if len(j.ahead) > 0 {
		s.Line = j.ahead[0].line
	}
	if len(keys) == 0 && len(j.ahead) > 0 && j.ahead[0].err != nil {
		return out, j.ahead[0].err
	}
	form, why := "JSON lines", "it begins with {"
	if j.array {
		form, why = "JSON array", "it begins with ["
	}
	header := slices.Sorted(maps.Keys(keys))
	places, err := out.named(header, o.Columns, form, why, "the object has no user and item", lists.Map(j.ahead, func(line jsonLine) [][]byte {
		return lists.Map(header, func(name string) []byte { return unquoted(line.object[name]) })
	}))
	for i := Rating; i <= Time; i++ {
		if out.Cols.At[i] < 0 {
			j.absent = append(j.absent, cmp.Or(o.Columns[i], usual[i]))
		}
	}
	j.names = lists.Map(places, func(at int) string { return header[at] })
	return out, err
}

// named recognizes a file whose values have names, notes its form, and returns the places of the columns that are wanted. missing is the
// error where the names are of no ratings, and sample holds the values of the first records.
func (r *RatingRows) named(names []string, own Names, form, why, missing string, sample [][][]byte) (places []int, err error) {
	header := lists.Map(names, func(name string) []byte { return []byte(name) })
	if r.Format, r.Cols, err = parseHeader(header, own); errors.Is(err, errNoHeader) {
		err = fmt.Errorf("%s; %s", missing, WantColumns)
	}
	if err != nil {
		return nil, err
	}
	r.note("format", form, dataset.Certain, why)
	r.noteColumns(header, dataset.Certain)
	r.noteFormat()
	r.noteValues(header, sample)
	return r.Cols.Choose(), nil
}

// object reads the next object: a line that is not blank, or an element of the array.
func (j *jsonLines) object() (map[string]json.RawMessage, error) {
	for {
		line, err := j.text()
		if err != nil {
			return nil, err
		}
		if line = trimField(line); len(line) == 0 {
			continue
		}
		var object map[string]json.RawMessage
		if err = json.Unmarshal(line, &object); err != nil || object == nil {
			return nil, Malformed(fmt.Errorf("%s is no JSON object; want one a line%s", idtext.Quote(line), pythonHint(line)))
		}
		if bytes.Count(line, []byte(":")) > len(object) { // each name has one, so that few lines are read twice
			if err = strictjson.Once(line); err != nil {
				return nil, Malformed(err)
			}
		}
		return object, nil
	}
}

// pythonHint says what to do about a dict of Python.
func pythonHint(line []byte) string {
	if !bytes.HasPrefix(line, []byte("{'")) && !bytes.HasPrefix(line, []byte("{u'")) {
		return ""
	}
	return `; it looks like a dict of Python, convert it: python3 -c "import ast,json,sys; [print(json.dumps(ast.literal_eval(l))) for l in sys.stdin]" < FILE > ratings.jsonl`
}

// text returns the text of the next object.
func (j *jsonLines) text() ([]byte, error) {
	if !j.array {
		line, _, err := j.record()
		return line, err
	}
	for {
		j.Line = j.Lines + 1
		c, err := j.byteAt(0)
		switch {
		case err != nil:
			return nil, err
		case c == '{':
			return j.element()
		case c == ']' && j.begun:
			return nil, io.EOF
		case c == '[' && !j.begun:
			j.begun = true
		case c == '\n':
			j.Lines++
		case strings.IndexByte(" \t\r,\xef\xbb\xbf", c) < 0:
			return nil, errors.New("the array holds something that is no JSON object; want objects with commas between")
		}
		j.start++
	}
}

// byteAt returns byte i of what was not read yet.
func (j *jsonLines) byteAt(i int) (byte, error) {
	for j.start+i >= j.end {
		switch {
		case j.eof:
			return 0, errors.New("the array is not closed; the file is not whole")
		case i > maxRecord:
			return 0, errLongRecord
		}
		if err := j.fill(); err != nil {
			return 0, err
		}
	}
	return j.buf[j.start+i], nil
}

// element takes an object up to its closing brace.
func (j *jsonLines) element() ([]byte, error) {
	depth, inText := 0, false
	for i := 0; ; i++ {
		c, err := j.byteAt(i)
		switch {
		case err != nil:
			return nil, err
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case c == '\n':
			j.Lines++
		case !inText && c == '{':
			depth++
		case !inText && c == '}':
			if depth--; depth == 0 {
				text := j.buf[j.start : j.start+i+1]
				j.start += i + 1
				return text, nil
			}
		}
	}
}

func (j *jsonLines) Next() ([][]byte, error) {
	var object map[string]json.RawMessage
	var err error
	if len(j.ahead) > 0 {
		object, j.Line, err = j.ahead[0].object, j.ahead[0].line, j.ahead[0].err
		j.ahead = j.ahead[1:]
	} else {
		object, err = j.object()
	}
	if err != nil {
		return nil, err
	}
	for _, name := range j.absent {
		if _, late := object[name]; late {
			return nil, fmt.Errorf("the object has %q, and no object of the first %d bytes has; write it into every object, or into the first", name, sniffed)
		}
	}
	return j.pick(object)
}

// pick are the fields of an object. Texts and numbers are as they stand there; null, and what is not
// there, is empty.
func (j *jsonLines) pick(object map[string]json.RawMessage) ([][]byte, error) {
	j.fields = j.fields[:0]
	for i, name := range j.names {
		field := []byte(object[name])
		isID := i <= Item
		switch {
		case len(field) == 0 || string(field) == "null":
			field = nil
		case field[0] == '"':
			field = unquoted(field)
		case field[0] == '{' || field[0] == '[' || isID && (field[0] == 't' || field[0] == 'f'):
			return nil, Malformed(fmt.Errorf("%q is %s; want a text or a number", name, idtext.Quote(field)))
		case isID:
			id, err := idtext.ParseNumber(string(field))
			if err != nil {
				return nil, Malformed(fmt.Errorf("%q: %w", name, err))
			}
			field = []byte(id)
		}
		j.fields = append(j.fields, field)
	}
	return j.fields, nil
}

// unquoted returns a text without quotes and escapes, and any other value as it stands.
func unquoted(value json.RawMessage) []byte {
	var text string
	if json.Unmarshal(value, &text) != nil {
		return value
	}
	return []byte(text)
}

// ParquetFile has the rows of a Parquet file.
type ParquetFile interface {
	Rows
	// Names returns the names of the columns.
	Names() []string
	// First returns the first value of each column as text, empty where it is no single value.
	First() ([][]byte, error)
	// Choose makes the columns in the given places the fields of a record. The first two are of ids.
	Choose(places []int) error
}

// Parquet opens a Parquet file of size bytes. It is nil in a program that does not import package dataset/parquet.
var Parquet func(ctx context.Context, r io.ReaderAt, size int64, progress func(int64)) (ParquetFile, error)

// openParquet recognizes a Parquet file by the names of its columns. Its end says where they
// are, so that it cannot come from a pipe or an archive.
func openParquet(s *Scanner, in files.Input, o Options) (RatingRows, error) {
	out := RatingRows{Rows: &Scanner{Line: 1}}
	if Parquet == nil {
		return out, errors.New("a Parquet file: this program has no reader for it; import github.com/fedsim/fedsim/dataset/parquet, or convert the file to CSV")
	}
	whole, ok := in.ReadCloser.(interface {
		io.ReaderAt
		io.Seeker
	})
	if !ok {
		return out, errors.New("a Parquet file cannot be read from an archive or a pipe; unpack it and name the file")
	}
	size, err := whole.Seek(0, io.SeekEnd)
	if err != nil {
		return out, errors.New("a Parquet file cannot be read from a pipe; save it and name the file")
	}
	file, err := Parquet(s.ctx, whole, size, in.Progress)
	if err != nil {
		return out, err
	}
	out.Rows = file
	first, err := file.First()
	if err != nil {
		return out, err
	}
	places, err := out.named(file.Names(), o.Columns, "Parquet", "by its first bytes", "no column is called user or item", [][][]byte{first})
	if err != nil {
		return out, err
	}
	return out, file.Choose(places)
}
