package ops

import (
	"cmp"
	_ "embed"
	"errors"
	"html/template"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/fedsim/fedsim/internal/locked"
	"github.com/fedsim/fedsim/internal/version"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// metrics holds the counters and histograms that Prometheus reads.
type metrics struct {
	registry *prometheus.Registry
	named    *prometheus.Registry // metrics with the names of parties
	events   *prometheus.CounterVec
	aborted  *prometheus.CounterVec
	declined *prometheus.CounterVec
	rounds   *prometheus.HistogramVec
	stages   *prometheus.HistogramVec
}

// durations are the bounds of durations in seconds: a round takes from a moment to an hour.
var durations = []float64{0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3600}

// The labels of metrics of which each value is there from the start. A rate misses the first one otherwise.
var (
	abortReasons   = []string{"unrecoverable", "unproved", "other"} // beside too-few and a stage
	declineReasons = []string{"terms", "budget", "unit", "unable"}
)

func newMetrics(labels prometheus.Labels) *metrics {
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, ConstLabels: labels, Help: help}, []string{label})
	}
	histogram := func(name, help, label string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, ConstLabels: labels, Help: help, Buckets: durations}, []string{label})
	}
	x := &metrics{
		registry: prometheus.NewRegistry(), named: prometheus.NewRegistry(),
		events:   counter("fedsim_events_total", "Events that the roles reported, by kind.", "kind"),
		aborted:  counter("fedsim_rounds_aborted_total", "Rounds that ended without a sum, by reason: too few clients after a stage, a secret that cannot be restored, or other.", "reason"),
		declined: counter("fedsim_sessions_declined_total", "Answers of clients that take no part in a session, by kind of reason.", "reason"),
		rounds:   histogram("fedsim_round_duration_seconds", "Duration of rounds, by whether they ended in a sum.", "outcome"),
		stages:   histogram("fedsim_stage_duration_seconds", "Duration of the stages of rounds, and of computing sums.", "stage"),
	}
	for kind := range protocol.SessionEnded + 1 {
		x.events.WithLabelValues(kind.String())
	}
	for stage := range protocol.Stages {
		x.aborted.WithLabelValues("too-few-" + stage.String())
		x.stages.WithLabelValues(stage.String())
	}
	x.stages.WithLabelValues("sum")
	for _, outcome := range []string{"summed", "aborted"} {
		x.rounds.WithLabelValues(outcome)
	}
	for _, reason := range abortReasons {
		x.aborted.WithLabelValues(reason)
	}
	for _, reason := range declineReasons {
		x.declined.WithLabelValues(reason)
	}
	x.registry.MustRegister(x.events, x.aborted, x.declined, x.rounds, x.stages,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return x
}

// gauges registers what is read from the status when Prometheus asks.
func (m *Monitor) gauges(labels prometheus.Labels) {
	gauge := func(name, help string, value func() float64) {
		m.metrics.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, ConstLabels: labels, Help: help}, value))
	}
	asked := func(name, help string, value func(Status) float64) {
		gauge(name, help, func() float64 { return value(m.doing()) })
	}
	known := func(name, help string, value func() float64) {
		gauge(name, help, func() float64 { return locked.Get(&m.mu, value) })
	}
	known("fedsim_connected", "Clients that are registered with the aggregator; in other roles, clients of this process.",
		func() float64 { return float64(m.status.Connected) })
	known("fedsim_round", "The latest round that was reported of; 0 before the first.", func() float64 { return float64(m.status.Round) })
	asked("fedsim_ready", "1 if the process can do its work, as /readyz says.", func(s Status) float64 { return number(s.Ready) })
	known("fedsim_session_running", "1 while there is a session that has not ended.", func() float64 { return number(m.course.running) })
	known("fedsim_since_sum_seconds", "Seconds since the latest sum of the session that runs, or since its beginning; 0 without one.", func() float64 {
		if !m.course.running {
			return 0
		}
		return m.now().Sub(m.course.summed).Seconds()
	})
	asked("fedsim_places", "Places of clients in the federation, of an aggregator.", func(s Status) float64 { return float64(s.Places) })
	asked("fedsim_enrolled", "Clients that are enrolled, of an aggregator.", func(s Status) float64 { return float64(s.Enrolled) })
	known("fedsim_waiting", "1 while the process waits for clients or for a connection.", func() float64 { return number(m.waits != "") })
	known("fedsim_clock_ahead_seconds", "How far the machine's clock is ahead of the aggregator's, to half a minute; negative: behind.", func() float64 { return m.ahead.Seconds() })
	known("fedsim_config_reload_successful", "1 if the operator's files could be read when they were read last, at the start or on SIGHUP.", func() float64 { return number(m.reload) })
	m.metrics.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "fedsim_build_info", Help: "1; the labels say the version of the program.",
		ConstLabels: prometheus.Labels{"role": labels["role"], "version": version.Get().String(), "goversion": runtime.Version()}}, func() float64 { return 1 }))
	desc := func(name, help, label string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{label}, labels)
	}
	clients := desc("fedsim_clients", "Clients of the session in the aggregator's eyes, by state.", "state")
	m.metrics.registry.MustRegister(described(func(set func(*prometheus.Desc, float64, string)) {
		for state, n := range locked.Get(&m.mu, m.clientStates) {
			set(clients, float64(n), state)
		}
	}))
	spent := desc("fedsim_epsilon_spent", "Epsilon that the sessions of this process's own client have cost together.", "place")
	left := desc("fedsim_epsilon_left", "Epsilon that is left to this process's own client, by its owner's limit.", "place")
	unaccounted := desc("fedsim_epsilon_unaccounted", "1 if there is no account of what this process's own client has spent.", "place")
	m.metrics.named.MustRegister(described(func(set func(*prometheus.Desc, float64, string)) {
		seen := map[string]bool{"": true} // an account that cannot be read has no place
		for _, a := range m.Status().Accounts {
			if seen[a.Place] {
				continue
			}
			seen[a.Place] = true
			set(unaccounted, number(a.Unaccounted != ""), a.Place)
			if a.Spent != nil {
				set(spent, *a.Spent, a.Place)
			}
			if a.Left != nil {
				set(left, *a.Left, a.Place)
			}
		}
	}))
}

