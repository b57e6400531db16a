package dataset

// Entry describes a source of data that [Open] understands.
type Entry struct {
	Name        string  `json:"name"` // a spec, or the name of a file format
	Description string  `json:"description"`
	Users       int     `json:"users,omitempty"` // 0 for a file format, likewise the two below
	Items       int     `json:"items,omitempty"`
	Ratings     int     `json:"ratings,omitempty"`
	Min         float64 `json:"min"` // rating range in stars
	Max         float64 `json:"max"`
}

// List returns the synthetic sets, then the file formats.
func List() []Entry {
	var list []Entry
	for _, s := range shapes {
		lo, hi := s.scale()
		list = append(list, Entry{
			Name: syntheticPrefix + ":" + s.name, Description: "synthetic: " + s.description,
			Users: s.users, Items: s.items, Ratings: s.ratings, Min: lo, Max: hi,
		})
	}
	return append(list,
		Entry{
			Name: "MovieLens CSV", Min: movieLens.min, Max: movieLens.max,
			Description: "a folder with ratings.csv (userId,movieId,rating,timestamp) and, if there is one, movies.csv, which lists the items",
		},
		Entry{
			Name: "generic CSV", Min: genericCSV.min, Max: genericCSV.max,
			Description: "a file, or a folder with ratings.csv, with the columns user, item and rating",
		})
}
