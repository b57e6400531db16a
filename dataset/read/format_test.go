package read

import (
	"archive/zip"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/dataset"
)

// The expected contents are copied by hand from testdata/good. Movies 267 of
// MovieLens 100K, 3952 of 1M and 8874 of 10M are listed but not rated; 267 has the
// flag "unknown", which is no genre.
var formatSets = []dataset.Set{
	{
		Name: "ml-100k", Min: 1, Max: 5,
		Ratings: dataset.Ratings{
			Users: 2, Items: 3,
			User: []int32{0, 1, 1}, Item: []int32{0, 0, 1}, Value: []float32{1, 5, 3},
		},
		UserIDs: []string{"22", "196"}, ItemIDs: []string{"10", "242", "267"},
		Titles: []string{"Toy Story (1995)", "Misérables, Les (1995)", "unknown"},
		Genres: [][]string{{"Animation", "Children's", "Comedy"}, {"Drama", "Musical"}, nil},
		Years:  []int{1995, 1995, 0},
	},
	{
		Name: "ml-1m", Min: 1, Max: 5,
		Ratings: dataset.Ratings{
			Users: 2, Items: 3,
			User: []int32{0, 0, 1}, Item: []int32{0, 1, 0}, Value: []float32{4, 5, 3},
		},
		UserIDs: []string{"1", "2"}, ItemIDs: []string{"661", "1193", "3952"},
		Titles: []string{"James and the Giant Peach (1996)", `"Great Performances" Café (1975)`, "Contender, The (2000)"},
		Genres: [][]string{{"Animation", "Children's", "Musical"}, {"Drama"}, {"Drama", "Thriller"}},
		Years:  []int{1996, 1975, 2000},
	},
	{
		Name: "ml-10m", Min: 0.5, Max: 5,
		Ratings: dataset.Ratings{
			Users: 2, Items: 3,
			User: []int32{0, 1, 1}, Item: []int32{0, 0, 1}, Value: []float32{5, 0.5, 3.5},
		},
		UserIDs: []string{"1", "2"}, ItemIDs: []string{"122", "185", "8874"},
		Titles: []string{"Boomerang (1992)", "Net, The (1995)", "Amélie (2001)"},
		Genres: [][]string{{"Comedy", "Romance"}, {"Action", "Crime", "Thriller"}, nil},
		Years:  []int{1992, 1995, 2001},
	},
	{
		Name: "libimseti", Min: 1, Max: 10,
		Ratings: dataset.Ratings{
			Users: 2, Items: 2,
			User: []int32{0, 0, 1}, Item: []int32{0, 1, 0}, Value: []float32{8, 6, 10},
		},
		UserIDs: []string{"1", "2"}, ItemIDs: []string{"133", "720"},
	},
	{ // the first user and songs are as in the published file
		Name: "msd", Min: 1, Max: 10_000,
		Ratings: dataset.Ratings{
			Users: 2, Items: 2,
			User: []int32{0, 1, 1}, Item: []int32{0, 0, 1}, Value: []float32{9667, 1, 2},
		},
		UserIDs: []string{"85c1f87fea955d09b4bec2e36aee110927aedf9a", "b80344d063b5ccb3212f76538f3d9e43d87dca9e"},
		ItemIDs: []string{"SOAKIMP12A8C130995", "SOBBMDR12A8C13253B"},
	},
	{
		Name: "generic.tsv", Min: 0, Max: 5,
		Ratings: dataset.Ratings{
			Users: 2, Items: 2,
			User: []int32{0, 1}, Item: []int32{0, 1}, Value: []float32{0, 4.25},
		},
		UserIDs: []string{"adam", "zoë"}, ItemIDs: []string{"Coffee", `Tea, "green"`},
	},
}

