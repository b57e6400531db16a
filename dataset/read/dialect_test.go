package read

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/ulikunitz/xz"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
	"pgregory.net/rapid"

	"github.com/fedsim/fedsim/dataset"
)

// three are the ratings of the files of TestDialects.
func three() *dataset.Set {
	return &dataset.Set{
		Min: 0, Max: 5, UserIDs: []string{"u1", "u2"}, ItemIDs: []string{"a", "b c"},
		Ratings: dataset.Ratings{Users: 2, Items: 2, User: []int32{0, 0, 1}, Item: []int32{0, 1, 0}, Value: []float32{4, 3.5, 1}},
	}
}

// TestDialects: three ratings are the same set in every manner of writing them.
func TestDialects(t *testing.T) {
	utf16, err := unicode.UTF16(unicode.BigEndian, unicode.UseBOM).NewEncoder().String("user,item,rating\r\nu1,a,4\r\nu1,b c,3.5\r\nu2,a,1\r\n")
	if err != nil {
		t.Fatal(err)
	}
	places := Columns{User: "1", Item: "2", Rating: "3"}
	for name, c := range map[string]struct {
		text string
		o    Options
	}{
		"commas":                    {"user,item,rating\nu1,a,4\nu1,b c,3.5\nu2,a,1\n", Options{}},
		"semicolons":                {"user;item;rating\nu1;a;4\nu1;b c;3.5\nu2;a;1\n", Options{}},
		"semicolons, decimal comma": {"user;item;rating\nu1;a;4\nu1;b c;3,5\nu2;a;1,0\n", Options{}},
		"tabs, decimal comma":       {"user\titem\trating\nu1\ta\t4\nu1\tb c\t3,5\nu2\ta\t1\n", Options{}},
		"names in capitals":         {"UserID,ItemID,Rating\nu1,a,4\nu1,b c,3.5\nu2,a,1\n", Options{}},
		"pipes":                     {"user|item|rating\nu1|a|4\nu1|b c|3.5\nu2|a|1\n", Options{}},
		"colons":                    {"user::item::rating\nu1::a::4\nu1::b c::3.5\nu2::a::1\n", Options{}},
		"quotes":                    {"\"user\";\"item\";\"rating\"\n\"u1\";\"a\";\"4\"\n\"u1\";\"b c\";\"3.5\"\n\"u2\";\"a\";\"1\"\n", Options{}},
		"quotes and tabs":           {"user\titem\trating\n\"u1\"\t\"a\"\t4\n\"u1\"\t\"b c\"\t3.5\n\"u2\"\t\"a\"\t1\n", Options{}},
		"quotes and spaces":         {"user item rating\n\"u1\" \"a\"  4\n\"u1\" \"b c\" 3.5\n\"u2\" \"a\" 1\n", Options{}},
		"spaces and an order":       {"rating   user  item\n4 u1 a\n1 u2 a\n3.5 u1 \"b c\"\n", Options{}},
		"no header":                 {"u1,a,4\nu1,b c,3.5\nu2,a,1\n", Options{Columns: places}},
		"no header, by word":        {"u1,a,4\nu1,b c,3.5\nu2,a,1\n", Options{Form: Form{NoHeader: true}}},
		"no header, double colons":  {"u1::a::4\nu1::b c::3.5\nu2::a::1\n", Options{Form: Form{NoHeader: true}}},
		"rows that end with one":    {"user;item;rating\nu1;a;4;\nu1;b c;3,5;\nu2;a;1;\n", Options{}},
		"a header that ends so":     {"user\titem\trating\t\nu1\ta\t4\nu1\tb c\t3.5\nu2\ta\t1\n", Options{}},
		"places below a header":     {"who;what;how much\nu1;a;4\nu1;b c;3,5\nu2;a;1\n", Options{Columns: places}},
		"places in another order":   {"4|x|a|u1\n3.5|x|b c|u1\n1|x|a|u2\n", Options{Columns: Columns{User: "4", Item: "3", Rating: "1"}}},
		"separator of its own":      {"user^item^rating\nu1^a^4\nu1^b c^3.5\nu2^a^1\n", Options{Form: Form{Separator: "^"}}},
		"line that says it":         {"sep=;\r\nuser;item;rating\r\nu1;a;4\r\nu1;b c;3.5\r\nu2;a;1\r\n", Options{}},
		"comments above that line":  {"# from a sheet\n# of today\nsep=;\nuser;item;rating\nu1;a;4\nu1;b c;3.5\nu2;a;1\n", Options{}},
		"comments":                  {"% from a crawl\n# of today\n\nuser,item,rating\nu1,a,4\nu1,b c,3.5\nu2,a,1\n", Options{}},
		"carriage returns":          {"user,item,rating\ru1,a,4\ru1,b c,3.5\ru2,a,1\r", Options{}},
		"UTF-8 with its mark":       {"\ufeffuser;item;rating\nu1;a;4\nu1;b c;3.5\nu2;a;1\n", Options{}},
		"UTF-16":                    {utf16, Options{}},
		"UTF-16 without its mark":   {utf16[2:], Options{}},
		"unused text, backslashes":  {"user,item,rating,text\nu1,a,4,\"he said \\\"no, no\\\"\"\nu1,b c,3.5,\"\"\nu2,a,1,x\n", Options{}},
		"unused text, bare quotes":  {"user,item,rating,text\nu1,a,4,5\" disk\nu1,b c,3.5,\"so \"good\", really\"\nu2,a,1,\"never closed\n", Options{}},
		"lines in unused text":      {"user,item,text,rating\nu1,a,\"two\nlines, \"\"quoted\"\"\",4\nu1,b c,x,3.5\nu2,a,,1\n", Options{}},
		"unrated":                   {"user,item,rating\nu1,a,4\nu3,a,99\nu1,b c,3.5\nu2,a,1\nu2,b c,-1\n", Options{Unrated: []float64{-1, 99}}},
		"bad rows":                  {"user,item,rating\nu1,a,4\nu3,a\nu1,b c,3.5\nu2,b c,\\N\nu2,a,1\nu2,b c,7\n", Options{BadRows: BadRowsSkip}},
		"array of JSON":             {"[{\"user\":\"u1\",\"item\":\"a\",\"rating\":4},\n {\"user\":\"u1\",\"x\":\"}]\",\n\"item\":\"b c\",\"rating\":3.5},{\"user\":\"u2\",\"item\":\"a\",\"rating\":1}]\n", Options{}},
	} {
		got, err := Open(t.Context(), ownFile(t, "r.csv", c.text), c.o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(three(), got, cmpopts.IgnoreFields(dataset.Set{}, "Name", "Digest", "Notices", "Findings")); d != "" {
			t.Errorf("%s (-want +got):\n%s\n%v", name, d, got.Findings)
		}
	}
}

// packings compress a text in every way that is read.
var packings = map[string]func(w io.Writer) (io.WriteCloser, error){
	"gz":  func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
	"xz":  func(w io.Writer) (io.WriteCloser, error) { return xz.NewWriter(w) },
	"zst": func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) },
	"tar": func(w io.Writer) (io.WriteCloser, error) { return &tarred{w: w}, nil },
}

