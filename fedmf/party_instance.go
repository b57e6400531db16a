package fedmf

import (
	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/fedmf/kernel"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// partyInstance is the common part of VFL and HFL: clients are organisations, which noise their own
// training.
type partyInstance struct {
	setup     *algorithm.Setup
	params    kernel.PartyParams
	gradients bool
	parts     split.Partition // each party's items or users; nil if they are private
}

// steps says how the steps of parties differ from plain steps.
type steps struct {
	gradients bool // parties send gradients and not embeddings
	langevin  bool
}

// openParties sets up rows of shared embeddings. spread says that a unit may be in the data of all
// parties.
func openParties(s *algorithm.Setup, p kernel.Params, clients algorithm.Clients, kind steps, rows int, spread bool) (*partyInstance, error) {
	if algorithm.Parties.Value(s.Config) == 1 {
		algorithm.Secagg.Set(&s.Config, "none")
	}
	x := &partyInstance{setup: s, params: partyParamsOf(s, p, clients), gradients: kind.gradients}
	calibrate := s.CalibrateParty
	if kind.langevin {
		calibrate = s.CalibrateByComposition
		x.params.Clipping, x.params.Prior = kernel.ResidualClipping, prior.Value(s.Config)
	}
	noise, err := calibrate(x.params.Rounds*x.params.LocalSteps+x.params.ItemSteps, x.params.LocalSteps, x.params.SamplingRate, spread)
	if err != nil {
		return nil, err
	}
	chooseRates(s, &x.params, clients, noise.Multiplier)
	if err := x.params.Validate(); err != nil {
		return nil, config.Wrap(err)
	}
	release := x.params.Release(rows)
	if kind.gradients {
		release = x.params.GradientRelease(s.Data.Users/s.Cohort.Clients, noise.Multiplier)
	}
	release.Noise = noise
	s.Schedule = algorithm.UniformSchedule(x.params.Rounds, release, model.EncodedSize(rows, p.Rank))
	if more := x.params.ItemSteps; s.Private() && more > 0 {
		s.Schedule.EndWith(noise.Steps + more)
	}
	return x, nil
}

// average makes the server's side, with the shared embeddings at their start.
func (x *partyInstance) average(session protocol.SessionID, start *model.Matrix) (*kernel.Average, error) {
	return kernel.NewAverage(kernel.AverageParams{
		PartyParams: x.params, Start: start, Gradients: x.gradients,
		Session: session, Cohort: x.setup.Cohort, Release: *x.setup.Schedule.First(),
	})
}

// localSteps returns the noised steps of a party, both on users and items or on items alone.
func (x *partyInstance) localSteps(both bool) []algorithm.LocalSteps {
	var list []algorithm.LocalSteps
	add := func(count int, sensitivity float64) {
		if count > 0 {
			list = append(list, algorithm.LocalSteps{Count: count, Sensitivity: sensitivity})
		}
	}
	add(x.params.Rounds*x.params.LocalSteps, x.params.Sensitivity(both))
	add(x.params.ItemSteps, x.params.Sensitivity(false))
	return list
}

// watch prepares the steps of a party.
func (x *partyInstance) watch(both, full bool, src entropy.Source) (func() (float64, error), error) {
	return x.params.Watch(kernel.Watched{Gradients: x.gradients, Both: both, Full: full, Noise: x.setup.Schedule.Noise()}, src)
}
