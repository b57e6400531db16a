package experiment

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/fedssp"
	"github.com/fedsim/fedsim/model"
)

// Recommender is the model that a finished run left in its folder, with the data it was
// trained on. It is read-only and safe for concurrent use.
type Recommender struct {
	Config Config
	Data   *dataset.Set

	train        *dataset.Rows
	users, items *model.Matrix

	// Of a model with biases, one number in each row; nil of another.
	userBias, itemBias *model.Matrix
	mean               float64
	logistic           *fedssp.Model // of a model whose predictions are logits; nil of another

	// Where parties tuned the items for themselves (HFL): who predicts for a user, and
	// by what.
	party      []int
	partyItems []*model.Matrix
}

// ErrOtherData is wrapped by the error for data that are not those of the run.
var ErrOtherData = errors.New("not the data of this run")

// OpenRun opens the folder of a finished run. The data are read again from where the
// configuration says, or from data where that is not empty, because they have moved
// since; their digest and that of the split must be those of the manifest, else the error
// wraps ErrOtherData. progress, which may be nil, hears how much of the data is read.
func OpenRun(ctx context.Context, dir, data string, progress func(done, total int64)) (*Recommender, error) {
	c, m, err := readRun(dir)
	if err != nil {
		return nil, err
	}
	if data == "" {
		data = c.Data
	}
	set, err := c.openData(ctx, data, progress)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, dataset.ErrNotDownloaded) {
		return nil, fmt.Errorf("the data of the run are not there: %w; where they have moved, say --data", err)
	}
	if err != nil {
		return nil, err
	}
	if set.Digest != m.DataDigest {
		return nil, fmt.Errorf("%w: the run was made on %s with digest %s, and %s has %s", ErrOtherData, m.Data, m.DataDigest, data, set.Digest)
	}
	split, held, err := c.split(set)
	if err != nil {
		return nil, err
	}
	if split.Digest != m.SplitDigest {
		return nil, fmt.Errorf("%w: of %s the run has a split with digest %s, and %s with its settings gives %s",
			ErrOtherData, m.Data, m.SplitDigest, Version(), split.Digest)
	}
	r := &Recommender{Config: c, Data: set, train: split.Train.ByUser()}
	if held != nil {
		r.train = known(held).ByUser()
	}
	if err = r.load(dir); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return r, nil
}

// known are the ratings that embeddings were made from: those of training and the
// histories of who was held out.
func known(h *dataset.HoldOut) dataset.Ratings {
	all := dataset.Ratings{Users: h.Train.Users, Items: h.Train.Items}
	for _, part := range []dataset.Ratings{h.Train, h.Validation.History, h.Test.History} {
		all.User, all.Item, all.Value = append(all.User, part.User...), append(all.Item, part.Item...), append(all.Value, part.Value...)
	}
	return all
}

