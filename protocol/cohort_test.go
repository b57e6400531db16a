package protocol_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/fedsim/fedsim/internal/effort" // spares processor time
	"github.com/fedsim/fedsim/protocol"
)

func turns(asked, goal, enrolled int) protocol.Cohort {
	return protocol.Cohort{Clients: asked, Goal: goal, Enrolled: enrolled, Tolerance: 0.3, Colluders: 0.05}
}

// The script testdata/turns.py computes which clients a round asks, and in what order.
func TestChosen(t *testing.T) {
	text, err := os.ReadFile("testdata/turns.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		Session           string
		Round             uint64
		Clients, Enrolled int
		Chosen            []protocol.ClientID
	}
	if err = json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		t.Fatal("nothing is in the file")
	}
	for _, c := range list {
		b, err := hex.DecodeString(c.Session)
		if err != nil {
			t.Fatal(err)
		}
		s := protocol.Setup{Session: protocol.SessionID(b), Round: c.Round, Cohort: turns(c.Clients, c.Clients, c.Enrolled)}
		if got := s.Chosen(); !slices.Equal(got, c.Chosen) {
			t.Errorf("round %d of session %s asks %v, want %v", c.Round, c.Session, got, c.Chosen)
		}
		for id := range protocol.ClientID(c.Enrolled + 2) {
			if got, want := s.Chooses(id), slices.Contains(c.Chosen, id); got != want {
				t.Errorf("round %d of session %s asks client %d: %v, want %v", c.Round, c.Session, id, got, want)
			}
		}
	}
}

// All enrolled clients are asked in every round where no part is.
func TestChosenOfAll(t *testing.T) {
	s := protocol.Setup{Round: 3, Cohort: protocol.Cohort{Clients: 3}}
	if got := s.Chosen(); !slices.Equal(got, []protocol.ClientID{0, 1, 2}) || !s.Chooses(2) || s.Chooses(3) {
		t.Errorf("of 3 clients %v are asked, client 2: %v, client 3: %v", got, s.Chooses(2), s.Chooses(3))
	}
}

// Over any rounds in a row no client is asked more often than Turns says. Turns is exact: for some
// rounds of that number a client is asked as often. The test counts by going through the rounds.
func TestTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		enrolled := rapid.IntRange(1, 40).Draw(t, "enrolled")
		asked := rapid.IntRange(1, enrolled).Draw(t, "asked")
		n := rapid.IntRange(0, 60).Draw(t, "rounds")
		c := turns(asked, asked, enrolled)
		most := 0
		for from := range uint64(enrolled) {
			count := make([]int, enrolled)
			for i := range uint64(n) {
				for _, id := range (protocol.Setup{Round: 1 + from + i, Cohort: c}).Chosen() {
					count[id]++
				}
			}
			most = max(most, slices.Max(count))
			if least := slices.Min(count); slices.Max(count)-least > 1 {
				t.Fatalf("one is asked %d times and another %d", slices.Max(count), least)
			}
		}
		if got := c.Turns(n); got != most {
			t.Fatalf("%d of %d clients, %d rounds: %d turns, want %d", asked, enrolled, n, got, most)
		}
	})
}

