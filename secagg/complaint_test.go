package secagg_test

import (
	"encoding/hex"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// badDealer is a federation in active mode in which client 4 deals some of its
// neighbours shares that are not what it committed to, under its own signature. On
// the complete graph of 10 its i-th neighbour is client i, or i+1 from 4 on. Clients
// that are lost fall silent before their masked input.
func badDealer(t *testing.T, neighbours []int, lost ...int) *federation {
	t.Helper()
	f := small(t, secagg.Active)
	f.dealFalsely(neighbours, lost...)
	return f
}

// dealFalsely goes through the stages before the masked input.
func (f *federation) dealFalsely(neighbours []int, lost ...int) {
	t := f.t
	t.Helper()
	f.through(protocol.StageAdvertise)
	for i := range f.clients {
		m, err := f.answer(protocol.StageShare, i)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range neighbours {
			if i == 4 {
				if err = f.clients[4].DealFalsely(k, &m.(*protocol.Shares).Shares[k]); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err = f.aggregator.Receive(protocol.ClientID(i), m.(protocol.StageMessage)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.aggregator.Close(protocol.StageShare); err != nil {
		t.Fatal(err)
	}
	f.next(protocol.StageShare)
	for _, i := range lost {
		f.alive[i] = false
	}
}

// A dealer's bad shares, under its own signature, would stop their holders; or, revealed later,
// have the holder blamed. The holder complains, the two have no mask in common, and the sum is
// exact: with the dealer in it, without it, without the holder, and with holders that complain of
// each other's neighbour.
func TestDealerCommitsToOtherShares(t *testing.T) {
	for name, c := range map[string]struct{ badTo, lost []int }{
		"to one":                       {badTo: []int{0}},
		"to three":                     {badTo: []int{0, 5, 8}},
		"to one, and it is lost":       {badTo: []int{2}, lost: []int{4}},
		"to one, who is lost":          {badTo: []int{2}, lost: []int{2}},
		"to two, and one is lost":      {badTo: []int{2, 3}, lost: []int{3, 7}},
		"to all, and it is lost":       {badTo: []int{0, 1, 2, 3, 4, 5, 6, 7, 8}, lost: []int{4}},
		"to three of whom two are out": {badTo: []int{0, 1, 2}, lost: []int{0, 1}},
	} {
		f := badDealer(t, c.badTo, c.lost...)
		for _, s := range []protocol.Stage{protocol.StageMaskedInput, protocol.StageConsistency, protocol.StageUnmask} {
			if err := f.stage(s); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		got, err := f.aggregator.Sum(serial{})
		want := f.sum(func(i int) bool { return !slices.Contains(c.lost, i) })
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%s: %v; the sum (-want +got):\n%s", name, err, d)
		}
	}
}

// So many holders complain that the dealer's secret cannot be restored: t = 6 of its 9 neighbours
// would have to answer. The error names the client as the dealer.
func TestDealerOfTooManyBadShares(t *testing.T) {
	for _, c := range []struct {
		badTo, lost []int
		left        int
	}{
		{[]int{0, 1, 2, 3}, nil, 5},
		{[]int{0, 1, 2, 3}, []int{4}, 5}, // its mask key then
		{[]int{0, 1, 2, 3, 4, 5, 6, 7, 8}, nil, 0},
	} {
		f := badDealer(t, c.badTo, c.lost...)
		err := f.stage(protocol.StageMaskedInput)
		var why *protocol.Unrecoverable
		if !errors.As(err, &why) || why.Client != 4 || why.Left != c.left || why.Required != 6 || !why.Dealt {
			t.Errorf("bad to %v: %v; want client 4 named, %d of 6 shares left", c.badTo, err, c.left)
		}
	}
	// The loss of a holder is no client's fault. Together with the complaints it leaves the dealer
	// too few holders, 9 - 2 - 2 = 5, and the error names the dealer.
	f := badDealer(t, []int{0, 1}, 8, 9)
	var why *protocol.Unrecoverable
	if err := f.stage(protocol.StageMaskedInput); !errors.As(err, &why) || why.Client != 4 || why.Left != 5 || !why.Dealt {
		t.Errorf("two complain and two are lost: %v", err)
	}
}

// A holder that complains without reason is believed: it gives away a mask of its own
// with an honest dealer, which is hidden by the others, and holds no share of it. The
// sum is exact if it tells the truth about the mask, and noise if not; what it had
// been dealt it cannot reveal after all. Of two that complain of each other neither
// has the mask on, so whatever they say of it does not matter.
func TestFalseComplaint(t *testing.T) {
	for name, accused := range map[string]map[int]protocol.ClientID{"of one": {0: 3}, "of each other": {0: 3, 3: 0}} {
		f := standing(t, secagg.Active, protocol.StageShare)
		for holder, dealer := range accused {
			f.clients[holder].Accuse(dealer)
		}
		for i := range f.clients {
			m, err := f.answer(protocol.StageMaskedInput, i)
			if err != nil {
				t.Fatal(err)
			}
			if in := m.(*protocol.MaskedInput); i == 0 && len(accused) == 2 {
				in.Complaints[0].Secret[0] ^= 1
			}
			if err = f.aggregator.Receive(protocol.ClientID(i), m.(protocol.StageMessage)); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.aggregator.Close(protocol.StageMaskedInput); err != nil {
			t.Fatal(err)
		}
		f.next(protocol.StageMaskedInput)
		for _, s := range []protocol.Stage{protocol.StageConsistency, protocol.StageUnmask} {
			if err := f.stage(s); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		got, err := f.aggregator.Sum(serial{})
		if d := cmp.Diff(f.sum(func(int) bool { return true }), got); err != nil || d != "" {
			t.Errorf("%s: %v; the sum (-want +got):\n%s", name, err, d)
		}
	}
}

// Complaints that cannot be are not taken, nor the input they came with.
func TestMalformedComplaints(t *testing.T) {
	for _, mode := range bothModes {
		f := standing(t, mode, protocol.StageShare)
		m, err := f.answer(protocol.StageMaskedInput, 0)
		if err != nil {
			t.Fatal(err)
		}
		for name, list := range map[string][]protocol.Complaint{
			"of a stranger": {{Of: 77}}, "of itself": {{Of: 0}}, "twice": {{Of: 3}, {Of: 3}}, "out of order": {{Of: 5}, {Of: 3}},
		} {
			bad := *m.(*protocol.MaskedInput)
			bad.Complaints = list
			culprit(t, f.aggregator.Receive(0, &bad), protocol.ClientParty(0), secagg.ErrMalformed)
			if t.Failed() {
				t.Fatalf("%s: a complaint %s", mode, name)
			}
		}
		good := *m.(*protocol.MaskedInput)
		good.Complaints = []protocol.Complaint{{Of: 3}}
		if mode == secagg.SemiHonest {
			culprit(t, f.aggregator.Receive(0, &good), protocol.ClientParty(0), secagg.ErrMalformed)
		} else if err = f.aggregator.Receive(0, &good); err != nil {
			t.Errorf("a complaint of a neighbour: %v", err)
		}
	}
}

// Whom more neighbours deal falsely than may collude (1 of 10) could be left with
// masks in common with liars alone: it takes no part.
func TestMoreBadDealersThanColluders(t *testing.T) {
	f := standing(t, secagg.Active, protocol.StageShare)
	f.clients[0].Accuse(3)
	f.clients[1].Accuse(3)
	f.clients[1].Accuse(5)
	if _, err := f.answer(protocol.StageMaskedInput, 0); err != nil {
		t.Errorf("one bad dealer: %v", err)
	}
	if m, err := f.answer(protocol.StageMaskedInput, 1); !errors.Is(err, secagg.ErrShare) {
		t.Errorf("two bad dealers: %v, %v", m, err)
	}
}

// A dealer whose signature is bad would have its neighbours take the aggregator for the
// liar: the aggregator does not take what it deals, and names it.
func TestDealerSignsBadly(t *testing.T) {
	f := standing(t, secagg.Active, protocol.StageAdvertise)
	m, err := f.answer(protocol.StageShare, 4)
	if err != nil {
		t.Fatal(err)
	}
	m.(*protocol.Shares).Shares[7].Committed.Signature[0] ^= 1
	culprit(t, f.aggregator.Receive(4, m.(protocol.StageMessage)), protocol.ClientParty(4), secagg.ErrSignature)
	f.alive[4] = false
	for _, s := range f.stages()[1:] {
		if err = f.stage(s); err != nil {
			t.Fatal(err)
		}
	}
	got, err := f.aggregator.Sum(serial{})
	if d := cmp.Diff(f.sum(func(i int) bool { return i != 4 }), got); err != nil || d != "" {
		t.Errorf("%v; the sum (-want +got):\n%s", err, d)
	}
}

// As many as may collude complain of an honest dealer, and as many as may be lost are:
// its secret is lost, but it is not named for it. N = 12 of whom 3 may be lost and 2
// may lie; t = 7 of 11 neighbours.
func TestHonestDealerIsNotFramed(t *testing.T) {
	p := plan(12, releases()...)
	p.Cohort = protocol.Cohort{Clients: 12, Tolerance: 0.25, Colluders: 0.15}
	f := newFederation(t, p, secagg.Params{Mode: secagg.Active})
	f.through(protocol.StageShare)
	f.clients[0].Accuse(11)
	f.clients[1].Accuse(11)
	f.lose(2, 3)
	var why *protocol.Unrecoverable
	if err := f.stage(protocol.StageMaskedInput); !errors.As(err, &why) || why.Client != 11 || why.Left != 6 || why.Required != 7 || why.Dealt {
		t.Errorf("%v; want 6 of 7 shares of client 11 left, and no word of its having dealt them badly", err)
	}
}

// Keys of low order are refused: a client that advertised one would stop its neighbours. The
// encodings are the seven that libsodium refuses, of the points of order 1, 2, 4 and 8 on
// Curve25519 and its twist (0, 1, two of order 8, p-1, p and p+1).
func TestKeysOfLowOrder(t *testing.T) {
	for _, code := range []string{
		"0000000000000000000000000000000000000000000000000000000000000000",
		"0100000000000000000000000000000000000000000000000000000000000000",
		"e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
		"5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
	} {
		b, err := hex.DecodeString(code)
		if err != nil {
			t.Fatal(err)
		}
		for i, set := range []func(*protocol.Keys){
			func(k *protocol.Keys) { k.Mask = protocol.Key(b) }, func(k *protocol.Keys) { k.Channel = protocol.Key(b) },
		} {
			f := small(t, secagg.SemiHonest)
			m, err := f.clients[0].Advertise()
			if err != nil {
				t.Fatal(err)
			}
			set(m.Keys)
			culprit(t, f.aggregator.Receive(0, m), protocol.ClientParty(0), secagg.ErrKeys)
			if t.Failed() {
				t.Fatalf("key %d, %s", i, code)
			}
		}
	}
}
