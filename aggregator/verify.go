package aggregator

import (
	"errors"
	"time"

	"github.com/fedsim/fedsim/protocol"
)

// Signatures take long to verify: dealt shares in an active sum have one for each neighbour of the
// client. So messages with signatures are verified as work. All messages that came during one work
// are verified by the next, and accepted in the order in which they came. A stage is closed when
// every message that came before its end is verified, and hears no later message. So the time of
// arrival decides which messages count, and not the load of the aggregator.

// verification is of the messages that wait to be taken.
type verification struct {
	work    uint64       // ID of the work that verifies the batch
	batch   []unverified // nil: nothing is being verified
	waiting []unverified
	closing bool // the present stage is over, and closed once all are verified
}

// unverified is a message before its signatures are verified.
type unverified struct {
	round  *round
	from   protocol.Party
	m      protocol.StageMessage
	verify func(protocol.Runner) (receive func() error)
}

// offer hands a client's message to the sum of a round, at once or once it is verified.
func (a *Aggregator) offer(r *round, from protocol.Party, m protocol.StageMessage) []protocol.Event {
	if err := r.admits(from.Client, m); err != nil {
		return a.concluded(r, from, m, err)
	}
	if _, stage := m.At(); stage == protocol.StagePrepared {
		return a.concluded(r, from, m, nil) // the sum has no such stage
	}
	if verify := r.sum.Verify(from.Client, m); verify != nil {
		r.verifying[from.Client] = true
		a.verification.waiting = append(a.verification.waiting, unverified{r, from, m, verify})
		return nil
	}
	return a.concluded(r, from, m, r.sum.Receive(from.Client, m))
}

// concluded carries out the effects of a message that a round has accepted or, with an error,
// refused.
func (a *Aggregator) concluded(r *round, from protocol.Party, m protocol.StageMessage, err error) []protocol.Event {
	if err != nil {
		round, stage := m.At()
		return append(ignored(from, round, stage, err).Events, a.refuse(r, from.Client)...)
	}
	r.awaited[from.Client] = r.following()
	r.answered++
	return a.accepted(r, from, m)
}

// verify begins to verify what waits, unless something is being verified.
func (a *Aggregator) verify() []protocol.Work {
	v := &a.verification
	if v.batch != nil || len(v.waiting) == 0 {
		return nil
	}
	a.work++
	v.work, v.batch, v.waiting = a.work, v.waiting, nil
	batch := v.batch
	w := protocol.NewWork(a.work, func(run protocol.Runner) ([]func() error, error) { return verifyAll(batch, run), nil }, a.verified)
	w.Checks = true
	return []protocol.Work{w}
}

// verifyAll verifies messages side by side; a lone one has its signatures so.
func verifyAll(batch []unverified, run protocol.Runner) []func() error {
	out := make([]func() error, len(batch))
	if len(batch) == 1 {
		out[0] = batch[0].verify(run)
		return out
	}
	run.Each(len(batch), func(i int) { out[i] = batch[i].verify(protocol.Workers(1)) })
	return out
}

// verified accepts the messages of the batch, and continues with the messages that came meanwhile.
func (a *Aggregator) verified(now time.Time, receive []func() error) protocol.Effects {
	v := &a.verification
	batch := v.batch
	v.batch = nil
	var events []protocol.Event
	for i, x := range batch {
		x.round.verifying[x.from.Client] = false
		if x.round != a.round && x.round != a.next {
			continue // left, while its messages were verified
		}
		err := x.round.admits(x.from.Client, x.m)
		if err == nil {
			err = receive[i]()
		}
		events = append(events, a.concluded(x.round, x.from, x.m, err)...)
	}
	return a.goOn(now, events)
}

// goOn closes the present stage if it is time to, and verifies what waits.
func (a *Aggregator) goOn(now time.Time, events []protocol.Event) protocol.Effects {
	var eff protocol.Effects
	switch r := a.round; {
	case r == nil || r.summing != 0:
	case a.verification.closing || r.complete() && !a.leaves(r) || r.relayed.asked && !r.collecting():
		eff = a.closeStage(now)
	default:
		eff = a.settle(now)
	}
	eff.Work = append(eff.Work, a.verify()...)
	eff.Events = append(events, eff.Events...)
	return eff
}

// verifies reports whether a message of a round in progress is still to be verified.
func (a *Aggregator) verifies() bool {
	for _, list := range [][]unverified{a.verification.batch, a.verification.waiting} {
		for _, x := range list {
			if x.round == a.round || x.round == a.next {
				return true
			}
		}
	}
	return false
}

// errClosing is why messages are ignored that come when the present stage is over.
var errClosing = errors.New("the stage is over")
