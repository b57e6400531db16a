package read

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/dataset"
)

// TestCatalogue: items are the listed and the rated, in the canonical order of both, and features
// follow their items. The content is copied by hand from testdata/good/catalogue, where 2 and tt7 are
// listed but not rated, 9 is rated but not listed, and tt7 makes the order textual.
func TestCatalogue(t *testing.T) {
	got := *open(t, "testdata/good/catalogue", Options{})
	got.Digest, got.Findings = "", nil
	want := dataset.Set{
		Name: "catalogue", Min: 0.5, Max: 5,
		Ratings: dataset.Ratings{
			Users: 2, Items: 4,
			User: []int32{0, 0, 1}, Item: []int32{0, 2, 0}, Value: []float32{4, 0.5, 3},
		},
		UserIDs: []string{"1", "2"}, ItemIDs: []string{"10", "2", "9", "tt7"},
		Titles: []string{"Ten", "Two (2002)", "", "Unrated Seven (1997)"},
		Genres: [][]string{{"Drama", "War"}, nil, nil, {"War"}},
		Years:  []int{0, 2002, 0, 1997},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// By item, as ByUser documents it: two ratings, none, one, none.
	byItem := dataset.Ratings{Users: got.Items, Items: got.Users, User: got.Item, Item: got.User, Value: got.Value}.ByUser()
	for i, want := range []int{2, 0, 1, 0} {
		if users, values := byItem.Row(i); len(users) != want || len(values) != want {
			t.Errorf("item %s has %d users and %d ratings, want %d", got.ItemIDs[i], len(users), len(values), want)
		}
	}
}

// TestCatalogueIsPublic: with a movies.csv that lists all rated movies, the items
// and their features are the same whatever the ratings.
func TestCatalogueIsPublic(t *testing.T) {
	all := open(t, "synthetic:small", Options{})
	var movies strings.Builder
	movies.WriteString("movieId,title,genres\n")
	for i, id := range all.ItemIDs {
		fmt.Fprintf(&movies, "%s,%s,%s\n", id, all.Titles[i], strings.Join(all.Genres[i], "|"))
	}
	for name, wanted := range map[string]func(user, item int32) bool{
		"all ratings":     func(_, _ int32) bool { return true },
		"one user":        func(user, _ int32) bool { return user == 7 },
		"none of 9 to 30": func(_, item int32) bool { return item < 9 || item > 30 },
	} {
		file := writeCSV(t, all.Where(wanted))
		if err := os.WriteFile(filepath.Join(filepath.Dir(file), "movies.csv"), []byte(movies.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		got := open(t, file, Options{})
		if got.Items != all.Items || !cmp.Equal(got.ItemIDs, all.ItemIDs) || !cmp.Equal(got.Titles, all.Titles) ||
			!cmp.Equal(got.Genres, all.Genres) || !cmp.Equal(got.Years, all.Years) {
			t.Errorf("%s: the %d items are not the %d of movies.csv", name, got.Items, all.Items)
		}
	}
}

// TestOpenItems: the catalogue read without ratings equals the catalogue read with them, and needs no
// ratings file. In testdata/good/catalogue the rated but unlisted 9 is missing. Each scale is its
// format's scale.
func TestOpenItems(t *testing.T) {
	items := func(dir string, o Options) *dataset.Set {
		t.Helper()
		set, err := Items(t.Context(), dir, o)
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	for _, name := range []string{"movielens", "ml-100k", "ml-1m", "ml-10m"} {
		dir := filepath.Join("testdata/good", name)
		want := *open(t, dir, Options{})
		got := *items(dir, Options{})
		if got.Users != 0 || got.UserIDs != nil || got.Len() != 0 {
			t.Errorf("%s: it has %d users and %d ratings", name, got.Users, got.Len())
		}
		want.Ratings, want.UserIDs, want.Digest, want.Findings = dataset.Ratings{Items: want.Items}, nil, got.Digest, nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-with ratings +without):\n%s", name, diff)
		}
	}
	lone := t.TempDir()
	content, err := os.ReadFile("testdata/good/catalogue/movies.csv")
	if err != nil {
		t.Fatal(err)
	}
	if err = os.WriteFile(filepath.Join(lone, "movies.csv"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	lo, hi := 1.0, 7.0
	got := *items(lone, Options{Min: &lo, Max: &hi})
	want := dataset.Set{
		Name: filepath.Base(lone), Min: 1, Max: 7, Ratings: dataset.Ratings{Items: 3},
		ItemIDs: []string{"10", "2", "tt7"}, Titles: []string{"Ten", "Two (2002)", "Unrated Seven (1997)"},
		Genres: [][]string{{"Drama", "War"}, nil, {"War"}}, Years: []int{0, 2002, 1997}, Digest: got.Digest,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a list alone (-want +got):\n%s", diff)
	}
	if len(got.Digest) != 64 || got.Digest == items("testdata/good/movielens", Options{}).Digest {
		t.Errorf("digest %q", got.Digest)
	}
}

// A list of items may be named as a file, whatever its name.
func TestItemsOfAFile(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"movies.csv": "movieId,title,genres\n1,One,Drama\n", "items.csv": "item,title\n2,Two\n", "catalogue.txt": "item,title\n3,Three\n"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		set, err := Items(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if want := map[string]string{"movies.csv": "1", "items.csv": "2", "catalogue.txt": "3"}[name]; len(set.ItemIDs) != 1 || set.ItemIDs[0] != want {
			t.Errorf("%s lists %v, want %s", name, set.ItemIDs, want)
		}
	}
}

func TestOpenItemsErrors(t *testing.T) {
	dir := func(files map[string]string) string {
		dir := t.TempDir()
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	const list = "movieId,title,genres\n1,One,Drama\n"
	for _, tt := range []struct {
		what, dir string
		options   Options
		message   string
	}{
		{"no list", dir(nil), Options{}, "no list of items: looked in it for movies.csv, movies.dat, u.item"},
		{"no folder", filepath.Join(t.TempDir(), "nowhere"), Options{}, "nowhere: no such file"},
		{"two lists", dir(map[string]string{"movies.csv": list, "u.item": ""}), Options{}, "holds movies.csv and u.item; keep one"},
		{"an empty list", dir(map[string]string{"movies.csv": "movieId,title,genres\n"}), Options{}, "movies.csv lists no items"},
		{"an item twice", dir(map[string]string{"movies.csv": list + "1,One,Drama\n"}), Options{}, `movies.csv:3: movieId "1" was described on line 2 already`},
		{"an impossible scale", dir(map[string]string{"movies.csv": list}), Options{Max: new(float64)}, "impossible rating scale: 0.5 to 0"},
	} {
		if set, err := Items(t.Context(), tt.dir, tt.options); err == nil || set != nil || !strings.Contains(err.Error(), tt.message) {
			t.Errorf("%s: error %v, want %q in it", tt.what, err, tt.message)
		}
	}
}
