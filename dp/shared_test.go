package dp

import "testing"

// TestLedgersShare checks that ledgers with the same charges hold one account, and that a later
// charge to one of them leaves the others unchanged.
func TestLedgersShare(t *testing.T) {
	l, err := NewLedgers(Budget{Epsilon: 10, Delta: 1e-5, Accountant: RDP}, 3)
	if err != nil {
		t.Fatal(err)
	}
	charge := func(i int, round uint64) {
		t.Helper()
		if err := l[i].Charge([16]byte{1}, round, []Event{Gaussian(5)}); err != nil {
			t.Fatal(err)
		}
	}
	charge(0, 1)
	charge(1, 1)
	if l[0].account != l[1].account || l[0].account == l[2].account {
		t.Error("the ledgers that were charged the same do not share, or the one that was not does")
	}
	charge(0, 2)
	if one, two := l[1].Charged(), l[0].Charged(); len(one) != 1 || one[0].Count != 1 || two[0].Count != 2 || len(l[2].Charged()) != 0 || l[2].Spent().Epsilon != 0 {
		t.Errorf("charged %v, %v and %v", two, one, l[2].Charged())
	}
	charge(1, 3) // by another way: twice as well, but up to round 3
	if l[0].account == l[1].account || l[0].Spent() != l[1].Spent() {
		t.Error("ledgers of other rounds share, or have spent something else")
	}
	if err := l[1].Charge([16]byte{1}, 2, []Event{Gaussian(5)}); err == nil {
		t.Error("a round that was passed over was charged")
	}
}
