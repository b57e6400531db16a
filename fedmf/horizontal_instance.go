package fedmf

import (
	"fmt"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset/split"

	"github.com/fedsim/fedsim/internal/fedmf/kernel"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// horizontalInstance is HFL with its data: parties have users and share V.
type horizontalInstance struct{ *partyInstance }

func openHorizontal(s *algorithm.Setup, p kernel.Params, f *family) (*horizontalInstance, error) {
	parties := algorithm.Parties.Int(s.Config)
	var parts split.Partition
	if s.Public() { // the assignment of users to parties is private
		if parties > s.Data.Users {
			return nil, config.Errorf("%w: %d for %d users", split.ErrParties, parties, s.Data.Users)
		}
	} else {
		var err error
		if parts, err = split.PartitionUsers(s.Data, parties, algorithm.Seed.Of(s.Config)); err != nil {
			return nil, config.Wrap(err)
		}
	}
	x, err := openParties(s, p, f, parts)
	return &horizontalInstance{x}, err
}

func (x *horizontalInstance) ClientSide() (algorithm.ClientSide, error) { return x.clients() }

// clients returns the parties, untrained.
func (x *horizontalInstance) clients() (*horizontalParties, error) {
	p := &horizontalParties{horizontalInstance: x, parties: make([]*kernel.Horizontal, len(x.parts))}
	for k, users := range x.parts {
		rows := lists.Map(users, func(u int32) model.Ratings { return x.setup.Row(int(u)) })
		var err error
		if p.parties[k], err = kernel.NewHorizontal(&x.params, users, rows); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (x *horizontalInstance) Party(which algorithm.PartyData, l *algorithm.LocalData) (*algorithm.Party, error) {
	users, rows, _, err := x.setup.PartyRows(which, l)
	if err != nil {
		return nil, err
	}
	ratings := 0
	for _, r := range rows {
		ratings += len(r.Items)
	}
	t, err := kernel.NewHorizontal(&x.params, users, rows)
	if err != nil {
		return nil, err
	}
	return &algorithm.Party{Ratings: ratings, Trainer: t, Result: func() []model.Embeddings {
		tuned := t.Tuned
		return []model.Embeddings{
			{Named: model.Named{Name: "user_embeddings", Matrix: tuned.Users}, IDs: model.At(which.IDs, users)},
			{Named: model.Named{Name: "item_embeddings", Matrix: tuned.Items}, IDs: x.setup.Data.ItemIDs},
		}
	}}, nil
}

// Baselines lists the baselines of HFL. Alone each party makes the passes over its own ratings,
// without noise, that serve a lone party best.
func (x *horizontalInstance) Baselines() []algorithm.Baseline {
	tuned := func(passes int) func(protocol.Runner) (model.Predictor, error) {
		return func(run protocol.Runner) (model.Predictor, error) { return x.tunedAlone(passes, run) }
	}
	return []algorithm.Baseline{
		{Name: "before_cooperation", Note: "this start, each party fine-tunes for itself", Predict: tuned(x.params.FineTune)},
		{Name: "local_only", Note: "each party trains alone and without noise", Predict: tuned(localPasses)},
		withoutNoise(x.setup),
	}
}

func (x *horizontalInstance) Words() algorithm.Words {
	return algorithm.Words{
		Model:  "fine-tuned by each party for itself",
		Shared: "the shared item embeddings, before parties fine-tune them for themselves",
	}
}

// tunedAlone fine-tunes every party from the common start.
func (x *horizontalInstance) tunedAlone(passes int, run protocol.Runner) (model.Predictor, error) {
	p, err := x.clients()
	if err != nil {
		return nil, err
	}
	tuned := make([]*model.Factors, len(p.parties))
	run.Each(len(tuned), func(k int) { tuned[k] = p.parties[k].Tune(x.params.StartItems(), passes, run) })
	_, own := p.tuned(tuned)
	return own, nil
}

// horizontalParties are the clients of HFL.
type horizontalParties struct {
	*horizontalInstance
	parties []*kernel.Horizontal
}

func (p *horizontalParties) Trainers() []algorithm.Trainer {
	return algorithm.Trainers(len(p.parties), func(i int) algorithm.Trainer { return p.parties[i] })
}

// Interim predicts by the shared V and the users of stages 1 and 2: before fine-tuning.
func (p *horizontalParties) Interim(shared []byte, run protocol.Runner) (model.Predictor, error) {
	return p.interim(shared)
}

func (p *horizontalParties) interim(shared []byte) (*model.Factors, error) {
	b, err := model.NewBroadcast(shared, p.params.Items, p.params.Rank)
	if err != nil {
		return nil, err
	}
	f := &model.Factors{Users: p.params.StartUsers(p.setup.Data.Users), Items: b.Matrix()}
	for _, t := range p.parties {
		if u := t.Users; u != nil {
			for i, user := range t.Own {
				copy(f.Users.Row(int(user)), u.Row(i))
			}
		}
	}
	return f, nil
}

// Final has every party predict for its own users by its own embeddings.
func (p *horizontalParties) Final(shared []byte, run protocol.Runner) (*model.Trained, error) {
	before, err := p.interim(shared)
	if err != nil {
		return nil, err
	}
	if err = finish(p, shared, run); err != nil {
		return nil, err
	}
	tuned := lists.Map(p.parties, func(h *kernel.Horizontal) *model.Factors { return h.Tuned })
	users, own := p.tuned(tuned)
	m := &model.Trained{Predictor: own, Shared: before,
		Matrices: []model.Named{{Name: "item_embeddings", Matrix: before.Items}, {Name: "user_embeddings", Matrix: users}}}
	for k, t := range tuned {
		m.Matrices = append(m.Matrices, model.Named{Name: partyItemsName(k), Matrix: t.Items})
	}
	return m, nil
}

// partyItemsName returns the file of party k's own item embeddings, without extension.
func partyItemsName(k int) string { return fmt.Sprintf("item_embeddings_party%02d", k+1) }

// tuned returns the users' embeddings and a predictor that uses, for every user, the embeddings of the user's party.
func (p *horizontalParties) tuned(tuned []*model.Factors) (*model.Matrix, *apart) {
	users, a := model.NewMatrix(p.setup.Data.Users, p.params.Rank), &apart{party: make([]int32, p.setup.Data.Users)}
	for k, t := range p.parties {
		for i, user := range t.Own {
			a.party[user] = int32(k)
			copy(users.Row(int(user)), tuned[k].Users.Row(i))
		}
		a.of = append(a.of, &model.Factors{Users: users, Items: tuned[k].Items})
	}
	return users, a
}
