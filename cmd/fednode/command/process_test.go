package command

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sbinet/npyio"
	"gonum.org/v1/gonum/mat"

	_ "github.com/fedsim/fedsim/algorithm/external" // as the command fednode has
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/testutil"
	"github.com/fedsim/fedsim/internal/version"
	_ "github.com/fedsim/fedsim/lab" // likewise
)

// demo is the folder of the demonstration, whose data the test uses.
const demo = "../../../deploy/demo"

// machine is a place to run fednode in, as processes.
type machine struct {
	t           *testing.T
	dir, binary string
	more        []string // flags of every process that is started
}

// TestMain makes the test's own binary fednode, where it is called by this name.
func TestMain(m *testing.M) {
	version.State("of a test") // internal/version tests the digest that stands for it otherwise
	if filepath.Base(os.Args[0]) == "fednode" {
		Main()
		return
	}
	os.Exit(m.Run())
}

// long skips a test that is left to the long run: the tests of package node, and the other tests
// with processes, cover most of it.
func long(t *testing.T) {
	t.Helper()
	effort.LongOnly(t, "many processes take seconds")
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, dir: t.TempDir()}
	m.binary = m.path("fednode")
	self, err := os.Executable()
	if err = errors.Join(err, os.Symlink(self, m.binary)); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *machine) path(name string) string { return filepath.Join(m.dir, name) }

// run runs a command to its end, which must be with the code.
func (m *machine) run(code int, args ...string) (stdout, stderr string) {
	m.t.Helper()
	p := m.start(args...)
	if got := p.wait(); got != code {
		m.t.Fatalf("fednode %s: exit code %d, want %d\n%s", strings.Join(args, " "), got, code, p.log.String())
	}
	return p.out.String(), p.log.String()
}

// founds is an operator's part: it makes keys, and founds a federation whose aggregator is at an address. It returns the aggregator's public key
// and its peer.
func (m *machine) founds(clients int, address string) (public, peer string) {
	m.t.Helper()
	must(m.t, "keygen", m.path("operator.key"))
	public, peer = m.key("aggregator.key")
	must(m.t, "invite", "--operator", m.path("operator.key"), "--federation", m.path("federation.json"), "--name", "Demo", "--clients", itoa(clients),
		"--aggregator-key", public, "--address", address, "--out", m.path("invitations"))
	return public, peer
}

// key makes a key.
func (m *machine) key(name string) (public, peer string) {
	m.t.Helper()
	var key struct{ Public, Peer string }
	if err := json.Unmarshal([]byte(must(m.t, "keygen", "--format", "json", m.path(name))), &key); err != nil {
		m.t.Fatal(err)
	}
	return key.Public, key.Peer
}

// process is a running fednode.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	out   bytes.Buffer
	log   bytes.Buffer // what until and wait have read
	lines chan string  // of the log, with room for all: whose log is not read stands still
}

func (m *machine) start(args ...string) *process {
	m.t.Helper()
	p := &process{t: m.t, lines: make(chan string, 1<<17), cmd: exec.Command(m.binary, append(m.more[:len(m.more):len(m.more)], args...)...)}
	p.cmd.Stdout = &p.out
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		m.t.Fatal(err)
	}
	if err = p.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	testutil.Limit(m.t, p.cmd.Process.Kill)
	go func() {
		defer close(p.lines)
		for r := bufio.NewReader(stderr); ; {
			line, err := r.ReadString('\n')
			p.lines <- line
			if err != nil {
				return
			}
		}
	}()
	return p
}

// until reads the log up to a line that contains a text.
func (p *process) until(text string) {
	p.t.Helper()
	for line := range p.lines {
		p.log.WriteString(line)
		if strings.Contains(line, text) {
			return
		}
	}
	p.t.Fatalf("the log ended before %q\n%s", text, p.log.String())
}

