package aggregator

import (
	"errors"
	"slices"
	"time"

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
			eff.Send = append(eff.Send, protocol.ToClient(id, &protocol.Announce{Plan: r.plan, Delivery: delivery}))
		} else if a.next != nil && !a.blame.excluded[id] {
			eff.Send = append(eff.Send, protocol.ToClient(id, &protocol.Invite{Setup: a.next.setup}))
		}
	}
	return eff
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
	switch stage := r.awaited[id]; {
	case stage != r.stage && stage != r.following():
		return // lost already
	case stage == protocol.StageAdvertise && !r.verifying[id]:
		return // it has said nothing yet that it could have forgotten
	}
	if r.lose(id); !a.enough(r.expected) || r.expected < r.setup.Cohort.Required() {
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
			out = append(out, protocol.ToClient(id, a.next.sum.Next(protocol.StageAdvertise, id)))
		}
	}
	return out
}

// A round waits for clients if too few are connected, or if too few of the clients that were told
// of it are prepared. No client has been told to send its masked input before, so the round has
// cost nothing. The whole setup is given up, and the same plan is announced again. Clients that
// have computed their inputs keep them.

type heldPlan struct {
	plan     *protocol.Plan
	since    time.Time
	deadline time.Time // when it is given up
	begins   time.Time // when it begins if enough clients are still connected; zero while too few are
}

// refusal notes that a client takes no part in a round that has cost nothing yet. The round continues without it. A
// client that has answered the present stage takes part.
func (a *Aggregator) refusal(now time.Time, c protocol.ClientID, m *protocol.Refusal) protocol.Effects {
	switch r := a.round; {
	case a.refusals[c] && (m.Round == a.last || a.held != nil && m.Round == a.held.plan.Round):
		return protocol.Effects{}
	case int64(c) < int64(a.cfg.Clients) && a.held != nil && a.held.plan.Round == m.Round:
	case int64(c) < int64(a.cfg.Clients) && r != nil && r.setup.Round == m.Round && r.stage < protocol.StageMaskedInput && r.awaited[c] == r.stage && !r.verifying[c]:
		r.missed[c] = true
	default:
		return protocol.Ignored(protocol.ClientParty(c), m.Round, protocol.StageAdvertise, errors.New("no first answer to that round is awaited from the client"))
	}
	a.refusals[c] = true
	eff := a.settle(now)
	eff.Events = append([]protocol.Event{{Kind: protocol.PlanRefused, Round: m.Round, Party: protocol.ClientParty(c),
		Err: errors.New("the client takes no part in the round, and its own log says why")}}, eff.Events...)
	return eff
}

// reach counts the clients that could answer a round's first stage, all except the excluded and the clients that
// refuse the plan, and how many of them are connected.
func (a *Aggregator) reach(s protocol.Setup) (connected, could int) {
	for _, id := range s.Chosen() {
		if a.blame.excluded[id] || a.refusals[id] {
			continue
		}
		could++
		if a.here(int(id)) {
			connected++
		}
	}
	return connected, could
}

// holds reports whether a round has to wait for clients before it can begin, and enough of them may still come.
func (a *Aggregator) holds(p *protocol.Plan) bool {
	if !a.cfg.Presence || a.cfg.Gather <= 0 {
		return false
	}
	n, could := a.reach(p.Setup())
	need := p.Cohort.Required()
	return n < need && could >= need
}

// await keeps a plan until enough clients are connected, and tells the server so.
func (a *Aggregator) await(now time.Time, p *protocol.Plan) protocol.Effects {
	n, _ := a.reach(p.Setup())
	a.round, a.held = nil, &heldPlan{plan: p, since: now, deadline: now.Add(a.cfg.Gather - a.waited)}
	if !now.Before(a.held.deadline) {
		return a.release(now)
	}
	m := &protocol.Held{Round: p.Round, Connected: n, Required: p.Cohort.Required()}
	wake := a.held.deadline
	if n >= m.Required { // they were connected before, too
		a.held.begins = now.Add(a.cfg.Grace)
		wake = earlier(wake, a.held.begins)
	}
	return protocol.Effects{Send: []protocol.Envelope{protocol.ToServer(m)}, Wake: wake, Events: []protocol.Event{event(protocol.RoundHeld, p.Round, m)}}
}

