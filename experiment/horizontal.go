package experiment

import (
	"fmt"

	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/fedmf"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/server"
)

// horizontal is the form of HFL: parties have users and share V.
type horizontal struct{}

func (horizontal) choose(e *Experiment) error {
	e.chooseSilo()
	if parties := int(e.Config.Parties.Value); e.public { // who is with which party is nobody's business
		if parties > e.Data.Users {
			return &ConfigError{fmt.Errorf("%w: %d for %d users", dataset.ErrParties, parties, e.Data.Users)}
		}
		return nil
	}
	var err error
	if e.parts, err = e.Data.PartitionUsers(int(e.Config.Parties.Value), e.Config.Seed); err != nil {
		return &ConfigError{err}
	}
	return nil
}

func (horizontal) prepare(e *Experiment) error { return e.prepareSilo(e.Data.Items, false) }

func (horizontal) strategy(e *Experiment) (server.Durable, error) {
	return e.average(e.Params.StartItems())
}

func (horizontal) parties(e *Experiment) ([]client.Trainer, parties, error) {
	holders, err := e.holders()
	if err != nil {
		return nil, nil, err
	}
	trainers := make([]client.Trainer, len(holders))
	for k, t := range holders {
		if e.Config.Algorithm == HFLSynSGD {
			t.SendGradients()
		}
		trainers[k] = t
	}
	return trainers, holders, nil
}

func (horizontal) party(e *Experiment, which Holding, h *atHand) (*Party, error) {
	users, err := e.ownedUsers(which, h)
	if err != nil {
		return nil, err
	}
	rows := make([]model.Ratings, len(users))
	ratings := 0
	for i, u := range users {
		rows[i] = h.row(int(u))
		ratings += len(rows[i].Items)
	}
	t, err := fedmf.NewHorizontal(&e.silo, users, rows)
	if err != nil {
		return nil, err
	}
	if e.Config.Algorithm == HFLSynSGD {
		t.SendGradients()
	}
	return &Party{Ratings: ratings, trainer: t, result: func() []model.Embeddings {
		tuned := t.Tuned()
		return []model.Embeddings{
			model.NewEmbeddings("user_embeddings", tuned.Users, pick(h.set.UserIDs, users)),
			model.NewEmbeddings("item_embeddings", tuned.Items, e.Data.ItemIDs),
		}
	}}, nil
}

// ownedUsers are the users of a party, as ascending indices of the set at hand. Where it
// is not the set of all, they are not those of the federation, which nobody knows; they
// decide nothing but the order in which the party fine-tunes for itself.
func (e *Experiment) ownedUsers(which Holding, h *atHand) ([]int32, error) {
	if err := e.checkPart(which); err != nil {
		return nil, err
	}
	if which.Part == 0 {
		if h.set.Users > e.Data.Users {
			return nil, fmt.Errorf("%w: they are of %d users; all parties together have %d", ErrHolding, h.set.Users, e.Data.Users)
		}
		users := make([]int32, h.set.Users)
		for i := range users {
			users[i] = int32(i)
		}
		return users, nil
	}
	if h.set.Users != e.Data.Users {
		return nil, fmt.Errorf("%w: they are of %d users, and a part is dealt of all %d; give all, or say that these are the party's own", ErrHolding, h.set.Users, e.Data.Users)
	}
	parts, err := h.set.PartitionUsers(int(e.Config.Parties.Value), e.Config.Seed)
	if err != nil {
		return nil, err
	}
	return parts[which.Part-1], nil
}

// holders are the parties of HFL, untrained.
func (e *Experiment) holders() (holders, error) {
	list := make(holders, len(e.parts))
	for k, users := range e.parts {
		rows := make([]model.Ratings, len(users))
		for i, u := range users {
			rows[i].Items, rows[i].Values = e.train.Row(int(u))
		}
		var err error
		if list[k], err = fedmf.NewHorizontal(&e.silo, users, rows); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (horizontal) before(e *Experiment, run protocol.Runner) (model.Predictor, error) {
	return e.tunedAlone(e.silo.FineTune, run)
}

// alone gives each party the passes over its own ratings, without noise, that
// serve it best where nobody helps.
func (horizontal) alone(e *Experiment, run protocol.Runner) (model.Predictor, error) {
	return e.tunedAlone(e.Config.Model.LocalPasses, run)
}

// tunedAlone fine-tunes every party from the common start.
func (e *Experiment) tunedAlone(passes int, run protocol.Runner) (model.Predictor, error) {
	list, err := e.holders()
	if err != nil {
		return nil, err
	}
	tuned := make([]*fedmf.Tuned, len(list))
	run.Each(len(list), func(k int) { tuned[k] = list[k].Tune(e.Params.StartItems(), passes, run) })
	return list.tuned(e, tuned), nil
}

// holders are the parties of HFL.
type holders []*fedmf.Horizontal

// interim predicts by the shared V and the users as stages 1 and 2 have them:
// before fine-tuning.
func (h holders) interim(e *Experiment, encoded []byte, run protocol.Runner) (model.Predictor, error) {
	b, err := model.NewBroadcast(encoded, e.Params.Items, e.Params.Rank)
	if err != nil {
		return nil, err
	}
	f := &model.Factors{Users: e.Params.StartUsers(e.Data.Users), Items: b.Matrix()}
	for _, t := range h {
		if u := t.Users(); u != nil {
			for i, user := range t.Own() {
				copy(f.Users.Row(int(user)), u.Row(i))
			}
		}
	}
	return f, nil
}

// final has every party predict for its own users by its own embeddings. A party
// that has left never got the model, and counts as if it came back to fetch it.
func (h holders) final(e *Experiment, encoded []byte, run protocol.Runner) (*model.Trained, error) {
	shared, err := h.interim(e, encoded, run)
	if err != nil {
		return nil, err
	}
	tuned := make([]*fedmf.Tuned, len(h))
	if err := all(len(h), run, func(k int) error {
		if h[k].Tuned() == nil {
			if err := h[k].Finish(encoded, run); err != nil {
				return err
			}
		}
		tuned[k] = h[k].Tuned()
		return nil
	}); err != nil {
		return nil, err
	}
	own := h.tuned(e, tuned)
	m := &model.Trained{Predictor: own, Shared: shared, Matrices: []model.Named{{Name: "item_embeddings", Matrix: shared.(*model.Factors).Items}, {Name: "user_embeddings", Matrix: own.users}}}
	for k, t := range tuned {
		m.Matrices = append(m.Matrices, model.Named{Name: partyItemsName(k), Matrix: t.Items})
	}
	return m, nil
}

// partyItemsName is the file of party k's own item embeddings, without extension.
func partyItemsName(k int) string { return fmt.Sprintf("item_embeddings_party%02d", k+1) }

// tuned predicts for every user by the embeddings of the user's party.
func (h holders) tuned(e *Experiment, tuned []*fedmf.Tuned) *local {
	l := &local{party: make([]int32, e.Data.Users), users: model.NewMatrix(e.Data.Users, e.Params.Rank)}
	for k, t := range h {
		for i, user := range t.Own() {
			l.party[user] = int32(k)
			copy(l.users.Row(int(user)), tuned[k].Users.Row(i))
		}
		l.items = append(l.items, tuned[k].Items)
	}
	return l
}

// local are parties with a V each.
type local struct {
	party []int32 // of a user
	users *model.Matrix
	items []*model.Matrix
}

// Predict implements model.Predictor.
func (l *local) Predict(user int, items []int32, out []float64) {
	u, v := l.users.Row(user), l.items[l.party[user]]
	for i, j := range items {
		out[i] = model.Dot(u, v.Row(int(j)))
	}
}
