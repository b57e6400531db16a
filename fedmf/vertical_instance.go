package fedmf

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/split"

	"github.com/fedsim/fedsim/internal/fedmf/kernel"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// verticalInstance is VFL with its data: parties own items and share U.
type verticalInstance struct{ *partyInstance }

func openVertical(s *algorithm.Setup, p kernel.Params, f *family) (*verticalInstance, error) {
	c := s.Config
	parts, err := split.PartitionItems(s.Data, split.Partitioning(partition.Of(c)), algorithm.Parties.Int(c), algorithm.Seed.Of(c))
	if err != nil {
		return nil, config.Wrap(err)
	}
	if s.Start.Known() && s.Train != nil { // in a deployment each party adds its own
		known, failed := startItems(&p, s, s.Start, parts...)
		if failed != nil {
			return nil, failed
		}
		if !known {
			return nil, unknownIDs(s, "item_embeddings", s.Data.ItemIDs)
		}
	}
	x, err := openParties(s, p, f, parts)
	return &verticalInstance{x}, err
}

func (x *verticalInstance) ClientSide() (algorithm.ClientSide, error) {
	p := &verticalParties{verticalInstance: x, parties: make([]*kernel.Vertical, len(x.parts))}
	for k, rows := range x.ratingsOfParts() {
		var err error
		if p.parties[k], err = kernel.NewVertical(&x.params, x.parts[k], rows); err != nil {
			return nil, err
		}
		p.parties[k].Alone = x.setup.Alone
	}
	return p, nil
}

func (x *verticalInstance) Party(which algorithm.PartyData, l *algorithm.LocalData) (*algorithm.Party, error) {
	held, err := x.partyItems(which)
	if err != nil {
		return nil, err
	}
	place := make([]int32, x.setup.Data.Items) // place in the party's list of items, from 1; 0: not the party's
	for i, j := range held {
		place[j] = int32(i) + 1
	}
	rows := make([]model.Ratings, x.setup.Data.Users)
	ratings := 0
	for u, user := range l.Users {
		var own model.Ratings
		all := l.Row(u)
		for k, j := range all.Items {
			if place[j] > 0 {
				own.Items, own.Values = append(own.Items, place[j]-1), append(own.Values, all.Values[k])
			} else if which.Part == 0 {
				l.Skipped++
			}
		}
		if user < 0 {
			l.Skipped += len(own.Items)
			l.Unlisted += len(own.Items)
			continue
		}
		rows[user] = own
		ratings += len(own.Items)
	}
	params := x.params
	if x.setup.Start != nil && which.Kept != nil { // the party's items start from what it itself kept of the sessions before
		if _, err = startItems(&params.Params, x.setup, &algorithm.Start{From: "the party's own result", Released: which.Kept}, held); err != nil {
			return nil, err
		}
	}
	t, err := kernel.NewVertical(&params, held, rows)
	if err != nil {
		return nil, err
	}
	return &algorithm.Party{Ratings: ratings, Trainer: t, Result: func() []model.Embeddings {
		return []model.Embeddings{{Named: model.Named{Name: "item_embeddings", Matrix: t.Embeddings()}, IDs: model.At(x.setup.Data.ItemIDs, t.Own)}}
	}}, nil
}

// partyItems returns the items of a party, as ascending indices of the catalogue.
func (x *verticalInstance) partyItems(which algorithm.PartyData) ([]int32, error) {
	if err := x.setup.CheckPart(which); err != nil {
		return nil, err
	}
	if which.Part > 0 {
		if len(which.IDs) > 0 {
			return nil, fmt.Errorf("%w: part %d of the catalogue and %d items are stated; one of the two is right", algorithm.ErrPartyData, which.Part, len(which.IDs))
		}
		return x.parts[which.Part-1], nil
	}
	if err := which.CheckStated("the items that are the party's, or its part of the catalogue,"); err != nil {
		return nil, err
	}
	place := dataset.Places(x.setup.Data.ItemIDs)
	held := make([]int32, len(which.IDs))
	for i, id := range which.IDs {
		j, listed := place[id]
		if !listed {
			return nil, fmt.Errorf("%w: the item %q that is stated is not in the catalogue of %d", algorithm.ErrPartyData, id, x.setup.Data.Items)
		}
		held[i] = j
	}
	slices.Sort(held)
	return held, nil
}

