package lab_test

import (
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/fedsim/fedsim/internal/node/ops"
	"github.com/fedsim/fedsim/node/store"
	"github.com/fedsim/fedsim/protocol"
)

// checkPage fails unless a page has a language, a viewport, one main landmark, headings in order and a name for each
// scrolling part. It also fails if the page loads itself again, if a table cannot scroll, or if a text has too little
// contrast, in the light or in the dark.
func checkPage(t *testing.T, page string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	counts, level := make(map[string]int), 0
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		counts[n.Data]++
		switch {
		case n.Data == "html" && attribute(n, "lang") == "":
			t.Error("the page names no language")
		case n.Data == "meta" && strings.EqualFold(attribute(n, "http-equiv"), "refresh"):
			t.Error("the page loads itself again and takes readers from their place")
		case n.Data == "meta" && attribute(n, "name") == "viewport":
			counts["viewport"]++
		case len(n.Data) == 2 && n.Data[0] == 'h' && n.Data[1] >= '1' && n.Data[1] <= '6':
			if at := int(n.Data[1] - '0'); at > level+1 {
				t.Errorf("a heading of level %d follows level %d", at, level)
			} else {
				level = at
			}
		case n.Data == "table" && !scrolls(n):
			t.Errorf("a table can neither scroll nor break its words")
		case attribute(n, "tabindex") == "0" && n.Data == "div" && attribute(n, "aria-label") == "":
			t.Errorf("a scrolling part has no name")
		case n.Data == "th" && attribute(n, "scope") == "":
			t.Error("a head of a table has no scope")
		}
	}
	for name, want := range map[string]int{"main": 1, "h1": 1, "title": 1, "viewport": 1} {
		if counts[name] < want || name != "title" && counts[name] > want {
			t.Errorf("the page has %d of %s, want %d", counts[name], name, want)
		}
	}
	contrasts(t, page)
}

// scrolls reports whether a table is in a scrolling part, or breaks its words.
func scrolls(table *html.Node) bool {
	return attribute(table.Parent, "class") == "scroll" || attribute(table, "class") == "now"
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

var variables = regexp.MustCompile(`--(back|panel|text|soft|link): (#[0-9a-fA-F]{6})`)

// contrasts checks the colours of each scheme that the style sets: texts have a contrast of at least 4.5 to 1 with what is
// behind them (WCAG 2.1, success criterion 1.4.3).
func contrasts(t *testing.T, page string) {
	t.Helper()
	schemes := strings.Split(page, ":root {")[1:]
	if len(schemes) < 3 {
		t.Errorf("%d schemes of colours, want light, dark and print", len(schemes))
	}
	colours := make(map[string]string)
	for _, scheme := range schemes {
		rule, _, _ := strings.Cut(scheme, "}")
		for _, m := range variables.FindAllStringSubmatch(rule, -1) {
			colours[m[1]] = m[2]
		}
		for _, text := range []string{"text", "soft", "link"} {
			for _, back := range []string{"back", "panel"} {
				if colours[back] == "" {
					continue
				}
				if c := contrast(colours[text], colours[back]); c < 4.5 && (text != "link" || !strings.Contains(rule, "#000000")) {
					t.Errorf("%s %s on %s %s has a contrast of %.2f, want at least 4.5", text, colours[text], back, colours[back], c)
				}
			}
		}
	}
}

// contrast returns the ratio of contrast of two colours, "#rrggbb", from 1 to 21 (WCAG 2.1).
func contrast(a, b string) float64 {
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// luminance returns the relative luminance of a colour, from 0 to 1 (WCAG 2.1).
func luminance(colour string) float64 {
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		v, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
		if err != nil {
			return math.NaN()
		}
		c := float64(v) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

// Black on white is 21 by definition. #777777 on white is 4.48, as the understanding of WCAG's 1.4.3 gives it.
func TestContrast(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want float64
	}{{"#000000", "#ffffff", 21}, {"#ffffff", "#ffffff", 1}, {"#777777", "#ffffff", 4.48}} {
		if got := contrast(c.a, c.b); math.Abs(got-c.want) > 0.005 {
			t.Errorf("%s on %s: %.3f, want %v", c.a, c.b, got, c.want)
		}
	}
}

// noon is when the processes of the test run.
var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// People who do not see well read the page of a process, too: an aggregator's with rounds and clients that are late or out, and a client's with what
// its owner consented to.
func TestPageOfAProcessForEverybody(t *testing.T) {
	hub := ops.NewMonitor("aggregator", func() time.Time { return noon })
	own := ops.NewMonitor("client", func() time.Time { return noon })
	for _, m := range []*ops.Monitor{hub, own} {
		m.Session(protocol.SessionID{1})
		m.Event(protocol.Event{Kind: protocol.RoundOpened, Round: 1})
		m.Event(protocol.Event{Kind: protocol.StageClosed, Round: 1, Stage: protocol.StageAdvertise})
		m.Event(protocol.Event{Kind: protocol.ClientAccused, Round: 1, Party: protocol.ClientParty(5), By: protocol.ClientParty(6)})
		m.Event(protocol.Event{Kind: protocol.ClientLost, Round: 1, Party: protocol.ClientParty(3), Stage: protocol.StageShare})
		m.Event(protocol.Event{Kind: protocol.RoundSummed, Round: 1})
		m.Event(protocol.Event{Kind: protocol.ClientExcluded, Round: 1, Party: protocol.ClientParty(4), Err: errors.New("it lied")})
	}
	spent, left := 1.2341, 8.7659
	own.Own(func() (*store.Account, error) {
		return &store.Account{Place: "client 7", Spent: &spent, Left: &left, Delta: 1e-5, Sessions: []store.SessionAccount{{
			Consent: store.Consent{Session: "ab", Algorithm: "als", Mode: "active", Clients: 20, Rounds: 12, At: noon}, Charged: 3, Spent: &spent}}}, nil
	})
	own.Own(func() (*store.Account, error) { return nil, errors.New("the disk fails") })
	for _, m := range []*ops.Monitor{hub, own} {
		answer := httptest.NewRecorder()
		request := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/", nil)
		m.Handler().ServeHTTP(answer, request)
		page := answer.Body.String()
		if answer.Code != http.StatusOK || !strings.Contains(page, "client 4") {
			t.Fatalf("%d\n%s", answer.Code, page)
		}
		if m == own && !strings.Contains(page, "<caption>client 7</caption>") {
			t.Errorf("no account in\n%s", page)
		}
		checkPage(t, page)
	}
}
