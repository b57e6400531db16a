package algorithm

import (
	"cmp"
	"math"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/protocol"
)

// target returns the budget to which noise is calibrated.
func (s *Setup) target() dp.Budget {
	b := s.Privacy.Budget
	b.Epsilon = Epsilon.Value(s.Config)
	return b
}

// CalibrateSplit finds the least distributed noise with which all attempts together keep ε, and sets it in the releases of the
// schedule. shares[i][j] is the part of μ² that release j of step i takes in each round. The release's variance is in proportion to
// its squared sensitivity over its share, and over the run the shares add up to 1. shares is nil if there is only one release.
// Where samplers could not draw so much noise, the fixed point gets coarser. Where noise would be less than one integer can hide,
// it gets finer. CalibrateSplit does nothing in a run without privacy.
func (s *Setup) CalibrateSplit(shares [][]float64) error {
	if !s.Private() {
		return nil
	}
	for {
		reached, err := s.calibrateSplit(shares)
		if err == nil && s.refine(reached.Epsilon) {
			continue
		}
		if shares == nil || !s.coarsen() {
			return err
		}
	}
}

// calibrateSplit calibrates at the scales as they are, and returns what the run then costs.
func (s *Setup) calibrateSplit(shares [][]float64) (dp.Result, error) {
	b := &s.Privacy.Budget
	_, coordinates := s.Schedule.Vectors()
	s.samplers(dp.SamplerError(s.Cohort.Clients, coordinates, 1))
	var variances []float64
	for i, step := range s.Schedule {
		for j, r := range step.Releases {
			v := 1.
			if shares != nil {
				d2, _ := r.Bounds()
				v = d2 * d2 / shares[i][j]
			}
			variances = append(variances, v)
		}
	}
	noised := func(kind protocol.NoiseKind, factor float64) {
		n := 0
		for _, r := range s.Schedule.All() {
			r.Noise = protocol.Noise{Kind: kind, Variance: factor * variances[n], SamplingRate: r.Noise.SamplingRate}
			n++
		}
	}
	epsilon := Epsilon.Value(s.Config)
	var refused error
	factor, reached, err := dp.CalibrateFactor(s.target(), variances, func(factor float64) (events []dp.Event) {
		noised(protocol.Split, factor)
		events, refused = s.Charges(s.Schedule.Rounds())
		return events
	})
	if err = cmp.Or(refused, err); err != nil {
		return reached, config.Errorf("epsilon %v over %d rounds: %w", epsilon, s.Schedule.Rounds(), err)
	}
	kind := protocol.Split
	switch {
	case Noise.Is(s.Config, protocol.LocalNoise.String()):
		kind = protocol.LocalNoise
	case Noise.Is(s.Config, "replace"):
		kind, s.Privacy.Claimed = protocol.TwoRound, reached.Epsilon
	}
	noised(kind, factor)
	b.Epsilon = epsilon
	if s.Privacy.Run, err = s.Charges(s.Schedule.Rounds()); err != nil {
		return reached, err
	}
	if kind == protocol.TwoRound {
		if err := s.agreeToWorst(); err != nil {
			return reached, err
		}
	}
	return reached, s.checkSamplers()
}

// samplers sets how the statement treats failure, the samplers' error over the whole run. δ includes the error if that takes at most
// half of δ. At a larger ε it cannot: the error counts e^ε times, so the noise would stop falling at some ε (36 for 610 users and 9,742
// items). There ε is calibrated for exact noise, and the statement says how far the drawn noise is from it.
func (s *Setup) samplers(failure float64) {
	b := &s.Privacy.Budget
	b.SamplerError, s.Privacy.NoiseDistance = failure, 0
	if failure*(1+math.Exp(Epsilon.Value(s.Config))) > b.Delta/2 {
		b.SamplerError, s.Privacy.NoiseDistance = 0, failure
	}
}

