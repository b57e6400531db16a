package read

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fedsim/fedsim/dataset"
)

// loaded holds the result of reading a text: a set or the error, and the records left out.
type loaded struct {
	Set     *dataset.Set
	Err     string
	Skipped []string
}

// loadChunks reads a text from a source that returns so many bytes at a time; 0: all that are asked for.
func loadChunks(file string, text []byte, o Options, skip bool, chunk int) (out loaded) {
	if skip {
		o.Skipped = func(e *dataset.FileError) { out.Skipped = append(out.Skipped, e.Error()) }
	}
	var in io.Reader = bytes.NewReader(text)
	if chunk > 0 {
		in = &chunks{r: in, size: chunk}
	}
	t, err := readRatings(context.Background(), inputOf(file, in, alone), o)
	if err == nil {
		out.Set, err = t.sort("")
	}
	if err != nil {
		out.Err = err.Error()
	}
	return out
}

// checkLines compares what is read of a text in chunks with what is read of it at once.
func checkLines(t *testing.T, file string, text []byte, o Options) {
	t.Helper()
	for _, skip := range []bool{false, true} {
		want := loadChunks(file, text, o, skip, 0)
		if want.Set != nil && want.Set.Digest != want.Set.ComputeDigest() {
			t.Fatalf("%.300q\nthe digest is %s, and of the set as it is %s", text, want.Set.Digest, want.Set.ComputeDigest())
		}
		for _, chunk := range []int{3, 300} {
			got := loadChunks(file, text, o, skip, chunk)
			if reflect.DeepEqual(want, got) {
				continue
			}
			if diff := cmp.Diff(want, got); diff != "" { // NaN is NaN for it
				t.Fatalf("%.300q\nin chunks of %d (-at once, +in chunks): %s", text, chunk, diff)
			}
		}
	}
}

// FuzzLines: whatever the text, chunks of it give the same set, errors and skipped records.
func FuzzLines(f *testing.F) {
	names := []string{"mine.csv", "ratings.dat", "train_triplets.txt"}
	addSeeds(f, func(name string) int { return slices.Index(names, name) }, ".csv", ".dat", ".data", ".tsv", ".txt")
	for k, text := range oddFiles() {
		if k%25 == 0 { // TestOddLines has them all
			f.Add([]byte(text), k)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, choice int) {
		choice = max(choice, 0)
		o := Options{Times: choice%2 == 0, Duplicates: []Duplicates{"", DuplicatesLast, DuplicatesMean}[choice/2%3]}
		checkLines(t, names[choice%len(names)], text, o)
	})
}

// oddLines are lines that are not plain, or hardly, with commas between.
var oddLines = []string{
	"", " ", "\r", ",,,", "1", "1,2", "1,2,3", "1,2,3,4,5", "1,2,3,4,", ",2,3,4", "1,,3,4", "1,2,,4", "1,2,3,", // fields
	" 1,2,3,4", "1 ,2,3,4", "1,2,3 ,4", "1,2,3,4 ", "1,2,3,4\t", "1,2,3,4\r", "1,2,3,4\r\r", "1\r,2,3,4", // spaces
	`"1",2,3,4`, `1,"2",3,4`, "\"1\n\",2,3,4", "\"1\n9,9,3,4\n\",2,3,4", `1"1,2,3,4`, `"1"1,2,3,4`, `"1,2,3,4`, // quotes
	"01,2,3,4", "1,02,3,4", "0,0,3,4", "00,2,3,4", "-1,2,3,4", "+1,2,3,4", "a,2,3,4", "1,é,3,4", "1,\xe9,3,4", "1,2,3,4\x00", // ids
	"4194303,2,3,4", "4194304,2,3,4", "9999999,2,3,4", "12345678,2,3,4", "1,4194303,3,4", "1,4194304,3,4", "1,123456789,3,4",
	"1,2,0,4", "1,2,5,4", "1,2,5.0,4", "1,2,5.1,4", "1,2,6,4", "1,2,0.4,4", "1,2,0.5,4", "1,2,.5,4", "1,2,3.,4", "1,2,3.25,4", // ratings
	"1,2,3.5.1,4", "1,2,3..5,4", "1,2,3.a,4", "1,2,a,4", "1,2,-0,4", "1,2,3e0,4", "1,2,NaN,4", "1,2,04,4", "1,2,12,4", "1,2,3.0000000000001,4",
	"1,2,3.00000000000000,4", "1,2,3.000000000000001,4", "1,2,3.00000000000000000000001,4",
	"1,2,3,a", "1,2,3,12345678", "1,2,3,123456789", "1,2,3,1234567890123456", "1,2,3,9234567890123456", "1,2,3,12345678901234567", // times
	"1,2,3,-4", "1,2,3,4.5", "1,2,3,2024-05-31", "1,2,3,00000000", "1,2,3,1e3", "1,2,3,\"4\"",
}

