package ops_test

import (
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fedsim/fedsim/node/ops"
	"github.com/fedsim/fedsim/protocol"
)

// The page tells of rounds and of who is late or out, asks for nothing from elsewhere and runs
// nothing. What a peer says is shown as text.
func TestPage(t *testing.T) {
	now := noon
	m := ops.NewMonitor("aggregator", func() time.Time { return now })
	m.Session(protocol.SessionID{1})
	m.Event(protocol.Event{Kind: protocol.IterationOpened, Iteration: 1})
	now = now.Add(1500 * time.Millisecond)
	m.Event(protocol.Event{Kind: protocol.ClientLost, Iteration: 1, Party: protocol.ClientParty(3), Stage: protocol.StageShare})
	m.Event(protocol.Event{Kind: protocol.IterationSummed, Iteration: 1})
	m.Event(protocol.Event{Kind: protocol.ClientExcluded, Iteration: 1, Party: protocol.ClientParty(4), Err: errors.New("<script>it lied</script>")})
	s := httptest.NewServer(m.Handler())
	defer s.Close()
	r, err := http.Get(s.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close() //nolint:errcheck // only read
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%d, %v", r.StatusCode, err)
	}
	text := string(b)
	for _, want := range []string{"<td>1</td><td>1.50</td><td>1</td><td>summed</td>", "<td>client 3</td><td>1</td><td>share, round 1</td>", "&lt;script&gt;it lied"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	for _, never := range []string{"<script", "http://", "https://", "src=", "url("} {
		if strings.Contains(text, never) {
			t.Errorf("there is %s in\n%s", never, text)
		}
	}
	if csp := r.Header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") {
		t.Errorf("the policy is %q", csp)
	}
	d := xml.NewDecoder(strings.NewReader(text)) // each element is closed, but for meta
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for err == nil {
		_, err = d.Token()
	}
	if !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// A session that begins anew is shown without those of the last one, and what is shown has an end.
func TestPageForgets(t *testing.T) {
	m, _ := serve(t, "aggregator")
	m.Session(protocol.SessionID{1})
	for i := range uint64(60) {
		m.Event(protocol.Event{Kind: protocol.IterationOpened, Iteration: i + 1})
		m.Event(protocol.Event{Kind: protocol.IterationAborted, Iteration: i + 1, Err: errors.New("too few")})
	}
	s := m.Status()
	if n := len(s.Rounds); n != 50 || s.Rounds[0].Iteration != 11 || s.Rounds[n-1].Outcome != "too few" {
		t.Errorf("%d rounds: %+v", n, s.Rounds)
	}
	m.Session(protocol.SessionID{2})
	if s = m.Status(); len(s.Rounds) != 0 || len(s.Absent) != 0 {
		t.Errorf("of the session before: %+v", s)
	}
}
