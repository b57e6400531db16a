package fedmf

import (
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/model"
)

// startFrom sets the start to the embeddings that an earlier session released. An item or user that the session did not
// have starts at the mean of all released ones. The mean is of released numbers, too, and so costs nothing.
func (p *Params) startFrom(s *algorithm.Setup) (err error) {
	if p.FromItems, err = released(s, "item_embeddings", s.Data.ItemIDs, *p); err != nil {
		return err
	}
	if algorithm.Of(s.Config).About().Clients == algorithm.ItemParties {
		p.FromUsers, err = released(s, "user_embeddings", s.Data.UserIDs, *p)
	}
	return err
}

// released returns embeddings of the given ids, projected where bounds of gradients rest on that.
func released(s *algorithm.Setup, name string, ids []string, p Params) (*model.Matrix, error) {
	m, known, err := s.Start.Rows(name, ids, p.Rank)
	if err != nil {
		return nil, config.Errorf("start-from: %w", err)
	}
	count := 0.0
	mean := make([]float64, p.Rank)
	for i, k := range known {
		if k {
			count++
			for c, x := range m.Row(i) {
				mean[c] += x
			}
		}
	}
	if count == 0 {
		return nil, config.Errorf("start-from: %s knows none of these %d ids of %s; start from another folder", s.Start.From, len(ids), name)
	}
	for c := range mean {
		mean[c] /= count
	}
	for i, k := range known {
		if !k {
			copy(m.Row(i), mean)
		}
		if !clipping.Is(s.Config, string(GradientClipping)) {
			Project(m.Row(i), p.MaxRating)
		}
	}
	return m, nil
}

// record returns released embeddings with the rows of earlier sessions that they lack.
func record(s *algorithm.Setup, list []model.Embeddings) []model.Embeddings {
	for i, x := range list {
		list[i] = s.Start.Kept(x, nil)
	}
	return list
}

// Record returns V.
func (x *usersInstance) Record(s algorithm.Strategy, _ *model.Trained) ([]model.Embeddings, error) {
	list, err := x.Shared(s.Model())
	return record(x.setup, list), err
}

// Record returns V.
func (x *horizontalInstance) Record(s algorithm.Strategy, _ *model.Trained) ([]model.Embeddings, error) {
	list, err := x.Shared(s.Model())
	return record(x.setup, list), err
}

// Record returns U, and in a simulation V, which the parties noised as they did U. In a deployment each party has its own items.
func (x *verticalInstance) Record(s algorithm.Strategy, trained *model.Trained) ([]model.Embeddings, error) {
	list, err := x.Shared(s.Model())
	if err != nil || trained == nil {
		return nil, err
	}
	at := slices.IndexFunc(trained.Matrices, func(m model.Named) bool { return m.Name == "item_embeddings" })
	if at < 0 || trained.Matrices[at].Matrix.Rows() != len(x.setup.Data.ItemIDs) {
		return nil, fmt.Errorf("fedmf: the parties of %s left no embeddings of items", algorithm.Name.Of(x.setup.Config))
	}
	return record(x.setup, append(list, model.NewEmbeddings("item_embeddings", trained.Matrices[at].Matrix, x.setup.Data.ItemIDs))), nil
}
