package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	libp2ppeer "github.com/libp2p/go-libp2p/core/peer"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/node/hub"
	"github.com/fedsim/fedsim/internal/node/peer"
	"github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/internal/testutil"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/protocol"
)

// faulty skips a test of the suite of faults, unless it is asked for: it takes a minute.
func faulty(t *testing.T) {
	t.Helper()
	effort.LongOnly(t, "faults of processes, network and time take a minute")
	t.Parallel() // the test waits for deadlines most of the time
}

// built is the folder of the command, once it has been built.
var built struct {
	once sync.Once
	dir  string
	err  error
}

func removeBuilt() { _ = os.RemoveAll(built.dir) }

// fednode builds the command, once in a run of the tests.
func fednode(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "fednode"); built.err != nil {
			return
		}
		out, err := exec.Command("go", "build", "-o", filepath.Join(built.dir, "fednode"), "github.com/fedsim/fedsim/cmd/fednode").CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "fednode")
}

// demo is the folder of the demonstration: ratings of 20 users. The tests take the first clients.
const (
	demo      = "../deploy/demo"
	clients   = 8
	lastAlone = clients - 1 // has a process of its own, the others share one
)

// machines are a federation of processes: an aggregator, a server, one client, and
// the other clients together. All of them dial the aggregator through a tap.
type machines struct {
	t          *testing.T
	dir        string
	settings   []string
	operator   admission.PrivateKey
	federation *admission.Federation
	hub        string // multiaddress of the aggregator
	tap        *tap
	oracle     *oracle
	contact    admission.Contact
	// By place: keys of invitations, and folders of states. A place that was revoked has two.
	mu     sync.Mutex
	keys   map[admission.Place][]admission.PrivateKey
	states map[admission.Place][]string
}

func newMachines(t *testing.T, settings ...string) *machines {
	t.Helper()
	m := &machines{t: t, dir: t.TempDir(), settings: settings,
		keys: make(map[admission.Place][]admission.PrivateKey), states: make(map[admission.Place][]string)}
	m.operator = m.key("operator")
	aggregator := m.key("aggregator")
	m.must(admission.WriteKey(m.path("aggregator.key"), aggregator))
	var err error
	m.federation, err = admission.NewFederation(m.operator, "Test", clients, time.Now(), simulated.New(seed, "federation"))
	m.must(err)
	m.must(admission.WriteFile(m.path("federation"), m.federation))
	m.hub = "/ip4/127.0.0.1/tcp/" + testutil.Port(t)
	id, err := peer.IDOf(aggregator.Public().Ed25519())
	m.must(err)
	info, err := libp2ppeer.AddrInfoFromString(m.hub + "/p2p/" + id.String())
	m.must(err)
	m.tap = newTap(t, aggregator, *info, m.holder)
	m.oracle = newOracle(t, m.tap, m.party)
	m.contact = admission.Contact{Addresses: []string{m.tap.address()}, Peer: id.String(), Aggregator: aggregator.Public()}
	m.must(os.Mkdir(m.path("invitations"), 0o700))
	var tickets []admission.Ticket
	for _, p := range m.places() {
		tickets = append(tickets, m.invite(p, 1, m.invitation(p), m.state(p)))
	}
	m.admit(tickets)
	return m
}

// places are all that there are.
func (m *machines) places() []admission.Place {
	list := []admission.Place{admission.AggregatorPlace, admission.ServerPlace}
	for id := range protocol.ClientID(clients) {
		list = append(list, admission.ClientPlace(id))
	}
	return list
}

func (m *machines) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *machines) path(name ...string) string {
	return filepath.Join(append([]string{m.dir}, name...)...)
}

func (m *machines) key(name string) admission.PrivateKey {
	m.t.Helper()
	k, err := admission.GenerateKey(simulated.New(seed, name))
	m.must(err)
	return k
}

// invite writes the invitation for a place, whose holder will have a state in a folder.
func (m *machines) invite(p admission.Place, serial uint32, path, state string) admission.Ticket {
	m.t.Helper()
	i, err := admission.Invite(m.operator, m.federation, admission.Offer{Place: p, Serial: serial, NotAfter: time.Now().Add(time.Hour), Contact: m.contact},
		simulated.New(seed, fmt.Sprintf("ticket %v %d", p, serial)))
	m.must(err)
	m.must(admission.WriteInvitation(path, i))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keys[p], m.states[p] = append(m.keys[p], i.Key), append(m.states[p], state)
	return i.Ticket
}

// admit writes the aggregator's list of tickets.
func (m *machines) admit(tickets []admission.Ticket) {
	m.t.Helper()
	m.must(admission.WriteFile(m.path("tickets"), hub.Tickets{Tickets: tickets}))
}

// named returns the name of a place in paths.
func named(p admission.Place) string {
	if p.Role == protocol.Client {
		return fmt.Sprintf("client-%d", p.Client)
	}
	return p.Role.String()
}

func (m *machines) invitation(p admission.Place) string {
	return m.path("invitations", named(p)+".json")
}

// state is where a party keeps its state.
func (m *machines) state(p admission.Place) string {
	if p.Role == protocol.Client && p.Client != lastAlone {
		return m.path("together", named(p))
	}
	return m.path(named(p))
}

