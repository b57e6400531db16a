package fmf

import (
	"context"
	"errors"
	"fmt"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/fedmf/kernel"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// CentralParams holds the settings of Central.
type CentralParams struct {
	kernel.Params
	Epochs       int     // passes over the ratings
	LearningRate float64 // of the first 80% of the passes falling to a tenth
	// Passed, if set, is called after each pass.
	Passed func(epoch int, f *model.Factors) error
	// From, if set, holds the embeddings after Done passes; the later passes follow, to the same
	// bits.
	From *model.Factors
	Done int
}

// Validate reports every fault of the settings.
func (p CentralParams) Validate() error {
	errs := []error{p.Params.Validate()}
	if p.Epochs < 1 {
		errs = append(errs, fmt.Errorf("epochs is %d; it must be at least 1", p.Epochs))
	}
	if !(p.LearningRate > 0) {
		errs = append(errs, fmt.Errorf("learning-rate is %v; it must be positive", p.LearningRate))
	}
	if p.From == nil && p.Done != 0 || p.From != nil && (p.Done < 1 || p.Done >= p.Epochs) {
		errs = append(errs, fmt.Errorf("%d of %d passes are done; there must be embeddings that they left, and a pass to follow", p.Done, p.Epochs))
	}
	return errors.Join(errs...)
}

// Central is SGD matrix factorization with embedding clipping on all ratings in one place: one
// projected step on u_i and v_j for each rating of a pass. Ratings are in blocks, which each pass
// takes in a new seeded random order, on all workers of the runner and to the same bits for any
// number of them. It is the ceiling for federations of the same model, and not private.
func Central(ctx context.Context, train dataset.Ratings, p CentralParams, run protocol.Runner) (*model.Factors, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	f := &model.Factors{Users: p.StartUsers(train.Users), Items: p.StartItems()}
	rng := entropy.Public(p.Seed, "baseline/central")
	p.Scatter(f.Users, rng)
	if p.From != nil {
		f = &model.Factors{Users: p.From.Users.Clone(), Items: p.From.Items.Clone()}
	}
	grid := newBlocks(train, rng)
	for epoch := p.Done + 1; epoch <= p.Epochs; epoch++ {
		order := entropy.Public(p.Seed, fmt.Sprint("baseline/central/pass/", epoch))
		grid.pass(f, p.MaxRating, kernel.Schedule(p.LearningRate, epoch, p.Epochs), order, run)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if p.Passed != nil {
			if err := p.Passed(epoch, f); err != nil {
				return nil, err
			}
		}
	}
	return f, nil
}