// tarred is a tar archive of a README and ratings.csv.
type tarred struct {
	bytes.Buffer
	w io.Writer
}

func (a *tarred) Close() error {
	w := tar.NewWriter(a.w)
	for _, f := range []struct{ name, text string }{{"top/README", "none"}, {"top/ratings.csv", a.String()}} {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Size: int64(len(f.text)), Mode: 0o600, Typeflag: tar.TypeReg}); err != nil {
			return err
		}
		if _, err := io.WriteString(w, f.text); err != nil {
			return err
		}
	}
	return w.Close()
}

// packed compresses a text.
func packed(tb testing.TB, text string, ways ...string) string {
	tb.Helper()
	for _, way := range ways {
		var out bytes.Buffer
		w, err := packings[way](&out)
		if err == nil {
			_, err = io.WriteString(w, text)
		}
		if err = errors.Join(err, w.Close()); err != nil {
			tb.Fatal(err)
		}
		text = out.String()
	}
	return text
}

const threeRows = "user,item,rating\nu1,a,4\nu1,b c,3.5\nu2,a,1\n"

// bzipped is the text "user,item,rating\nu1,a,4\n" as bzip2 of Python packs it.
const bzipped = "BZh91AY&SYk\xb0aJ\x00\x00\x0b\xd9\x80\x00\x10\x00\x04$\x00\"\xa3\x1e\x00 \x00\"#\x08\xc4\xde\xa8@\x00\x0e<E\xd1(\xc0+\xe1\xb5\xebX\x9f\x17rE8P\x90k\xb0aJ"

