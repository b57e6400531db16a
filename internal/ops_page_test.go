package internal_test

import (
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fedsim/fedsim/internal/node/ops"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// The page shows the rounds and the clients that are late or out. It loads nothing from elsewhere
// and runs no script. A peer's words are shown as text.
func TestPage(t *testing.T) {
	now := opsNoon
	m := ops.NewMonitor("aggregator", func() time.Time { return now })
	m.Session(protocol.SessionID{1})
	m.Event(protocol.Event{Kind: protocol.RoundOpened, Round: 1})
	now = now.Add(1250 * time.Millisecond)
	m.Event(protocol.Event{Kind: protocol.StageClosed, Round: 1, Stage: protocol.StageAdvertise})
	now = now.Add(250 * time.Millisecond)
	m.Event(protocol.Event{Kind: protocol.StageClosed, Round: 1, Stage: protocol.StageShare})
	m.Event(protocol.Event{Kind: protocol.ClientAccused, Round: 1, Party: protocol.ClientParty(5), By: protocol.ClientParty(6)})
	m.Event(protocol.Event{Kind: protocol.ClientLost, Round: 1, Party: protocol.ClientParty(3), Stage: protocol.StageShare})
	m.Event(protocol.Event{Kind: protocol.RoundSummed, Round: 1})
	m.Event(protocol.Event{Kind: protocol.ClientExcluded, Round: 1, Party: protocol.ClientParty(4), Err: errors.New("<script>it lied</script>")})
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
	for _, want := range []string{"<td>1</td><td>1.50</td><td class=\"stages\">advertise 1.25, share 0.25, sum 0.00</td><td>1</td><td>summed</td>",
		"<td>client 5</td><td>0</td><td>1</td><td>round 1</td>", "<td>client 6</td><td>1</td><td>0</td><td>round 1</td>", "<td>client 3</td><td>1</td><td>share, round 1</td>", "&lt;script&gt;it lied"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	for _, never := range []string{"<script", "http://", "https://", "src=", "url("} {
		if strings.Contains(text, never) {
			t.Errorf("there is %s in\n%s", never, text)
		}
	}
	if cache := r.Header.Get("Cache-Control"); cache != "no-store" {
		t.Errorf("the link Refresh may show an old page: Cache-Control is %q", cache)
	}
	if csp := r.Header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") {
		t.Errorf("the policy is %q", csp)
	}
	d := xml.NewDecoder(strings.NewReader(text)) // each element except meta is closed
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for err == nil {
		_, err = d.Token()
	}
	if !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// A new session shows no rounds of the last session, and the lists are bounded.
func TestPageForgets(t *testing.T) {
	m, _ := serveMonitor(t, "aggregator")
	m.Session(protocol.SessionID{1})
	for i := range uint64(60) {
		m.Event(protocol.Event{Kind: protocol.RoundOpened, Round: i + 1})
		m.Event(protocol.Event{Kind: protocol.RoundAborted, Round: i + 1, Err: errors.New("too few")})
	}
	s := m.Status()
	if n := len(s.Rounds); n != 50 || s.Rounds[0].Round != 11 || s.Rounds[n-1].Outcome != "too few" {
		t.Errorf("%d rounds: %+v", n, s.Rounds)
	}
	m.Session(protocol.SessionID{2})
	if s = m.Status(); len(s.Rounds) != 0 || len(s.Absent) != 0 {
		t.Errorf("of the session before: %+v", s)
	}
}

// A client's page tells its owner what was consented to, what that has cost and what is left, at
// the moment of the view. It also names the clients that the client complains of. An aggregator's
// page has none of this.
func TestPageOfAnOwner(t *testing.T) {
	m, get := serveMonitor(t, "client")
	text := func(path string) string {
		_, page := get(path)
		return page
	}
	m.Session(protocol.SessionID{1})
	spent, left := 1.2341, 8.7659
	account := &store.Account{Place: "client 7", Spent: &spent, Left: &left, Delta: 1e-5, Sessions: []store.SessionAccount{{
		Consent: store.Consent{Session: "ab", Algorithm: "als", Mode: "active", Clients: 20, Rounds: 12, At: opsNoon}, Charged: 3, Spent: &spent}}}
	later := m.Own(func() (*store.Account, error) { return &store.Account{Place: "client 10"}, nil }) // which enrolled first
	asked := 0
	forget := m.Own(func() (*store.Account, error) { asked++; return account, nil })
	failing := m.Own(func() (*store.Account, error) { return nil, errors.New("<b>the disk fails</b>") })
	m.Event(protocol.Event{Kind: protocol.ClientAccused, Round: 2, Party: protocol.ClientParty(4), By: protocol.ClientParty(7)})
	page := text("/")
	if strings.Index(page, "<caption>client 7<") > strings.Index(page, "<caption>client 10<") {
		t.Error("clients do not stand in the order of their numbers")
	}
	later()
	for _, want := range []string{"<caption>client 7</caption>", "<td>ab, als</td>", "mode active, 20 clients", "<td>3 of 12</td>", "<td>1.24</td>",
		"epsilon 1.24 at delta 1e-05; left of --max-epsilon: 8.76", "&lt;b&gt;the disk fails", "<td>client 7</td><td>1</td><td>0</td><td>round 2</td>"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in\n%s", want, page)
		}
	}
	for _, path := range []string{"/readyz", "/healthz"} {
		before := asked
		get(path)
		if asked != before {
			t.Errorf("%s reckons up accounts", path)
		}
	}
	if s := m.Status(); len(s.Accounts) != 2 || s.Accounts[1].Sessions[0].Charged != 3 {
		t.Errorf("the status is %+v", s)
	}
	forget()
	failing()
	if page = text("/"); strings.Contains(page, "client 7</caption>") || strings.Contains(page, "the disk fails") {
		t.Errorf("a client that is gone is in\n%s", page)
	}
	for range 25 {
		m.Own(func() (*store.Account, error) { return account, nil })
	}
	if page = text("/"); strings.Count(page, "client 7</caption>") != 20 || !strings.Contains(page, "And 5 more clients") {
		t.Errorf("of 25 clients are shown\n%s", page)
	}
}
