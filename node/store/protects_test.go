package store_test

import (
	"errors"
	"testing"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/node/store"
)

// A charge's record says what it protects, and keeps that when it is read again. A record of
// version 0.1 does not say it: it stays unknown until the owner says it.
func TestLedgerSaysWhatItProtects(t *testing.T) {
	log := store.NewMemoryLog()
	add(t, log, `{"charged":true,"session":[1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],"round":1,"events":[{"mechanism":"gaussian","noise_multiplier":5,"count":1}]}`)
	l := ledger(t, log)
	user := dp.Protection{Unit: dp.User, Relation: dp.ZeroOut}
	l.Protect(user)
	persist(t, l, charged(two, 1))
	for range 2 {
		got := records(t, l)
		if len(got) != 2 || got[0].Protection != (dp.Protection{}) || got[1].Protection != user {
			t.Errorf("the records protect %+v", got)
		}
		l = ledger(t, log)
	}
	l.Earlier(dp.Rating)
	if got := records(t, l); got[0].Protection != (dp.Protection{Unit: dp.Rating}) || got[1].Protection != user {
		t.Errorf("the records protect %+v", got)
	}
}

// An entry of a later version is refused, not read as if it said less.
func TestLedgerEntriesThatCannotBe(t *testing.T) {
	for name, text := range map[string]string{
		"a later version":   `{"version":3,"charged":true,"round":1,"events":[{"mechanism":"gaussian","noise_multiplier":5,"count":1}],"unit":"user","relation":"zero-out"}`,
		"no such unit":      `{"version":2,"charged":true,"round":1,"events":[{"mechanism":"gaussian","noise_multiplier":5,"count":1}],"unit":"person","relation":"zero-out"}`,
		"half a protection": `{"version":2,"charged":true,"round":1,"events":[{"mechanism":"gaussian","noise_multiplier":5,"count":1}],"unit":"user"}`,
		"without a version": `{"charged":true,"round":1,"events":[{"mechanism":"gaussian","noise_multiplier":5,"count":1}],"unit":"user","relation":"zero-out"}`,
	} {
		log := store.NewMemoryLog()
		add(t, log, text)
		if _, err := store.NewLedger(log); err == nil || name == "a later version" && !errors.Is(err, store.ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