// TestPacked: what a file is packed in is seen by its content, from a file and from a pipe.
func TestPacked(t *testing.T) {
	for _, ways := range [][]string{{"gz"}, {"xz"}, {"zst"}, {"tar"}, {"tar", "gz"}, {"gz", "xz"}} {
		text := packed(t, threeRows, ways...)
		for _, spec := range []string{ownFile(t, "any", text), "-"} {
			got, err := Open(t.Context(), spec, Options{Input: strings.NewReader(text)})
			if err != nil {
				t.Errorf("%v of %s: %v", ways, spec, err)
				continue
			}
			if d := cmp.Diff(three(), got, cmpopts.IgnoreFields(dataset.Set{}, "Name", "Digest", "Notices", "Findings")); d != "" {
				t.Errorf("%v of %s (-want +got):\n%s", ways, spec, d)
			}
		}
	}
	if got := open(t, ownFile(t, "r.csv.bz2", bzipped), Options{}); got.Len() != 1 || got.Value[0] != 4 {
		t.Errorf("%v of bzip2, want one rating of 4", got.Value)
	}
	cut := packed(t, strings.Repeat("u1,a,4\n", 1e5), "gz")
	if _, err := Open(t.Context(), ownFile(t, "cut.gz", cut[:len(cut)/2]), Options{Form: Form{NoHeader: true}, Duplicates: DuplicatesLast}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half a gzip file: %v, want io.ErrUnexpectedEOF", err)
	}
}

// TestMembers: the file with the ratings is found in a folder or an archive by its name or its content, and is asked for where it is not certain.
func TestMembers(t *testing.T) {
	const books, users = "ISBN,title\n1,x\n", "user;age\nu1;5\n"
	for name, c := range map[string]struct {
		files        map[string]string
		member, want string // of the error; "" for none
	}{
		"capital letter":           {map[string]string{"Ratings.csv": threeRows, "Books.csv": books}, "", ""},
		"packed inside":            {map[string]string{"ratings.csv.gz": packed(t, threeRows, "gz"), "Books.csv": books}, "", ""},
		"another name":             {map[string]string{"votes.txt": threeRows, "Books.csv": books, "Users.csv": users}, "", ""},
		"two of other names":       {map[string]string{"votes.txt": threeRows, "old.txt": threeRows}, "", "as --member old.txt"},
		"the one that is named":    {map[string]string{"votes.txt": threeRows, "old.txt": "user,item,rating\nx,y,1\n"}, "votes.txt", ""},
		"a name that is not there": {map[string]string{"votes.txt": threeRows}, "vote.txt", "has no file vote.txt; it has "},
		"parts of Spark":           {map[string]string{"_SUCCESS": "", "part-00000-a.csv": "user,item,rating\nu1,a,4\n", "part-00001-a.csv": "user,item,rating\n", "part-00002-a.csv": "user,item,rating\nu1,b c,3.5\nu2,a,1\n"}, "", ""},
	} {
		dir := t.TempDir()
		for file, text := range c.files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, spec := range []string{dir, zipped(t, "x.zip", map[string]string{"top": dir})} {
			got, err := Open(t.Context(), spec, Options{Form: Form{Member: c.member}})
			switch {
			case c.want != "":
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s in %s: %v, want %s", name, spec, err, c.want)
				}
			case err != nil:
				t.Errorf("%s in %s: %v", name, spec, err)
			case got.Len() != 3 || got.Users != 2:
				t.Errorf("%s in %s: %d ratings of %d users, want 3 of 2", name, spec, got.Len(), got.Users)
			}
		}
	}
	archive := zipped(t, "x.zip", map[string]string{"top/votes.txt": ownFile(t, "v", threeRows), "top/old.txt": ownFile(t, "o", threeRows)})
	if got := open(t, archive+"/top/votes.txt", Options{}); got.Len() != 3 {
		t.Errorf("%d ratings by the path of the file in the archive, want 3", got.Len())
	}
}

