package secagg_test

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"filippo.io/edwards25519"
	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/secagg/shamir"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// dealing has client i deal, as lie has it.
type dealing func(f *federation, i int) (*protocol.Shares, error)

// committing is a dealer that commits to something else, under its signature.
func committing(commit func(c *secagg.Client, m *protocol.Shares)) dealing {
	return func(f *federation, i int) (*protocol.Shares, error) {
		m, err := f.clients[i].ShareUnverified(f.rosters, serial{})
		if err == nil {
			commit(f.clients[i], m)
		}
		return m, err
	}
}

// lies are ways to deal so that secrets, once they are needed, cannot be restored, or are others than the dealer used. On the complete
// graph of 10 it has 9 neighbours, and t = 6.
var lies = map[string]struct {
	deal dealing
	rule error
}{
	"the point of another seed": {committing(func(c *secagg.Client, m *protocol.Shares) { c.Commit(m, -1, false, plusBase) }), shamir.ErrDealt},
	"a wrong point of a seed":   {committing(func(c *secagg.Client, m *protocol.Shares) { c.Commit(m, 0, false, plusBase) }), shamir.ErrDealt},
	"a wrong point of a key":    {committing(func(c *secagg.Client, m *protocol.Shares) { c.Commit(m, 8, true, plusBase) }), shamir.ErrDealt},
	"wrong points of a key for all": {committing(func(c *secagg.Client, m *protocol.Shares) {
		for i := range m.Shares {
			c.Commit(m, i, true, plusBase)
		}
	}), shamir.ErrDealt},
	"the seed's points and the key's exchanged": {committing(func(c *secagg.Client, m *protocol.Shares) {
		for i := range m.Shares {
			s := &m.Shares[i]
			s.Committed = &protocol.Commitments{Seed: s.Committed.Key, Key: s.Committed.Seed}
			c.SignDealt(i, s)
		}
	}), shamir.ErrDealt},
	"two holders' exchanged": {committing(func(c *secagg.Client, m *protocol.Shares) {
		m.Shares[1].Committed, m.Shares[2].Committed = m.Shares[2].Committed, m.Shares[1].Committed
		c.SignDealt(1, &m.Shares[1])
		c.SignDealt(2, &m.Shares[2])
	}), shamir.ErrDealt},
	"the neutral point": {committing(func(_ *secagg.Client, m *protocol.Shares) { m.SeedHash = protocol.Hash{1} }), shamir.ErrPoint},
	"no point": {committing(func(c *secagg.Client, m *protocol.Shares) {
		m.Shares[4].Committed = &protocol.Commitments{Seed: m.Shares[4].Committed.Seed, Key: protocol.Key{2}}
		c.SignDealt(4, &m.Shares[4])
	}), shamir.ErrPoint},
	"a threshold that is too high": {func(f *federation, i int) (*protocol.Shares, error) {
		return f.clients[i].ShareFalsely(f.rosters, 1, nil, serial{})
	}, shamir.ErrDealt},
	"the highest threshold": {func(f *federation, i int) (*protocol.Shares, error) {
		return f.clients[i].ShareFalsely(f.rosters, 3, nil, serial{})
	}, shamir.ErrDealt},
	"another mask key than it advertised": {func(f *federation, i int) (*protocol.Shares, error) {
		return f.clients[i].ShareFalsely(f.rosters, 0, f.clients[(i+1)%attacked], serial{})
	}, shamir.ErrDealt},
}

