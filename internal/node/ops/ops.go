// Package ops shows over HTTP, on the machine itself, what a process is doing:
//
//	/metrics   counters of events by kind and role, for Prometheus
//	/healthz   200 as long as the process answers
//	/readyz    200 when it can do its work: it listens, or is registered; else what is missing
//	/status    what it is doing, as JSON
//	/          the same as a page, for a browser
//
// Nothing that it shows is secret, and nothing can be changed through it. But who takes part, and when, is private, so it listens on
// loopback addresses only, and answers only requests whose host is such an address or localhost. A probe of another machine has the first
// three paths at an address of its own, without the name of a party or a reason.
package ops

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fedsim/fedsim/internal/atomicfile"
	"github.com/fedsim/fedsim/internal/locked"
	"github.com/fedsim/fedsim/internal/loopback"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// ErrSilent is wrapped by the error of Fetch if no process answers.
var ErrSilent = errors.New("ops: nothing answers")

// ErrAddress is wrapped where an address is not one of this machine alone.
var ErrAddress = errors.New("ops: an address on this machine is needed, like 127.0.0.1:9464")

// Status describes the present work of a process.
type Status struct {
	Role string `json:"role"`
	// Ready says that the process can do its work.
	Ready bool `json:"ready"`
	// Trouble is why the process is not ready although it runs, or what it waits for; "" where there is none.
	Trouble string `json:"trouble,omitempty"`
	// Session is the present session, in hex; "" before the first.
	Session string `json:"session"`
	// Round is the latest round that the role has reported; 0 before the first.
	Round uint64 `json:"round"`
	// Connected counts, for an aggregator or a relay, the clients that are registered with it. For
	// other roles it counts the clients of the process that are registered with the aggregator.
	Connected int `json:"connected"`
	// Places, Enrolled, Away and Missing are of an aggregator: the number of clients' places, the number of enrolled clients, how
	// many of these clients are not connected, and their names, at most maxAbsences.
	Places   int      `json:"places,omitempty"`
	Enrolled int      `json:"enrolled,omitempty"`
	Away     int      `json:"away,omitempty"`
	Missing  []string `json:"missing,omitempty"`
	// Last is the latest event that a role has reported.
	Last *Event `json:"last_event,omitempty"`
	// Rounds are the latest ones of the session, and Absent the clients that were late in it or are out. Both are of an aggregator.
	Rounds []Round   `json:"rounds,omitempty"`
	Absent []Absence `json:"absent,omitempty"`
	// Complaints lists who complains in the session about whose shares. An aggregator lists all
	// complaints that it hears of, a client its own.
	Complaints []Complaints `json:"complaints,omitempty"`
	// Accounts are of the clients of the process, the first of them if there are many: what each has consented to, and spent.
	Accounts []store.Account `json:"accounts,omitempty"`
	// AccountsLeftOut counts the clients of the process whose accounts are not shown.
	AccountsLeftOut int `json:"accounts_left_out,omitempty"`
}

// Event is something that a role reported.
type Event struct {
	Kind  string    `json:"kind"`
	Round uint64    `json:"round"`
	Party string    `json:"party"`
	At    time.Time `json:"at"`
	Error string    `json:"error,omitempty"`
}

// Monitor collects what is shown. It is a node.Observer; several roles of one kind may share it.
type Monitor struct {
	now     func() time.Time
	metrics *metrics

	mu     sync.Mutex
	status Status
	course course
	waits  string // see Waits
	ahead  time.Duration
	reload bool         // the operator's files were read when they were read last
	check  func() error // see Check; nil: nothing is checked
	places func() (places, enrolled int, missing []string)
	owned  []*func() (*store.Account, error)
}

// maxAccounts limits the accounts that are shown: an owner cannot read a page of more.
const maxAccounts = 20