// TestOddFilesRefused: the error says what a file is and what to do.
func TestOddFilesRefused(t *testing.T) {
	for text, want := range map[string]string{
		"ARROW1\x00\x00":                         "it is an Arrow or Feather file, which is not read; convert it: python -c",
		"%PDF-1.4\n%\xe2\xe3\n":                  "it is a PDF file, which is not read; export its table as CSV",
		"\xff\xfe\x00\x00u\x00\x00\x00":          "it is text in UTF-32, which is not read; convert it: iconv -f UTF-32 -t UTF-8 FILE",
		"\x00\x00\xfe\xff\x00\x00\x00u":          "it is text in UTF-32, which is not read; convert it: iconv -f UTF-32 -t UTF-8 FILE",
		"<!DOCTYPE html>\n<html>":                "it is a web page and not the data, which is not read; download the data again",
		"version https://git-lfs.github.com/":    "git lfs pull",
		"{'user': 'a', 'item': 'b'}\n":           "it looks like a dict of Python, convert it: python3 -c",
		"a b 3\nc d 4\n":                         "its fields seem to be separated by spaces; if it is a rating, there is no header: --columns user=1,item=2,rating=3",
		"user,item,rating\na,b,x\nc,d\ne,f,9\n":  "3 rows cannot be used, and there are no others; if the file is sound, say how it is written with --columns, ",
		"user,item,rating\na,b,x\nc,d\ne,f,4\n":  "2 rows cannot be used; correct them, or leave them out with --bad-rows skip\n  ",
		"user,item,rating\na,b,1\nc,\x00d,2\n":   `item "\x00d" has a byte that is zero, which no text has; the file is damaged, or name its encoding with --encoding; --bad-rows skip`,
		"u1\ti1\t4\nu2\ti2\t5\n":                 "if it is a rating, there is no header: --columns user=1,item=2,rating=3",
		"[{\"user\":1,\"item\":2,\"rating\":3},": "the array is not closed",
	} {
		_, err := Open(t.Context(), ownFile(t, "r.csv", text), Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: %v, want %s", text, err, want)
		}
	}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Columns: Columns{User: "1", Item: "2", Rating: "9"}}, "rating=9: the first row has 3 fields"},
		{Options{Columns: Columns{User: "name"}, Form: Form{NoHeader: true}}, "without a header columns have no names"},
		{Options{Unrated: []float64{3, 4}}, "0 rows cannot be used and 2 are not rated, and there are no others"},
	} {
		_, err := Open(t.Context(), ownFile(t, "r.csv", "user,item,rating\na,b,3\nc,d,4\n"), c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.o, err, c.want)
		}
	}
}

// TestNoticesOfRows: what is left out, assumed or mended is said with its count.
func TestNoticesOfRows(t *testing.T) {
	latin1, err := charmap.Windows1252.NewEncoder().String("user,item,rating\nzoë,a,1\n")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"user,item,rating\na,b,3\nc,d\nc,d,4\n":           "1 row cannot be used and is left out (the first: 2 fields, want 3 as in the header, with commas between); line 3",
		"user,item,rating\na,b,3\nc,d,8\nc,e,4\n":         "1 row has a value that means not rated and is left out",
		"user,item,liked,note\na,b,true,x\nc,d,false,y\n": "every row counts as a click, whatever it has in liked; if that is a rating, name it with --columns rating=liked",
		"user_id,anime_id,rating\na,b,3\nc,d,-1\n":        "1 row has a value that means not rated and is left out, as Anime Recommendations has it",
		"User-ID;ISBN;Book-Rating\n1;2;0\n1;3;7\n":        "1 ratings are 0, which in Book-Crossing means that an item was not rated; leave them out with --unrated 0",
		"user,item,rating,text\na,b,3,5\" disk\n":         "1 rows have a quote in a wrong place of a column that is not used; their ratings are read; line 2",
		latin1: "the text is read as Windows-1252, since 1 bytes are not UTF-8; if ids or titles look wrong, name its encoding with --encoding",
	} {
		set := open(t, ownFile(t, "r.csv", text), Options{BadRows: BadRowsSkip, Unrated: []float64{8}})
		said := fmt.Sprint(set.Notices)
		if !strings.Contains(said, want) {
			t.Errorf("%q: %s, want %s", text, said, want)
		}
	}
}

