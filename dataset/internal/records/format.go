package records

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Format is a kind of ratings file: how it is recognized, the names of its three
// columns, its own rating range, and where its items are listed.
type Format struct {
	Name         string // of a published set, "" for others
	Title, About string // for the list of formats; LAYOUT stands for the layout
	User, Item   string // what it calls the columns
	rating, time string // likewise; "" for "rating" and "timestamp"
	Min, Max     float64
	Unrated      []float64 // values off the scale that say that an item was not rated
	Zeros        bool      // so may 0, which is on the scale

	Scaleless bool // Min and max are no more than a guess

	// Of a format without a header: how its fields are told apart, and what they
	// are. A format with one may have its columns in any order, among others.
	dialect Dialect
	layout  string                     // the fields of a row, for messages
	Fields  int                        // how many there are; the first three are user, item and rating, the fourth is the timestamp
	file    string                     // the only name such a file may have, "" for any
	Beside  string                     // a file that must stand in the same folder, "" for none
	at      []int                      // where user, item, rating and timestamp stand; nil for this order
	dated   bool                       // the timestamp of every row is a date
	IDs     func(record [][]byte) bool // what its ids look like; nil for anything

	Items string // the file beside it that lists the items, "" when there is none
}

// The formats, in the order in which they are tried: the first that fits wins.
var (
	movieLens  = Format{Title: "MovieLens CSV", About: "a folder, zip archive or file: ratings.csv with userId,movieId,rating, and movies.csv, which lists the items", User: "userId", Item: "movieId", Min: 0.5, Max: 5, Items: "movies.csv"}
	GenericCSV = Format{Title: "generic CSV", About: "a folder, zip archive or file with the columns user and item (or user_id and item_id), and rating unless it is of clicks; perhaps an items.csv with titles and features. Also TSV, JSON lines, Parquet, .inter of RecBole", User: "user", Item: "item", Min: 0, Max: 5, Scaleless: true, Items: "items.csv"}
	recBole    = Format{User: "user_id", Item: "item_id", Min: 0, Max: 5, Scaleless: true, Items: "items.csv"}

	userIDItemID = Format{User: "userId", Item: "itemId", Min: 0, Max: 5, Scaleless: true, Items: "items.csv"}

	headed = []Format{movieLens, GenericCSV, recBole, userIDItemID}

	// publishedHeaders are known by the names of all their columns, the column of ratings included.
	publishedHeaders = []Format{
		{Name: "Book-Crossing", User: "User-ID", Item: "ISBN", rating: "Book-Rating", Min: 0, Max: 10, Zeros: true, Items: "items.csv"},
		{Name: "Anime Recommendations", User: "user_id", Item: "anime_id", rating: "rating", Min: 1, Max: 10, Unrated: []float64{-1}, Items: "items.csv"},
		{Name: "Amazon reviews (2014, 2018)", User: "reviewerID", Item: "asin", rating: "overall", time: "unixReviewTime", Min: 1, Max: 5, Items: "items.csv"},
		{Name: "Amazon reviews (2023)", User: "user_id", Item: "parent_asin", rating: "rating", Min: 1, Max: 5, Items: "items.csv"},
		{Name: "Yelp", User: "user_id", Item: "business_id", rating: "stars", time: "date", Min: 1, Max: 5, Items: "items.csv"},
		{Name: "Goodreads", User: "user_id", Item: "book_id", rating: "rating", time: "date_added", Min: 0, Max: 5, Zeros: true, Items: "items.csv"},
		{Name: "Last.fm (HetRec 2011)", User: "userID", Item: "artistID", rating: "weight", Min: 1, Max: 1_000_000, Items: "items.csv"},
		{Name: "MovieTweetings", User: "user_id", Item: "movie_id", rating: "rating", time: "rating_timestamp", Min: 0, Max: 10, Items: "items.csv"},
	}

	movieLens100K = Format{
		Title: "MovieLens 100K", About: "a folder, zip archive or file: u.data with LAYOUT, and u.item",
		User: "user id", Item: "item id", Min: 1, Max: 5,
		dialect: tabs, layout: "user id, item id, rating, timestamp, with tabs between", Fields: 4, Items: "u.item",
	}
	movieLens1M = Format{ // as 10M except for the scale; only 1M comes with a list of users
		Title: "MovieLens 1M", About: "the files of MovieLens 10M and a users.dat",
		User: "UserID", Item: "MovieID", Min: 1, Max: 5,
		dialect: Colons, layout: "UserID::MovieID::Rating::Timestamp", Fields: 4, Beside: "users.dat", Items: "movies.dat",
	}
	movieLens10M = Format{
		Title: "MovieLens 10M", About: "a folder, zip archive or file: ratings.dat with LAYOUT, and movies.dat",
		User: "UserID", Item: "MovieID", Min: 0.5, Max: 5,
		dialect: Colons, layout: "UserID::MovieID::Rating::Timestamp", Fields: 4, Items: "movies.dat",
	}
	libimSeTi = Format{
		Title: "LibimSeTi", About: "a folder, zip archive or file: ratings.dat with LAYOUT",
		User: "UserID", Item: "ProfileID", Min: 1, Max: 10,
		dialect: Commas, layout: "UserID,ProfileID,Rating", Fields: 3, file: "ratings.dat",
	}
	tasteProfile = Format{ // plays have no upper end: 10,000 is above the 9,667 of the published file
		Title: "Million Song Dataset", About: "a folder, zip archive or file: train_triplets.txt of the Taste Profile subset with LAYOUT",
		User: "user", Item: "song", Min: 1, Max: 10_000,
		dialect: tabs, layout: "user, song, plays, with tabs between", Fields: 3, file: "train_triplets.txt",
	}

	// movieTweetings looks like MovieLens 10M, except for the ids of IMDb.
	movieTweetings = Format{
		Name: "MovieTweetings", User: "user_id", Item: "movie_id", Min: 0, Max: 10,
		dialect: Colons, layout: "user_id::movie_id::rating::rating_timestamp", Fields: 4, Items: "movies.dat", IDs: isIMDb,
	}
	lastFM360K = Format{ // the published file has 419,157 plays at most
		Name: "Last.fm 360K", User: "user", Item: "artist", Min: 0, Max: 1_000_000,
		dialect: tabs, layout: "user, artist id, artist name, plays, with tabs between", Fields: 4, file: "usersha1-artmbid-artname-plays.tsv", at: []int{0, 1, 3, -1},
	}
	gowalla = Format{
		Name: "Gowalla", User: "user", Item: "location", Min: 0, Max: 1,
		dialect: tabs, layout: "user, time, latitude, longitude, location, with tabs between", Fields: 5, at: []int{0, 4, -1, 1}, dated: true,
	}
	foursquare = Format{
		Name: "Foursquare", User: "user", Item: "venue", Min: 0, Max: 1,
		dialect: tabs, layout: "user, venue, category id, category, latitude, longitude, offset, time, with tabs between", Fields: 8, at: []int{0, 1, -1, 7}, dated: true,
	}

	headless = []Format{tasteProfile, lastFM360K, movieTweetings, gowalla, foursquare, movieLens100K, movieLens1M, movieLens10M, libimSeTi}
)