// agreeToWorst sets the budget of clients whose noise is replaced: what the
// scheme really costs at the worst, which is more than it claims.
func (s *Setup) agreeToWorst() error {
	b := &s.Privacy.Budget
	worst, err := s.Cost(s.Privacy.Run)
	if err != nil {
		return err
	}
	if math.IsInf(worst.Epsilon, 1) {
		return config.Errorf("epsilon %v with replaced noise really costs more than the samplers' error can bear at delta %v; lower epsilon", Epsilon.Value(s.Config), b.Delta)
	}
	b.Epsilon = worst.Epsilon
	return nil
}

// checkSamplers refuses noise that the samplers could not draw later.
func (s *Setup) checkSamplers() error {
	for _, r := range s.Schedule.All() {
		if largest, limit := s.drawn(r); largest > limit {
			return config.Errorf("epsilon %v over %d coordinates needs noise of variance %.3g in integers, and samplers go up to %.3g; take a larger epsilon or a smaller rank",
				Epsilon.Value(s.Config), r.Len, largest, limit)
		}
	}
	return nil
}

// drawn is the variance of the noise that is drawn at once for a release, beside the largest that samplers go up to.
func (s *Setup) drawn(r *protocol.Release) (largest, limit float64) {
	if NoiseDraw.Is(s.Config, "client") {
		return s.drawnByClients(r)
	}
	return s.drawnForSum(r)
}

func (s *Setup) drawnByClients(r *protocol.Release) (largest, limit float64) {
	return r.Noise.Share(s.Cohort), 2 * noise.MaxThinningMean
}

func (s *Setup) drawnForSum(r *protocol.Release) (largest, limit float64) {
	return r.Noise.Final(s.Cohort, s.Cohort.Wanted(), 0), 2 * noise.MaxMean
}

// coarsest is the most that rounding may add to a sensitivity, relatively, so that noise can be drawn at all. unasked is the most
// that it may add so that noise could be drawn the other way too. hurried is the most that it may add so that the sampler's tables are small and soon made.
const (
	coarsest = 0.1
	unasked  = 0.01
	hurried  = 0.004
)

// ample is noise, as a variance in integers for each client, beside which rounding is nothing: of a client it
// has a variance of at most 1/4.
const ample = 1 << 12

// coarsen lowers the scale of releases whose noise, in integers, samplers could not draw:
// where there is so much noise a coarser fixed point costs little. It lowers it a little, too, where noise is ample. It reports false where
// nothing is left to be gained. Whether clients draw the noise or it is drawn for their sum hardly ever decides
// what is released, so that a simulation of either is one of the other.
func (s *Setup) coarsen() bool {
	changed := false
	for _, r := range s.Schedule.All() {
		const step = 2
		added := rounding(*r, r.Scale)
		var most float64
		one, mostOfOne := s.drawnByClients(r)
		sum, mostOfSum := s.drawnForSum(r)
		switch largest, limit := s.drawn(r); {
		case largest > limit:
			most = coarsest
		case one > mostOfOne || sum > mostOfSum: // one of the two ways could not draw it
			most = unasked
		case r.Noise.Variance > ample*float64(s.Cohort.Clients):
			most = hurried
		}
		if step*added <= most {
			r.Scale /= step
			changed = true
		}
	}
	return changed
}

// finest bounds the integers of one client's contribution: up to it a float64 holds them all, and a ring holds the sum of any cohort.
const finest = 1 << 52

// refine raises the scale of releases with noise at or below dp.MinGaussianVariance, in integers, and reports whether it raised any.
// Only a large ε asks for so little noise. There the theorem of gdp-skellam ends, so that without a finer fixed point noise would stop
// falling as ε grows. cost is the ε at the scales as they are: noise variance falls about as 1/ε.
func (s *Setup) refine(cost float64) bool {
	changed := false
	for _, r := range s.Schedule.All() {
		v := r.Noise.Variance
		if !(v > 0 && v <= dp.MinGaussianVariance*(1+1e-6)) {
			continue
		}
		short := max(4, dp.MinGaussianVariance/v, Epsilon.Value(s.Config)/cost)
		by := math.Exp2(min(1000, math.Ceil(math.Log2(short)/2))) // finite, also at no cost
		largest, _ := r.VectorBounds()
		for by > 1 && largest*by*max(1, float64(s.Cohort.Clients)/1024) > finest {
			by /= 2
		}
		if by > 1 {
			r.Scale *= by
			changed = true
		}
	}
	return changed
}