// TestTruthsAreOfAWholeColumn: a number behind rows of truths is on another scale.
func TestTruthsAreOfAWholeColumn(t *testing.T) {
	var text strings.Builder
	text.WriteString("user,item,rating\n")
	for k := range 1000 {
		fmt.Fprintf(&text, "%d,%d,%v\n", k, k%7, k%3 == 0)
	}
	openFails(t, ownFile(t, "r.csv", text.String()+"a,b,0.5\n"), Options{}, `r.csv:1002: rating "0.5" is a number, and the first ratings are truths`)
}

// TestTabsBesideNamesOfTwoWords: spaces do not part a table whose lines all have as many tabs.
func TestTabsBesideNamesOfTwoWords(t *testing.T) {
	text := "user id\titem id\trating\tname\n1\ta\t4\tred tin | oak\n2\tb\t3\ttin\n2\tc\t5\tred oak | tin blue\n"
	openFails(t, ownFile(t, "r.tsv", text), Options{}, "r.tsv:1: header lacks")
	if set := open(t, ownFile(t, "r.tsv", text), Options{Columns: Columns{User: "user id", Item: "item id"}}); set.Len() != 3 {
		t.Errorf("%d ratings, want 3", set.Len())
	}
}

// TestUnreadColumns: columns that are not read are listed with what was found.
func TestUnreadColumns(t *testing.T) {
	for text, want := range map[string]string{
		"user,item,thumb\na,b,up\nc,d,down\n":       "thumb",
		"user,device,item,rating,note\na,p,b,3,x\n": "device, note",
		"user,item,rating,timestamp\na,b,3,1\n":     "",
	} {
		got := ""
		for _, f := range open(t, ownFile(t, "r.csv", text), Options{}).Findings {
			if f.What == "not read" {
				got = f.Found
			}
		}
		if got != want {
			t.Errorf("%q: not read are %q, want %q", text, got, want)
		}
	}
}

// Parquet's dates that stand for no time are none, as in text: the days 2,932,896 and -719,162 are 9999-12-31 and 0001-01-01.
func TestDatesOfParquetWithoutATime(t *testing.T) {
	t.Parallel()
	type row struct {
		User string `parquet:"user"`
		Item string `parquet:"item"`
		At   int32  `parquet:"timestamp,date"`
	}
	set := open(t, parquetFile(t, []row{{"u", "a", 19_874}, {"u", "b", 2_932_896}, {"u", "c", -719_162}}), Options{MaybeTimes: true})
	if got := set.Ratings.Times; len(got) != 3 || got[0] != 19_874*86_400 || !math.IsNaN(got[1]) || !math.IsNaN(got[2]) {
		t.Errorf("times %v", got)
	}
}

// TestInt96 reads times as Spark wrote them: 2001-09-09 01:46:40 is the second 1,000,000,000, of the Julian day 2,452,162.
func TestInt96(t *testing.T) {
	type row struct {
		User string           `parquet:"user"`
		Item string           `parquet:"item"`
		At   deprecated.Int96 `parquet:"timestamp"`
	}
	nanos := uint64((1*3600 + 46*60 + 40) * 1e9)
	set := open(t, parquetFile(t, []row{{"u", "i", deprecated.Int96{uint32(nanos), uint32(nanos >> 32), 2_452_162}}}), Options{Times: true})
	if len(set.Times) != 1 || set.Times[0] != 1e9 {
		t.Errorf("the times are %v, want 1e9", set.Times)
	}
}

// TestItemsInAnyDialect: a list of items is read by the names of its columns, whatever stands between them.
func TestItemsInAnyDialect(t *testing.T) {
	for file, text := range map[string]string{
		"items.csv": "item\ttitle\tgenres\na\tOne, two (1999)\tDrama|War\n", "items.CSV": "",
		"movies.csv": "movieId,title,genres,imdbId\na,\"One, two (1999)\",Drama|War,7\n",
	} {
		for _, sep := range []string{"\t", ";", "|"} {
			if text == "" || file == "movies.csv" && sep != ";" || sep == "|" && strings.Contains(text, "|") {
				continue
			}
			dir := t.TempDir()
			header := "user,item,rating\n"
			if file == "movies.csv" {
				header = "userId,movieId,rating\n"
			} else {
				text = strings.ReplaceAll(text, "\t", sep)
			}
			for name, content := range map[string]string{"ratings.csv": header + "u,a,3\n", file: text} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			set := open(t, dir, Options{})
			if set.Items != 1 || set.Titles[0] != "One, two (1999)" || set.Years[0] != 1999 || !cmp.Equal(set.Genres[0], []string{"Drama", "War"}) {
				t.Errorf("%s with %q: %q %v %v", file, sep, set.Titles, set.Years, set.Genres)
			}
		}
	}
}

