package read_test

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
	"github.com/fedsim/fedsim/internal/dataset/records"
)

// scanAll returns all records of a text.
func scanAll(r io.Reader, d records.Dialect) (list [][]string, err error) {
	s := records.NewScanner(context.Background(), r, d, nil)
	for {
		var record [][]byte
		record, err = s.Next()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return list, err
		}
		fields := make([]string, len(record))
		for i, field := range record {
			fields[i] = string(field)
		}
		list = append(list, fields)
	}
}

// TestScannerReadsCSV: what encoding/csv writes comes back, in whatever pieces it arrives.
func TestScannerReadsCSV(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// No line end, space or tab closes a field: the first would be an
		// ambiguity of encoding/csv itself (CRLF), the writer leaves the others unquoted.
		field := rapid.StringMatching(`([a-z0-9.é,"\n \t]{0,8}[a-z0-9é,"])?`)
		want := rapid.SliceOfN(rapid.SliceOfN(field, 2, 5), 0, 8).Draw(t, "records")
		var text bytes.Buffer
		if err := csv.NewWriter(&text).WriteAll(want); err != nil {
			t.Fatal(err)
		}
		var in io.Reader = bytes.NewReader(text.Bytes())
		if rapid.Bool().Draw(t, "byte by byte") {
			in = iotest.OneByteReader(in)
		}
		got, err := scanAll(in, records.Commas)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) || len(got) > 0 && !cmp.Equal(want, got) {
			t.Fatalf("%q\n got %q\nwant %q", text.String(), got, want)
		}
	})
}

// TestScannerSplits compares separators without quoting with strings.Split.
func TestScannerSplits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.SampledFrom([]struct {
			sep string
			by  records.Dialect
		}{{"\t", records.Tabs}, {"::", records.Colons}, {"|", records.Pipes}}).Draw(t, "dialect")
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
		got, err := scanAll(in, d.by)
		if err != nil || !slices.EqualFunc(got, want, slices.Equal[[]string]) {
			t.Fatalf("%q between %q\n got %q, %v\nwant %q", d.sep, lines, got, err, want)
		}
	})
}

// TestFirstLine: the first line that is not blank says what a file is, however it arrives, and the records are all still there.
func TestFirstLine(t *testing.T) {
	const line = `{"user":"u","item":"i","rating":3}`
	long := strings.Repeat("x", 1<<20+1)
	for _, c := range []struct {
		text  string
		lines int // of JSON
		says  string
	}{
		{"", 0, records.ErrNoRows.Error()}, {"\n \r\n\t\n", 0, records.ErrNoRows.Error()},
		{line, 1, ""}, {line + "\n" + line + "\r\n", 2, ""}, {"\n \t \r\n\r\n  " + line + " \r\n" + line + "\n", 2, ""}, {"\ufeff" + line + "\n" + line, 2, ""},
		{"user,item,rating\n" + line, 0, ""}, {"\nuser,item,rating\n" + line, 0, ""},
		{long, 0, "record is longer than"}, // enough of it to tell what it is
	} {
		for pieces, r := range map[string]io.Reader{
			"whole":      strings.NewReader(c.text),
			"half":       iotest.HalfReader(strings.NewReader(c.text)),
			"data, EOF":  iotest.DataErrReader(strings.NewReader(c.text)),
			"a few each": &portions{r: strings.NewReader(c.text), size: 7 + len(c.text)/1000},
		} {
			rows, err := records.Open(t.Context(), files.Input{ReadCloser: io.NopCloser(r), Path: "ratings"}, records.Options{})
			if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%.20q (%s): error %v, want %q", c.text, pieces, err, c.says)
			}
			n := 0
			for err == nil && c.lines > 0 {
				if _, err = rows.Next(); err == nil {
					n++
				} else if !errors.Is(err, io.EOF) {
					t.Errorf("%.20q (%s): %v", c.text, pieces, err)
				}
			}
			if n != c.lines {
				t.Errorf("%.20q (%s): %d lines of JSON, want %d", c.text, pieces, n, c.lines)
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
	wide := strings.Repeat("w", 300<<10)
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
			got, err := scanAll(r, records.Commas)
			if err != nil || !slices.EqualFunc(got, c.want, slices.Equal[[]string]) {
				t.Errorf("%s (%s): got %.80q, %v, want %.80q", c.name, pieces, got, err, c.want)
			}
		}
	}
}

func TestScannerLongRecord(t *testing.T) {
	for text, want := range map[string]string{
		strings.Repeat("x", 3<<20):          "record is longer than 1048576 bytes",
		"\"" + strings.Repeat("x\n", 2<<20): "quoted field is not closed", // its first line alone is the record
	} {
		if _, err := scanAll(strings.NewReader(text), records.Commas); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.5q...: error is %v, want %v", text, err, want)
		}
	}
}

// TestParseRating compares with strconv on numbers and on what looks like them.
func TestParseRating(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[-+]?[0-9]{0,18}\.?[0-9]{0,18}([eE][-+]?[0-9]{1,3})?`).Draw(t, "text")
		want, wantErr := strconv.ParseFloat(text, 64)
		got, err := records.ParseRating([]byte(text))
		if (err != nil) != (wantErr != nil) || err == nil && got != want {
			t.Fatalf("%q is %v, %v, want %v, %v", text, got, err, want, wantErr)
		}
	})
	if v, err := records.ParseRating([]byte("-0.0")); err != nil || math.Signbit(v) {
		t.Errorf("-0.0 is %v, %v, want 0 without a sign", v, err)
	}
}
