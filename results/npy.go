package results

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sbinet/npyio"
	"gonum.org/v1/gonum/mat"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/npy"
	"github.com/fedsim/fedsim/model"
)

// WriteEmbeddings writes embeddings to a folder as NAME.npy, row by row in float64, and the ids of
// their rows as NAME.ids.json. It replaces existing files, once both are written.
func WriteEmbeddings(dir string, x model.Embeddings) error {
	return atomicfile.WriteAll(npyFile(dir, x.Named), idsFile(dir, x.Name, x.IDs))
}

func idsFile(dir, matrix string, ids []string) atomicfile.File {
	return atomicfile.File{Path: filepath.Join(dir, matrix+".ids.json"), Mode: 0o600, Write: func(w io.Writer) error { return json.NewEncoder(w).Encode(ids) }}
}

// ReadEmbeddings reads the embeddings in a folder that have a file with the ids of their rows, in
// the order of their names. The folder is of a finished run, or of a deployment's party.
func ReadEmbeddings(dir string) ([]model.Embeddings, error) {
	files, err := fs.Glob(os.DirFS(dir), "*.npy")
	if err != nil {
		return nil, err
	}
	var all []model.Embeddings
	for _, file := range files {
		path, name := filepath.Join(dir, file), strings.TrimSuffix(file, ".npy")
		var ids []string
		err = atomicfile.ReadJSON(filepath.Join(dir, name+".ids.json"), &ids)
		if errors.Is(err, fs.ErrNotExist) {
			continue // rows that are neither users nor items, such as an encoder's
		}
		if err != nil {
			return nil, err
		}
		m, err := readNPY(path, len(ids), -1)
		if err != nil {
			return nil, err
		}
		all = append(all, model.NewEmbeddings(name, m, ids))
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no embeddings with ids: want the folder of a finished run, by version 0.2 or later", dir)
	}
	return all, nil
}

// npyFile is a matrix in NumPy's format, row by row in float64. Only the owner may read what follows from exact ratings.
func npyFile(dir string, x model.Named) atomicfile.File {
	mode := fs.FileMode(0o666)
	if x.Exact() {
		mode = 0o600
	}
	rows, cols := x.Matrix.Dims()
	return atomicfile.File{Path: filepath.Join(dir, x.Name+".npy"), Mode: mode, Write: func(w io.Writer) error {
		return npyio.Write(w, mat.NewDense(rows, cols, x.Matrix.Data()))
	}}
}

// readNPY reads a matrix of finite numbers of the given size; cols -1 accepts any number of columns.
func readNPY(path string, rows, cols int) (*model.Matrix, error) {
	a, err := npy.ReadMatrix(path)
	if err != nil {
		return nil, err
	}
	if cols < 0 {
		cols = a.Shape[1]
	}
	if is, want := fmt.Sprintf("%d x %d", a.Shape[0], a.Shape[1]), fmt.Sprintf("%d x %d", rows, cols); is != want {
		return nil, fmt.Errorf("%s: it is %s; by the run's data and rank it must be %s", path, is, want)
	}
	if i := dense.NotFinite(a.Float); i >= 0 {
		return nil, fmt.Errorf("%s: number %d is %v; the run diverged, or the file is damaged", path, i, a.Float[i])
	}
	return model.Wrap(rows, cols, a.Float), nil
}

// Files of a deployment's model, beside embeddings and summary.json.
const (
	PublicFile = "public.json" // the public settings that the parties of the session agreed on
	SharedFile = "shared.bin"  // the model from which clients compute their users
)

// IsDeployed reports whether a folder holds a deployment's model and no simulated run.
func IsDeployed(dir string) bool {
	if exists(filepath.Join(dir, "config.yaml")) || exists(filepath.Join(dir, "manifest.json")) {
		return false
	}
	return exists(filepath.Join(dir, PublicFile)) || exists(filepath.Join(dir, "item_embeddings.npy"))
}

