package fmf

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/fedmf"
	"github.com/fedsim/fedsim/fedmf/kernel"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// centralInstance is matrix factorization with all ratings in one place.
type centralInstance struct {
	algorithm.OnePlace
	setup  *algorithm.Setup
	params kernel.Params
}

// centralLearningRate is the step of sgd-mf for one rating.
const centralLearningRate = 0.01

func openCentral(s *algorithm.Setup, p kernel.Params) (algorithm.Instance, error) {
	fedmf.LearningRate.Set(&s.Config, fedmf.LearningRate.Or(s.Config, centralLearningRate))
	return &centralInstance{setup: s, params: p}, nil
}

func (x *centralInstance) Epochs() int { return epochs.Int(x.setup.Config) }

func (x *centralInstance) Train(ctx context.Context, run protocol.Runner, from algorithm.Passes, _ entropy.Source, passed func(algorithm.Epoch) error) (*model.Trained, error) {
	p := CentralParams{
		Params: x.params, Epochs: x.Epochs(), LearningRate: fedmf.LearningRate.Value(x.setup.Config), Done: from.Done,
		Passed: func(epoch int, f *model.Factors) error {
			return passed(algorithm.Epoch{Number: epoch, Model: f, Save: func() []byte { return slices.Concat(f.Users.Encode(), f.Items.Encode()) }})
		},
	}
	if from.Done > 0 {
		var err error
		if p.From, err = x.restore(from.State); err != nil {
			return nil, err
		}
	}
	f, err := Central(ctx, x.setup.Ratings, p, run)
	if err != nil {
		return nil, err
	}
	return model.OfFactors(f), nil
}

// restore reads the embeddings of users, then the embeddings of items, as [model.Matrix.Encode]
// writes them.
func (x *centralInstance) restore(state []byte) (*model.Factors, error) {
	users, items := x.setup.Ratings.Users, x.setup.Ratings.Items
	cut := min(len(state), model.EncodedSize(users, x.params.Rank))
	u, err := model.NewBroadcast(state[:cut], users, x.params.Rank)
	v, err2 := model.NewBroadcast(state[cut:], items, x.params.Rank)
	if err = errors.Join(err, err2); err != nil {
		return nil, fmt.Errorf("fmf: a state of other users or items: %w", err)
	}
	return &model.Factors{Users: u.Matrix(), Items: v.Matrix()}, nil
}

func (x *centralInstance) Baselines() []algorithm.Baseline {
	return append(fedmf.StartBaselines(x.setup, x.params, alone), algorithm.NonPrivate(x.setup, nil))
}
