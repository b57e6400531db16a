// Package fmf has the algorithms that the FMF paper compares with, with all ratings in one place: SGD without privacy, objective
// perturbation and Private-GD-DR. They share the start, the fit of users and the bounds of embeddings with package fedmf.
package fmf

import (
	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/fedmf"
	"github.com/fedsim/fedsim/fedmf/kernel"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

type method struct {
	about algorithm.About
	open  func(*algorithm.Setup, kernel.Params) (algorithm.Instance, error)
	// users returns the embeddings of users of a finished run.
	users func(c config.Config, set *dataset.Set, files algorithm.Files, items *model.Matrix) (*model.Matrix, error)
}

func (m *method) About() *algorithm.About { return &m.about }

func (m *method) Open(s *algorithm.Setup) (algorithm.Instance, error) {
	p, err := fedmf.ParamsOf(s)
	if err != nil {
		return nil, err
	}
	return m.open(s, p)
}

func (m *method) Load(c config.Config, set *dataset.Set, files algorithm.Files) (*algorithm.Saved, error) {
	items, err := files.Matrix("item_embeddings", set.Items, algorithm.Rank.Int(c))
	if err != nil {
		return nil, err
	}
	users, err := m.users(c, set, files, items)
	if err != nil {
		return nil, err
	}
	return fedmf.Saved(items, users, func(int) *model.Matrix { return items }), nil
}

// writtenUsers returns the embeddings that the run wrote.
func writtenUsers(_ config.Config, set *dataset.Set, files algorithm.Files, items *model.Matrix) (*model.Matrix, error) {
	return files.Matrix("user_embeddings", set.Users, items.Cols())
}

// fittedUsers fits users to their ratings: the run wrote none.
func fittedUsers(c config.Config, set *dataset.Set, files algorithm.Files, items *model.Matrix) (*model.Matrix, error) {
	p, err := fedmf.ParamsOf(&algorithm.Setup{Config: c, Data: set})
	if err != nil {
		return nil, err
	}
	return kernel.FitUsers(p, files.Train(), items, protocol.Workers(1)).Users, nil
}

var (
	epochs = config.DeclareNumber(config.Key{
		Name: "model.epochs", Kind: config.Whole, Default: "30", Range: config.AtLeast(1),
		Help: "Passes of sgd-mf over all ratings: more overfit the small sets.",
	})
	itemRidge = config.DeclareNumber(config.Key{
		Name: "model.item-ridge", Kind: config.Real, Default: "auto", Auto: "such that the curvature of the objective takes a 20th of epsilon; 1 without noise", Range: config.Positive(),
		Help: "Weight of the start of an item's embedding in objective-perturbation, in ratings. A smaller weight costs more of epsilon.",
	})
	dimensions = config.DeclareNumber(config.Key{
		Name: "model.dimensions", Kind: config.Whole, Default: "auto", Auto: "a tenth of the items", Range: config.AtLeast(1),
		Help: "Rows that users of gd-dr project their gradients to, at most the items.",
	})
)

func init() {
	stepping := fedmf.Central("sgd-mf", "matrix factorization on all ratings in one place, without privacy: a reference for the others", "")
	stepping.Keys = append(stepping.Keys, fedmf.LearningRate.Key, epochs.Key)
	algorithm.MustRegister(&method{stepping, openCentral, writtenUsers})

	perturbed := fedmf.Central("objective-perturbation", "fits items to ratings and to noise that is drawn once, in one place: what VFL-SGDMF is compared with", "FMF, Figure 5; Hua, Xia, Zhong 2015")
	perturbed.Private, perturbed.Noise, perturbed.Rank = true, algorithm.ObjectiveNoise, algorithm.Always(1)
	perturbed.Keys = append(perturbed.Keys, fedmf.ClipRatings.Key, itemRidge.Key)
	perturbed.Units, perturbed.Relation, perturbed.OtherUnit = []dp.Unit{dp.Rating, dp.User}, dp.AddRemove, ""
	algorithm.MustRegister(&method{perturbed, openObjective, fittedUsers})

	responding := fedmf.Central("gd-dr", "matrix factorization from randomized signs of users, simulated in one place: what LFL-SGDMF is compared with", "FMF, Figure 10; Shin, Kim, Shin, Xiao 2018")
	responding.Private, responding.Noise, responding.Rank, responding.Rounds = true, algorithm.ResponseNoise, algorithm.Always(1), algorithm.Always(10)
	responding.Keys = append(responding.Keys, algorithm.Rounds.Key, fedmf.LearningRate.Key, dimensions.Key)
	responding.OtherUnit = "a message of gd-dr hides all ratings of the user who sends it: privacy is stated per user"
	algorithm.MustRegister(&method{responding, openResponse, writtenUsers})
}