// identity is a party's key, once it has drawn one.
func (m *machines) identity(p admission.Place) (admission.PrivateKey, error) {
	return admission.ReadKey(filepath.Join(m.state(p), "identity.json"))
}

// holder finds a peer among the invited parties, and the parties that have a state.
func (m *machines) holder(id peer.ID) (party, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for place, keys := range m.keys {
		for _, state := range m.states[place] {
			if own, err := admission.ReadKey(filepath.Join(state, "identity.json")); err == nil {
				keys = append(slices.Clone(keys), own)
			}
		}
		for _, k := range keys {
			if p, err := peer.IDOf(k.Public().Ed25519()); err == nil && p == id {
				return party{place, k}, true
			}
		}
	}
	return party{}, false
}

// party makes a client's trainer from its user's ratings, as its process does.
func (m *machines) party(id protocol.ClientID, e *experiment.Experiment) (client.Trainer, error) {
	var set *dataset.Set
	set, err := experiment.OpenData(context.Background(), e.Config, demo+"/ratings.csv", nil)
	if err != nil {
		return nil, err
	}
	return e.Party(algorithm.PartyData{User: set.UserIDs[id]}, set, planned(e))
}

// process is a running fednode.
type process struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	out  bytes.Buffer
	log  *os.File
	done chan struct{} // closed when it has ended
	code int
}

// start starts a process. A process that hangs is killed, and shows its log.
func (m *machines) start(args ...string) *process {
	m.t.Helper()
	p := &process{t: m.t, name: args[0], cmd: exec.Command(fednode(m.t), args...), done: make(chan struct{})}
	var err error
	p.log, err = os.CreateTemp(m.dir, "log-"+args[0])
	m.must(err)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, p.log
	m.must(p.cmd.Start())
	go func() {
		defer close(p.done)
		err := p.cmd.Wait()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			p.code = exit.ExitCode() // -1: by a signal
		} else if err != nil {
			p.code = -2
		}
	}()
	testutil.Limit(m.t, p.end)
	return p
}

// kill ends a process without a word, and returns when it is gone.
func (p *process) kill() { _ = p.end() }

// end is kill, with an error if the process has ended already.
func (p *process) end() error {
	err := p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.done
	_ = p.log.Close()
	return err
}

// ends waits for a process to end well.
func (p *process) ends() {
	p.t.Helper()
	<-p.done
	if p.code != 0 {
		text, err := os.ReadFile(p.log.Name())
		p.t.Fatalf("%s: exit code %d, log (%v):\n%s", p.name, p.code, err, text)
	}
}

func (m *machines) startAggregator() *process {
	m.t.Helper()
	return m.start("aggregator", "--key", m.path("aggregator.key"), "--federation", m.path("federation"), "--state", m.path("aggregator"),
		"--tickets", m.path("tickets"), "--revocations", m.path("revocations"), "--invitation", m.invitation(admission.AggregatorPlace), "--listen", m.hub, "--ops", "127.0.0.1:0")
}

func (m *machines) startServer() *process { return m.startServerWith() }

// startServerWith starts the server with more flags.
func (m *machines) startServerWith(more ...string) *process {
	m.t.Helper()
	args := []string{"server", m.path("experiment.yaml"), "--items", demo + "/items", "--invitation", m.invitation(admission.ServerPlace),
		"--state", m.state(admission.ServerPlace), "--format", "json"}
	usual := "algorithm=fmf-lfl contribution=all-ratings tolerance=0.25 deployment.gather-s=60 deployment.stage-timeout-s=6 "
	for _, s := range opened.Settings(usual + strings.Join(m.settings, " ")) {
		args = append(args, "--set", s.Key+"="+s.Value)
	}
	m.must(os.WriteFile(m.path("experiment.yaml"), []byte("data: .\n"), 0o600))
	return m.start(append(args, more...)...)
}

func (m *machines) startTogether() *process {
	m.t.Helper()
	return m.start("client", "--max-epsilon", "inf", "--data", demo+"/ratings.csv", "--users", fmt.Sprintf("0..%d", lastAlone-1),
		"--invitations", m.path("invitations"), "--state", m.path("together"))
}

func (m *machines) startAlone() *process {
	m.t.Helper()
	return m.start("client", "--max-epsilon", "inf", "--data", demo+"/ratings.csv", "--user", fmt.Sprint(lastAlone+1),
		"--invitation", m.invitation(admission.ClientPlace(lastAlone)), "--state", m.state(admission.ClientPlace(lastAlone)))
}

// rounds returns the server's numbers of attempted and skipped rounds.
func (p *process) rounds() (attempted, skipped int) {
	p.t.Helper()
	var s struct {
		Rounds  int
		Skipped int `json:"skipped_rounds"`
	}
	if err := json.NewDecoder(io.Reader(&p.out)).Decode(&s); err != nil {
		p.t.Fatalf("the server's summary: %v", err)
	}
	return s.Rounds, s.Skipped
}

// checkLedgers compares every client's ledger, as it is on disk, with what has passed. All clients
// have ended.
func (m *machines) checkLedgers() {
	m.t.Helper()
	for id := range protocol.ClientID(clients) {
		place := admission.ClientPlace(id)
		key, err := m.identity(place)
		m.must(err)
		m.oracle.checkLedger(id, chargesIn(m.t, filepath.Join(m.state(place), "ledger.db"), key.Public()))
	}
	m.oracle.openedOnce()
}
