package dataset

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// scanAll returns all records of a text.
func scanAll(r io.Reader) (records [][]string, err error) {
	s := newScanner(context.Background(), r, nil)
	for {
		var record [][]byte
		record, err = s.next()
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
		got, err := scanAll(in)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(records) || len(got) > 0 && !cmp.Equal(records, got) {
			t.Fatalf("%q\n got %q\nwant %q", text.String(), got, records)
		}
	})
}

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
			"one byte":  iotest.OneByteReader(strings.NewReader(c.text)),
			"data, EOF": iotest.DataErrReader(strings.NewReader(c.text)),
		} {
			got, err := scanAll(r)
			if err != nil || !slices.EqualFunc(got, c.want, slices.Equal[[]string]) {
				t.Errorf("%s (%s): got %.80q, %v, want %.80q", c.name, pieces, got, err, c.want)
			}
		}
	}
}

func TestScannerLongRecord(t *testing.T) {
	for name, text := range map[string]string{
		"line":       strings.Repeat("x", 3*maxRecord),
		"open quote": "\"" + strings.Repeat("x\n", 2*maxRecord),
	} {
		if _, err := scanAll(strings.NewReader(text)); !errors.Is(err, errLongRecord) {
			t.Errorf("%s: error is %v, want %v", name, err, errLongRecord)
		}
	}
}

// TestReadError: an error of the source keeps its kind and is not blamed on a line.
func TestReadError(t *testing.T) {
	broken := io.MultiReader(strings.NewReader("user,item,rating\na,b,1\n"), iotest.ErrReader(io.ErrClosedPipe))
	_, err := readRatings(context.Background(), "x.csv", broken, Options{}, nil)
	if want := "x.csv: " + io.ErrClosedPipe.Error(); err == nil || err.Error() != want || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("error is %v, want %s, wrapped", err, want)
	}
}

// TestParseRating compares with strconv on numbers and on what looks like them.
func TestParseRating(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[-+]?[0-9]{0,18}\.?[0-9]{0,18}([eE][-+]?[0-9]{1,3})?`).Draw(t, "text")
		want, wantErr := strconv.ParseFloat(text, 64)
		got, err := parseRating([]byte(text))
		if (err != nil) != (wantErr != nil) || err == nil && got != want {
			t.Fatalf("%q is %v, %v, want %v, %v", text, got, err, want, wantErr)
		}
	})
	if v, err := parseRating([]byte("-0.0")); err != nil || math.Signbit(v) {
		t.Errorf("-0.0 is %v, %v, want 0 without a sign", v, err)
	}
}

func TestCanonicalIDs(t *testing.T) {
	for _, c := range []struct{ in, want []string }{
		{[]string{"10", "9", "-1"}, []string{"-1", "9", "10"}},
		{[]string{"10", "9", "a"}, []string{"10", "9", "a"}},
		{[]string{"2", "01", "1"}, []string{"01", "1", "2"}},
		{[]string{"b", "B", "é", "a b"}, []string{"B", "a b", "b", "é"}},
		{[]string{"9", "10", "99999999999999999999"}, []string{"10", "9", "99999999999999999999"}}, // not 64 bits: as text
	} {
		var table idTable
		for _, id := range append(c.in, c.in...) { // a second look-up gives no second number
			if _, err := table.index([]byte(id)); err != nil {
				t.Fatal(err)
			}
		}
		ids, rank := table.canonical()
		if !slices.Equal(ids, c.want) {
			t.Errorf("%q sort as %q, want %q", c.in, ids, c.want)
		}
		for number, id := range c.in {
			if got := c.want[rank[number]]; got != id {
				t.Errorf("%q: number %d became %q, want %q", c.in, number, got, id)
			}
		}
	}
}

// FuzzReadRatings: no text makes the reader panic; what it accepts is what
// encoding/csv and strconv read, sorted and without a pair twice.
func FuzzReadRatings(f *testing.F) {
	err := filepath.WalkDir("testdata", func(path string, entry os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".csv" {
			return err
		}
		text, err := os.ReadFile(path)
		f.Add(text)
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		read, err := readRatings(context.Background(), "fuzz.csv", bytes.NewReader(text), Options{}, nil)
		if err != nil {
			if at := new(FileError); !errors.As(err, &at) || at.Line < 1 || at.Line > bytes.Count(text, []byte{'\n'})+2 {
				t.Fatalf("error %v is no *FileError on a line of the file", err)
			}
			return
		}
		checkAgainstCSV(t, text, read)
		set, err := read.sort("fuzz.csv")
		if err != nil {
			return
		}
		ratings := set.Ratings
		if err = ratings.Validate(); err != nil || ratings.Users != len(set.UserIDs) || ratings.Items != len(set.ItemIDs) {
			t.Fatalf("%d users, %d items: %v", len(set.UserIDs), len(set.ItemIDs), err)
		}
		for k := 1; k < ratings.Len(); k++ {
			if slices.Compare([]int32{ratings.User[k-1], ratings.Item[k-1]}, []int32{ratings.User[k], ratings.Item[k]}) >= 0 {
				t.Fatalf("ratings %d and %d are out of order or the same pair", k-1, k)
			}
		}
	})
}

// checkAgainstCSV compares ratings in file order with those encoding/csv reads,
// where it reads the text at all: it is stricter about spaces around quotes.
func checkAgainstCSV(t *testing.T, text []byte, read *table) {
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(text, byteOrderMark)))
	r.TrimLeadingSpace = true
	records, err := r.ReadAll()
	if err != nil || bytes.ContainsAny(text, "\"\r") {
		return // quoting and line ends are compared by TestScannerReadsCSV
	}
	var want []float32
	column := slices.IndexFunc(records[0], func(name string) bool {
		return strings.EqualFold(strings.Trim(name, " \t"), "rating")
	})
	for _, record := range records[1:] {
		v, err := strconv.ParseFloat(strings.Trim(record[column], " \t"), 64)
		if err != nil {
			t.Fatalf("%q was accepted as a rating: %v", record[column], err)
		}
		want = append(want, float32(v))
	}
	if !slices.Equal(want, read.ratings.Value) {
		t.Fatalf("values are %v, want %v", read.ratings.Value, want)
	}
}