// dealt is a federation of 10 clients in active mode at the end of the stage share. Of the liars what they deal is refused, and the
// others have not noticed.
func dealt(t *testing.T, deal dealing, rule error, liars ...int) *federation {
	t.Helper()
	f := standing(t, secagg.Active, protocol.StageAdvertise)
	for i := range f.clients {
		if slices.Contains(liars, i) {
			m, err := deal(f, i)
			if err != nil {
				t.Fatal(err)
			}
			err = f.aggregator.Receive(protocol.ClientID(i), m)
			culprit(t, err, protocol.ClientParty(protocol.ClientID(i)), secagg.ErrShare)
			if !errors.Is(err, rule) {
				t.Errorf("%v, want %v", err, rule)
			}
			f.alive[i] = false
			continue
		}
		m, err := f.answer(protocol.StageShare, i)
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

// finishes continues to the sum, which must be exact over the clients that are alive.
func (f *federation) finishes(from protocol.Stage) {
	f.t.Helper()
	for _, s := range f.stages() {
		if s < from {
			continue
		}
		if err := f.stage(s); err != nil {
			f.t.Fatal(err)
		}
	}
	got, err := f.aggregator.Sum(serial{})
	if d := cmp.Diff(f.sum(func(i int) bool { return f.alive[i] }), got); err != nil || d != "" {
		f.t.Errorf("error %v, sum (-want +got):\n%s", err, d)
	}
}

// A secret that cannot be restored, or another than is used, would cost all clients a round that they have paid for. Before any has,
// the aggregator finds the lie in the points that the dealer signed. It names every dealer who lies, and no other client. The sum is
// exact without them, also if honest clients are lost later.
func TestLyingDealers(t *testing.T) {
	for k, name := range slices.Sorted(maps.Keys(lies)) {
		t.Run(name, func(t *testing.T) {
			lie, liars := lies[name], [][]int{{4}, {0}, {2, 9}}[k%3]
			f := dealt(t, lie.deal, lie.rule, liars...)
			if len(liars) == 1 {
				f.lose(7, 1)
			}
			f.finishes(protocol.StageMaskedInput)
			var want []protocol.ClientID
			for _, i := range liars {
				want = append(want, protocol.ClientID(i))
			}
			if got := culprits(f.aggregator); !slices.Equal(got, want) {
				t.Errorf("culprits are %v, want %v", got, want)
			}
		})
	}
}

// A dealer may harm itself: with a lower threshold, and with parts of low order in its mask key and in the points of its seed and
// of shares. The holders of such shares complain. The sum is exact with the dealer in it, and if it is lost.
func TestDealersThatHarmNoSum(t *testing.T) {
	effort.NotShort(t, "whole rounds in active mode")
	lower := func(f *federation, i int) (*protocol.Shares, error) {
		return f.clients[i].ShareFalsely(f.rosters, -2, nil, serial{})
	}
	mixed := committing(func(c *secagg.Client, m *protocol.Shares) {
		c.Commit(m, -1, false, plusLow)
		c.Commit(m, 3, true, plusLow)
		c.Commit(m, 5, false, plusLow)
	})
	for name, deal := range map[string]dealing{"a lower threshold": lower, "parts of low order": mixed} {
		for _, lost := range []int{4, 8} {
			f := small(t, secagg.Active)
			f.advertise(t, func(i int, m *protocol.Advertise) {
				if i == 4 {
					f.clients[4].Readvertise(m, plusLow)
				}
			})
			for i := range f.clients {
				by := deal
				if i != 4 {
					by = committing(func(*secagg.Client, *protocol.Shares) {})
				}
				m, err := by(f, i)
				if err == nil {
					err = f.aggregator.Receive(protocol.ClientID(i), m)
				}
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			if err := f.aggregator.Close(protocol.StageShare); err != nil {
				t.Fatal(err)
			}
			f.next(protocol.StageShare)
			f.lose(lost, 1)
			f.finishes(protocol.StageMaskedInput)
			if got := culprits(f.aggregator); len(got) != 0 {
				t.Errorf("%s: culprits are %v", name, got)
			}
		}
	}
}

// advertise has all clients advertise, after a change.
func (f *federation) advertise(t *testing.T, change func(i int, m *protocol.Advertise)) {
	t.Helper()
	for i := range f.clients {
		m, err := f.clients[i].Advertise()
		if err == nil {
			change(i, m)
			err = f.aggregator.Receive(protocol.ClientID(i), m)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := f.aggregator.Close(protocol.StageAdvertise); err != nil {
		t.Fatal(err)
	}
	f.next(protocol.StageAdvertise)
}

// A client advertises another's mask key as its own. The points of what it deals are not of that key.
func TestAnotherClientsMaskKey(t *testing.T) {
	f, key := small(t, secagg.Active), protocol.Key{}
	f.advertise(t, func(i int, m *protocol.Advertise) {
		switch i {
		case 3:
			key = m.Keys.Mask
		case 4:
			f.clients[4].Readvertise(m, func([shamir.Size]byte) [shamir.Size]byte { return key })
		}
	})
	m, err := f.answer(protocol.StageShare, 4)
	if err != nil {
		t.Fatal(err)
	}
	culprit(t, f.aggregator.Receive(4, m.(protocol.StageMessage)), protocol.ClientParty(4), shamir.ErrDealt)
}

// plus adds the point with an encoding to a point.
func plus(b [shamir.Size]byte, more []byte) [shamir.Size]byte {
	p, err := new(edwards25519.Point).SetBytes(b[:])
	q, wrong := new(edwards25519.Point).SetBytes(more)
	if err != nil || wrong != nil {
		panic("a test's point is none")
	}
	return [shamir.Size]byte(p.Add(p, q).Bytes())
}

// plusBase adds the base point, plusLow a point of order 4.
func plusBase(b [shamir.Size]byte) [shamir.Size]byte {
	return plus(b, edwards25519.NewGeneratorPoint().Bytes())
}
func plusLow(b [shamir.Size]byte) [shamir.Size]byte { return plus(b, make([]byte, shamir.Size)) }

// In active mode a mask key is a point. A key of low order, or a key that is no point, would stop the client's neighbours.
func TestPointsOfLowOrder(t *testing.T) {
	for _, key := range []protocol.Key{{1}, {}, {31: 0x80}, {2}, protocol.Key(edwards25519.NewIdentityPoint().Bytes())} {
		f := small(t, secagg.Active)
		m, err := f.clients[0].Advertise()
		if err != nil {
			t.Fatal(err)
		}
		f.clients[0].Readvertise(m, func([shamir.Size]byte) [shamir.Size]byte { return key })
		culprit(t, f.aggregator.Receive(0, m), protocol.ClientParty(0), secagg.ErrKeys)
	}
}
