package secagg_test

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// federation is a real sum among clients, driven by hand.
type federation struct {
	agreements *secagg.Agreements // of all parties; nil where each computes its own
	t          testing.TB
	plan       *protocol.Plan
	params     secagg.Params
	identities []ed25519.PrivateKey
	parties    []*secagg.Party
	clients    []*secagg.Client
	aggregator *secagg.Aggregator
	inputs     [][]protocol.Integers
	removals   [][]protocol.Integers
	alive      []bool

	rosters    *protocol.Roster
	deliveries []*protocol.Delivery
	survivors  *protocol.Survivors
	quorum     *protocol.Quorum
	answered   *protocol.Answered
}

// releases are two vectors of different widths, neither a multiple of 8.
func releases() []protocol.Release { return []protocol.Release{exact("g", 9, 29), exact("h", 3, 45)} }

// newFederation is a federation whose parties compute what they have in common once. TestAgreements compares it with one of
// parties that compute everything.
func newFederation(t testing.TB, plan *protocol.Plan, params secagg.Params) *federation {
	t.Helper()
	return newFederationWith(t, plan, params, new(secagg.Agreements))
}

func newFederationWith(t testing.TB, plan *protocol.Plan, params secagg.Params, agreements *secagg.Agreements) *federation {
	t.Helper()
	n := plan.Cohort.Clients
	f := &federation{t: t, plan: plan, params: params, agreements: agreements, deliveries: make([]*protocol.Delivery, n),
		inputs: make([][]protocol.Integers, n), removals: make([][]protocol.Integers, n), alive: make([]bool, n)}
	f.params.Rounds = max(1, f.params.Rounds)
	if params.Mode == secagg.Active {
		f.identities, f.params.Identities = identities(t, n)
	}
	var err error
	if f.aggregator, err = secagg.NewAggregator(plan.Setup(), f.params); err != nil {
		t.Fatal(err)
	}
	if agreements != nil {
		f.aggregator.Use(agreements)
	}
	if err = f.aggregator.Begin(plan); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		f.alive[i] = true
		party := f.party(i, 0)
		c, err := join(party, plan)
		if err != nil {
			t.Fatal(err)
		}
		f.parties, f.clients = append(f.parties, party), append(f.clients, c)
		for k, r := range plan.Releases {
			v := protocol.Integers{Value: make([]int64, r.Len)}
			for j := range v.Value {
				v.Value[j] = int64((i+1)*(j+1)*(k+1)) - int64(100*j)
			}
			f.inputs[i] = append(f.inputs[i], v)
		}
	}
	return f
}

func identities(t testing.TB, n int) ([]ed25519.PrivateKey, []ed25519.PublicKey) {
	t.Helper()
	var private []ed25519.PrivateKey
	var public []ed25519.PublicKey
	for i := range n {
		seed := make([]byte, ed25519.SeedSize)
		if _, err := io.ReadFull(simulated.New(1, "identities").Stream("identity", uint64(i)), seed); err != nil {
			t.Fatal(err)
		}
		private = append(private, ed25519.NewKeyFromSeed(seed))
		public = append(public, private[i].Public().(ed25519.PublicKey))
	}
	return private, public
}

