package read

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// publishedSamples are made-up samples of published sets, in the form in which they are published, with the flags that they need. The counts
// were made by hand.
var publishedSamples = []struct {
	set, file, flags string
	o                Options
	users, items, n  int
	lo, hi           float64
	times            bool
}{
	{"Book-Crossing", "BX-Book-Ratings.csv", "", Options{}, 3, 5, 5, 0, 10, false},
	{"Book-Crossing, ratings alone", "BX-Book-Ratings.csv", "--unrated 0", Options{Unrated: []float64{0}}, 2, 3, 3, 0, 10, false},
	{"Amazon, ratings only", "ratings_Beauty.csv", "--columns user=1,item=2,rating=3,timestamp=4", Options{Columns: Columns{User: "1", Item: "2", Rating: "3", Timestamp: "4"}}, 2, 2, 3, 0, 5, true},
	{"Amazon reviews of 2018", "All_Beauty_5.json", "", Options{}, 2, 1, 2, 1, 5, true},
	{"Goodreads", "goodreads_reviews.json", "", Options{}, 2, 2, 3, 0, 5, true},
	{"Douban", "uir.index", "", Options{}, 2, 2, 3, 1, 5, true},
	{"FilmTrust", "filmtrust.txt", "--columns user=1,item=2,rating=3 --rating-min 0.5 --rating-max 4", Options{Columns: Columns{User: "1", Item: "2", Rating: "3"}, Min: new(0.5), Max: new(4.)}, 2, 3, 4, 0.5, 4, false},
	{"Jester", "jester-data-1.csv", "", Options{}, 2, 4, 4, -10, 10, false},
	{"Anime Recommendations", "rating.csv", "", Options{}, 2, 2, 2, 1, 10, false},
	{"Netflix Prize", "combined_data_1.txt", "", Options{}, 2, 2, 3, 1, 5, true},
	{"Last.fm (HetRec 2011)", "user_artists.dat", "", Options{}, 2, 2, 3, 1, 1e6, false},
	{"Last.fm 360K", "usersha1-artmbid-artname-plays.tsv", "", Options{}, 2, 2, 3, 0, 1e6, false},
	{"Gowalla", "loc-gowalla_totalCheckins.txt", "--duplicates last", Options{Duplicates: DuplicatesLast}, 2, 2, 3, 0, 1, true},
	{"Foursquare", "dataset_TSMC2014_NYC.txt", "--duplicates last", Options{Duplicates: DuplicatesLast}, 2, 2, 2, 0, 1, true},
	{"Steam, 200k", "steam-200k.csv", "--columns user=1,item=2,rating=4 --duplicates last --rating-max 12000", Options{Columns: Columns{User: "1", Item: "2", Rating: "4"}, Duplicates: DuplicatesLast, Max: new(12000.)}, 2, 2, 3, 0, 12000, false},
	{"Yelp", "yelp_academic_dataset_review.json", "--duplicates last", Options{Duplicates: DuplicatesLast}, 1, 2, 2, 1, 5, true},
	{"Epinions", "ratings_data.txt", "--columns user=1,item=2,rating=3", Options{Columns: Columns{User: "1", Item: "2", Rating: "3"}}, 2, 2, 3, 0, 5, false},
	{"MovieTweetings", "movietweetings/ratings.dat", "", Options{}, 2, 2, 3, 0, 10, true},
	{"LightGCN", "train.txt", "", Options{}, 3, 4, 6, 0, 1, false},
	{"Matrix Market", "trustlet.mtx", "--columns user=1,item=2,rating=3", Options{Columns: Columns{User: "1", Item: "2", Rating: "3"}}, 3, 2, 4, 0, 5, false},
	{"LibRec", "filmtrust.txt", "--no-header", Options{Form: Form{NoHeader: true}}, 2, 3, 4, 0, 5, false},
	{"Surprise", "../good/ml-100k/u.data", "", Options{}, 2, 3, 3, 1, 5, true},
}

// TestPublishedSamples reads each sample and compares its counts.
func TestPublishedSamples(t *testing.T) {
	for _, c := range publishedSamples {
		c.o.Times = true
		set, err := Open(t.Context(), filepath.Join("testdata/published", c.file), c.o)
		if err != nil {
			t.Errorf("%s: %v", c.set, err)
			continue
		}
		if set.Users != c.users || set.Items != c.items || set.Len() != c.n || set.Min != c.lo || set.Max != c.hi || (set.Times != nil) != c.times {
			t.Errorf("%s: %d users, %d items, %d ratings of %v to %v, times %v; want %d, %d, %d of %v to %v, times %v\n%v", c.set,
				set.Users, set.Items, set.Len(), set.Min, set.Max, set.Times != nil, c.users, c.items, c.n, c.lo, c.hi, c.times, set.Findings)
		}
	}
	for _, name := range []string{"australian_users_items.json", "reviews_Baby.json"} {
		if _, err := Open(t.Context(), filepath.Join("testdata/published", name), Options{}); err == nil || !strings.Contains(err.Error(), "ast.literal_eval") {
			t.Errorf("%s: %v, want the command that converts it", name, err)
		}
	}
}

// TestPublishedPage: the page has a row for each sample, with its flags.
func TestPublishedPage(t *testing.T) {
	page, err := os.ReadFile("../../dataset/read/data.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range publishedSamples {
		flags := ""
		if c.flags != "" {
			flags = "`" + c.flags + "`"
		}
		file := filepath.Base(c.file)
		if c.file == "filmtrust.txt" {
			file = "ratings.txt"
		}
		if row := "| " + c.set + " | `" + file + "` | " + flags; !strings.Contains(string(page), row) {
			t.Errorf("dataset/read/data.md has no row that begins with %s", row)
		}
	}
}
