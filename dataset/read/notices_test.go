package read

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fedsim/fedsim/dataset"
)

// openFails checks that the error of opening a file holds a text.
func openFails(t *testing.T, file string, o Options, want string) {
	t.Helper()
	if _, err := Open(t.Context(), file, o); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// TestNotices: the reader reports once what it drops, assumes or merges, with the count and the lines,
// which were counted by hand. A file without any of it has no notice.
func TestNotices(t *testing.T) {
	t.Parallel()
	scale := Options{Min: new(1.), Max: new(5.), MaybeTimes: true}
	with := func(change func(*Options)) Options {
		o := scale
		change(&o)
		return o
	}
	const head = "user,item,rating,timestamp\n"
	for name, c := range map[string]struct {
		text string
		o    Options
		want []dataset.Notice // with the beginning of the text
	}{
		"nothing":             {head + "1,1,1,1000000005\n1,2,5,1000000006\n", scale, nil},
		"a time":              {head + "1,1,1,1000000005\n1,2,5,\n1,3,4,soon\n", scale, []dataset.Notice{{Kind: dataset.NoticeTimes, Text: "2 ratings have no timestamp", Count: 2, Lines: []int{3, 4}}}},
		"all times":           {head + "1,1,1,\n1,2,5,\n", scale, []dataset.Notice{{Kind: dataset.NoticeTimes, Text: "2 ratings, all of the file", Count: 2, Lines: []int{2, 3}}}},
		"no times are wanted": {head + "1,1,1,\n1,2,5,\n", with(func(o *Options) { o.MaybeTimes = false }), nil},
		"month assumed":       {head + "1,1,1,3/4/2024\n1,2,5,5/6/2024\n", scale, []dataset.Notice{{Kind: dataset.NoticeTimes, Text: "2 dates with slashes", Count: 2, Lines: []int{2, 3}}}},
		"a scale":             {head + "1,1,1,1000000005\n1,2,5,1000000006\n", with(func(o *Options) { o.Min, o.Max = nil, nil }), []dataset.Notice{{Kind: dataset.NoticeScale, Text: "the file states no rating scale: 0 to 5 is assumed", Detail: "the ratings lie between 1 and 5"}}},
		"a bottom":            {head + "1,1,1,1000000005\n1,2,5,1000000006\n", with(func(o *Options) { o.Min = nil }), []dataset.Notice{{Kind: dataset.NoticeScale, Text: "the file states no bottom of the rating scale: 0 is assumed", Detail: "the ratings lie between 1 and 5"}}},
		"a wide scale":        {head + "1,1,1,1000000005\n1,2,5,1000000006\n", with(func(o *Options) { o.Max = new(9.5) }), []dataset.Notice{{Kind: dataset.NoticeScale, Text: "the ratings use 47% of the rating scale 1 to 9.5", Detail: "the ratings lie between 1 and 5"}}},
		"thousands":           {"user;item;rating\n1;1;1,000\n1;2;4\n", scale, []dataset.Notice{{Kind: dataset.NoticeScale, Text: "the comma in ratings is taken for a decimal sign: 1,000 is read as 1"}}},
		"eighths":             {"user;item;rating\n1;1;1,125\n1;2;4,5\n", scale, nil},
		"MovieLens":           {"userId,movieId,rating\n1,1,1\n1,2,5\n", Options{}, nil},
		"spaces":              {head + "\" 1\",1,1,1000000005\n1,\"2 \",5,1000000006\n", scale, []dataset.Notice{{Kind: dataset.NoticeIDs, Text: "2 ratings have an id with spaces", Count: 2, Lines: []int{2, 3}}}},
		"zeros":               {head + "1,7,1,1000000005\n01,7,5,1000000006\n001,7,4,1000000006\n10,7,3,1000000003\n", scale, []dataset.Notice{{Kind: dataset.NoticeIDs, Text: "2 pairs of users", Count: 2, Detail: `"1" and "01"`}}},
		"zeros of items":      {head + "1,02,1,1000000005\n1,002,5,1000000006\n1,2.05,3,1000000006\n", scale, []dataset.Notice{{Kind: dataset.NoticeIDs, Text: "1 pairs of items", Count: 1, Detail: `"02" and "002"`}}},
		"last":                {head + "1,1,1,1000000005\n1,2,5,1000000006\n1,1,2,1000000007\n", with(func(o *Options) { o.Duplicates = DuplicatesLast }), []dataset.Notice{{Kind: dataset.NoticeDuplicates, Text: "1 ratings are of a user and item", Count: 1}}},
	} {
		set := open(t, ownFile(t, "r.csv", c.text), c.o)
		for i := range min(len(set.Notices), len(c.want)) {
			if got := &set.Notices[i]; strings.HasPrefix(got.Text, c.want[i].Text) {
				got.Text = c.want[i].Text
			}
		}
		if diff := cmp.Diff(c.want, set.Notices); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	many := dataset.Notice{Text: "12 ratings", Count: 12, Lines: []int{2, 4}, Detail: "of a"}
	if got := many.String(); got != "12 ratings (of a); lines 2, 4, ..." {
		t.Error(got)
	}
}

// TestDatesOfFiles: dates in the forms of spreadsheets are 2024-03-04 18:30 UTC, 1709577000 seconds since 1970 by date(1), or
// that midnight, 1709510400. Dates with slashes are decided by a day above 12 in the file.
func TestDatesOfFiles(t *testing.T) {
	t.Parallel()
	const moment, midnight, april = 1709577000, 1709510400, 1712188800 // the last is 2024-04-04 at 0:00
	for _, c := range []struct {
		date, other string // the second decides how slashes are read
		want        float64
	}{
		{"2024-03-04T18:30", "", moment}, {"2024-03-04 18:30", "", moment}, {"2024-03-04 18:30:00 UTC", "", moment}, {"2024-03-04T20:30:00+0200", "", moment},
		{"2024/03/04 18:30", "", moment}, {"04.03.2024 18:30", "", moment}, {"4.3.2024", "", midnight},
		{"03/04/2024 18:30", "03/14/2024", moment}, {"3/4/2024 6:30 PM", "3/14/2024", moment}, {"04/03/2024", "14/03/2024", midnight},
		{"04/03/2024 18:30:00", "31/12/2023", moment}, {"03/14/2024", "", midnight + 10*86_400}, {"04/04/2024", "14/03/2024", april},
		{"03/04/2024", "", midnight}, {"03/04/2024", "13/03/2024,14,03/14/2024", math.NaN()},
	} {
		rows := fmt.Sprintf("user,item,rating,timestamp\n1,1,3,%q\n", c.date)
		for i, other := range strings.Split(c.other, ",14,") {
			if other != "" {
				rows += fmt.Sprintf("1,%d,3,%s\n", i+2, other)
			}
		}
		set := open(t, ownFile(t, "r.csv", rows), Options{MaybeTimes: true})
		if len(set.Times) == 0 {
			t.Errorf("%s beside %q: no rating has a time", c.date, c.other)
			continue
		}
		if got := set.Times[0]; !cmp.Equal(got, c.want, cmpopts.EquateNaNs()) {
			t.Errorf("%s beside %q is %v, want %v", c.date, c.other, got, c.want)
		}
	}
	if _, err := ParseTime("03/04/2024"); err == nil {
		t.Error("a date that may be of March or of April is read")
	}
	mixed := ownFile(t, "r.csv", "user,item,rating,timestamp\n1,1,3,03/04/2024\n1,2,3,13/04/2024\n1,3,3,03/14/2024\n")
	openFails(t, mixed, Options{Times: true}, "r.csv:2: the date has the day first or the month")
}

// TestUnsignedParquet: unsigned ids read as they stand in a text, copied by hand.
func TestUnsignedParquet(t *testing.T) {
	t.Parallel()
	type row struct {
		User   uint64  `parquet:"user"`
		Item   uint32  `parquet:"item"`
		Rating float32 `parquet:"rating"`
	}
	set := open(t, parquetFile(t, []row{{18446744073709551000, 4294967200, 3}, {7, 1, 2}}), Options{})
	if want := []string{"18446744073709551000", "7"}; !slices.Equal(set.UserIDs, want) {
		t.Errorf("users %v, want %v", set.UserIDs, want)
	}
	if want := []string{"1", "4294967200"}; !slices.Equal(set.ItemIDs, want) {
		t.Errorf("items %v, want %v", set.ItemIDs, want)
	}
}

// TestColumnsOfJSONLines: any object may lack a field, the first too; and a field that comes after the columns are settled is no
// silent loss.
func TestColumnsOfJSONLines(t *testing.T) {
	t.Parallel()
	const first, rated = `{"user":1,"item":1}`, `{"user":1,"item":2,"rating":4,"timestamp":9}`
	openFails(t, ownFile(t, "r.jsonl", first+"\n"+rated+"\n"), Options{}, "r.jsonl:1: rating is empty")
	set := open(t, ownFile(t, "r.jsonl", `{"user":1,"item":1,"rating":2}`+"\n"+rated), Options{MaybeTimes: true})
	if !cmp.Equal(set.Times, []float64{math.NaN(), 9}, cmpopts.EquateNaNs()) || set.Clicks {
		t.Errorf("times %v, clicks %t", set.Times, set.Clicks)
	}
	var late strings.Builder
	n := 0
	for ; late.Len() <= 1<<20+256<<10; n++ {
		fmt.Fprintf(&late, "{\"user\":1,\"item\":%d}\n", n)
	}
	openFails(t, ownFile(t, "r.jsonl", late.String()+rated), Options{}, fmt.Sprintf(`r.jsonl:%d: the object has "rating"`, n+1))
	if set := open(t, ownFile(t, "r.jsonl", late.String()), Options{}); !set.Clicks || set.Len() != n {
		t.Errorf("%d clicks, want %d", set.Len(), n)
	}
}
