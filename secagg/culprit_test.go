package secagg_test

import (
	"slices"
	"testing"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

func culprits(a *secagg.Aggregator) []protocol.ClientID {
	var out []protocol.ClientID
	for _, c := range a.Culprits() {
		out = append(out, c.Client)
	}
	return out
}

// A client whose message was refused for its content is named, and a client that speaks out of turn
// is not. In semi-honest mode no client is named, since clients are assumed not to lie.
func TestCulpritsOfMessages(t *testing.T) {
	for _, mode := range []secagg.Mode{secagg.Active, secagg.SemiHonest} {
		f := standing(t, mode, protocol.StageAdvertise)
		for _, m := range []protocol.StageMessage{&protocol.Advertise{Round: f.plan.Round}, &protocol.MaskedInput{Round: f.plan.Round}, &protocol.Shares{Round: 9}} {
			if f.aggregator.Receive(3, m) == nil || len(f.aggregator.Culprits()) != 0 {
				t.Errorf("%s, out of turn: %v", mode, culprits(f.aggregator))
			}
		}
		err := f.aggregator.Receive(3, &protocol.Shares{Round: f.plan.Round})
		if got, want := len(culprits(f.aggregator)), map[secagg.Mode]int{secagg.Active: 1}[mode]; err == nil || got != want {
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
		f := newFederation(t, p, secagg.Params{Mode: secagg.Active})
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
