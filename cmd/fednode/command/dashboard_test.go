package command

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/fedsim/fedsim/internal/node/ops"
	"github.com/fedsim/fedsim/node/store"
)

var (
	metricName = regexp.MustCompile(`\b(?:fedsim|process|go)_[a-z_]+`)
	label      = regexp.MustCompile(`\b[a-z]+="[^"]*"`)
	eventKind  = regexp.MustCompile(`kind="([^"]*)"`)
)

// shownMetrics are the metrics of an aggregator and of a client with an account.
func shownMetrics() string {
	var text strings.Builder
	for _, role := range []string{"aggregator", "client"} {
		m, epsilon := ops.NewMonitor(role, time.Now), 1.
		m.Disk(".")
		if role == "client" {
			m.Own(func() (*store.Account, error) {
				return &store.Account{Place: "client 0", Spent: &epsilon, Left: &epsilon}, nil
			})
		}
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil)
		r.Host = "localhost"
		m.Handler().ServeHTTP(w, r)
		text.WriteString("\n" + w.Body.String())
	}
	return text.String()
}

// Every alert asks for metrics, kinds of events and states that a process shows.
func TestAlertsAskForWhatThereIs(t *testing.T) {
	text, err := os.ReadFile(deploy + "/prometheus-rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For string
				Labels           struct{ Severity string }
				Annotations      struct{ Summary string }
			}
		}
	}
	if err = yaml.UnmarshalWithOptions(text, &rules, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	shown, queries := shownMetrics(), 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" || r.Annotations.Summary == "" || r.Labels.Severity == "" {
				t.Errorf("%+v: no name, or nothing to say", r)
			}
			for _, name := range metricName.FindAllString(r.Expr, -1) {
				queries++
				if !strings.Contains(shown, "# HELP "+name+" ") {
					t.Errorf("%s: there is no metric %s", r.Alert, name)
				}
			}
			for _, label := range label.FindAllString(r.Expr, -1) {
				if !strings.Contains(shown, label) && !strings.HasPrefix(label, "role=") && label != `job="fedsim"` {
					t.Errorf("%s: there is no %s", r.Alert, label)
				}
			}
		}
	}
	if queries < 8 {
		t.Errorf("%d metrics are asked for; the test reads the rules wrongly", queries)
	}
}

// Each alert fires when what it is for has happened, by Prometheus' own tool, where that is installed.
func TestAlertsFire(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed (Debian's package prometheus has it)")
	}
	if out, failed := exec.Command(promtool, "test", "rules", deploy+"/prometheus-rules.test.yaml").CombinedOutput(); failed != nil {
		t.Errorf("%v\n%s", failed, out)
	}
}

// Every query of the dashboard names metrics, and kinds of events, that a process shows.
func TestDashboardShowsWhatThereIs(t *testing.T) {
	text, err := os.ReadFile(deploy + "/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct{ List []struct{ Query string } }
	}
	if err = json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	shown, queries := shownMetrics(), 0
	check := func(where, query string) {
		for _, name := range metricName.FindAllString(query, -1) {
			queries++
			if !strings.Contains(shown, "# HELP "+strings.TrimSuffix(name, "_bucket")+" ") {
				t.Errorf("%s: there is no metric %s", where, name)
			}
		}
		for _, kind := range eventKind.FindAllStringSubmatch(query, -1) {
			if !strings.Contains(shown, `kind="`+kind[1]+`"`) {
				t.Errorf("%s: there is no event %s", where, kind[1])
			}
		}
	}
	for _, p := range board.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("%s: no query", p.Title)
		}
		for _, q := range p.Targets {
			check(p.Title, q.Expr)
		}
	}
	for _, v := range board.Templating.List {
		check("a variable", v.Query)
	}
	if queries < 8 {
		t.Errorf("%d metrics are asked for; the test reads the dashboard wrongly", queries)
	}
}