// gridStep bounds the relative amount by which pld may state a lower ε for more steps, where it changes to another grid. Noise is
// made for a budget that is smaller by this amount, so that no ledger refuses the last step.
const gridStep = 5e-5

// CalibrateParty finds the least noise with which a party's steps over a run keep ε for every unit, on samples of a rate; each
// takes perRound of them in a round. spread says that a unit may be in the data of all parties, and so in the steps of all of them.
// Without privacy there is none.
func (s *Setup) CalibrateParty(steps, perRound int, rate float64, spread bool) (protocol.Noise, error) {
	return s.calibrateParty(steps, perRound, rate, spread, func(all int) (float64, error) {
		target := s.target()
		target.Epsilon *= 1 - gridStep
		z, _, err := dp.NoiseMultiplier(target, all, rate)
		return z, err
	})
}

// CalibrateByComposition works as CalibrateParty with the noise that strong composition requires, as in a
// published algorithm. The budget becomes the real cost of that noise, and ε the claimed cost.
func (s *Setup) CalibrateByComposition(steps, perRound int, rate float64, spread bool) (protocol.Noise, error) {
	n, err := s.calibrateParty(steps, perRound, rate, spread, func(all int) (float64, error) { return dp.StrongMultiplier(s.target(), all, rate) })
	if err != nil || !s.Private() {
		return n, err
	}
	real, err := s.Cost(s.Privacy.Run)
	if err != nil {
		return n, err
	}
	s.Privacy.Claimed = s.Privacy.Budget.Epsilon
	s.Privacy.Budget.Epsilon = real.Epsilon * (1 + gridStep)
	return n, nil
}

// calibrateParty sets the noise of a party's steps, whose multiplier it is told for all of them.
func (s *Setup) calibrateParty(steps, perRound int, rate float64, spread bool, multiplier func(steps int) (float64, error)) (protocol.Noise, error) {
	if !s.Private() {
		return protocol.Noise{}, nil
	}
	parties := 1
	if spread {
		parties = s.Cohort.Clients
	}
	epsilon := Epsilon.Value(s.Config)
	z, err := multiplier(steps * parties)
	if err != nil {
		return protocol.Noise{}, config.Errorf("epsilon %v over %d steps: %w", epsilon, steps*parties, err)
	}
	n := protocol.Noise{Kind: protocol.PartyNoise, Multiplier: z, SamplingRate: rate, Steps: steps, Spread: spread}
	run := &protocol.Plan{Cohort: s.Cohort, Releases: []protocol.Release{{Noise: n}}}
	if s.Privacy.Run, err = run.Charges(); err != nil {
		return n, err
	}
	s.Privacy.Budget.Epsilon = epsilon
	n.Steps = perRound
	return n, nil
}

// Cost returns the cost of events at the run's δ.
func (s *Setup) Cost(events []dp.Event) (dp.Result, error) {
	b := s.Privacy.Budget
	return dp.Problem{Events: events, Delta: b.Delta, Accountant: b.Accountant, SamplerError: b.SamplerError}.Epsilon()
}

// Charges returns the total charges of the first attempts, together. Where clients take turns, it returns the charges of a client
// that has as many turns of each step as a client can have ([protocol.Cohort.Turns]).
func (s *Setup) Charges(attempts int) ([]dp.Event, error) {
	return s.Schedule.Charges(s.Cohort, 0, attempts)
}
