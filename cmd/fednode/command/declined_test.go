package command

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/testutil"
)

// Eight clients with a --max-epsilon of 10 spend 8 in the first session. The second would cost 8 more: the server ends with
// exit code 2 and says why, and the clients live on. A third, which is about to wait for them, is stopped and abandoned. The
// fourth fits into what is left, and the same processes take part in it.
func TestBudgetIsUsedUp(t *testing.T) {
	long(t)
	f := &follow{newMachine(t), testutil.Port(t)}
	f.founds(8, "/ip4/127.0.0.1/tcp/"+f.port)
	if err := os.WriteFile(f.path("experiment.yaml"), []byte("algorithm: lfl-sgdmf\ndata: .\ntolerance: 0.25\nrounds: 2\ndeployment:\n  stage-timeout-s: 6\n  gather-s: 60\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.aggregator()
	clients := f.start("client", "--data", demo+"/ratings.csv", "--users", "0..7", "--invitations", f.path("invitations"), "--state", f.path("together"), "--sessions", "2")

	server := f.server("epsilon=8")
	f.ends(server)
	first := server.summary()

	server = f.server("epsilon=8", "rounds=1")
	if code := server.wait(); code != cli.Misuse || !strings.Contains(server.log.String(), "8 of 8 (budget 8), and a round needs 6 clients") ||
		!strings.Contains(server.log.String(), "a larger --max-epsilon or --ceiling of the clients") {
		t.Fatalf("the session that does not fit: exit code %d\n%s", code, server.log.String())
	}
	if got := readFile(t, f.path("server/current"), "summary.json"); !strings.Contains(got, first.Session) {
		t.Errorf("current is not of the last session with a model: %s", got)
	}
	_, stderr := f.run(cli.Misuse, "server", "--abandon", "--state", f.path("server"))
	if !strings.Contains(stderr, "no session that has not ended") {
		t.Errorf("a session that has ended is abandoned: %s", stderr)
	}

	server = f.server("epsilon=1", "rounds=1", "tolerance=0", "deployment.gather-s=0.1")
	server.until("waiting for clients")
	server.signal(syscall.SIGKILL)
	server.wait()
	_, stderr = f.run(cli.Misuse, f.serve(f.path("experiment.yaml"), "rounds=3")...)
	if !strings.Contains(stderr, "--abandon") {
		t.Errorf("another experiment before the end: %s", stderr)
	}
	stdout, _ := f.run(cli.Done, "server", "--abandon", "--state", f.path("server"))
	if !strings.HasPrefix(stdout, "abandoned  ") {
		t.Errorf("--abandon prints %q", stdout)
	}

	server = f.server("epsilon=1", "rounds=1")
	f.ends(server, clients)
	if s := server.summary(); s.Rounds != 1 || s.SkippedRounds != 0 {
		t.Errorf("the last session: %d rounds, %d skipped", s.Rounds, s.SkippedRounds)
	}
	if !strings.Contains(clients.log.String(), `"told":"budget"`) {
		t.Error("the clients' log does not say that they told budget")
	}
}