// TestOpenFormats reads every format from a folder, from its file of ratings, and from
// zip archives that hold the folder or its files.
func TestOpenFormats(t *testing.T) {
	ratings := map[string]string{"ml-100k": "u.data", "ml-1m": "ratings.dat", "ml-10m": "ratings.dat", "libimseti": "ratings.dat", "msd": "train_triplets.txt"}
	for _, want := range append([]dataset.Set{movieLensSet}, formatSets...) {
		path := "testdata/good/" + want.Name
		specs := map[string]string{ // spec: name of the set
			path: want.Name,
			zipped(t, "flat.zip", map[string]string{"": path}):                   "flat.zip",
			zipped(t, "folder.zip", map[string]string{"top/" + want.Name: path}): "folder.zip",
		}
		if file := ratings[want.Name]; file != "" {
			specs[path+"/"+file] = file
			specs[zipped(t, "others.zip", map[string]string{"a/b": path, "c": "testdata/good/one.csv"})] = "others.zip"
		}
		for spec, name := range specs {
			got := *open(t, spec, Options{})
			if assumed := len(got.Notices) > 0; assumed != (path == "testdata/good/generic.tsv") {
				t.Errorf("%s: notices %v", spec, got.Notices)
			}
			got.Digest, got.Notices, got.Findings, want.Name = "", nil, nil, name
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", spec, diff)
			}
		}
	}
}

// zipped packs files and folders of the disk, each under a name, into an archive.
func zipped(tb testing.TB, name string, content map[string]string) string {
	tb.Helper()
	return writeZip(tb, name, func(w *zip.Writer) error {
		for as, path := range content {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			files := []string{path}
			if info.IsDir() {
				if files, err = filepath.Glob(path + "/*"); err != nil {
					return err
				}
			}
			for _, file := range files {
				to := as
				if info.IsDir() || as == "" {
					to = filepath.ToSlash(filepath.Join(as, filepath.Base(file)))
				}
				text, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				entry, err := w.Create(to)
				if err != nil {
					return err
				}
				if _, err = entry.Write(text); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// writeZip writes an archive.
func writeZip(tb testing.TB, name string, fill func(*zip.Writer) error) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), name)
	f, err := os.Create(file)
	if err != nil {
		tb.Fatal(err)
	}
	w := zip.NewWriter(f)
	if err = fill(w); err != nil {
		tb.Fatal(err)
	}
	if err = w.Close(); err != nil {
		tb.Fatal(err)
	}
	if err = f.Close(); err != nil {
		tb.Fatal(err)
	}
	return file
}

// TestOpenKeepsDigests pins the digests that were there before archives and other
// formats were read; a set's content has the digest it always had.
func TestOpenKeepsDigests(t *testing.T) {
	for path, want := range map[string]string{
		"movielens":      "341ba959f1e0524bc435cdb8d6734f617bde3f421295c107776a8d01778922af",
		"generic.csv":    "bb9f5e520e728efd0ba292113483cc07dd1ecf2106d0479035c08e8936c4baed",
		"catalogue":      "daf095b1d2899b211a78728cf39e1b127b1b40f7bf46c73903b4b3496960b25d",
		"partial-movies": "fa20b2b87448202ff5659da68c1068a1151ee192ae020dfa5231eca7013f67c2",
	} {
		if got := open(t, "testdata/good/"+path, Options{}).Digest; got != want {
			t.Errorf("%s: digest is %s, want %s", path, got, want)
		}
	}
}

// TestRecognizeScale: the scale of a file is its format's, whatever its ratings are.
func TestRecognizeScale(t *testing.T) {
	write := func(name, text string) string {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for file, want := range map[string][2]float64{
		write("ratings.dat", "1::2::3::4\n"):                       {0.5, 5},
		write("train_triplets.txt", "1\t2\t3\n"):                   {1, 10_000},
		write("u1.base", "1\t2\t3\t4\n"):                           {1, 5},
		write("ratings.dat", "1,2,3\n"):                            {1, 10},
		write("ratings.dat", "userId,movieId,rating\n1,2,3\n"):     {0.5, 5},
		write("ratings.csv", "rating::user::item\n3::1::2\n"):      {0, 5},
		write("anything", "\n \n\"rating\",userId,movieId\n3,1,2"): {0.5, 5},
	} {
		set := open(t, file, Options{})
		if set.Min != want[0] || set.Max != want[1] || set.Len() != 1 || set.Value[0] != 3 || set.UserIDs[0] != "1" || set.ItemIDs[0] != "2" {
			t.Errorf("%s: %v stars of %v..%v by %q for %q, want 3 of %v by 1 for 2",
				filepath.Base(file), set.Value, set.Min, set.Max, set.UserIDs, set.ItemIDs, want)
		}
	}
	// Three numbers without a header could be anything under another name.
	if _, err := Open(context.Background(), write("mine.csv", "1,2,3\n"), Options{}); err == nil {
		t.Error("1,2,3 was taken for a rating in a file called mine.csv")
	}
}
