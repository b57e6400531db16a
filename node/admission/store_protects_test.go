package admission_test

import (
	"strings"
	"testing"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/node/store"
)

// A charge's record says what it protects, and keeps that when it is read again.
func TestLedgerSaysWhatItProtects(t *testing.T) {
	log := store.NewMemoryLog()
	l := ledger(t, log)
	persist(t, l, charged(one, 1))
	ratings := dp.Protection{Unit: dp.Rating, Relation: dp.AddRemove}
	l.Protect(ratings)
	persist(t, l, charged(two, 1))
	for range 2 {
		got := records(t, l)
		if len(got) != 2 || got[0].Protection != perUser || got[1].Protection != ratings {
			t.Errorf("the records protect %+v", got)
		}
		l = ledger(t, log)
	}
}

// A charge with events is refused while nothing says what it protects; nothing of it stays.
func TestLedgerRefusesUnknownProtection(t *testing.T) {
	l, err := store.NewLedger(store.NewMemoryLog())
	if err != nil {
		t.Fatal(err)
	}
	if err = l.Persist(charged(one, 1)); err == nil || !strings.Contains(err.Error(), "does not say what it protects") {
		t.Errorf("a charge of unknown protection: %v", err)
	}
	l.Protect(perUser)
	persist(t, l, charged(one, 1))
}

// An entry that says half of what it protects, or says it of a sum without noise, is refused.
func TestLedgerEntriesThatCannotBe(t *testing.T) {
	for name, text := range map[string]string{
		"no such unit":      `{"round":1,"events":[{"mechanism":"gaussian","noise_multiplier":5,"count":1}],"unit":"person","relation":"zero-out"}`,
		"no such relation":  `{"round":1,"events":[{"mechanism":"gaussian","noise_multiplier":5,"count":1}],"unit":"user","relation":"other"}`,
		"half a protection": `{"round":1,"events":[{"mechanism":"gaussian","noise_multiplier":5,"count":1}],"unit":"user"}`,
		"no protection":     `{"round":1,"events":[{"mechanism":"gaussian","noise_multiplier":5,"count":1}]}`,
		"no noise":          `{"round":1,"unit":"user","relation":"zero-out"}`,
	} {
		log := store.NewMemoryLog()
		add(t, log, text)
		if _, err := store.NewLedger(log); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
