package secagg_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// Attacks with plans: the aggregator tells clients different things, or one thing
// twice.

// A client that was sent another model, or a plan that says less noise, shares no
// masks with the others: what is opened of a sum with it in is noise.
func TestDifferentPlans(t *testing.T) {
	for name, change := range map[string]func(*protocol.Plan){
		"model": func(p *protocol.Plan) { p.Broadcast = []byte("another") },
		"bound": func(p *protocol.Plan) { p.Releases = slices.Clone(p.Releases); p.Releases[0].L2 = 100 },
	} {
		f := withAnotherPlan(t, secagg.SemiHonest, change)
		for _, s := range f.stages() {
			if err := f.stage(s); err != nil {
				t.Fatal(err)
			}
		}
		got, err := f.aggregator.Sum(serial{})
		if err != nil {
			t.Fatal(err)
		}
		for who, in := range map[string]func(int) bool{
			"all": func(int) bool { return true }, "the others": func(i int) bool { return i != 0 }, "the client": func(i int) bool { return i == 0 },
		} {
			if want := f.sum(in); cmp.Equal(want[0], got[0]) || cmp.Equal(want[1], got[1]) {
				t.Errorf("%s: the sum over %s is %v", name, who, got)
			}
		}
	}
}

// withAnotherPlan has client 0 begin with a plan of its own.
func withAnotherPlan(t *testing.T, mode secagg.Mode, change func(*protocol.Plan)) *federation {
	t.Helper()
	f := small(t, mode)
	other := *f.plan
	change(&other)
	c, err := join(f.party(0, 0), &other)
	if err != nil {
		t.Fatal(err)
	}
	f.clients[0] = c
	return f
}

// A client that was told of another cohort, so of another threshold or share of
// the noise, does not get so far: its shares do not open, nor others' for it.
func TestDifferentCohorts(t *testing.T) {
	p := plan(9, releases()...) // the complete graph of the dropout matrix
	p.Cohort = protocol.Cohort{Clients: 9, Tolerance: 0.5, Colluders: 0.2}
	f := newFederation(t, p, secagg.Params{})
	other := *p
	other.Cohort.Tolerance = 0.45
	c, err := join(f.party(0, 0), &other)
	if err != nil {
		t.Fatal(err)
	}
	f.clients[0] = c
	f.through(protocol.StageShare)
	_, err = f.answer(protocol.StageMaskedInput, 1)
	culprit(t, err, protocol.ClientParty(0), secagg.ErrShare)
	if _, err = f.answer(protocol.StageMaskedInput, 0); !errors.Is(err, secagg.ErrShare) {
		t.Errorf("the client with another cohort goes on: %v", err)
	}
}

// In active mode clients find out before they reveal anything: a signature over
// survivors is one for the plan, so neither side's counts for the other.
func TestDifferentPlansInActiveMode(t *testing.T) {
	f := withAnotherPlan(t, secagg.Active, func(p *protocol.Plan) { p.Broadcast = []byte("another") })
	f.through(protocol.StageMaskedInput)
	q := &protocol.Quorum{Round: 1}
	for i, c := range f.clients {
		m, err := c.Confirm(f.survivors)
		if err != nil {
			t.Fatal(err)
		}
		err = f.aggregator.Receive(protocol.ClientID(i), m)
		if i == 0 {
			culprit(t, err, protocol.ClientParty(0), secagg.ErrSignature)
		} else if err != nil {
			t.Fatal(err)
		}
		q.Signatures = append(q.Signatures, protocol.Signed{Client: protocol.ClientID(i), Signature: m.Signature})
	}
	culprit(t, f.clients[0].Check(f.survivors, q, serial{}), theAggregator, secagg.ErrQuorum)
}

// An advertisement is signed for its round, session and cohort.
func TestSignatureOfAnotherSetup(t *testing.T) {
	for name, change := range map[string]func(*protocol.Plan){
		"round":     func(p *protocol.Plan) { p.Round++ },
		"tolerance": func(p *protocol.Plan) { p.Cohort.Tolerance /= 2 },
		"colluders": func(p *protocol.Plan) { p.Cohort.Colluders /= 2 },
	} {
		f := withAnotherPlan(t, secagg.Active, change)
		r := &protocol.Roster{Round: 1, Clients: attacked}
		for i := range f.clients {
			m, err := f.clients[i].Advertise()
			if err != nil {
				t.Fatal(err)
			}
			if m.Round = 1; i == 0 {
				culprit(t, f.aggregator.Receive(0, m), protocol.ClientParty(0), secagg.ErrSignature)
			}
			r.Members = append(r.Members, protocol.Member{Client: protocol.ClientID(i), Keys: *m.Keys})
		}
		for i := range 2 { // one client was told of another setup, and one was not
			if _, err := f.clients[i].Share(r, serial{}); !errors.Is(err, secagg.ErrSignature) {
				t.Errorf("%s: client %d goes on: %v", name, i, err)
			}
		}
	}
}

// A setup can be begun anew, with other secrets. But a client accepts one plan of a round, whatever
// was set up for it, and only a plan that the setup was for.
func TestSecondPlan(t *testing.T) {
	f := small(t, secagg.SemiHonest)
	p := f.party(0, 0)
	first, err := p.Join(f.plan.Setup())
	if err != nil {
		t.Fatal(err)
	}
	again, err := p.Join(f.plan.Setup())
	if err != nil {
		t.Fatal(err)
	}
	one, err := first.Advertise()
	if err != nil {
		t.Fatal(err)
	}
	two, err := again.Advertise()
	if err != nil {
		t.Fatal(err)
	}
	if one.Keys.Mask == two.Keys.Mask {
		t.Error("two setups of a round have the same mask key")
	}
	other := *f.plan
	other.Cohort.Tolerance /= 2
	if err = again.Begin(&other); !errors.Is(err, secagg.ErrPlan) {
		t.Errorf("a plan for another cohort: %v", err)
	}
	if _, err = again.MaskedInput(&protocol.Delivery{}, nil, serial{}); !errors.Is(err, secagg.ErrOrder) {
		t.Errorf("a masked input without a plan: %v", err)
	}
	if err = again.Begin(f.plan); err != nil {
		t.Fatal(err)
	}
	if err = again.Begin(f.plan); !errors.Is(err, secagg.ErrPlan) {
		t.Errorf("a second plan: %v", err)
	}
	if err = first.Begin(f.plan); !errors.Is(err, secagg.ErrRound) {
		t.Errorf("the plan for the other setup too: %v", err)
	}
	if _, err = p.Join(f.plan.Setup()); !errors.Is(err, secagg.ErrRound) {
		t.Errorf("a setup of a round that was begun: %v", err)
	}
}
