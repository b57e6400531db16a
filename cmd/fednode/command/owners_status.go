package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
)

// readOwner reads a client's state. No process may be running on it.
func readOwner(state string, most float64) (*store.Account, error) {
	m, err := admission.ReadFile(filepath.Join(state, party.MembershipFile), admission.ParseMembership)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Misusef("--state %s: it does not belong to a client that has enrolled", state)
	}
	if err != nil {
		return nil, err
	}
	ledger, err := store.OpenLedger(filepath.Join(state, party.LedgerFile), m.Enrolment.Identity)
	if errors.Is(err, store.ErrLocked) {
		return nil, cli.Misusef("--state %s: its client is running; stop it, or ask it with --ops", state)
	}
	if err != nil {
		return nil, err
	}
	defer ledger.Close() //nolint:errcheck // only read
	consents, err := store.Consents(state)
	if err != nil {
		return nil, err
	}
	return ledger.Account(m.Enrolment.Ticket.Place.String(), consents, most)
}

// runningAccount is the account of a running client. It is computed when a caller asks for it, and
// again only when there is more to it.
type runningAccount struct {
	state  string
	member *party.Member
	most   float64 // --max-epsilon

	mu                sync.Mutex
	known             *store.Account
	charges, sessions int // that are in it
}

func (r *runningAccount) account() (*store.Account, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	consents, err := store.Consents(r.state)
	if err != nil {
		return nil, err
	}
	if charges := r.member.Ledger.Charges(); r.known == nil || r.charges != charges || r.sessions != len(consents) {
		if r.known, err = r.member.Ledger.Account(r.member.Membership.Enrolment.Ticket.Place.String(), consents, r.most); err != nil {
			return nil, err
		}
		r.charges, r.sessions = charges, len(consents)
	}
	return r.known, nil
}

func printAccounts(w io.Writer, list ...store.Account) error {
	var b strings.Builder
	for i := range list {
		describeAccount(&b, &list[i])
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(t, b.String()); err != nil {
		return err
	}
	return t.Flush()
}

func describeAccount(b *strings.Builder, a *store.Account) {
	fmt.Fprintf(b, "place\t%s\n", a.Place)
	for _, s := range a.Sessions {
		fmt.Fprintf(b, "session\t%s, %s, since %s\n", s.Session, s.Algorithm, s.At.Format("2006-01-02 15:04"))
		fmt.Fprintf(b, "  consented to\t%s\n", s.Terms())
		fmt.Fprintf(b, "  spent\tepsilon %s in %d of %d rounds\n", store.RoundedUp(s.Spent), s.Charged, s.Rounds)
	}
	fmt.Fprintf(b, "in all\t%s\n", a.InAll())
}
