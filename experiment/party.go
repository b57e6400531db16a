package experiment

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// Holding says which of the ratings at hand are the party's.
type Holding struct {
	// User is the id of the user whose device it is (LFL); "" where the data at hand
	// are of one user.
	User string
	// Part is the number, from 1 to parties, of the part that the experiment's
	// partition deals to the organisation, as a simulation does: of the catalogue (VFL),
	// or of the users at hand, which must be all (HFL). 0: it owns what is at hand, all
	// items that are listed or all users. Nothing can be checked of what others own: an
	// item or a user that two parties bring is protected by each of them alone.
	Part int
}

// Party is one client's side of an experiment, made from that client's own ratings: a
// client.Trainer. It trains on the training part of them, the same as in a simulation,
// and contributes to plans that are as the experiment has them, and to no others.
type Party struct {
	// Ratings is on how many the party trains, Skipped how many it leaves out because
	// the experiment does not list their item or, with VFL, their user. They are left
	// out, and the party takes part all the same, since who takes part must not depend
	// on ratings. Both are for the owner's eyes.
	Ratings, Skipped int

	experiment *Experiment
	trainer    client.Trainer
	finished   bool
	result     func() []model.Embeddings
}

// Shared is what is in a model as the server of a deployment has it: the embeddings of all
// items, or with VFL of all users, and of models with biases those of items and what they
// are on top of. It is what the statement of privacy is about.
func (e *Experiment) Shared(encoded []byte) ([]model.Embeddings, error) {
	if e.Config.Algorithm.statistical() {
		return e.sharedModel(encoded)
	}
	name, ids := "item_embeddings", e.Data.ItemIDs
	if e.Config.Algorithm.vertical() {
		name, ids = "user_embeddings", e.Data.UserIDs
	}
	b, err := model.NewBroadcast(encoded, len(ids), e.Params.Rank)
	if err != nil {
		return nil, err
	}
	return []model.Embeddings{model.NewEmbeddings(name, b.Matrix(), ids)}, nil
}

// WriteEmbeddings leaves embeddings in a folder as NAME.npy, row by row in float64, and the ids
// of their rows as NAME.ids.json. Files that are there are replaced.
func WriteEmbeddings(dir string, x model.Embeddings) error {
	ids, err := json.Marshal(x.IDs)
	if err != nil {
		return err
	}
	return errors.Join(writeNPY(filepath.Join(dir, x.Name+".npy"), x.Matrix),
		os.WriteFile(filepath.Join(dir, x.Name+".ids.json"), append(ids, '\n'), 0o600))
}

// ErrHolding is wrapped by the error for data at hand that do not hold what a party is
// said to own.
var ErrHolding = errors.New("these are not the party's data")

// OpenData opens a party's own data, on the rating scale of the experiment.
func (e *Experiment) OpenData(ctx context.Context, data string, progress func(done, total int64)) (*dataset.Set, error) {
	return e.Config.openData(ctx, data, progress)
}

// Party makes the trainer of one party from the data that it has at hand, on the
// experiment's rating scale. Items, and with VFL users, are known by their ids. The
// error of data that do not hold what is said wraps ErrHolding.
func (e *Experiment) Party(which Holding, set *dataset.Set) (*Party, error) {
	if !e.Config.Algorithm.Federated() {
		return nil, errCentral
	}
	h, err := e.atHand(set)
	if err != nil {
		return nil, fmt.Errorf("experiment: %s: %w", set.Name, err)
	}
	p, err := e.Config.Algorithm.form().party(e, which, h)
	if err != nil {
		return nil, fmt.Errorf("experiment: %s: %w", set.Name, err)
	}
	p.experiment, p.Skipped = e, h.skipped
	return p, nil
}

// Contribute implements client.Trainer. To a plan other than the experiment's it
// contributes nothing.
func (p *Party) Contribute(plan *protocol.Plan, src entropy.Source, run protocol.Runner) ([]protocol.Vector, error) {
	if err := p.experiment.CheckPlan(plan); err != nil {
		return nil, err
	}
	return p.trainer.Contribute(plan, src, run)
}

