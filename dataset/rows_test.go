package dataset

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
)

// plain are the ratings that the files below hold in their own ways.
const plain = "user,item,rating\nann,7,4\nbob,7,2.5\nbob,\"a, b\",5\n"

func openText(t *testing.T, name, text string, o Options) (*Set, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Open(t.Context(), path, o)
}

func parquetOf[T any](t *testing.T, rows ...T) string {
	t.Helper()
	var b bytes.Buffer
	if err := parquet.Write(&b, rows); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// One content in many files is one set: the digest says so.
func TestFilesAsPeopleHaveThem(t *testing.T) {
	type row struct {
		Stars float64 `parquet:"rating"`
		User  string  `parquet:"user"`
		Item  string  `parquet:"item"`
		When  *int64  `parquet:"timestamp"`
	}
	now := int64(1e9)
	want, err := openText(t, "plain.csv", plain, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text string
		o    Options
	}{
		"tabs.tsv":      {"user\titem\trating\nann\t7\t4\nbob\t7\t2.5\nbob\ta b\t5\n", Options{}},
		"lines.jsonl":   {`{"user":"ann","item":7,"rating":4,"tags":["x"]}` + "\n" + `{"item":"7","rating":"2.5","user":"bob","more":1}` + "\n\n" + `{"rating":5.0,"user":"bob","item":"a, b","tags":null}`, Options{}},
		"rows.parquet":  {parquetOf(t, row{4, "ann", "7", &now}, row{2.5, "bob", "7", nil}, row{5, "bob", "a, b", nil}), Options{}},
		"named.csv":     {"sku,visitor,stars\n7,ann,4\n7,bob,2.5\n\"a, b\",bob,5\n", Options{Columns: map[string]string{"user": "visitor", "item": "sku", "rating": "stars"}}},
		"half-named":    {"sku,user,rating\n7,ann,4\n7,bob,2.5\n\"a, b\",bob,5\n", Options{Columns: map[string]string{"item": "sku"}}},
		"set.inter":     {"user_id:token\titem_id:token\trating:float\ttimestamp:float\nann\t7\t4\t1\nbob\t7\t2.5\t2\nbob\ta b\t5\t3\n", Options{}},
		"last.csv":      {"user,item,rating\nann,7,1\nbob,7,2.5\nann,7,4\nbob,\"a, b\",5\n", Options{Duplicates: "last"}},
		"mean.csv":      {"user,item,rating\nann,7,3\nbob,7,2.5\nann,7,5\nbob,\"a, b\",5\n", Options{Duplicates: "mean"}},
		"no-duplicates": {plain, Options{Duplicates: "mean"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := openText(t, name, c.text, c.o)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(c.text, "a b") { // a first line with a comma would be one of CSV
				got.ItemIDs[1] = "a, b"
				got.Digest = got.digest()
			}
			if got.Digest != want.Digest {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

// Clicks have no ratings: each row is worth 1, or how often the pair is there counts.
func TestClicks(t *testing.T) {
	text := "user,item,when\nann,7,1\nann,8,2\nbob,7,3\nann,7,4\nann,7,5\n"
	two, five := 2.0, 5.0
	for _, c := range []struct {
		o    Options
		want []float32
	}{
		{Options{Clicks: true, Duplicates: "last"}, []float32{1, 1, 1}},
		{Options{Clicks: true, Duplicates: "count", Max: &five}, []float32{3, 1, 1}},
		{Options{Clicks: true, Duplicates: "count", Max: &two}, []float32{2, 1, 1}},
	} {
		set, err := openText(t, "clicks.csv", text, c.o)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, set.Value); d != "" {
			t.Errorf("%+v (-want +got):\n%s", c.o, d)
		}
	}
}

// What is wrong is said with the file and the row.
func TestBadRows(t *testing.T) {
	type nested struct {
		User struct{ Name string } `parquet:"user"`
	}
	whole := parquetOf(t, struct {
		User string `parquet:"user"`
	}{"ann"})
	for name, c := range map[string]struct {
		text, want string
		line       int
		o          Options
	}{
		"off.jsonl":       {`{"user":"ann","item":7,"rating":4}` + "\n" + `{"user":"bob","item":7,"rating":9}`, `rating "9" is outside the range 0 to 5`, 2, Options{}},
		"lacks.jsonl":     {`{"user":"ann","item":7,"rating":4}` + "\n" + `{"user":"bob","item":7}`, "rating is empty", 2, Options{}},
		"cut.jsonl":       {`{"user":"ann","item":7,"rating":4}` + "\n" + `{"user":"bob`, "object 2 of JSON lines", 0, Options{}},
		"nested.parquet":  {parquetOf(t, nested{}), "nested; want columns of plain values", 1, Options{}},
		"cut.parquet":     {whole[:len(whole)-9], "the file begins as Parquet does, and is not", 1, Options{}},
		"columns.parquet": {whole, `header lacks "item" and "rating"`, 0, Options{}},
		"unnamed.csv":     {"sku,visitor\n", `header lacks "buyer" and "rating"`, 1, Options{Columns: map[string]string{"user": "buyer", "item": "sku"}}},
		"no-rating.csv":   {"user,item\na,b\n", "with implicit feedback each row is a click", 1, Options{}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := openText(t, name, c.text, c.o)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), name) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			var at *FileError
			if c.line > 0 && (!errors.As(err, &at) || at.Line != c.line) {
				t.Errorf("%v, want line %d", err, c.line)
			}
		})
	}
}
