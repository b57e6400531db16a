package agreement

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

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
	compare(&c, "", stated.Cohort, derived.Cohort)
	compare(&c, "steps", stated.Steps, derived.Steps)
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
	compare(&c, "", p.Cohort, must.Cohort)
	compareExactly(&c, "phase", p.Phase, must.Phase)
	compare(&c, "releases", p.Releases, must.Releases)
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
	errs      []error
}

// exact are the numbers of a cohort and a release that machines do not derive differently, by their keys in JSON.
var exact = []string{"tolerance", "colluders", "sampling_rate"}

func (c *comparison) error() error {
	if len(c.errs) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrTerms, errors.Join(c.errs...))
}

// compare compares two values of a type, entry by entry and field by field, by the keys that fields have in JSON. So every
// field that a cohort, a step or a release has is compared.
func (c *comparison) compare(what, key string, is, must reflect.Value) {
	what = strings.TrimSpace(what + " " + strings.ReplaceAll(key, "_", " "))
	switch kind := must.Kind(); {
	case kind == reflect.Struct:
		for i := range must.NumField() {
			field, _, _ := strings.Cut(must.Type().Field(i).Tag.Get("json"), ",")
			c.compare(what, field, is.Field(i), must.Field(i))
		}
	case kind == reflect.Slice && is.Len() == must.Len():
		for i := range must.Len() {
			c.compare(strings.TrimSuffix(what, "s"), strconv.Itoa(i+1), is.Index(i), must.Index(i))
		}
	case kind == reflect.Slice: // where one is longer, what the others say is about other rounds
		c.differs("number of "+what, is.Len(), must.Len())
	case kind == reflect.Float64 && !slices.Contains(exact, key):
		c.number(what, is.Float(), must.Float())
	case !is.Equal(must):
		c.differs(what, is, must)
	}
}

func compare[T any](c *comparison, what string, is, must T) {
	c.compare("", what, reflect.ValueOf(is), reflect.ValueOf(must))
}

func compareExactly[T comparable](c *comparison, what string, is, must T) {
	if is != must {
		c.differs(what, is, must)
	}
}

func (c *comparison) number(what string, is, must float64) {
	if is != must && !(math.Abs(is-must) <= c.tolerance*math.Abs(must)) {
		c.differs(what, is, must)
	}
}

func (c *comparison) differs(what string, is, must any) {
	c.errs = append(c.errs, fmt.Errorf("%s is %v; it must be %v", what, is, must))
}

// Start states what a session starts from. The server alone has the releases: clients get them as part of the first
// model. The digest binds them to the session, since a client signs for the hash of the whole agreement.
type Start struct {
	Digest string `json:"digest"` // SHA-256 of the file with the releases, in hex
	algorithm.Basis
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
	out := &Start{Digest: hex.EncodeToString(s.Digest[:]), Basis: s.Basis, from: s.From}
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
	out := &algorithm.Start{From: cmp.Or(s.from, "the release that the server states"), Basis: s.Basis}
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
