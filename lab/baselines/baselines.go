// Package baselines has the recommenders that a reader expects beside private ones: EASE,
// neighbours of items, alternating least squares of ratings and of clicks, and BPR. All ratings are in one place, and
// nothing is protected.
package baselines

import (
	"cmp"
	"context"
	"fmt"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// method is a way to learn from all ratings.
type method struct {
	about  algorithm.About
	passes func(config.Config) int
	start  func(*algorithm.Setup) (learner, error)
}

// learner is a model in training. It predicts a number per item for a user that training has seen,
// and scores items for any history. It is safe for concurrent use between two passes.
type learner interface {
	model.Predictor
	eval.Scorer
	// pass trains once more on all ratings. Passes count from 1.
	pass(number int, run protocol.Runner) error
	// state returns the state between two passes, and restore takes it back.
	state() []byte
	restore([]byte) error
	// matrices lists what is kept of the model, with rows for held-out users too.
	matrices(protocol.Runner) []model.Named
}

func init() {
	algorithm.MustRegister(als())
	for _, m := range []*method{ease(), itemKNN()} {
		algorithm.MustRegister(m)
	}
	exact, descends := ials()
	for _, m := range []*method{exact, descends, bpr()} {
		algorithm.MustRegister(&factorizer{m})
	}
}

// about describes a method that ranks by what users like.
func about(name, help, paper string, rank float64, keys ...*config.Key) algorithm.About {
	return algorithm.About{
		Name: name, Help: help + ", in one place, without privacy", Paper: paper, Clients: algorithm.Nobody, OnlyRanks: true,
		Units: []dp.Unit{dp.User}, OtherUnit: name + " protects nothing", Relation: dp.ZeroOut,
		Keys:   append([]*config.Key{algorithm.Feedback.Key, algorithm.Positive.Key, algorithm.SplitLeast.Key, algorithm.SplitTarget.Key, algorithm.SplitUsers.Key}, keys...),
		Rounds: func(config.Config) float64 { return 0 },
		Rank:   func(config.Config) float64 { return rank },
		CheckFeedback: func(c config.Config) string {
			if algorithm.Feedback.Is(c, "explicit") {
				return fmt.Sprintf("%s ranks by what users like and predicts no ratings; leave feedback at implicit", name)
			}
			return ""
		},
	}
}

func (m *method) About() *algorithm.About { return &m.about }

func (m *method) Open(s *algorithm.Setup) (algorithm.Instance, error) {
	l, err := m.start(s)
	return &instance{setup: s, method: m, learner: l}, err
}

// once is the number of passes of a method with a closed form.
func once(config.Config) int { return 1 }

type instance struct {
	algorithm.OnePlace
	setup   *algorithm.Setup
	method  *method
	learner learner
}

func (x *instance) Epochs() int { return x.method.passes(x.setup.Config) }

func (x *instance) Baselines() []algorithm.Baseline {
	return []algorithm.Baseline{algorithm.NonPrivate(x.setup, nil)}
}

func (x *instance) Train(ctx context.Context, run protocol.Runner, from algorithm.Passes, _ entropy.Source, passed func(algorithm.Epoch) error) (*model.Trained, error) {
	l := x.learner
	if from.Done > 0 {
		if err := l.restore(from.State); err != nil {
			return nil, err
		}
	}
	for n := from.Done + 1; n <= x.Epochs(); n++ {
		if err := cmp.Or(l.pass(n, run), ctx.Err()); err != nil {
			return nil, err
		}
		if err := passed(algorithm.Epoch{Number: n, Model: l, Save: l.state}); err != nil {
			return nil, err
		}
	}
	return &model.Trained{Predictor: l, Matrices: l.matrices(run)}, nil
}

// atOnce is the part of a learner with a closed form: there is nothing between its passes.
type atOnce struct{}

func (atOnce) state() []byte { return nil }
func (atOnce) restore([]byte) error {
	return fmt.Errorf("baselines: a closed form has no state to continue from")
}
func (atOnce) matrices(protocol.Runner) []model.Named { return nil }

// histories returns the ratings by which a model knows its users: the training ratings and the
// histories of held-out users.
func histories(s *algorithm.Setup) *dataset.Rows {
	all := dataset.Ratings{Users: s.Ratings.Users, Items: s.Ratings.Items}
	parts := []dataset.Ratings{s.Ratings}
	if s.Held != nil && !s.Held.Seen {
		parts = append(parts, s.Held.Validation.History, s.Held.Test.History)
	}
	for _, p := range parts {
		p.Each(func(u, j int32, x float32) {
			all.User, all.Item, all.Value = append(all.User, u), append(all.Item, j), append(all.Value, x)
		})
	}
	return all.ByUser()
}

// turned returns ratings with users and items in each other's place, by item.
func turned(r dataset.Ratings) *dataset.Rows {
	return dataset.Ratings{Users: r.Items, Items: r.Users, User: r.Item, Item: r.User, Value: r.Value}.ByUser()
}

func pickAt(scores []float64, items []int32, out []float64) {
	for i, j := range items {
		out[i] = scores[j]
	}
}