func (p *process) wait() int {
	p.t.Helper()
	for line := range p.lines {
		p.log.WriteString(line)
	}
	err := p.cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return 0
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// The demonstration, as an operator would run it: keys, and invitations, one of them late and
// announced by SIGHUP. A client is stopped and continues. A session with noise runs to its end and
// leaves its files behind.
func TestFederationOfProcesses(t *testing.T) {
	effort.NotShort(t, "starts processes")
	m := newMachine(t)
	m.run(cli.Done, "keygen", m.path("operator.key"))
	text, _ := m.run(cli.Done, "keygen", "--format", "json", m.path("aggregator.key"))
	var key struct{ Public, Peer string }
	if err := json.Unmarshal([]byte(text), &key); err != nil {
		t.Fatal(err)
	}
	m.more = []string{"--log-level", "debug"} // as much as can be logged, also by libp2p: see checkLogs
	port, ops := testutil.Port(t), "127.0.0.1:"+testutil.Port(t)
	invite := []string{"invite", "--operator", m.path("operator.key"), "--federation", m.path("federation.json"), "--name", "Demo", "--clients", "6",
		"--aggregator-key", key.Public, "--address", "/ip4/127.0.0.1/tcp/" + port, "--out", m.path("invitations")}
	m.run(cli.Done, append(invite, "--place", "server", "--place", "aggregator")...)
	aggregator := m.start("aggregator", "--key", m.path("aggregator.key"), "--federation", m.path("federation.json"), "--state", m.path("aggregator"),
		"--tickets", m.path("invitations/tickets.json"), "--revocations", m.path("invitations/revocations.json"),
		"--invitation", m.path("invitations/aggregator.json"), "--listen", "/ip4/127.0.0.1/tcp/"+port, "--ops", ops)
	aggregator.until("entered in the list")
	for k := range 6 {
		invite = append(invite, "--place", "client "+itoa(k))
	}
	m.run(cli.Done, invite...)
	aggregator.until("ready for parties")

	server := m.start("server", demo+"/experiment.yaml", "--items", demo+"/items", "--invitation", m.path("invitations/server.json"),
		"--state", m.path("server"), "--out", m.path("model"))
	server.until("waiting for clients") // so the aggregator listens
	aggregator.signal(syscall.SIGHUP)
	aggregator.until("read again")

	alone := []string{"client", "--data", demo + "/ratings.csv", "--user", "6", "--state", m.path("alone")}
	client := m.start(append(alone, "--invitation", m.path("invitations/client-5.json"))...)
	client.until("registered")
	client.signal(syscall.SIGTERM)
	if code := client.wait(); code != cli.Interrupted || !strings.Contains(client.log.String(), "start it again with the same --state") {
		t.Errorf("a client that was stopped: exit code %d\n%s", code, client.log.String())
	}
	client = m.start(alone...) // by its state: the invitation is not needed any more
	client.until("registered")
	together := m.start("client", "--data", demo+"/ratings.csv", "--users", "0..4", "--invitations", m.path("invitations"), "--state", m.path("together"))
	for name, p := range map[string]*process{"server": server, "client": client, "clients": together} {
		if code := p.wait(); code != cli.Done {
			t.Fatalf("%s: exit code %d\n%s", name, code, p.log.String())
		}
	}
	shown := m.shown(ops)
	m.checkStatus(ops)
	m.checkResults(server.out.String())
	_, stderr := m.run(cli.Misuse, "server", demo+"/experiment.yaml", "--items", demo+"/items", "--state", m.path("server"))
	if !strings.Contains(stderr, "of this experiment has ended") || !strings.Contains(stderr, "--again session") {
		t.Errorf("the same experiment in the same state, whose session has ended: %s", stderr)
	}
	aggregator.signal(syscall.SIGTERM)
	if code := aggregator.wait(); code != cli.Done || !strings.Contains(aggregator.out.String(), "/tcp/"+port+"/p2p/"+key.Peer) {
		t.Errorf("the aggregator: exit code %d, %s\n%s", code, aggregator.out.String(), aggregator.log.String())
	}
	m.checkLogs(shown, aggregator, server, client, together)
}

func (m *machine) checkStatus(ops string) {
	m.t.Helper()
	text, _ := m.run(cli.Done, "status", "--ops", ops, "--format", "json")
	var status struct {
		Role  string
		Ready bool
		Round int
	}
	if err := json.Unmarshal([]byte(text), &status); err != nil {
		m.t.Fatal(err)
	}
	if status.Role != "aggregator" || !status.Ready || status.Round != 5 {
		m.t.Errorf("status %s; want that of an aggregator after 5 rounds", text)
	}
}

// checkResults: 5 rounds are in experiment.yaml, with epsilon 10; 30 items in
// items/movies.csv, and each user ends with one embedding of its own.
func (m *machine) checkResults(printed string) {
	m.t.Helper()
	text, err := os.ReadFile(m.path("model/summary.json"))
	if err != nil {
		m.t.Fatal(err)
	}
	var s struct {
		Secagg        string
		Rounds        int
		SkippedRounds int `json:"skipped_rounds"`
		Privacy       struct {
			Epsilon    float64
			Noise      string
			Accountant string
		}
	}
	if err = json.Unmarshal(text, &s); err != nil {
		m.t.Fatal(err)
	}
	if s.Secagg != "real" || s.Rounds != 5 || s.SkippedRounds != 0 || !(s.Privacy.Epsilon > 9.9 && s.Privacy.Epsilon <= 10) ||
		s.Privacy.Noise != "skellam" || s.Privacy.Accountant != "gdp-skellam" {
		m.t.Errorf("summary %s", text)
	}
	if flat := strings.Join(strings.Fields(printed), " "); !strings.Contains(flat, "unit=user, relation=zero-out, accountant=gdp-skellam, sampling=none, noise=skellam") || !strings.Contains(flat, "5 attempted, 0 skipped") {
		m.t.Errorf("printed %s", printed)
	}
	for file, rows := range map[string]int{"model/item_embeddings": 30, "alone/result/user_embeddings": 1, "together/client-3/result/user_embeddings": 1} {
		f, err := os.Open(m.path(file + ".npy"))
		if err != nil {
			m.t.Fatal(err)
		}
		var x mat.Dense
		err = errors.Join(npyio.Read(f, &x), f.Close())
		if r, _ := x.Dims(); err != nil || r != rows {
			m.t.Errorf("%s has %d rows, %v; want %d", file, r, err, rows)
		}
		var ids []string
		text, err := os.ReadFile(m.path(file + ".ids.json"))
		if err = errors.Join(err, json.Unmarshal(text, &ids)); err != nil || len(ids) != rows {
			m.t.Errorf("%s is of %q, %v; want %d ids", file, ids, err, rows)
		}
	}
}