// Own shows the account of a client until forget is called. Each view of the page or the status calls account.
func (m *Monitor) Own(account func() (*store.Account, error)) (forget func()) {
	m.set(func() { m.owned = append(m.owned, &account) })
	return func() {
		m.set(func() {
			m.owned = slices.DeleteFunc(m.owned, func(x *func() (*store.Account, error)) bool { return x == &account })
		})
	}
}

// set calls a function that sets fields.
func (m *Monitor) set(f func()) { locked.Do(&m.mu, f) }

// Check has the process not ready while a function returns an error, which /readyz shows.
func (m *Monitor) Check(check func() error) { m.set(func() { m.check = check }) }

// Waits notes what the process waits for, which keeps it from being ready: clients, or a connection. "" is nothing.
func (m *Monitor) Waits(what string) { m.set(func() { m.waits = what }) }

// ClockAhead notes how far the machine's clock is ahead of the aggregator's.
func (m *Monitor) ClockAhead(by time.Duration) { m.set(func() { m.ahead = by }) }

// Reloaded notes whether the operator's files could be read, at the start and on SIGHUP.
func (m *Monitor) Reloaded(ok bool) { m.set(func() { m.reload = ok }) }

// Disk shows the room that is left on the disk of a state.
func (m *Monitor) Disk(state string) {
	m.metrics.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "fedsim_state_free_bytes", Help: "Room on the disk of the state.",
		ConstLabels: prometheus.Labels{"role": m.status.Role}}, func() float64 {
		free, _ := atomicfile.Free(state)
		return float64(free)
	}))
}

// Places has an aggregator show its places, the enrolled clients, and the names of the missing clients.
func (m *Monitor) Places(of func() (places, enrolled int, missing []string)) {
	m.set(func() { m.places = of })
}

// NewMonitor makes the monitor of a process of the role: "aggregator", "relay", "server" or
// "client". An aggregator or a relay is ready as long as it waits for nothing, others when they are registered.
func NewMonitor(role string, now func() time.Time) *Monitor {
	labels := prometheus.Labels{"role": role}
	m := &Monitor{now: now, metrics: newMetrics(labels), reload: true, status: Status{Role: role, Ready: faces(role)}}
	m.gauges(labels)
	return m
}

// faces says whether others register with a role.
func faces(role string) bool {
	return role == protocol.Aggregator.String() || role == protocol.Relay.String()
}

// Session begins the status of a session anew, unless the session is the present one.
func (m *Monitor) Session(id protocol.SessionID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := hex.EncodeToString(id[:]); s != m.status.Session {
		m.status.Session, m.status.Round, m.status.Rounds, m.status.Absent, m.status.Complaints = s, 0, nil, nil, nil
		m.course = course{running: true, summed: m.now(), silent: make(map[protocol.Party]bool), declining: make(map[protocol.Party]bool)}
	}
}

// Registered adds a change to the number of connected clients.
func (m *Monitor) Registered(change int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.status.Connected += change
	if !faces(m.status.Role) {
		m.status.Ready = m.status.Connected > 0
	}
}

