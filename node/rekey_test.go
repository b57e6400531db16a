package node_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
)

// A party that was revoked and is invited again has a new key in its old state: the ledger continues with every charge, and the old key
// opens it no more. In another state the ledger begins anew, and the invitation is used.
func TestLedgerStaysWithItsState(t *testing.T) {
	faulty(t)
	m := newMachines(t, "rounds=1")
	aggregator, server, together, alone := m.startAggregator(), m.startServer(), m.startTogether(), m.startAlone()
	for _, p := range []*process{server, together, alone} {
		p.ends()
	}
	m.checkLedgers()
	place := admission.ClientPlace(lastAlone)
	ledger := filepath.Join(m.state(place), "ledger.db")
	membership, err := admission.ReadFile(filepath.Join(m.state(place), "membership.json"), admission.ParseMembership)
	m.must(err)
	first := membership.Enrolment.Identity
	before := chargesIn(t, ledger, first)
	v, err := admission.Revoke(m.operator, m.federation, nil, node.RevocationOf(&membership.Enrolment))
	m.must(err)
	m.must(admission.WriteFile(m.path("revocations"), v))
	m.admit([]admission.Ticket{m.invite(place, 2, m.path("again.json"), m.path("again"))})
	m.must(aggregator.cmd.Process.Signal(syscall.SIGHUP))

	start := func(state string) *process {
		return m.start("client", "--max-epsilon", "inf", "--data", demo+"/ratings.csv", "--user", fmt.Sprint(lastAlone+1), "--invitation", m.path("again.json"), "--state", state)
	}
	late := start(m.state(place)) // which stays for the next session
	for {                         // a process on the clock
		membership, err = admission.ReadFile(filepath.Join(m.state(place), "membership.json"), admission.ParseMembership)
		m.must(err)
		if membership.Enrolment.Identity != first {
			break
		}
		select {
		case <-late.done:
			t.Fatalf("it ended before it had another key: exit code %d", late.code)
		case <-time.After(50 * time.Millisecond):
		}
	}
	late.kill() // its ledger is read
	if after := chargesIn(t, ledger, membership.Enrolment.Identity); len(after) == 0 || !reflect.DeepEqual(after, before) {
		t.Errorf("the ledger has %v, after %v", after, before)
	}
	if _, err = store.OpenLedger(ledger, first); !errors.Is(err, store.ErrOwner) {
		t.Errorf("the old key opened the ledger: %v", err)
	}
	other := start(m.path("other"))
	<-other.done
	said, err := os.ReadFile(other.log.Name())
	m.must(err)
	if other.code == 0 || !strings.Contains(string(said), "used by another party") {
		t.Errorf("in another state: exit code %d\n%s", other.code, said)
	}
}
