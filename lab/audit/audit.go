// Package audit tests a stated ε by attacking it. It lets the parts of a simulation that add and
// take back noise release the same sums thousands of times, in two worlds: with the unit of
// privacy there, and with it empty. It plays the best attacker on everything that server and
// aggregator see. From the attacker's success it computes a lower bound on ε.
//
// A bound above the claim disproves the claim. A bound below the claim proves nothing: it says
// how far this attacker got with so many runs.
package audit

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/protocol"
)

// AuditedEpsilon names the audited ε.
type AuditedEpsilon string

// The claims.
const (
	// Stated is the ε of the run's privacy statement.
	Stated AuditedEpsilon = "stated"
	// Published is the ε that the published analysis of replaced noise states for the same noise.
	Published AuditedEpsilon = "published"
)

// Config is an audit.
type Config struct {
	// Runs counts the times that all releases of the experiment are made in each of the two
	// worlds, at least 40. A learnt attack learns on half of them, and the other half measures it.
	Runs  int
	Claim AuditedEpsilon
	Seed  uint64
	// Workers make runs at once; the result does not depend on them.
	Workers protocol.Workers
	// Select, if set, audits the ε of a private search (fedsim tune --private) whose runs all have the experiment's settings.
	// Runs then counts searches. Of each, only the run with the best score is seen.
	Select *dp.Selection
	// Progress, if set, is told how many of the runs of both worlds are made.
	Progress func(done int)

	mutant mutant
}

// DefaultRuns returns the runs of an audit. Noise of 0.7 of its deviation at ε = 1 was found with as many or fewer in 20 of 20 audits of a
// family (docs/privacy.md). The steps of a party that noises its own training are many in a run, and are measured one by one.
func DefaultRuns(e *experiment.Experiment) int {
	if e.Schedule.Noise().Kind == protocol.PartyNoise {
		return 1000
	}
	return 4000
}

// fewest runs of a world: with fewer no bound of 95% says anything.
const fewest = 40

// Validate reports everything that makes the audit unusable.
func (c Config) Validate() error {
	var errs []error
	if c.Runs < fewest {
		errs = append(errs, fmt.Errorf("runs is %d; there must be at least %d", c.Runs, fewest))
	}
	if c.Claim != Stated && c.Claim != Published {
		errs = append(errs, fmt.Errorf("claim is %q; it must be %s or %s", c.Claim, Stated, Published))
	}
	if c.Select != nil {
		if c.Claim != Stated {
			errs = append(errs, fmt.Errorf("claim is %q; of a search the stated epsilon is audited", c.Claim))
		}
		errs = append(errs, c.Select.Validate())
	}
	if c.Workers < 1 {
		errs = append(errs, fmt.Errorf("workers is %d; there must be at least 1", c.Workers))
	}
	return errors.Join(errs...)
}

// mutant holds faults of clients, for tests. The zero value changes nothing.
type mutant struct {
	plan      func(*protocol.Plan)                          // what clients are told to release, in place
	survivors func(p *protocol.Plan, told int) int          // how many survivors they are told of
	removal   func(noise, removal []int64)                  // what a client takes back of its noise, in place
	claim     func(*experiment.Experiment) (float64, error) // what is claimed
}

// worlds are the two data sets: in the first the unit is empty.
const worlds = 2

// Run audits an experiment. It returns a [config.Error] if the experiment cannot be audited.
func Run(ctx context.Context, e *experiment.Experiment, c Config) (*Report, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	claim, err := claimed(e, c)
	if err != nil {
		return nil, err
	}
	a, err := newAuditor(ctx, e, c)
	if err != nil {
		return nil, err
	}
	if c.Select != nil {
		if a.search, err = a.newSearch(); err != nil {
			return nil, err
		}
		if c.mutant.claim == nil {
			claim = a.search.cost.Epsilon
		}
	}
	accepted, offered, err := a.offer()
	if err != nil {
		return nil, err
	}
	views, err := a.views(ctx)
	if err != nil {
		return nil, err
	}
	r := &Report{
		Offered: offered, Accepted: accepted,
		Algorithm: e.About().Name, Claim: c.Claim, Claimed: claim, Delta: e.Privacy.Budget.Delta, Unit: algorithm.UnitOf(e.Config),
		Noise: a.noise, Clients: e.Cohort.Wanted(), Items: e.Data.Items, Colluders: e.Cohort.Colluding(), Dropout: algorithm.Dropout.Value(e.Config),
		Releases: a.released, Runs: c.Runs, Seed: c.Seed,
	}
	switch {
	case c.Select != nil:
		r.MeanRuns = c.Select.Runs()
		r.attack(views, []statistic{likelihoodRatio, learnt}, a.search.best.price(r.Delta), tail)
	case a.counted:
		r.attack(views, []statistic{likelihoodRatio, learnt}, family(e.Privacy.Run, r.Delta), learntTail)
		r.measure(&a.measured, e.Privacy.Run)
	default:
		r.attackNormal(views)
	}
	return r, nil
}

// claimed returns the audited ε.
func claimed(e *experiment.Experiment, c Config) (float64, error) {
	switch {
	case e.Private() && !e.About().Federated():
		return 0, config.Errorf("%s runs in one place and sums nothing, and what is audited are sums and parties' steps; take an algorithm with clients", e.About().Name)
	case !e.Private():
		return 0, config.Errorf("%s with epsilon %v adds no noise, so there is no claim to audit; take a private algorithm and a finite epsilon",
			e.About().Name, algorithm.Epsilon.Value(e.Config))
	case c.mutant.claim != nil:
		return c.mutant.claim(e)
	case c.Claim == Published && e.Privacy.Claimed == 0:
		return 0, config.Errorf("claim published is about replaced noise, whose published analysis differs from what is stated; say noise replace, or claim stated")
	case c.Claim == Published:
		return e.Privacy.Claimed, nil
	}
	planned, err := e.Planned()
	return planned.Epsilon, err
}

// gaussian is the ε at δ of a mechanism that can be told apart as well as two normal laws of
// deviation 1 whose means are μ apart; 0 where they cannot be told apart.
func gaussian(mu, delta float64) float64 {
	switch {
	case !(mu > 0):
		return 0
	case math.IsInf(mu, 1):
		return mu
	}
	return dp.GaussianEpsilon(mu, delta)
}
