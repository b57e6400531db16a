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

// lyingDealers is a federation of 10 clients in active mode after they dealt, of whom some
// deal otherwise.
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

// All who dealt shares of another secret than they published are named by the one sum
// that fails: two whose seed is not of its hash, and one whose mask key is not the one
// that it advertised, which comes to light when it is lost. Nobody else is.
func TestCulpritsOfASum(t *testing.T) {
	flipped := func(_ *secagg.Client, m *protocol.Shares) error { m.SeedHash[5] ^= 4; return nil }
	// The mask key's share stands behind the seed's 32 bytes, in little endian: its lowest
	// bit, in every share, is another polynomial than the one dealt.
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

// Whoever's message is refused for what is in it is named, and who speaks out of turn is
// not. In semi-honest mode nobody is: there is nobody to lie.
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

// One who complains of an honest dealer has nobody named; nor does a dealer of whom as
// many complain as may lie, when its secret is lost with other losses.
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

// Removals are in the clear where noise is split, and no larger than noise: 10 clients'
// shares of variance 4/7, which Bernstein's bound has within 23 but for 2^-40.
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