// Save implements client.Durable. It is nil where the party has nothing that a restart
// would lose: what LFL and HFL fit to their own ratings is fitted again, at no cost.
func (p *Party) Save() ([]byte, error) {
	if d, ok := p.trainer.(client.Durable); ok {
		return d.Save()
	}
	return nil, nil
}

// Restore implements client.Durable.
func (p *Party) Restore(state []byte, src entropy.Source) error {
	if d, ok := p.trainer.(client.Durable); ok {
		return d.Restore(state, src)
	}
	return fmt.Errorf("experiment: a state of %d bytes; a party of %s has none", len(state), p.experiment.Config.Algorithm)
}

// Finish implements client.Trainer.
func (p *Party) Finish(encoded []byte, run protocol.Runner) error {
	err := p.trainer.Finish(encoded, run)
	p.finished = p.finished || err == nil
	return err
}

// Result is what the party alone ends with; nil before it finished. The embedding of
// the user (LFL) and all that HFL tunes are private and stay with it. The embeddings of
// its own items (VFL) it may publish.
func (p *Party) Result() []model.Embeddings {
	if !p.finished {
		return nil
	}
	return p.result()
}

// atHand are the training ratings of a party's data, in terms of the catalogue.
type atHand struct {
	set     *dataset.Set
	rows    *dataset.Rows
	items   []int32 // index in the catalogue of each of the set's items; -1 if it is not listed
	skipped int
}

func (e *Experiment) atHand(set *dataset.Set) (*atHand, error) {
	if set.Min != e.Data.Min || set.Max != e.Data.Max {
		return nil, fmt.Errorf("%w: their scale is %v to %v, that of the experiment %v to %v", ErrHolding, set.Min, set.Max, e.Data.Min, e.Data.Max)
	}
	var train dataset.Ratings
	var err error
	if c := e.Config; c.ranks() {
		train, err = set.HoldOutTraining(c.holdOutParams(set.Max))
	} else {
		train, err = set.Training(c.splitParams())
	}
	if err != nil {
		return nil, err
	}
	for k, v := range train.Value {
		if !(v >= 0 && float64(v) <= e.Params.MaxRating) {
			return nil, fmt.Errorf("%w: user %q rates item %q with %v, outside of the scale of 0 to %v",
				ErrHolding, set.UserIDs[train.User[k]], set.ItemIDs[train.Item[k]], v, e.Params.MaxRating)
		}
	}
	return &atHand{set: set, rows: train.ByUser(), items: indices(set.ItemIDs, e.Data.ItemIDs)}, nil
}

// indices are the places of ids in a list, -1 for those that are not on it.
func indices(ids, list []string) []int32 {
	place := make(map[string]int32, len(list))
	for i, id := range list {
		place[id] = int32(i)
	}
	out := make([]int32, len(ids))
	for i, id := range ids {
		n, ok := place[id]
		if !ok {
			n = -1
		}
		out[i] = n
	}
	return out
}

// row are the ratings of a user of the set, items ascending as in the catalogue.
func (h *atHand) row(user int) model.Ratings {
	items, values := h.rows.Row(user)
	order := make([]int, 0, len(items))
	for k, i := range items {
		if h.items[i] >= 0 {
			order = append(order, k)
		}
	}
	h.skipped += len(items) - len(order)
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(h.items[items[a]], h.items[items[b]]) })
	r := model.Ratings{Items: make([]int32, len(order)), Values: make([]float32, len(order))}
	for n, k := range order {
		r.Items[n], r.Values[n] = h.items[items[k]], values[k]
	}
	return r
}

// checkPart refuses a holding that no organisation can have.
func (e *Experiment) checkPart(which Holding) error {
	switch parties := int(e.Config.Parties.Value); {
	case which.User != "":
		return fmt.Errorf("%w: a party of %s is an organisation, and not the user %q", ErrHolding, e.Config.Algorithm, which.User)
	case which.Part < 0 || which.Part > parties:
		return fmt.Errorf("%w: there is no part %d; there are 1 to %d", ErrHolding, which.Part, parties)
	default:
		return nil
	}
}

// pick are the ids at some indices.
func pick(ids []string, which []int32) []string {
	out := make([]string, len(which))
	for i, k := range which {
		out[i] = ids[k]
	}
	return out
}
