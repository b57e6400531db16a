package read

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/parquet-go/parquet-go"

	_ "github.com/fedsim/fedsim/dataset/parquet"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dataset/files"
)

// ownFile writes a file of that name into a folder of its own.
func ownFile(tb testing.TB, name, text string) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return file
}

// parquetFile writes rows to a Parquet file, in two groups.
func parquetFile[T any](tb testing.TB, rows []T) string {
	tb.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b, parquet.MaxRowsPerRowGroup(2))
	if _, err := w.Write(rows); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return ownFile(tb, "ratings.parquet", b.String())
}

// TestFormatsSayTheSame: the same three ratings in every manner of writing them are one set. They
// are copied from the texts by hand.
func TestFormatsSayTheSame(t *testing.T) {
	type row struct {
		Visitor *int64    `parquet:"visitor,optional"`
		Extra   []string  `parquet:"extra,list"`
		SKU     string    `parquet:"sku"`
		Stars   float32   `parquet:"stars"`
		When    time.Time `parquet:"when,timestamp(millisecond)"`
	}
	shop := Columns{User: "visitor", Item: "sku", Rating: "stars", Timestamp: "when"}
	at := func(s int64) time.Time { return time.Unix(s, 5e8).UTC() }
	for name, c := range map[string]struct {
		file    string
		columns Columns
	}{
		"CSV":          {ownFile(t, "shop.csv", "when,sku,visitor,stars\n2001-09-09 01:46:41.5,b,7,4\n2001-09-09T01:46:42.5Z,a,7,1.5\n1000000003.5,a,10,3\n"), shop},
		"TSV":          {ownFile(t, "shop.tsv", "user\titem\trating\ttimestamp\n7\tb\t4\t1000000001.5\n7\ta\t1.5\t1000000002.5\n10\ta\t3\t1000000003.5\n"), Columns{}},
		"RecBole":      {ownFile(t, "shop.inter", "user_id:token\titem_id:token\trating:float\ttimestamp:float\n7\tb\t4\t1000000001.5\n7\ta\t1.5\t1000000002.5\n10\ta\t3.0\t1000000003.5\n"), Columns{}},
		"JSON lines":   {ownFile(t, "shop.jsonl", "\n{\"visitor\": 7, \"sku\": \"b\", \"stars\": 4, \"when\": 1000000001.5}\n{\"stars\":1.5,\"sku\":\"\\u0061\",\"x\":[{}],\"visitor\":\"7\",\"when\":\"2001-09-09T01:46:42.5Z\"}\r\n{\"visitor\":10,\"sku\":\"a\",\"stars\":\"3\",\"when\":1000000003.5}"), shop},
		"Parquet":      {parquetFile(t, []row{{new(int64(7)), nil, "b", 4, at(1000000001)}, {new(int64(7)), []string{"x", "y"}, "a", 1.5, at(1000000002)}, {new(int64(10)), nil, "a", 3, at(1000000003)}}), shop},
		"upper case":   {ownFile(t, "shop.csv", "VISITOR,Sku,Stars,When\n7,b,4,1000000001.5\n7,a,1.5,1000000002.5\n10,a,3,1000000003.5\n"), shop},
		"ratings only": {ownFile(t, "shop.csv", "user,item,stars,timestamp\n7,b,4,1000000001.5\n7,a,1.5,1000000002.5\n10,a,3,1000000003.5\n"), Columns{Rating: "stars"}},
	} {
		want := &dataset.Set{
			Min: 0, Max: 5, UserIDs: []string{"7", "10"}, ItemIDs: []string{"a", "b"},
			Ratings: dataset.Ratings{
				Users: 2, Items: 2, User: []int32{0, 0, 1}, Item: []int32{0, 1, 0}, Value: []float32{1.5, 4, 3},
				Times: []float64{1000000002.5, 1000000001.5, 1000000003.5},
			},
		}
		got := open(t, c.file, Options{Columns: c.columns, Times: true})
		if d := cmp.Diff(want, got, cmpopts.IgnoreFields(dataset.Set{}, "Name", "Digest", "Notices", "Findings")); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		without := open(t, c.file, Options{Columns: c.columns})
		if without.Times != nil || without.Digest == got.Digest {
			t.Errorf("%s: timestamps are kept where nobody asks for them", name)
		}
	}
}

// TestClicks: without a column of ratings every row is a click, worth the top of the scale.
func TestClicks(t *testing.T) {
	clicks := open(t, "testdata/good/clicks.csv", Options{})
	if !clicks.Clicks || clicks.Min != 0 || clicks.Max != 1 || clicks.Len() != 1 || clicks.Value[0] != 1 {
		t.Errorf("%+v is not a click worth 1 of 0 to 1", clicks)
	}
	if five := open(t, "testdata/good/clicks.csv", Options{Max: new(5.)}); five.Value[0] != 5 {
		t.Errorf("a click is worth %v, want the top of the scale, 5", five.Value[0])
	}
	if open(t, "testdata/good/one.csv", Options{}).Clicks {
		t.Error("ratings are taken for clicks")
	}
}

