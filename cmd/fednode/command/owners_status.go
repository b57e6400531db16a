package command

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
)

// ownerStatus is what a client's state tells its owner.
type ownerStatus struct {
	Place    string         `json:"place"`
	Sessions []sessionSpent `json:"sessions"`
	// Spent is what all sessions cost together, at the delta and by the accountant of the last
	// one; nil where there is no account of it, which Unaccounted then says why.
	Spent       *float64 `json:"epsilon_spent"`
	Delta       float64  `json:"delta,omitempty"`
	Left        *float64 `json:"epsilon_left"` // of --max-epsilon; nil as Spent is
	Unaccounted string   `json:"unaccounted,omitempty"`
}

// sessionSpent is a session that the client has agreed to.
type sessionSpent struct {
	store.Consent

	Rounds int `json:"rounds_charged"`
	// Spent is what it has cost so far by itself; nil without an account of it.
	Spent *float64 `json:"epsilon_spent"`
}

// readOwner reads a client's state, of which no process may be running.
func readOwner(state string, most float64) (*ownerStatus, error) {
	m, err := admission.ReadFile(filepath.Join(state, membershipFile), admission.ParseMembership)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Misusef("--state %s: it is not that of a client that has enrolled", state)
	}
	if err != nil {
		return nil, err
	}
	consents, err := store.Consents(state)
	if err != nil {
		return nil, err
	}
	ledger, err := store.OpenLedger(filepath.Join(state, ledgerFile), m.Enrolment.Identity)
	if errors.Is(err, store.ErrLocked) {
		return nil, cli.Misusef("--state %s: its client is running; stop it, or ask it with --ops", state)
	}
	if err != nil {
		return nil, err
	}
	defer ledger.Close() //nolint:errcheck // only read
	out := &ownerStatus{Place: m.Enrolment.Ticket.Place.String(), Sessions: []sessionSpent{}}
	records, err := ledger.Records()
	if errors.Is(err, store.ErrUnprotected) {
		out.Unaccounted, err = err.Error(), nil
	}
	if err != nil {
		return nil, err
	}
	for _, c := range consents {
		s := sessionSpent{Consent: c}
		s.Rounds, s.Spent = spentIn(c, records)
		out.Sessions = append(out.Sessions, s)
	}
	out.account(records, most)
	return out, nil
}

// account adds all sessions up.
func (o *ownerStatus) account(records []dp.Record, most float64) {
	if o.Unaccounted != "" || len(o.Sessions) == 0 {
		return
	}
	last := o.Sessions[len(o.Sessions)-1].Privacy
	if o.Spent = cost(last, records); o.Spent == nil {
		return
	}
	o.Delta = last.Delta
	if left := max(0, most-*o.Spent); !math.IsInf(left, 1) {
		o.Left = &left
	}
}

// spentIn is in how many rounds of a session a client was charged, and what that costs.
func spentIn(c store.Consent, records []dp.Record) (rounds int, epsilon *float64) {
	var own []dp.Record
	for _, r := range records {
		if hex.EncodeToString(r.Session[:]) == c.Session {
			own = append(own, r)
		}
	}
	return len(own), cost(c.Privacy, own)
}

// cost is the epsilon of charges at the delta and by the accountant of a statement; nil
// where that has none.
func cost(by dp.Statement, records []dp.Record) *float64 {
	if len(records) == 0 {
		return new(float64)
	}
	problem := dp.Problem{Delta: by.Delta, Accountant: by.Accountant}
	for _, r := range records {
		problem.Events = append(problem.Events, r.Events...)
	}
	r, err := problem.Epsilon()
	if err != nil || math.IsInf(r.Epsilon, 1) {
		return nil
	}
	return &r.Epsilon
}

func (o *ownerStatus) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "place\t%s\n", o.Place)
	for _, s := range o.Sessions {
		fmt.Fprintf(&b, "session\t%s, %s, since %s\n", s.Session, s.Algorithm, s.At.Format("2006-01-02 15:04"))
		fmt.Fprintf(&b, "  consented to\t%s, mode %s, %d clients, of whom %v may collude and %v be lost\n", s.Privacy, s.Mode, s.Clients, s.Colluders, s.Tolerance)
		fmt.Fprintf(&b, "  spent\tepsilon %s in %d of %d rounds\n", rounded(s.Spent), s.Rounds, s.Consent.Rounds)
	}
	switch {
	case o.Unaccounted != "":
		fmt.Fprintf(&b, "in all\t%s\n", o.Unaccounted)
	case len(o.Sessions) == 0:
		fmt.Fprintf(&b, "in all\tno session yet\n")
	default:
		fmt.Fprintf(&b, "in all\tepsilon %s at delta %v; left of --max-epsilon: %s\n", rounded(o.Spent), o.Delta, o.left())
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if _, err := io.WriteString(t, b.String()); err != nil {
		return err
	}
	return t.Flush()
}

// left is what is left, rounded down.
func (o *ownerStatus) left() string {
	if o.Left == nil {
		return "any"
	}
	return strconv.FormatFloat(math.Floor(*o.Left*100)/100, 'f', -1, 64)
}

// rounded is an epsilon for people, rounded up.
func rounded(e *float64) string {
	if e == nil {
		return "unknown"
	}
	return dp.RoundUp(*e, 3)
}
