package results

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// ErrOtherData is wrapped by the error for data other than the run's data.
var ErrOtherData = errors.New("not the data of this run")

// SameData checks that an experiment uses the data of a finished run; else the error wraps ErrOtherData.
func SameData(dir string, e *experiment.Experiment) error {
	var m Manifest
	if err := atomicfile.ReadJSON(filepath.Join(dir, "manifest.json"), &m); err != nil {
		return fmt.Errorf("%s is not the folder of a finished run: %w", dir, err)
	}
	if m.DataDigest != e.Data.Digest {
		return fmt.Errorf("%w: %s was made on %s with digest %s, and %s has %s", ErrOtherData, dir, m.Data, m.DataDigest, algorithm.Data.Of(e.Config), e.Data.Digest)
	}
	return nil
}

// FinishedRun holds the files of a finished run that describe it.
type FinishedRun struct {
	Config   config.Config
	Manifest Manifest
	Summary  Summary
}

// Read reads the folder of a finished run, without its model and its data.
func Read(dir string) (*FinishedRun, error) {
	var f FinishedRun
	var err error
	if f.Config, f.Manifest, err = ReadConfig(dir); err != nil {
		return nil, err
	}
	return &f, atomicfile.ReadJSON(filepath.Join(dir, "summary.json"), &f.Summary)
}

// ReadConfig reads the configuration and the manifest of a run.
func ReadConfig(dir string) (c config.Config, m Manifest, err error) {
	settings, err := ReadSettings(filepath.Join(dir, "config.yaml"))
	if err == nil {
		c, err = config.Resolve(settings)
	}
	if err == nil {
		err = atomicfile.ReadJSON(filepath.Join(dir, "manifest.json"), &m)
	}
	var wrong *config.Error
	switch {
	case errors.Is(err, fs.ErrNotExist) && IsDeployed(dir):
		return c, m, fmt.Errorf("%s holds the model of a deployment; users' own embeddings are on their clients. Ask it by fedsim similar --run, by fedsim recommend --run with a user's ratings as --data, "+
			"or take it away by fedsim export. On a client ask its own result by fednode recommend --state", dir)
	case err != nil && !errors.As(err, &wrong):
		err = fmt.Errorf("%s is not the folder of a finished run: %w%s", dir, err, instead(dir))
	}
	return c, m, err
}

// ReadSettings reads the settings of a run, or of an experiment file. It names the version that made a run with keys that this program does
// not have. Data that have moved with a run are found in the folder ratings beside it, where Python keeps them.
func ReadSettings(path string) ([]config.Setting, error) {
	settings, err := config.ReadFile(path)
	dir, m := filepath.Dir(path), Manifest{}
	if err != nil || atomicfile.ReadJSON(filepath.Join(dir, "manifest.json"), &m) != nil {
		return settings, err
	}
	var gone []string
	for i, s := range settings {
		moved := filepath.Join(dir, "..", "ratings", filepath.Base(s.Value))
		switch {
		case config.Find(s.Key) == nil:
			gone = append(gone, fmt.Sprintf("%q", s.Key))
		case s.Key == algorithm.Data.Name && !exists(s.Value) && exists(moved):
			settings[i].Value = moved
		}
	}
	if len(gone) == 0 {
		return settings, nil
	}
	return nil, config.Errorf("%s: unknown key %s. fedsim %s (revision %s) made the run, and can open it if it has the key. Here fedsim export --run %s works, and summary.json can be read. "+
		"To train anew without the keys, take them out of a copy: fedsim run COPY.yaml", path, strings.Join(gone, ", "), m.Version, m.Revision, dir)
}

// instead names the folder of a run or model near a wrong folder; "" if there is none. The wrong
// folder may hold the run, lie in it, or be the state of a deployment's server.
func instead(dir string) string {
	candidates := []string{filepath.Dir(dir), filepath.Join(dir, "model")}
	below, err := filepath.Glob(filepath.Join(dir, "*", "config.yaml"))
	if err == nil && len(below) > 0 {
		candidates = append(candidates, filepath.Dir(below[0]))
	}
	for _, c := range candidates {
		if c != "." && (IsDeployed(c) || exists(filepath.Join(c, "config.yaml")) && exists(filepath.Join(c, "manifest.json"))) {
			return fmt.Sprintf("; %s is one", c)
		}
	}
	return ""
}

// Files are the model of a folder, as algorithms read it.
type Files struct {
	Dir       string
	Named     map[string]*model.Matrix // matrices in memory, in place of the folder's; nil if the folder has them
	Start     *float64                 // the mean that predictions begin at
	Ratings   *dataset.Rows
	Described *dataset.ItemFeatures
}

// FilesOf returns the model of the folder of a finished run, without ratings and features.
func FilesOf(dir string) (Files, error) {
	var summary struct {
		Mean *float64 `json:"mean"`
	}
	err := atomicfile.ReadJSON(filepath.Join(dir, "summary.json"), &summary)
	return Files{Dir: dir, Start: summary.Mean}, err
}

// Matrix reads a matrix of this size; cols below 0: of any number of columns.
func (f Files) Matrix(name string, rows, cols int) (*model.Matrix, error) {
	if f.Named == nil {
		return readNPY(filepath.Join(f.Dir, name+".npy"), rows, cols)
	}
	x, ok := f.Named[name]
	if !ok {
		return nil, fmt.Errorf("there is no %s", name)
	}
	if r, c := x.Dims(); r != rows || cols >= 0 && c != cols {
		return nil, fmt.Errorf("%s is %d x %d; by the experiment it must be %d x %d", name, r, c, rows, cols)
	}
	return x, nil
}

