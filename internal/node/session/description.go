package session

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/internal/problems"
	"github.com/fedsim/fedsim/internal/protocol/wire"
	"github.com/fedsim/fedsim/internal/strictjson"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// Terms are the parameters of a session that all roles use. The aggregator knows nothing
// else about the experiment. The server signs them in this form of JSON: times are in nanoseconds.
type Terms struct {
	Session protocol.SessionID `json:"session"`
	Cohort  protocol.Cohort    `json:"cohort"`
	Mode    secagg.Mode        `json:"mode"` // as a number: 0 is semi-honest, 1 active
	// VerifyInputs has each client prove that its vectors are within their bounds, in active mode alone.
	VerifyInputs bool    `json:"verify_inputs,omitempty"`
	SitOut       float64 `json:"sit_out"` // see aggregator.Config
	// StageTimeout is the time that a stage waits for clients that do not answer.
	StageTimeout time.Duration `json:"stage_timeout"`
	// Tail is the time that a stage continues once enough clients have answered.
	Tail time.Duration `json:"tail"`
	// Gather, times the number of rounds, is the time that rounds wait for as many clients as they require.
	Gather time.Duration `json:"gather"`
	// Steps holds the requests of the rounds, and the sizes of their models.
	Steps protocol.Schedule `json:"steps"`
	// Claims are for the log of sessions: what the statement says beside the charges.
	Claims protocol.Claims `json:"claims"`
}

// Validate reports everything that makes the terms unusable.
func (t *Terms) Validate() error {
	errs := problems.List{t.Steps.Validate()}
	errs.If(len(t.Steps) > maxSteps, "a schedule of %d steps; there may be %d", len(t.Steps), maxSteps)
	for _, plan := range t.Plans() {
		_, _, err := t.sums().ProofSize(plan)
		if err = errors.Join(plan.Validate(), err); err != nil {
			errs.Add("phase %q: %w", plan.Phase, err)
		}
	}
	errs.If(t.Mode != secagg.SemiHonest && t.Mode != secagg.Active, "mode %d is not known", t.Mode)
	errs.If(!(t.SitOut >= 0 && t.SitOut <= t.Cohort.Tolerance),
		"sit-out is %v; it must be from 0 to the tolerance, %v", t.SitOut, t.Cohort.Tolerance)
	errs.If(t.StageTimeout < time.Second || t.StageTimeout > 24*time.Hour,
		"the timeout of a stage is %v; it must be from a second to a day", t.StageTimeout)
	errs.If(t.Tail <= 0 || t.Tail > 24*time.Hour, "the tail of a stage is %v; it must be above zero and at most a day", t.Tail)
	errs.If(t.Gather < 0 || t.Gather > 7*24*time.Hour, "rounds wait %v for clients; it must be from 0 to a week", t.Gather)
	return errors.Join(errs...)
}

// Patience is the time that all rounds together wait for clients. If the rounds were given up one
// by one after Gather, the session would end as late, with nothing. It is at most mostPatience, which no sum of it with a time overflows.
func (t *Terms) Patience() time.Duration {
	if n := time.Duration(t.Steps.Rounds()); n == 0 || t.Gather <= mostPatience/n {
		return t.Gather * n
	}
	return mostPatience
}

// mostPatience is a century.
const mostPatience = 100 * 365 * 24 * time.Hour

func (t *Terms) Equal(o *Terms) bool { return reflect.DeepEqual(t, o) }

// maxSteps is more than any algorithm has.
const maxSteps = 256

// Plans are one of each step.
func (t *Terms) Plans() []*protocol.Plan {
	return lists.Map(t.Steps, func(s protocol.Step) *protocol.Plan {
		return &protocol.Plan{Session: t.Session, Round: 1, Phase: s.Phase, Cohort: t.Cohort, Releases: s.Releases}
	})
}

