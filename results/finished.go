package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/model"
)

// ErrOtherData is wrapped by the error for data other than the run's data.
var ErrOtherData = errors.New("not the data of this run")

// SameData checks that an experiment uses the data of a finished run; otherwise the error wraps
// ErrOtherData.
func SameData(dir string, e *experiment.Experiment) error {
	var m Manifest
	if err := readJSON(filepath.Join(dir, "manifest.json"), &m); err != nil {
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
	return &f, readJSON(filepath.Join(dir, "summary.json"), &f.Summary)
}

// ReadConfig reads the configuration and the manifest of a run.
func ReadConfig(dir string) (c config.Config, m Manifest, err error) {
	settings, err := config.ReadFile(filepath.Join(dir, "config.yaml"))
	if errors.Is(err, fs.ErrNotExist) && IsDeployed(dir) {
		return c, m, fmt.Errorf("%s holds the model of a deployment; users' own embeddings are on their clients. Ask it by fedsim similar --run, by fedsim recommend --run with a user's ratings as --data, "+
			"or take it away by fedsim export. On a client ask its own result by fednode recommend --state", dir)
	}
	if err != nil {
		return c, m, fmt.Errorf("%s is not the folder of a finished run: %w%s", dir, err, instead(dir))
	}
	if c, err = config.Resolve(settings); err != nil {
		return c, m, err
	}
	if err = readJSON(filepath.Join(dir, "manifest.json"), &m); err != nil {
		return c, m, fmt.Errorf("%s is not the folder of a finished run: %w", dir, err)
	}
	return c, m, nil
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

func readJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err = json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
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
	err := readJSON(filepath.Join(dir, "summary.json"), &summary)
	return Files{Dir: dir, Start: summary.Mean}, err
}

// Matrix reads a matrix of this size.
func (f Files) Matrix(name string, rows, cols int) (*model.Matrix, error) {
	if f.Named == nil {
		return readNPY(filepath.Join(f.Dir, name+".npy"), rows, cols)
	}
	x, ok := f.Named[name]
	if !ok {
		return nil, fmt.Errorf("there is no %s", name)
	}
	if r, c := x.Dims(); r != rows || c != cols {
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
