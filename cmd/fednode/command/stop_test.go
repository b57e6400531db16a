package command

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/testutil"
)

// Each role is told to stop (SIGTERM, as a service manager does) in the middle of a session. It
// leaves the round, and ends with the exit code for that. It continues when it is started again,
// until the session ends. The cost is at most a round each for server and aggregator.
func TestEveryRoleStopsInTheMiddle(t *testing.T) {
	long(t)
	const rounds = 30
	m := newMachine(t)
	lead, serve, alone, rest := m.federation(20, rounds)

	aggregator := m.start(lead...)
	server := m.start(serve...)
	server.until("waiting for clients")
	client := m.start(alone...)
	together := m.start(rest...)

	server.until("sum received")
	server = m.stopAndStart(server, cli.Interrupted)
	server.until("resumed")
	server.until("sum received")
	client = m.stopAndStart(client, cli.Interrupted)
	client.until("registered")
	server.until("sum received")
	aggregator = m.stopAndStart(aggregator, cli.Done)
	server.until("no connection to the aggregator")
	server.until("sum received")

	for name, p := range map[string]*process{"server": server, "client": client, "clients": together} {
		if code := p.wait(); code != cli.Done {
			t.Errorf("%s: exit code %d\n%s", name, code, p.log.String())
		}
	}
	aggregator.signal(syscall.SIGTERM)
	if code := aggregator.wait(); code != cli.Done {
		t.Errorf("the aggregator: exit code %d\n%s", code, aggregator.log.String())
	}
	written, err := os.ReadFile(m.path("server/current/summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Rounds  int
		Skipped int `json:"skipped_rounds"`
	}
	if err = json.Unmarshal(written, &s); err != nil || s.Rounds != rounds || s.Skipped > 2 {
		t.Errorf("%v: %s\nwant %d rounds, at most 2 of them skipped", err, written, rounds)
	}
}

// federation is founded, and gives the command lines of its aggregator, of its server, of the last of its clients, and of the other
// clients in one process.
func (m *machine) federation(clients, rounds int) (lead, serve, alone, together []string) {
	m.t.Helper()
	address := "/ip4/127.0.0.1/tcp/" + testutil.Port(m.t)
	m.founds(clients, address)
	lead = []string{"aggregator", "--key", m.path("aggregator.key"), "--federation", m.path("federation.json"), "--state", m.path("aggregator"),
		"--tickets", m.path("invitations/tickets.json"), "--invitation", m.path("invitations/aggregator.json"), "--listen", address, "--ops", ""}
	serve = m.serve(demo+"/experiment.yaml", "rounds="+itoa(rounds), "deployment.stage-timeout-s=6")
	alone = []string{"client", "--data", demo + "/ratings.csv", "--user", itoa(clients), "--state", m.path("alone"), "--invitation", m.path("invitations/client-" + itoa(clients-1) + ".json")}
	together = []string{"client", "--data", demo + "/ratings.csv", "--users", "0.." + itoa(clients-2), "--invitations", m.path("invitations"), "--state", m.path("together")}
	return lead, serve, alone, together
}

// serve gives the command line of the server of an experiment file. Settings (KEY=VALUE) are changed in
// a copy of the file, since no flag may give a key of the file another value.
func (m *machine) serve(file string, settings ...string) []string {
	m.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		m.t.Fatal(err)
	}
	var more []string
	for _, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		line := regexp.MustCompile(`(?m)^(\s*` + regexp.QuoteMeta(key[strings.LastIndex(key, ".")+1:]) + `: ).*`)
		if !line.Match(text) {
			more = append(more, "--set", s)
		}
		text = line.ReplaceAll(text, []byte("${1}"+value))
	}
	changed, err := os.CreateTemp(m.path("."), "experiment-*.yaml")
	if err != nil {
		m.t.Fatal(err)
	}
	if _, err := changed.Write(text); err != nil {
		m.t.Fatal(err)
	}
	if err := changed.Close(); err != nil {
		m.t.Fatal(err)
	}
	return append([]string{"server", changed.Name(), "--items", demo + "/items", "--invitation", m.path("invitations/server.json"), "--state", m.path("server")}, more...)
}

// stopAndStart has a process end with a code when it is told to, and starts it once more.
func (m *machine) stopAndStart(p *process, code int) *process {
	m.t.Helper()
	p.signal(syscall.SIGTERM)
	got := p.wait()
	stopped := strings.Contains(p.log.String(), "start it again with the same --state")
	if got != code || stopped != (code == cli.Interrupted) {
		m.t.Fatalf("%s: exit code %d, want %d\n%s", strings.Join(p.cmd.Args, " "), got, code, p.log.String())
	}
	return m.start(slices.Clone(p.cmd.Args[1:])...)
}