// Limits returns the limits on messages from one role to another in the session. Nothing else is
// read: another party's messages can be much larger.
func (t *Terms) Limits(from, to protocol.Role) wire.Limits {
	s := wire.Session{Plans: t.Plans(), Neighbours: t.Cohort.Wanted() - 1, Model: t.Steps.Model()}
	for _, plan := range s.Plans {
		proof, blindings, _ := t.sums().ProofSize(plan) // terms were validated
		s.Proof = max(s.Proof, proof+blindings)
	}
	all := wire.LimitsFor(s)
	return all.Between(from, to)
}

func (t *Terms) sums() secagg.Params {
	return secagg.Params{Mode: t.Mode, Rounds: t.Steps.Rounds(), VerifyInputs: t.VerifyInputs}
}

// Sums returns the parameters of secure sums among the parties on a list. Sums are bound to the list in semi-honest mode too,
// although parties sign nothing there: clients that were shown different lists have no masks in common.
func (t *Terms) Sums(l *admission.List) secagg.Params {
	p := t.sums()
	p.List = protocol.Hash(l.Hash())
	if t.Mode == secagg.Active {
		keys := l.Identities()
		p.Identities = keys[:min(len(keys), t.Cohort.All())] // a session that has ended may be of an earlier epoch
	}
	return p
}

// Descriptor is the description of a session that the server signs, in this form of JSON.
// testdata/descriptor.json holds an example by another program.
type Descriptor struct {
	Federation admission.Hash `json:"federation"`
	List       admission.Hash `json:"list"` // who could be in it, when it began
	Terms      Terms          `json:"terms"`
	// Experiment is the public part of the experiment, in a form that only the callers know: the aggregator need not understand it,
	// and every client derives the terms from it again.
	Experiment []byte `json:"experiment"`
}

// digest returns the hash that the server's signature is over.
func (d *Signed) digest() []byte {
	h := protocol.DescriptionHash(sha256.Sum256(d.Descriptor))
	return h[:]
}

// Leaf returns the entry of the log of sessions for the beginning of a session, by its description that was verified.
func (d *Descriptor) Leaf(s *Signed, server admission.PublicKey) (*protocol.Leaf, error) {
	agreement, plan := sha256.Sum256(d.Experiment), sha256.Sum256(s.Descriptor)
	l := &protocol.Leaf{Format: protocol.LeafFormat, Session: hex.EncodeToString(d.Terms.Session[:]), Agreement: agreement[:], Plan: plan[:], Claims: d.Terms.Claims,
		Clients: d.Terms.Cohort.All(), Rounds: d.Terms.Steps.Rounds(), Charges: []dp.Event{}, Server: server[:], Signature: s.Signature}
	var err error
	if l.Claims.Delta > 0 { // else there is no ε, and no plan has a price
		l.Charges, err = d.Terms.Steps.Charges(d.Terms.Cohort, 0, l.Rounds)
	}
	return l, err
}

// Sign makes the description of a session.
func Sign(d *Descriptor, server admission.PrivateKey) (*Signed, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	s := &Signed{Descriptor: text}
	s.Signature = ed25519.Sign(server.Ed25519(), s.digest())
	return s, nil
}

// SignedBy says whether the description is one of a server's.
func (d *Signed) SignedBy(server admission.PublicKey) bool {
	return ed25519.Verify(server.Ed25519(), d.digest(), d.Signature)
}

// Verify checks that the description is the server's, of this federation in its latest epoch, and
// makes sense. A session that has ended may be of an earlier epoch.
func (d *Signed) Verify(f *admission.Federation, server admission.PublicKey) (*Descriptor, error) {
	if !d.SignedBy(server) {
		return nil, fmt.Errorf("%w: it is not signed by the server %s", ErrSession, server)
	}
	out := new(Descriptor)
	if err := strictjson.Known(d.Descriptor, out); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSession, err)
	}
	switch {
	case out.Federation != f.Hash():
		return nil, fmt.Errorf("%w: it is of another federation", ErrSession)
	case d.Ended && !f.Had(out.Terms.Cohort.All()), !d.Ended && out.Terms.Cohort.All() != f.Places():
		return nil, fmt.Errorf("%w: it names %d clients, the operator signed for %d", ErrSession, out.Terms.Cohort.All(), f.Places())
	}
	if err := out.Terms.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSession, err)
	}
	return out, nil
}

