package internal_test

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/fedsim/fedsim/internal/node/ops"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// The expected lines are in Prometheus' text format: a round of 4 s with a stage of 3 s, a round that was given up after 2 s,
// and a client of each state.
func TestMetricsOfRounds(t *testing.T) {
	now := opsNoon
	m := ops.NewMonitor("aggregator", func() time.Time { return now })
	get := metricsOf(t, m)
	at := func(seconds int, e protocol.Event) {
		now = opsNoon.Add(time.Duration(seconds) * time.Second)
		m.Event(e)
	}
	m.Session(protocol.SessionID{1})
	m.Registered(5)
	at(1, protocol.Event{Kind: protocol.RoundOpened, Round: 1})
	at(4, protocol.Event{Kind: protocol.StageClosed, Round: 1, Stage: protocol.StageMaskedInput})
	at(5, protocol.Event{Kind: protocol.RoundSummed, Round: 1})
	at(6, protocol.Event{Kind: protocol.RoundOpened, Round: 2})
	at(7, protocol.Event{Kind: protocol.ClientLost, Round: 2, Party: protocol.ClientParty(1)})
	at(7, protocol.Event{Kind: protocol.ClientExcluded, Round: 2, Party: protocol.ClientParty(2), Err: errors.New("a lie")})
	at(7, protocol.Event{Kind: protocol.ClientSilent, Round: 2, Party: protocol.ClientParty(3)})
	at(7, protocol.Event{Kind: protocol.SessionDeclined, Party: protocol.ClientParty(4), Err: errors.New("budget, affords 2")})
	at(7, protocol.Event{Kind: protocol.SessionDeclined, Party: protocol.ClientParty(4), Err: errors.New(`"}1 anything`)})
	at(8, protocol.Event{Kind: protocol.RoundAborted, Round: 2, Err: &protocol.TooFew{Round: 2, Stage: protocol.StageUnmask}})
	at(8, protocol.Event{Kind: protocol.RoundAborted, Round: 2, Err: &protocol.Unrecoverable{Round: 2}})
	at(8, protocol.Event{Kind: protocol.RoundAborted, Round: 2, Err: &protocol.Unproved{Round: 2}})
	now = opsNoon.Add(65 * time.Second)
	wantLines(t, get(), `fedsim_since_sum_seconds{role="aggregator"} 60`, `fedsim_session_running{role="aggregator"} 1`, `fedsim_ready{role="aggregator"} 1`,
		`fedsim_rounds_aborted_total{reason="too-few-unmask",role="aggregator"} 1`, `fedsim_rounds_aborted_total{reason="too-few-share",role="aggregator"} 0`,
		`fedsim_rounds_aborted_total{reason="unrecoverable",role="aggregator"} 1`, `fedsim_rounds_aborted_total{reason="unproved",role="aggregator"} 1`,
		`fedsim_sessions_declined_total{reason="budget",role="aggregator"} 1`, `fedsim_sessions_declined_total{reason="unable",role="aggregator"} 1`,
		`fedsim_round_duration_seconds_bucket{outcome="summed",role="aggregator",le="3"} 0`, `fedsim_round_duration_seconds_bucket{outcome="summed",role="aggregator",le="10"} 1`,
		`fedsim_round_duration_seconds_sum{outcome="summed",role="aggregator"} 4`, `fedsim_round_duration_seconds_sum{outcome="aborted",role="aggregator"} 6`,
		`fedsim_stage_duration_seconds_sum{role="aggregator",stage="masked-input"} 3`, `fedsim_stage_duration_seconds_sum{role="aggregator",stage="sum"} 1`,
		`fedsim_clients{role="aggregator",state="connected"} 5`, `fedsim_clients{role="aggregator",state="late"} 1`, `fedsim_clients{role="aggregator",state="excluded"} 1`,
		`fedsim_clients{role="aggregator",state="silent"} 1`, `fedsim_clients{role="aggregator",state="declining"} 1`)
	m.Event(protocol.Event{Kind: protocol.SessionEnded})
	wantLines(t, get(), `fedsim_since_sum_seconds{role="aggregator"} 0`, `fedsim_session_running{role="aggregator"} 0`)
}

// A client's page has the ε of its own account, and an aggregator's has none.
func TestMetricsOfEpsilon(t *testing.T) {
	m := ops.NewMonitor("client", time.Now)
	get := metricsOf(t, m)
	spent, left := 1.5, 8.5
	forget := m.Own(func() (*store.Account, error) {
		return &store.Account{Place: "client 3", Spent: &spent, Left: &left}, nil
	})
	m.Own(func() (*store.Account, error) { return &store.Account{Place: "client 4", Unaccounted: "behind"}, nil })
	for range 2 { // that cannot be read
		m.Own(func() (*store.Account, error) { return nil, errors.New("the disk fails") })
	}
	text := get()
	wantLines(t, text, `fedsim_epsilon_spent{place="client 3",role="client"} 1.5`, `fedsim_epsilon_left{place="client 3",role="client"} 8.5`,
		`fedsim_epsilon_unaccounted{place="client 3",role="client"} 0`, `fedsim_epsilon_unaccounted{place="client 4",role="client"} 1`)
	if strings.Contains(text, `fedsim_epsilon_spent{place="client 4"`) {
		t.Error("an epsilon that there is no account of")
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "fedsim_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	if forget(); strings.Contains(get(), "client 3") {
		t.Error("a client that is gone is shown")
	}
}

func wantLines(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no %q", line)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// metricsOf returns what reads the metrics of a monitor.
func metricsOf(t *testing.T, m *ops.Monitor) func() string {
	t.Helper()
	return func() string {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil)
		r.Host = "localhost"
		m.Handler().ServeHTTP(w, r)
		return w.Body.String()
	}
}
