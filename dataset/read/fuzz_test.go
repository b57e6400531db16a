package read

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dataset/idtext"
	"github.com/fedsim/fedsim/internal/dataset/records"
)

// addSeeds adds the fixtures with one of the extensions, and a number to choose by.
func addSeeds(f *testing.F, choice func(name string) int, extensions ...string) {
	f.Helper()
	err := filepath.WalkDir("testdata", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !slices.Contains(extensions, filepath.Ext(path)) {
			return err
		}
		text, err := os.ReadFile(path)
		f.Add(text, choice(filepath.Base(path)))
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
}

// FuzzReadRatings: no text makes the reader of any format panic. Ratings that it accepts equal what
// strings.Split and strconv read, are sorted, and hold no pair twice.
func FuzzReadRatings(f *testing.F) {
	names := []string{"mine.csv", "ratings.dat", "train_triplets.txt"} // LibimSeTi and plays are known by the latter two
	addSeeds(f, func(name string) int { return slices.Index(names, name) }, ".csv", ".dat", ".data", ".tsv", ".txt")
	f.Fuzz(func(t *testing.T, text []byte, choice int) {
		file := names[max(choice, 0)%len(names)]
		read, err := readRatings(context.Background(), inputOf(file, bytes.NewReader(text), func(string) bool { return choice%2 == 0 }), Options{})
		if err != nil {
			checkLocated(t, err, text)
			return
		}
		checkValues(t, text, read)
		set, err := read.sort("")
		if err != nil {
			checkLocated(t, err, text)
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

// FuzzReadItems: no text makes the reader of any list of items panic; every item that
// it accepts has a title and genres that stand in the text.
func FuzzReadItems(f *testing.F) {
	formats := itemFormats[:3]
	addSeeds(f, func(name string) int {
		return slices.IndexFunc(formats, func(i itemFormat) bool { return i.file == name })
	}, ".csv", ".dat", ".item")
	f.Fuzz(func(t *testing.T, text []byte, choice int) {
		format := formats[max(choice, 0)%len(formats)]
		var items idtext.Table
		got, err := format.read(context.Background(), format.file, bytes.NewReader(text), &items, []string{"item", "movieId"})
		if err != nil {
			checkLocated(t, err, text)
			return
		}
		if n := len(items.Names); len(got.items) != n {
			t.Fatalf("%d items, and %d are described", n, len(got.items))
		}
		if format.header != "" && (!utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0) {
			return // another encoding
		}
		if bytes.IndexByte(text, '"') >= 0 {
			return // quoting is compared by TestScannerReadsCSV
		}
		inText := string(text)
		if format.latin1 {
			inText += string(toUTF8(text))
		}
		for i, about := range got.items {
			if !strings.Contains(inText, items.Names[i]) || !strings.Contains(inText, about.title) {
				t.Fatalf("item %q is called %q, which the text does not hold", items.Names[i], about.title)
			}
			for _, genre := range about.genres {
				if format.file != "u.item" && !strings.Contains(inText, genre) || format.file == "u.item" && !slices.Contains(flaggedGenres[1:], genre) {
					t.Fatalf("item %q has the genre %q from nowhere", items.Names[i], genre)
				}
			}
		}
	})
}

// toUTF8 reads a text as ISO 8859-1.
func toUTF8(text []byte) []byte {
	var out []byte
	for _, c := range text {
		out = append(out, string(rune(c))...)
	}
	return out
}

// checkLocated reports an error that names no line of the text.
func checkLocated(t *testing.T, err error, text []byte) {
	t.Helper()
	if at := new(dataset.FileError); !errors.As(err, &at) || at.Line < 1 || at.Line > bytes.Count(text, []byte{'\n'})+2 {
		t.Fatalf("error %v is no *FileError on a line of the file", err)
	}
}

// checkValues compares the ratings in file order with the values that the standard library reads:
// lines split at the separator, numbers by strconv.
func checkValues(t *testing.T, text []byte, read *table) {
	t.Helper()
	if bytes.ContainsAny(text, "\"\r") {
		return // quoting and line ends are compared by TestScannerReadsCSV
	}
	if read.clicks {
		if slices.ContainsFunc(read.ratings.Value, func(v float32) bool { return float64(v) != read.max }) {
			t.Fatalf("clicks are worth %v, want %v", read.ratings.Value, read.max)
		}
		return
	}
	var lines []string
	for line := range strings.SplitSeq(string(bytes.TrimPrefix(text, []byte("\ufeff"))), "\n") {
		if strings.Trim(line, " \t") != "" {
			lines = append(lines, line)
		}
	}
	var sep string
	for _, f := range read.found {
		switch {
		case f.What == "comments", f.What == "separator" && f.Sure == dataset.Stated, f.Found == "Matrix Market":
			return // TestAnyDialect has these
		case f.What == "separator":
			sep, _ = records.ParseSeparator(f.Found)
		}
	}
	if read.comma || read.format.Name != "" || sep == " " {
		return
	}
	column, from := 2, 0
	if read.format.Fields == 0 {
		from = 1
		column = slices.IndexFunc(strings.Split(lines[0], sep), func(name string) bool {
			name = strings.Trim(name, " \t")
			for _, kind := range []string{"", ":token", ":float", ":token_seq", ":float_seq"} {
				if strings.EqualFold(strings.TrimSuffix(name, kind), "rating") {
					return true
				}
			}
			return false
		})
	}
	var want []float32
	for _, line := range lines[from:] {
		field := strings.Trim(strings.Split(line, sep)[column], " \t")
		v, err := strconv.ParseFloat(field, 64)
		if err != nil {
			t.Fatalf("%q was accepted as a rating: %v", field, err)
		}
		want = append(want, float32(v))
	}
	if !slices.Equal(want, read.ratings.Value) {
		t.Fatalf("values are %v, want %v", read.ratings.Value, want)
	}
}
