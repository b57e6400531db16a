package aggregator

import (
	"github.com/fedsim/fedsim/protocol"
)

// The next round is set up in step with the present one: its stage advertise
// is open while masked inputs arrive, its stage share while answers to unmask do.

// openNext begins to set up the next round, if there is to be one. An error of the setup is
// reported when the round is planned.
func (a *Aggregator) openNext() {
	if s := a.round.setup.Following(); s.Round <= a.cfg.Rounds && s.Cohort.Enrolled == 0 { // else others are asked
		if r, err := a.newRound(s); err == nil {
			r.ahead = true
			a.next = r
		}
	}
}

// stale reports whether a message is of another setup of its round. No client could continue in
// this setup with the keys or shares of another.
func (r *round) stale(m protocol.StageMessage) bool {
	switch m := m.(type) {
	case *protocol.Advertise:
		return m.Ahead != r.ahead || m.Anew != r.anew
	case *protocol.Shares:
		return m.Ahead != r.ahead || m.Anew != r.anew
	case *protocol.Prepared:
		return m.Anew != r.anew
	default: // nothing else is sent before clients are told to proceed
		return false
	}
}

// begin opens a round that was set up ahead, and invites the clients left out of it to the
// following round.
func (a *Aggregator) begin(r *round) protocol.Effects {
	a.openNext()
	var eff protocol.Effects
	for c, stage := range r.awaited {
		id := protocol.ClientID(c)
		if stage == protocol.StagePrepared {
			delivery, _ := r.sum.Next(protocol.StageShare, id).(*protocol.Delivery)
			eff.Send = append(eff.Send, toClient(id, &protocol.Announce{Plan: r.plan, Delivery: delivery}))
		} else if a.next != nil && !a.blame.excluded[id] {
			eff.Send = append(eff.Send, toClient(id, &protocol.Invite{Setup: a.next.setup}))
		}
	}
	return eff
}

// ride takes what came with a message that was taken. It is no fault of that
// message if nothing can be made of it.
func (a *Aggregator) ride(from protocol.Party, m protocol.StageMessage) []protocol.Event {
	if round, _ := m.At(); a.next == nil || a.next.setup.Round != round {
		return nil // too many are missing: the round is set up anew
	}
	return a.offer(a.next, from, m)
}

// closeNext ends the present stage of the setup of the next round, or gives it
// up if too many are missing.
func (a *Aggregator) closeNext() {
	r := a.next
	if r == nil {
		return
	}
	if !a.enough(r.answered) || r.close() != nil {
		a.next = nil
		return
	}
	r.advance()
}

// enough says whether a round may begin with so many clients set up for it. It is not set up anew for
// a silent client, which is invited to the following one.
func (a *Aggregator) enough(n int) bool {
	out := len(a.blame.excluded)
	for c := range a.silent {
		if !a.awaits(c) && !a.blame.excluded[protocol.ClientID(c)] {
			out++
		}
	}
	return n >= protocol.Cohort{Clients: a.cfg.Clients - out, Tolerance: a.cfg.SitOut}.Required()
}

// gone is the value of awaited for a client that takes no part in a round any more: none of its
// messages is accepted, and nothing is sent to it.
const gone = protocol.Stages

// forget takes a client that has lost what it knew out of the round that is
// set up.
func (a *Aggregator) forget(id protocol.ClientID) {
	if r := a.round; r != nil && a.cfg.Presence && int(id) < len(r.missed) {
		r.missed[id] = true // what it was doing in the round in progress is lost as well
	}
	r := a.next
	if r == nil || int(id) >= len(r.awaited) {
		return
	}
	switch r.awaited[id] {
	case r.following():
		r.answered--
	case r.stage:
		if r.stage == protocol.StageAdvertise && !r.verifying[id] {
			return // it has said nothing yet that it could have forgotten
		}
	default:
		return // lost already
	}
	r.awaited[id] = gone
	if r.expected--; !a.enough(r.expected) || r.expected < r.setup.Cohort.Required() {
		a.next = nil
	}
}

// withRoster adds the next round's roster to the survivors, for a client that
// is on it.
func (a *Aggregator) withRoster(id protocol.ClientID, m protocol.Message) protocol.Message {
	s, ok := m.(*protocol.Survivors)
	if !ok || a.next == nil || a.next.awaited[id] != protocol.StageShare {
		return m
	}
	with := *s
	with.Next, _ = a.next.sum.Next(protocol.StageAdvertise, id).(*protocol.Roster)
	return &with
}

// rosters returns rosters for the clients that are on the next round's roster and not in the
// present round.
func (a *Aggregator) rosters() []protocol.Envelope {
	if a.next == nil {
		return nil
	}
	var out []protocol.Envelope
	for c, stage := range a.next.awaited {
		if stage == protocol.StageShare && a.round.awaited[c] != a.round.following() {
			id := protocol.ClientID(c)
			out = append(out, toClient(id, a.next.sum.Next(protocol.StageAdvertise, id)))
		}
	}
	return out
}
