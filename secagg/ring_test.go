package secagg_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// crowd is a federation that is large enough for clients to be shown parts of the roster.
type crowd struct {
	t          testing.TB
	plan       *protocol.Plan
	params     secagg.Params
	aggregator *secagg.Aggregator
	clients    []*secagg.Client
	inputs     [][]protocol.Integers
	lost       []protocol.Stage // the stage from which on a client is silent
	inbox      []protocol.Message
}

const crowdSize = secagg.WholeUpTo + 20

func newCrowd(t testing.TB, kind protocol.NoiseKind) *crowd {
	t.Helper()
	return newCrowdWith(t, kind, 0.1, 0.02, 0, crowdSize)
}

// came counts the clients of a thin crowd that advertise: on its ring each has 20 neighbours.
const came = 100

// newThinCrowd is a crowd of whom most do not advertise.
func newThinCrowd(t testing.TB, kind protocol.NoiseKind) *crowd {
	t.Helper()
	return newCrowdWith(t, kind, 0.85, 0.002, 0, came)
}

// newCrowdWith is a crowd of whom only the clients from one to before another advertise.
func newCrowdWith(t testing.TB, kind protocol.NoiseKind, tolerance, colluders float64, from, to int) *crowd {
	t.Helper()
	p := plan(crowdSize, exact("g", 5, 32), exact("h", 3, 45))
	p.Cohort.Tolerance, p.Cohort.Colluders = tolerance, colluders
	if kind != protocol.NoNoise {
		p.Releases[1].Noise = protocol.Noise{Kind: kind, Variance: 1e4}
	}
	c := &crowd{t: t, plan: p, params: secagg.Params{Rounds: 1}, inbox: make([]protocol.Message, crowdSize), lost: make([]protocol.Stage, crowdSize),
		clients: make([]*secagg.Client, crowdSize), inputs: make([][]protocol.Integers, crowdSize)}
	var err error
	if c.aggregator, err = secagg.NewAggregator(p.Setup(), c.params); err == nil {
		err = c.aggregator.Begin(p)
	}
	agreements := new(secagg.Agreements)
	for i := from; i < to; i++ {
		c.lost[i] = protocol.Stages
		party, e := secagg.NewParty(secagg.PartyConfig{ID: protocol.ClientID(i), Session: p.Session, Params: c.params,
			Entropy: simulated.New(1, fmt.Sprint("client/", i)), Agreements: agreements})
		if e != nil {
			t.Fatal(e)
		}
		c.clients[i], e = join(party, p)
		err = errors.Join(err, e)
		for _, r := range p.Releases {
			v := protocol.Integers{Value: make([]int64, r.Len)}
			for j := range v.Value {
				v.Value[j] = int64(i*(j+1)) - 1000
			}
			c.inputs[i] = append(c.inputs[i], v)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *crowd) answer(i int) (protocol.Message, error) { return c.answerOf(c.clients[i], i) }

// answerOf has a client answer what client i was told.
func (c *crowd) answerOf(client *secagg.Client, i int) (protocol.Message, error) {
	zeros := make([]protocol.Integers, len(c.plan.Releases))
	for k, r := range c.plan.Releases {
		zeros[k].Value = make([]int64, r.Len)
	}
	switch in := c.inbox[i].(type) {
	case nil:
		return client.Advertise()
	case *protocol.Roster:
		return client.Share(in, serial{})
	case *protocol.Delivery:
		return client.MaskedInput(in, c.inputs[i], serial{})
	case *protocol.Survivors:
		if err := client.Check(in, nil, serial{}); err != nil {
			return nil, err
		}
		return client.Unmask(in, zeros, serial{})
	default:
		return client.Replace(in.(*protocol.Answered))
	}
}

// stage has every remaining client answer, and the aggregator tell them what follows.
func (c *crowd) stage(s protocol.Stage) {
	c.t.Helper()
	for i := range c.clients {
		if c.lost[i] <= s {
			continue
		}
		m, err := c.answer(i)
		if err == nil {
			err = c.aggregator.Receive(protocol.ClientID(i), m.(protocol.StageMessage))
		}
		if err != nil {
			c.t.Fatalf("client %d at %s: %v", i, s, err)
		}
	}
	if err := c.aggregator.Close(s); err != nil {
		c.t.Fatal(err)
	}
	for i := range c.clients {
		if c.lost[i] > s && s != protocol.StageReplace && (s != protocol.StageUnmask || c.plan.Setup().Replaces) {
			c.inbox[i] = c.aggregator.Next(s, protocol.ClientID(i))
		}
	}
}

func (c *crowd) stages() []protocol.Stage {
	out := []protocol.Stage{protocol.StageAdvertise, protocol.StageShare, protocol.StageMaskedInput, protocol.StageUnmask}
	if c.plan.Setup().Replaces {
		out = append(out, protocol.StageReplace)
	}
	return out
}

// The sum is over exactly the clients that delivered a masked input, whichever client is lost at
// whichever stage. No client got more than its part of the roster. The size of that part does not
// follow from the number of clients.
func TestCrowd(t *testing.T) {
	for _, kind := range []protocol.NoiseKind{protocol.Split, protocol.TwoRound} {
		c := newThinCrowd(t, kind)
		if kind == protocol.TwoRound && !testing.Short() {
			c = newCrowd(t, kind)
		}
		arrived := 0
		for i := range c.clients {
			if k := i % 60; k < len(c.stages()) {
				c.lost[i] = min(c.lost[i], c.stages()[k])
			}
			if c.lost[i] > protocol.StageAdvertise {
				arrived++
			}
		}
		for _, s := range c.stages() {
			c.stage(s)
			if s == protocol.StageAdvertise {
				c.sizes(arrived)
			}
		}
		c.sum()
	}
}

// sum compares the sum with that over who delivered a masked input.
func (c *crowd) sum() {
	c.t.Helper()
	got, err := c.aggregator.Sum(serial{})
	if err != nil {
		c.t.Fatal(err)
	}
	want := [][]int64{make([]int64, 5), make([]int64, 3)}
	for i, in := range c.inputs {
		for k := range want {
			if c.lost[i] > protocol.StageMaskedInput {
				in[k].AddTo(want[k])
			}
		}
	}
	if !slices.EqualFunc(got, want, slices.Equal) {
		c.t.Errorf("the sum is %v, want %v", got, want)
	}
}

// So few of a large federation may arrive that all clients are neighbours, an even number or an odd
// number of them. The part of each is then the whole ring.
func TestCrowdOfWhomFewCame(t *testing.T) {
	for _, few := range []int{19, 20} {
		t.Run(fmt.Sprint(few), func(t *testing.T) {
			c := newCrowdWith(t, protocol.TwoRound, 0.97, 0.026, crowdSize-few, crowdSize) // 16 are required, and 14 may collude
			c.lost[crowdSize-1], c.lost[crowdSize-2], c.lost[crowdSize-5] = protocol.StageShare, protocol.StageMaskedInput, protocol.StageUnmask
			for _, s := range c.stages() {
				c.stage(s)
				if m, ok := c.inbox[crowdSize-3].(*protocol.Roster); ok && (m.Clients != few || len(m.Members) != few || m.Ring == nil) {
					t.Fatalf("a client is shown %d of %d clients, ring %v", len(m.Members), m.Clients, m.Ring)
				}
			}
			c.sum()
		})
	}
}

func (c *crowd) sizes(arrived int) {
	c.t.Helper()
	cost, err := c.params.Cost(c.plan)
	if err != nil {
		c.t.Fatal(err)
	}
	choice, err := c.params.Graph(c.plan.Setup()).ForRoster(arrived)
	if err != nil {
		c.t.Fatal(err)
	}
	for i, m := range c.inbox {
		r, ok := m.(*protocol.Roster)
		if !ok {
			continue
		}
		if len(r.Members) != choice.Degree+1 || r.Clients != arrived || protocol.Size(r) > cost.Bytes[protocol.KindRoster] {
			c.t.Fatalf("client %d is shown %d of %d clients in %d bytes; %d are stated, of %d neighbours",
				i, len(r.Members), r.Clients, protocol.Size(r), cost.Bytes[protocol.KindRoster], choice.Degree)
		}
	}
}

// A part of a roster that is none is refused.
func TestPartsAreChecked(t *testing.T) {
	c := newCrowd(t, protocol.NoNoise)
	c.stage(protocol.StageAdvertise)
	good := c.inbox[7].(*protocol.Roster)
	other := c.inbox[8].(*protocol.Roster)
	for name, change := range map[string]func(*protocol.Roster){
		"the whole roster":             func(m *protocol.Roster) { m.Ring = nil; m.Clients = len(m.Members) },
		"the part of another":          func(m *protocol.Roster) { *m = *other },
		"a neighbour less":             func(m *protocol.Roster) { m.Members = m.Members[1:] },
		"a client twice":               func(m *protocol.Roster) { m.Members[1] = m.Members[0] },
		"an impossible client":         func(m *protocol.Roster) { m.Members[len(m.Members)-1].Client = crowdSize },
		"a position beyond the ring":   func(m *protocol.Roster) { m.Ring.Start = m.Clients },
		"fewer clients than there are": func(m *protocol.Roster) { m.Clients = 100 },
		"more than may be":             func(m *protocol.Roster) { m.Clients = crowdSize + 1 },
		"no proof":                     func(m *protocol.Roster) { m.Ring.Proof = nil },
		"a longer proof":               func(m *protocol.Roster) { m.Ring.Proof = append(m.Ring.Proof, protocol.Hash{}) },
		"another key of its own": func(m *protocol.Roster) {
			for i := range m.Members {
				if m.Members[i].Client == 7 {
					m.Members[i].Keys.Mask[0] ^= 1
				}
			}
		},
	} {
		bad := *good
		ring := *good.Ring
		bad.Ring, bad.Members, ring.Proof = &ring, slices.Clone(good.Members), slices.Clone(ring.Proof)
		change(&bad)
		if _, err := c.clients[7].Fork().Share(&bad, serial{}); err == nil {
			t.Errorf("%s is taken", name)
		} else if _, ok := errors.AsType[*secagg.Fault](err); !ok {
			t.Errorf("%s: %v names nobody", name, err)
		}
	}
	if _, err := c.clients[7].Fork().Share(good, serial{}); err != nil {
		t.Error(err)
	}
}

// Masks are bound to the whole roster and to all clients whose shares arrived, though a client is
// shown a part. If one client is told anything else, about clients that it knows or about the
// others, nothing cancels.
func TestCrowdsAreBound(t *testing.T) {
	c := newThinCrowd(t, protocol.NoNoise)
	c.stage(protocol.StageAdvertise)
	before, part := c.clients[7].Fork(), c.inbox[7].(*protocol.Roster)
	c.stage(protocol.StageShare)
	delivery := *c.inbox[7].(*protocol.Delivery)
	masked := func(from *secagg.Client, d *protocol.Delivery) []byte {
		t.Helper()
		m, err := from.Fork().MaskedInput(d, c.inputs[7], serial{})
		if err != nil {
			t.Fatal(err)
		}
		return m.Masked[0]
	}
	honest := masked(c.clients[7], &delivery)
	d := delivery
	digest := *d.Digest
	digest[0] ^= 1
	d.Digest = &digest
	if slices.Equal(masked(c.clients[7], &d), honest) {
		t.Error("masks do not depend on who else delivered shares")
	}
	d = delivery
	d.Clients--
	if slices.Equal(masked(c.clients[7], &d), honest) {
		t.Error("masks do not depend on how many are said to have delivered shares")
	}
	// With the same neighbours on another ring, nothing that they deal opens.
	for name, change := range map[string]func(*protocol.Ring){
		"another hash of all keys": func(r *protocol.Ring) { r.Keys[0] ^= 1 },
		"another position":         func(r *protocol.Ring) { r.Start = (r.Start + 1) % came },
		"another proof":            func(r *protocol.Ring) { r.Proof[0][5] ^= 1 },
	} {
		m := *part
		ring := *m.Ring
		ring.Proof = slices.Clone(ring.Proof)
		m.Ring = &ring
		change(&ring)
		client := before.Fork()
		if _, err := client.Share(&m, serial{}); err != nil {
			continue // by chance it cannot be the client's part at all
		}
		if _, err := client.MaskedInput(&delivery, c.inputs[7], serial{}); !errors.Is(err, secagg.ErrShare) {
			t.Errorf("%s: what neighbours on the true ring deal: %v", name, err)
		}
	}
}

// Of survivors that the client does not know there can be no more than there were before: where
// fewer of its neighbours are left, the weight, which sets the noise, must be less as well.
func TestCrowdLosesWhomItMisses(t *testing.T) {
	effort.NotShort(t, "sums of many clients")
	c := newThinCrowd(t, protocol.TwoRound)
	c.stage(protocol.StageAdvertise)
	known := func(id protocol.ClientID) bool {
		return slices.ContainsFunc(c.inbox[7].(*protocol.Roster).Members, func(m protocol.Member) bool { return m.Client == id })
	}
	for i := range came { // the first whom client 7 does not know
		if !known(protocol.ClientID(i)) {
			c.lost[i] = protocol.StageShare
			break
		}
	}
	c.stage(protocol.StageShare)
	c.stage(protocol.StageMaskedInput)
	without := func(set protocol.Bitmap) protocol.Bitmap { // a neighbour of client 7
		out := protocol.NewBitmap(8 * len(set))
		skip := true
		for i := range 8 * len(set) {
			if set.Has(i) && (!skip || c.clients[7].Knows(i) == 7) {
				out.Set(i)
			} else if set.Has(i) {
				skip = false
			}
		}
		return out
	}
	u1 := c.inbox[7].(*protocol.Survivors)
	bad := *u1
	bad.U1 = without(u1.U1)
	if err := c.clients[7].Fork().Check(&bad, nil, serial{}); !errors.Is(err, secagg.ErrSurvivors) {
		t.Errorf("%d survivors of as many who delivered shares, though a neighbour is lost: %v", bad.Count, err)
	}
	bad.Count--
	if err := c.clients[7].Fork().Check(&bad, nil, serial{}); err != nil {
		t.Errorf("one survivor less, a neighbour: %v", err)
	}
	c.stage(protocol.StageUnmask)
	u2 := *c.inbox[7].(*protocol.Answered)
	u2.U2 = without(u2.U2)
	if _, err := c.clients[7].Fork().Replace(&u2); !errors.Is(err, secagg.ErrSurvivors) {
		t.Errorf("%d answers of as many survivors, though a neighbour is lost: %v", u2.Count, err)
	}
}

// Survivors are locked together with the numbers and hashes that the client is told about the
// clients that it does not know.
func TestCrowdSurvivorsAreLocked(t *testing.T) {
	effort.NotShort(t, "sums of many clients")
	c := newThinCrowd(t, protocol.NoNoise)
	for _, s := range c.stages()[:3] {
		c.stage(s)
	}
	good := c.inbox[7].(*protocol.Survivors)
	for name, change := range map[string]func(*protocol.Survivors){
		"without a hash":       func(m *protocol.Survivors) { m.Digest = nil },
		"too few":              func(m *protocol.Survivors) { m.Count = came / 2 },
		"more than arrived":    func(m *protocol.Survivors) { m.Count++ },
		"fewer than are known": func(m *protocol.Survivors) { m.Count = 3 },
		"a longer set":         func(m *protocol.Survivors) { m.U1 = append(slices.Clone(m.U1), 0) },
		"without the client":   func(m *protocol.Survivors) { m.U1 = protocol.NewBitmap(8 * len(m.U1)) },
	} {
		bad := *good
		change(&bad)
		if err := c.clients[7].Fork().Check(&bad, nil, serial{}); err == nil {
			t.Errorf("%s: survivors are taken", name)
		}
	}
	client := c.clients[7].Fork()
	if err := client.Check(good, nil, serial{}); err != nil {
		t.Fatal(err)
	}
	other := *good
	digest := *other.Digest
	digest[31] ^= 1
	other.Digest = &digest
	if err := client.Check(&other, nil, serial{}); !errors.Is(err, secagg.ErrLocked) {
		t.Errorf("survivors with another hash: %v", err)
	}
	if err := client.Check(good, nil, serial{}); err != nil {
		t.Errorf("the same survivors again: %v", err)
	}
}
