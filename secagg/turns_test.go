package secagg_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// inTurns is a round that asks 12 of 30 clients and continues with 10.
func inTurns() *protocol.Plan {
	p := plan(12, exact("g", 3, 32))
	p.Cohort = protocol.Cohort{Clients: 12, Goal: 10, Enrolled: 30, Tolerance: 0.2, Colluders: 0.05}
	return p
}

// whose joins the clients whose turn it is, and says who they are, in the order of their numbers.
func whose(t *testing.T, p *protocol.Plan) ([]protocol.ClientID, map[protocol.ClientID]*secagg.Client) {
	t.Helper()
	ids := p.Setup().Chosen()
	slices.Sort(ids)
	clients := make(map[protocol.ClientID]*secagg.Client)
	for id := range protocol.ClientID(p.Cohort.Enrolled) {
		party, err := secagg.NewParty(secagg.PartyConfig{ID: id, Session: p.Session, Params: secagg.Params{Rounds: 1}, Entropy: simulated.New(1, string(rune('a'+id)))})
		if err != nil {
			t.Fatal(err)
		}
		c, err := join(party, p)
		if turn := slices.Contains(ids, id); (err == nil) != turn {
			t.Fatalf("it is the turn of client %d: %v; it joins: %v", id, turn, err)
		}
		if err == nil {
			clients[id] = c
		}
	}
	return ids, clients
}

// The aggregator hears only clients whose turn it is, and no more than the round continues with. A
// client takes no other roster.
func TestTurnsAreChecked(t *testing.T) {
	p := inTurns()
	ids, clients := whose(t, p)
	a, err := secagg.NewAggregator(p.Setup(), secagg.Params{Rounds: 1})
	if err != nil {
		t.Fatal(err)
	}
	var members []protocol.Member
	for i, id := range ids {
		m, err := clients[id].Advertise()
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, protocol.Member{Client: id, Keys: *m.Keys})
		if i == 0 {
			stranger := protocol.ClientID(0)
			for p.Setup().Chooses(stranger) {
				stranger++
			}
			if err = a.Receive(stranger, m); !errors.Is(err, secagg.ErrOrder) {
				t.Errorf("the keys of a client whose turn it is not: %v", err)
			}
		}
		if err = a.Receive(id, m); (err == nil) != (i < 10) {
			t.Errorf("the keys of client %d, the %dth: %v", id, i+1, err)
		}
	}
	for i, c := range []struct {
		name string
		list func() []protocol.Member
	}{
		{"one of all that were asked", func() []protocol.Member { return members }},
		{"one with a stranger", func() []protocol.Member {
			list := slices.Clone(members[:9])
			for id := list[8].Client + 1; ; id++ {
				if !p.Setup().Chooses(id) && int(id) < p.Cohort.Enrolled {
					return append(list, protocol.Member{Client: id, Keys: list[0].Keys})
				}
			}
		}},
	} {
		list := c.list()
		if _, err := clients[ids[i]].Share(&protocol.Roster{Round: p.Round, Clients: len(list), Members: list}, serial{}); !errors.Is(err, secagg.ErrMalformed) {
			t.Errorf("a roster, %s: %v", c.name, err)
		}
	}
	first := members[:10]
	if _, err := clients[ids[2]].Share(&protocol.Roster{Round: p.Round, Clients: 10, Members: first}, serial{}); err != nil {
		t.Errorf("the roster of the first: %v", err)
	}
}

// Active mode refuses turns, and says why.
func TestNoTurnsInActiveMode(t *testing.T) {
	p := inTurns()
	if err := (secagg.Params{Rounds: 1, Mode: secagg.Active}).Validate(p); !errors.Is(err, secagg.ErrChosen) {
		t.Errorf("the error is %v", err)
	}
}

// The graph is over the clients that the round continues with. All colluders among the asked
// clients may be among them.
func TestGraphOfTurns(t *testing.T) {
	p := inTurns()
	g := secagg.Params{Rounds: 1}.Graph(p.Setup())
	if g.Clients != 10 || g.Tolerance != 0.2 || g.Colluders*10 != float64(p.Cohort.Colluding()) {
		t.Errorf("the graph is for %+v, of %d that collude", g, p.Cohort.Colluding())
	}
}