// oddFiles are files of plain lines with others among them: at the beginning, at the end, and in the middle.
func oddFiles() (files []string) {
	var plain []string
	for k := range 20 {
		plain = append(plain, fmt.Sprintf("%d,%d,%v,%d", 100+k/4, 5+k%4*(k%7+1)*300, 1+float64(k%8)/2, 964982703+k))
	}
	lines := func(extra string, at int, end string) string {
		all := slices.Insert(slices.Clone(plain), at, extra)
		return strings.Join(all, end) + end
	}
	const header = "userId,movieId,rating,timestamp\n"
	for _, odd := range oddLines {
		for _, at := range []int{0, 11} {
			text := lines(odd, at, "\n")
			files = append(files, header+text, strings.ReplaceAll(text, ",", "::"), strings.ReplaceAll(text, ",", "\t"))
		}
		three := strings.ReplaceAll(lines(odd, 10, "\n"), ",9649827", "\r\n#")
		files = append(files, "user,item,rating\r\n"+three, header+odd, header+odd+"\n", header+lines(odd, 5, "\r\n"), "\xef\xbb\xbf"+header+lines(odd, 5, "\n"))
	}
	files = append(files,
		header+lines("", 0, "\n\n"), header+strings.TrimSuffix(lines("1,2,3,4", 0, "\n"), "\n"), header+lines("1,2,3,4\n1,2,4,5", 0, "\n"),
		"user,item\n1,2\n3,4\n1,4\n", "user,item,timestamp\n1,2,3\n3,4,5\n", "item,user,rating\n1,2,3\n", "user,item,rating,title\n1,2,3,text\n1,3,3,4\n",
		"user,item,rating\n1,2,3\n1,3,3.5\n2,3,4.25\n", "user,item,rating\r\n1,2,3\r\n1,3,3.5\r\n2,3,4.25\r\n",
	)
	return files
}

// TestOddLines reads files that hold lines of every kind among plain ones.
func TestOddLines(t *testing.T) {
	options := []Options{{}, {Times: true, Duplicates: DuplicatesMean}}
	for k, text := range oddFiles() {
		if testing.Short() && k%5 > 0 {
			continue
		}
		checkLines(t, "mine.csv", []byte(text), options[k%2])
	}
}

// TestSortMatchesMap: ratings in any order become the ratings that a map holds, sorted by comparing. Of a pair that is
// there twice the last counts, or the mean with the latest time. Times that are all 0 are no times ([Rating]).
func TestSortMatchesMap(t *testing.T) {
	type pair struct{ user, item int }
	rapid.Check(t, func(t *rapid.T) {
		duplicates := rapid.SampledFrom([]Duplicates{DuplicatesLast, DuplicatesMean}).Draw(t, "duplicates")
		times := rapid.Bool().Draw(t, "times")
		ids := rapid.SampledFrom([]int{5, 60, 5_000_000}).Draw(t, "ids") // the last are not all small
		list := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Rating {
			return Rating{
				User: strconv.Itoa(rapid.IntRange(0, ids).Draw(t, "user")), Item: strconv.Itoa(rapid.IntRange(0, ids).Draw(t, "item")),
				Value: float64(rapid.IntRange(1, 5).Draw(t, "value")), Time: float64(rapid.IntRange(0, 9).Draw(t, "time")),
			}
		}), 1, 60).Draw(t, "ratings")
		if rapid.Bool().Draw(t, "in order") {
			slices.SortStableFunc(list, func(a, b Rating) int {
				au, _ := strconv.Atoi(a.User)
				bu, _ := strconv.Atoi(b.User)
				ai, _ := strconv.Atoi(a.Item)
				bi, _ := strconv.Atoi(b.Item)
				return slices.Compare([]int{au, ai}, []int{bu, bi})
			})
		}
		values, latest := map[pair][]float64{}, map[pair]float64{}
		for _, r := range list {
			u, _ := strconv.Atoi(r.User)
			i, _ := strconv.Atoi(r.Item)
			p := pair{u, i}
			if old, again := latest[p]; !again || duplicates == DuplicatesMean && r.Time > old || duplicates == DuplicatesLast {
				latest[p] = r.Time
			}
			values[p] = append(values[p], r.Value)
		}
		var want []Rating
		pairs := make([]pair, 0, len(values))
		for p := range values {
			pairs = append(pairs, p)
		}
		slices.SortFunc(pairs, func(a, b pair) int { return slices.Compare([]int{a.user, a.item}, []int{b.user, b.item}) })
		for _, p := range pairs {
			of := values[p]
			one := Rating{User: strconv.Itoa(p.user), Item: strconv.Itoa(p.item), Value: of[len(of)-1]}
			if duplicates == DuplicatesMean {
				var sum float64
				for _, v := range of {
					sum += v
				}
				one.Value = float64(float32(sum / float64(len(of))))
			}
			if times {
				one.Time = latest[p]
			}
			want = append(want, one)
		}
		set, err := FromRatings("list", list, Options{Min: new(1.), Max: new(5.), Duplicates: duplicates, Times: times})
		if err != nil {
			t.Fatal(err)
		}
		some := times && slices.ContainsFunc(list, func(r Rating) bool { return r.Time != 0 })
		if kept := set.Times != nil; kept != some {
			t.Fatalf("the set keeps times: %t, want %t", kept, some)
		}
		var got []Rating
		for k, v := range set.Value {
			one := Rating{User: set.UserIDs[set.User[k]], Item: set.ItemIDs[set.Item[k]], Value: float64(v)}
			if some {
				one.Time = set.Times[k]
			}
			got = append(got, one)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		if set.Digest != set.ComputeDigest() {
			t.Fatal("the digest is another one than that of the set as it is")
		}
	})
}