// WriteDeployed writes the files that Deployed needs beside the embeddings. public holds the
// settings that the parties agreed on; it may list ids and is readable by the owner of the folder
// alone. shared is the model from which clients compute their users.
func WriteDeployed(dir string, public, shared []byte) error {
	file := func(name string, content []byte) atomicfile.File {
		return atomicfile.File{Path: filepath.Join(dir, name), Mode: 0o600, Write: atomicfile.Content(content)}
	}
	return atomicfile.WriteAll(file(PublicFile, public), file(SharedFile, shared))
}

// UsersOf returns the ids of the users whose embeddings a folder holds. The error for a folder without any wraps fs.ErrNotExist.
func UsersOf(dir string) (ids []string, err error) {
	err = atomicfile.ReadJSON(filepath.Join(dir, "user_embeddings.ids.json"), &ids)
	return ids, err
}

// csvFile writes a table into the folder. Only the owner may read it: it holds ids of users.
func (f *Folder) csvFile(name string, header []string, rows func(row func(...string) error) error) error {
	file, err := os.OpenFile(filepath.Join(f.temporary, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	w := csv.NewWriter(file)
	if err = w.Write(header); err == nil {
		err = rows(func(fields ...string) error { return w.Write(fields) })
	}
	w.Flush()
	if err = errors.Join(err, w.Error(), file.Close()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// part is a part of a split, with its name in split.csv.
type part struct {
	name string
	dataset.Ratings
}

// writeSplit writes split.csv: the part of each rating outside of training, in the order of the data. A rating in no part,
// for example with too few stars or later than the training ratings, is left-out.
func (f *Folder) writeSplit(e *experiment.Experiment) error {
	listed := []part{{"validation", e.Split.Validation}, {"test", e.Split.Test}}
	if h := e.Held; h != nil {
		listed[0].name, listed[1].name = "validation-target", "test-target"
		if !h.Seen { // else histories are the training ratings, which are not written
			listed = append(listed, part{"validation-history", h.Validation.History}, part{"test-history", h.Test.History})
		}
	}
	if e.Split.Train.Len()+e.Split.Validation.Len()+e.Split.Test.Len() < e.Data.Len() {
		listed = slices.Concat([]part{{"left-out", e.Data.Ratings}}, listed, []part{{"", e.Split.Train}})
	}
	rows := lists.Map(listed, func(p part) *dataset.Rows { return p.ByUser() })
	return f.csvFile("split.csv", []string{"user", "item", "part"}, func(row func(...string) error) error {
		var rated []int // by the user: each item times the number of parts, and its part
		var line [3]string
		for u := range e.Data.Users {
			rated = rated[:0]
			for i, r := range rows {
				r.Lend(u, func(items []int32, _ []float32) {
					for _, j := range items {
						rated = append(rated, int(j)*len(rows)+i)
					}
				})
			}
			slices.Sort(rated)
			for k, x := range rated {
				j, name := x/len(rows), listed[x%len(rows)].name
				if name == "" || k+1 < len(rated) && rated[k+1]/len(rows) == j { // the last part that has the item counts
					continue
				}
				line = [3]string{e.Data.UserIDs[u], e.Data.ItemIDs[j], name}
				if err := row(line[:]...); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// WritePredictions writes predictions.csv: the model's predictions of the test part, in stars on
// the scale. With implicit feedback they are the scores of the targets, in a unit of the algorithm.
func (f *Folder) WritePredictions(e *experiment.Experiment, m *model.Trained) error {
	shift := e.Data.Shift
	if e.Held != nil {
		shift = 0 // scores
	}
	return f.csvFile("predictions.csv", []string{"user", "item", "rating", "predicted"}, func(row func(...string) error) error {
		return e.Test.EachPrediction(m, func(user int, item int32, value float32, predicted float64) error {
			return row(e.Data.UserIDs[user], e.Data.ItemIDs[item],
				strconv.FormatFloat(float64(value)-shift, 'f', -1, 32), strconv.FormatFloat(predicted-shift, 'f', -1, 64))
		})
	})
}
