//go:build unix

package command

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/testutil"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/sim"
)

// load is a federation of processes on one machine that is timed and weighed.
type load struct {
	clients, processes, items int
	// whole counts rounds with every client. The first is not timed, since it is set up with stages
	// of its own. In each of the lossy rounds that follow, one of the processes is stopped until
	// the round has ended.
	whole, lossy int
	stage        int // timeout in seconds
}

// 500 clients in 10 processes take minutes, so they are for FEDSIM_TEST_LONG=load. The number of
// items is taken from MovieLens' latest-small. Processes that are stopped are waited for by the
// clock, so 40 clients are for FEDSIM_TEST_LONG=1, as in .ci/run.
func TestLoad(t *testing.T) {
	switch {
	case effort.Load():
		load{clients: 500, processes: 10, items: 9742, whole: 3, lossy: 3, stage: 45}.run(t)
	case effort.Long():
		load{clients: 40, processes: 10, items: 300, whole: 2, lossy: 1, stage: 3}.run(t)
	default:
		effort.LongOnly(t, "waits by the clock")
	}
}

func (l load) run(t *testing.T) {
	m := newMachine(t)
	m.writeData(l)
	m.writeExperiment(l)
	f := m.found(l)
	idle := f.aggregator.memory()
	f.startClients(l)
	t.Logf("%d clients in %d processes enrolled and registered in %.1f s", l.clients, l.processes, time.Since(f.began).Seconds())
	perClient := (f.aggregator.memory() - idle) / l.clients
	held := 0
	for _, c := range f.clients {
		held += c.memory()
	}
	t.Logf("resident, before a session: aggregator %d MiB alone and %d KiB a client; client processes %d KiB a client, %d MiB a process",
		idle>>20, perClient>>10, held/l.clients>>10, held/l.processes>>20)

	server := f.m.follow("server", m.path("load.yaml"), "--items", m.path("items"), "--invitation", m.path("invitations/server.json"),
		"--state", m.path("server"), "--out", m.path("model"))
	published := f.aggregator.said("session published", 1)
	first := f.aggregator.summed(1)
	for k := 2; k < l.whole; k++ {
		f.aggregator.summed(k)
	}
	last := f.aggregator.summed(l.whole)
	took := last.Sub(first) / time.Duration(l.whole-1)
	t.Logf("from the session's publication, which clients look over first, to its first sum: %.2f s", first.Sub(published).Seconds())
	for k := range l.lossy {
		before, stopped := last, f.clients[k%len(f.clients)]
		stopped.signal(syscall.SIGSTOP)
		last = f.aggregator.summed(l.whole + k + 1)
		stopped.signal(syscall.SIGCONT)
		t.Logf("round %d, of which %d clients were stopped: %.2f s, with the waiting for them", l.whole+k+1, l.clients/l.processes, last.Sub(before).Seconds())
	}
	server.end()
	held = 0
	for _, c := range f.clients {
		c.end()
		held += c.peak()
	}
	f.aggregator.signal(syscall.SIGTERM)
	f.aggregator.end()
	t.Logf("resident, at most: aggregator %d MiB, %d KiB a client; client processes %d KiB a client",
		f.aggregator.peak()>>20, (f.aggregator.peak()-idle)/l.clients>>10, held/l.clients>>10)
	m.checkRounds(l)
	bare := m.bare(l)
	t.Logf("a round with everybody: %.2f s; its roles alone, in one process: %.2f s; ratio %.2f",
		took.Seconds(), bare.Seconds(), took.Seconds()/bare.Seconds())
}

// writeData writes items and the users' ratings of them, ten each, in MovieLens' form.
func (m *machine) writeData(l load) {
	m.t.Helper()
	draw := rand.New(rand.NewPCG(1, 2))
	var items, ratings, users strings.Builder
	items.WriteString("movieId,title,genres\n")
	for i := range l.items {
		fmt.Fprintf(&items, "%d,Item %d (2000),Drama\n", i+1, i+1)
	}
	ratings.WriteString("userId,movieId,rating,timestamp\n")
	for u := range l.clients {
		start := draw.IntN(l.items)
		fmt.Fprintln(&users, u+1)
		for k := range 10 {
			fmt.Fprintf(&ratings, "%d,%d,%d.0,0\n", u+1, (start+7*k)%l.items+1, 1+draw.IntN(5))
		}
	}
	if err := os.Mkdir(m.path("items"), 0o700); err != nil {
		m.t.Fatal(err)
	}
	m.write("items/movies.csv", items.String())
	m.write("ratings.csv", ratings.String())
	m.write("users.txt", users.String())
}

