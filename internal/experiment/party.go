package experiment

import (
	"context"
	"fmt"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Party is one client's side of an experiment, made from that client's own ratings: a
// client.Trainer. It trains on the training part of them, the same as in a simulation,
// and contributes to plans that check finds right, and to no others.
type Party struct {
	// Ratings is on how many the party trains, Skipped how many it leaves out because
	// the experiment does not list their item or, with VFL, their user. They are left
	// out, and the party takes part all the same, since who takes part must not depend
	// on ratings. Both are for the party itself to see.
	Ratings, Skipped int
	// Unlisted counts the skipped ratings whose user is not listed: on the party's own list
	// (HFL), or on the list of the experiment (VFL).
	Unlisted int

	experiment *Experiment
	check      func(*protocol.Plan) error
	party      *algorithm.Party
	final      []byte // the shared model that it finished with
	finished   bool
}

// Party makes the trainer of one party from the data that it has, on the
// experiment's rating scale. Items, and with VFL users, are known by their ids. check says
// what of a plan is not as the experiment has it. The error of data that do not hold what
// is said wraps [algorithm.ErrPartyData].
func (e *Experiment) Party(which algorithm.PartyData, set *dataset.Set, check func(*protocol.Plan) error) (*Party, error) {
	l, err := e.localData(which, set)
	if err != nil {
		return nil, fmt.Errorf("experiment: %s: %w", set.Name, err)
	}
	p, err := e.instance.Party(which, l)
	if err != nil {
		return nil, fmt.Errorf("experiment: %s: %w", set.Name, err)
	}
	return &Party{Ratings: p.Ratings, Skipped: l.Skipped, Unlisted: l.Unlisted, experiment: e, check: check, party: p}, nil
}

// Contribute implements client.Trainer. To a plan that check refuses it contributes nothing.
func (p *Party) Contribute(plan *protocol.Plan, src entropy.Source, run protocol.Runner) ([]protocol.Vector, error) {
	if err := p.check(plan); err != nil {
		return nil, err
	}
	return p.party.Trainer.Contribute(plan, src, run)
}

// Save implements client.Durable. It is nil where the party has nothing that a restart
// would lose: what LFL and HFL fit to their own ratings is fitted again, at no cost.
func (p *Party) Save() ([]byte, error) {
	if d, ok := p.party.Trainer.(client.Durable); ok {
		return d.Save()
	}
	return nil, nil
}

// Restore gives the trainer a state that Save returned. It returns an error for a trainer without states.
func (p *Party) Restore(state []byte, src entropy.Source) error {
	if d, ok := p.party.Trainer.(client.Durable); ok {
		return d.Restore(state, src)
	}
	return fmt.Errorf("experiment: a state of %d bytes; a party of %s has none", len(state), p.experiment.About().Name)
}

// Finish ends the training with the final model.
func (p *Party) Finish(shared []byte, run protocol.Runner) error {
	err := p.party.Trainer.Finish(shared, run)
	if err == nil {
		p.final, p.finished = shared, true
	}
	return err
}

// Shared returns the part of the final model that every party has; nil before Finish.
func (p *Party) Shared() ([]model.Embeddings, error) {
	if !p.finished {
		return nil, nil
	}
	return p.experiment.instance.Shared(p.final)
}

// Result returns the part of the model that the party alone ends with; nil before Finish.
func (p *Party) Result() []model.Embeddings {
	if !p.finished {
		return nil
	}
	return p.party.Result()
}

// LargestRecord is a made-up user who has rated every item of the catalogue, from one end of
// the scale to the other: no user's training takes longer. It is nil where clients are
// organisations, whose records the experiment does not bound.
func (e *Experiment) LargestRecord() (*dataset.Set, error) {
	if e.About().Clients != algorithm.Users {
		return nil, nil
	}
	in, list := inputOf(e.Config), make([]read.Rating, len(e.Data.ItemIDs))
	low := e.Data.Min
	if in.ranks {
		low = e.Data.Max // what is not liked does not count
	}
	for n := 0; ; n++ { // until one user is not held out for tests, as at most half of all users are
		for i, item := range e.Data.ItemIDs {
			list[i] = read.Rating{User: fmt.Sprintf("made up %d", n), Item: item, Time: float64(i), Value: []float64{low, e.Data.Max}[i%2]}
		}
		set, err := read.FromRatings("made-up ratings", list, read.Options{Min: &e.Data.Min, Max: &e.Data.Max, Times: in.read.Times})
		if err != nil {
			return nil, err
		}
		train, err := in.training(set)
		if err != nil || train.Len() > 0 || n == 100 {
			return set, err
		}
	}
}

// LargestParty makes the trainer of [Experiment.LargestRecord] to be timed: it takes part in every batch, whatever its coins. An error
// says that there is no such record.
func (e *Experiment) LargestParty(check func(*protocol.Plan) error) (*Party, error) {
	set, err := e.LargestRecord()
	if err != nil {
		return nil, err
	}
	if set == nil {
		return nil, fmt.Errorf("experiment: the records of %s have no bound, since clients are organisations", e.About().Name)
	}
	return e.Party(algorithm.PartyData{Timed: true}, set, check)
}

// Clipped counts the party's vectors and those clipped; zero if the algorithm does not count them.
func (p *Party) Clipped() algorithm.Clipped {
	if p.party.Clipped == nil {
		return algorithm.Clipped{}
	}
	return p.party.Clipped()
}

// localData are the training ratings of a party's data, in terms of the catalogue.
func (e *Experiment) localData(which algorithm.PartyData, set *dataset.Set) (*algorithm.LocalData, error) {
	if set.Min != e.Data.Min || set.Max != e.Data.Max {
		return nil, fmt.Errorf("%w: their scale is %v to %v, the experiment's is %v to %v", algorithm.ErrPartyData, set.Min, set.Max, e.Data.Min, e.Data.Max)
	}
	train, err := inputOf(e.Config).training(set)
	if err != nil {
		return nil, err
	}
	if err = e.checkValues(set, train); err != nil {
		return nil, err
	}
	l := &algorithm.LocalData{Set: set, Rows: train.ByUser(), Items: places(set.ItemIDs, e.Data.ItemIDs)}
	if e.About().Clients == algorithm.ItemParties {
		l.Users = places(named(set.UserIDs, which.Names), e.Data.UserIDs)
	}
	return l, nil
}

// checkValues refuses ratings outside of the scale of the experiment.
func (e *Experiment) checkValues(set *dataset.Set, train dataset.Ratings) error {
	low := min(0, e.Bottom()) // what is below the scale and not below 0 exceeds no bound
	for k, v := range train.Value {
		if !(float64(v) >= low && float64(v) <= e.Top()) {
			return fmt.Errorf("%w: user %q rates item %q with %v, outside of the scale of %v to %v",
				algorithm.ErrPartyData, set.UserIDs[train.User[k]], set.ItemIDs[train.Item[k]], v, low, e.Top())
		}
	}
	return nil
}

// named returns the experiment's names of users, "" for users without a name.
func named(ids []string, names map[string]string) []string {
	if names == nil {
		return ids
	}
	return lists.Map(ids, func(id string) string { return names[id] })
}

// places returns the index of each id in a list, -1 for ids that are not on it.
func places(ids, list []string) []int32 {
	place := dataset.Places(list)
	return lists.Map(ids, func(id string) int32 {
		if n, ok := place[id]; ok {
			return n
		}
		return -1
	})
}

// OpenOwn opens a party's own ratings on the scale of the experiment. skipped hears of each
// record that cannot be used. The party does without such records: taking part must not tell
// anything about its ratings. OpenOwn refuses only what has nothing to do with ratings: a file that cannot be read or has
// no known format. See [read.Options].
func OpenOwn(ctx context.Context, e *Experiment, data string, skipped func(*dataset.FileError)) (*dataset.Set, error) {
	in := inputOf(e.Config)
	in.read.Skipped = skipped
	set, err := in.open(ctx, data)
	if err == nil {
		err = in.check(set) // what a file has for columns is no secret
	}
	if err == nil && set.Min == set.Max { // nothing in it says the scale
		set.Min, set.Max = e.Data.Min, e.Data.Max
	}
	return set, err
}

// Fitter fits users to a finished model, as each user's client does at the end of a session. Nothing
// leaves the process. It is safe for concurrent use.
type Fitter struct {
	experiment *Experiment
	shared     []byte
	input      input   // of the experiment, with nothing held out
	items      []int32 // of the catalogue, in its order
}

// Fitter returns the fitter to a shared model of the experiment, and the matrices of that model. Clients must be users.
func (e *Experiment) Fitter(shared []byte) (*Fitter, []model.Embeddings, error) {
	if e.About().Clients != algorithm.Users {
		return nil, nil, fmt.Errorf("experiment: clients of %s are %s, and no user has a client to be fitted by", e.About().Name, e.About().Clients)
	}
	all, err := e.instance.Shared(shared)
	if err != nil {
		return nil, nil, err
	}
	f := &Fitter{experiment: e, shared: shared, input: inputOf(e.Config), items: model.Indices(len(e.Data.ItemIDs))}
	p := f.input.split
	f.input.split = split.Params{Whole: true, Seed: p.Seed, Users: p.Users, Exact: p.Exact}
	return f, all, nil
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

// OpenOther opens ratings of any users, public ones too, on a run's scale, from low to high in the unit of its data.
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
