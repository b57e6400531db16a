package aggregator

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fedsim/fedsim/protocol"
)

// round is a round in progress, or a round that is set up.
type round struct {
	setup    protocol.Setup
	chosen   []protocol.ClientID // whom it asks, in the order in which they are told
	ahead    bool                // it was set up before there was a plan
	anew     uint32              // the setups with its plan that were given up before
	begun    time.Time           // when its plan was announced
	plan     *protocol.Plan      // nil before there is one
	sum      Sum
	proceed  protocol.Proceed // one for all clients
	stage    protocol.Stage
	deadline time.Time
	tail     time.Time // when it is over; zero before enough have answered the present stage
	wake     time.Time // that was asked for last; zero: the deadline
	missed   []bool    // by client: it has not heard what it would have to answer
	// verifying[c] says that client c has answered the present stage, and that its
	// message is still to be verified.
	verifying []bool
	// awaited[c] is the stage that client c is expected to answer or, if it was lost, was expected
	// to. For a client that has answered the present stage, it is the following stage.
	awaited  []protocol.Stage
	expected int
	answered int
	inputs   int    // answered at the stage masked-input: |U1|
	unmasked int    // answered at the stage unmask: |U2|
	summing  uint64 // ID of the work that sums up; 0 before
	relayed  relayed
}

// admits returns an error if the present stage does not wait for a client's message.
func (r *round) admits(from protocol.ClientID, m protocol.StageMessage) error {
	_, stage := m.At()
	switch {
	case stage != r.stage || r.plan == nil && stage == protocol.StagePrepared:
		return fmt.Errorf("the stage %s is in progress", r.stage)
	case int(from) >= len(r.awaited):
		return errors.New("the client is not enrolled")
	case r.stale(m):
		return errors.New("it is of another setup of the round")
	case r.awaited[from] != stage || r.verifying[from]:
		return errors.New("the client has answered already, or was lost before")
	}
	return nil
}

// complete reports whether the present stage waits for no more clients: all have answered who may,
// or as many as the round continues with.
func (r *round) complete() bool { return r.answered >= min(r.expected, r.setup.Cohort.Wanted()) }

// lose takes a client out of the round.
func (r *round) lose(c protocol.ClientID) {
	if r.awaited[c] == r.following() {
		r.answered--
	}
	r.awaited[c] = gone
	r.expected--
}

func (r *round) following() protocol.Stage {
	return protocol.StageFlow{Prepares: true, Confirms: r.sum.Confirms(), Replaces: r.setup.Replaces}.After(r.stage)
}

// close ends the present stage. Enough clients must be left.
func (r *round) close() error {
	if need := r.setup.Cohort.Required(); r.answered < need {
		return &protocol.TooFew{Round: r.setup.Round, Stage: r.stage, Left: r.answered, Required: need}
	}
	if r.stage == protocol.StagePrepared {
		return nil // which the sum has not
	}
	return r.sum.Close(r.stage)
}

// opening gives what opens the stage after the present one, for a client that answered that.
func (r *round) opening(id protocol.ClientID) protocol.Message {
	if r.stage == protocol.StagePrepared {
		r.proceed.Round = r.setup.Round
		return &r.proceed
	}
	return r.sum.Next(r.stage, id)
}

// advance opens the stage after a closed one, for the clients that answered the closed stage.
func (r *round) advance() {
	r.stage = r.following()
	r.expected, r.answered = r.answered, 0
	r.relayed = relayed{}
}

// begin sets when the present stage ends at the latest.
func (r *round) begin(deadline time.Time) {
	r.deadline, r.tail, r.wake = deadline, time.Time{}, deadline
}

// A client that is connected and says nothing costs every round the tail of a stage. After silentRounds
// of them it is not awaited: a stage ends without it as soon as enough others have answered. It is still
// chosen, told of every round, and heard as long as a stage is open. Any answer in a round, even a late
// one, has it awaited again.
//
// Privacy does not depend on it. Which clients are chosen, how many must answer and how much noise each adds stay as
// the plan says. A round that does not wait for a silent client has as many survivors as a round that waits in
// vain. Nor does it give an aggregator power over whom a sum is of. An aggregator that lies can close a stage on
// clients that it does not want, up to the tolerance that noise is sized for. No rule of waiting takes
// that away. An aggregator that follows the protocol leaves out no client whose answers come. A late answer counts as
// an answer, so that a client is not out for good because others are faster. The log says once which client is not awaited.

// silentRounds is the number of rounds in a row that wait for a client in vain.
const silentRounds = 3

// awaits reports whether a stage with enough answers waits for a client.
func (a *Aggregator) awaits(c int) bool { return a.silent[c] < silentRounds }

// spoke notes that a client has answered, however late. The setup of a round ahead takes no training, so that a client
// whose training hangs answers that.
func (a *Aggregator) spoke(c protocol.ClientID, m protocol.StageMessage) {
	ahead := false
	switch m := m.(type) {
	case *protocol.Advertise:
		ahead = m.Ahead
	case *protocol.Shares:
		ahead = m.Ahead
	default:
	}
	if !ahead && int(c) < len(a.silent) {
		a.silent[c] = 0
	}
}