// ratingsOfParts deals each training rating to the party that has its item:
// for each party a row for every user, items by their place in the party's list.
func (x *verticalInstance) ratingsOfParts() [][]model.Ratings {
	data := x.setup.Data
	party, place := make([]int32, data.Items), make([]int32, data.Items)
	rows := make([][]model.Ratings, len(x.parts))
	for k, items := range x.parts {
		rows[k] = make([]model.Ratings, data.Users)
		for i, j := range items {
			party[j], place[j] = int32(k), int32(i)
		}
	}
	for u := range data.Users {
		items, values := x.setup.Train.Row(u)
		for n, j := range items {
			r := &rows[party[j]][u]
			r.Items, r.Values = append(r.Items, place[j]), append(r.Values, values[n])
		}
	}
	return rows
}

// Baselines lists the baselines of VFL. The start has no stage 1, which VFL lacks. It has no steps
// after the last average either, which adapt items to users whom no party has trained.
func (x *verticalInstance) Baselines() []algorithm.Baseline {
	alone := "each party trains alone, with noise for the same privacy"
	if !x.setup.Private() {
		alone = "each party trains alone, for as many steps"
	}
	return []algorithm.Baseline{
		{Name: "before_cooperation", Note: "this start, without any round", Predict: func(protocol.Runner) (model.Predictor, error) {
			return &model.Factors{Users: x.params.StartUsers(x.setup.Data.Users), Items: x.params.StartItems()}, nil
		}},
		// At the learning rates that suit noise that no averaging reduces.
		{Name: "local_only", Note: alone, Alone: true, Vary: func(c *config.Config) {
			if algorithm.Private(*c) {
				userRate.SetAuto(c)
				itemRate.SetAuto(c)
			}
		}},
		withoutNoise(x.setup),
	}
}

func (x *verticalInstance) Words() algorithm.Words {
	return algorithm.Words{Untrained: "each party trained its items by itself"}
}

// Record returns U, and in a simulation V, which the parties noised as they did U. In a deployment each party keeps its own items.
func (x *verticalInstance) Record(s algorithm.Strategy, trained *model.Trained) ([]model.Embeddings, error) {
	list, err := x.sharedRows.Record(s, trained)
	if err != nil || trained == nil {
		return list, err
	}
	f, ok := model.As[*model.Factors](trained)
	if !ok {
		return nil, fmt.Errorf("fedmf: the parties of %s left no embeddings of items", algorithm.Name.Of(x.setup.Config))
	}
	items := model.NewEmbeddings("item_embeddings", f.Items, x.setup.Data.ItemIDs)
	return append(list, x.setup.Start.Kept(items, nil)), nil
}

// verticalParties are the clients of VFL.
type verticalParties struct {
	*verticalInstance
	parties []*kernel.Vertical
}

func (p *verticalParties) Trainers() []algorithm.Trainer {
	return algorithm.Trainers(len(p.parties), func(i int) algorithm.Trainer { return p.parties[i] })
}

func (p *verticalParties) Interim(shared []byte, _ protocol.Runner) (model.Predictor, error) {
	items := p.items()
	if p.setup.Alone {
		return p.separate(items), nil
	}
	b, err := model.NewBroadcast(shared, p.setup.Data.Users, p.params.Rank)
	if err != nil {
		return nil, err
	}
	return &model.Factors{Users: b.Matrix(), Items: items}, nil
}

// items puts the parties' item embeddings together.
func (p *verticalParties) items() *model.Matrix {
	all := model.NewMatrix(p.setup.Data.Items, p.params.Rank)
	for _, t := range p.parties {
		v := t.Embeddings()
		for i, j := range t.Own {
			copy(all.Row(int(j)), v.Row(i))
		}
	}
	return all
}

// Final takes the item embeddings after the last steps.
func (p *verticalParties) Final(shared []byte, run protocol.Runner) (*model.Trained, error) {
	if err := finish(p, shared, run); err != nil {
		return nil, err
	}
	end, err := p.Interim(shared, run)
	if err != nil {
		return nil, err
	}
	f, ok := end.(*model.Factors)
	if !ok {
		return &model.Trained{Predictor: end}, nil
	}
	return model.OfFactors(f), nil
}

// separate returns a predictor by each party's own U.
func (p *verticalParties) separate(items *model.Matrix) model.Predictor {
	s := &apart{party: make([]int32, p.setup.Data.Items), byItem: true}
	start := p.params.StartUsers(p.setup.Data.Users)
	for k, t := range p.parties {
		s.of = append(s.of, &model.Factors{Users: cmp.Or(t.Users, start), Items: items})
		for _, j := range t.Own {
			s.party[j] = int32(k)
		}
	}
	return s
}