func (m *machine) write(name, text string) {
	m.t.Helper()
	if err := os.WriteFile(m.path(name), []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) writeExperiment(l load) {
	m.write("load.yaml", fmt.Sprintf(`algorithm: lfl-sgdmf
contribution: all-ratings
data: %s
epsilon: 10
rank: 2
rounds: %d
tolerance: 0.3
rating-min: 0.5
rating-max: 5
deployment:
  stage-timeout-s: %d
  gather-s: 600
`, m.path("ratings.csv"), l.whole+l.lossy, l.stage))
}

// loaded are the processes of a load.
type loaded struct {
	m          *machine
	began      time.Time
	aggregator *followed
	clients    []*followed // processes of several
}

// found founds the federation, invites every party and starts the aggregator.
func (m *machine) found(l load) *loaded {
	m.t.Helper()
	address := "/ip4/127.0.0.1/tcp/" + testutil.Port(m.t)
	m.founds(l.clients, address)
	a := m.follow("aggregator", "--key", m.path("aggregator.key"), "--federation", m.path("federation.json"), "--state", m.path("aggregator"),
		"--tickets", m.path("invitations/tickets.json"), "--invitation", m.path("invitations/aggregator.json"), "--listen", address, "--ops", "")
	a.said("entered in the list", 1)
	return &loaded{m: m, began: time.Now(), aggregator: a}
}

// startClients has all clients enrol and register.
func (f *loaded) startClients(l load) {
	f.m.t.Helper()
	each := l.clients / l.processes
	for k := range l.processes {
		f.clients = append(f.clients, f.m.follow("client", "--data", f.m.path("ratings.csv"), "--users", fmt.Sprintf("%d..%d", k*each, (k+1)*each-1),
			"--invitations", f.m.path("invitations"), "--state", f.m.path("clients-"+itoa(k))))
	}
	for _, c := range f.clients {
		c.said("registered", each)
	}
}

// followed is a running fednode whose log is read as it is written.
type followed struct {
	t    *testing.T
	cmd  *exec.Cmd
	exit error // once ended

	mu    sync.Mutex
	news  *sync.Cond
	ended bool
	part  string // of a line
	lines []logLine
}

// logLine is a line to look for in a log, and the time when it was written.
type logLine struct {
	Event, Message string
	Round          int
	at             time.Time
	text           string
}

func (m *machine) follow(args ...string) *followed {
	m.t.Helper()
	f := &followed{t: m.t, cmd: exec.Command(m.binary, args...)}
	f.news = sync.NewCond(&f.mu)
	f.cmd.Stderr = f
	if err := f.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := f.cmd.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.ended, f.exit = true, err
		f.news.Broadcast()
	}()
	m.t.Cleanup(func() { <-done })
	testutil.Limit(m.t, f.cmd.Process.Kill) // before that
	return f
}

// Write takes the log.
func (f *followed) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.part += string(b)
	for {
		text, rest, whole := strings.Cut(f.part, "\n")
		if !whole {
			break
		}
		line := logLine{at: time.Now(), text: text}
		_ = json.Unmarshal([]byte(text), &line) // a warning for people is none
		f.lines, f.part = append(f.lines, line), rest
	}
	f.news.Broadcast()
	return len(b), nil
}

// await waits until so many lines are as wanted, and says when the last of them came.
func (f *followed) await(what string, n int, wanted func(logLine) bool) time.Time {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for read, found := 0, 0; ; f.news.Wait() {
		for ; read < len(f.lines); read++ {
			if wanted(f.lines[read]) {
				if found++; found == n {
					return f.lines[read].at
				}
			}
		}
		if f.ended {
			f.t.Fatalf("%s ended, %v, before %q for the %dth time\n%s", f.cmd.Args[1], f.exit, what, n, f.tail())
		}
	}
}

