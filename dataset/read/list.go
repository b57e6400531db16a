package read

import (
	"github.com/fedsim/fedsim/dataset/published"
	"github.com/fedsim/fedsim/dataset/synthetic"
)

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

// List returns the synthetic sets, then the published ones, then the file formats.
func List() []Entry {
	var list []Entry
	for _, s := range synthetic.Shapes() {
		list = append(list, Entry{
			Name: s.Name, Description: "synthetic: " + s.Description,
			Users: s.Users, Items: s.Items, Ratings: s.Ratings, Min: s.Min, Max: s.Max,
		})
	}
	for _, p := range published.Sets() {
		list = append(list, Entry{
			Name: p.Name, Description: p.Description,
			Users: p.Users, Items: p.Items, Ratings: p.Ratings, Min: p.Min, Max: p.Max,
		})
	}
	for _, f := range []struct {
		format
		name, description string
	}{
		{movieLens, "MovieLens CSV", "a folder, zip archive or file: ratings.csv with userId,movieId,rating, and movies.csv, which lists the items"},
		{movieLens10M, "MovieLens 10M", "a folder, zip archive or file: ratings.dat with " + movieLens10M.layout + ", and movies.dat"},
		{movieLens1M, "MovieLens 1M", "the files of MovieLens 10M and a users.dat"},
		{movieLens100K, "MovieLens 100K", "a folder, zip archive or file: u.data with " + movieLens100K.layout + ", and u.item"},
		{libimSeTi, "LibimSeTi", "a folder, zip archive or file: ratings.dat with " + libimSeTi.layout},
		{tasteProfile, "Million Song Dataset", "a folder, zip archive or file: train_triplets.txt of the Taste Profile subset with " + tasteProfile.layout},
		{genericCSV, "generic CSV", "a folder, zip archive or file with the columns user and item (or user_id and item_id), and rating unless it is of clicks; perhaps an items.csv with titles and features. Also TSV, JSON lines, Parquet, .inter of RecBole"},
	} {
		list = append(list, Entry{Name: f.name, Description: f.description, Min: f.min, Max: f.max})
	}
	return list
}
