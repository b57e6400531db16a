package secagg_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// Attacks with two setups of one round: the aggregator has clients go through
// one ahead, gives it up, and has them go through another with the plan.

// twoSetups are of the same parties, through the stage share; neither has begun.
func twoSetups(t *testing.T, mode secagg.Mode) (ahead, anew *federation) {
	t.Helper()
	f := small(t, mode)
	var parties []*secagg.Party
	for i := range f.clients {
		parties = append(parties, f.party(i, 0))
	}
	setup := func() *federation {
		g := *f
		g.parties, g.clients, g.deliveries = parties, nil, make([]*protocol.Delivery, attacked)
		var err error
		if g.aggregator, err = secagg.NewAggregator(f.plan.Setup(), f.params); err != nil {
			t.Fatal(err)
		}
		for _, p := range parties {
			c, err := p.Join(f.plan.Setup())
			if err != nil {
				t.Fatal(err)
			}
			g.clients = append(g.clients, c)
		}
		g.through(protocol.StageShare)
		return &g
	}
	return setup(), setup()
}

// begin has the aggregator and some clients take the plan.
func (f *federation) begin(clients ...int) {
	f.t.Helper()
	if err := f.aggregator.Begin(f.plan); err != nil {
		f.t.Fatal(err)
	}
	for _, i := range clients {
		if err := f.clients[i].Begin(f.plan); err != nil {
			f.t.Fatal(err)
		}
	}
}

var everybody = []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}

// One of the setups is begun, and its sum opened: of the other nothing is to be had,
// neither a second masked input nor a share, so that no secret of both is known.
func TestSecondSetup(t *testing.T) {
	for _, mode := range bothModes {
		for _, first := range []bool{false, true} {
			other, f := twoSetups(t, mode)
			if first {
				other, f = f, other
			}
			f.begin(everybody...)
			for _, s := range f.stages()[2:] {
				if err := f.stage(s); err != nil {
					t.Fatal(err)
				}
			}
			got, err := f.aggregator.Sum(serial{})
			if want := f.sum(func(int) bool { return true }); err != nil || !slices.Equal(got[0], want[0]) {
				t.Fatalf("%s: the sum is %v, %v; want %v", mode, got, err, want)
			}
			for i, c := range other.clients {
				if err = c.Begin(f.plan); !errors.Is(err, secagg.ErrRound) {
					t.Errorf("%s: client %d begins the other setup: %v", mode, i, err)
				}
				if _, err = c.MaskedInput(other.deliveries[i], f.inputs[i], serial{}); !errors.Is(err, secagg.ErrOrder) {
					t.Errorf("%s: client %d masks its input in the other setup: %v", mode, i, err)
				}
				if _, err = c.Confirm(f.survivors); err == nil {
					t.Errorf("%s: client %d signs survivors in the other setup", mode, i)
				}
				if err = c.Check(f.survivors, f.quorum, serial{}); !errors.Is(err, secagg.ErrOrder) {
					t.Errorf("%s: client %d checks survivors in the other setup: %v", mode, i, err)
				}
				if m, err := c.Unmask(f.survivors, nil, serial{}); err == nil {
					t.Errorf("%s: client %d reveals %v of the other setup", mode, i, m.Shares)
				}
			}
		}
	}
}

// Keys and shares of one setup are of no use in another. In active mode both sets of
// keys are signed for the round; what keeps them apart is the roster, with the
// client's own keys on it, that shares are dealt and opened on.
func TestSetupsMixed(t *testing.T) {
	for _, mode := range bothModes {
		ahead, anew := twoSetups(t, mode)
		third, err := anew.parties[0].Join(anew.plan.Setup())
		if err != nil {
			t.Fatal(err)
		}
		if _, err = third.Advertise(); err != nil {
			t.Fatal(err)
		}
		_, err = third.Share(anew.rosters, serial{})
		culprit(t, err, theAggregator, secagg.ErrKeys)

		anew.begin(everybody...)
		holder, shares, other := common(t, anew, ahead)
		*shares = *other
		_, err = anew.answer(protocol.StageMaskedInput, holder)
		if mode == secagg.Active {
			culprit(t, err, theAggregator, secagg.ErrSignature)
		} else {
			culprit(t, err, protocol.ClientParty(shares.Peer), secagg.ErrShare)
		}

		whole := (holder + 1) % attacked
		anew.deliveries[whole] = ahead.deliveries[whole]
		if _, err = anew.answer(protocol.StageMaskedInput, whole); !errors.Is(err, secagg.ErrShare) && !errors.Is(err, secagg.ErrSignature) {
			t.Errorf("%s: a delivery of another setup: %v", mode, err)
		}
	}
}

