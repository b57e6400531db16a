package fedmf

import (
	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// partyInstance is what VFL and HFL have in common: clients are organisations, which noise
// their own training.
type partyInstance struct {
	setup     *algorithm.Setup
	silo      PartyParams
	gradients bool
	parts     dataset.Partition // who owns which items, or users; nil where that is private
}

// openParties sets up rows of shared embeddings. spread says that a unit may be in the data
// of all parties.
func openParties(s *algorithm.Setup, p Params, clients algorithm.Clients, gradients bool, rows int, spread bool) (*partyInstance, error) {
	if algorithm.Parties.Value(s.Config) == 1 {
		algorithm.Secagg.Set(&s.Config, "none")
	}
	x := &partyInstance{setup: s, silo: siloParamsOf(s, p, clients), gradients: gradients}
	noise, err := s.CalibrateParty(x.silo.Rounds*x.silo.LocalSteps+x.silo.ItemSteps, x.silo.LocalSteps, x.silo.SamplingRate, spread)
	if err != nil {
		return nil, err
	}
	chooseRates(s, &x.silo, clients, noise.Multiplier)
	if err := x.silo.Validate(); err != nil {
		return nil, config.Wrap(err)
	}
	release := x.silo.Release(rows)
	if gradients {
		release = x.silo.GradientRelease(s.Data.Users/s.Cohort.Clients, noise.Multiplier)
	}
	release.Noise = noise
	s.Schedule = algorithm.Uniformly(x.silo.Rounds, release, model.EncodedSize(rows, p.Rank))
	if more := x.silo.ItemSteps; s.Private() && more > 0 {
		s.Schedule.EndWith(noise.Steps + more)
	}
	return x, nil
}

// average makes the server's side, the shared embeddings at their start.
func (x *partyInstance) average(session protocol.SessionID, start *model.Matrix) (*Average, error) {
	return NewAverage(AverageParams{
		PartyParams: x.silo, Start: start, Gradients: x.gradients,
		Session: session, Cohort: x.setup.Cohort, Release: *x.setup.Schedule.First(),
	})
}

// localSteps are the noised steps of a party, both on users and items or on items alone.
func (x *partyInstance) localSteps(both bool) []algorithm.LocalSteps {
	var list []algorithm.LocalSteps
	add := func(count int, sensitivity float64) {
		if count > 0 {
			list = append(list, algorithm.LocalSteps{Count: count, Sensitivity: sensitivity})
		}
	}
	add(x.silo.Rounds*x.silo.LocalSteps, x.silo.Sensitivity(both))
	add(x.silo.ItemSteps, x.silo.Sensitivity(false))
	return list
}
