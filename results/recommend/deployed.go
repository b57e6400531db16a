package recommend

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/results"
)

// Deployed is the model of a deployment's server, which knows items and no user, or the result of a
// client, which knows its own user.
type Deployed struct {
	Dir        string
	Experiment *experiment.Experiment // of the session
	// Data names ratings of User, a user that the model need not know. If User is "", Data names a
	// folder with titles, and may be "".
	Data, User string
	// Titles is a folder with titles of items, for OpenAll; "": those in Data, if any.
	Titles string
}

// Open opens the model. With a user it fits the user's embedding to the user's ratings, as the
// user's client would have, and recommends items that the user has not rated. Without a user it
// answers only which items are similar. Only users can be fitted, not organisations. Nothing leaves
// the process.
func (d Deployed) Open(ctx context.Context) (*Recommender, error) {
	if d.User != "" {
		return d.fitted(ctx)
	}
	set := *d.Experiment.Data
	r := &Recommender{Config: d.Experiment.Config, Data: &set}
	all, err := results.ReadEmbeddings(d.Dir)
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

// fitted returns the model with one user.
func (d Deployed) fitted(ctx context.Context) (*Recommender, error) {
	e := d.Experiment
	if e.About().Clients != algorithm.Users {
		return nil, fmt.Errorf("%w: its algorithm is %s, whose clients are %s; ask on the clients, which hold the users", ErrNotOwn, e.About().Name, e.About().Clients)
	}
	if d.Data == "" {
		return nil, fmt.Errorf("%w: the model of a deployment knows no user; say --data, with the user's ratings", ErrNotOwn)
	}
	shared, err := os.ReadFile(filepath.Join(d.Dir, results.SharedFile))
	if errors.Is(err, fs.ErrNotExist) {
		if _, failed := results.UsersOf(d.Dir); !errors.Is(failed, fs.ErrNotExist) {
			return d.ofClient(ctx, failed)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s has no %s; versions before 0.2 wrote none", ErrNotOwn, d.Dir, results.SharedFile)
	}
	if err != nil {
		return nil, err
	}
	own, err := experiment.OpenOwn(ctx, e, d.Data, func(*dataset.FileError) {})
	if err != nil {
		return nil, err
	}
	r, err := newRelease(e, e.Data, shared)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Dir, err)
	}
	var rated dataset.Ratings
	if u := slices.Index(own.UserIDs, d.User); u >= 0 {
		rated, _ = r.mapped(own, own.ByUser(), u)
	}
	if rated.Len() == 0 {
		return nil, fmt.Errorf("%w: %s has no rating by user %q of an item of the model", ErrNotThere, d.Data, d.User)
	}
	one, err := r.fitted(d.User, rated)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Dir, err)
	}
	return one, (&Own{Experiment: e, Data: d.Data}).title(ctx, one.Data, own)
}

// ofClient returns a client's own result, which has its user's embedding.
func (d Deployed) ofClient(ctx context.Context, err error) (*Recommender, error) {
	if err != nil {
		return nil, err
	}
	return Own{Dir: d.Dir, Experiment: d.Experiment, Data: d.Data, User: d.User}.Open(ctx)
}

// memory serves matrices as if they were files.
type memory struct {
	named    map[string]*model.Matrix
	train    *dataset.Rows
	features *dataset.ItemFeatures
}

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

func (m memory) Has(name string) bool { return m.named[name] != nil }

func (m memory) Mean() *float64 {
	if x := m.named["mean"]; x != nil {
		return &x.Data()[0]
	}
	return nil
}

func (m memory) Train() *dataset.Rows { return m.train }

func (m memory) Features() *dataset.ItemFeatures { return m.features }