// isIMDb reports whether an id is a number of IMDb, of seven digits or more with zeros before it.
func isIMDb(record [][]byte) bool {
	id := record[1]
	return len(id) >= 7 && id[0] == '0' && len(bytes.Trim(id, "0123456789")) == 0
}

const WantColumns = "want the columns userId, movieId, rating (MovieLens) or user, item, rating (any CSV), or other names by --columns user=NAME,item=NAME,rating=NAME"

// Described are the formats that a user is told of, each with its title and what it is about.
func Described() []Format {
	list := []Format{movieLens, movieLens10M, movieLens1M, movieLens100K, libimSeTi, tasteProfile, GenericCSV}
	for i, f := range list {
		list[i].About = strings.ReplaceAll(f.About, "LAYOUT", f.layout)
	}
	return list
}

// WithItems are the formats whose lists of items may stand without ratings.
func WithItems() []Format {
	return slices.DeleteFunc(slices.Concat(headed, headless), func(f Format) bool { return f.Items == "" || f.IDs != nil })
}

// Options say how a text is written, where the caller knows. The zero value finds out.
type Options struct {
	Columns   Names
	Separator string // between fields
	NoHeader  bool   // the first row is a rating
}

// Names are the names of the columns of a file, where it has others than its format. "" leaves a column the name that the
// format gives it. A whole number that names no column is the place of one, from 1.
type Names struct{ User, Item, Rating, Time string }

const (
	ratingColumn = "rating"
	timeColumn   = "timestamp"
)

// Columns says where the fields of a record stand.
type Columns struct {
	User, Item int
	Rating     int // -1 without ratings: each record is a click
	Time       int // -1 without timestamps
	Count      int
	Want       string // completes "N fields, want COUNT "
}

// positions counts the columns that are said by their place.
func (c Names) positions() int {
	n := 0
	for _, name := range []string{c.User, c.Item, c.Rating, c.Time} {
		if _, is := position(name); is {
			n++
		}
	}
	return n
}

// position is the place of a column, from 0, where a number says it.
func position(name string) (int, bool) {
	n, err := strconv.Atoi(name)
	return n - 1, err == nil && n >= 1 && n <= maxPosition
}

