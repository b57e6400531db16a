package aggregator

import (
	"time"

	"github.com/fedsim/fedsim/protocol"
)

// The connections decide how long a stage waits, never whether enough clients have answered. A
// stage with too few answers waits until its timeout.

// connection is a client's line to the aggregator, as the aggregator knows it.
type connection struct {
	number uint64    // of the newest one; 0: there was none
	lost   time.Time // when it was lost; zero while it stands
	moving int       // long messages that pass it
	due    time.Time // when the last message that was sent over it has arrived
}

// connected notes a client's new connection. The client still knows what it knew of the round in
// progress.
func (a *Aggregator) connected(now time.Time, in protocol.Connected) protocol.Effects {
	if int(in.Client) >= len(a.lines) || in.Connection <= a.lines[in.Client].number {
		return protocol.Effects{} // overtaken by a newer one
	}
	a.lines[in.Client] = connection{number: in.Connection}
	again := a.announceAgain(in)
	eff := a.settle(now)
	eff.Send = append(again, eff.Send...)
	return eff
}

// announceAgain gives the plan once more to a client that lost its connection before it answered the announcement,
// which may not have arrived. A client that has it ignores it. A relay would be given the plan for each of its clients
// that comes back, and those have a connection that is as good as the relay's.
func (a *Aggregator) announceAgain(in protocol.Connected) []protocol.Envelope {
	r, c := a.round, in.Client
	if in.Relayed || r == nil || r.summing != 0 || r.ahead || r.stage != protocol.StageAdvertise ||
		r.awaited[c] != protocol.StageAdvertise || r.missed[c] || r.verifying[c] {
		return nil
	}
	return []protocol.Envelope{protocol.ToClient(c, &protocol.Announce{Plan: r.plan, Anew: r.anew})}
}

// transfer notes that a long message begins to pass a client's connection, or has.
func (a *Aggregator) transfer(in protocol.Transfer) {
	if int(in.Client) >= len(a.lines) || in.Connection != a.lines[in.Client].number {
		return
	}
	l := &a.lines[in.Client]
	if in.Begins {
		l.moving++
		return
	}
	l.moving--
	if in.Until.After(l.due) {
		l.due = in.Until
	}
}

// stretch returns until when the present stage continues, although its time is over: its messages are still
// passing the lines of so many clients that it can get enough answers. Zero if they are not. A client has the time of
// a stage once it has what the stage sent it. A line on which too little moves is given up by the driver, so
// that the time that messages take is bounded by their length.
func (a *Aggregator) stretch(r *round, now time.Time) (until time.Time) {
	if !a.cfg.Presence {
		return until
	}
	n := a.standing(r)
	for c, stage := range r.awaited {
		if stage != r.stage || r.missed[c] || !a.here(c) {
			continue
		}
		end := a.lines[c].due.Add(a.cfg.StageTimeout)
		if a.lines[c].moving > 0 {
			end = now.Add(a.cfg.StageTimeout)
		}
		if !now.Before(end) {
			continue
		}
		if n++; end.After(until) {
			until = end
		}
	}
	if need := r.setup.Cohort.Required(); a.standing(r) >= need || n < need {
		return time.Time{}
	}
	return until
}

// disconnected takes in that a connection is lost, unless there is a newer one.
func (a *Aggregator) disconnected(now time.Time, in protocol.Disconnected) protocol.Effects {
	if int(in.Client) >= len(a.lines) || in.Connection != a.lines[in.Client].number {
		return protocol.Effects{}
	}
	a.lines[in.Client].lost = now
	return a.settle(now)
}

// here says whether a client would hear what is sent now.
func (a *Aggregator) here(c int) bool {
	return !a.cfg.Presence || a.lines[c].number > 0 && a.lines[c].lost.IsZero()
}

// sent notes who does not hear what opens a stage: it could not answer.
func (a *Aggregator) sent(r *round, list []protocol.Envelope) {
	if !a.cfg.Presence {
		return
	}
	for _, e := range list {
		if c := int(e.To.Client); e.To.Role == protocol.Client && !a.here(c) {
			r.missed[c] = true
		}
	}
}