// TestAnyDialect: a set is the same in every dialect that it can be written in.
func TestAnyDialect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringMatching(`[a-z0-9é][a-z0-9é .-]{0,6}[a-z0-9é]`)
		rows := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) Rating {
			return Rating{User: id.Draw(t, "user"), Item: id.Draw(t, "item"), Value: float64(rapid.IntRange(2, 20).Draw(t, "half stars")) / 4}
		}), 2, 12, func(r Rating) string { return r.User + "\n" + r.Item }).Draw(t, "ratings")
		want, err := FromRatings("made-up", rows, Options{Min: new(0.), Max: new(5.)})
		if err != nil {
			t.Fatal(err)
		}
		w := drawWriting(t)
		got, err := Open(context.Background(), "-", Options{Input: strings.NewReader(w.text(rows)), Columns: w.columns(), Min: new(0.), Max: new(5.)})
		if err != nil {
			t.Fatalf("%+v: %v\n%q", w, err, w.text(rows))
		}
		if got.Digest != want.Digest {
			t.Fatalf("%+v: %q\nusers %q items %q values %v\n want %q %q %v\n%v", w, w.text(rows), got.UserIDs, got.ItemIDs, got.Value, want.UserIDs, want.ItemIDs, want.Value, got.Findings)
		}
	})
}

// writing is a way to write ratings.
type writing struct {
	sep, end, decimal, comment, encoding string
	quoted, header, extra, mark          bool
	packed                               []string
}

func drawWriting(t *rapid.T) writing {
	w := writing{
		sep: rapid.SampledFrom([]string{",", ";", "\t", "|", "::", " "}).Draw(t, "separator"), end: rapid.SampledFrom([]string{"\n", "\r\n", "\r"}).Draw(t, "line end"),
		decimal: rapid.SampledFrom([]string{".", ","}).Draw(t, "decimal sign"), comment: rapid.SampledFrom([]string{"", "# made up\n", "\n\n"}).Draw(t, "comment"),
		encoding: rapid.SampledFrom([]string{"utf-8", "utf-16"}).Draw(t, "encoding"),
		quoted:   rapid.Bool().Draw(t, "quoted"), header: rapid.Bool().Draw(t, "header"), extra: rapid.Bool().Draw(t, "extra column"), mark: rapid.Bool().Draw(t, "mark"),
		packed: rapid.SampledFrom([][]string{nil, nil, {"gz"}, {"zst"}}).Draw(t, "packed"),
	}
	w.quoted = (w.quoted || w.sep == " " || w.sep == "," && w.decimal == ",") && w.sep != "::"
	return w
}

func (w writing) columns() Columns {
	switch {
	case w.header:
		return Columns{}
	case w.extra:
		return Columns{User: "2", Item: "3", Rating: "4"}
	}
	return Columns{User: "1", Item: "2", Rating: "3"}
}

func (w writing) text(rows []Rating) string {
	var b strings.Builder
	line := func(fields ...string) {
		if w.extra {
			fields = append([]string{"x"}, fields...)
		}
		for i, field := range fields {
			if w.quoted {
				fields[i] = `"` + field + `"`
			}
		}
		b.WriteString(strings.Join(fields, w.sep) + "\n")
	}
	b.WriteString(w.comment)
	if w.header {
		line("user", "item", "rating")
	}
	for _, r := range rows {
		line(r.User, r.Item, strings.ReplaceAll(fmt.Sprint(r.Value), ".", w.decimal))
	}
	text := strings.ReplaceAll(b.String(), "\n", w.end)
	if w.encoding == "utf-16" {
		text, _ = unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String(text)
	} else if w.mark {
		text = "\ufeff" + text
	}
	for _, way := range w.packed {
		var out bytes.Buffer
		p, _ := packings[way](&out)
		_, _ = io.WriteString(p, text)
		_ = p.Close()
		text = out.String()
	}
	return text
}