// As many colluders as are reckoned with are exceeded with a chance of at most 2^-60, and there are never fewer than the expected
// number; the tail of the hypergeometric distribution is summed exactly.
func TestColluding(t *testing.T) {
	for _, c := range []struct {
		enrolled, asked int
		share           float64
	}{{600, 240, 0.05}, {6040, 1200, 0.05}, {6040, 480, 0.1}, {10_000, 1200, 0.05}, {10_000, 600, 0.3}, {1000, 999, 0.01}, {300, 20, 0}} {
		cohort := protocol.Cohort{Clients: c.asked, Goal: c.asked, Enrolled: c.enrolled, Colluders: c.share}
		marked := int(math.Ceil(c.share*float64(c.enrolled) - 1e-9))
		most := cohort.Colluding()
		if float64(most) < float64(marked)*float64(c.asked)/float64(c.enrolled) || most > marked {
			t.Errorf("%+v: %d may collude, of %d among all", c, most, marked)
		}
		binomial := func(n, k int) *big.Int { return new(big.Int).Binomial(int64(n), int64(k)) }
		sum := new(big.Int)
		for k := most + 1; k <= min(marked, c.asked); k++ {
			if c.asked-k <= c.enrolled-marked {
				sum.Add(sum, new(big.Int).Mul(binomial(marked, k), binomial(c.enrolled-marked, c.asked-k)))
			}
		}
		limit := new(big.Rat).SetFrac(big.NewInt(1), new(big.Int).Lsh(big.NewInt(1), 60))
		if tail := new(big.Rat).SetFrac(sum, binomial(c.enrolled, c.asked)); tail.Cmp(limit) > 0 {
			f, _ := tail.Float64()
			t.Errorf("%+v: more than %d collude with a chance of %g", c, most, f)
		}
	}
}

// The clients that may be lost are a share of the clients that the round continues with, the
// colluders a share of all.
func TestTurnsCohort(t *testing.T) {
	c := turns(240, 200, 600)
	if c.All() != 600 || c.Wanted() != 200 || c.Required() != 140 || c.Colluding() != 30 || c.Honest(140) != 110 {
		t.Errorf("all %d, wanted %d, required %d, colluding %d, honest %d of 140; want 600, 200, 140, 30, 110", c.All(), c.Wanted(), c.Required(), c.Colluding(), c.Honest(140))
	}
	for want, c := range map[string]protocol.Cohort{
		"11 clients of 10 that are enrolled are asked": turns(11, 5, 10),
		"6 clients of 5 that are asked are waited for": turns(5, 6, 10),
		"0 clients of 5 that are asked are waited for": turns(5, 0, 10),
		"5 clients of 0 that are enrolled are asked":   {Clients: 5, Goal: 5},
		"no honest one is certain to remain":           {Clients: 20, Goal: 10, Enrolled: 1000, Tolerance: 0.5, Colluders: 0.2},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want one that says %q", c, err, want)
		}
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

// A plan of clients that take turns is another than one of as many clients, and so is one with another goal.
func TestTurnsAreHashed(t *testing.T) {
	seen := make(map[protocol.Hash]string)
	for _, c := range []protocol.Cohort{{Clients: 10}, turns(10, 10, 20), turns(10, 9, 20), turns(10, 10, 21)} {
		p := protocol.Plan{Round: 1, Cohort: c}
		h := protocol.Hash(p.Hash())
		if other, ok := seen[h]; ok {
			t.Errorf("%+v hashes as %s", c, other)
		}
		seen[h] = fmt.Sprint(c)
	}
}

// Shares are as on paper, also of a cohort that asks more clients than it waits for. 29 of 100 may be lost, though 0.29·100 is
// below 29 in binary. And 7 of 100 may collude, though 0.07·100 is above 7.
func TestSharesAreAsOnPaper(t *testing.T) {
	for name, c := range map[string]protocol.Cohort{
		"all are waited for": {Clients: 100, Tolerance: 0.29, Colluders: 0.07},
		"more are asked":     {Clients: 130, Goal: 100, Enrolled: 130, Tolerance: 0.29, Colluders: 0.1},
	} {
		if got := c.Required(); got != 71 {
			t.Errorf("%s: %d are required, want 71", name, got)
		}
	}
	if got := (protocol.Cohort{Clients: 100, Colluders: 0.07}).Colluding(); got != 7 {
		t.Errorf("%d of 100 may collude, want 7", got)
	}
}

// A description may have any numbers. A refused description is refused at once: the colluders of such a cohort may take years to count.
func TestRefusedCohortIsNotCounted(t *testing.T) {
	c := protocol.Cohort{Clients: 20, Enrolled: -1, Colluders: 1e15}
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "of -1 that are enrolled") {
		t.Error(err)
	}
}
