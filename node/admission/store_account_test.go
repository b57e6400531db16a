package admission_test

import (
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// consents are to sessions 1 to n, of four rounds.
func consents(n int) []store.Consent {
	var list []store.Consent
	for i := range n {
		id := "0" + string(rune('1'+i)) + strings.Repeat("0", 30)
		list = append(list, store.Consent{Session: id, Rounds: 4, Privacy: dp.Statement{Delta: 1e-5, Accountant: dp.Exact}})
	}
	return list
}

// Two Gaussian releases with multiplier sqrt(2) are one with multiplier 1, which costs 4.3772 at
// delta 1e-5 by the exact formula of Balle and Wang (2018, Theorem 8); one of them by itself costs
// less. The owner's allowance less that cost is left.
func TestAccount(t *testing.T) {
	l := ledger(t, store.NewMemoryLog())
	for session := range byte(2) {
		id := protocol.SessionID{session + 1}
		persist(t, l, protocol.Charged{Session: id, Round: 1, Events: []dp.Event{dp.Gaussian(math.Sqrt2)}})
	}
	if n := l.Charges(); n != 2 {
		t.Errorf("%d charges, want 2", n)
	}
	a, err := l.Account("client 0", consents(3), 10)
	if err != nil {
		t.Fatal(err)
	}
	if a.Spent == nil || math.Abs(*a.Spent-4.3772) > 1e-4 || a.Left == nil || math.Abs(*a.Left-(10-4.3772)) > 1e-4 {
		t.Errorf("spent %v, left %v; want 4.3772 of 10", a.Spent, a.Left)
	}
	for i, rounds := range []int{1, 1, 0} {
		s := a.Sessions[i]
		if s.Charged != rounds || s.Spent == nil || (*s.Spent > 0) != (rounds > 0) || *s.Spent > *a.Spent {
			t.Errorf("session %s: %d rounds, epsilon %v; want %d rounds", s.Session, s.Charged, s.Spent, rounds)
		}
	}
	if got, want := a.InAll(), "epsilon 4.38 at delta 1e-05; left of --max-epsilon: 5.62"; got != want {
		t.Errorf("in all %q, want %q", got, want)
	}
	if a, err = l.Account("client 0", consents(3), 4); err != nil || *a.Left != 0 {
		t.Errorf("of 4 are left %v, %v", *a.Left, err)
	}
	agreed := consents(3)
	if _, err = l.Account("client 0", agreed, math.NaN()); err == nil || !strings.Contains(err.Error(), `max_epsilon ""`) {
		t.Errorf("a consent without the owner's limit: %v", err)
	}
	agreed[2].MaxEpsilon = "6" // the last session's counts
	if a, err = l.Account("client 0", agreed, math.NaN()); err != nil || a.Left == nil || math.Abs(*a.Left-(6-4.3772)) > 1e-4 {
		t.Errorf("of the 6 of the last session are left %v, %v", a.Left, err)
	}
	if a, err = l.Account("client 0", nil, 4); err != nil || a.InAll() != "no session yet" {
		t.Errorf("without a consent: %q, %v", a.InAll(), err)
	}
}

// After a session without noise there is no account of what was spent, but still of the
// rounds that were taken part in.
func TestAccountWithoutNoise(t *testing.T) {
	l, err := store.NewLedger(store.NewMemoryLog())
	if err == nil {
		err = l.Persist(protocol.Charged{Session: protocol.SessionID{1}, Round: 1}, protocol.Charged{Session: protocol.SessionID{1}, Round: 3})
	}
	if err != nil {
		t.Fatal(err)
	}
	a, err := l.Account("client 0", consents(1), 10)
	if err != nil {
		t.Fatal(err)
	}
	if s := a.Sessions[0]; a.Spent != nil || a.Left != nil || s.Spent != nil || s.Charged != 2 || !strings.Contains(a.InAll(), "without noise") {
		t.Errorf("%+v; %q", a, a.InAll())
	}
}

// An account can be asked for while the client is charged. It shows the rounds and the cost of one
// and the same moment.
func TestAccountWhileCharged(t *testing.T) {
	l := ledger(t, store.NewMemoryLog())
	var busy sync.WaitGroup
	busy.Go(func() {
		for i := range uint64(50) {
			if err := l.Persist(protocol.Charged{Session: protocol.SessionID{1}, Round: i + 1, Events: []dp.Event{dp.Gaussian(50)}}); err != nil {
				t.Error(err)
			}
		}
	})
	for before, last := 0.0, 0; last < 50; {
		a, err := l.Account("client 0", consents(1), 10)
		if err != nil {
			t.Fatal(err)
		}
		s := a.Sessions[0]
		if s.Spent == nil || s.Charged < last || *s.Spent < before || (s.Charged > last) != (*s.Spent > before) {
			t.Fatalf("%d rounds cost %v, after %d that cost %v", s.Charged, s.Spent, last, before)
		}
		before, last = *s.Spent, s.Charged
	}
	busy.Wait()
}
