package session

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/peer"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/protocol/wire"
)

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
	var list []string
	for _, k := range slices.Sorted(maps.Keys(d)) {
		list = append(list, fmt.Sprintf("%s %d", k, d[k]))
	}
	return strings.Join(list, ", ")
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
