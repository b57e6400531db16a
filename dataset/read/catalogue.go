package read

import (
	"github.com/fedsim/fedsim/dataset/internal/records"
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
	for _, f := range records.Described() {
		list = append(list, Entry{Name: f.Title, Description: f.About, Min: f.Min, Max: f.Max})
	}
	return list
}