// readRun reads what a run was made of.
func readRun(dir string) (c Config, m Manifest, err error) {
	settings, err := ReadFile(filepath.Join(dir, "config.yaml"))
	if err != nil {
		return c, m, fmt.Errorf("%s is not the folder of a finished run: %w", dir, err)
	}
	if c, err = Resolve(settings); err != nil {
		return c, m, err
	}
	if err = readJSON(filepath.Join(dir, "manifest.json"), &m); err != nil {
		return c, m, fmt.Errorf("%s is not the folder of a finished run: %w", dir, err)
	}
	return c, m, nil
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

// load reads the model, and checks that it fits the data.
func (r *Recommender) load(dir string) error {
	rank, err := r.width()
	if err != nil {
		return err
	}
	read := func(name string, rows, cols int) *model.Matrix {
		m, readErr := readNPY(filepath.Join(dir, name+".npy"), rows, cols)
		err = errors.Join(err, readErr)
		return m
	}
	sums := r.Config.Algorithm.statistical()
	biased := sums && r.Config.biases(r.Config.Statistics)
	bias := func(name string, rows int) *model.Matrix {
		if !biased && !exists(filepath.Join(dir, name+".npy")) {
			return nil
		}
		return read(name, rows, 1)
	}
	r.items, r.users = read("item_embeddings", r.Data.Items, rank), read("user_embeddings", r.Data.Users, rank)
	r.itemBias, r.userBias = bias("item_bias", r.Data.Items), bias("user_bias", r.Data.Users)
	if err != nil {
		return err
	}
	var summary struct {
		Mean *float64 `json:"mean"`
	}
	if err = readJSON(filepath.Join(dir, "summary.json"), &summary); err != nil {
		return err
	}
	switch {
	case summary.Mean != nil:
		r.mean = *summary.Mean
	case sums:
		return errors.New("summary.json: there is no mean, which predictions of this model are on top of")
	}
	if c := r.Config; c.solver() == fedssp.Convex && c.Statistics.Loss == string(fedssp.Logistic) {
		return r.loadLogistic()
	}
	if !r.Config.Algorithm.horizontal() {
		return nil
	}
	parts, err := r.Data.PartitionUsers(r.Config.parties(), r.Config.Seed)
	if err != nil {
		return err
	}
	r.party = make([]int, r.Data.Users)
	for k, users := range parts {
		r.partyItems = append(r.partyItems, read(partyItemsName(k), r.Data.Items, rank))
		for _, u := range users {
			r.party[u] = k
		}
	}
	return err
}

// width is the length of the run's embeddings.
func (r *Recommender) width() (int, error) {
	c := r.Config
	if !c.canTaste() {
		return c.rank(), nil
	}
	f, _, err := c.featuresOf(r.Data)
	if err != nil {
		return 0, err
	}
	return c.rank() + c.tastes(f).Width(), nil
}

// loadLogistic puts a model together that predicts by logits.
func (r *Recommender) loadLogistic() error {
	m := &fedssp.Model{Mean: r.mean, Items: r.items.Data()}
	if r.itemBias != nil {
		m.Bias = r.itemBias.Data()
	}
	var err error
	r.logistic, err = fedssp.DecodeModel(m.Encode(), &fedssp.Params{
		Items: r.Data.Items, Rank: r.Rank(), Min: r.Data.Min, Max: r.Data.Max, Solver: fedssp.Convex, Loss: fedssp.Logistic,
	})
	return err
}

// npyHeader is the description in a file that writeNPY wrote.
var npyHeader = regexp.MustCompile(`^\{'descr': '<f8', 'fortran_order': False, 'shape': \((\d{1,9}), (\d{1,9})\), \}\s*$`)

// readNPY reads a matrix of finite numbers, whose size must be the one given. It reads
// what writeNPY writes and nothing else: npyio's reader takes a short file for zeros, and
// panics at a damaged header.
func readNPY(path string, rows, cols int) (*model.Matrix, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	header, numbers, ok := cutNPY(b)
	shape := npyHeader.FindSubmatch(header)
	if !ok || shape == nil {
		return nil, fmt.Errorf("%s: it is not a matrix of float64 in NumPy's format, as a run leaves it", path)
	}
	if is, want := fmt.Sprintf("%s x %s", shape[1], shape[2]), fmt.Sprintf("%d x %d", rows, cols); is != want {
		return nil, fmt.Errorf("%s: it is %s; by the run's data and rank it must be %s", path, is, want)
	}
	m := model.NewMatrix(rows, cols)
	data := m.Data()
	if len(numbers) != 8*len(data) {
		return nil, fmt.Errorf("%s: %d bytes follow its header; for %d x %d numbers there must be %d", path, len(numbers), rows, cols, 8*len(data))
	}
	for i := range data {
		data[i] = math.Float64frombits(binary.LittleEndian.Uint64(numbers[8*i:]))
		if math.IsNaN(data[i]) || math.IsInf(data[i], 0) {
			return nil, fmt.Errorf("%s: number %d is %v; the run diverged, or the file is damaged", path, i, data[i])
		}
	}
	return m, nil
}

// cutNPY cuts a file of version 1 or 2 into its description and its numbers.
func cutNPY(b []byte) (header, numbers []byte, ok bool) {
	b, ok = bytes.CutPrefix(b, []byte("\x93NUMPY"))
	if !ok || len(b) < 6 {
		return nil, nil, false
	}
	size, rest := int64(binary.LittleEndian.Uint16(b[2:])), b[4:]
	if b[0] != 1 {
		size, rest = int64(binary.LittleEndian.Uint32(b[2:])), b[6:]
	}
	if size > int64(len(rest)) {
		return nil, nil, false
	}
	return rest[:size], rest[size:], true
}
