package command

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/node/admission"
)

// Each loss of node/losses.md that a deployment survives: a client's key, a client's ledger, the server's model folder, and the
// server's whole state. The lost parties are invited again, and a session of all parties follows.
func TestLosses(t *testing.T) {
	long(t)
	m := newMachine(t)
	lead, serve, alone, rest := m.federation(20, 2)
	clients := func() *process {
		return m.start(append(rest, "--max-epsilon", "30")...)
	}
	ends := func(list ...*process) {
		t.Helper()
		for _, p := range list {
			if code := p.wait(); code != cli.Done {
				t.Fatalf("exit code %d\n%s", code, p.log.String())
			}
		}
	}
	aggregator := m.start(lead...)
	ends(m.start(serve...), m.start(alone...), clients())

	model := readFile(t, m.path("server/current"), "shared.bin")
	to, err := filepath.EvalSymlinks(m.path("server/current"))
	if err != nil {
		t.Fatal(err)
	}
	if err = os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	checks(t, cli.Failed, m.path("server"))
	ends(m.start(append(serve, "--again", "end")...))
	if got := readFile(t, m.path("server/current"), "shared.bin"); got != model {
		t.Error("the model that was written again is another")
	}
	checks(t, cli.Done, m.path("server"))

	for _, lost := range []string{party.LedgerFile, party.IdentityFile} { // without the key, the owner still learns what was spent
		if err = os.Rename(m.path("alone/"+lost), m.path(lost)); err != nil {
			t.Fatal(err)
		}
		if _, stderr := m.run(cli.Misuse, alone...); !strings.Contains(stderr, "is lost") || !strings.Contains(stderr, "invite it again") {
			t.Errorf("%s: %s", lost, stderr)
		}
		if lost == party.LedgerFile {
			err = os.Rename(m.path(lost), m.path("alone/"+lost))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if out, _ := m.run(cli.Done, "status", "--state", m.path("alone")); !strings.Contains(out, "in 2 of 2 rounds") {
		t.Errorf("what was spent: %s", out)
	}
	if err = os.RemoveAll(m.path("server")); err != nil {
		t.Fatal(err)
	}
	invite := []string{"invite", "--operator", m.path("operator.key"), "--federation", m.path("federation.json"), "--out", m.path("invitations")}
	m.run(cli.Done, append(invite, "--revoke", "client 19", "--revoke", "server")...)
	aggregator.signal(syscall.SIGTERM)
	ends(aggregator)
	m.run(cli.Done, append(invite, "--place", "client 19", "--place", "server", "--aggregator-key", valueOf(lead, "--key", m), "--address", valueOf(lead, "--listen", m))...)
	m.start(append(lead, "--revocations", m.path("invitations/revocations.json"))...)
	fresh := m.start("client", "--data", demo+"/ratings.csv", "--user", "20", "--state", m.path("new"), "--invitation", m.path("invitations/client-19.json"))
	ends(m.start(m.serve(demo+"/experiment.yaml", "rounds=1", "deployment.stage-timeout-s=6")...), fresh, clients())
	if out, _ := m.run(cli.Done, "status", "--state", m.path("new")); strings.Count(out, "consented to") != 1 || !strings.Contains(out, "in 1 of 1 rounds") {
		t.Errorf("the new ledger: %s", out)
	}
	if out, _ := m.run(cli.Done, "status", "--state", m.path("together/client-4")); strings.Count(out, "consented to") != 2 {
		t.Errorf("the ledger of a client that lost nothing: %s", out)
	}
}

// valueOf is a flag's value in a command line, or of a key the public half.
func valueOf(args []string, flag string, m *machine) string {
	m.t.Helper()
	for i, a := range args {
		if a != flag {
			continue
		}
		if flag != "--key" {
			return args[i+1]
		}
		k, err := admission.ReadKey(args[i+1])
		if err != nil {
			m.t.Fatal(err)
		}
		return k.Public().String()
	}
	m.t.Fatalf("no %s in %v", flag, args)
	return ""
}
