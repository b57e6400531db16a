package read

import (
	"bytes"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	pq "github.com/parquet-go/parquet-go/format"

	"github.com/fedsim/fedsim/dataset"
)

// column is a column of Parquet with its values, where nil is null.
type column struct {
	node   parquet.Node
	values []any
}

// parquetColumns writes columns of any logical type; a value is as the format stores it.
func parquetColumns(t *testing.T, columns map[string]column) string {
	t.Helper()
	group := parquet.Group{}
	for name, c := range columns {
		group[name] = parquet.Optional(c.node)
	}
	var b bytes.Buffer
	schema := parquet.NewSchema("ratings", group)
	w := parquet.NewWriter(&b, schema)
	names := schema.Columns()
	for k := range columns[names[0][0]].values {
		var row parquet.Row
		for i, path := range names {
			v, level := parquet.Value{}, 0
			if x := columns[path[0]].values[k]; x != nil {
				level = 1
				if v = parquet.ValueOf(x); columns[path[0]].node.Type().Kind() == parquet.FixedLenByteArray {
					v = parquet.FixedLenByteArrayValue(x.([]byte))
				}
			}
			row = append(row, v.Level(0, level, i))
		}
		if _, err := w.WriteRows([]parquet.Row{row}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return ownFile(t, "ratings.parquet", b.String())
}

// signed is a whole number as Parquet stores a decimal in bytes: two's complement, the highest byte first.
func signed(n int64, size int) []byte {
	x := big.NewInt(n)
	if n < 0 {
		x.Add(x, new(big.Int).Lsh(big.NewInt(1), uint(8*size)))
	}
	return x.FillBytes(make([]byte, size))
}

// Columns of Parquet are read as the format's specification (LogicalTypes.md) says what their bytes mean.
func TestTypesOfParquet(t *testing.T) {
	t.Parallel()
	uuid := []byte{0x55, 0x0e, 0x84, 0x00, 0xe2, 0x9b, 0x41, 0xd4, 0xa7, 0x16, 0x44, 0x66, 0x55, 0x44, 0x00, 0x00} // RFC 4122's example
	text := []byte("sixteen letters!")
	for name, c := range map[string]struct {
		user, item, rating column
		users, items       []string
		want               []float32
	}{
		"UUID": {
			user: column{parquet.UUID(), []any{uuid, text}}, item: column{parquet.String(), []any{"a", "b"}}, rating: column{parquet.Leaf(parquet.Int32Type), []any{int32(1), int32(5)}},
			users: []string{"550e8400-e29b-41d4-a716-446655440000", "73697874-6565-6e20-6c65-747465727321"}, items: []string{"a", "b"}, want: []float32{1, 5},
		},
		"decimals of 32 and 64 bits": {
			user: column{parquet.Decimal(0, 9, parquet.Int32Type), []any{int32(7), int32(8)}}, item: column{parquet.Decimal(0, 18, parquet.Int64Type), []any{int64(1e17 + 1), int64(1e17 + 2)}},
			rating: column{parquet.Decimal(1, 9, parquet.Int32Type), []any{int32(45), int32(5)}}, users: []string{"7", "8"}, items: []string{"100000000000000001", "100000000000000002"}, want: []float32{4.5, 0.5},
		},
		"decimals in bytes": {
			user: column{parquet.Decimal(2, 38, parquet.FixedLenByteArrayType(16)), []any{signed(700, 16), signed(-850, 16)}}, item: column{parquet.Decimal(0, 38, parquet.ByteArrayType), []any{signed(300, 2), signed(4, 1)}},
			rating: column{parquet.Decimal(4, 20, parquet.FixedLenByteArrayType(9)), []any{signed(12_500, 9), signed(25, 9)}}, users: []string{"-8.5", "7"}, items: []string{"4", "300"}, want: []float32{0.0025, 1.25},
		},
		"truths": {
			user: column{parquet.Uint(64), []any{uint64(1 << 63), uint64(7)}}, item: column{parquet.Int(8), []any{int32(1), int32(-2)}}, rating: column{parquet.Leaf(parquet.BooleanType), []any{true, false}},
			users: []string{"7", "9223372036854775808"}, items: []string{"-2", "1"}, want: []float32{0, 1},
		},
		"times as ids": { // one nanosecond apart, before 1970 too: -1.5 s and one nanosecond later
			user:   column{parquet.Timestamp(parquet.Nanosecond), []any{int64(1717149600_000000001), int64(1717149600_000000002), int64(-1_500000000), int64(-1_499999999)}},
			item:   column{parquet.Leaf(parquet.Int96Type), []any{deprecated.Int96{1, 0, 2_440_589}, deprecated.Int96{2, 0, 2_440_589}, deprecated.Int96{1, 0, 2_440_587}, deprecated.Int96{0, 0, 2_440_587}}},
			rating: column{parquet.Int(8), []any{int32(1), int32(2), int32(3), int32(4)}},
			users:  []string{"-1.499999999", "-1.5", "1717149600.000000001", "1717149600.000000002"},
			items:  []string{"-86399.999999999", "-86400", "86400.000000001", "86400.000000002"}, want: []float32{4, 3, 1, 2},
		},
		"dates as ids": {
			user: column{parquet.Date(), []any{int32(2_932_896), int32(-719_162)}}, item: column{parquet.Timestamp(parquet.Microsecond), []any{int64(253402214400_000001), int64(1_000001)}}, rating: column{parquet.Int(8), []any{int32(1), int32(2)}},
			users: []string{"-62135596800", "253402214400"}, items: []string{"1.000001", "253402214400.000001"}, want: []float32{2, 1},
		},
		"enumerations": {
			user: column{parquet.Enum(), []any{[]byte("ann"), []byte("bob")}}, item: column{parquet.Leaf(parquet.ByteArrayType), []any{[]byte("x"), []byte("y")}}, rating: column{parquet.Leaf(parquet.FloatType), []any{float32(1.5), float32(2)}},
			users: []string{"ann", "bob"}, items: []string{"x", "y"}, want: []float32{1.5, 2},
		},
	} {
		file := parquetColumns(t, map[string]column{"user": c.user, "item": c.item, "rating": c.rating})
		set := open(t, file, Options{})
		if !slices.Equal(set.UserIDs, c.users) || !slices.Equal(set.ItemIDs, c.items) || !slices.Equal(set.Value, c.want) {
			t.Errorf("%s: users %q, items %q, ratings %v; want %q, %q, %v", name, set.UserIDs, set.ItemIDs, set.Value, c.users, c.items, c.want)
		}
	}
	when := time.Date(2024, 5, 31, 10, 0, 0, 123_000_000, time.UTC)
	for name, at := range map[string]column{
		"milliseconds": {parquet.Timestamp(parquet.Millisecond), []any{when.UnixMilli()}}, "microseconds": {parquet.Timestamp(parquet.Microsecond), []any{when.UnixMicro()}},
		"nanoseconds": {parquet.Timestamp(parquet.Nanosecond), []any{when.UnixNano()}}, "seconds": {parquet.Leaf(parquet.DoubleType), []any{1717149600.123}}, "text": {parquet.String(), []any{"2024-05-31 10:00:00.123+00"}},
	} {
		id := column{parquet.Int(64), []any{int64(1)}}
		set := open(t, parquetColumns(t, map[string]column{"user": id, "item": id, "timestamp": at}), Options{Times: true})
		if got := set.Times[0]; got < 1717149600.1229 || got > 1717149600.1231 {
			t.Errorf("%s: %v", name, got)
		}
	}
	id := column{parquet.Int(64), []any{int64(1)}}
	openFails(t, parquetColumns(t, map[string]column{"user": {parquet.Leaf(parquet.BooleanType), []any{true}}, "item": id}), Options{}, `the column "user" is of truths, which are no ids`)
	openFails(t, parquetColumns(t, map[string]column{"user": {parquet.Leaf(parquet.DoubleType), []any{7.5}}, "item": id}), Options{}, `user "7.5" is a float that is no exact integer`)
}

// A float of 16 bits is read by IEEE 754: 0x3c00 is 1, 0x4200 is 3, 0x3800 is 0.5. The library cannot write the type, so that a
// test makes two plain bytes of it in the footer's schema.
func TestHalfFloats(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	schema := parquet.NewSchema("ratings", parquet.Group{"user": parquet.Int(32), "item": parquet.Int(32), "rating": halfNode{parquet.Leaf(parquet.FixedLenByteArrayType(2))}})
	w := parquet.NewWriter(&b, schema)
	for k, half := range [][]byte{{0x00, 0x3c}, {0x00, 0x42}, {0x00, 0x38}} {
		row := parquet.Row{}
		for i, path := range schema.Columns() {
			v := parquet.ValueOf(int32(k))
			if path[0] == "rating" {
				v = parquet.FixedLenByteArrayValue(half)
			}
			row = append(row, v.Level(0, 0, i))
		}
		if _, err := w.WriteRows([]parquet.Row{row}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if set := open(t, ownFile(t, "r.parquet", b.String()), Options{}); !slices.Equal(set.Value, []float32{1, 3, 0.5}) {
		t.Errorf("%v; want 1, 3 and 0.5", set.Value)
	}
}

// halfNode is a column of the logical type FLOAT16.
type halfNode struct{ parquet.Node }

func (halfNode) Type() parquet.Type { return halfType{parquet.FixedLenByteArrayType(2)} }

type halfType struct{ parquet.Type }

func (halfType) LogicalType() *pq.LogicalType { return &pq.LogicalType{Value: new(pq.Float16Type)} }

// A column within a group has the names of both, and a null of either is missing.
func TestNestedParquet(t *testing.T) {
	t.Parallel()
	type who struct {
		ID *int64 `parquet:"id,optional"`
	}
	type row struct {
		Who    *who    `parquet:"who,optional"`
		Item   string  `parquet:"item"`
		Rating float64 `parquet:"rating"`
	}
	file := parquetFile(t, []row{{&who{new(int64(7))}, "a", 1}, {nil, "b", 2}, {&who{}, "c", 3}, {&who{new(int64(8))}, "d", 4}})
	set := open(t, file, Options{Columns: Columns{User: "who.id"}, BadRows: BadRowsSkip})
	if !slices.Equal(set.UserIDs, []string{"7", "8"}) || !slices.Equal(set.Value, []float32{1, 4}) {
		t.Errorf("users %q, ratings %v", set.UserIDs, set.Value)
	}
}

// Words for true are 1 and words for false are 0, in a column of such words alone. The scale is then 0 to 1.
func TestTruths(t *testing.T) {
	t.Parallel()
	for _, words := range [][2]string{{"true", "false"}, {"True", "False"}, {"TRUE", "FALSE"}, {"t", "f"}, {"T", "F"}, {"yes", "no"}, {"Yes", "No"}, {"y", "n"}, {"Y", "N"},
		{"like", "dislike"}, {"Thumbs up", "Thumbs down"}, {"thumbs_up", "thumbs_down"}, {"up", "down"}, {"Recommended", "Not Recommended"}, {"👍", "👎"},
	} {
		for name, file := range map[string]string{
			"CSV":       ownFile(t, "r.csv", fmt.Sprintf("user,item,rating\n1,1,%s\n1,2,%s\n", words[0], words[1])),
			"quoted":    ownFile(t, "r.csv", fmt.Sprintf("user;item;rating\n1;1;\"%s\"\n1;2;\"%s\"\n", words[0], words[1])),
			"JSON text": ownFile(t, "r.jsonl", fmt.Sprintf("{\"user\":1,\"item\":1,\"rating\":%q}\n{\"user\":1,\"item\":2,\"rating\":%q}\n", words[0], words[1])),
		} {
			set := open(t, file, Options{})
			if !slices.Equal(set.Value, []float32{1, 0}) || set.Min != 0 || set.Max != 1 {
				t.Errorf("%s of %q: %v on %v to %v", name, words, set.Value, set.Min, set.Max)
			}
		}
	}
	set := open(t, ownFile(t, "r.jsonl", "{\"user\":1,\"item\":1,\"rating\":true}\n{\"user\":1,\"item\":2,\"rating\":false}\n"), Options{})
	if !slices.Equal(set.Value, []float32{1, 0}) || set.Max != 1 {
		t.Errorf("JSON: %v up to %v", set.Value, set.Max)
	}
	set = open(t, ownFile(t, "r.jsonl", `{"user":1,"item":1,"rating":"\ud83d\udc4d"}`+"\n"+`{"user":1,"item":2,"rating":"\ud83d\udc4e"}`), Options{}) // as Python writes them
	if !slices.Equal(set.Value, []float32{1, 0}) || set.Max != 1 {
		t.Errorf("escaped JSON: %v up to %v", set.Value, set.Max)
	}
	set = open(t, ownFile(t, "r.csv", "1,1,true\n1,2,false\n"), Options{Columns: Columns{User: "1", Item: "2", Rating: "3"}})
	if !slices.Equal(set.Value, []float32{1, 0}) {
		t.Errorf("without a header: %v", set.Value)
	}
	openFails(t, ownFile(t, "r.csv", "user,item,rating\n1,1,4\n1,2,true\n1,3,5\n"), Options{}, `r.csv:3: rating "true" is not a number`)
}

// A name of a column may be a word for true: then the first row is a header, unless it is of one pair of words with the row below.
func TestHeaderThatIsAWord(t *testing.T) {
	t.Parallel()
	places := Options{Columns: Columns{User: "1", Item: "2", Rating: "3"}}
	for text, want := range map[string][]float32{
		"user,item,like\n1,1,yes\n1,2,no\n": {1, 0}, "user,item,liked\n1,1,true\n1,2,false\n": {1, 0}, "1,1,like\n1,2,dislike\n1,3,like\n": {1, 0, 1}, "user,item,up\n1,1,1\n1,2,0\n": {1, 0},
	} {
		if set := open(t, ownFile(t, "r.csv", text), places); !slices.Equal(set.Value, want) {
			t.Errorf("%q: %v, want %v", text, set.Value, want)
		}
	}
}

// A file whose ratings are more than numbers is refused with how to write them.
func TestRatingsThatAreMoreThanNumbers(t *testing.T) {
	t.Parallel()
	for _, words := range [][2]string{{"4 stars", "1 star"}, {"4/5", "3/5"}, {"★★★", "★"}, {"80%", "60%"}, {"like", "love"}} {
		for _, form := range []string{"user,item,rating\n1,1,%s\n1,2,%s\n1,3,%[1]s\n", "user;item;rating\n1;1;\"%s\"\n1;2;%s\n1;3;%[1]s\n"} {
			openFails(t, ownFile(t, "r.csv", fmt.Sprintf(form, words[0], words[1])), Options{}, "write a rating such as 4 stars or 4/5 as the number 4 alone")
		}
	}
}

// A file whose column of ratings has another name is read as clicks, and says so in every form.
func TestClicksAreSaid(t *testing.T) {
	t.Parallel()
	type row struct {
		User   int64   `parquet:"user"`
		Item   int64   `parquet:"item"`
		Score  float32 `parquet:"score"`
		Text   string  `parquet:"text"`
		Liked  bool    `parquet:"liked"`
		Number string  `parquet:"number"`
	}
	for name, file := range map[string]string{
		"CSV":     ownFile(t, "r.csv", "user,item,score,text,liked,number\n1,2,4.5,good,true,3\n"),
		"TSV":     ownFile(t, "r.tsv", "user\titem\tscore\ttext\tliked\tnumber\n1\t2\t4,5\tgood\tno\t3\n"),
		"JSON":    ownFile(t, "r.jsonl", "{\"user\":1,\"item\":2,\"score\":4.5,\"text\":\"good\",\"liked\":true,\"number\":\"3\"}\n"),
		"array":   ownFile(t, "r.json", "[{\"user\":1,\"item\":2,\"score\":4.5,\"text\":\"good\",\"liked\":true,\"number\":\"3\"}]"),
		"Parquet": parquetFile(t, []row{{1, 2, 4.5, "good", true, "3"}}),
	} {
		set := open(t, file, Options{})
		at := slices.IndexFunc(set.Notices, func(n dataset.Notice) bool { return n.Kind == dataset.NoticeColumns })
		if !set.Clicks || at < 0 {
			t.Errorf("%s: nothing says that ratings are clicks: %v", name, set.Notices)
			continue
		}
		for _, column := range []string{"score", "liked", "number"} {
			if got := set.Notices[at].Text; !strings.Contains(got, column) || strings.Contains(got, "text") {
				t.Errorf("%s: %s", name, got)
			}
		}
	}
	plain := open(t, ownFile(t, "r.jsonl", "{\"user\":1,\"item\":2,\"text\":\"good\"}\n"), Options{})
	if len(plain.Notices) > 0 {
		t.Errorf("clicks beside a text: %v", plain.Notices)
	}
}

// Separators are found although fields hold others. Users and items of each file were counted by hand.
func TestSeparatorsInFields(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		header, row, sep string // a row for user %d and item %d
	}{
		"dates in words":            {"user\titem\trating\ttimestamp", "u%d\ti%d\t3\tMay 23, 2023", "tabs"},
		"dates of mail":             {"user\titem\trating\ttimestamp", "u%d\ti%d\t3\tMon, 01 May 2023 10:00:00 GMT", "tabs"},
		"titles with a comma":       {"user\titem\trating\ttitle", "u%d\ti%d\t3\tMatrix, The", "tabs"},
		"names":                     {"user\titem\trating\tauthors", "u%d\ti%d\t3\tDoe, John; Roe, Ann", "tabs"},
		"genres":                    {"user\titem\trating\tgenres", "u%d\ti%d\t3\tDrama | War, Old", "tabs"},
		"quoted":                    {"user\titem\trating\ttitle", "u%d\ti%d\t3\t\"Matrix, The\"", "tabs"},
		"two words without a comma": {"user\titem\trating\ttitle", "u%d\ti%d\t3\tOld Matrix", "tabs"},
		"a header of two words":     {"user\titem\trating\tfull title", "u%d\ti%d\t3\tOld Matrix", "tabs"},
		"times with colons":         {"user\titem\trating\twhen", "u%d\ti%d\t3\tat 10::20, or so", "tabs"},
		"semicolons":                {"user;item;rating;title", "u%d;i%d;3,5;Matrix, The", "semicolons"},
		"pipes":                     {"user|item|rating|title", "u%d|i%d|3|Matrix, The; Old", "pipes"},
		"commas":                    {"user,item,rating,title", "u%d,i%d,3,\"Matrix; The | Old\tone\"", "commas"},
		"commas with spaces":        {"user, item, rating, title", "u%d, i%d, 3, Old Matrix", "commas"},
		"double colons":             {"user::item::rating::title", "u%d::i%d::3::Matrix, The; Old", "double colons"},
		"spaces":                    {"user item rating", "u%d i%d 3", "spaces"},
		"mixed blanks":              {"user  item \t rating", "u%d   i%d 3", "spaces"},
	} {
		var b strings.Builder
		b.WriteString(c.header + "\n")
		for u := range 5 {
			for i := range 3 {
				fmt.Fprintf(&b, c.row+"\n", u, i)
			}
		}
		set := open(t, ownFile(t, "r.txt", b.String()), Options{})
		at := slices.IndexFunc(set.Findings, func(f dataset.Finding) bool { return f.What == "separator" })
		if set.Users != 5 || set.Items != 3 || set.Len() != 15 || set.Findings[at].Found != c.sep {
			t.Errorf("%s: %d users, %d items, %v", name, set.Users, set.Items, set.Findings[at])
		}
		if strings.ContainsAny(c.header, " ") && c.sep != "tabs" {
			continue
		}
		_, rest, _ := strings.Cut(b.String(), "\n")
		set = open(t, ownFile(t, "r.txt", rest), Options{Columns: Columns{User: "1", Item: "2", Rating: "3"}})
		if set.Users != 5 || set.Items != 3 {
			t.Errorf("%s, without a header: %d users, %d items", name, set.Users, set.Items)
		}
	}
}

// Times of databases and programs are read as what their manuals say. Each is 2024-05-31 10:00:00 in UTC, 1717149600 by date(1),
// some with a fraction.
func TestTimesOfDatabases(t *testing.T) {
	t.Parallel()
	const want = 1717149600
	for _, text := range []string{
		"2024-05-31 10:00:00+00", "2024-05-31 10:00:00.123+00", "2024-05-31 10:00:00.123456+00", "2024-05-31 12:00:00+02", "2024-05-31 15:30:00+05:30", "2024-05-31 15:30:00+0530", "2024-05-31 05:00:00-05", // PostgreSQL
		"31-MAY-24 10.00.00.000000 AM", "31-MAY-24 10.00.00.123456 AM", "31-MAY-24 12.00.00.000000 PM +02:00", "31-MAY-2024 10:00:00", "31-May-24 10.00.00 AM", "31-MAY-2024 10.00.00.5 AM", // Oracle
		"2024-05-31 10:00:00.1234567 +00:00", "2024-05-31T10:00:00.123", "May 31, 2024 10:00:00", "May 31, 2024 10:00 AM", // SQL Server
		"2024-05-31 10:00:00+00:00", "2024-05-31 10:00:00.123456789", "2024-05-31T10:00:00.000000000", "2024-05-31T10:00:00Z", "2024-05-31 10:00:00 Z", "2024-05-31 10:00:00 UTC", "2024-05-31 10:00:00 +0000", // pandas, NumPy, Ruby, BigQuery
		"20240531T100000Z", "20240531T100000", "Fri, 31 May 2024 10:00:00 GMT", "Fri, 31 May 2024 12:00:00 +0200", "Fri May 31 10:00:00 +0000 2024", "Fri May 31 10:00:00 UTC 2024", "31 May 2024 10:00", "5/31/2024 10:00:00 AM", "1717149600000", "1717149600.5",
	} {
		if got, err := ParseTime(text); err != nil || got < want || got >= want+1 {
			t.Errorf("%q is %v, %v; want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]string{"NaT": "is missing", "NA": "is missing", "null": "is missing", "soon": "neither", "2024-05-31 10:00:00 CET": "neither", "31-MAI-24": "neither", "2024-13-01": "neither",
		// Databases write such dates where there is no time.
		"9999-12-31": "neither", "9999-12-31 23:59:59": "neither", "0001-01-01T00:00:00": "neither", "31-DEC-9999 00:00:00": "neither",
	} {
		if got, err := ParseTime(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %v, %v; want an error with %q", text, got, err, want)
		}
	}
}

// Times that became times of 1970 are said once, with the mend.
func TestTimesOf1970(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"1,1,3,19874\n1,2,3,19875\n": "2 times, all of the file, become times of 1970", "1,1,3,2023\n1,2,3,2024\n": "2 times, all of the file", "1,1,3,0\n1,2,3,1717149600\n": "1 times become times of 1970, and the others do not",
		"1,1,3,1717149600\n1,2,3,1717149601\n": "", "1,1,3,2024-05-31\n1,2,3,2024-06-01\n": "", "1,1,3,20240531\n1,2,3,20240601\n": "", "1,1,3,20240531\n1,2,3,99991231\n": "1 times become times of 1970, and the others do not; if a 0 or a far date stands", "1,1,3,\n1,2,3,1717149600\n": "",
	} {
		set := open(t, ownFile(t, "r.csv", "user,item,rating,timestamp\n"+text), Options{MaybeTimes: true, Min: new(1.), Max: new(5.)})
		var got string
		for _, n := range set.Notices {
			if strings.Contains(n.Text, "times of 1970") {
				got += n.Text
			}
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" || strings.Count(got, "1970") > 1 {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A 0 off the scale names the flag that leaves such rows out, as in lists of anime where 0 stands for no score.
func TestZeroNamesUnrated(t *testing.T) {
	t.Parallel()
	file := ownFile(t, "r.csv", "user_id,anime_id,rating\n1,20,9\n1,24,0\n2,20,7\n2,79,0\n")
	openFails(t, file, Options{}, "leave such rows out with --unrated 0")
	if set := open(t, file, Options{Unrated: []float64{0}}); set.Len() != 2 {
		t.Errorf("%d ratings", set.Len())
	}
}

// A file is opened by the bytes of its name, whatever their encoding.
func TestNameThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	file := ownFile(t, "caf\xe9.csv", "user,item,rating\n1,1,3\n")
	if _, err := os.Stat(file); err != nil {
		t.Skip("the disk takes no such name")
	}
	if set := open(t, file, Options{}); set.Len() != 1 {
		t.Errorf("%d ratings", set.Len())
	}
}
