package experiment

import (
	"fmt"
	"math"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// target is the budget that noise is calibrated to.
func (e *Experiment) target() dp.Budget {
	b := e.Privacy.Budget
	b.Epsilon = e.Config.Epsilon.Value
	return b
}

// calibrateSplit finds the least distributed noise with which all attempts together
// keep ε. shares[i][j] is what release j of step i takes of μ² in each iteration, so
// that its variance is in proportion to its squared sensitivity over its share, and
// over the run they add up to 1; nil where there is but one release.
func (e *Experiment) calibrateSplit(shares [][]float64) error {
	c, b := e.Config, &e.Privacy.Budget
	_, coordinates := e.Steps.Vectors()
	b.SamplerError = dp.SamplerError(e.Cohort.Clients, coordinates, 1)
	var events []dp.Event
	for i, step := range e.Steps {
		for j, r := range step.Releases {
			d2, d1 := r.Bounds()
			ev := dp.Skellam(1, d2, d1).Times(step.Iterations)
			if shares != nil {
				ev.Variance = d2 * d2 / shares[i][j]
			}
			events = append(events, ev)
		}
	}
	factor, reached, err := dp.SkellamFactor(e.target(), events)
	if err != nil {
		return &ConfigError{fmt.Errorf("epsilon %v over %d rounds: %w", c.Epsilon.Value, e.Steps.Iterations(), err)}
	}
	kind := protocol.Split
	if c.Noise == "replace" {
		kind, e.Privacy.Claimed = protocol.Replace, reached.Epsilon
	}
	n := 0
	for _, r := range e.Steps.All() {
		r.Noise = protocol.Noise{Kind: kind, Variance: factor * events[n].Variance}
		n++
	}
	b.Epsilon = c.Epsilon.Value
	if e.Privacy.Run, err = e.charges(e.Steps.Iterations()); err != nil {
		return err
	}
	if kind == protocol.Replace {
		if err := e.agreeToWorst(); err != nil {
			return err
		}
	}
	return e.checkSamplers()
}

// agreeToWorst sets the budget of clients whose noise is replaced: what the
// scheme really costs at the worst, which is more than it claims.
func (e *Experiment) agreeToWorst() error {
	c, b := e.Config, &e.Privacy.Budget
	// At the edge of gdp-skellam's region more noise is charged more, so the
	// most that a view may hold must be inside for the worst case to be one.
	for _, r := range e.Steps.All() {
		widest := r.Noise.Variance * float64(e.Cohort.Honest(e.Cohort.Clients)) / float64(e.Cohort.Honest(e.Cohort.Required()))
		if b.Accountant == dp.GDPSkellam && widest > dp.CertifiedMaxVariance {
			return &ConfigError{fmt.Errorf("accountant gdp-skellam is certified up to a variance of %g, and a view of replaced noise may have %.3g; use rdp", dp.CertifiedMaxVariance, widest)}
		}
	}
	worst, err := e.epsilon(e.Privacy.Run)
	if err != nil {
		return err
	}
	if math.IsInf(worst.Epsilon, 1) {
		return &ConfigError{fmt.Errorf("epsilon %v with replaced noise really costs more than the samplers' error can bear at delta %v; lower epsilon", c.Epsilon.Value, b.Delta)}
	}
	b.Epsilon = worst.Epsilon
	return nil
}

// checkSamplers refuses noise that the samplers could not draw later.
func (e *Experiment) checkSamplers() error {
	for _, r := range e.Steps.All() {
		if largest, limit := e.drawn(r); largest > limit {
			return &ConfigError{fmt.Errorf("epsilon %v over %d coordinates needs noise of variance %.3g in integers, and samplers go up to %.3g; take a larger epsilon or a smaller rank",
				e.Config.Epsilon.Value, r.Len, largest, limit)}
		}
	}
	return nil
}

// drawn is the variance of the noise that is drawn at once for a release, beside the largest
// that samplers go up to.
func (e *Experiment) drawn(r *protocol.Release) (largest, limit float64) {
	if e.Draw() == secagg.DrawClient {
		return e.Cohort.ShareVariance(r.Noise.Variance), 2 * noise.MaxThinningMean
	}
	return e.Cohort.FinalVariance(r.Noise.Variance, e.Cohort.Clients, 0), 2 * noise.MaxMean
}

// coarsest is the most that rounding may add to a sensitivity, relatively.
const coarsest = 0.1

// coarsen lowers the scale of releases whose noise, in integers, samplers could not draw:
// where there is so much noise a coarser fixed point costs little. It reports false where
// nothing is left to be gained.
func (e *Experiment) coarsen() bool {
	changed := false
	for _, r := range e.Steps.All() {
		const step = 2
		added := math.Sqrt(float64(r.MaxNonZero)) / (2 * r.Scale * r.L2)
		if largest, limit := e.drawn(r); largest > limit && step*added <= coarsest {
			r.Scale /= step
			changed = true
		}
	}
	return changed
}

// gridStep is by how much pld may state less for more steps, where it changes to
// another grid: noise is made for a budget that is smaller by so much, so that no
// ledger refuses the last step for it.
const gridStep = 5e-5

// calibrateOwn finds the least noise with which the local steps of a run keep ε
// for every unit. spread says that a unit may be in the data of all parties, and
// so in the steps of all of them.
func (e *Experiment) calibrateOwn(steps int, spread bool) (protocol.Noise, error) {
	c := e.Config
	parties := 1
	if spread {
		parties = e.Cohort.Clients
	}
	target := e.target()
	target.Epsilon *= 1 - gridStep
	z, _, err := dp.NoiseMultiplier(target, steps*parties, c.SamplingRate)
	if err != nil {
		return protocol.Noise{}, &ConfigError{fmt.Errorf("epsilon %v over %d steps: %w", c.Epsilon.Value, steps*parties, err)}
	}
	n := protocol.Noise{Kind: protocol.Own, Multiplier: z, SamplingRate: c.SamplingRate, Steps: steps, Spread: spread}
	run := &protocol.Plan{Cohort: e.Cohort, Releases: []protocol.Release{{Noise: n}}}
	if e.Privacy.Run, err = run.Charges(); err != nil {
		return n, err
	}
	e.Privacy.Budget.Epsilon = c.Epsilon.Value
	n.Steps = int(c.LocalSteps.Value)
	return n, nil
}
