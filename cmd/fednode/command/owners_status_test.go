package command

import (
	"math"
	"strings"
	"testing"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/node/store"
)

// Two Gaussian releases with multiplier sqrt(2) are one with multiplier 1, which costs 4.3772
// at delta 1e-5 by the exact formula of Balle and Wang (2018, Theorem 8); one of them by
// itself costs less. What is left is of what the owner allows.
func TestOwnerIsToldWhatIsSpent(t *testing.T) {
	half := []dp.Event{dp.Gaussian(math.Sqrt2)}
	records := []dp.Record{{Session: [16]byte{1}, Iteration: 1, Events: half}, {Session: [16]byte{2}, Iteration: 1, Events: half}}
	o := &ownerStatus{Place: "client 0"}
	for _, id := range []string{"01", "02", "03"} {
		s := sessionSpent{Consent: store.Consent{Session: id + strings.Repeat("0", 30), Rounds: 4, Privacy: dp.Statement{Delta: 1e-5, Accountant: dp.Exact}}}
		s.Rounds, s.Spent = spentIn(s.Consent, records)
		o.Sessions = append(o.Sessions, s)
	}
	o.account(records, 10)
	if o.Spent == nil || math.Abs(*o.Spent-4.3772) > 1e-4 || o.Left == nil || math.Abs(*o.Left-(10-4.3772)) > 1e-4 {
		t.Errorf("spent %v, left %v; want 4.3772 of 10", o.Spent, o.Left)
	}
	for i, rounds := range []int{1, 1, 0} {
		s := o.Sessions[i]
		if s.Rounds != rounds || s.Spent == nil || (*s.Spent > 0) != (rounds > 0) || *s.Spent > *o.Spent {
			t.Errorf("session %s: %d rounds, epsilon %v; want %d rounds", s.Session, s.Rounds, s.Spent, rounds)
		}
	}
	var text strings.Builder
	if err := o.print(&text); err != nil || !strings.Contains(text.String(), "epsilon 4.38 at delta 1e-05; left of --max-epsilon: 5.62\n") {
		t.Errorf("%v\n%s", err, &text)
	}
	o.account(records, 4)
	if *o.Left != 0 {
		t.Errorf("of 4 are left %v", *o.Left)
	}
	o = &ownerStatus{Unaccounted: "there was a session without noise"}
	if o.account(records, 10); o.Spent != nil || o.Left != nil {
		t.Errorf("an account of a session without noise: %v", o.Spent)
	}
}
