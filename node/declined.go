package node

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
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
)

// known returns the kind, or DeclineUnable for a text that is no kind: a peer's text is neither logged nor handed on.
func (d Decline) known() Decline {
	switch d {
	case DeclineTerms, DeclineBudget, DeclineUnit:
		return d
	default:
		return DeclineUnable
	}
}

// declined is how many clients decline the session, by kind of reason.
type declined map[Decline]int

func (d declined) count() int {
	n := 0
	for _, k := range d {
		n += k
	}
	return n
}

func (d declined) String() string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(d)) {
		list = append(list, fmt.Sprintf("%s %d", k, d[k]))
	}
	return strings.Join(list, ", ")
}

// within returns the counts of known kinds, with at most so many clients: a peer may state any number.
func (d declined) within(most int) declined {
	out := make(declined)
	for _, k := range slices.Sorted(maps.Keys(d)) {
		if n := min(max(0, d[k]), most-out.count()); n > 0 {
			out[k.known()] += n
		}
	}
	return out
}

// ErrDeclined is wrapped by the error with which a session ends that too many clients decline.
var ErrDeclined = errors.New("too many clients decline the session")

// impossible is the error of a session that cannot release anything any more, since too many clients decline it;
// nil: enough are left.
func (d declined) impossible(c protocol.Cohort) error {
	if n := d.count(); n > 0 && c.All()-n < c.Required() {
		return fmt.Errorf("node: %w: %d of %d (%s), and a round needs %d clients; each client's log tells its owner why. "+
			"budget: a smaller epsilon, or a larger --max-epsilon of the clients; terms: other settings of the session, or of the clients; unit: what earlier sessions protected",
			ErrDeclined, n, c.All(), d, c.Required())
	}
	return nil
}

// declineError is an error for which the client declines a session. Its text is for the owner alone.
type declineError struct {
	kind Decline
	error
}

func (e *declineError) Unwrap() error { return e.error }

// declines returns the refusal of a ledger or an owner as a decline.
func declines(err error, kind Decline) error {
	if _, done := errors.AsType[*declineError](err); done {
		return err
	}
	if errors.Is(err, dp.ErrMixed) {
		kind = DeclineUnit
	}
	return &declineError{kind, err}
}

// decline notes a client's answer to a session: a kind of reason, or "" if the client takes part. The server
// is told at its next registration, which follows at once when no round can come about any more. The caller
// holds the aggregator's mu.
func (a *Aggregator) decline(s *hubSession, id protocol.ClientID, kind Decline) {
	if kind == "" {
		delete(s.declined, id)
		return
	}
	if s.declined == nil {
		s.declined = make(map[protocol.ClientID]Decline)
	}
	s.declined[id] = kind.known()
	a.cfg.Log.Warn().Stringer("client", admission.ClientPlace(id)).Str("reason", string(kind.known())).Msg("a client declines the session")
	a.hopeless(s)
}

// hopeless has the server register again, once, if so many clients decline that no round can come about. The
// caller holds mu.
func (a *Aggregator) hopeless(s *hubSession) {
	if s.hopeless || s.final != nil || a.declinedIn(s).impossible(s.terms.Cohort) == nil {
		return
	}
	s.hopeless = true
	a.busy.Go(func() { s.driver.give(s.ctx, protocol.Alone{}) }) // beside, since the driver may wait for mu
	if c := a.conns[admission.ServerPlace]; c != nil && c.in == s && s.asked == nil {
		c.close()
	}
}

// declinedIn counts the clients that decline a session. The caller holds mu.
func (a *Aggregator) declinedIn(s *hubSession) declined {
	out := make(declined)
	for _, kind := range s.declined {
		out[kind]++
	}
	for c, behind := range s.behind {
		if a.conns[c.place] == c {
			for kind, n := range behind {
				out[kind] += n
			}
		}
	}
	return out
}

// stands returns why the session cannot go on, if so. The caller holds mu.
func (a *Aggregator) stands(s *hubSession) error {
	if s == nil || s.final != nil {
		return nil
	}
	return a.declinedIn(s).impossible(s.terms.Cohort)
}
