package command

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/testutil"
)

// Of 6 invited clients 4 come, and with --spare 2 the session begins without any to be lost. Then the federation grows to 8,
// and client 5, who never came, is given up: 7 take part, with the ledgers of the first session.
func TestFederationGrowsByCommands(t *testing.T) {
	long(t)
	f := &follow{newMachine(t), testutil.Port(t)}
	f.run(cli.Done, "keygen", f.path("operator.key"))
	text, _ := f.run(cli.Done, "keygen", "--format", "json", f.path("aggregator.key"))
	var key struct{ Public string }
	if err := json.Unmarshal([]byte(text), &key); err != nil {
		t.Fatal(err)
	}
	invite := func(more ...string) string {
		out, _ := f.run(cli.Done, append([]string{"invite", "--operator", f.path("operator.key"), "--federation", f.path("federation.json"),
			"--aggregator-key", key.Public, "--address", "/ip4/127.0.0.1/tcp/" + f.port, "--out", f.path("invitations")}, more...)...)
		return out
	}
	invite("--name", "Demo", "--clients", "6")
	if err := os.WriteFile(f.path("experiment.yaml"), []byte("algorithm: lfl-sgdmf\ndata: .\ntolerance: 0\nrounds: 2\nepsilon: 2\ndeployment:\n  stage-timeout-s: 6\n  gather-s: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	aggregator := f.aggregator()
	clients := func(users string) *process {
		return f.start("client", "--data", demo+"/ratings.csv", "--users", users, "--invitations", f.path("invitations"), "--state", f.path("together"))
	}
	first, four := f.start(append(f.serve(f.path("experiment.yaml")), "--format", "json", "--spare", "2")...), clients("0..3")
	f.ends(first, four)
	if s := first.summary(); s.Clients != 6 || s.Lost != 2 || s.SkippedRounds != 0 {
		t.Errorf("the first session: %+v", s)
	}

	invite("--add", "2", "--remove", "client 5")
	aggregator.signal(syscall.SIGHUP)
	aggregator.until("the federation has another epoch")
	seven := []*process{clients("0..4"), f.start("client", "--data", demo+"/ratings.csv", "--users", "6..7", "--invitations", f.path("invitations"), "--state", f.path("new"))}
	early := f.server("rounds=1")
	if code := early.wait(); code != 1 || !strings.Contains(early.log.String(), "it has 8 places of clients, and the session is for 6. Start this server again") {
		t.Fatalf("a server that does not know of the epoch: exit code %d\n%s", code, early.log.String())
	}
	second := f.server("rounds=1")
	f.ends(append(seven, second)...)
	if s := second.summary(); s.Clients != 8 || s.Lost != 1 || s.SkippedRounds != 0 || !strings.Contains(second.log.String(), "tolerance is 0.125 in place of 0") {
		t.Errorf("the second session: %+v\n%s", s, second.log.String())
	}
	listed := func(state string) (list []sessionLine) {
		out, _ := f.run(cli.Done, "sessions", "--state", f.path(state), "--format", "json")
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			t.Error(err)
		}
		return list
	}
	if l := listed("server"); len(l) != 3 || l[0].Is != "ended" || l[0].Rounds != 2 || l[0].Clients != 6 || l[0].Current || l[1].Is != "abandoned" || l[1].Model != "" ||
		l[2].Is != "ended" || l[2].Session != second.summary().Session || !l[2].Current || l[2].Budget != 2 {
		t.Errorf("the server's sessions: %+v", l)
	}
	if l := listed("together/client-0"); len(l) != 2 || l[0].Is != "finished" || l[1].Is != "finished" || l[0].Model == l[1].Model || l[1].Model == "" {
		t.Errorf("a client's sessions: %+v", l)
	}
	out, _ := f.run(cli.Done, "status", "--state", f.path("together/client-0"))
	if strings.Count(out, "consented to") != 2 || !strings.Contains(out, "in 2 of 2 rounds") || !strings.Contains(out, "in 1 of 1 rounds") {
		t.Errorf("the account of client 0:\n%s", out)
	}
}
