package split

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
)

// byUserID lists the ratings of each user id, as "item value".
func byUserID(ids, items []string, r dataset.Ratings) map[string][]string {
	out := make(map[string][]string)
	for k, u := range r.User {
		out[ids[u]] = append(out[ids[u]], items[r.Item[k]]+" "+strings.Repeat("*", int(2*r.Value[k])))
	}
	return out
}

// TestTakeOut: each user's ratings are either in the set that is left or with the raters, unchanged.
// The features equal the features of a file in which every public rating is written by hand.
func TestTakeOut(t *testing.T) {
	set := generated(t, "small")
	before := byUserID(set.UserIDs, set.ItemIDs, set.Ratings)
	for _, least := range []float64{0, 4} {
		out, err := TakeOut(set, PublicUsers{Count: 50, Least: least})
		if err != nil {
			t.Fatal(err)
		}
		if out.Users != 550 || out.Raters.Users != 50 || len(out.UserIDs) != 550 || len(out.Raters.IDs) != 50 || out.Digest == set.Digest {
			t.Fatalf("%d users left, %d public", out.Users, out.Raters.Users)
		}
		left, public := byUserID(out.UserIDs, out.ItemIDs, out.Ratings), byUserID(out.Raters.IDs, out.ItemIDs, out.Raters.Ratings)
		for id, ratings := range before {
			if got := append(slices.Clone(left[id]), public[id]...); !slices.Equal(got, ratings) || len(left[id]) > 0 && len(public[id]) > 0 {
				t.Errorf("user %s had %d ratings; %d are left, %d public", id, len(ratings), len(left[id]), len(public[id]))
			}
		}
		if err = out.Validate(); err != nil || !ascending(out.Ratings) {
			t.Errorf("what is left: %v, sorted %t", err, ascending(out.Ratings))
		}
		var text strings.Builder
		text.WriteString("item_id,category,value,weight\n")
		for k, u := range set.User {
			if id := set.UserIDs[u]; slices.Contains(out.Raters.IDs, id) && float64(set.Value[k]) >= least {
				weight := "1"
				if least == 0 {
					weight = number(set.Value[k])
				}
				text.WriteString(set.ItemIDs[set.Item[k]] + ",rater," + id + "," + weight + "\n")
			}
		}
		file := filepath.Join(t.TempDir(), "raters.csv")
		if err = os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		want, err := read.Features(set, file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := read.Features(out, "rater")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.Categories, got.Categories); diff != "" || got.Digest != want.Digest {
			t.Errorf("features at %v stars differ from the file's:\n%s", least, diff)
		}
		var written strings.Builder
		if err = got.WriteCSV(&written, out.ItemIDs); err != nil {
			t.Fatal(err)
		}
		again := filepath.Join(t.TempDir(), "again.csv")
		if err = os.WriteFile(again, []byte(written.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		if f, err := read.Features(set, again); err != nil || f.Digest != want.Digest {
			t.Errorf("what was written is not what is read: %v", err)
		}
	}
}

// number writes a rating of half stars.
func number(v float32) string {
	text := []string{"0", "0.5", "1", "1.5", "2", "2.5", "3", "3.5", "4", "4.5", "5"}
	return text[int(2*v)]
}

// TestTakeOutIsNested: more public users include all of fewer, whatever the seed of a run, and named
// users are taken out as named.
func TestTakeOutIsNested(t *testing.T) {
	set := generated(t, "small")
	few, err := TakeOut(set, PublicUsers{Count: 10})
	if err != nil {
		t.Fatal(err)
	}
	more, err := TakeOut(set, PublicUsers{Count: 200})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range few.Raters.IDs {
		if !slices.Contains(more.Raters.IDs, id) {
			t.Errorf("user %s is one of 10, and not of 200", id)
		}
	}
	ids := slices.Clone(few.Raters.IDs)
	slices.Reverse(ids)
	named, err := TakeOut(set, PublicUsers{IDs: ids})
	if err != nil {
		t.Fatal(err)
	}
	if named.Digest != few.Digest {
		t.Error("those who are named are not those who were drawn")
	}
}

// TestTakeOutKeepsTimesAndTests: what belongs to a rating stays with it.
func TestTakeOutKeepsTimesAndTests(t *testing.T) {
	set := &dataset.Set{Name: "made up", Min: 1, Max: 5, UserIDs: []string{"a", "b", "c"}, ItemIDs: []string{"x", "y"}}
	set.Ratings = dataset.Ratings{Users: 3, Items: 2, User: []int32{0, 1, 1, 2}, Item: []int32{0, 0, 1, 1}, Value: []float32{1, 2, 3, 4}}
	set.Times, set.Tested = []float64{10, 20, 30, 40}, []bool{true, false, true, false}
	out, err := TakeOut(set, PublicUsers{IDs: []string{"b"}})
	if err != nil {
		t.Fatal(err)
	}
	want := dataset.Ratings{Users: 2, Items: 2, User: []int32{0, 1}, Item: []int32{0, 1}, Value: []float32{1, 4}, Times: []float64{10, 40}}
	if diff := cmp.Diff(want, out.Ratings); diff != "" || !slices.Equal(out.Tested, []bool{true, false}) {
		t.Errorf("tested %v, ratings:\n%s", out.Tested, diff)
	}
	if set.Raters != nil || set.Users != 3 {
		t.Error("the set itself was changed")
	}
	for _, c := range []struct {
		set  *dataset.Set
		p    PublicUsers
		want string
	}{
		{set, PublicUsers{IDs: []string{"d"}}, `"d" is not a user of made up`},
		{set, PublicUsers{IDs: []string{"a", "a"}}, `"a" is named twice`},
		{set, PublicUsers{IDs: []string{"a", "b", "c"}}, "a user must be left"},
		{set, PublicUsers{Count: 3}, "3 of the 3 of made up; want at least 1, and 1 fewer than there are"},
		{set, PublicUsers{}, "0 of the 3"},
		{out, PublicUsers{Count: 1}, "taken out before"},
	} {
		if _, err := TakeOut(c.set, c.p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %s", c.p, err, c.want)
		}
	}
}