// Event counts an event and shows it as the latest.
func (m *Monitor) Event(e protocol.Event) {
	last := &Event{Kind: e.Kind.String(), Round: e.Round, Party: e.Party.String(), At: m.now().UTC()}
	if e.Err != nil && e.Kind != protocol.InputUnusable { // which is for the owner's eyes
		last.Error = e.Err.Error()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.metrics.count(&m.status, e, last.At)
	m.course.follow(e, last.At)
	m.status.Round = max(m.status.Round, e.Round)
	m.status.Last = last
	if e.Kind == protocol.ClientAccused {
		if c := m.status.complaints(e.By, e.Round); c != nil {
			c.By++
		}
		if c := m.status.complaints(e.Party, e.Round); c != nil {
			c.Against++
		}
	}
	if m.status.Role == protocol.Aggregator.String() {
		m.status.remember(e, last.At)
	}
}

// Status returns the present status of the process.
func (m *Monitor) Status() Status {
	s := m.doing()
	var owned []*func() (*store.Account, error)
	m.set(func() { owned = slices.Clone(m.owned) })
	shown := min(len(owned), maxAccounts)
	s.AccountsLeftOut = len(owned) - shown
	for _, account := range owned[:shown] {
		a, err := (*account)()
		if err != nil {
			a = &store.Account{Unaccounted: err.Error()}
		}
		s.Accounts = append(s.Accounts, *a)
	}
	slices.SortStableFunc(s.Accounts, func(a, b store.Account) int { // by number: client 7 before client 10
		return cmp.Or(cmp.Compare(len(a.Place), len(b.Place)), cmp.Compare(a.Place, b.Place))
	})
	return s
}

// doing is Status without accounts, which take long.
func (m *Monitor) doing() Status {
	m.mu.Lock()
	s, check, places := m.status, m.check, m.places
	if faces(s.Role) {
		s.Ready = m.waits == ""
	}
	if !s.Ready {
		s.Trouble = m.waits
	}
	s.Rounds, s.Absent, s.Complaints = slices.Clone(s.Rounds), slices.Clone(s.Absent), slices.Clone(s.Complaints)
	for i := range s.Rounds {
		s.Rounds[i].Stages = slices.Clone(s.Rounds[i].Stages)
	}
	m.mu.Unlock()
	if places != nil {
		s.Places, s.Enrolled, s.Missing = places()
		s.Away = len(s.Missing)
		s.Missing = s.Missing[:min(s.Away, maxAbsences)]
	}
	if check == nil {
		return s
	}
	if err := check(); err != nil { // which may take as long as the disk does
		s.Ready, s.Trouble = false, err.Error()
	}
	return s
}

// Handler serves the paths that the package comment lists.
func (m *Monitor) Handler() http.Handler {
	mux := probed(m.doing, m.metrics.registry, m.metrics.named)
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(m.Status()) // who has gone does not hear it
	})
	mux.HandleFunc("GET /{$}", m.show)
	return loopback.Handler(mux, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "ask at an address of this machine, like 127.0.0.1, or at localhost", http.StatusForbidden)
	})
}

// Probe serves /healthz, /readyz and /metrics for other machines.
func (m *Monitor) Probe() http.Handler {
	return probed(func() Status { return Status{Ready: m.doing().Ready} }, m.metrics.registry)
}

func probed(doing func() Status, metrics ...prometheus.Gatherer) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(prometheus.Gatherers(metrics), promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, Status{Ready: true}) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, doing()) })
	return mux
}

func answer(w http.ResponseWriter, s Status) {
	if !s.Ready {
		http.Error(w, strings.TrimSuffix("not ready: "+s.Trouble, ": "), http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ok\n") // who has gone does not hear it
}

// Listen opens an address of this machine; any other is refused with ErrAddress.
func Listen(address string) (net.Listener, error) {
	if err := checkAddress(address); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("ops: %w", err)
	}
	return l, nil
}

func checkAddress(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrAddress, err)
	}
	if !loopback.Is(host) {
		return fmt.Errorf("%w: %s can be reached from others", ErrAddress, address)
	}
	return nil
}

// Serve answers on a listener by a handler of the monitor until the context ends.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("ops: %w", err)
	}
	return nil
}

// maxStatus is the longest answer that Fetch reads, in bytes.
const maxStatus = 1 << 20

// Fetch asks the process at an address what it is doing.
func Fetch(ctx context.Context, address string) (*Status, error) {
	if err := checkAddress(address); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/status", nil)
	if err != nil {
		return nil, fmt.Errorf("ops: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%w at %s: %w", ErrSilent, address, err)
	}
	defer response.Body.Close() //nolint:errcheck // only read
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ops: %s answers %s; is it a fednode?", address, response.Status)
	}
	s := new(Status)
	if err := json.NewDecoder(io.LimitReader(response.Body, maxStatus)).Decode(s); err != nil {
		return nil, fmt.Errorf("ops: %s does not answer with a status: %w", address, err)
	}
	return s, nil
}
