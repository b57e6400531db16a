package aggregator

import (
	"fmt"
	"time"

	"github.com/fedsim/fedsim/protocol"
)

// A client that is connected and says nothing costs every round the tail of a stage. After silentRounds
// of them it is not awaited: a stage ends without it as soon as enough others have answered. It is still
// chosen, told of every round, and heard as long as a stage is open. Any answer, even a late one, has it
// awaited again.
//
// Privacy does not depend on it. Which clients are chosen, how many must answer and how much noise each adds stay as
// the plan says: a round without a silent client has no fewer survivors than one that waited for it in vain. It
// gives an aggregator no power over whom a sum is of, either. An aggregator that likes can close a stage on whom it
// does not want, up to the tolerance that noise is sized for, and no rule of waiting takes that away. One that
// follows the protocol leaves out no client whose answers come: a late answer counts as one, so that a client is not
// out for good because the others are faster. It says once, in its log, whom it does not await.

// silentRounds is the number of rounds in a row that wait for a client in vain.
const silentRounds = 3

// awaits reports whether a stage with enough answers waits for a client.
func (a *Aggregator) awaits(c int) bool { return a.silent[c] < silentRounds }

// spoke notes that a client has said something, however late.
func (a *Aggregator) spoke(c protocol.ClientID) {
	if int(c) < len(a.silent) {
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