// hushed notes, as a stage ends, that a client was connected, could have answered, and has not, although enough others
// have. It reports that the client is not awaited from now on.
func (a *Aggregator) hushed(r *round, c int, now time.Time) []protocol.Event {
	if !a.cfg.Presence || r.answered < r.setup.Cohort.Required() || !a.here(c) || r.missed[c] || a.lines[c].moving > 0 || now.Before(a.lines[c].due) {
		return nil
	}
	if over := !r.tail.IsZero() && !now.Before(r.tail) || !now.Before(r.deadline); !over {
		return nil // others were faster, which is no silence
	}
	if a.silent[c]++; a.silent[c] != silentRounds {
		return nil
	}
	return []protocol.Event{{Kind: protocol.ClientSilent, Round: r.setup.Round, Party: protocol.ClientParty(protocol.ClientID(c)),
		Err: fmt.Errorf("it is connected, and %d rounds in a row have waited for it in vain: no round waits for it now, until it answers again. "+
			"See to its process, which may hang: its log says what it does. Revoke it if it is gone for good", silentRounds)}}
}

// In active mode clients may lie. A client that lied in every round would prevent every sum. So a
// client that is proved to have lied takes no part for the rest of the session. Nothing of it is
// heard, and nothing is sent to it except the end. A setup ahead with it is made anew.
//
// Proof is a message that an honest client never sends: a message refused for its content, by a
// client that the driver has authenticated (Sum.Culprits). Complaints about dealt shares are no
// proof, since either of the two clients may lie. But at most Cohort.Liars clients are assumed to
// lie. So a client that more than these complain of, over all rounds, has lied, and so has a client
// that complains of more.

// blame holds the facts about lying clients in a session.
type blame struct {
	excluded map[protocol.ClientID]bool
	by, of   map[protocol.ClientID]map[protocol.ClientID]bool // by: the clients that a client complains of; of: the clients that complain of it
}

func newBlame() blame {
	return blame{excluded: make(map[protocol.ClientID]bool),
		by: make(map[protocol.ClientID]map[protocol.ClientID]bool), of: make(map[protocol.ClientID]map[protocol.ClientID]bool)}
}

// complain books a client's complaint of another, and says whom it proves to lie.
func (b *blame) complain(by, of protocol.ClientID, c protocol.Cohort) []protocol.Culprit {
	var out []protocol.Culprit
	if note(b.of, of, by) > c.Liars() {
		out = append(out, protocol.Culprit{Client: of, Err: fmt.Errorf("%d clients complain of what it dealt, and at most %d are taken to lie", len(b.of[of]), c.Liars())})
	}
	if note(b.by, by, of) > c.Liars() {
		out = append(out, protocol.Culprit{Client: by, Err: fmt.Errorf("it complains of %d clients, and at most %d are taken to lie", len(b.by[by]), c.Liars())})
	}
	return out
}

// note adds to a set of a book, and counts what is in it.
func note(book map[protocol.ClientID]map[protocol.ClientID]bool, of, who protocol.ClientID) int {
	if book[of] == nil {
		book[of] = make(map[protocol.ClientID]bool)
	}
	book[of][who] = true
	return len(book[of])
}

// exclude puts culprits out, with a word of each that was not out before.
func (a *Aggregator) exclude(round uint64, list []protocol.Culprit) []protocol.Event {
	var out []protocol.Event
	for _, c := range list {
		if a.blame.excluded[c.Client] {
			continue
		}
		a.blame.excluded[c.Client] = true
		a.next = nil // it may be in that
		out = append(out, protocol.Event{Kind: protocol.ClientExcluded, Round: round, Party: protocol.ClientParty(c.Client), Err: c.Err})
	}
	return out
}

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

// concluded carries out the effects of a message that a round has accepted or, with an error, refused. If a
// refused message proves its client to lie, the client leaves the round. It may have been the last that was awaited.
func (a *Aggregator) concluded(r *round, from protocol.Party, m protocol.StageMessage, err error) []protocol.Event {
	if err != nil {
		round, stage := m.At()
		events := append(protocol.Ignored(from, round, stage, err).Events, a.exclude(r.setup.Round, r.sum.Culprits())...)
		if a.blame.excluded[from.Client] && r.awaited[from.Client] == r.stage {
			r.lose(from.Client)
		}
		return events
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
	batch := v.waiting
	v.work, v.batch, v.waiting = a.work, batch, nil
	w := protocol.NewWork(a.work, func(run protocol.Runner) ([]func() error, error) {
		out := make([]func() error, len(batch))
		if len(batch) == 1 { // messages are verified side by side; a lone one has its signatures so
			out[0] = batch[0].verify(run)
			return out, nil
		}
		run.Each(len(batch), func(i int) { out[i] = batch[i].verify(protocol.Workers(1)) })
		return out, nil
	}, a.verified)
	w.Checks = true
	return []protocol.Work{w}
}

// verified accepts the messages of the batch, and continues with the messages that came meanwhile.
func (a *Aggregator) verified(now time.Time, receive []func() error) protocol.Effects {
	batch := a.verification.batch
	a.verification.batch = nil
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
	return slices.ContainsFunc(slices.Concat(a.verification.batch, a.verification.waiting), func(x unverified) bool {
		return x.round == a.round || x.round == a.next
	})
}
