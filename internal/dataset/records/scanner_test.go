package records

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fedsim/fedsim/internal/dataset/files"
)

// scanAll returns all records of a text.
func scanAll(r io.Reader, d Dialect) (records [][]string, err error) {
	s := NewScanner(context.Background(), r, d, nil)
	for {
		var record [][]byte
		record, err = s.Next()
		if errors.Is(err, io.EOF) {
			return records, nil
		}
		if err != nil {
			return records, err
		}
		fields := make([]string, len(record))
		for i, field := range record {
			fields[i] = string(field)
		}
		records = append(records, fields)
	}
}

// TestScannerReadsCSV: what encoding/csv writes comes back, in whatever pieces it arrives.
func TestScannerReadsCSV(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// No line end, space or tab closes a field: the first would be an
		// ambiguity of encoding/csv itself (CRLF), the writer leaves the others unquoted.
		field := rapid.StringMatching(`([a-z0-9.é,"\n \t]{0,8}[a-z0-9é,"])?`)
		records := rapid.SliceOfN(rapid.SliceOfN(field, 2, 5), 0, 8).Draw(t, "records")
		var text bytes.Buffer
		if err := csv.NewWriter(&text).WriteAll(records); err != nil {
			t.Fatal(err)
		}
		var in io.Reader = bytes.NewReader(text.Bytes())
		if rapid.Bool().Draw(t, "byte by byte") {
			in = iotest.OneByteReader(in)
		}
		got, err := scanAll(in, Commas)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(records) || len(got) > 0 && !cmp.Equal(records, got) {
			t.Fatalf("%q\n got %q\nwant %q", text.String(), got, records)
		}
	})
}

// TestScannerSplits compares separators without quoting with strings.Split.
func TestScannerSplits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom([]Dialect{tabs, Colons, Pipes}).Draw(t, "dialect")
		lines := rapid.SliceOfN(rapid.StringMatching(`[a:|"é,\t ]{0,12}`), 0, 8).Draw(t, "lines")
		var want [][]string
		for _, line := range lines {
			fields := strings.Split(line, d.sep)
			for i, field := range fields {
				fields[i] = strings.Trim(field, " \t")
			}
			if len(fields) > 1 || fields[0] != "" { // else it is blank
				want = append(want, fields)
			}
		}
		var in io.Reader = strings.NewReader(strings.Join(lines, "\n"))
		if rapid.Bool().Draw(t, "byte by byte") {
			in = iotest.OneByteReader(in)
		}
		got, err := scanAll(in, d)
		if err != nil || !slices.EqualFunc(got, want, slices.Equal[[]string]) {
			t.Fatalf("%q between %q\n got %q, %v\nwant %q", d.sep, lines, got, err, want)
		}
	})
}

// TestScannerFirstLine: the first line that is not blank, however it arrives, and the
// records are all still there.
func TestScannerFirstLine(t *testing.T) {
	long := strings.Repeat("x", maxRecord+1)
	for text, want := range map[string]string{
		"": "", "\n \r\n\t\n": "", "a,b\nc": "a,b", "\n\r\n  a b \r\nc\n": "a b", "end": "end", long + "x\n": long + "x",
	} {
		for pieces, r := range map[string]io.Reader{
			"whole":      strings.NewReader(text),
			"half":       iotest.HalfReader(strings.NewReader(text)),
			"data, EOF":  iotest.DataErrReader(strings.NewReader(text)),
			"a few each": &portions{r: strings.NewReader(text), size: 1000},
		} {
			s := NewScanner(context.Background(), r, Commas, nil)
			got, err := s.firstLine()
			if len(want) > maxRecord { // enough of it to tell what it is
				if len(got) < files.HeadSize || !strings.HasPrefix(want, string(got)) || err != nil {
					t.Errorf("%.20q (%s): %d bytes, %v, want %d of it", text, pieces, len(got), err, files.HeadSize)
				}
				continue
			}
			if string(got) != want || err != nil {
				t.Errorf("%q (%s): got %q, %v, want %q", text, pieces, got, err, want)
			}
			if record, err := s.Next(); want != "" && (err != nil || string(bytes.Join(record, []byte{','})) != want) {
				t.Errorf("%q (%s): first record is %q, %v, want %q", text, pieces, record, err, want)
			}
		}
	}
}

// portions reads a few bytes at a time.
type portions struct {
	r    io.Reader
	size int
}

func (c *portions) Read(p []byte) (int, error) { return c.r.Read(p[:min(len(p), c.size)]) }

func TestScannerEdges(t *testing.T) {
	wide := strings.Repeat("w", bufferSize+7)
	for _, c := range []struct {
		name, text string
		want       [][]string
	}{
		{"nothing", "", nil},
		{"blank lines only", "\n \t\r\n\n", nil},
		{"no final line end", "a,b\nc,d", [][]string{{"a", "b"}, {"c", "d"}}},
		{"carriage returns", "a,b\r\n\"c\",d\r\n", [][]string{{"a", "b"}, {"c", "d"}}},
		{"byte order mark before a quote", "\xef\xbb\xbf\"a\",b\n", [][]string{{"a", "b"}}},
		{"byte order mark on the second line is text", "a\n\xef\xbb\xbfb\n", [][]string{{"a"}, {"\ufeffb"}}},
		{"spaces", " a\t, \"b \" , c d ,\n", [][]string{{"a", "b ", "c d", ""}}},
		{"empty fields", ",,\n\"\"\n", [][]string{{"", "", ""}, {""}}},
		{"a field wider than the buffer", wide + ",b\n\"" + wide + "\",c\n", [][]string{{wide, "b"}, {wide, "c"}}},
		{"line end in quotes", "\"a\nb\",c\nd,e\n", [][]string{{"a\nb", "c"}, {"d", "e"}}},
	} {
		for pieces, r := range map[string]io.Reader{
			"whole":     strings.NewReader(c.text),
			"pieces":    &portions{strings.NewReader(c.text), 1 + len(c.text)/1000},
			"data, EOF": iotest.DataErrReader(strings.NewReader(c.text)),
		} {
			got, err := scanAll(r, Commas)
			if err != nil || !slices.EqualFunc(got, c.want, slices.Equal[[]string]) {
				t.Errorf("%s (%s): got %.80q, %v, want %.80q", c.name, pieces, got, err, c.want)
			}
		}
	}
}

func TestScannerLongRecord(t *testing.T) {
	for text, want := range map[string]error{
		strings.Repeat("x", 3*maxRecord):          errLongRecord,
		"\"" + strings.Repeat("x\n", 2*maxRecord): errUnclosed, // its first line alone is the record
	} {
		if _, err := scanAll(strings.NewReader(text), Commas); !errors.Is(err, want) {
			t.Errorf("%.5q...: error is %v, want %v", text, err, want)
		}
	}
}

// TestParseRating compares with strconv on numbers and on what looks like them.
func TestParseRating(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[-+]?[0-9]{0,18}\.?[0-9]{0,18}([eE][-+]?[0-9]{1,3})?`).Draw(t, "text")
		want, wantErr := strconv.ParseFloat(text, 64)
		got, err := ParseRating([]byte(text))
		if (err != nil) != (wantErr != nil) || err == nil && got != want {
			t.Fatalf("%q is %v, %v, want %v, %v", text, got, err, want, wantErr)
		}
	})
	if v, err := ParseRating([]byte("-0.0")); err != nil || math.Signbit(v) {
		t.Errorf("-0.0 is %v, %v, want 0 without a sign", v, err)
	}
}
