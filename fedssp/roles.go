package fedssp

import (
	"errors"
	"fmt"

	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/fedssp/serving"
	"github.com/fedsim/fedsim/fedssp/stage"
	"github.com/fedsim/fedsim/fedssp/user"
	"github.com/fedsim/fedsim/internal/problems"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// NewUser returns the trainer of a user with the given ratings, which it keeps and does not change.
// A user may have none. Items must ascend and be within the settings, and values be on the scale.
// For other ratings Contribute returns an error, to the owner only.
func NewUser(p *kernel.Params, r model.UserRatings) *user.User {
	return &NewUsers(p, 1, model.Alone(r))[0]
}

// NewUsers returns the trainers of many users of one process.
func NewUsers(p *kernel.Params, n int, all model.RatingsByUser) []user.User {
	return user.New(p, stage.ClientSides(p), n, all, model.NewRowArena(n, p.Width()))
}

// New returns a strategy with the model at its start.
func New(p serving.StrategyParams) (*serving.Strategy, error) {
	want, err := stage.Steps(p.Params)
	errs := problems.List{err, p.Cohort.Validate()}
	if err == nil {
		errs = append(errs, checkSteps(p.Steps, want))
	}
	if err = errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("fedssp: %w", err)
	}
	return serving.New(p, stage.ServerSides)
}

// checkSteps checks that the steps match the settings' schedule, and are complete.
func checkSteps(got, want []kernel.Step) error {
	if len(got) != len(want) {
		return fmt.Errorf("there are %d steps; the settings make %d", len(got), len(want))
	}
	var errs problems.List
	for i, s := range got {
		if s.Phase != want[i].Phase || len(s.Releases) != len(want[i].Releases) {
			return fmt.Errorf("step %d is %q with %d releases; it must be %q with %d", i+1, s.Phase, len(s.Releases), want[i].Phase, len(want[i].Releases))
		}
		for k, r := range s.Releases {
			bare := r
			bare.Scale, bare.Width, bare.Noise = 0, 0, protocol.Noise{}
			errs.If(bare != want[i].Releases[k],
				"step %d: release %q has other bounds than the settings make; set scale, width and noise only", i+1, r.Name)
			errs = append(errs, r.Validate())
		}
	}
	return errors.Join(errs...)
}
