package node_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
)

// A party that was revoked and is invited again is another one: the state with the
// ledger stays with the identity that it was made for, and the new identity begins a new
// state. The old one cannot be taken over, and is not changed.
func TestLedgerStaysWithItsState(t *testing.T) {
	faulty(t)
	m := newMachines(t, "rounds=1")
	aggregator, server, together, alone := m.startAggregator(), m.startServer(), m.startTogether(), m.startAlone()
	for _, p := range []*process{server, together, alone} {
		p.ends()
	}
	m.checkLedgers()
	place := admission.ClientPlace(lastAlone)
	old := filepath.Join(m.state(place), "ledger.db")
	before, err := os.ReadFile(old)
	m.must(err)
	membership, err := admission.ReadFile(filepath.Join(m.state(place), "membership.json"), admission.ParseMembership)
	m.must(err)
	v, err := admission.Revoke(m.operator, m.federation, nil, node.RevocationOf(&membership.Enrolment))
	m.must(err)
	text, err := v.Encode()
	m.must(err)
	m.must(admission.WriteFile(m.path("revocations"), text))
	m.admit([]admission.Ticket{m.invite(place, 2, m.path("again.json"), m.path("again"))})
	m.must(aggregator.cmd.Process.Signal(syscall.SIGHUP))

	start := func(state string) *process {
		return m.start("client", "--max-epsilon", "inf", "--data", demo+"/ratings.csv", "--user", fmt.Sprint(lastAlone+1), "--invitation", m.path("again.json"), "--state", state)
	}
	refused := start(m.state(place))
	<-refused.done
	said, err := os.ReadFile(refused.log.Name())
	m.must(err)
	if refused.code != 2 || !strings.Contains(string(said), "give another --state") {
		t.Errorf("with the state of the identity that was revoked: exit code %d\n%s", refused.code, said)
	}
	late := start(m.path("again")) // which gets the model, and stays for the next session
	for {                          // a process on the clock: the folder appears once it is whole
		if _, err = os.Stat(m.path("again", "result")); err == nil {
			break
		}
		select {
		case <-late.done:
			t.Fatalf("it ended without the model: exit code %d", late.code)
		case <-time.After(50 * time.Millisecond):
		}
	}
	late.kill() // its ledger is read
	after, err := os.ReadFile(old)
	m.must(err)
	if string(after) != string(before) {
		t.Error("the old ledger has changed")
	}
	key, err := admission.ReadKey(m.path("again", "identity.json"))
	m.must(err)
	if list := chargesIn(t, m.path("again", "ledger.db"), key.Public()); len(list) != 0 {
		t.Errorf("the new ledger begins with %v", list)
	}
	if _, err = store.OpenLedger(old, key.Public()); !errors.Is(err, store.ErrOwner) {
		t.Errorf("the new identity opened the old ledger: %v", err)
	}
}
