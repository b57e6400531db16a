package experiment

import (
	"context"
	"fmt"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Fitter fits users to a finished model, as each user's client does at the end of a session. Nothing
// leaves the process. It is safe for concurrent use.
type Fitter struct {
	experiment *Experiment
	shared     []byte
	input      input   // of the experiment, with nothing held out
	items      []int32 // of the catalogue, in its order
}

// Fitter returns the fitter to a shared model of the experiment. Clients must be users.
func (e *Experiment) Fitter(shared []byte) (*Fitter, error) {
	if e.About().Clients != algorithm.Users {
		return nil, fmt.Errorf("experiment: clients of %s are %s, and no user has a client to be fitted by", e.About().Name, e.About().Clients)
	}
	if _, err := e.instance.Shared(shared); err != nil {
		return nil, err
	}
	f := &Fitter{experiment: e, shared: shared, input: inputOf(e.Config), items: make([]int32, len(e.Data.ItemIDs))}
	p := f.input.split
	f.input.split = split.Params{Whole: true, Seed: p.Seed, Users: p.Users, Exact: p.Exact}
	for j := range f.items {
		f.items[j] = int32(j)
	}
	return f, nil
}

// Fit fits one user to the user's ratings of items of the catalogue. There may be
// none. It returns the user's own matrices, of one row each.
func (f *Fitter) Fit(user string, own dataset.Ratings) ([]model.Embeddings, error) {
	e := f.experiment
	set := &dataset.Set{
		Name: "ratings of " + user, Min: e.Data.Min, Max: e.Data.Max, Shift: e.Data.Shift,
		Ratings: own, UserIDs: []string{user}, ItemIDs: e.Data.ItemIDs,
	}
	train, err := f.input.training(set)
	if err != nil {
		return nil, err
	}
	if err = e.checkValues(set, train); err != nil {
		return nil, err
	}
	p, err := e.instance.Party(algorithm.PartyData{User: user}, &algorithm.LocalData{Set: set, Rows: train.ByUser(), Items: f.items})
	if err != nil {
		return nil, err
	}
	if err = p.Trainer.Finish(f.shared, protocol.Workers(1)); err != nil {
		return nil, err
	}
	return p.Result(), nil
}

// Shared returns the matrices of the shared model.
func (f *Fitter) Shared() ([]model.Embeddings, error) { return f.experiment.instance.Shared(f.shared) }

// OpenOther opens ratings of any users on the scale of a finished run, from low to high in the unit of its
// data. It takes no public users out.
func OpenOther(ctx context.Context, c config.Config, data string, low, high float64, progress func(done, total int64)) (*dataset.Set, error) {
	in := inputOf(c)
	in.read.Min, in.read.Max, in.read.Test, in.read.Progress, in.public = &low, &high, "", progress, publicUsers{}
	set, err := in.open(ctx, data)
	if err == nil {
		err = in.check(set)
	}
	if err != nil {
		return nil, err
	}
	return in.prepare(set)
}
