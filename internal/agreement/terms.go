package agreement

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/protocol"
)

// termsOf returns the terms that follow from an experiment.
func termsOf(e *experiment.Experiment) (Derived, error) {
	planned, err := e.Planned()
	return Derived{Cohort: e.Cohort, Steps: e.Schedule, Budget: e.Privacy.Budget, Privacy: e.Statement(planned)}, err
}

// rounding is the relative difference that two machines may have in what they derive. Calibrated noise is minimal to 1e-8, or with
// pld to a few 1e-5. Processors also differ in how they round a product that is added.
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

// CheckPlan returns an error, which wraps ErrTerms, if a plan differs from the experiment in anything except the model. A ledger
// ensures that no plan spends more than its budget. CheckPlan ensures that there will be the noise that a client charges for. There
// is less noise if a plan counts on fewer colluders, or on more clients.
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

// schedule compares step by step: where one is a step longer, what the others say is about other rounds.
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

// Start states what a session starts from. The server alone has the releases: clients get them as part of the first
// model. The digest binds them to the session, since a client signs for the hash of the whole agreement.
type Start struct {
	Digest    string `json:"digest"` // SHA-256 of the file with the releases, in hex
	Algorithm string `json:"algorithm"`
	Feedback  string `json:"feedback"`
	Rank      int    `json:"rank"`
	// Min and Max are the rating scale of the releases.
	Min      float64       `json:"min"`
	Max      float64       `json:"max"`
	Sessions []PastSession `json:"sessions"` // the first one first

	from string // where the releases are, for messages
}

// PastSession states a session that the releases depend on. The ledger of each client has its cost to that client.
type PastSession struct {
	Session string   `json:"session"` // in hex
	Epsilon *float64 `json:"epsilon"` // null without noise
	Delta   float64  `json:"delta"`
	Unit    dp.Unit  `json:"unit"`
	// Chosen says which search of a simulation chose the settings, whose cost Epsilon covers.
	Chosen dp.SearchKind `json:"chosen,omitempty"`
}

// StartOf states releases; nil for none.
func StartOf(s *algorithm.Start) *Start {
	if s == nil {
		return nil
	}
	out := &Start{Digest: hex.EncodeToString(s.Digest[:]), Algorithm: s.Algorithm, Feedback: s.Feedback, Rank: s.Rank, Min: s.Min, Max: s.Max, from: s.From}
	for _, p := range s.Sessions {
		past := PastSession{Session: p.Session, Epsilon: p.Epsilon, Delta: p.Delta, Unit: p.Unit}
		if p.Search != nil {
			past.Chosen = p.Search.Kind()
		}
		out.Sessions = append(out.Sessions, past)
	}
	return out
}

// maxSessions bounds the sessions that releases depend on: more than a century of one a week.
const maxSessions = 10_000

// start checks the statement, and returns it without the releases; nil for none.
func (s *Start) start() (*algorithm.Start, error) {
	if s == nil {
		return nil, nil
	}
	out := &algorithm.Start{From: s.from, Algorithm: s.Algorithm, Feedback: s.Feedback, Rank: s.Rank, Min: s.Min, Max: s.Max}
	out.From = cmp.Or(out.From, "the release that the server states")
	digest, err := hex.DecodeString(s.Digest)
	if err != nil || len(digest) != len(out.Digest) {
		return nil, fmt.Errorf("the digest of the start is %.80q; %d bytes in hex are needed", s.Digest, len(out.Digest))
	}
	copy(out.Digest[:], digest)
	if n := len(s.Sessions); n < 1 || n > maxSessions {
		return nil, fmt.Errorf("the start depends on %d sessions; at least 1 and at most %d", n, maxSessions)
	}
	for _, p := range s.Sessions {
		if id, bad := hex.DecodeString(p.Session); bad != nil || len(id) != len(protocol.SessionID{}) {
			return nil, fmt.Errorf("the start depends on the session %.80q; %d bytes in hex are needed", p.Session, len(protocol.SessionID{}))
		}
		if e := p.Epsilon; e != nil && !(*e >= 0 && !math.IsInf(*e, 1)) {
			return nil, fmt.Errorf("the start depends on the session %s of epsilon=%v", p.Session, *e)
		}
		past := algorithm.PastSession{Session: p.Session, Epsilon: p.Epsilon, Delta: p.Delta, Unit: p.Unit}
		switch p.Chosen {
		case "", dp.PrivateSearch: // the record of a private search is the server's, and Epsilon covers it
		case dp.PlainSearch:
			past.Search = &dp.Search{}
		default:
			return nil, fmt.Errorf("the start depends on the session %s, whose settings a %.80q search chose", p.Session, p.Chosen)
		}
		out.Sessions = append(out.Sessions, past)
	}
	return out, nil
}

// ErrStart is wrapped by the error for releases that are not the stated ones.
var ErrStart = errors.New("these are not the releases that the session starts from")

// OpenFrom is Open for the server of a session that starts from earlier releases, which the server has. start is nil
// if the session starts from nothing.
func OpenFrom(p *Public, start *algorithm.Start) (*experiment.Experiment, error) {
	stated := p.Facts.Start
	switch {
	case stated == nil && start == nil:
		return Open(p)
	case stated == nil:
		return nil, fmt.Errorf("agreement: %w: %s is given, and the session starts from nothing", ErrStart, start.From)
	case start == nil:
		return nil, fmt.Errorf("agreement: %w: none is given, and the session starts from the release %s", ErrStart, stated.Digest)
	case hex.EncodeToString(start.Digest[:]) != stated.Digest:
		return nil, fmt.Errorf("agreement: %w: the digest of %s is %x, and the session's is %s", ErrStart, start.From, start.Digest, stated.Digest)
	}
	return open(p, start)
}

// Claims returns what the log of sessions says of an experiment beside its charges.
func Claims(e *experiment.Experiment) protocol.Claims {
	c := protocol.Claims{Unit: string(algorithm.UnitOf(e.Config))}
	if e.Private() {
		c.Delta, c.SamplerError = e.Privacy.Budget.Delta, e.Released().SamplerError
	}
	if e.Search != nil {
		record, _ := json.Marshal(e.Search) // it was read
		sum := sha256.Sum256(record)
		c.SearchDigest, c.Search = hex.EncodeToString(sum[:]), string(e.Search.Kind())
	}
	if e.Start != nil {
		c.Start = hex.EncodeToString(e.Start.Digest[:])
	}
	return c
}