// common finds a holder that has shares of one dealer delivered in both setups.
func common(t *testing.T, f, g *federation) (holder int, one, other *protocol.EncryptedShare) {
	t.Helper()
	for h := range attacked {
		for i := range f.deliveries[h].Shares {
			for k := range g.deliveries[h].Shares {
				if one, other = &f.deliveries[h].Shares[i], &g.deliveries[h].Shares[k]; one.Peer == other.Peer {
					return h, one, other
				}
			}
		}
	}
	t.Fatal("no two clients are neighbours in both setups")
	return 0, nil, nil
}

// Half of the clients continue with one setup and half with the other: too few in either for any
// client to unmask. In active mode the lie that all survived does not help, although all would sign
// it: signatures are for one setup.
func TestSetupsSplit(t *testing.T) {
	type half struct {
		*federation
		clients   []int
		survivors *protocol.Survivors // the truth
	}
	for _, mode := range bothModes {
		ahead, anew := twoSetups(t, mode)
		all := &protocol.Survivors{Round: 1, Count: attacked, U1: protocol.NewBitmap(attacked)}
		for i := range attacked {
			all.U1.Set(i)
		}
		halves := []half{{ahead, everybody[:5], without(all, everybody[5:]...)}, {anew, everybody[5:], without(all, everybody[:5]...)}}
		q := &protocol.Quorum{Round: 1}
		for _, h := range halves {
			h.begin(h.clients...)
			for _, i := range h.clients {
				if _, err := h.answer(protocol.StageMaskedInput, i); err != nil {
					t.Fatal(err)
				}
				if mode == secagg.SemiHonest {
					continue
				}
				m, err := h.federation.clients[i].Confirm(all)
				if err != nil {
					t.Fatal(err)
				}
				q.Signatures = append(q.Signatures, protocol.Signed{Client: protocol.ClientID(i), Signature: m.Signature})
			}
		}
		for _, h := range halves {
			for _, i := range h.clients {
				c := h.federation.clients[i]
				if mode == secagg.Active {
					culprit(t, c.Check(all, q, serial{}), theAggregator, secagg.ErrQuorum)
				} else {
					culprit(t, c.Check(h.survivors, nil, serial{}), theAggregator, secagg.ErrSurvivors)
				}
				if _, err := c.Unmask(all, nil, serial{}); err == nil {
					t.Errorf("%s: client %d unmasks", mode, i)
				}
			}
		}
	}
}

// A client that gave a setup up, before its masked input left, answers nothing of it, and its party takes the plan
// for another setup. Once it was shown survivors it is bound to the setup.
func TestWithdrawnSetup(t *testing.T) {
	for _, mode := range bothModes {
		given, f := twoSetups(t, mode)
		given.begin(everybody...)
		if err := given.stage(protocol.StageMaskedInput); err != nil {
			t.Fatal(err)
		}
		for i, c := range f.clients {
			if err := c.Begin(f.plan); !errors.Is(err, secagg.ErrRound) {
				t.Fatalf("%s: client %d begins two setups: %v", mode, i, err)
			}
			given.clients[i].Withdraw()
			given.clients[i].Withdraw()
		}
		f.begin(everybody...)
		for _, s := range f.stages()[2:] {
			if err := f.stage(s); err != nil {
				t.Fatal(err)
			}
		}
		got, err := f.aggregator.Sum(serial{})
		if want := f.sum(func(int) bool { return true }); err != nil || !slices.Equal(got[0], want[0]) {
			t.Fatalf("%s: the sum is %v, %v; want %v", mode, got, err, want)
		}
		for i, c := range given.clients {
			if _, err = c.Confirm(given.survivors); err == nil {
				t.Errorf("%s: client %d signs survivors in the setup that it gave up", mode, i)
			}
			if err = c.Check(given.survivors, nil, serial{}); !errors.Is(err, secagg.ErrOrder) {
				t.Errorf("%s: client %d checks survivors in the setup that it gave up: %v", mode, i, err)
			}
			if m, failed := c.Unmask(given.survivors, nil, serial{}); failed == nil {
				t.Errorf("%s: client %d answers %v in the setup that it gave up", mode, i, m)
			}
			f.clients[i].Withdraw()
			if _, err = f.parties[i].Join(f.plan.Setup()); !errors.Is(err, secagg.ErrRound) {
				t.Errorf("%s: client %d joins the round again, of which it has answered survivors: %v", mode, i, err)
			}
		}
	}
}