// repeatable reports whether a round may still be given up at no cost, to be set up anew. Parties with noise of their
// own are charged as soon as they train.
func (a *Aggregator) repeatable(r *round) bool {
	return r.stage < protocol.StageMaskedInput && !r.plan.OwnNoise() && a.cfg.Presence && a.cfg.Gather > 0
}

// repeats reports whether a round that ends by an error waits for clients instead.
func (a *Aggregator) repeats(now time.Time, r *round, err error) bool {
	_, few := errors.AsType[*protocol.TooFew](err)
	_, could := a.reach(r.setup)
	return few && a.repeatable(r) && could >= r.setup.Cohort.Required() && a.waited+now.Sub(r.begun) < a.cfg.Gather
}

// spoilt reports whether a client that dealt to this setup was excluded since, and a setup without it can follow. Else the
// round continues: the clients that complain of it have no mask with it.
func (a *Aggregator) spoilt(now time.Time, r *round) bool {
	return r.stage == protocol.StagePrepared && a.repeats(now, r, new(protocol.TooFew)) &&
		slices.ContainsFunc(r.chosen, func(id protocol.ClientID) bool { return a.blame.excluded[id] && r.awaited[id] != gone })
}

// repeat gives up the setup of the round in progress, and has its plan wait. The time that the setup took counts as
// waited, so that a session ends whatever its clients do.
func (a *Aggregator) repeat(now time.Time, eff protocol.Effects) protocol.Effects {
	r := a.round
	a.waited += now.Sub(r.begun)
	a.anew++
	held := a.await(now, r.plan)
	held.Events = append(eff.Events, held.Events...)
	return held
}

// stopWaiting ends the wait of a held plan, if there is one.
func (a *Aggregator) stopWaiting(now time.Time) {
	if a.held != nil {
		a.waited += now.Sub(a.held.since)
		a.held = nil
	}
}

// release begins the held round once enough clients are connected, and gives it up when the session
// has waited for as long as it may. Clients that
// come back together are given the grace of a lost connection: the round would be without the last of them.
func (a *Aggregator) release(now time.Time) protocol.Effects {
	h := a.held
	n, could := a.reach(h.plan.Setup())
	need := h.plan.Cohort.Required()
	late := !now.Before(h.deadline)
	switch {
	case n >= need && (n == could || late || !h.begins.IsZero() && !now.Before(h.begins)):
		a.stopWaiting(now)
		return a.start(now, h.plan)
	case n >= need:
		if h.begins.IsZero() {
			h.begins = now.Add(a.cfg.Grace)
		}
		return protocol.Effects{Wake: earlier(h.deadline, h.begins)}
	case !late && could >= need:
		h.begins = time.Time{}
		return protocol.Effects{Wake: h.deadline}
	}
	a.stopWaiting(now)
	a.session, a.last, a.signature = h.plan.Session, h.plan.Round, h.plan.Signature
	why := &protocol.TooFew{Round: h.plan.Round, Stage: protocol.StageAdvertise, Left: n, Required: need}
	return aborted(h.plan.Round, why, why)
}

// alone gives up the held round, and has none wait from now on.
func (a *Aggregator) alone(now time.Time) protocol.Effects {
	a.waited = a.cfg.Gather
	if a.held == nil {
		return protocol.Effects{}
	}
	a.held.since, a.held.deadline = now, now
	return a.release(now)
}

// usable reports whether enough of the clients that a round set up ahead is for are still connected.
func (a *Aggregator) usable(r *round) bool {
	if !a.cfg.Presence {
		return true
	}
	n := 0
	for c, stage := range r.awaited {
		if stage == protocol.StagePrepared && a.here(c) {
			n++
		}
	}
	return n >= r.setup.Cohort.Required()
}
