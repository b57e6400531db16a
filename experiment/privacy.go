package experiment

import (
	"fmt"
	"math"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// Privacy is what an experiment promises.
type Privacy struct {
	Budget  dp.Budget  // of each client; Epsilon +Inf without noise
	Planned []dp.Event // what one iteration costs a client at the most; none without noise
	Claimed float64    // with replaced noise: the ε that the published analysis would state; else 0
}

// calibrate finds the least noise with which all attempts together keep ε.
func (e *Experiment) calibrate() error {
	c := e.Config
	if err := dp.CheckDelta(c.Delta.Value, e.Data.Users); err != nil {
		return &ConfigError{fmt.Errorf("delta: %w", err)}
	}
	b := &e.Privacy.Budget
	b.SamplerError = dp.SamplerError(e.Cohort.Clients, e.Release.Len, c.Rounds)
	d2, d1 := e.Release.Bounds()
	variance, reached, err := dp.SkellamVariance(
		dp.Target{Epsilon: c.Epsilon.Value, Delta: b.Delta, Accountant: b.Accountant, SamplerError: b.SamplerError},
		dp.Skellam(1, d2, d1).Times(c.Rounds))
	if err != nil {
		return &ConfigError{fmt.Errorf("epsilon %v over %d rounds: %w", c.Epsilon.Value, c.Rounds, err)}
	}
	e.Release.Noise = protocol.Noise{Kind: protocol.Split, Variance: variance}
	b.Epsilon = c.Epsilon.Value
	if c.Noise == "replace" {
		e.Release.Noise.Kind = protocol.Replace
		e.Privacy.Claimed = reached.Epsilon
	}
	if e.Privacy.Planned, err = e.plan().Charges(); err != nil {
		return err
	}
	if c.Noise == "replace" {
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
	widest := e.Release.Noise.Variance * float64(e.Cohort.Honest(e.Cohort.Clients)) / float64(e.Cohort.Honest(e.Cohort.Required()))
	if b.Accountant == dp.GDPSkellam && widest > dp.CertifiedMaxVariance {
		return &ConfigError{fmt.Errorf("accountant gdp-skellam is certified up to a variance of %g, and a view of replaced noise may have %.3g; use rdp", dp.CertifiedMaxVariance, widest)}
	}
	worst, err := e.spent(e.Privacy.Planned, c.Rounds)
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
	n := e.Release.Noise
	largest, limit := e.Cohort.FinalVariance(n.Variance, e.Cohort.Clients, 0), 2.*noise.MaxMean
	if e.Draw() == secagg.DrawClient {
		largest, limit = e.Cohort.ShareVariance(n.Variance), 2.*noise.MaxThinningMean
	}
	if largest > limit {
		return &ConfigError{fmt.Errorf("epsilon %v over %d coordinates needs noise of variance %.3g in integers, and samplers go up to %.3g; take a larger epsilon or a smaller rank",
			e.Config.Epsilon.Value, e.Release.Len, largest, limit)}
	}
	return nil
}

// plan is what any iteration asks for, but for what changes from one to the next.
func (e *Experiment) plan() *protocol.Plan {
	return &protocol.Plan{Cohort: e.Cohort, Releases: []protocol.Release{e.Release}}
}

// spent is what the events of one iteration cost, n times.
func (e *Experiment) spent(events []dp.Event, n int) (dp.Result, error) {
	all := make([]dp.Event, len(events))
	for i, ev := range events {
		all[i] = ev.Times(n)
	}
	return e.epsilon(all)
}

// epsilon is what events cost at the experiment's δ.
func (e *Experiment) epsilon(events []dp.Event) (dp.Result, error) {
	b := e.Privacy.Budget
	return dp.Problem{Events: events, Delta: b.Delta, Accountant: b.Accountant, SamplerError: b.SamplerError}.Epsilon()
}

// Statement is the privacy of a run in which the dearest client spent epsilon.
func (e *Experiment) Statement(spent dp.Result) dp.Statement {
	s := dp.Statement{
		Epsilon: math.Inf(1), Delta: e.Privacy.Budget.Delta, Unit: dp.Unit(e.Config.Unit), Relation: dp.ZeroOut,
		Accountant: e.Privacy.Budget.Accountant, Sampling: dp.NoSampling, Noise: dp.NoNoise,
	}
	if !e.Config.Private() {
		s.Accountant = dp.Unaccounted
	} else {
		s.Epsilon, s.Accountant, s.Noise = spent.Epsilon, spent.Accountant, dp.SkellamNoise
		s.ClaimedEpsilon = e.Privacy.Claimed
	}
	return s
}

// Attempt is what an iteration showed, as far as its price depends on it.
type Attempt struct {
	Survivors, Answered int
	Summed              bool
	Sent                bool // at least one masked input left its client
}

// Spent is what the attempts so far cost the dearest client: what its ledger
// holds, or, with replaced noise, what the views of every sum really showed;
// an attempt that ended without a sum counts at its full planned price.
func (e *Experiment) Spent(ledgers []*dp.Ledger, attempts []Attempt) (dp.Result, error) {
	if e.Release.Noise.Kind == protocol.Replace {
		return e.spentOnViews(attempts)
	}
	var most dp.Result
	for _, l := range ledgers {
		if s := l.Spent(); s.Epsilon >= most.Epsilon {
			most = s
		}
	}
	return most, nil
}

func (e *Experiment) spentOnViews(attempts []Attempt) (dp.Result, error) {
	p := e.plan()
	var all []dp.Event
	for _, a := range attempts {
		switch {
		case a.Summed:
			views, err := p.Views(e.Release, a.Survivors, a.Answered)
			if err != nil {
				return dp.Result{}, err
			}
			all = append(all, views...)
		case a.Sent:
			all = append(all, e.Privacy.Planned...)
		}
	}
	return e.epsilon(all)
}