// maxPosition is the last column that a number can say.
const maxPosition = 10_000

// formats are the formats with a header, with a file's own names in them. A file that has a name of its own is no MovieLens
// file, though its other columns may be called as in one.
func (c Names) formats() []Format {
	if c.User == "" && c.Item == "" {
		return headed
	}
	var list []Format
	for _, known := range headed {
		f := GenericCSV
		f.User, f.Item = cmp.Or(c.User, known.User), cmp.Or(c.Item, known.Item)
		list = append(list, f)
	}
	for _, known := range publishedHeaders { // what is named may be half of what it has
		f := GenericCSV
		f.User, f.Item, f.rating, f.time = cmp.Or(c.User, known.User), cmp.Or(c.Item, known.Item), known.rating, known.time
		list = append(list, f)
	}
	return list
}

// parseHeader recognizes a format by its columns, in any order, in upper or lower
// case, among others. The error of a record that names none is errNoHeader.
func parseHeader(header [][]byte, c Names) (Format, Columns, error) {
	header = untyped(header)
	if f, cols, found := publishedHeader(header, c); found {
		return f, cols, nil
	}
	var least []string // missing from the format that lacks the least
	named := c != Names{}
	for _, f := range c.formats() {
		cols, missing, err := findColumns(header, f, c)
		if err != nil {
			return Format{}, Columns{}, err
		}
		if len(missing) == 0 {
			return f, cols, nil
		}
		named = named || len(missing) == 1 || cols.Rating >= 0
		if least == nil || len(missing) < len(least) {
			least = missing
		}
	}
	if !named {
		return Format{}, Columns{}, errNoHeader
	}
	want := WantColumns
	if c != (Names{}) {
		want = "its columns are " + string(bytes.Join(header, []byte(", ")))
	}
	return Format{}, Columns{}, fmt.Errorf("%w %s; %s", errLacks, strings.Join(least, " and "), want)
}

// publishedHeader recognizes the header of a published set, whose columns the caller may name as they are.
func publishedHeader(header [][]byte, c Names) (Format, Columns, bool) {
	for _, f := range publishedHeaders {
		same := func(stated, own string) bool { return stated == "" || strings.EqualFold(stated, own) }
		if !same(c.User, f.User) || !same(c.Item, f.Item) || !same(c.Rating, f.rating) || !same(c.Time, cmp.Or(f.time, timeColumn)) {
			continue
		}
		if cols, missing, err := findColumns(header, f, c); err == nil && len(missing) == 0 && cols.Rating >= 0 {
			return f, cols, true
		}
	}
	return Format{}, Columns{}, false
}

// findColumns finds the columns of a format, and lists the columns that the header lacks. A file
// without a column of ratings is a file of clicks. Its timestamps may be missing too, unless the
// options ask for them by name.
func findColumns(header [][]byte, f Format, c Names) (cols Columns, missing []string, err error) {
	cols = Columns{Count: len(header), Want: "as in the header"}
	for _, column := range []struct {
		at     *int
		name   string
		needed bool
	}{
		{&cols.User, f.User, true},
		{&cols.Item, f.Item, true},
		{&cols.Rating, cmp.Or(c.Rating, f.rating, ratingColumn), c.Rating != "" || f.rating != ""},
		{&cols.Time, cmp.Or(c.Time, f.time, timeColumn), c.Time != ""},
	} {
		if *column.at, err = FindColumn(header, column.name); err != nil {
			return Columns{}, nil, err
		}
		if *column.at < 0 && column.needed {
			missing = append(missing, strconv.Quote(column.name))
		}
	}
	return cols, missing, nil
}

// untyped are the names of a header of RecBole, which are followed by a type: user_id:token.
func untyped(header [][]byte) [][]byte {
	out := make([][]byte, len(header))
	for i, name := range header {
		out[i] = name
		for _, kind := range []string{":token", ":float", ":token_seq", ":float_seq"} {
			if short, typed := bytes.CutSuffix(name, []byte(kind)); typed && len(short) > 0 {
				out[i] = short
			}
		}
	}
	return out
}

// FindColumn returns where a header names a column, -1 when it does not.
func FindColumn(header [][]byte, name string) (at int, err error) {
	at = -1
	for i, field := range header {
		if strings.EqualFold(string(field), name) {
			if at >= 0 {
				return at, fmt.Errorf("header names column %q twice; keep one, or say places: --columns user=1,item=2,rating=3", name)
			}
			at = i
		}
	}
	if place, is := position(name); at < 0 && is && place < len(header) {
		at = place
	}
	return at, nil
}

var errNoHeader = errors.New("no header")

// errLacks is the error of a header without a column that every row needs.
var errLacks = errors.New("header lacks")
