package experiment

import (
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/fedmf"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/server"
)

// vertical is the form of VFL: parties own items and share U.
type vertical struct{}

func (vertical) choose(e *Experiment) error {
	e.chooseSilo()
	var err error
	e.parts, err = e.Data.PartitionItems(dataset.Partitioning(e.Config.Partition), int(e.Config.Parties.Value), e.Config.Seed)
	if err != nil {
		return &ConfigError{err}
	}
	return nil
}

func (vertical) prepare(e *Experiment) error {
	return e.prepareSilo(e.Data.Users, e.Config.unit() == dp.User)
}

func (vertical) strategy(e *Experiment) (server.Durable, error) {
	return e.average(e.silo.StartUsers(e.Data.Users))
}

func (vertical) parties(e *Experiment) ([]client.Trainer, parties, error) {
	owners := make(owners, len(e.parts))
	trainers := make([]client.Trainer, len(owners))
	for k, rows := range e.ratingsOfParts() {
		var err error
		if owners[k], err = fedmf.NewVertical(&e.silo, e.parts[k], rows); err != nil {
			return nil, nil, err
		}
		if e.alone {
			owners[k].Alone()
		}
		trainers[k] = owners[k]
	}
	return trainers, owners, nil
}

func (vertical) party(e *Experiment, which Holding, h *atHand) (*Party, error) {
	owned, err := e.ownedItems(which, h)
	if err != nil {
		return nil, err
	}
	place := make([]int32, e.Data.Items) // in the list of what it owns, from 1; 0: it does not
	for i, j := range owned {
		place[j] = int32(i) + 1
	}
	rows := make([]model.Ratings, e.Data.Users)
	ratings := 0
	for u, user := range indices(h.set.UserIDs, e.Data.UserIDs) {
		var own model.Ratings
		all := h.row(u)
		for k, j := range all.Items {
			if place[j] > 0 {
				own.Items, own.Values = append(own.Items, place[j]-1), append(own.Values, all.Values[k])
			}
		}
		if user < 0 {
			h.skipped += len(own.Items)
			continue
		}
		rows[user] = own
		ratings += len(own.Items)
	}
	t, err := fedmf.NewVertical(&e.silo, owned, rows)
	if err != nil {
		return nil, err
	}
	return &Party{Ratings: ratings, trainer: t, result: func() []model.Embeddings {
		return []model.Embeddings{model.NewEmbeddings("item_embeddings", t.Embeddings(), pick(e.Data.ItemIDs, t.Items()))}
	}}, nil
}

// ownedItems are the items of an owner, as ascending indices of the catalogue.
func (e *Experiment) ownedItems(which Holding, h *atHand) ([]int32, error) {
	if err := e.checkPart(which); err != nil {
		return nil, err
	}
	if which.Part > 0 {
		return e.parts[which.Part-1], nil
	}
	owned := slices.DeleteFunc(slices.Clone(h.items), func(j int32) bool { return j < 0 })
	if len(owned) == 0 {
		return nil, fmt.Errorf("%w: none of their %d items is in the catalogue", ErrHolding, len(h.items))
	}
	slices.Sort(owned)
	return owned, nil
}

// ratingsOfParts deals the training ratings out to the owners of their items:
// for each party a row for every user, items by their place in the party's list.
func (e *Experiment) ratingsOfParts() [][]model.Ratings {
	owner, place := make([]int32, e.Data.Items), make([]int32, e.Data.Items)
	rows := make([][]model.Ratings, len(e.parts))
	for k, items := range e.parts {
		rows[k] = make([]model.Ratings, e.Data.Users)
		for i, j := range items {
			owner[j], place[j] = int32(k), int32(i)
		}
	}
	for u := range e.Data.Users {
		items, values := e.train.Row(u)
		for n, j := range items {
			r := &rows[owner[j]][u]
			r.Items, r.Values = append(r.Items, place[j]), append(r.Values, values[n])
		}
	}
	return rows
}

// before is the start itself: there is no stage 1, and what comes after the last
// average adapts items to users whom nobody has trained.
func (vertical) before(e *Experiment, _ protocol.Runner) (model.Predictor, error) {
	return &model.Factors{Users: e.Params.StartUsers(e.Data.Users), Items: e.Params.StartItems()}, nil
}

func (vertical) alone(*Experiment, protocol.Runner) (model.Predictor, error) { return nil, nil }

// owners are the parties of VFL.
type owners []*fedmf.Vertical

func (o owners) interim(e *Experiment, encoded []byte, _ protocol.Runner) (model.Predictor, error) {
	items := o.items(e)
	if e.alone {
		return o.separate(e, items), nil
	}
	b, err := model.NewBroadcast(encoded, e.Data.Users, e.Params.Rank)
	if err != nil {
		return nil, err
	}
	return &model.Factors{Users: b.Matrix(), Items: items}, nil
}

// items puts the parties' item embeddings together.
func (o owners) items(e *Experiment) *model.Matrix {
	all := model.NewMatrix(e.Data.Items, e.Params.Rank)
	for _, t := range o {
		v := t.Embeddings()
		for i, j := range t.Items() {
			copy(all.Row(int(j)), v.Row(i))
		}
	}
	return all
}

// final takes the item embeddings after the last steps. A party that has left
// never got the model, and counts as if it came back to fetch it.
func (o owners) final(e *Experiment, encoded []byte, run protocol.Runner) (*model.Trained, error) {
	if err := all(len(o), run, func(k int) error {
		if o[k].Finished() {
			return nil
		}
		return o[k].Finish(encoded, run)
	}); err != nil {
		return nil, err
	}
	p, err := o.interim(e, encoded, run)
	if err != nil {
		return nil, err
	}
	f, ok := p.(*model.Factors)
	if !ok {
		return &model.Trained{Predictor: p}, nil
	}
	return model.OfFactors(f), nil
}

// separate predicts by each party's own U.
func (o owners) separate(e *Experiment, items *model.Matrix) model.Predictor {
	s := &separate{owner: make([]int32, e.Data.Items), items: items}
	start := e.Params.StartUsers(e.Data.Users)
	for k, t := range o {
		u := t.Users()
		if u == nil {
			u = start
		}
		s.users = append(s.users, u)
		for _, j := range t.Items() {
			s.owner[j] = int32(k)
		}
	}
	return s
}

// separate are parties with a U each.
type separate struct {
	owner []int32 // of an item
	users []*model.Matrix
	items *model.Matrix
}

// Predict implements model.Predictor.
func (s *separate) Predict(user int, items []int32, out []float64) {
	for i, j := range items {
		out[i] = model.Dot(s.users[s.owner[j]].Row(user), s.items.Row(int(j)))
	}
}
