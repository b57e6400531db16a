package node_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/sim"
)

// copiedLog is a log with the first n entries of another; all of them with n below 0.
func copiedLog(t testing.TB, log store.Log, n int) store.Log {
	t.Helper()
	out := store.NewMemoryLog()
	if err := log.Entries(func(entry []byte) error {
		if n == 0 {
			return nil
		}
		n--
		return out.Append(entry)
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func openedLedger(t testing.TB, log store.Log) *store.Ledger {
	t.Helper()
	l, err := store.NewLedger(log)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// restored lists ledgers with which client 3 comes back after a session, one after the other, and why it ends.
var restored = []struct {
	name   string
	ledger func(t *testing.T, newest store.Log) *store.Ledger
	want   error
}{
	{"an older copy", func(t *testing.T, newest store.Log) *store.Ledger { return openedLedger(t, copiedLog(t, newest, 1)) }, store.ErrBehind},
	{"none", func(t *testing.T, _ store.Log) *store.Ledger { return openedLedger(t, store.NewMemoryLog()) }, store.ErrBehind},
	{"the newest", func(t *testing.T, newest store.Log) *store.Ledger { return openedLedger(t, newest) }, nil},
	{"another copy that was charged", func(t *testing.T, newest store.Log) *store.Ledger {
		l := openedLedger(t, copiedLog(t, newest, 1))
		if err := l.Persist(protocol.Charged{Session: protocol.SessionID{9}, Round: 1}, protocol.Charged{Session: protocol.SessionID{9}, Round: 2}, protocol.Charged{Session: protocol.SessionID{9}, Round: 3}); err != nil {
			t.Fatal(err)
		}
		return l
	}, store.ErrForked},
}

// A client whose ledger lacks charges that it has signed for is found out when it registers: it ends, and is charged for
// nothing more. It is in the next session once it has its newest ledger again. The aggregator stays, was started again, or has lost all
// heads and heard them again from the clients.
func TestRestoredLedgerIsFoundOut(t *testing.T) {
	const who = protocol.ClientID(3)
	for name, between := range map[string]func(*testing.T, *federation){
		"aggregator stays":    func(*testing.T, *federation) {},
		"aggregator restarts": func(_ *testing.T, f *federation) { f.reopen() },
		"aggregator has lost the heads": func(t *testing.T, f *federation) {
			_ = f.aggregator.Close()
			if err := os.Remove(filepath.Join(f.dir, "heads.txt")); err != nil {
				t.Fatal(err)
			}
			f.reopen()
			stop := f.startStoppable(f.client(who, f.memberships[admission.ClientPlace(who)])) // the newest state, once
			synctest.Wait()
			stop()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFederation(t, "algorithm=fmf-lfl rounds=2 "+quick+"data="+ratings(t, 4, 12))
				m := f.join(admission.ServerPlace)
				f.joinAll()
				newest := store.NewMemoryLog()
				f.ledgers[who] = openedLedger(t, newest)
				f.session(m, sim.Faults{})
				between(t, f)
				f.next(1, "algorithm=fmf-lfl rounds=1 rank=3 "+quick)
				for _, c := range restored {
					f.ledgers[who] = c.ledger(t, newest)
					if c.want == nil {
						f.session(m, sim.Faults{})
						continue
					}
					before := f.ledgers[who].Charges()
					for range 2 { // an owner may try again
						if err := f.client(who, f.memberships[admission.ClientPlace(who)]).Run(f.ctx); !errors.Is(err, c.want) {
							t.Errorf("%s: the client ends with %v, want %v", c.name, err, c.want)
						}
					}
					if got := f.ledgers[who].Charges(); got != before {
						t.Errorf("%s: %d rounds were charged", c.name, got-before)
					}
				}
			})
		})
	}
}

// A copy of a client's state on a second machine takes part, and the first machine then ends: it does not know what
// the copy has spent.
func TestCopiedStateStopsTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const who = protocol.ClientID(3)
		f := newFederation(t, "algorithm=fmf-lfl rounds=2 "+quick+"data="+ratings(t, 4, 12))
		m := f.join(admission.ServerPlace)
		f.joinAll()
		log := store.NewMemoryLog()
		f.ledgers[who] = openedLedger(t, log)
		f.session(m, sim.Faults{})
		first, second := f.ledgers[who], openedLedger(t, copiedLog(t, log, -1))
		f.next(1, "algorithm=fmf-lfl rounds=1 rank=3 "+quick)
		f.ledgers[who] = second
		f.session(m, sim.Faults{})
		f.next(2, "algorithm=fmf-lfl rounds=1 rank=4 "+quick)
		f.ledgers[who] = first
		if err := f.client(who, f.memberships[admission.ClientPlace(who)]).Run(f.ctx); !errors.Is(err, store.ErrBehind) {
			t.Errorf("the first machine ends with %v", err)
		}
	})
}

// A client that dials relays is found out, too: the relay hears of heads from the aggregator, also when it is new.
func TestRestoredLedgerBehindARelay(t *testing.T) {
	const who = protocol.ClientID(3)
	f := newFederation(t, "data="+ratings(t, 6, 8)+" "+relayedSettings)
	relays := f.withRelays(1)
	newest := store.NewMemoryLog()
	f.ledgers[who] = openedLedger(t, newest)
	out := f.run()
	if want := f.simulate(sim.Faults{}); !bytes.Equal(out.Model, want.Model) {
		t.Error("the model is not the simulator's")
	}
	relays[0].stop()
	f.relays = []admission.Contact{f.startRelay(0).contact}
	f.ledgers[who] = openedLedger(t, copiedLog(t, newest, 1))
	if err := f.client(who, f.memberships[admission.ClientPlace(who)]).Run(f.ctx); !errors.Is(err, store.ErrBehind) {
		t.Errorf("the client ends with %v", err)
	}
}