// Has reports whether there is a matrix of this name.
func (f Files) Has(name string) bool {
	return f.Named[name] != nil || f.Named == nil && exists(filepath.Join(f.Dir, name+".npy"))
}

// Mean returns the mean that predictions begin at, or nil.
func (f Files) Mean() *float64 { return f.Start }

// Train returns the ratings that the model was trained on.
func (f Files) Train() *dataset.Rows { return f.Ratings }

// Features returns what is said of the items, or nil.
func (f Files) Features() *dataset.ItemFeatures { return f.Described }

// Asked returns the value of a key as it was requested, before a rule chose it. Data, a file with the test, features
// and the start of a session are told by their digests, so that neither a path nor a name matters. It is "" for a
// default, and for the place of the results and the number of goroutines.
func (f *FinishedRun) Asked(k *config.Key) string {
	m := &f.Manifest
	switch {
	case slices.Contains(algorithm.Placing(), k):
		return ""
	case k == algorithm.Data.Key:
		return cmp.Or(m.DataDigest, m.Data)
	case k == algorithm.SplitTestFile.Key && !algorithm.SplitTestFile.Is(f.Config, ""):
		return cmp.Or(m.TestDigest, m.SplitDigest)
	case k == algorithm.StartFrom.Key:
		return cmp.Or(m.StartAlike, m.StartDigest)
	case k == algorithm.FeatureSpec.Key && f.Summary.Asked[k.Name] != "":
		return cmp.Or(m.FeaturesDigest, f.Summary.Asked[k.Name])
	case k.Scope == config.Own && k != algorithm.FeatureSpec.Key && !f.Config.IsDefault(k):
		return f.Config.Text(k) // of each machine, and not noted in the summary
	}
	return f.Summary.Asked[k.Name]
}

// Alike returns a text that two runs have in common if they are runs of one experiment, except in the keys over, such as the
// seed. Runs whose texts differ are never averaged, paired or drawn as one.
func (f *FinishedRun) Alike(over ...*config.Key) string {
	var id strings.Builder
	for _, k := range config.Keys() {
		if v := f.Asked(k); v != "" && !slices.Contains(over, k) {
			fmt.Fprintf(&id, "%s=%q\n", k.Name, v)
		}
	}
	return id.String()
}

// startAlike returns a digest that runs share if their starts are runs of one experiment, except for the
// seed; "" without a start, and if the start is not the folder of a finished run.
func startAlike(e *experiment.Experiment) string {
	if e.Start == nil {
		return ""
	}
	f, err := Read(algorithm.StartFrom.Of(e.Config))
	if err != nil {
		return ""
	}
	d := sha256.Sum256([]byte(f.Alike(algorithm.Seed.Key)))
	return hex.EncodeToString(d[:])
}

// testDigest returns a digest of the test ratings, if a file has them; otherwise "", since they follow from data and settings.
func testDigest(e *experiment.Experiment) string {
	if algorithm.SplitTestFile.Is(e.Config, "") {
		return ""
	}
	d := dataset.NewDigester()
	for u := range e.Test.Rows.Len() {
		items, values := e.Test.Rows.Row(u)
		d.Columns(dataset.Ratings{User: slices.Repeat([]int32{int32(u)}, len(items)), Item: items, Value: values})
	}
	return d.Sum()
}

// CatalogueFile names the file of a run's folder that describes the items of the run, so that the model
// can be asked about ratings that the run did not have.
const CatalogueFile = "catalogue.json"

const catalogueFormat = "fedsim/results/catalogue/v1"

// catalogue is the content of CatalogueFile. It holds no rating.
type catalogue struct {
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
func catalogueOf(e *experiment.Experiment) *catalogue {
	d, session := e.Data, e.Session()
	c := &catalogue{
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

// ReadCatalogue reads the catalogue of a run: the set without ratings, what is said of its items, and the session. The error for
// a run without one wraps fs.ErrNotExist.
func ReadCatalogue(dir string) (set *dataset.Set, f *dataset.ItemFeatures, session protocol.SessionID, err error) {
	path := filepath.Join(dir, CatalogueFile)
	var c catalogue
	if err = atomicfile.ReadJSON(path, &c); err != nil {
		return nil, nil, session, err
	}
	id, bad := hex.DecodeString(c.Session)
	switch {
	case c.Format != catalogueFormat:
		err = fmt.Errorf("%s: its format is %q; this version reads %q", path, c.Format, catalogueFormat)
	case bad != nil || len(id) != len(session):
		err = fmt.Errorf("%s: its session is %q; %d bytes in hex are needed", path, c.Session, len(session))
	}
	for _, n := range []int{len(c.Titles), len(c.Genres), len(c.Years)} {
		if err == nil && n != 0 && n != len(c.ItemIDs) {
			err = fmt.Errorf("%s: it describes %d items, and lists %d", path, n, len(c.ItemIDs))
		}
	}
	if err != nil {
		return nil, nil, session, err
	}
	copy(session[:], id)
	if f, err = dataset.StatedFeatures(c.Features, c.ItemIDs); err != nil {
		err = fmt.Errorf("%s: features: %w", path, err)
	}
	return &dataset.Set{
		Name: c.Name, Min: c.Min, Max: c.Max, Shift: c.Shift, Ratings: dataset.Ratings{Users: c.Users, Items: len(c.ItemIDs)},
		UserIDs: c.UserIDs, ItemIDs: c.ItemIDs, Titles: c.Titles, Genres: c.Genres, Years: c.Years,
	}, f, session, err
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
