package experiment

import (
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/fedmf"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// What VFL and HFL have in common: parties are organisations, which noise their
// own training.

// chooseSilo replaces the autos of organisations.
func (e *Experiment) chooseSilo() {
	c := &e.Config
	c.Parties, c.LocalSteps = Fixed(float64(c.parties())), Fixed(float64(c.localSteps()))
	c.ClipRatings = Fixed(float64(c.clipRatings()))
	if c.Algorithm.horizontal() && c.Train == "auto" {
		c.Train = trainItems
		if c.Algorithm == HFLSynSGD {
			c.Train = trainBoth
		}
	}
	if c.Parties.Value == 1 {
		c.Secagg = "none"
	}
	c.Model.Density = Fixed(c.Model.Density.Or(e.publishedDensity()))
}

// The words of train.
const (
	trainItems = "items"
	trainBoth  = "both"
)

// publishedDensity is τ for a data set whose counts are published under its
// name, and else a guess: reading it off the ratings would cost privacy, and
// learning rates are all that it scales.
func (e *Experiment) publishedDensity() float64 {
	if known, ok := publishedSet(e.Data.Name); ok {
		return float64(known.Ratings) / float64(known.Users) / float64(known.Items)
	}
	return defaultDensity
}

const defaultDensity = 0.01

// siloParams are the settings of the parties but for the learning rates.
func (e *Experiment) siloParams() fedmf.SiloParams {
	c := e.Config
	p := fedmf.SiloParams{
		Params: e.Params, Users: e.Data.Users, Unit: dp.Unit(c.Unit), Clipping: fedmf.Clipping(c.Clipping),
		Rounds: c.rounds(), LocalSteps: int(c.LocalSteps.Value),
		SamplingRate: c.SamplingRate, Density: c.Model.Density.Value, ClipRatings: int(c.ClipRatings.Value),
		TrainUsers: c.Train == trainBoth, FineTune: c.Model.FineTune, FineTuneRate: c.Model.FineTuneRate,
	}
	if c.Algorithm.vertical() {
		p.ItemSteps = c.ItemSteps
	}
	p.Clip = c.ClipNorm.Value
	return p
}

// prepareSilo sets up parties with noise of their own. spread says that a unit may
// be in the data of all of them.
func (e *Experiment) prepareSilo(rows int, spread bool) error {
	c := e.Config
	e.silo = e.siloParams()
	var noise protocol.Noise
	if c.Private() {
		var err error
		if noise, err = e.calibrateOwn(e.silo.Rounds*e.silo.LocalSteps+e.silo.ItemSteps, spread); err != nil {
			return err
		}
	}
	e.chooseRates(e.silo, noise.Multiplier)
	e.silo.UserRate, e.silo.ItemRate = e.Config.Model.UserRate.Value, e.Config.Model.ItemRate.Value
	if err := e.silo.Validate(); err != nil {
		return &ConfigError{err}
	}
	release := e.silo.Release(rows)
	if c.Algorithm == HFLSynSGD {
		release = e.silo.GradientRelease(e.Data.Users/e.Cohort.Clients, noise.Multiplier)
	}
	release.Noise = noise
	e.Steps = e.uniformly(release, model.EncodedSize(rows, e.Params.Rank))
	if more := e.silo.ItemSteps; c.Private() && more > 0 {
		e.Steps.EndWith(noise.Steps + more)
	}
	return nil
}

// average makes the server's side, the shared embeddings at their start.
func (e *Experiment) average(start *model.Matrix) (*fedmf.Average, error) {
	return fedmf.NewAverage(fedmf.AverageParams{
		SiloParams: e.silo, Start: start, Gradients: e.Config.Algorithm == HFLSynSGD,
		Session: e.session, Cohort: e.Cohort, Release: *e.Steps.First(),
	})
}