// TestDuplicates: what becomes of a pair that is there three times. The file has the values in another order
// than their times.
func TestDuplicates(t *testing.T) {
	ratings := ownFile(t, "r.csv", "user,item,rating,timestamp\na,x,5,3\na,y,1,1\na,x,1,9\na,x,2,4\n")
	clicks := ownFile(t, "c.csv", "user,item,timestamp\na,x,3\na,y,1\na,x,9\na,x,4\n")
	for name, c := range map[string]struct {
		file   string
		what   Duplicates
		most   *float64
		values []float32
		times  []float64
	}{
		"the last in the file":       {ratings, DuplicatesLast, nil, []float32{2, 1}, []float64{4, 1}},
		"the mean, (5+1+2)/3":        {ratings, DuplicatesMean, nil, []float32{8. / 3, 1}, []float64{9, 1}},
		"clicks, the last":           {clicks, DuplicatesLast, nil, []float32{1, 1}, []float64{4, 1}},
		"clicks, counted":            {clicks, DuplicatesCount, new(10.), []float32{3, 1}, []float64{9, 1}},
		"clicks, counted up to two":  {clicks, DuplicatesCount, new(2.), []float32{2, 1}, []float64{9, 1}},
		"clicks, the mean of equals": {clicks, DuplicatesMean, nil, []float32{1, 1}, []float64{9, 1}},
	} {
		set := open(t, c.file, Options{Duplicates: c.what, Max: c.most, Times: true})
		if d := cmp.Diff(c.values, set.Value); d != "" || !cmp.Equal(c.times, set.Times) {
			t.Errorf("%s: values %v at %v, want %v at %v", name, set.Value, set.Times, c.values, c.times)
		}
	}
	for _, o := range []Options{{Duplicates: DuplicatesError}, {}} {
		_, err := Open(t.Context(), clicks, o)
		if want := `c.csv:4: user "a" has rated item "x" on line 2 already; keep one of the two, or choose with --duplicates last`; err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for file, o := range map[string]Options{ratings: {Duplicates: DuplicatesCount, Max: new(5.)}, clicks: {Duplicates: DuplicatesCount}} {
		if _, err := Open(t.Context(), file, o); !errors.Is(err, ErrDuplicates) {
			t.Errorf("%s: %v, want ErrDuplicates", file, err)
		}
	}
}

// TestParseColumns reads the option as people write it.
func TestParseColumns(t *testing.T) {
	got, err := ParseColumns(" user=visitor, item = sku ,timestamp=when=x")
	if want := (Columns{User: "visitor", Item: "sku", Timestamp: "when=x"}); err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for text, want := range map[string]string{
		"user": `"user" is not one of user=NAME`, "users=x": `"users=x" is not one of`, "user=": `"user=" is not one of`,
		"user=a,user=b": `user is named twice, "a" and "b"`, "user=a,": `"" is not one of`,
	} {
		if _, err := ParseColumns(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestOwnFilesRefused: what is wrong with a file of another format is said with its line, or row.
func TestOwnFilesRefused(t *testing.T) {
	type nothing struct {
		User *string `parquet:"user,optional"`
		Item string  `parquet:"item"`
	}
	type lists struct {
		User []string `parquet:"user,list"`
		Item string   `parquet:"item"`
	}
	whole := parquetFile(t, []nothing{{new("a"), "x"}, {new("b"), "x"}, {nil, "x"}})
	text, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	cut := ownFile(t, "cut.parquet", string(text[:len(text)-20]))
	damaged := bytes.Clone(text)
	copy(damaged[4:40], bytes.Repeat([]byte{0xff}, 36))
	for _, c := range []struct {
		file, want string
		o          Options
	}{
		{whole, `ratings.parquet:3: user is empty; every row needs one`, Options{}},
		{cut, `cut.parquet:1: not a whole Parquet file: `, Options{}},
		{ownFile(t, "d.parquet", string(damaged)), `d.parquet:1: not a whole Parquet file: `, Options{}},
		{ownFile(t, "short.parquet", "PAR1"), `short.parquet:1: not a whole Parquet file: `, Options{}},
		{parquetFile(t, []lists{{[]string{"a"}, "x"}}), `the column "user" is of lists or groups; want one value in a row`, Options{}},
		{whole, `header lacks "sku"; its columns are user, item`, Options{Columns: Columns{Item: "sku"}}},
		{zipped(t, "p.zip", map[string]string{"ratings.parquet": whole}), "a Parquet file cannot be read from an archive or a pipe", Options{}},
		{ownFile(t, "a.jsonl", "{\"user\":1,\"item\":2,\"rating\":3}\n{\"user\":1,\n"), `a.jsonl:2: "{\"user\":1," is no JSON object; want one a line`, Options{}},
		{ownFile(t, "b.jsonl", "{\"user\":1,\"item\":{},\"rating\":3}\n"), `b.jsonl:1: "item" is "{}"; want a text or a number`, Options{}},
		{ownFile(t, "c.jsonl", "{\"user\":1,\"item\":2,\"rating\":3}\n{\"user\":1,\"rating\":3}"), `c.jsonl:2: item is empty`, Options{}},
		{ownFile(t, "d.jsonl", "{\"a\":1}"), `d.jsonl:1: the object has no user and item`, Options{}},
		{ownFile(t, "e.jsonl", "{\"user\":1,\"item\":2,\"rating\":null}"), `e.jsonl:1: rating is empty`, Options{}},
		{ownFile(t, "twice.jsonl", "{\"user\":1,\"item\":2,\"rating\":3}\n{\"user\":1,\"item\":3,\"rating\":1,\"rating\":5}"), `twice.jsonl:2: the name "rating" is there twice`, Options{}},
		{ownFile(t, "array.json", "[{\"user\":1,\"item\":2,\"rating\":3,\"about\":\"a: b\"},\n{\"user\":1,\"user\":2,\"item\":3,\"rating\":1}]"), `array.json:2: the name "user" is there twice`, Options{}},
		{ownFile(t, "f.csv", "user,item,rating,timestamp\na,b,1,soon\n"), `f.csv:2: timestamp "soon" is neither a finite number nor a date`, Options{Times: true}},
		{ownFile(t, "g.csv", "user,item,rating,timestamp\na,b,1,\n"), `g.csv:2: timestamp is empty`, Options{Times: true}},
		{ownFile(t, "h.csv", "user,item,rating\na,b,1\n"), `h.csv:1: header lacks "when"; its columns are user, item, rating`, Options{Columns: Columns{Timestamp: "when"}}},
		{ownFile(t, "u.data", "1\t2\t3\t4\n"), `u.data:1: header lacks "userId" and "movieId" and "when"; its columns are 1, 2, 3, 4`, Options{Columns: Columns{Timestamp: "when"}}},
		{ownFile(t, "wide.csv", "user,alien,heat,fargo\nann,5,,3\n"), `header lacks "item"; want the columns`, Options{}},
		{ownFile(t, "wide2.csv", "user,alien,heat,fargo\nann,5,,3\n"), `if it has a column for each item, write it anew with a row for each rating`, Options{}},
		{"synthetic:small", "a generated set has no columns to name", Options{Columns: Columns{User: "x"}}},
	} {
		if _, err := Open(t.Context(), c.file, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.file, err, c.want)
		}
	}
	var told []string
	set := open(t, ownFile(t, "own.jsonl", "{\"user\":1,\"item\":2,\"rating\":[]}\nnonsense\n{\"user\":1,\"item\":3,\"rating\":4}"), Options{Skipped: func(err *dataset.FileError) { told = append(told, err.Error()) }})
	if set.Len() != 1 || len(told) != 2 {
		t.Errorf("%d ratings, and told of %q; want one rating, and two records left out", set.Len(), told)
	}
}

// TestOpenPipe: "-" reads the piped text, byte for byte as from a file.
func TestOpenPipe(t *testing.T) {
	text, err := os.ReadFile("testdata/good/generic.csv")
	if err != nil {
		t.Fatal(err)
	}
	got := open(t, "-", Options{Input: bytes.NewReader(text)})
	if want := open(t, "testdata/good/generic.csv", Options{}); got.Digest != want.Digest || got.Name != "stdin" {
		t.Errorf("%s with digest %s, want stdin with %s", got.Name, got.Digest, want.Digest)
	}
	_, err = Open(t.Context(), "-", Options{Input: strings.NewReader("user,item,rating\na,b,x\n")})
	if err == nil || !strings.HasPrefix(err.Error(), `standard input:2: rating "x" is not a number`) {
		t.Errorf("%v, want the line of standard input", err)
	}
	_, err = Open(t.Context(), "-", Options{Input: strings.NewReader("")})
	if !errors.Is(err, dataset.ErrNoRatings) || !strings.Contains(err.Error(), "the pipe is empty, or was read before") {
		t.Errorf("an empty pipe: %v", err)
	}
}

// FuzzOpenParquet: no bytes make the reader panic.
func FuzzOpenParquet(f *testing.F) {
	type row struct {
		User, Item string
		Rating     float64
	}
	text, err := os.ReadFile(parquetFile(f, []row{{"a", "x", 1}, {"b", "y", 2}, {"c", "x", 3}}))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(text[:len(text)/2])
	for _, at := range []int{4, 9, 40, len(text) - 30, len(text) - 6} {
		damaged := bytes.Clone(text)
		damaged[at] ^= 0xff
		f.Add(damaged)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !bytes.HasPrefix(text, []byte(files.ParquetMagic)) {
			return
		}
		_, err := readRatings(context.Background(), inputOf("r.parquet", io.NewSectionReader(bytes.NewReader(text), 0, int64(len(text))), alone), Options{})
		if _, located := errors.AsType[*dataset.FileError](err); err != nil && !located {
			t.Fatalf("%v does not say where", err)
		}
	})
}