// described is a collector of gauges with a label, which are read when Prometheus asks.
func described(read func(set func(d *prometheus.Desc, v float64, label string))) prometheus.Collector {
	return prometheus.CollectorFunc(func(out chan<- prometheus.Metric) {
		read(func(d *prometheus.Desc, v float64, label string) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, label)
		})
	})
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// clientStates counts the clients of an aggregator's or a relay's session by state; of other roles there are none. The caller holds mu.
func (m *Monitor) clientStates() map[string]int {
	if !faces(m.status.Role) {
		return nil
	}
	late, excluded := 0, 0
	for _, a := range m.status.Absent {
		switch {
		case a.Out != "":
			excluded++
		case a.Round == m.status.Round && a.Round > 0:
			late++
		}
	}
	return map[string]int{"connected": m.status.Connected, "late": late, "excluded": excluded, "silent": len(m.course.silent), "declining": len(m.course.declining)}
}

// count books an event, and the durations that it ends also in the status. The caller holds the monitor's mu.
func (x *metrics) count(s *Status, e protocol.Event, now time.Time) {
	x.events.WithLabelValues(e.Kind.String()).Inc()
	r := s.round(e.Round)
	switch e.Kind {
	case protocol.StageClosed:
		x.stage(r, now, e.Stage.String())
	case protocol.RoundSummed:
		x.stage(r, now, "sum")
		x.round(r, now, "summed", nil)
	case protocol.RoundAborted:
		x.aborted.WithLabelValues(abortReason(e.Err)).Inc()
		x.round(r, now, "aborted", e.Err)
	case protocol.SessionDeclined:
		x.declined.WithLabelValues(declineReason(e.Err)).Inc()
	default: // it has no duration and no reason
	}
}

// stage books the end of a part of a round; nil: the monitor has not seen its beginning.
func (x *metrics) stage(r *Round, now time.Time, name string) {
	if r != nil {
		took := now.Sub(cmp.Or(r.closed, r.Began)).Seconds()
		x.stages.WithLabelValues(name).Observe(took)
		r.Stages, r.closed = append(r.Stages, StageTime{name, took}), now
	}
}

// round books the end of a round. There may be a reason for it.
func (x *metrics) round(r *Round, now time.Time, outcome string, why error) {
	if r == nil {
		return
	}
	if r.ends(now, outcome); why != nil {
		r.Outcome = why.Error()
	}
	x.rounds.WithLabelValues(outcome).Observe(r.Seconds)
}

func abortReason(err error) string {
	if e, ok := errors.AsType[*protocol.TooFew](err); ok && e.Stage < protocol.Stages {
		return "too-few-" + e.Stage.String()
	}
	if _, ok := errors.AsType[*protocol.Unrecoverable](err); ok {
		return "unrecoverable"
	}
	if _, ok := errors.AsType[*protocol.Unproved](err); ok {
		return "unproved"
	}
	return "other"
}

// declineReason is the kind of a reason, without what the client could afford.
func declineReason(err error) string {
	if err != nil {
		if kind, _, _ := strings.Cut(err.Error(), ","); slices.Contains(declineReasons, kind) {
			return kind
		}
	}
	return "unable"
}

//go:embed page.html
var pageText string

// page shows Status in a browser: without a script, with nothing from elsewhere, light or dark as the browser
// asks. It does not load itself again, which would take readers away from their place. A link does so.
var page = template.Must(template.New("page").Funcs(template.FuncMap{"roundedUp": store.RoundedUp}).Parse(pageText))

func (m *Monitor) show(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	w.Header().Set("Cache-Control", "no-store") // the link Refresh shows what is there now
	_ = page.Execute(w, struct {
		Status
		Now string
	}{m.Status(), m.now().UTC().Format("2006-01-02 15:04:05 UTC")}) // who has gone does not see it
}