// tail is the end of the log. The caller holds mu.
func (f *followed) tail() string {
	var b strings.Builder
	for _, line := range f.lines[max(0, len(f.lines)-30):] {
		b.WriteString(line.text + "\n")
	}
	return b.String()
}

func (f *followed) said(message string, n int) time.Time {
	f.t.Helper()
	return f.await(message, n, func(l logLine) bool { return strings.HasPrefix(l.Message, message) })
}

// summed says when a round ended, which must be in a sum.
func (f *followed) summed(round int) (at time.Time) {
	f.t.Helper()
	aborted := false
	at = f.await("the end of a round", 1, func(l logLine) bool {
		aborted = l.Event == "round-aborted"
		return l.Round == round && (aborted || l.Event == "round-summed")
	})
	if aborted {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.t.Fatalf("round %d ended without a sum\n%s", round, f.tail())
	}
	return at
}

func (f *followed) signal(s os.Signal) {
	f.t.Helper()
	if err := f.cmd.Process.Signal(s); err != nil {
		f.t.Fatal(err)
	}
}

// end waits for a process to end well.
func (f *followed) end() {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for !f.ended {
		f.news.Wait()
	}
	if f.exit != nil {
		f.t.Fatalf("%s: %v\n%s", f.cmd.Args[1], f.exit, f.tail())
	}
}

// memory returns the resident memory, in bytes; 0 where the system does not say.
func (f *followed) memory() int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", f.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var kB int
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kB); n == 1 {
			return kB << 10
		}
	}
	return 0
}

// peak is the most that was resident of a process that has ended, in bytes.
func (f *followed) peak() int {
	usage, ok := f.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	return int(usage.Maxrss) << 10 // in KiB, on Linux
}

// checkRounds: every round ended in a sum.
func (m *machine) checkRounds(l load) {
	m.t.Helper()
	text, err := os.ReadFile(m.path("model/summary.json"))
	if err != nil {
		m.t.Fatal(err)
	}
	var s struct {
		Clients, Rounds int
		SkippedRounds   int `json:"skipped_rounds"`
	}
	if err = json.Unmarshal(text, &s); err != nil {
		m.t.Fatal(err)
	}
	if s.Clients != l.clients || s.Rounds != l.whole+l.lossy || s.SkippedRounds != 0 {
		m.t.Errorf("summary %s\nwant %d rounds of %d clients, and none skipped", text, l.whole+l.lossy, l.clients)
	}
}

// bare returns the time of a round of the same experiment with the roles of all parties in this
// process. It includes training, noise and cryptography, without a network. It is the mean over the
// timed rounds.
func (m *machine) bare(l load) time.Duration {
	m.t.Helper()
	said, err := config.ReadFile(m.path("load.yaml"))
	if err != nil {
		m.t.Fatal(err)
	}
	c, err := config.Resolve(said)
	if err == nil {
		err = c.Set("rounds", itoa(l.whole))
	}
	if err != nil {
		m.t.Fatal(err)
	}
	deployed, err := algorithm.Deployed(c)
	if err != nil {
		m.t.Fatal(err)
	}
	deployed.Take(algorithm.Data.Key, c) // which a deployment names to clients only
	e, err := experiment.Open(m.t.Context(), deployed, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	fed, err := e.Federation()
	if err != nil {
		m.t.Fatal(err)
	}
	var sums []time.Time
	_, err = sim.Run(m.t.Context(), sim.Config{
		Session: fed.Session, Strategy: fed.Strategy, Trainers: fed.Trainers, Ledgers: fed.ClientLedgers(), Real: true, Mode: e.Mode(),
		Rounds: l.whole, Seed: 1, Workers: protocol.Workers(runtime.GOMAXPROCS(0)),
		Network: sim.Network{Up: 1e9, Down: 1e9, StageTimeout: time.Hour},
		Round: func(sim.Round, []byte) error {
			sums = append(sums, time.Now())
			return nil
		},
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return sums[l.whole-1].Sub(sums[0]) / time.Duration(l.whole-1)
}
