package secagg_test

import (
	"slices"
	"testing"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
	"github.com/fedsim/fedsim/secagg/graph"
)

func culprits(a *secagg.Aggregator) []protocol.ClientID {
	var out []protocol.ClientID
	for _, c := range a.Culprits() {
		out = append(out, c.Client)
	}
	return out
}

// lyingDealers is a federation of 10 clients in active mode after they dealt. The clients in lie
// deal as their functions say.
func lyingDealers(t *testing.T, lie map[int]func(*secagg.Client, *protocol.Shares) error) *federation {
	t.Helper()
	f := small(t, graph.Active)
	f.through(protocol.StageAdvertise)
	for i, c := range f.clients {
		m, err := f.answer(protocol.StageShare, i)
		if err == nil && lie[i] != nil {
			err = lie[i](c, m.(*protocol.Shares))
		}
		if err == nil {
			err = f.aggregator.Receive(protocol.ClientID(i), m.(protocol.StageMessage))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := f.aggregator.Close(protocol.StageShare); err != nil {
		t.Fatal(err)
	}
	f.next(protocol.StageShare)
	return f
}

// A failed sum names every dealer of shares of another secret than it published, and no other
// client. Two dealt a seed that does not have the published hash. One dealt a mask key that it did
// not advertise, which its loss brings to light.
func TestCulpritsOfASum(t *testing.T) {
	flipped := func(_ *secagg.Client, m *protocol.Shares) error { m.SeedHash[5] ^= 4; return nil }
	// The mask key's share stands behind the seed's 32 bytes, in little endian. Its lowest bit,
	// flipped in every share, gives another polynomial than the dealt polynomial.
	otherKey := func(c *secagg.Client, m *protocol.Shares) error {
		for i := range m.Shares {
			flip := make([]byte, 64)
			flip[32] = 1
			if err := c.Redeal(i, &m.Shares[i], flip, true); err != nil {
				return err
			}
		}
		return nil
	}
	for name, c := range map[string]struct {
		lie  map[int]func(*secagg.Client, *protocol.Shares) error
		lost []int
		want []protocol.ClientID
	}{
		"two seeds":          {lie: map[int]func(*secagg.Client, *protocol.Shares) error{2: flipped, 6: flipped}, want: []protocol.ClientID{2, 6}},
		"a seed and a key":   {lie: map[int]func(*secagg.Client, *protocol.Shares) error{2: flipped, 6: otherKey}, lost: []int{6}, want: []protocol.ClientID{2, 6}},
		"a key nobody needs": {lie: map[int]func(*secagg.Client, *protocol.Shares) error{6: otherKey}},
		"nobody":             {lost: []int{3}},
	} {
		f := lyingDealers(t, c.lie)
		for _, i := range c.lost {
			f.lose(i, 1)
		}
		for _, s := range []protocol.Stage{protocol.StageMaskedInput, protocol.StageConsistency, protocol.StageUnmask} {
			if err := f.stage(s); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		_, err := f.aggregator.Sum(serial{})
		if got := culprits(f.aggregator); !slices.Equal(got, c.want) || (err != nil) != (c.want != nil) {
			t.Errorf("%s: culprits are %v, want %v; the sum's error is %v", name, got, c.want, err)
		}
	}
}

// A client whose message was refused for its content is named, and a client that speaks out of turn
// is not. In semi-honest mode no client is named, since clients are assumed not to lie.
func TestCulpritsOfMessages(t *testing.T) {
	for _, mode := range []graph.Mode{graph.Active, graph.SemiHonest} {
		f := small(t, mode)
		f.through(protocol.StageAdvertise)
		for _, m := range []protocol.StageMessage{&protocol.Advertise{Round: f.plan.Round}, &protocol.MaskedInput{Round: f.plan.Round}, &protocol.Shares{Round: 9}} {
			if f.aggregator.Receive(3, m) == nil || len(f.aggregator.Culprits()) != 0 {
				t.Errorf("%s, out of turn: %v", mode, culprits(f.aggregator))
			}
		}
		err := f.aggregator.Receive(3, &protocol.Shares{Round: f.plan.Round})
		if got, want := len(culprits(f.aggregator)), map[graph.Mode]int{graph.Active: 1}[mode]; err == nil || got != want {
			t.Errorf("%s, no shares: %v, and %d culprits, want %d", mode, err, got, want)
		}
	}
}

// A complaint about an honest dealer names no client. Nor do complaints by as many holders as may
// lie, if the dealer's secret is lost together with other losses.
func TestComplaintsNameNobodyAlone(t *testing.T) {
	f := badDealer(t, []int{0})
	for _, s := range []protocol.Stage{protocol.StageMaskedInput, protocol.StageConsistency, protocol.StageUnmask} {
		if err := f.stage(s); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.aggregator.Sum(serial{}); err != nil || len(f.aggregator.Culprits()) != 0 {
		t.Errorf("%v, culprits %v", err, culprits(f.aggregator))
	}
	f = badDealer(t, []int{0, 1, 2, 3})
	if err := f.stage(protocol.StageMaskedInput); err == nil || !slices.Equal(culprits(f.aggregator), []protocol.ClientID{4}) {
		t.Errorf("four complain: %v, culprits %v", err, culprits(f.aggregator))
	}
}

// Removals are in the clear where noise is split, and no larger than noise: the shares of 10
// clients have variance 4/7, and Bernstein's bound keeps their sum within 23 except with
// probability 2^-40.
func TestRemovalBeyondNoise(t *testing.T) {
	for _, size := range []int64{20, 30, -30, 1 << 62} {
		p := plan(10, releases()...)
		p.Cohort = protocol.Cohort{Clients: 10, Tolerance: 0.2, Colluders: 0.1}
		p.Releases[1].Noise = protocol.Noise{Kind: protocol.Split, Variance: 4}
		f := newFederation(t, p, secagg.Params{Mode: graph.Active})
		for i := range f.removals {
			f.removals[i] = []protocol.Integers{{}, {Value: make([]int64, p.Releases[1].Len)}}
		}
		f.removals[3][1].Value[2] = size
		f.through(protocol.StageConsistency)
		m, err := f.answer(protocol.StageUnmask, 3)
		if err != nil {
			t.Fatal(err)
		}
		err = f.aggregator.Receive(3, m.(protocol.StageMessage))
		if refused := size != 20; (err != nil) != refused || (len(culprits(f.aggregator)) == 1) != refused {
			t.Errorf("a removal of %d: %v, culprits %v", size, err, culprits(f.aggregator))
		}
	}
}