// pending counts the clients that may still answer the present stage, and returns until when that
// is so at least for the clients that may come back; zero if there are none. Once enough have answered, it leaves out
// the silent ones.
func (a *Aggregator) pending(r *round, now time.Time, enough bool) (n int, back time.Time) {
	leaves := a.leaves(r)
	for c, stage := range r.awaited {
		answered := leaves && stage == r.following()
		if stage != r.stage && !answered || r.missed[c] {
			continue
		}
		if a.here(c) {
			if !answered && (!enough || a.awaits(c)) {
				n++
			}
			continue
		}
		if end := a.lines[c].lost.Add(a.cfg.Grace); a.lines[c].number > 0 && now.Before(end) {
			n++
			if back.IsZero() || end.Before(back) {
				back = end
			}
		}
	}
	return n, back
}

// leaves reports whether clients that have answered the present stage are to be there at its end: a client that was
// prepared and is gone would not hear that it is to proceed.
func (a *Aggregator) leaves(r *round) bool {
	return r.stage == protocol.StagePrepared && a.repeatable(r)
}

// left are the clients that have answered the present stage, and are gone although they are to be there at its end.
func (a *Aggregator) left(r *round) (out []int) {
	if !a.leaves(r) {
		return nil
	}
	for c, stage := range r.awaited {
		if stage == r.following() && (r.missed[c] || !a.here(c)) {
			out = append(out, c)
		}
	}
	return out
}

// standing counts the clients that have answered the present stage, and are there if they are to be.
func (a *Aggregator) standing(r *round) int { return r.answered - len(a.left(r)) }

func lost(r *round, c int) protocol.Event {
	return protocol.Event{Kind: protocol.ClientLost, Round: r.setup.Round, Party: protocol.ClientParty(protocol.ClientID(c)), Stage: r.stage}
}

// settle ends the present stage if its time is over, or if enough clients have answered and either
// no other client may or the tail is over. It also ends the stage of a repeatable round that will
// not have enough clients. Otherwise it asks to be woken when that can change.
func (a *Aggregator) settle(now time.Time) protocol.Effects {
	if a.held != nil {
		return a.release(now)
	}
	r := a.round
	if r == nil || r.summing != 0 || a.verification.closing || r.collecting() && now.Before(r.deadline) {
		return protocol.Effects{}
	}
	if !now.Before(r.deadline) {
		if until := a.stretch(r, now); !until.IsZero() {
			r.deadline, r.wake = until, until
			return protocol.Effects{Wake: until}
		}
		return a.closeStage(now)
	}
	need, answered := r.setup.Cohort.Required(), a.standing(r)
	enough := answered >= need
	if !enough && !a.repeatable(r) {
		return protocol.Effects{}
	}
	wake := r.deadline
	if a.cfg.Presence {
		n, back := a.pending(r, now, enough)
		if n == 0 || answered+n < need {
			return a.closeStage(now)
		}
		wake = earlier(wake, back)
	}
	if enough && a.cfg.Tail > 0 {
		if r.tail.IsZero() {
			r.tail = now.Add(a.cfg.Tail)
		}
		if !now.Before(r.tail) {
			return a.closeStage(now)
		}
		wake = earlier(wake, r.tail)
	}
	if wake.Equal(r.wake) {
		return protocol.Effects{}
	}
	r.wake = wake
	return protocol.Effects{Wake: wake}
}

// earlier returns the earlier of two times; b may be zero, which is none.
func earlier(a, b time.Time) time.Time {
	if !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// woken looks at the stage in progress at the time that was asked for.
func (a *Aggregator) woken(now time.Time) protocol.Effects {
	r := a.round
	if r == nil || a.held != nil || !a.cfg.Presence && a.cfg.Tail == 0 {
		return a.settle(now) // without presence and tail there is only one time to be woken at
	}
	r.wake = time.Time{}
	eff := a.settle(now)
	if r == a.round && r.summing == 0 && !a.verification.closing && r.wake.IsZero() {
		r.wake, eff.Wake = r.deadline, r.deadline // what it was woken by is past
	}
	return eff
}
