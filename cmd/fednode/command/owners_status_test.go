package command

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// A client that runs shows the account of the moment: it is reckoned up anew when the
// ledger is charged and when a session is consented to, and only then.
func TestRunningAccount(t *testing.T) {
	state := t.TempDir()
	owner := admission.PublicKey{1}
	path := filepath.Join(state, party.LedgerFile)
	if err := store.CreateLedger(path, owner); err != nil {
		t.Fatal(err)
	}
	ledger, err := store.OpenLedger(path, owner)
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close() //nolint:errcheck // of a test
	ledger.Protect(dp.Protection{Unit: dp.User, Relation: dp.ZeroOut})
	running := &runningAccount{state: state, most: 10, member: &party.Member{Ledger: ledger, Member: node.Member{Membership: new(admission.Membership)}}}
	account := func() *store.Account {
		t.Helper()
		a, failed := running.account()
		if failed != nil {
			t.Fatal(failed)
		}
		return a
	}
	if a := account(); a.InAll() != "no session yet" {
		t.Errorf("at first: %s", a.InAll())
	}
	session := protocol.SessionID{1}
	c := &store.Consent{Session: "01" + strings.Repeat("0", 30), At: time.Unix(0, 0), Rounds: 4, Privacy: dp.Statement{Delta: 1e-5, Accountant: dp.Exact}}
	if err = store.SaveConsent(state, c); err != nil {
		t.Fatal(err)
	}
	if a := account(); len(a.Sessions) != 1 || a.Sessions[0].Charged != 0 || *a.Left != 10 {
		t.Errorf("when it has consented: %+v", a)
	}
	if err = ledger.Persist(protocol.Charged{Session: session, Round: 1, Events: []dp.Event{dp.Gaussian(1)}}); err != nil {
		t.Fatal(err)
	}
	a := account()
	if a.Sessions[0].Charged != 1 || a.InAll() != "epsilon 4.38 at delta 1e-05; left of --max-epsilon: 5.62" { // see TestAccount
		t.Errorf("when it was charged: %+v, %s", a, a.InAll())
	}
	if account() != a {
		t.Error("it is reckoned up again without need")
	}
	var text strings.Builder
	if failed := shown.ExecuteTemplate(&text, "account", a); failed != nil || !strings.Contains(text.String(), "spent") || !strings.Contains(text.String(), "epsilon 4.38 in 1 of 4 rounds") {
		t.Errorf("%s", &text)
	}
}
