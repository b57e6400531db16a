package experiment

import (
	"errors"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/protocol"
)

// terms are what followed.
func (e *Experiment) terms() (Terms, error) {
	planned, err := e.Planned()
	return Terms{Cohort: e.Cohort, Release: e.Release, Budget: e.Privacy.Budget, Privacy: e.Statement(planned)}, err
}

// rounding is how far, relatively, two machines may be apart in what they derive:
// calibrated noise is the least to 1e-8 and, with pld, to a few 1e-5, and not every
// processor rounds a product that is added alike.
const rounding = 1e-4

// agree takes up the terms stated, if they are those of the experiment: all parties
// then plan, check and charge by the same numbers.
func (e *Experiment) agree(stated Terms) error {
	derived, err := e.terms()
	if err != nil {
		return err
	}
	c := comparison{tolerance: rounding}
	c.cohort(stated.Cohort, derived.Cohort)
	c.release(stated.Release, derived.Release)
	c.budget(stated.Budget, derived.Budget)
	c.statement(stated.Privacy, derived.Privacy)
	if err = c.error(); err != nil {
		return err
	}
	e.Release, e.Privacy.Budget = stated.Release, stated.Budget
	if !e.Config.Private() {
		return nil
	}
	if e.Privacy.Run, err = e.charges(e.Config.rounds()); err != nil {
		return err
	}
	if e.Privacy.Attempt != nil {
		if e.Privacy.Attempt, err = e.charges(1); err != nil {
			return err
		}
	}
	planned, err := e.Planned()
	if err == nil && planned.Epsilon > e.Privacy.Budget.Epsilon {
		err = fmt.Errorf("%w: a run costs epsilon=%v, more than the budget of %v", ErrTerms, planned.Epsilon, e.Privacy.Budget.Epsilon)
	}
	return err
}

// planOf is what an iteration asks for, but for the model.
func (e *Experiment) planOf(iteration uint64) *protocol.Plan {
	r := e.Release
	if r.Noise.Kind == protocol.Own {
		r.Noise.Steps = e.silo.StepsOf(iteration)
	}
	return &protocol.Plan{Session: e.session, Iteration: iteration, Phase: r.Name, Cohort: e.Cohort, Releases: []protocol.Release{r}}
}

// CheckPlan says what of a plan, the model aside, is not as the experiment has it; the
// error wraps ErrTerms. A ledger sees to it that no plan spends more than its budget;
// this sees to it that the noise a client charges for is the noise that there will be:
// that is less where a plan counts on fewer colluders, or on more clients.
func (e *Experiment) CheckPlan(p *protocol.Plan) error {
	if rounds := uint64(e.Config.rounds()); p.Iteration < 1 || p.Iteration > rounds {
		return fmt.Errorf("%w: iteration %d is planned; there are 1 to %d", ErrTerms, p.Iteration, rounds)
	}
	must := e.planOf(p.Iteration)
	var c comparison
	compareExactly(&c, "session", fmt.Sprintf("%x", p.Session), fmt.Sprintf("%x", must.Session))
	compareExactly(&c, "phase", p.Phase, must.Phase)
	c.cohort(p.Cohort, must.Cohort)
	if compareExactly(&c, "number of releases", len(p.Releases), 1); len(p.Releases) == 1 {
		c.release(p.Releases[0], must.Releases[0])
	}
	if err := c.error(); err != nil {
		return fmt.Errorf("iteration %d: %w", p.Iteration, err)
	}
	return nil
}

// comparison collects in what terms that are stated differ from those that are right.
type comparison struct {
	tolerance float64 // of numbers, relative
	errs      []error
}

func (c *comparison) error() error {
	if len(c.errs) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrTerms, errors.Join(c.errs...))
}

func (c *comparison) number(what string, is, must float64) {
	if is != must && !(math.Abs(is-must) <= c.tolerance*math.Abs(must)) {
		c.errs = append(c.errs, fmt.Errorf("%s is %v; it must be %v", what, is, must))
	}
}

func compareExactly[T comparable](c *comparison, what string, is, must T) {
	if is != must {
		c.errs = append(c.errs, fmt.Errorf("%s is %v; it must be %v", what, is, must))
	}
}

func (c *comparison) cohort(is, must protocol.Cohort) {
	compareExactly(c, "clients", is.Clients, must.Clients)
	compareExactly(c, "tolerance", is.Tolerance, must.Tolerance)
	compareExactly(c, "colluders", is.Colluders, must.Colluders)
}

func (c *comparison) release(is, must protocol.Release) {
	compareExactly(c, "release", is.Name, must.Name)
	compareExactly(c, "length", is.Len, must.Len)
	c.number("L2 bound", is.L2, must.L2)
	c.number("L1 bound", is.L1, must.L1)
	c.number("bound on coordinates", is.LInf, must.LInf)
	compareExactly(c, "max-non-zero", is.MaxNonZero, must.MaxNonZero)
	c.number("scale", is.Scale, must.Scale)
	compareExactly(c, "ring width", is.Width, must.Width)
	compareExactly(c, "noise", is.Noise.Kind, must.Noise.Kind)
	c.number("noise variance", is.Noise.Variance, must.Noise.Variance)
	c.number("noise multiplier", is.Noise.Multiplier, must.Noise.Multiplier)
	compareExactly(c, "noise sampling rate", is.Noise.SamplingRate, must.Noise.SamplingRate)
	compareExactly(c, "noise steps", is.Noise.Steps, must.Noise.Steps)
	compareExactly(c, "noise spread", is.Noise.Spread, must.Noise.Spread)
}

func (c *comparison) budget(is, must dp.Budget) {
	compareExactly(c, "budget epsilon", is.Epsilon, must.Epsilon)
	compareExactly(c, "budget delta", is.Delta, must.Delta)
	compareExactly(c, "budget accountant", is.Accountant, must.Accountant)
	c.number("sampler error", is.SamplerError, must.SamplerError)
}

func (c *comparison) statement(is, must dp.Statement) {
	c.number("stated epsilon", is.Epsilon, must.Epsilon)
	is.Epsilon = must.Epsilon
	compareExactly(c, "privacy", is, must)
}
