package fedmf

import (
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedmf/kernel"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/model"
)

// startFrom sets the start to the embeddings that an earlier session released. An item or user that the session did not
// have starts at the mean of all released ones. The mean is of released numbers, too, and so costs nothing. Items that
// parties own follow by startItems.
func startFrom(p *kernel.Params, s *algorithm.Setup) (err error) {
	if algorithm.Of(s.Config).About().Clients == algorithm.ItemParties {
		p.FromUsers, err = released(s, "user_embeddings", s.Data.UserIDs, *p)
		return err
	}
	p.FromItems, err = released(s, "item_embeddings", s.Data.ItemIDs, *p)
	return err
}

// released returns embeddings of the given ids, projected where bounds of gradients rest on that.
func released(s *algorithm.Setup, name string, ids []string, p kernel.Params) (*model.Matrix, error) {
	m, known, err := s.Start.Rows(name, ids, p.Rank)
	if err != nil {
		return nil, config.Errorf("start-from: %w", err)
	}
	all := make([]int32, len(ids))
	for i := range all {
		all[i] = int32(i)
	}
	if !complete(s, m, known, all, p) {
		return nil, unknownIDs(s, name, ids)
	}
	return m, nil
}

func unknownIDs(s *algorithm.Setup, name string, ids []string) error {
	return config.Errorf("start-from: %s knows none of these %d ids of %s; start from another folder", s.Start.From, len(ids), name)
}

// complete sets the unknown ones of some rows to the mean of the known ones, and projects all of these rows. It returns
// false, and changes nothing, if none of them is known.
func complete(s *algorithm.Setup, m *model.Matrix, known []bool, rows []int32, p kernel.Params) bool {
	count, mean := 0.0, make([]float64, p.Rank)
	for _, i := range rows {
		if known[i] {
			count++
			dense.Axpy(mean, 1, m.Row(int(i)))
		}
	}
	if count == 0 {
		return false
	}
	for c := range mean {
		mean[c] /= count
	}
	for _, i := range rows {
		if !known[i] {
			copy(m.Row(int(i)), mean)
		}
		if !clipping.Is(s.Config, string(kernel.GradientClipping)) {
			kernel.Project(m.Row(int(i)), p.MaxRating)
		}
	}
	return true
}

// startItems sets the start of items that parties own, from the embeddings that the parties kept. A party knows no others: an
// item that is new to it starts at the mean of its own, and a party that kept none has the common start. any reports whether
// one of them kept some.
func startItems(p *kernel.Params, s *algorithm.Setup, kept *algorithm.Start, parts ...[]int32) (any bool, err error) {
	common := p.StartItems()
	m, known, err := kept.Rows("item_embeddings", s.Data.ItemIDs, p.Rank)
	if err != nil {
		return false, config.Errorf("start-from: %w", err)
	}
	for _, part := range parts {
		if complete(s, m, known, part, *p) {
			any = true
			continue
		}
		for _, j := range part {
			copy(m.Row(int(j)), common.Row(int(j)))
		}
	}
	p.FromItems = m
	return any, nil
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

// Record returns U, and in a simulation V, which the parties noised as they did U. In a deployment each party keeps its own items.
func (x *verticalInstance) Record(s algorithm.Strategy, trained *model.Trained) ([]model.Embeddings, error) {
	list, err := x.Shared(s.Model())
	if err != nil || trained == nil {
		return record(x.setup, list), err
	}
	at := slices.IndexFunc(trained.Matrices, func(m model.Named) bool { return m.Name == "item_embeddings" })
	if at < 0 || trained.Matrices[at].Matrix.Rows() != len(x.setup.Data.ItemIDs) {
		return nil, fmt.Errorf("fedmf: the parties of %s left no embeddings of items", algorithm.Name.Of(x.setup.Config))
	}
	return record(x.setup, append(list, model.NewEmbeddings("item_embeddings", trained.Matrices[at].Matrix, x.setup.Data.ItemIDs))), nil
}
