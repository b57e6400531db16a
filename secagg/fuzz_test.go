package secagg_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// Each target spoils one message of an otherwise sound sum. No message may cause a panic. The error
// names the client that broke a rule, and in active mode names it rightly. An accepted message
// keeps the promises in the comment of the target.

// scene is a sum of 5 clients without colluders; 1 client may be lost. It holds the state before
// each stage, and what is said there.
type scene struct {
	*federation
	active      bool
	aggregators [protocol.Stages]*secagg.Aggregator
	clients     [protocol.Stages][]*secagg.Client
	said        [protocol.Stages][]protocol.StageMessage
}

// The scenes, by what seeds have for them. In active mode a quorum is
// max(⌊5/2⌋+1, 4) = 4, and t = 3 of 4.
const (
	semiHonest uint8 = iota
	active
	replaced // semi-honest too
	proved   // active, with verified inputs
	settings
)

func scenes(t testing.TB) (out [settings]*scene) {
	t.Helper()
	for k := range out {
		p := plan(5, releases()...)
		p.Cohort = protocol.Cohort{Clients: 5, Tolerance: 0.2}
		p.Releases[1].Noise = protocol.Noise{Kind: protocol.Split, Variance: 10}
		params := secagg.Params{Mode: secagg.SemiHonest, VerifyInputs: uint8(k) == proved}
		switch uint8(k) {
		case active, proved:
			params.Mode = secagg.Active
			p.Releases[0].L2, p.Releases[1].L2 = 2000, 2000
		case replaced:
			p.Releases[1].Noise.Kind = protocol.TwoRound
		}
		s := &scene{federation: newFederation(t, p, params), active: params.Mode == secagg.Active}
		for i := range s.removals {
			s.removals[i] = []protocol.Integers{{}, {Value: []int64{int64(i), -5, 0}}}
		}
		for _, stage := range s.stages() {
			s.play(stage)
		}
		out[k] = s
	}
	return out
}

