package command

import (
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/internal/agreement"
	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/effort"
	openedtest "github.com/fedsim/fedsim/internal/opened"
	"github.com/fedsim/fedsim/internal/testutil"
	"github.com/fedsim/fedsim/node"
	"github.com/fedsim/fedsim/node/admission"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/results"
)

// fileLimit sets how large the files may become that a running process writes to: beyond
// that writes fail as on a full disk.
func (p *process) fileLimit(bytes uint64) {
	p.t.Helper()
	limit := syscall.Rlimit{Cur: bytes, Max: 1<<64 - 1}
	if _, _, err := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(p.cmd.Process.Pid), syscall.RLIMIT_FSIZE,
		uintptr(unsafe.Pointer(&limit)), 0, 0, 0); err != 0 {
		p.t.Skip("limits of another process cannot be set here: ", err)
	}
}

// asked returns the aggregator's answer at a path of its --ops.
func asked(t *testing.T, ops, path string) (code int, text string) {
	t.Helper()
	r, err := http.Get("http://" + ops + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close() //nolint:errcheck // only read
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// The server's disk is full when the session ends: its last rounds are kept, its model has no room. The
// server says what to do, and with room again writes the model that the clients have paid for.
func TestFullDiskAtTheEndOfASession(t *testing.T) {
	effort.NotShort(t, "starts processes")
	m := newMachine(t)
	lead, serve, alone, rest := m.federation(6, 10)
	aggregator := m.start(lead...)
	server := m.start(serve...)
	server.until("waiting for clients")
	client := m.start(alone...)
	together := m.start(rest...)
	server.until("sum received")
	server.fileLimit(400) // a checkpoint has 306 bytes, and the model's description 1,619
	if code := server.wait(); code != cli.Failed || !strings.Contains(server.log.String(), "make room, and start again with the same --state") {
		t.Fatalf("on a full disk: exit code %d\n%s", code, server.log.String())
	}
	if _, err := os.Stat(m.path("server/current/shared.bin")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a model was written: %v", err)
	}
	server = m.start(serve...)
	for name, p := range map[string]*process{"server": server, "client": client, "clients": together} {
		if code := p.wait(); code != cli.Done {
			t.Errorf("with room again, the %s: exit code %d\n%s", name, code, p.log.String())
		}
	}
	if b, err := os.ReadFile(m.path("server/current/shared.bin")); err != nil || len(b) == 0 {
		t.Errorf("with room again: a model of %d bytes, %v", len(b), err)
	}
	aggregator.signal(os.Interrupt)
	aggregator.wait()
}

// While its disk is full the aggregator enrols no client, and says so: in its log, and by not being
// ready. Once there is room it continues without another start, and enrols the waiting client.
func TestRegistryOnAFullDisk(t *testing.T) {
	effort.NotShort(t, "starts processes")
	m := newMachine(t)
	lead, _, _, _ := m.federation(2, 1)
	ops := "127.0.0.1:" + testutil.Port(t)
	aggregator := m.start(with(lead, "--ops", ops)...)
	aggregator.until("ready for parties")
	if code, answer := asked(t, ops, "/readyz"); code != http.StatusOK {
		t.Fatalf("before: %d %s", code, answer)
	}
	aggregator.fileLimit(1)
	client := m.start("client", "--data", demo+"/ratings.csv", "--user", "1", "--state", m.path("client"), "--invitation", m.path("invitations/client-0.json"))
	aggregator.until(`"level":"error"`)
	if log := aggregator.log.String(); !strings.Contains(log, "the registry cannot be written") {
		t.Errorf("the log does not say why:\n%s", log)
	}
	if code, answer := asked(t, ops, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(answer, "the registry cannot be written") {
		t.Errorf("while the disk is full: %d %s", code, answer)
	}
	aggregator.fileLimit(1<<64 - 1)
	client.until("registered")
	if code, answer := asked(t, ops, "/readyz"); code != http.StatusOK {
		t.Errorf("afterwards: %d %s", code, answer)
	}
	for _, p := range []*process{client, aggregator} {
		p.signal(syscall.SIGTERM)
		p.wait()
	}
}

// A client that cannot keep its charges ends, and a server that cannot keep its checkpoints ends,
// with a word on why: nothing may leave without. Once there is room they continue from where they
// were.
func TestSessionOnAFullDisk(t *testing.T) {
	long(t)
	m := newMachine(t)
	lead, serve, alone, rest := m.federation(20, 12)
	aggregator := m.start(lead...)
	server := m.start(serve...)
	server.until("waiting for clients")
	client := m.start(alone...)
	together := m.start(rest...)
	server.until("sum received")

	client.fileLimit(1)
	if code := client.wait(); code != cli.Failed || !strings.Contains(client.log.String(), "cannot be kept") {
		t.Errorf("the client ended with %d\n%s", code, client.log.String())
	}
	ops := "127.0.0.1:" + testutil.Port(t)
	client = m.start(append(slices.Clone(alone), "--ops", ops)...)
	client.until("registered")
	server.until("sum received")
	if _, page := asked(t, ops, "/"); !strings.Contains(page, "of 12</td>") || !strings.Contains(page, "left of --max-epsilon") {
		t.Errorf("its owner is not told what it spends:\n%s", page)
	}
	if text, _ := m.run(cli.Done, "status", "--ops", ops); !strings.Contains(text, "consented to") {
		t.Errorf("nor by fednode status:\n%s", text)
	}

	server.fileLimit(1)
	if code := server.wait(); code != cli.Failed || !strings.Contains(server.log.String(), "checkpoint") {
		t.Errorf("the server ended with %d\n%s", code, server.log.String())
	}
	server = m.start(serve...)
	server.until("resumed")
	for name, p := range map[string]*process{"server": server, "client": client, "clients": together} {
		if code := p.wait(); code != cli.Done {
			t.Errorf("%s: exit code %d\n%s", name, code, p.log.String())
		}
	}
	aggregator.signal(syscall.SIGTERM)
	aggregator.wait()
	summary, err := os.ReadFile(m.path("server/current/summary.json"))
	if err != nil || !strings.Contains(string(summary), `"rounds": 12`) {
		t.Errorf("%v\n%s", err, summary)
	}
}

// A folder of /proc is on a disk of 0 bytes (statfs on Linux). run, server and client find that out before the work: the server for
// its state and for --out.
func TestRoomIsAskedBeforeTheWork(t *testing.T) {
	const full = "/proc/fedsim-has-no-room"
	if free, known := atomicfile.Free("/proc"); !known || free > 0 {
		t.Skip("this system has room in /proc")
	}
	o := newOffice(t)
	must(t, o.invite("--name", "Films", "--clients", "20")...)
	federation, err := admission.ReadFile(o.path("federation.json"), admission.ParseFederation)
	if err != nil {
		t.Fatal(err)
	}
	registry, err := admission.OpenRegistry(federation, store.NewMemoryLog())
	if err != nil {
		t.Fatal(err)
	}
	log := zerolog.Nop()
	settings := resolved(t, "algorithm=lfl-sgdmf rounds=5")
	f, err := facts(t.Context(), settings, demo+"/items", "", 20)
	if err != nil {
		t.Fatal(err)
	}
	serve := func(state, out string) error {
		_, _, failed := (&serverCmd{State: state, Out: out}).experiment(settings, f, nil, &party.Member{Member: node.Member{Registry: registry}}, &log)
		return failed
	}
	e, err := agreement.Open(published(t, "algorithm=lfl-sgdmf rounds=5"))
	if err != nil {
		t.Fatal(err)
	}
	_, run := results.NewFolder(openedtest.Experiment(t, "algorithm=lfl-sgdmf rounds=2 out="+full))
	_, client := (&clientHost{clientCmd: &clientCmd{Data: demo + "/ratings.csv"}}).party(t.Context(), e, clientSpec{state: full, holding: algorithm.PartyData{User: "7"}}, &log)
	for who, err := range map[string]error{"run": run, "client": client, "server's state": serve(full, ""), "server's --out": serve(t.TempDir(), full)} {
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "are left on the disk of /proc,") {
			t.Errorf("%s: %v", who, err)
		}
	}
	if err = serve(t.TempDir(), ""); err != nil {
		t.Errorf("a server with room: %v", err)
	}
}