// Decline is the kind of reason for which a client takes no part in a session. The kind is all that others
// learn: figures, settings of the owner and everything about data stay with the client.
type Decline string

// The kinds of reasons.
const (
	// DeclineTerms: the owner's settings exclude what the session states.
	DeclineTerms Decline = "terms"
	// DeclineBudget: too little of the owner's budget is left for the session.
	DeclineBudget Decline = "budget"
	// DeclineUnit: earlier sessions of this ledger protected something else.
	DeclineUnit Decline = "unit"
	// DeclineUnable: the client's process cannot take part, and has told its owner why.
	DeclineUnable Decline = "unable"
	// DeclineWaits: DeclineUnable of a process that stays for the next session, such as without its data. Others than the
	// aggregator learn DeclineUnable.
	DeclineWaits Decline = "unable, waits"
)

// Budgets are values of ε, in falling order. A client whose owner allows it names the largest that it
// could afford. They are few, so that the name says little of what is left.
var Budgets = []float64{20, 10, 5, 2, 1, 0.5, 0.2, 0.1}

// Affords is DeclineBudget of a client that could afford a session of such an ε of Budgets; 0: of none.
func Affords(epsilon float64) Decline {
	return Decline(fmt.Sprintf("%s, affords %v", DeclineBudget, epsilon))
}

// affords returns the ε that the client could afford; false: it does not say.
func (d Decline) affords() (float64, bool) {
	for _, epsilon := range append([]float64{0}, Budgets...) {
		if d == Affords(epsilon) {
			return epsilon, true
		}
	}
	return 0, false
}

// Known returns the kind, or DeclineUnable for a text that is no kind: a peer's text is neither logged nor handed on.
func (d Decline) Known() Decline {
	if _, says := d.affords(); says {
		return d
	}
	switch d {
	case DeclineTerms, DeclineBudget, DeclineUnit:
		return d
	default:
		return DeclineUnable
	}
}

// Declined counts the clients that decline the session, by kind of reason.
type Declined map[Decline]int

func (d Declined) Count() int {
	n := 0
	for _, k := range d {
		n += k
	}
	return n
}

func (d Declined) String() string {
	return strings.Join(lists.Map(slices.Sorted(maps.Keys(d)), func(k Decline) string { return fmt.Sprintf("%s %d", k, d[k]) }), ", ")
}

// Within returns the counts of known kinds, with at most so many clients: a peer may state any number.
func (d Declined) Within(most int) Declined {
	out := make(Declined)
	for _, k := range slices.Sorted(maps.Keys(d)) {
		if n := min(max(0, d[k]), most-out.Count()); n > 0 {
			out[k.Known()] += n
		}
	}
	return out
}

// ErrDeclined is wrapped by the error with which a session ends that too many clients decline.
var ErrDeclined = errors.New("too many clients decline the session")

// Impossible is the error of a session that cannot release anything any more, since too many clients decline it;
// nil: enough are left.
func (d Declined) Impossible(c protocol.Cohort) error {
	return d.Above(c, c.All()-c.Required())
}

// Above is the error of a session that more clients decline than may; nil: no more do.
func (d Declined) Above(c protocol.Cohort, may int) error {
	n := d.Count()
	if n == 0 || n <= may && n <= c.All()-c.Required() {
		return nil
	}
	limit := ""
	if may < c.All()-c.Required() {
		limit = fmt.Sprintf(", and %d may decline", may)
	}
	return fmt.Errorf("node: %w: %d of %d (%s)%s, and a round needs %d clients; each client's log tells its owner why. "+
		"budget: a smaller epsilon%s, or a larger --max-epsilon or --ceiling of the clients; terms: other settings of the session, or of the clients; unit: what earlier sessions protected",
		ErrDeclined, n, c.All(), d, limit, c.Required(), d.could(c.All()-n))
}

