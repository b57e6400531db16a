package records

import (
	"bytes"
	"slices"
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
