package read

// format is a kind of ratings file: how it is recognized, the names of its three
// columns, its own rating range, and where its items are listed.
type format struct {
	user, item string // what it calls the columns; that of ratings is "rating"
	min, max   float64

	scaleless bool // min and max are no more than a guess

	// Of a format without a header: how its fields are told apart, and what they
	// are. A format with one may have its columns in any order, among others.
	dialect dialect
	layout  string // the fields of a row, for messages
	fields  int    // how many there are; the first three are user, item and rating, the fourth is the timestamp
	file    string // the only name such a file may have, "" for any
	beside  string // a file that must stand in the same folder, "" for none

	items *itemFormat // of the file beside it that lists the items, nil when there is none
}

// The formats, in the order in which they are tried: the first that fits wins.
var (
	movieLens  = format{user: "userId", item: "movieId", min: 0.5, max: 5, items: &moviesCSV}
	genericCSV = format{user: "user", item: "item", min: 0, max: 5, scaleless: true, items: &itemsCSV}
	recBole    = format{user: "user_id", item: "item_id", min: 0, max: 5, scaleless: true, items: &itemsCSV}

	headed = []format{movieLens, genericCSV, recBole}

	movieLens100K = format{
		user: "user id", item: "item id", min: 1, max: 5,
		dialect: tabs, layout: "user id, item id, rating, timestamp, with tabs between", fields: 4, items: &uItem,
	}
	movieLens1M = format{ // as 10M but for the scale; only 1M comes with a list of users
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

	headless = []format{tasteProfile, movieLens100K, movieLens1M, movieLens10M, libimSeTi}
)

const wantColumns = "want the columns userId, movieId, rating (MovieLens) or user, item, rating (any CSV), or others that are named (columns)"

// ratingsFiles are the names of the file that is looked for in a folder.
var ratingsFiles = []string{"ratings.csv", "ratings.dat", "u.data", "ratings.tsv", "ratings.inter", "ratings.jsonl", "ratings.parquet", tasteProfile.file}