// play goes through a stage.
func (s *scene) play(stage protocol.Stage) {
	s.t.Helper()
	s.aggregators[stage] = s.aggregator.Fork()
	for i := range s.federation.clients {
		s.clients[stage] = append(s.clients[stage], s.federation.clients[i].Fork())
		m, err := s.answer(stage, i)
		if err != nil {
			s.t.Fatal(err)
		}
		s.said[stage] = append(s.said[stage], m.(protocol.StageMessage))
		if err = s.aggregator.Receive(protocol.ClientID(i), s.said[stage][i]); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := s.aggregator.Close(stage); err != nil {
		s.t.Fatal(err)
	}
	s.next(stage)
}

// plain is the sum over every client.
func (s *scene) plain() [][]int64 {
	everybody := func(int) bool { return true }
	return s.sumOf(everybody, everybody)
}

// blamed says whether an error names one of the parties.
func blamed(err error, parties ...protocol.Party) bool {
	var fault *secagg.Fault
	return errors.As(err, &fault) && slices.Contains(parties, fault.Culprit)
}

// FuzzReceive: a client's message. A malformed message names the client and does not count; the
// sound message that follows leads to the plain sum. A signed message is accepted only as it was
// signed: in active mode keys, a signature over survivors, and revealed shares. If a client
// complains of others, the rest continue. Where inputs are verified, no other sum than the plain one is ever released.
func FuzzReceive(f *testing.F) {
	all := scenes(f)
	f.Fuzz(func(t *testing.T, setting, number uint8, script []byte) {
		s := all[setting%settings]
		stage := protocol.Stage(number % uint8(protocol.Stages))
		if s.aggregators[stage] == nil {
			return // no such stage
		}
		good, a := s.said[stage][0], s.aggregators[stage].Fork()
		bad := spoil[protocol.Message](good, script).(protocol.StageMessage)
		if err := a.Receive(0, bad); err != nil {
			if !blamed(err, protocol.ClientParty(0)) {
				t.Fatalf("%s: %v, want client 0 named", stage, err)
			}
			if err = a.Receive(0, good); err != nil {
				t.Fatalf("%s: the sound message after a malformed one: %v", stage, err)
			}
			got, err := s.finish(t, a, stage, nil)
			if d := cmp.Diff(s.plain(), got); err != nil || d != "" {
				t.Errorf("error %v, sum (-want +got):\n%s", err, d)
			}
			return
		}
		if err := a.Receive(0, good); err == nil {
			t.Fatalf("%s: two messages of one client are taken", stage)
		}
		signed := func(m protocol.Message) any {
			switch m := m.(type) {
			case *protocol.Advertise:
				return m.Keys
			case *protocol.Consistency:
				return m.Signature
			case *protocol.Unmask:
				return m.Shares
			default:
				return nil // a liar's own affair
			}
		}
		if d := cmp.Diff(signed(good), signed(bad)); s.active && d != "" {
			t.Errorf("%s: accepted with a change (-signed +accepted):\n%s", stage, d)
		}
		if in, ok := bad.(*protocol.MaskedInput); ok {
			for k, c := range in.Complaints {
				if !s.active || c.Of < 1 || c.Of > 4 || k > 0 && in.Complaints[k-1].Of >= c.Of {
					t.Errorf("complaints are taken: %+v", in.Complaints)
				}
			}
			got, err := s.finish(t, a, stage, in.Complaints)
			if s.params.VerifyInputs { // it is the plain sum, or nothing is released
				lied, ok := errors.AsType[*protocol.Unproved](err)
				if d := cmp.Diff(s.plain(), got); err == nil && d != "" || err != nil && (!ok || lied.Round != s.plan.Round || got != nil) {
					t.Errorf("error %v, sum (-want +got):\n%s", err, d)
				}
			} else if err != nil {
				t.Errorf("after complaints %+v: %v", in.Complaints, err)
			}
		}
	})
}

// finish runs the stages to the sum, from a stage in which client 0 has been heard. Client 0
// reveals no share of the clients that it complained of.
func (s *scene) finish(t *testing.T, a *secagg.Aggregator, from protocol.Stage, complaints []protocol.Complaint) ([][]int64, error) {
	t.Helper()
	for _, stage := range s.stages() {
		for i, m := range s.said[stage] {
			if stage < from || stage == from && i == 0 {
				continue
			}
			if unmask, ok := m.(*protocol.Unmask); ok && i == 0 {
				without := *unmask
				without.Shares = slices.DeleteFunc(slices.Clone(unmask.Shares), func(s protocol.RevealedShare) bool {
					return slices.ContainsFunc(complaints, func(c protocol.Complaint) bool { return c.Of == s.Of })
				})
				m = &without
			}
			if err := a.Receive(protocol.ClientID(i), m); err != nil {
				t.Fatal(err)
			}
		}
		if stage < from {
			continue
		}
		if err := a.Close(stage); err != nil {
			t.Fatal(err)
		}
	}
	return a.Sum(serial{})
}

// FuzzShare: a roster. A client accepts a roster only if it ascends, has enough members and
// contains the client with its own keys. In active mode every member's keys must be signed by that
// member. The client deals to each neighbour once.
func FuzzShare(f *testing.F) {
	all := scenes(f)
	f.Fuzz(func(t *testing.T, setting uint8, script []byte) {
		s := all[setting%settings]
		c, roster := s.clients[protocol.StageShare][2].Fork(), spoil(s.rosters, script)
		m, err := c.Share(roster, serial{})
		if err != nil {
			culprits := []protocol.Party{theAggregator}
			for _, member := range roster.Members {
				if !s.active { // whose keys the aggregator may have spoilt unnoticed
					culprits = append(culprits, protocol.ClientParty(member.Client))
				}
			}
			if !blamed(err, culprits...) {
				t.Fatalf("%v, want one of %v named", err, culprits)
			}
			if _, err = c.Share(s.rosters, serial{}); !errors.Is(err, secagg.ErrOrder) {
				t.Fatalf("after a bad roster: %v, want no answer at all", err)
			}
			return
		}
		ids := make([]protocol.ClientID, len(roster.Members))
		for i, member := range roster.Members {
			ids[i] = member.Client
			got, want := member.Keys, s.rosters.Members[min(int(member.Client), 4)].Keys
			got.Signature, want.Signature = nil, nil
			if (s.active || member.Client == 2) && !cmp.Equal(got, want) {
				t.Errorf("client %d is accepted with keys that are not its own", member.Client)
			}
		}
		if !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != len(ids) || len(ids) < 4 || !slices.Contains(ids, 2) || slices.Max(ids) > 4 {
			t.Errorf("a roster of %d is accepted", ids)
		}
		if len(m.Shares) < 2 {
			t.Errorf("shares are dealt to %d neighbours of a roster of %d", len(m.Shares), ids)
		}
		for i, share := range m.Shares {
			if share.Peer == 2 || !slices.Contains(ids, share.Peer) || i > 0 && m.Shares[i-1].Peer >= share.Peer {
				t.Errorf("shares are dealt to %d, at place %d, from a roster of %d", share.Peer, i, ids)
			}
		}
	})
}

// FuzzMaskedInput: a delivery. A client takes part only if enough clients' shares arrived, all of
// its neighbours' among them. The shares must be the dealt shares.
func FuzzMaskedInput(f *testing.F) {
	all := scenes(f)
	f.Fuzz(func(t *testing.T, setting uint8, script []byte) {
		s := all[setting%settings]
		genuine := s.deliveries[2]
		c, d := s.clients[protocol.StageMaskedInput][2].Fork(), spoil(genuine, script)
		m, err := c.MaskedInput(d, s.inputs[2], serial{})
		if err != nil {
			culprits := []protocol.Party{theAggregator}
			for _, share := range genuine.Shares {
				if !s.active { // whose shares the aggregator may have spoilt unnoticed
					culprits = append(culprits, protocol.ClientParty(share.Peer))
				}
			}
			var few *protocol.TooFew
			if !errors.As(err, &few) && !blamed(err, culprits...) {
				t.Fatalf("%v, want one of %v named", err, culprits)
			}
			if _, err = c.MaskedInput(genuine, s.inputs[2], serial{}); !errors.Is(err, secagg.ErrOrder) {
				t.Fatalf("after a bad delivery: %v, want no answer at all", err)
			}
			return
		}
		if d.Clients != d.Arrived.Count() || d.Clients < 4 || !d.Arrived.Has(2) || !d.Arrived.Fits(5) {
			t.Errorf("a client takes part with %x, said to be %d", d.Arrived, d.Clients)
		}
		want := slices.DeleteFunc(slices.Clone(genuine.Shares), func(e protocol.EncryptedShare) bool { return !d.Arrived.Has(int(e.Peer)) })
		if diff := cmp.Diff(want, d.Shares); diff != "" || len(m.Complaints) != 0 {
			t.Errorf("complaints %+v, shares that were not dealt are accepted (-dealt +accepted):\n%s", m.Complaints, diff)
		}
		if cmp.Equal(genuine.Arrived, d.Arrived) != cmp.Equal(s.said[protocol.StageMaskedInput][2].(*protocol.MaskedInput).Masked, m.Masked) {
			t.Errorf("with %x the masks are those of %x", d.Arrived, genuine.Arrived)
		}
	})
}

// FuzzUnmask: survivors, twice, and a quorum. In active mode a client signs one set, and unmasks
// only the set that four signed. In either mode it unmasks one possible set, whatever else it is
// shown. It reveals one share of each neighbour, of the kind that goes with the set.
func FuzzUnmask(f *testing.F) {
	all := scenes(f)
	f.Fuzz(func(t *testing.T, setting uint8, first, second, signatures []byte) {
		s := all[setting%settings]
		stage, quorum := protocol.StageUnmask, s.quorum
		if s.active {
			stage, quorum = protocol.StageConsistency, spoil(s.quorum, signatures)
		}
		c := s.clients[stage][2].Fork()
		one, two := spoil(s.survivors, first), spoil(s.survivors, second)
		confirmed := false
		if s.active {
			_, err := c.Confirm(one)
			if confirmed = err == nil; !confirmed && !blamed(err, theAggregator) {
				t.Fatalf("%v, want the aggregator named", err)
			}
		}
		err := c.Check(two, quorum, serial{})
		if err != nil {
			if !blamed(err, theAggregator) && !errors.Is(err, secagg.ErrOrder) {
				t.Fatalf("%v, want the aggregator named", err)
			}
			if m, again := c.Unmask(two, s.removals[2], serial{}); again == nil {
				t.Fatalf("unmasked what was refused: %+v", m)
			}
			return
		}
		if confirmed != s.active || s.active && !bytes.Equal(one.U1, two.U1) {
			t.Errorf("%x is signed, %x is to be unmasked", one.U1, two.U1)
		}
		if two.Count != two.U1.Count() || two.Count < 4 || !two.U1.Has(2) || !two.U1.Fits(5) {
			t.Errorf("%x, said to be %d, is to be unmasked", two.U1, two.Count)
		}
		if s.active {
			s.checkQuorum(t, two, quorum)
		}
		m, err := c.Unmask(two, s.removals[2], serial{})
		if err != nil {
			t.Fatal(err)
		}
		whole := s.said[protocol.StageUnmask][2].(*protocol.Unmask).Shares // of survivors, all of them
		if len(m.Shares) != len(whole) {
			t.Fatalf("%d shares are revealed, want one of each of %d neighbours", len(m.Shares), len(whole))
		}
		for i, share := range m.Shares {
			if share.Of != whole[i].Of || (share.Share == whole[i].Share) != two.U1.Has(int(share.Of)) {
				t.Errorf("for %x, a share of client %d is revealed, of the wrong kind or in place of %d's", two.U1, share.Of, whole[i].Of)
			}
		}
	})
}

// checkQuorum counts the signatures that clients made.
func (s *scene) checkQuorum(t *testing.T, u1 *protocol.Survivors, q *protocol.Quorum) {
	t.Helper()
	genuine := 0
	for _, signed := range s.quorum.Signatures {
		if slices.ContainsFunc(q.Signatures, func(o protocol.Signed) bool { return cmp.Equal(signed, o) }) {
			genuine++
		}
	}
	if genuine < 4 || !bytes.Equal(u1.U1, s.survivors.U1) {
		t.Errorf("%x is to be unmasked, and %d signed %x", u1.U1, genuine, s.survivors.U1)
	}
}

// FuzzReplace: survivors, and twice the clients that answered. A client that unmasked one set opens
// the second sum for the first possible subset of it, and for no other. It reveals one share of
// each neighbour in the first sum, of the kind that goes with the second set.
func FuzzReplace(f *testing.F) {
	s := scenes(f)[replaced]
	f.Fuzz(func(t *testing.T, survivors, first, second []byte) {
		c := s.clients[protocol.StageUnmask][2].Fork()
		u1, one, two := spoil(s.survivors, survivors), spoil(s.answered, first), spoil(s.answered, second)
		if c.Check(u1, nil, serial{}) != nil {
			return // FuzzUnmask's
		}
		if _, err := c.Unmask(u1, s.removals[2], serial{}); err != nil {
			t.Fatal(err)
		}
		m, err := c.Replace(one)
		if err != nil {
			if !blamed(err, theAggregator) {
				t.Fatalf("%v, want the aggregator named", err)
			}
			if _, err = c.Replace(s.answered); !errors.Is(err, secagg.ErrOrder) {
				t.Fatalf("after a bad set: %v, want no answer at all", err)
			}
			return
		}
		if one.Count != one.U2.Count() || one.Count < 4 || !one.U2.Has(2) || !one.U2.Fits(5) || !one.U2.Subset(u1.U1) {
			t.Errorf("%x, said to be %d, replaced noise, of %x", one.U2, one.Count, u1.U1)
		}
		again, err := c.Replace(two)
		if same := one.Count == two.Count && bytes.Equal(one.U2, two.U2); same != (err == nil) || !same && !blamed(err, theAggregator) || same && !cmp.Equal(m, again) {
			t.Errorf("after %x, %x is answered with %+v, %v", one.U2, two.U2, again, err)
		}
		whole := s.said[protocol.StageReplace][2].(*protocol.Replacement).Shares // of the clients that answered, all of them
		whole = slices.DeleteFunc(slices.Clone(whole), func(r protocol.RevealedShare) bool { return !u1.U1.Has(int(r.Of)) })
		if len(m.Shares) != len(whole) {
			t.Fatalf("%d shares are revealed, want one of each of %d neighbours", len(m.Shares), len(whole))
		}
		for i, share := range m.Shares {
			if share.Of != whole[i].Of || (share.Share == whole[i].Share) != one.U2.Has(int(share.Of)) {
				t.Errorf("for %x, a share of client %d is revealed, of the wrong kind or in place of %d's", one.U2, share.Of, whole[i].Of)
			}
		}
	})
}

// FuzzDealing: a client's dealt shares, in active mode, under its own signature. Either the
// aggregator names the client, or its holders continue, with a complaint if need be. They reach the
// plain sum, or none because of that client.
func FuzzDealing(f *testing.F) {
	s := scenes(f)[active]
	const dealer, holder = 4, 2
	f.Fuzz(func(t *testing.T, flip []byte, commits bool, script []byte) {
		g := s.dealing(t)
		bad := spoil(s.said[protocol.StageShare][dealer].(*protocol.Shares), nil)
		if err := g.clients[dealer].Redeal(holder, &bad.Shares[holder], flip, commits); err != nil {
			t.Fatal(err)
		}
		bad = spoil(bad, script)
		for i := range bad.Shares[:min(len(bad.Shares), dealer)] {
			if bad.Shares[i].Committed != nil {
				g.clients[dealer].SignDealt(i, &bad.Shares[i])
			}
		}
		if err := g.aggregator.Receive(dealer, bad); err != nil {
			if !blamed(err, protocol.ClientParty(dealer)) {
				t.Fatalf("%v, want client %d named", err, dealer)
			}
			return
		}
		err := g.aggregator.Close(protocol.StageShare)
		g.next(protocol.StageShare)
		for stage := protocol.StageMaskedInput; err == nil && stage <= g.last(); stage++ {
			err = g.stage(stage)
		}
		var got [][]int64
		if err == nil {
			got, err = g.aggregator.Sum(serial{})
		}
		var why *protocol.Unrecoverable
		if errors.As(err, &why) && why.Client == dealer && why.Dealt {
			return
		}
		if d := cmp.Diff(s.plain(), got); err != nil || d != "" {
			t.Errorf("error %v, sum (-want +got):\n%s", err, d)
		}
	})
}

// dealing is the scene with every client's shares except the last client's, which has not been
// heard.
func (s *scene) dealing(t *testing.T) *federation {
	t.Helper()
	g := *s.federation
	g.t, g.aggregator, g.clients, g.deliveries = t, s.aggregators[protocol.StageShare].Fork(), nil, slices.Clone(s.deliveries)
	for _, c := range s.clients[protocol.StageMaskedInput] {
		g.clients = append(g.clients, c.Fork())
	}
	for i, m := range s.said[protocol.StageShare][:len(g.clients)-1] {
		if err := g.aggregator.Receive(protocol.ClientID(i), m); err != nil {
			t.Fatal(err)
		}
	}
	return &g
}
