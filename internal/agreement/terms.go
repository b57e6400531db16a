package agreement

import (
	"errors"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/protocol"
)

// termsOf returns the terms that follow from an experiment.
func termsOf(e *experiment.Experiment) (Derived, error) {
	planned, err := e.Planned()
	return Derived{Cohort: e.Cohort, Steps: e.Schedule, Budget: e.Privacy.Budget, Privacy: e.Statement(planned)}, err
}

// rounding is the relative difference that two machines may have in what they derive.
// Calibrated noise is minimal to 1e-8, or with pld to a few 1e-5. Processors also differ in
// how they round a product that is added.
const rounding = 1e-4

// takeUp takes up the stated terms if they equal the terms of the experiment. All parties
// then plan, check and charge by the same numbers.
func takeUp(e *experiment.Experiment, stated Derived) error {
	derived, err := termsOf(e)
	if err != nil {
		return err
	}
	c := comparison{tolerance: rounding}
	c.cohort(stated.Cohort, derived.Cohort)
	c.schedule(stated.Steps, derived.Steps)
	is, must := stated.Budget, derived.Budget
	compareExactly(&c, "budget epsilon", is.Epsilon, must.Epsilon)
	compareExactly(&c, "budget delta", is.Delta, must.Delta)
	compareExactly(&c, "budget accountant", is.Accountant, must.Accountant)
	c.number("sampler error", is.SamplerError, must.SamplerError)
	c.number("stated epsilon", stated.Privacy.Epsilon, derived.Privacy.Epsilon)
	privacy := stated.Privacy
	privacy.Epsilon = derived.Privacy.Epsilon
	compareExactly(&c, "privacy", privacy, derived.Privacy)
	if err = c.error(); err != nil {
		return err
	}
	e.Schedule, e.Privacy.Budget = stated.Steps.Clone(), stated.Budget
	if !e.Private() {
		return nil
	}
	if e.Privacy.Run, err = e.Charges(e.Schedule.Rounds()); err != nil {
		return err
	}
	planned, err := e.Planned()
	if err == nil && planned.Epsilon > e.Privacy.Budget.Epsilon {
		err = fmt.Errorf("%w: a run costs epsilon=%v, more than the budget of %v", ErrTerms, planned.Epsilon, e.Privacy.Budget.Epsilon)
	}
	return err
}

// CheckPlan returns an error, which wraps ErrTerms, if a plan differs from the experiment in
// anything except the model. A ledger ensures that no plan spends more than its budget.
// CheckPlan ensures that there will be the noise that a client charges for. There is less
// noise if a plan counts on fewer colluders, or on more clients.
func CheckPlan(e *experiment.Experiment, p *protocol.Plan) error {
	must := e.Plan(p.Round)
	if must == nil {
		return fmt.Errorf("%w: round %d is planned; there are 1 to %d", ErrTerms, p.Round, e.Schedule.Rounds())
	}
	var c comparison
	compareExactly(&c, "session", fmt.Sprintf("%x", p.Session), fmt.Sprintf("%x", must.Session))
	c.cohort(p.Cohort, must.Cohort)
	c.asked(p.Phase, must.Phase, p.Releases, must.Releases)
	if err := c.error(); err != nil {
		return fmt.Errorf("round %d: %w", p.Round, err)
	}
	return nil
}

// Party is a party of the experiment with its own data ([experiment.Experiment.Party]), which
// contributes to plans that CheckPlan finds right, and to no others.
func Party(e *experiment.Experiment, which algorithm.PartyData, set *dataset.Set) (*experiment.Party, error) {
	return e.Party(which, set, func(p *protocol.Plan) error { return CheckPlan(e, p) })
}

// comparison collects the differences between stated terms and the right terms.
type comparison struct {
	tolerance float64 // of numbers, relative
	where     string  // what is compared, where there is more than one of it
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
		c.differs(what, is, must)
	}
}

func (c *comparison) differs(what string, is, must any) {
	c.errs = append(c.errs, fmt.Errorf("%s%s is %v; it must be %v", c.where, what, is, must))
}

func compareExactly[T comparable](c *comparison, what string, is, must T) {
	if is != must {
		c.differs(what, is, must)
	}
}

func (c *comparison) cohort(is, must protocol.Cohort) {
	compareExactly(c, "clients", is.Clients, must.Clients)
	compareExactly(c, "tolerance", is.Tolerance, must.Tolerance)
	compareExactly(c, "colluders", is.Colluders, must.Colluders)
	compareExactly(c, "enrolled", is.Enrolled, must.Enrolled)
	compareExactly(c, "goal", is.Goal, must.Goal)
}

// schedule compares step by step: where one is a step longer, what the others say is
// about other rounds.
func (c *comparison) schedule(is, must protocol.Schedule) {
	if compareExactly(c, "number of steps", len(is), len(must)); len(is) != len(must) {
		return
	}
	for i := range must {
		if len(must) > 1 {
			c.where = fmt.Sprintf("step %d: ", i+1)
		}
		compareExactly(c, "rounds", is[i].Rounds, must[i].Rounds)
		compareExactly(c, "length of the model", is[i].Model, must[i].Model)
		c.asked(is[i].Phase, must[i].Phase, is[i].Releases, must[i].Releases)
	}
	c.where = ""
}

// asked compares what a round asks for.
func (c *comparison) asked(phase, rightPhase string, is, must []protocol.Release) {
	compareExactly(c, "phase", phase, rightPhase)
	if compareExactly(c, "number of releases", len(is), len(must)); len(is) != len(must) {
		return
	}
	where := c.where
	for i := range must {
		if len(must) > 1 {
			c.where = fmt.Sprintf("%s%s: ", where, must[i].Name)
		}
		c.release(is[i], must[i])
	}
	c.where = where
}

func (c *comparison) release(is, must protocol.Release) {
	compareExactly(c, "release", is.Name, must.Name)
	compareExactly(c, "length", is.Len, must.Len)
	c.number("L2 bound", is.L2, must.L2)
	c.number("L1 bound", is.L1, must.L1)
	c.number("bound on coordinates", is.LInf, must.LInf)
	compareExactly(c, "max-non-zero", is.MaxNonZero, must.MaxNonZero)
	c.number("sensitivity", is.Sensitivity, must.Sensitivity)
	c.number("scale", is.Scale, must.Scale)
	compareExactly(c, "ring width", is.Width, must.Width)
	compareExactly(c, "noise", is.Noise.Kind, must.Noise.Kind)
	c.number("noise variance", is.Noise.Variance, must.Noise.Variance)
	c.number("noise multiplier", is.Noise.Multiplier, must.Noise.Multiplier)
	compareExactly(c, "noise sampling rate", is.Noise.SamplingRate, must.Noise.SamplingRate)
	compareExactly(c, "noise steps", is.Noise.Steps, must.Noise.Steps)
	compareExactly(c, "noise spread", is.Noise.Spread, must.Noise.Spread)
}
