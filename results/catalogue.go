package results

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/protocol"
)

// CatalogueFile names the file of a run's folder that describes the items of the run, so that the model
// can be asked about ratings that the run did not have.
const CatalogueFile = "catalogue.json"

const catalogueFormat = "fedsim/results/catalogue/v1"

// Catalogue is the content of CatalogueFile. It holds no rating.
type Catalogue struct {
	Format  string  `json:"format"`
	Session string  `json:"session"` // in hex
	Name    string  `json:"name"`    // of the data
	Min     float64 `json:"min"`     // of the scale inside, see dataset.Set.Raised
	Max     float64 `json:"max"`
	Shift   float64 `json:"shift,omitempty"`
	Users   int     `json:"users"`

	// UserIDs are there if users cannot be fitted to the model, so that it answers for its own users alone.
	UserIDs  []string           `json:"user_ids,omitempty"`
	ItemIDs  []string           `json:"item_ids"`
	Titles   []string           `json:"titles,omitempty"`
	Genres   [][]string         `json:"genres,omitempty"`
	Years    []int              `json:"years,omitempty"`
	Features []dataset.Category `json:"features,omitempty"`
}

// catalogueOf describes the items of an experiment.
func catalogueOf(e *experiment.Experiment) *Catalogue {
	d, session := e.Data, e.Session()
	c := &Catalogue{
		Format: catalogueFormat, Session: hex.EncodeToString(session[:]), Name: d.Name, Min: d.Min, Max: d.Max, Shift: d.Shift,
		Users: d.Users, ItemIDs: d.ItemIDs, Titles: d.Titles, Genres: d.Genres, Years: d.Years,
	}
	if e.About().Clients != algorithm.Users {
		c.UserIDs = d.UserIDs
	}
	if e.Features != nil {
		c.Features = e.Features.Categories
	}
	return c
}

// Set returns the set that the catalogue describes, without ratings.
func (c *Catalogue) Set() *dataset.Set {
	return &dataset.Set{
		Name: c.Name, Min: c.Min, Max: c.Max, Shift: c.Shift, Ratings: dataset.Ratings{Users: c.Users, Items: len(c.ItemIDs)},
		UserIDs: c.UserIDs, ItemIDs: c.ItemIDs, Titles: c.Titles, Genres: c.Genres, Years: c.Years,
	}
}

// SessionID returns the session that the catalogue states.
func (c *Catalogue) SessionID() (id protocol.SessionID, err error) {
	b, err := hex.DecodeString(c.Session)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("%s: its session is %q; %d bytes in hex are needed", CatalogueFile, c.Session, len(id))
	}
	copy(id[:], b)
	return id, nil
}

// ReadCatalogue reads the catalogue of a run. The error for a run without one wraps fs.ErrNotExist.
func ReadCatalogue(dir string) (*Catalogue, error) {
	var c Catalogue
	err := readJSON(filepath.Join(dir, CatalogueFile), &c)
	switch {
	case err != nil:
		return nil, err
	case c.Format != catalogueFormat:
		return nil, fmt.Errorf("%s: its format is %q; this version reads %q", filepath.Join(dir, CatalogueFile), c.Format, catalogueFormat)
	}
	for _, n := range []int{len(c.Titles), len(c.Genres), len(c.Years)} {
		if n != 0 && n != len(c.ItemIDs) {
			return nil, fmt.Errorf("%s: it describes %d items, and lists %d", filepath.Join(dir, CatalogueFile), n, len(c.ItemIDs))
		}
	}
	return &c, nil
}

// WriteRelease writes the files by which the model answers for users and ratings that the run did not have:
// the catalogue, and the shared model if clients are users. A regression has no items and gets no files.
func (f *Folder) WriteRelease(e *experiment.Experiment, shared []byte) error {
	if e.Data.Profile != nil {
		return nil
	}
	b, err := json.Marshal(catalogueOf(e))
	if err != nil {
		return err
	}
	err = os.WriteFile(filepath.Join(f.temporary, CatalogueFile), append(b, '\n'), 0o600)
	if err == nil && e.About().Clients == algorithm.Users {
		err = os.WriteFile(filepath.Join(f.temporary, SharedFile), shared, 0o600)
	}
	return err
}
