package aggregator

import (
	"fmt"

	"github.com/fedsim/fedsim/protocol"
)

// In active mode clients may lie. A client that lied in every round would prevent every sum. So a
// client that is proved to have lied takes no part for the rest of the session. Nothing of it is
// heard, and nothing is sent to it except the end. A setup ahead with it is made anew.
//
// Proof is a message that an honest client never sends. It may be a message refused for its
// content, by a client that the driver has authenticated. It may be signed shares that do not give
// what they are shares of (Sum.Culprits). Complaints about dealt shares are no proof, since either
// of the two clients may lie. But at most Cohort.Liars clients are assumed to lie. So a client that
// more than these complain of, over all rounds, has lied, and so has a client that complains of
// more.

// blame holds the facts about lying clients in a session.
type blame struct {
	excluded map[protocol.ClientID]bool
	by, of   map[protocol.ClientID]map[protocol.ClientID]bool // by: the clients that a client complains of; of: the clients that complain of it
}

func newBlame() blame {
	return blame{excluded: make(map[protocol.ClientID]bool),
		by: make(map[protocol.ClientID]map[protocol.ClientID]bool), of: make(map[protocol.ClientID]map[protocol.ClientID]bool)}
}

// complain books a client's complaints, and says whom they prove to lie.
func (b *blame) complain(by protocol.ClientID, list []protocol.Complaint, c protocol.Cohort) []protocol.Culprit {
	var out []protocol.Culprit
	for _, m := range list {
		if note(b.of, m.Of, by) > c.Liars() {
			out = append(out, protocol.Culprit{Client: m.Of, Err: fmt.Errorf("%d clients complain of what it dealt, and at most %d are taken to lie", len(b.of[m.Of]), c.Liars())})
		}
		if note(b.by, by, m.Of) > c.Liars() {
			out = append(out, protocol.Culprit{Client: by, Err: fmt.Errorf("it complains of %d clients, and at most %d are taken to lie", len(b.by[by]), c.Liars())})
		}
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

// refuse handles a message that was refused in a round. If the message proves its client to lie,
// the client leaves the round. It may have been the last that was awaited.
func (a *Aggregator) refuse(r *round, from protocol.ClientID) []protocol.Event {
	events := a.exclude(r.setup.Round, r.sum.Culprits())
	if len(events) > 0 && r.awaited[from] == r.stage {
		r.awaited[from] = gone
		r.expected--
	}
	return events
}
