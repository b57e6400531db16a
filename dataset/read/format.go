package read

import "bytes"

// format is a kind of ratings file: how it is recognized, the names of its three
// columns, its own rating range, and where its items are listed.
type format struct {
	name         string // of a published set, "" for others
	user, item   string // what it calls the columns
	rating, time string // likewise; "" for "rating" and "timestamp"
	min, max     float64
	unrated      []float64 // values off the scale that say that an item was not rated
	zeros        bool      // so may 0, which is on the scale

	scaleless bool // min and max are no more than a guess

	// Of a format without a header: how its fields are told apart, and what they
	// are. A format with one may have its columns in any order, among others.
	dialect dialect
	layout  string                     // the fields of a row, for messages
	fields  int                        // how many there are; the first three are user, item and rating, the fourth is the timestamp
	file    string                     // the only name such a file may have, "" for any
	beside  string                     // a file that must stand in the same folder, "" for none
	at      []int                      // where user, item, rating and timestamp stand; nil for this order
	dated   bool                       // the timestamp of every row is a date
	ids     func(record [][]byte) bool // what its ids look like; nil for anything

	items *itemFormat // of the file beside it that lists the items, nil when there is none
}

// The formats, in the order in which they are tried: the first that fits wins.
var (
	movieLens  = format{user: "userId", item: "movieId", min: 0.5, max: 5, items: &moviesCSV}
	genericCSV = format{user: "user", item: "item", min: 0, max: 5, scaleless: true, items: &itemsCSV}
	recBole    = format{user: "user_id", item: "item_id", min: 0, max: 5, scaleless: true, items: &itemsCSV}

	userIDItemID = format{user: "userId", item: "itemId", min: 0, max: 5, scaleless: true, items: &itemsCSV}

	headed = []format{movieLens, genericCSV, recBole, userIDItemID}

	// publishedHeaders are known by the names of all their columns, the column of ratings included.
	publishedHeaders = []format{
		{name: "Book-Crossing", user: "User-ID", item: "ISBN", rating: "Book-Rating", min: 0, max: 10, zeros: true, items: &itemsCSV},
		{name: "Anime Recommendations", user: "user_id", item: "anime_id", rating: "rating", min: 1, max: 10, unrated: []float64{-1}, items: &itemsCSV},
		{name: "Amazon reviews (2014, 2018)", user: "reviewerID", item: "asin", rating: "overall", time: "unixReviewTime", min: 1, max: 5, items: &itemsCSV},
		{name: "Amazon reviews (2023)", user: "user_id", item: "parent_asin", rating: "rating", min: 1, max: 5, items: &itemsCSV},
		{name: "Yelp", user: "user_id", item: "business_id", rating: "stars", time: "date", min: 1, max: 5, items: &itemsCSV},
		{name: "Goodreads", user: "user_id", item: "book_id", rating: "rating", time: "date_added", min: 0, max: 5, zeros: true, items: &itemsCSV},
		{name: "Last.fm (HetRec 2011)", user: "userID", item: "artistID", rating: "weight", min: 1, max: 1_000_000, items: &itemsCSV},
		{name: "MovieTweetings", user: "user_id", item: "movie_id", rating: "rating", time: "rating_timestamp", min: 0, max: 10, items: &itemsCSV},
	}

	movieLens100K = format{
		user: "user id", item: "item id", min: 1, max: 5,
		dialect: tabs, layout: "user id, item id, rating, timestamp, with tabs between", fields: 4, items: &uItem,
	}
	movieLens1M = format{ // as 10M except for the scale; only 1M comes with a list of users
		user: "UserID", item: "MovieID", min: 1, max: 5,
		dialect: colons, layout: "UserID::MovieID::Rating::Timestamp", fields: 4, beside: "users.dat", items: &moviesDat,
	}
	movieLens10M = format{
		user: "UserID", item: "MovieID", min: 0.5, max: 5,
		dialect: colons, layout: "UserID::MovieID::Rating::Timestamp", fields: 4, items: &moviesDat,
	}
	libimSeTi = format{
		user: "UserID", item: "ProfileID", min: 1, max: 10,
		dialect: commas, layout: "UserID,ProfileID,Rating", fields: 3, file: "ratings.dat",
	}
	tasteProfile = format{ // plays have no upper end: 10,000 is above the 9,667 of the published file
		user: "user", item: "song", min: 1, max: 10_000,
		dialect: tabs, layout: "user, song, plays, with tabs between", fields: 3, file: "train_triplets.txt",
	}

	// movieTweetings looks like MovieLens 10M, except for the ids of IMDb.
	movieTweetings = format{
		name: "MovieTweetings", user: "user_id", item: "movie_id", min: 0, max: 10,
		dialect: colons, layout: "user_id::movie_id::rating::rating_timestamp", fields: 4, items: &moviesDat, ids: isIMDb,
	}
	lastFM360K = format{ // the published file has 419,157 plays at most
		name: "Last.fm 360K", user: "user", item: "artist", min: 0, max: 1_000_000,
		dialect: tabs, layout: "user, artist id, artist name, plays, with tabs between", fields: 4, file: "usersha1-artmbid-artname-plays.tsv", at: []int{0, 1, 3, -1},
	}
	gowalla = format{
		name: "Gowalla", user: "user", item: "location", min: 0, max: 1,
		dialect: tabs, layout: "user, time, latitude, longitude, location, with tabs between", fields: 5, at: []int{0, 4, -1, 1}, dated: true,
	}
	foursquare = format{
		name: "Foursquare", user: "user", item: "venue", min: 0, max: 1,
		dialect: tabs, layout: "user, venue, category id, category, latitude, longitude, offset, time, with tabs between", fields: 8, at: []int{0, 1, -1, 7}, dated: true,
	}

	headless = []format{tasteProfile, lastFM360K, movieTweetings, gowalla, foursquare, movieLens100K, movieLens1M, movieLens10M, libimSeTi}
)

// isIMDb reports whether an id is a number of IMDb, of seven digits or more with zeros before it.
func isIMDb(record [][]byte) bool {
	id := record[1]
	return len(id) >= 7 && id[0] == '0' && len(bytes.Trim(id, "0123456789")) == 0
}

const wantColumns = "want the columns userId, movieId, rating (MovieLens) or user, item, rating (any CSV), or other names by --columns user=NAME,item=NAME,rating=NAME"

// ratingsFiles are the names of the file that is looked for in a folder.
var ratingsFiles = []string{"ratings.csv", "ratings.dat", "u.data", "ratings.tsv", "ratings.inter", "ratings.jsonl", "ratings.parquet", tasteProfile.file}
