package command

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fedsim/fedsim/node/ops"
)

var (
	metricName = regexp.MustCompile(`\b(?:fedsim|process|go)_[a-z_]+`)
	eventKind  = regexp.MustCompile(`kind="([^"]*)"`)
)

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
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Host = "localhost"
	ops.NewMonitor("aggregator", time.Now).Handler().ServeHTTP(w, r)
	shown, queries := w.Body.String(), 0
	check := func(where, query string) {
		for _, name := range metricName.FindAllString(query, -1) {
			queries++
			if !strings.Contains(shown, "\n"+name+"{") && !strings.Contains(shown, "\n"+name+" ") {
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
