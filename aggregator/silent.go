package aggregator

import (
	"fmt"
	"time"

	"github.com/fedsim/fedsim/protocol"
)

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
