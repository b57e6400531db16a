package read

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/dataset"
)

// itemFeatures returns the features of a spec that must be good.
func itemFeatures(tb testing.TB, set *dataset.Set, spec string) *dataset.ItemFeatures {
	tb.Helper()
	f, err := Features(set, spec)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// csvFile writes a file and returns its path.
func csvFile(tb testing.TB, text string) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "mine.csv")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return file
}

// The expected content is movieLensSet, written out by hand: movies 2, 3, 5 and 10 are of 1995, no
// year, 1990 and 2002; the first has three genres, the second none. The file's rows are in no order,
// and its values are integers in one category.
func TestFeatures(t *testing.T) {
	set := open(t, "testdata/good/movielens", Options{})
	file := csvFile(t, "value,weight,ITEM_ID,category\r\n10,.5,10,similar\n9,2,10,similar\n\n"+
		"\"Reiner, Rob\",1,2,director\n10,1e-3,2,similar\n9,1,2,cast\nEastwood,1,3,cast\n10,3,3,cast\n")
	got := itemFeatures(t, set, " year,"+file+" ,genres,released,era,genre-era")
	want := &dataset.ItemFeatures{Items: 4, Digest: got.Digest, Categories: []dataset.Category{
		{Name: "cast", Values: []string{"10", "9", "Eastwood"},
			Start: []int32{0, 1, 3, 3, 3}, Value: []int32{1, 0, 2}, Weight: []float64{1, 3, 1}},
		{Name: "director", Values: []string{"Reiner, Rob"}, Start: []int32{0, 1, 1, 1, 1}, Value: []int32{0}, Weight: []float64{1}},
		{Name: "era", Values: []string{"1990", "2000", "2010"}, Start: []int32{0, 2, 2, 3, 5}, Value: []int32{0, 1, 0, 1, 2}, Weight: []float64{.5, .5, 1, .8, .2}},
		{Name: "genre-era", Values: []string{"Comedy 1980", "Comedy 2000", "Drama 1980", "Drama 2000", "Drama 2020", "Horror 1980", "Horror 2000", "Romance 1980", "Romance 2000"},
			Start: []int32{0, 6, 6, 8, 10}, Value: []int32{0, 1, 2, 3, 7, 8, 5, 6, 3, 4}, Weight: []float64{.25, .75, .25, .75, .25, .75, .5, .5, .9, .1}},
		{Name: "genres", Values: []string{"Comedy", "Drama", "Horror", "Romance"},
			Start: []int32{0, 3, 3, 4, 5}, Value: []int32{0, 1, 3, 2, 1}, Weight: []float64{1, 1, 1, 1, 1}},
		{Name: "released", Values: []string{"1990", "1995", "2002"}, Start: []int32{0, 1, 1, 2, 3}, Value: []int32{1, 0, 2}, Weight: []float64{1, 1, 1}},
		{Name: "similar", Values: []string{"9", "10"},
			Start: []int32{0, 1, 1, 1, 3}, Value: []int32{1, 0, 1}, Weight: []float64{1e-3, 2, .5}},
		{Name: "year", Values: []string{"1990s", "2000s"}, Start: []int32{0, 1, 1, 2, 3}, Value: []int32{0, 0, 1}, Weight: []float64{1, 1, 1}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	values, weights := got.Categories[6].Features(3)
	if !slices.Equal(values, []int32{0, 1}) || !slices.Equal(weights, []float64{2, .5}) {
		t.Errorf("features of an item are %v, %v", values, weights)
	}
	for _, none := range []string{"", "none", " none "} {
		if f, err := Features(set, none); f != nil || err != nil {
			t.Errorf("%q: %v, %v, want nothing", none, f, err)
		}
	}
}

// TestFeaturesRepeated: a genre that a list names twice is one, and one without a name is none.
func TestFeaturesRepeated(t *testing.T) {
	set := &dataset.Set{Name: "made", Ratings: dataset.Ratings{Items: 2}, Genres: [][]string{{"B", "A", "B", ""}, {""}}}
	want := []dataset.Category{{Name: "genres", Values: []string{"A", "B"}, Start: []int32{0, 2, 2}, Value: []int32{0, 1}, Weight: []float64{1, 1}}}
	if diff := cmp.Diff(want, itemFeatures(t, set, "genres").Categories); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFeaturesDigest: equal features of equal items have equal digests, however they
// were written down and whether or not ratings are there; a change of anything shows.
func TestFeaturesDigest(t *testing.T) {
	set := open(t, "testdata/good/movielens", Options{})
	items, err := Items(t.Context(), "testdata/good/movielens", Options{})
	if err != nil {
		t.Fatal(err)
	}
	digest := func(s *dataset.Set, spec string) string { return itemFeatures(t, s, spec).Digest }
	base := digest(set, csvFile(t, "item_id,category,value\n2,cast,x\n2,cast,y\n3,rating,4\n"))
	for what, same := range map[string]string{
		"rows in another order":     digest(set, csvFile(t, "item_id,category,value\n3,rating,4\n2,cast,y\n2,cast,x\n")),
		"columns in another order":  digest(set, csvFile(t, "category,value,item_id\ncast,x,2\ncast,y,2\nrating,4,3\n")),
		"separated by semicolons":   digest(set, csvFile(t, "item_id;category;value\n2;cast;x\n2;cast;y\n3;rating;4\n")),
		"weights of 1":              digest(set, csvFile(t, "item_id,category,value,weight\n2,cast,x,1\n2,cast,y,1.0\n3,rating,4,1e0\n")),
		"without anybody's ratings": digest(items, csvFile(t, "item_id,category,value\n2,cast,x\n2,cast,y\n3,rating,4\n")),
		"from two files": digest(set, csvFile(t, "item_id,category,value\n3,rating,4\n")+","+
			csvFile(t, "item_id,category,value\n2,cast,x\n2,cast,y\n")),
	} {
		if same != base {
			t.Errorf("%s: digest %s, want %s", what, same, base)
		}
	}
	seen := map[string]string{base: "the first"}
	renamed := *set
	renamed.ItemIDs = []string{"2", "3", "5", "11"}
	for what, other := range map[string]string{
		"another item":     digest(set, csvFile(t, "item_id,category,value\n2,cast,x\n3,cast,y\n3,rating,4\n")),
		"another category": digest(set, csvFile(t, "item_id,category,value\n2,cast,x\n2,cast,y\n3,ratings,4\n")),
		"another value":    digest(set, csvFile(t, "item_id,category,value\n2,cast,x\n2,cast,z\n3,rating,4\n")),
		"another weight":   digest(set, csvFile(t, "item_id,category,value,weight\n2,cast,x,1\n2,cast,y,2\n3,rating,4,1\n")),
		"other ids":        digest(&renamed, csvFile(t, "item_id,category,value\n2,cast,x\n2,cast,y\n3,rating,4\n")),
		"genres":           digest(set, "genres"),
		"genres, years":    digest(set, "genres,year"),
	} {
		if before := seen[other]; before != "" || len(other) != 64 {
			t.Errorf("%s has the digest %q of %s", what, other, before)
		}
		seen[other] = what
	}
	if digest(set, "genres,year") != digest(items, "year,genres") {
		t.Error("the order of the spec, or ratings, change the digest")
	}
}

// TestFeaturesOfUnknownItems: without a list of items, rows about unrated items are skipped, and
// values and categories of those items alone are dropped.
func TestFeaturesOfUnknownItems(t *testing.T) {
	set := open(t, "testdata/good/no-movies", Options{}) // rated are 2, 3 and 10
	with := itemFeatures(t, set, csvFile(t, "item_id,category,value\n5,cast,x\n2,cast,y\n5,director,z\n"))
	without := itemFeatures(t, set, csvFile(t, "item_id,category,value\n2,cast,y\n"))
	if with.Skipped != 2 || without.Skipped != 0 {
		t.Errorf("skipped %d and %d rows, want 2 and 0", with.Skipped, without.Skipped)
	}
	with.Skipped = 0
	if diff := cmp.Diff(without, with); diff != "" {
		t.Errorf("(-without +with):\n%s", diff)
	}
}

// One category of a file has the features of a file with its rows alone. Two categories of one file
// can be read together. The error of a missing category lists the categories that the file has.
func TestFeaturesOfOneCategory(t *testing.T) {
	set := open(t, "testdata/good/movielens", Options{})
	const header, cast, rest = "item_id,category,value\n", "2,cast,x\n3,cast,y\n", "2,director,z\n"
	file := csvFile(t, header+cast+rest)
	one := itemFeatures(t, set, file+":cast")
	if diff := cmp.Diff(itemFeatures(t, set, csvFile(t, header+cast)), one); diff != "" {
		t.Errorf("(-alone +one of two):\n%s", diff)
	}
	if diff := cmp.Diff(itemFeatures(t, set, file), itemFeatures(t, set, file+":director,"+file+":cast")); diff != "" {
		t.Errorf("(-the file +its categories one by one):\n%s", diff)
	}
	for spec, want := range map[string]string{
		file + ":crew":         `no row is of the category "crew"; there are such as cast, director`,
		file + ":":             "no category stands behind the colon",
		file + ":cast," + file: "cast",
	} {
		if _, err := Features(set, spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
	}
}

func TestFeaturesErrors(t *testing.T) {
	listed, unlisted := open(t, "testdata/good/movielens", Options{}), open(t, "testdata/good/no-movies", Options{})
	const header = "item_id,category,value\n"
	const weighed = "item_id,category,value,weight\n"
	for _, c := range []struct {
		text    string // of a file
		line    int
		message string // after the line
	}{
		{"", 1, "the file is empty; its first line must be a header: want item_id,category,value or"},
		{"2,cast,x\n", 1, `the first line is "2,cast,x"; it must be a header: want item_id,category,value or`},
		{"item_id,category\n", 1, `the first line is "item_id,category"; it must be a header`},
		{"item_id,category,value,weigth\n", 1, `the first line is "item_id,category,value,weigth"; it must be a header`},
		{"item_id,category,value,Value\n", 1, `header names column "value" twice; keep one`},
		{header + "2,cast\n", 2, "2 fields, want 3 as in the header"},
		{header + "2,cast,x,1\n", 2, "4 fields, want 3 as in the header"},
		{header + "\n2,cast,\n", 3, "value is empty; every row needs one"},
		{header + "2,,x\n", 2, "category is empty"},
		{header + ",cast,x\n", 2, "item_id is empty"},
		{header + "2,cast,\xff\n", 2, `value "\xff" is not UTF-8; convert the file`},
		{header + "2,ca\xffst,x\n", 2, `category "ca\xffst" is not UTF-8`},
		{header + "2,cast,a\"b\n", 2, "quote inside an unquoted field"},
		{header + "2,cast,x\n2,cast,y\n2,cast,x\n", 4, `item "2" was given the "cast" "x" on line 2 already; keep one of the two`},
		{header + "77,cast,x\n", 2, `item_id "77" is not in the list of items of movielens; correct it, or remove the row`},
		{weighed + "2,cast,x,\n", 2, `weight "" is not a number; want one from 1e-09 to 1e+09`},
		{weighed + "2,cast,x,one\n", 2, `weight "one" is not a number`},
		{weighed + "2,cast,x,0\n", 2, `weight "0" is out of range; want a number from 1e-09 to 1e+09`},
		{weighed + "2,cast,x,-1\n", 2, `weight "-1" is out of range`},
		{weighed + "2,cast,x,NaN\n", 2, `weight "NaN" is out of range`},
		{weighed + "2,cast,x,Inf\n", 2, `weight "Inf" is out of range`},
		{weighed + "2,cast,x,1e999\n", 2, `weight "1e999" is out of range`},
	} {
		file := csvFile(t, c.text)
		f, err := Features(listed, file)
		at, located := errors.AsType[*dataset.FileError](err)
		if f != nil || !located || at.File != file || at.Line != c.line || !strings.HasPrefix(at.Err.Error(), c.message) {
			t.Errorf("%q: error %v, want line %d: %s", c.text, err, c.line, c.message)
		}
	}
	file := csvFile(t, header+"2,cast,x\n")
	genres := csvFile(t, header+"2,genres,x\n")
	empty := csvFile(t, header)
	unknown := csvFile(t, header+"5,cast,x\n")
	for _, c := range []struct {
		set      *dataset.Set
		spec     string
		message  string
		sentinel error
	}{
		{listed, "genres,", `features "genres,": nothing stands between two commas or at an end; want genres, year and CSV files`, nil},
		{listed, "genres,none", "none goes with nothing else", nil},
		{listed, "year,year", "year is named twice", nil},
		{listed, file + "," + filepath.Dir(file) + "/./mine.csv", `category "cast" comes from ` + file + " already", nil},
		{listed, "genres," + genres, `category "genres" comes from the list of items already; give one of the two another name`, nil},
		{listed, empty, "none of its 0 rows is about an item of movielens", ErrNoFeatures},
		{unlisted, unknown, "none of its 1 rows is about an item of no-movies; want its item ids in the column item_id", ErrNoFeatures},
		{unlisted, "genres", "no such features: no-movies lists no genres; the MovieLens sets", ErrNoFeatures},
		{unlisted, "year", "no such features: no-movies lists no years", ErrNoFeatures},
		{listed, "genre", "want genres, year, or a CSV file", fs.ErrNotExist},
		{listed, "testdata/nowhere.csv", "testdata/nowhere.csv", fs.ErrNotExist},
		{listed, "testdata", "testdata is a folder; want a CSV file", nil},
	} {
		f, err := Features(c.set, c.spec)
		if f != nil || err == nil || !strings.Contains(err.Error(), c.message) || c.sentinel != nil && !errors.Is(err, c.sentinel) {
			t.Errorf("%s: error %v, want %q in it, and %v", c.spec, err, c.message, c.sentinel)
		}
	}
}

// A category has an entry for each item: a file whose rows have one each would take their product of memory.
// 256 may be had, of a file and the list of items together.
func TestFeaturesOfManyCategories(t *testing.T) {
	set := open(t, "testdata/good/movielens", Options{})
	rows := func(n int) string {
		var b strings.Builder
		b.WriteString("item_id,category,value\n")
		for i := range n {
			fmt.Fprintf(&b, "2,c%d,x\n", i)
		}
		return csvFile(t, b.String())
	}
	if got := len(itemFeatures(t, set, "genres,"+rows(255)).Categories); got != 256 {
		t.Errorf("%d categories, want 256", got)
	}
	for spec, line := range map[string]int{rows(257): 258, "genres," + rows(256): 257} {
		_, err := Features(set, spec)
		if at, located := errors.AsType[*dataset.FileError](err); !located || at.Line != line || !strings.Contains(err.Error(), "is one too many; at most 256 are supported") {
			t.Errorf("%v; want line %d to be one too many", err, line)
		}
	}
}

// Values that are numbers are in their order.
func TestFeaturesOfLargeNumbers(t *testing.T) {
	r := featureReader{set: open(t, "testdata/good/movielens", Options{}), from: make(map[string]string)}
	if err := r.read("mine.csv", "", strings.NewReader("item_id,category,value\n2,c,4194303\n3,c,7\n3,d,4194303\n5,c,4194303\n")); err != nil {
		t.Fatal(err)
	}
	if got, want := r.categories[0].compress(4), (dataset.Category{Name: "c", Values: []string{"7", "4194303"},
		Start: []int32{0, 1, 2, 3, 3}, Value: []int32{1, 0, 1}, Weight: []float64{1, 1, 1}}); !cmp.Equal(want, got) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// FuzzFeatures: no text makes the reader panic; what it accepts is in canonical order,
// and says of each item what encoding/csv finds in the text.
func FuzzFeatures(f *testing.F) {
	for _, seed := range []string{
		"item_id,category,value\n2,cast,x\n", "value,item_id,weight,category\na b,10,.5,c\n\"q\"\"u\",3,1e3,c\n2,5,1,d\n",
		"item_id,category,value\n2,cast,x\n2,cast,x\n", "item_id,category,value,weight\n7,cast,x,0\n", "item_id,category,value\r\n02,c,1\r\n2,c,01\r\n",
	} {
		f.Add([]byte(seed))
	}
	set := &dataset.Set{Name: "fuzzed", Ratings: dataset.Ratings{Items: 4}, ItemIDs: []string{"2", "3", "5", "10"}}
	f.Fuzz(func(t *testing.T, text []byte) {
		r := featureReader{set: set, from: make(map[string]string)}
		err := r.read("mine.csv", "", bytes.NewReader(text))
		if errors.Is(err, ErrNoFeatures) {
			return
		}
		if err != nil {
			checkLocated(t, err, text)
			return
		}
		got := make(map[featureKey]float64)
		for _, table := range r.categories {
			c := table.compress(set.Items)
			if len(c.Start) != set.Items+1 || c.Start[0] != 0 || int(c.Start[set.Items]) != len(c.Value) || len(c.Weight) != len(c.Value) {
				t.Fatalf("category %q: starts %v for %d values", c.Name, c.Start, len(c.Value))
			}
			used := make([]bool, len(c.Values))
			for j, id := range set.ItemIDs {
				values, weights := c.Features(j)
				for k, v := range values {
					if k > 0 && v <= values[k-1] {
						t.Fatalf("item %s has the values %v", id, values)
					}
					used[v] = true
					got[featureKey{id, c.Name, c.Values[v]}] = weights[k]
				}
			}
			if slices.Contains(used, false) {
				t.Fatalf("category %q: a value of %q is nobody's", c.Name, c.Values)
			}
		}
		if bytes.ContainsAny(text, "\"\r\t ") {
			return // what the two readers do with these is compared by TestScannerReadsCSV
		}
		records, err := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(text, []byte("\ufeff")))).ReadAll()
		if err != nil {
			t.Fatalf("accepted, but: %v", err)
		}
		column := func(name string) int {
			return slices.IndexFunc(records[0], func(h string) bool { return strings.EqualFold(h, name) })
		}
		want := make(map[featureKey]float64)
		for _, record := range records[1:] {
			if !slices.Contains(set.ItemIDs, record[column("item_id")]) {
				continue
			}
			weight := 1.
			if at := column("weight"); at >= 0 {
				if weight, err = strconv.ParseFloat(record[at], 64); err != nil || !(weight > 0) {
					t.Fatalf("%q was accepted as a weight", record[at])
				}
			}
			want[featureKey{record[column("item_id")], record[column("category")], record[column("value")]}] = weight
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// TestMapFeatureFiles: paths change, and words, names of categories and spaces stay.
func TestMapFeatureFiles(t *testing.T) {
	for spec, want := range map[string]string{
		"genres,year": "genres,year", "year, a/f.csv:x/y,v.npy": "year, <a/f.csv>:x/y,<v.npy>", "./genres": "<./genres>", "a:b.csv": "<a:b.csv>", `C:\f.CSV:kind`: `<C:\f.CSV>:kind`, "": "",
	} {
		if got := MapFeatureFiles(spec, func(path string) string { return "<" + path + ">" }); got != want {
			t.Errorf("%q becomes %q, want %q", spec, got, want)
		}
	}
}
