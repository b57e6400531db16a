package internal_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/fedsim/fedsim/internal/node/ops"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

var opsNoon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func serveMonitor(t *testing.T, role string) (*ops.Monitor, func(path string) (int, string)) {
	t.Helper()
	m := ops.NewMonitor(role, func() time.Time { return opsNoon })
	s := httptest.NewServer(m.Handler())
	t.Cleanup(s.Close)
	return m, func(path string) (int, string) {
		t.Helper()
		r, err := http.Get(s.URL + path)
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
}

// The expected status and metrics are written down here in full, in Prometheus' text format.
func TestMonitorShowsWhatWasReported(t *testing.T) {
	m, get := serveMonitor(t, "aggregator")
	m.Session(protocol.SessionID{0xab})
	m.Registered(1)
	m.Registered(1)
	m.Registered(-1)
	m.Event(protocol.Event{Kind: protocol.RoundSummed, Round: 7})
	m.Event(protocol.Event{Kind: protocol.ClientLost, Round: 6, Party: protocol.ClientParty(3), Err: errors.New("late")})
	m.Event(protocol.Event{Kind: protocol.ClientLost, Round: 6, Party: protocol.ClientParty(4), Err: errors.New("late")})
	code, text := get("/status")
	want := `{"role":"aggregator","ready":true,"session":"ab000000000000000000000000000000","round":7,"connected":1,` +
		`"last_event":{"kind":"client-lost","round":6,"party":"client 4","at":"2026-01-02T12:00:00Z","error":"late"},` +
		`"absent":[{"party":"client 3","late":1,"stage":"advertise","round":6},{"party":"client 4","late":1,"stage":"advertise","round":6}]}` + "\n"
	if diff := cmp.Diff(want, text); code != http.StatusOK || diff != "" {
		t.Errorf("status %d (-want +got):\n%s", code, diff)
	}
	_, text = get("/metrics")
	for _, line := range []string{
		`fedsim_events_total{kind="client-lost",role="aggregator"} 2`,
		`fedsim_events_total{kind="round-summed",role="aggregator"} 1`,
		`fedsim_connected{role="aggregator"} 1`,
		`fedsim_round{role="aggregator"} 7`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
}

// Prometheus' own linter has nothing to say of names, units and help, and every kind of
// event is there before the first of it.
func TestMetricsAreAsPrometheusWantsThem(t *testing.T) {
	_, get := serveMonitor(t, "client")
	_, text := get("/metrics")
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "fedsim_") { // the others belong to Go and the process
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	for _, kind := range []string{"round-opened", "round-aborted", "client-lost", "input-unusable", "session-ended"} {
		if line := `fedsim_events_total{kind="` + kind + `",role="client"} 0` + "\n"; !strings.Contains(text, line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
	if strings.Contains(text, "EventKind(") || strings.Contains(text, `kind=""`) {
		t.Errorf("a kind without a name in\n%s", text)
	}
}

func TestReady(t *testing.T) {
	for role, want := range map[string][]int{ // at first, registered, and no longer
		"aggregator": {200, 200, 200}, "server": {503, 200, 503}, "client": {503, 200, 503},
	} {
		m, get := serveMonitor(t, role)
		for i, change := range []int{0, 1, -1} {
			m.Registered(change)
			if code, _ := get("/readyz"); code != want[i] {
				t.Errorf("%s after step %d: readyz %d, want %d", role, i, code, want[i])
			}
			if code, _ := get("/healthz"); code != http.StatusOK {
				t.Errorf("%s: healthz %d", role, code)
			}
		}
	}
}

// A process that is not ready says what is missing, in /readyz, /status and a metric. A probe hears that it is not ready, and no name.
func TestReadyzSaysWhatIsMissing(t *testing.T) {
	for role, what := range map[string]string{"server": "waits for clients: 4 of 5", "client": "no connection to the aggregator", "aggregator": "it does not listen yet"} {
		m, get := serveMonitor(t, role)
		m.Waits(what)
		if code, text := get("/readyz"); code != 503 || !strings.Contains(text, what) {
			t.Errorf("%s: readyz %d %q", role, code, text)
		}
		if s := m.Status(); s.Ready || s.Trouble != what {
			t.Errorf("%s: status %+v", role, s)
		}
		probe := httptest.NewServer(m.Probe())
		defer probe.Close()
		for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/metrics": 200, "/status": 404, "/": 404} {
			r, err := http.Get(probe.URL + path)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(r.Body)
			if err != nil || r.StatusCode != want || strings.Contains(string(text), what) {
				t.Errorf("%s: a probe of %s gets %d %q, %v", role, path, r.StatusCode, text, err)
			}
			if line := `fedsim_waiting{role="` + role + `"} 1`; path == "/metrics" && !strings.Contains(string(text), line) {
				t.Errorf("%s: no %q", role, line)
			}
			_ = r.Body.Close()
		}
		m.Waits("")
		m.Registered(1)
		if code, _ := get("/readyz"); code != 200 {
			t.Errorf("%s: readyz %d when nothing is missing", role, code)
		}
	}
}

func TestPlacesReloadsAndBuild(t *testing.T) {
	m, get := serveMonitor(t, "aggregator")
	m.Places(func() (int, int, []string) { return 5, 4, []string{"client 2"} })
	m.Reloaded(false)
	_, text := get("/metrics")
	for _, line := range []string{`fedsim_places{role="aggregator"} 5`, `fedsim_enrolled{role="aggregator"} 4`, `fedsim_config_reload_successful{role="aggregator"} 0`, `fedsim_build_info{goversion="go1`} {
		if !strings.Contains(text, line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
	if s := m.Status(); s.Places != 5 || s.Enrolled != 4 || s.Away != 1 || len(s.Missing) != 1 || s.Missing[0] != "client 2" {
		t.Errorf("status %+v", s)
	}
	m.Places(func() (int, int, []string) { return 2000, 2000, make([]string, 1500) })
	if s := m.Status(); s.Away != 1500 || len(s.Missing) != 1000 { // names are at most maxAbsences
		t.Errorf("%d away, and %d names", s.Away, len(s.Missing))
	}
}

// An owner's spending has the owner's place as a label, so that a probe does not see it.
func TestProbeNamesNobody(t *testing.T) {
	m, get := serveMonitor(t, "client")
	spent := 1.5
	m.Own(func() (*store.Account, error) { return &store.Account{Place: "client 3", Spent: &spent}, nil })
	if _, text := get("/metrics"); !strings.Contains(text, `fedsim_epsilon_spent{place="client 3",role="client"} 1.5`) {
		t.Errorf("the owner does not see\n%s", text)
	}
	w := httptest.NewRecorder()
	m.Probe().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if text := w.Body.String(); strings.Contains(text, "client 3") || !strings.Contains(text, "fedsim_ready") {
		t.Errorf("a probe sees\n%s", text)
	}
}

// Only the owner may read the fault in their own ratings, not others on the machine.
func TestUnusableInputIsNotExplained(t *testing.T) {
	m, get := serveMonitor(t, "client")
	m.Event(protocol.Event{Kind: protocol.InputUnusable, Err: errors.New("rates item 7 with NaN")})
	if _, text := get("/status"); !strings.Contains(text, "input-unusable") || strings.Contains(text, "item 7") {
		t.Errorf("status %s", text)
	}
}

func TestOnlyThisMachine(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "192.0.2.1:0", "[::]:0", "example.org:80", "127.0.0.1"} {
		if l, err := ops.Listen(address); !errors.Is(err, ops.ErrAddress) {
			t.Errorf("listening on %s: %v, %v", address, l, err)
		}
		if _, err := ops.Fetch(t.Context(), address); !errors.Is(err, ops.ErrAddress) {
			t.Errorf("asking %s: %v", address, err)
		}
	}
}

func TestFetch(t *testing.T) {
	m := ops.NewMonitor("server", func() time.Time { return opsNoon })
	m.Event(protocol.Event{Kind: protocol.RoundSummed, Round: 2})
	l, err := ops.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	ctx := t.Context()
	go func() { done <- ops.Serve(ctx, l, m.Handler()) }()
	got, err := ops.Fetch(ctx, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	want := m.Status()
	if diff := cmp.Diff(&want, got); diff != "" || got.Round != 2 {
		t.Errorf("(-shown +fetched):\n%s", diff)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	l, err := ops.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ops.Serve(ctx, l, ops.NewMonitor("client", time.Now).Handler()); err != nil {
		t.Error(err)
	}
	if _, err := ops.Fetch(t.Context(), l.Addr().String()); err == nil {
		t.Error("it still answers")
	}
}

// A web page can have its own name resolve to this machine, and then read what a
// browser on it is answered. It cannot have the browser say another name than its own.
func TestOtherNamesOfThisMachineAreNotAnswered(t *testing.T) {
	h := ops.NewMonitor("aggregator", func() time.Time { return opsNoon }).Handler()
	for host, want := range map[string]int{
		"127.0.0.1:9464": 200, "127.0.0.2": 200, "localhost:9464": 200, "localhost": 200, "LOCALHOST:80": 200, "[::1]:9464": 200, "[::1]": 200,
		"evil.example:9464": 403, "evil.example": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example:9464": 403,
		"192.0.2.1:9464": 403, "0.0.0.0:9464": 403, "": 403,
	} {
		for _, path := range []string{"/status", "/metrics", "/healthz", "/readyz"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Host = host
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != want {
				t.Errorf("%s of host %q: %d, want %d", path, host, w.Code, want)
			}
		}
	}
}

// A session begins at its own rounds. A session that continues keeps its round.
func TestStatusOfTheNextSession(t *testing.T) {
	m := ops.NewMonitor("aggregator", time.Now)
	for _, c := range []struct {
		session byte
		event   uint64
		want    uint64
	}{{1, 5, 5}, {1, 0, 5}, {2, 0, 0}, {2, 1, 1}} {
		m.Session(protocol.SessionID{c.session})
		m.Event(protocol.Event{Kind: protocol.RoundSummed, Round: c.event})
		if got := m.Status().Round; got != c.want {
			t.Errorf("session %d, an event of round %d: %d is shown, want %d", c.session, c.event, got, c.want)
		}
	}
}
