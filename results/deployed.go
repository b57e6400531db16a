package results

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Files of a deployment's model, beside embeddings and summary.json.
const (
	PublicFile = "public.json" // what the parties of the session agreed on
	SharedFile = "shared.bin"  // the model as clients finish with it
)

// IsDeployed reports whether a folder holds a deployment's model and no simulated run.
func IsDeployed(dir string) bool {
	return !exists(filepath.Join(dir, "config.yaml")) && !exists(filepath.Join(dir, "manifest.json")) && exists(filepath.Join(dir, "item_embeddings.npy"))
}

// WriteDeployed leaves in a folder what Deployed needs beside the embeddings: what the
// parties agreed on, which may list ids and is for the owner of the folder alone, and the
// model as clients finish with it.
func WriteDeployed(dir string, public, shared []byte) error {
	var d drafts
	var err error
	for _, f := range []struct {
		name string
		text []byte
	}{{PublicFile, public}, {SharedFile, shared}} {
		if err == nil {
			err = d.add(filepath.Join(dir, f.name), 0o600, func(w io.Writer) error {
				_, failed := w.Write(f.text)
				return failed
			})
		}
	}
	return d.finish(err)
}

// Deployed is the model that a deployment's server left, which knows items and no user; or the
// result of a client, which knows its own.
type Deployed struct {
	Dir        string
	Experiment *experiment.Experiment // of the session
	// Data are ratings of the user, of whom the model need not have heard, or a folder with
	// titles where User is "". It may be "" then.
	Data, User string
}

// Open opens the model. With a user it fits to the user's ratings what the user's client would
// have fitted, and recommends what the user has not rated; without, it tells what is alike
// alone. Only users can be fitted, and no organisations. Nothing leaves the process.
func (d Deployed) Open(ctx context.Context) (*Recommender, error) {
	if d.User != "" {
		return d.fitted(ctx)
	}
	set := *d.Experiment.Data
	r := &Recommender{Config: d.Experiment.Config, Data: &set}
	all, err := ReadEmbeddings(d.Dir)
	if err != nil {
		return nil, err
	}
	for _, x := range all {
		if x.Name == "item_embeddings" {
			set.ItemIDs, set.Items = x.IDs, len(x.IDs)
			r.saved = &algorithm.Saved{Items: x.Matrix}
		}
	}
	if r.saved == nil {
		return nil, fmt.Errorf("%s: there are no item_embeddings with ids", d.Dir)
	}
	if d.Data == "" {
		return r, nil
	}
	return r, (&Own{Experiment: d.Experiment, Titles: d.Data}).title(ctx, &set, &dataset.Set{})
}

// fitted is the model with one user.
func (d Deployed) fitted(ctx context.Context) (*Recommender, error) {
	e := d.Experiment
	if e.About().Clients != algorithm.Users {
		return nil, fmt.Errorf("%w: it is that of %s, whose clients are %s; ask where the users are", ErrNotOwn, e.About().Name, e.About().Clients)
	}
	if d.Data == "" {
		return nil, fmt.Errorf("%w: the model of a deployment knows no user; say --data, with the user's ratings", ErrNotOwn)
	}
	shared, err := os.ReadFile(filepath.Join(d.Dir, SharedFile))
	if errors.Is(err, fs.ErrNotExist) && exists(filepath.Join(d.Dir, "user_embeddings.ids.json")) {
		return d.ofClient(ctx)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s has no %s, as those of versions before 0.2 have none", ErrNotOwn, d.Dir, SharedFile)
	}
	if err != nil {
		return nil, err
	}
	own, err := experiment.OpenOwn(ctx, e, d.Data, func(*dataset.FileError) {})
	if err != nil {
		return nil, err
	}
	o := Own{Dir: d.Dir, Experiment: e, Data: d.Data, User: d.User}
	rated, err := o.rated(own, e.Data.ItemIDs)
	if err != nil {
		return nil, err
	}
	if len(rated.Item) == 0 {
		return nil, fmt.Errorf("%w: %s has no rating by user %q of an item of the model", ErrNotThere, d.Data, d.User)
	}
	embeddings, err := d.fit(own, shared)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Dir, err)
	}
	set := *e.Data
	set.Ratings, set.UserIDs = *rated, []string{d.User}
	r := &Recommender{Config: e.Config, Data: &set, train: rated.ByUser()}
	if err = r.loadFrom(memory{named: embeddings, train: r.train, features: e.Features}); err != nil {
		return nil, err
	}
	return r, o.title(ctx, &set, own)
}

// ofClient is a client's own result, which has its user's embedding.
func (d Deployed) ofClient(ctx context.Context) (*Recommender, error) {
	var ids []string
	if err := readJSON(filepath.Join(d.Dir, "user_embeddings.ids.json"), &ids); err != nil {
		return nil, err
	}
	if !slices.Contains(ids, d.User) {
		return nil, fmt.Errorf("%w: user %q; %s is the result of another user's client", ErrNotThere, d.User, d.Dir)
	}
	return Own{Dir: d.Dir, Experiment: d.Experiment, Data: d.Data, User: d.User}.Open(ctx)
}

// fit is what the user's client would end the session with.
func (d Deployed) fit(own *dataset.Set, shared []byte) (map[string]*model.Matrix, error) {
	p, err := d.Experiment.Party(algorithm.PartyData{User: d.User}, own, func(*protocol.Plan) error { return errors.New("results: the session is over") })
	if err != nil {
		return nil, err
	}
	if err = p.Finish(shared, protocol.Workers(1)); err != nil {
		return nil, err
	}
	all, err := p.Shared()
	if err != nil {
		return nil, err
	}
	named := make(map[string]*model.Matrix)
	for _, x := range append(p.Result(), all...) {
		named[x.Name] = x.Matrix
	}
	return named, nil
}

// memory are matrices as if they were files.
type memory struct {
	named    map[string]*model.Matrix
	train    *dataset.Rows
	features *dataset.ItemFeatures
}

// Matrix implements algorithm.Files.
func (m memory) Matrix(name string, rows, cols int) (*model.Matrix, error) {
	x, ok := m.named[name]
	if !ok {
		return nil, fmt.Errorf("there is no %s", name)
	}
	if r, c := x.Dims(); r != rows || c != cols {
		return nil, fmt.Errorf("%s is %d x %d; by the experiment it must be %d x %d", name, r, c, rows, cols)
	}
	return x, nil
}

// Has implements algorithm.Files.
func (m memory) Has(name string) bool { return m.named[name] != nil }

// Mean implements algorithm.Files.
func (m memory) Mean() *float64 {
	if x := m.named["mean"]; x != nil {
		return &x.Data()[0]
	}
	return nil
}

// Train implements algorithm.Files.
func (m memory) Train() *dataset.Rows { return m.train }

// Features implements algorithm.Files.
func (m memory) Features() *dataset.ItemFeatures { return m.features }
