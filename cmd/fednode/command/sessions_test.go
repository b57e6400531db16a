package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/testutil"
)

// follow is a federation of 8 processes' clients: 7 share one, the last has its own.
type follow struct {
	*machine
	port string
}

// starts of its parties; the experiment's settings are for the server.
func (f *follow) aggregator() *process {
	p := f.start("aggregator", "--key", f.path("aggregator.key"), "--federation", f.path("federation.json"), "--state", f.path("aggregator"),
		"--tickets", f.path("invitations/tickets.json"), "--invitation", f.path("invitations/aggregator.json"),
		"--listen", "/ip4/127.0.0.1/tcp/"+f.port, "--ops", "127.0.0.1:0")
	p.until("metrics, health and status")
	return p
}

func (f *follow) server(settings ...string) *process {
	return f.start(append(f.serve(f.path("experiment.yaml"), settings...), "--format", "json")...)
}

func (f *follow) together(more ...string) *process {
	return f.start(append([]string{"client", "--max-epsilon", "inf", "--data", demo + "/ratings.csv", "--users", "0..6",
		"--invitations", f.path("invitations"), "--state", f.path("together")}, more...)...)
}

func (f *follow) alone() *process {
	return f.start("client", "--max-epsilon", "inf", "--data", demo+"/ratings.csv", "--user", "8", "--invitation", f.path("invitations/client-7.json"), "--state", f.path("alone"))
}

// ends waits for processes. All of them must end well.
func (f *follow) ends(list ...*process) {
	f.t.Helper()
	for _, p := range list {
		if code := p.wait(); code != cli.Done {
			f.t.Fatalf("%v: exit code %d\n%s", p.cmd.Args[1:3], code, p.log.String())
		}
	}
}

// summary returns a server's printed summary of its session.
func (p *process) summary() (s summary) {
	p.t.Helper()
	if err := json.Unmarshal(p.out.Bytes(), &s); err != nil {
		p.t.Fatalf("%v\n%s", err, p.out.String())
	}
	return s
}

// Three sessions with the same aggregator, of another experiment each, as an operator runs them.
// Clients that have finished the last session wait for the next. One process of clients stays for
// all three. One client sleeps through the second, gets its end and awaits the third. The
// aggregator is started again before the third. Every model and result stays.
func TestSessionsOfProcesses(t *testing.T) {
	long(t)
	f := &follow{newMachine(t), testutil.Port(t)}
	f.founds(8, "/ip4/127.0.0.1/tcp/"+f.port)
	if err := os.WriteFile(f.path("experiment.yaml"), []byte("algorithm: fmf-lfl\ncontribution: all-ratings\ndata: .\ntolerance: 0.25\nrounds: 2\ndeployment:\n  stage-timeout-s: 6\n  gather-s: 4\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	aggregator := f.aggregator()
	together := f.together("--sessions", "3")
	server, alone := f.server(), f.alone()
	f.ends(server, alone)
	first := server.summary()

	server = f.server("rounds=1", "rank=3") // without the sleeping client, as gather-s and tolerance allow
	server.until("waiting for clients")
	if got := readFile(t, f.path("server/current"), "summary.json"); !strings.Contains(got, first.Session) { // while the second runs
		t.Errorf("current is not of the first session: %s", got)
	}
	f.ends(server)
	second := server.summary()

	aggregator.signal(syscall.SIGTERM)
	f.ends(aggregator)
	f.aggregator()
	alone = f.alone() // gets the end of the second, without a part in it, and stays for the third
	alone.until("does not count as one of its --sessions")
	alone.until("waiting for the next session")
	server = f.server("rounds=3", "rank=2")
	f.ends(server, alone, together)
	third := server.summary()

	for n, s := range []summary{first, second, third} {
		if want := []uint64{2, 1, 3}[n]; s.Rounds != want || s.SkippedRounds != 0 {
			t.Errorf("session %d: %d rounds, %d skipped; want %d and 0", n+1, s.Rounds, s.SkippedRounds, want)
		}
		model, result := f.path("server/current"), "result"
		if n < 2 {
			model, result = filepath.Join(f.path("server/sessions"), s.Session, "model"), filepath.Join("sessions", s.Session, "result")
		}
		var kept party.OfSession
		if err := json.Unmarshal([]byte(readFile(t, model, "summary.json")), &kept); err != nil || kept.Session != s.Session {
			t.Errorf("%s is of session %s, %v; want %s", model, kept.Session, err, s.Session)
		}
		readFile(t, model, "item_embeddings.npy")
		for _, state := range []string{f.path("alone"), f.path("together/client-3")} {
			readFile(t, state, result, "user_embeddings.npy")
			if got := readFile(t, state, result, "session.json"); !strings.Contains(got, s.Session) {
				t.Errorf("%s of %s is of %s, want %s", result, state, got, s.Session)
			}
		}
	}
	if first.Session == second.Session || second.Session == third.Session {
		t.Error("two sessions have one name")
	}
	_, stderr := f.run(cli.Misuse, f.serve(f.path("experiment.yaml"), "rounds=3", "rank=2")...)
	if !strings.Contains(stderr, "--again session") {
		t.Errorf("the experiment of the last session once more: %s", stderr)
	}
}