// Round is the course of a round, as the aggregator saw it.
type Round struct {
	Round uint64    `json:"round"`
	Began time.Time `json:"began"`
	// Seconds is the duration; 0 while the round is under way.
	Seconds float64 `json:"seconds"`
	Outcome string  `json:"outcome"` // "under way", "summed", or why there was no sum
	Lost    int     `json:"lost"`    // clients that did not answer a stage in time
	// Stages holds the stages that have ended, in order, and last the computation of the sum.
	Stages []StageTime `json:"stages,omitempty"`

	closed time.Time // when the latest of them ended; zero before
}

// StageTime is the duration of a stage, from the end of the previous stage.
type StageTime struct {
	Stage   string  `json:"stage"` // "sum" for the computation of the sum
	Seconds float64 `json:"seconds"`
}

// Complaints counts a client's complaints about shares that were dealt to it, and other clients' complaints about shares that it dealt.
type Complaints struct {
	Party   string `json:"party"`
	By      int    `json:"by"`      // of others, how often
	Against int    `json:"against"` // by others, how often
	Round   uint64 `json:"round"`
}

// Absence is a client that was missing, or is out.
type Absence struct {
	Party string `json:"party"`
	// Late counts the stages that it did not answer in time, the latest of which was Stage of Round.
	Late  int    `json:"late"`
	Stage string `json:"stage,omitempty"`
	Round uint64 `json:"round"`
	Out   string `json:"out,omitempty"` // why it takes no part any more; "": it may
}

// maxRounds and maxAbsences limit the rounds and the clients that are shown, the latest first.
const (
	maxRounds   = 50
	maxAbsences = 1000
)

// course describes a session as a whole.
type course struct {
	running   bool                    // there is a session, and it has not ended
	summed    time.Time               // the latest sum of the session, or its beginning
	silent    map[protocol.Party]bool // clients that were reported silent in the session
	declining map[protocol.Party]bool // clients that declined the session
}

// follow books an event. The caller holds the monitor's mu.
func (c *course) follow(e protocol.Event, now time.Time) {
	if c.silent == nil {
		return // there was no session
	}
	switch e.Kind {
	case protocol.RoundSummed:
		c.summed = now
	case protocol.SessionEnded:
		c.running = false
	case protocol.ClientSilent:
		c.silent[e.Party] = true
	case protocol.SessionDeclined:
		c.declining[e.Party] = true
	default: // about a round
	}
}

// remember adds an event to what is shown of a session. The caller holds mu.
func (s *Status) remember(e protocol.Event, now time.Time) {
	switch e.Kind {
	case protocol.RoundOpened:
		s.Rounds = append(s.Rounds, Round{Round: e.Round, Began: now, Outcome: "under way"})
		if n := len(s.Rounds); n > maxRounds {
			s.Rounds = slices.Clone(s.Rounds[n-maxRounds:])
		}
	case protocol.RoundHeld: // if it was opened before
		if r := s.round(e.Round); r != nil && e.Err != nil {
			r.ends(now, e.Err.Error())
		}
	case protocol.ClientLost:
		if r := s.round(e.Round); r != nil {
			r.Lost++
		}
		if a := s.absence(e.Party); a != nil {
			a.Late++
			a.Stage, a.Round = e.Stage.String(), e.Round
		}
	case protocol.ClientExcluded:
		if a := s.absence(e.Party); a != nil {
			a.Out, a.Round = "excluded", e.Round
			if e.Err != nil {
				a.Out = e.Err.Error()
			}
		}
	default: // not about a client's absence, or counted
	}
}

func (r *Round) ends(now time.Time, outcome string) {
	r.Seconds, r.Outcome = now.Sub(r.Began).Seconds(), outcome
}

func (s *Status) round(round uint64) *Round {
	for i := range slices.Backward(s.Rounds) { // a round that begins anew is there twice
		if s.Rounds[i].Round == round {
			return &s.Rounds[i]
		}
	}
	return nil
}

// entry returns the entry of a party in a list. It makes one if there is room, and otherwise returns nil.
func entry[T any](list *[]T, p protocol.Party, fresh func(name string) T, of func(*T) string) *T {
	name := p.String()
	for i := range *list {
		if of(&(*list)[i]) == name {
			return &(*list)[i]
		}
	}
	if len(*list) == maxAbsences {
		return nil
	}
	*list = append(*list, fresh(name))
	return &(*list)[len(*list)-1]
}

func (s *Status) absence(p protocol.Party) *Absence {
	return entry(&s.Absent, p, func(name string) Absence { return Absence{Party: name} }, func(a *Absence) string { return a.Party })
}

func (s *Status) complaints(p protocol.Party, round uint64) *Complaints {
	c := entry(&s.Complaints, p, func(name string) Complaints { return Complaints{Party: name} }, func(c *Complaints) string { return c.Party })
	if c != nil {
		c.Round = round
	}
	return c
}