// could counts the clients that could afford each ε. A client that does not decline can afford all:
// there are takePart. A client that does not say what it could afford is left out.
func (d Declined) could(takePart int) string {
	var list []string
	for _, epsilon := range Budgets {
		if n := d[Affords(epsilon)]; n > 0 {
			takePart += n
			list = append(list, fmt.Sprintf("%d clients at %v", takePart, epsilon))
		}
	}
	if len(list) == 0 {
		return ""
	}
	return " (affordable for " + strings.Join(list, ", ") + ")"
}

// DeclineError is an error for which the client declines a session. Its text is for the owner alone.
type DeclineError struct {
	Kind Decline
	Err  error
}

func (e *DeclineError) Error() string { return e.Err.Error() }

// Unwrap returns the error behind it.
func (e *DeclineError) Unwrap() error { return e.Err }

// AsDecline returns the refusal of a ledger or an owner as a decline.
func AsDecline(err error, kind Decline) error {
	if _, done := errors.AsType[*DeclineError](err); done {
		return err
	}
	if errors.Is(err, dp.ErrMixed) {
		kind = DeclineUnit
	}
	return &DeclineError{Kind: kind, Err: err}
}

// Greet registers by the protocol of a stream, with the list that a registry has, and returns what the aggregator
// answers. own holds what the peer says of itself.
func Greet(s network.Stream, r *admission.Registry, own Register) (*Welcome, error) {
	_, known, err := r.Current()
	if err != nil {
		return nil, err
	}
	peer.Within(s, peer.RegisterTimeout)
	own.List, own.At = known, own.At.UTC().Truncate(time.Second)
	if err = Say(s, &Message{Register: &own}); err != nil {
		return nil, err
	}
	m, err := Hear(s, max(2*r.Federation().MaxListSize(), DescriptorSize)) // it may have grown
	if err != nil {
		return nil, err
	}
	if m.Welcome == nil {
		return nil, ErrNotice
	}
	return m.Welcome, nil
}

// Trust takes the aggregator's list into the party's own registry, and checks that the party can
// work with it. A nil text stands for the list in the registry.
func Trust(m *admission.Membership, r *admission.Registry, text []byte) (list *admission.List, err error) {
	if text == nil {
		list, _, err = r.Current()
	} else {
		list, _, err = r.Take(text)
	}
	if err != nil {
		return nil, err
	}
	return list, m.Check(list)
}

// Carry exchanges messages over a stream until it ends: what is queued goes out, and what comes in is checked and given to the
// role. begun keeps the beginning of a broadcast that breaks off, and the next stream continues there; nil: nothing is kept.
func Carry(ctx context.Context, s network.Stream, q *peer.Queue, limits wire.Limits, begun *wire.Begun, take func(protocol.Message) error) error {
	_ = s.SetDeadline(time.Time{})
	closed := make(chan struct{})
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		if q.Write(s, closed) != nil {
			_ = s.Reset() // otherwise the reader would wait on, and no peer would dial again
		}
	}()
	defer func() {
		close(closed)
		_ = s.Reset()
		<-wrote
	}()
	r := wire.NewReader(s, limits)
	if begun != nil {
		r.Keep(*begun)
		defer func() { *begun = r.Begun() }()
	}
	for {
		m, err := r.Read()
		if err != nil {
			return err
		}
		if err = take(m); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// Signer checks what the server has signed.
type Signer ed25519.PublicKey

func (k Signer) Check(session protocol.SessionID, m protocol.Message) error {
	switch m := m.(type) {
	case *protocol.Announce:
		return protocol.VerifyPlan(ed25519.PublicKey(k), m.Plan)
	case *protocol.Final:
		return protocol.VerifyFinal(ed25519.PublicKey(k), session, m)
	default:
		return nil // what the aggregator itself says, which the roles check
	}
}