// party makes client i anew, as after a restart when the round last was recorded.
func (f *federation) party(i int, last uint64) *secagg.Party {
	f.t.Helper()
	cfg := secagg.PartyConfig{ID: protocol.ClientID(i), Session: f.plan.Session, Params: f.params, Last: last,
		Entropy: simulated.New(1, fmt.Sprint("client/", i)), Agreements: f.agreements}
	if f.identities != nil {
		cfg.Identity = f.identities[i]
	}
	p, err := secagg.NewParty(cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

// join sets up the round of a plan and begins it at once.
func join(p *secagg.Party, plan *protocol.Plan) (*secagg.Client, error) {
	c, err := p.Join(plan.Setup())
	if err == nil {
		err = c.Begin(plan)
	}
	return c, err
}

func (f *federation) lose(from, count int) {
	for i := from; i < from+count; i++ {
		f.alive[i] = false
	}
}

// answer has client i answer the stage.
func (f *federation) answer(stage protocol.Stage, i int) (protocol.Message, error) {
	c := f.clients[i]
	switch stage {
	case protocol.StageAdvertise:
		return c.Advertise()
	case protocol.StageShare:
		return c.Share(f.rosters, serial{})
	case protocol.StageMaskedInput:
		return c.MaskedInput(f.deliveries[i], f.inputs[i], serial{})
	case protocol.StageConsistency:
		return c.Confirm(f.survivors)
	case protocol.StageReplace:
		return c.Replace(f.answered)
	default:
		if err := c.Check(f.survivors, f.quorum, serial{}); err != nil {
			return nil, err
		}
		return c.Unmask(f.survivors, f.removals[i], serial{})
	}
}

// stages returns the stages of the federation's mode and plan.
func (f *federation) stages() []protocol.Stage {
	out := []protocol.Stage{protocol.StageAdvertise, protocol.StageShare, protocol.StageMaskedInput}
	if f.aggregator.Confirms() {
		out = append(out, protocol.StageConsistency)
	}
	out = append(out, protocol.StageUnmask)
	if f.replaces() {
		out = append(out, protocol.StageReplace)
	}
	return out
}

func (f *federation) replaces() bool {
	return slices.ContainsFunc(f.plan.Releases, func(r protocol.Release) bool { return r.Noise.Kind == protocol.TwoRound })
}

// last is the stage that ends the round.
func (f *federation) last() protocol.Stage {
	all := f.stages()
	return all[len(all)-1]
}

// stage has all clients that are alive answer, and opens the next stage.
func (f *federation) stage(stage protocol.Stage) error {
	f.t.Helper()
	for i, alive := range f.alive {
		if !alive {
			continue
		}
		m, err := f.answer(stage, i)
		if err != nil {
			f.t.Fatalf("client %d at %s: %v", i, stage, err)
		}
		if err = f.aggregator.Receive(protocol.ClientID(i), m.(protocol.StageMessage)); err != nil {
			f.t.Fatal(err)
		}
	}
	if err := f.aggregator.Close(stage); err != nil || stage == f.last() {
		return err
	}
	f.next(stage)
	return nil
}

// next hands out what opens the stage after a closed one.
func (f *federation) next(stage protocol.Stage) {
	if stage == f.last() {
		return
	}
	for i, alive := range f.alive {
		if !alive {
			continue
		}
		switch m := f.aggregator.Next(stage, protocol.ClientID(i)).(type) {
		case *protocol.Roster:
			f.rosters = m
		case *protocol.Delivery:
			f.deliveries[i] = m
		case *protocol.Survivors:
			f.survivors = m
		case *protocol.Quorum:
			f.quorum = m
		case *protocol.Answered:
			f.answered = m
		}
	}
}

// choice is the graph's of a full roster.
func (f *federation) choice() secagg.GraphChoice {
	f.t.Helper()
	c, err := f.params.Graph(f.plan.Setup()).Choose()
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// through runs the stages up to and with the last without losing a client.
func (f *federation) through(last protocol.Stage) {
	f.t.Helper()
	for _, s := range f.stages() {
		if s > last {
			return
		}
		if err := f.stage(s); err != nil {
			f.t.Fatal(err)
		}
	}
}

// fork is a copy of the federation as it stands, which goes its own way from here on. It has no parties, which could join other rounds.
func (f *federation) fork(t testing.TB) *federation {
	g := *f
	g.t, g.parties, g.aggregator, g.clients = t, nil, f.aggregator.Fork(), lists.Map(f.clients, (*secagg.Client).Fork)
	g.alive, g.inputs, g.removals = slices.Clone(f.alive), lists.Map(f.inputs, slices.Clone), lists.Map(f.removals, slices.Clone)
	g.deliveries = lists.Map(f.deliveries, func(m *protocol.Delivery) *protocol.Delivery {
		if m == nil {
			return nil
		}
		d := *m
		d.Shares = slices.Clone(m.Shares)
		return &d
	})
	return &g
}

// sum adds up the inputs of clients, plainly.
func (f *federation) sum(in func(i int) bool) [][]int64 {
	return f.sumOf(in, func(int) bool { return false })
}

// sumOf adds up the inputs of some clients and what the noise of some changes by.
func (f *federation) sumOf(in, changed func(i int) bool) [][]int64 {
	out := make([][]int64, len(f.plan.Releases))
	for k, r := range f.plan.Releases {
		out[k] = make([]int64, r.Len)
		add := func(v []protocol.Integers) {
			if k < len(v) {
				for j, x := range v[k].Value {
					out[k][j] += x
				}
			}
		}
		for i := range f.inputs {
			if in(i) {
				add(f.inputs[i])
			}
			if changed(i) {
				add(f.removals[i])
			}
		}
	}
	return out
}

// replacing is a plan of two releases, of the second of which noise is replaced.
func replacing(c protocol.Cohort) *protocol.Plan {
	p := plan(c.Clients, releases()...)
	p.Cohort = c
	p.Releases[1].Noise = protocol.Noise{Kind: protocol.TwoRound, Variance: 10}
	return p
}

// change gives every client something for its noise to change by, where it does.
func (f *federation) change() {
	for i := range f.removals {
		f.removals[i] = make([]protocol.Integers, len(f.plan.Releases))
		for k, r := range f.plan.Releases {
			if r.Noise.Kind != protocol.TwoRound {
				continue
			}
			f.removals[i][k].Value = make([]int64, r.Len)
			for j := range f.removals[i][k].Value {
				f.removals[i][k].Value[j] = int64(1000*(i+1)*(j+1)) - int64(7000*i*i)
			}
		}
	}
}

func culprit(t *testing.T, err error, want protocol.Party, rule error) {
	t.Helper()
	var f *secagg.Fault
	if !errors.As(err, &f) || !errors.Is(err, rule) || f.Culprit != want {
		t.Errorf("the error is %v; want %v, and %s named", err, rule, want)
	}
}

var theAggregator = protocol.Party{Role: protocol.Aggregator}

// Example: 20 clients add up vectors, and 4 are lost on the way, one at a stage.
func Example() {
	plan := &protocol.Plan{Round: 1, Cohort: protocol.Cohort{Clients: 20, Tolerance: 0.2, Colluders: 0.1},
		Releases: []protocol.Release{{Name: "votes", Len: 3, L2: 10, MaxNonZero: 3, Scale: 1, Width: 16}}}
	params := secagg.Params{Rounds: 1}
	aggregator, err := secagg.NewAggregator(plan.Setup(), params)
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	check(err)
	check(aggregator.Begin(plan))
	clients := make([]*secagg.Client, 20)
	inbox := make([]protocol.Message, 20) // what the aggregator last sent to each
	for i := range clients {
		var party *secagg.Party
		party, err = secagg.NewParty(secagg.PartyConfig{ID: protocol.ClientID(i), Params: params, Entropy: entropy.System()})
		check(err)
		clients[i], err = party.Join(plan.Setup())
		check(err)
		check(clients[i].Begin(plan))
	}
	for lost, stage := range []protocol.Stage{protocol.StageAdvertise, protocol.StageShare, protocol.StageMaskedInput, protocol.StageUnmask} {
		for i := lost + 1; i < len(clients); i++ { // client 0 is lost at the first stage, 1 at the second, ...
			var m protocol.Message
			switch in := inbox[i].(type) {
			case nil:
				m, err = clients[i].Advertise()
			case *protocol.Roster:
				m, err = clients[i].Share(in, serial{})
			case *protocol.Delivery:
				m, err = clients[i].MaskedInput(in, []protocol.Integers{{Value: []int64{1, int64(i), -1}}}, serial{})
			case *protocol.Survivors:
				check(clients[i].Check(in, nil, serial{}))
				m, err = clients[i].Unmask(in, nil, serial{})
			}
			check(err)
			check(aggregator.Receive(protocol.ClientID(i), m.(protocol.StageMessage)))
		}
		check(aggregator.Close(stage))
		for i := lost + 1; i < len(clients) && stage != protocol.StageUnmask; i++ {
			inbox[i] = aggregator.Next(stage, protocol.ClientID(i))
		}
	}
	fmt.Println(aggregator.Sum(serial{})) // over clients 3 to 19
	// Output: [[17 187 -17]] <nil>
}
