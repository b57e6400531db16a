package hub

import (
	"errors"

	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/session"
	"github.com/fedsim/fedsim/protocol"
)

// decline notes a client's answer to a session: a kind of reason, or "" if the client takes part. The server
// is told at its next registration, which follows at once when no round can come about any more. The caller
// holds the aggregator's mu.
func (a *Aggregator) decline(s *hubSession, id protocol.ClientID, kind session.Decline) {
	if kind == "" {
		delete(s.declined, id)
		return
	}
	if s.declined == nil {
		s.declined = make(map[protocol.ClientID]session.Decline)
	}
	s.declined[id] = kind.Known()
	a.cfg.Log.Warn().Stringer("client", admission.ClientPlace(id)).Str("reason", string(kind.Known())).Msg("a client declines the session")
	a.cfg.Observer.Event(protocol.Event{Kind: protocol.SessionDeclined, Party: protocol.ClientParty(id), Err: errors.New(string(kind.Known()))})
	a.hopeless(s)
}

// hopeless has the server register again, once, if so many clients decline that no round can come about. The
// caller holds mu.
func (a *Aggregator) hopeless(s *hubSession) {
	if s.hopeless || s.final != nil || a.declinedIn(s).Impossible(s.terms.Cohort) == nil {
		return
	}
	s.hopeless = true
	a.busy.Go(func() { s.driver.Give(s.ctx, protocol.Alone{}) }) // beside, since the driver may wait for mu
	if c := a.conns[admission.ServerPlace]; c != nil && c.in == s && s.asked == nil {
		c.close()
	}
}

// declinedIn counts the clients that decline a session. The caller holds mu.
func (a *Aggregator) declinedIn(s *hubSession) session.Declined {
	out := make(session.Declined)
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

// stands returns the reason if the session cannot continue. The caller holds mu.
func (a *Aggregator) stands(s *hubSession) error {
	if s == nil || s.final != nil {
		return nil
	}
	return a.declinedIn(s).Impossible(s.terms.Cohort)
}
