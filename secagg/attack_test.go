package secagg_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// Each test plays an attacker; the comment says what it would gain if the rule
// were not there.

const attacked = 10 // clients

// small is a federation of 10 on a complete graph in active mode (t = 6), and of
// which 2 may be lost. Its quorum is max(⌊(10+1)/2⌋+1, 8) = 8.
func small(t *testing.T, mode secagg.Mode) *federation {
	t.Helper()
	p := plan(attacked, releases()...)
	p.Cohort = protocol.Cohort{Clients: attacked, Tolerance: 0.2, Colluders: 0.05}
	return newFederation(t, p, secagg.Params{Mode: mode})
}

// standing is a small federation at the end of a stage. Its clients and its aggregator do the same until then in every test, so they do
// it once.
func standing(t *testing.T, mode secagg.Mode, last protocol.Stage) *federation {
	t.Helper()
	stood.Lock()
	defer stood.Unlock()
	at := &stood.small[mode][last]
	if *at == nil {
		*at = small(t, mode)
		(*at).through(last)
	}
	return (*at).fork(t)
}

var stood struct {
	sync.Mutex
	small [secagg.Active + 1][protocol.Stages]*federation
}

var bothModes = []secagg.Mode{secagg.SemiHonest, secagg.Active}

// without is the survivors without some.
func without(m *protocol.Survivors, lost ...int) *protocol.Survivors {
	u1 := slices.Clone(m.U1)
	for _, i := range lost {
		u1[i/8] &^= 1 << (i % 8)
	}
	return &protocol.Survivors{Round: m.Round, Count: u1.Count(), U1: u1}
}

// The aggregator shows a client two sets of survivors. Answering both would reveal both kinds of
// share of every client that is in one set only, and thin the noise twice. The client answers the
// first set only, and its answer never changes.
func TestTwoSurvivorSetsForOneClient(t *testing.T) {
	for _, mode := range bothModes {
		f := standing(t, mode, protocol.StageUnmask-1)
		c := f.clients[0]
		if err := c.Check(f.survivors, f.quorum, serial{}); err != nil {
			t.Fatal(err)
		}
		first, err := c.Unmask(f.survivors, nil, serial{})
		if err != nil {
			t.Fatal(err)
		}
		other := without(f.survivors, 3)
		culprit(t, c.Check(other, f.quorum, serial{}), theAggregator, secagg.ErrLocked)
		if m, refused := c.Unmask(other, nil, serial{}); refused == nil {
			t.Errorf("%s: another set was answered with %+v", mode, m)
		}
		if err = c.Check(f.survivors, f.quorum, serial{}); err != nil {
			t.Errorf("%s: the first set again: %v", mode, err)
		}
		again, err := c.Unmask(f.survivors, []protocol.Integers{{Value: make([]int64, 9)}, {Value: make([]int64, 3)}}, serial{})
		if d := cmp.Diff(first, again); err != nil || d != "" {
			t.Errorf("%s: the first set is answered anew, %v (-first +again):\n%s", mode, err, d)
		}
	}
}

// The aggregator shows two sets before anything was revealed: in active mode a client that signed
// both sets would lend itself to two quorums.
func TestTwoSurvivorSetsToSign(t *testing.T) {
	f := standing(t, secagg.Active, protocol.StageMaskedInput)
	c := f.clients[0]
	first, err := c.Confirm(f.survivors)
	if err != nil {
		t.Fatal(err)
	}
	other := without(f.survivors, 3)
	_, err = c.Confirm(other)
	culprit(t, err, theAggregator, secagg.ErrLocked)
	culprit(t, c.Check(other, &protocol.Quorum{}, serial{}), theAggregator, secagg.ErrLocked)
	if again, err := c.Confirm(f.survivors); err != nil || !cmp.Equal(first, again) {
		t.Errorf("the first set is signed anew: %v", err)
	}
}

// The aggregator tells some clients that client 9 survived and others that it was lost: with t of
// each it would have its seed and its key. Hiding it from its neighbours would also have them take
// more of their noise back than the others think. For every choice of the signatures that it hands
// out, one side has no quorum.
func TestTwoSurvivorSetsForTwoGroups(t *testing.T) {
	for hidden := 1; hidden < attacked-1; hidden++ { // from so many is client 9 hidden
		f := standing(t, secagg.Active, protocol.StageMaskedInput)
		shown := make([]*protocol.Survivors, attacked)
		quorum := &protocol.Quorum{Round: 1}
		for i := range shown {
			shown[i] = f.survivors
			if i < hidden {
				shown[i] = without(f.survivors, 9)
			}
			m, err := f.clients[i].Confirm(shown[i])
			if err != nil {
				t.Fatal(err)
			}
			quorum.Signatures = append(quorum.Signatures, protocol.Signed{Client: protocol.ClientID(i), Signature: m.Signature})
		}
		accepted := map[int]int{}
		for i, c := range f.clients {
			err := c.Check(shown[i], quorum, serial{})
			if err == nil {
				accepted[shown[i].Count]++
				continue
			}
			culprit(t, err, theAggregator, secagg.ErrQuorum)
			if _, err = c.Unmask(shown[i], nil, serial{}); err == nil {
				t.Errorf("client %d unmasks without a quorum", i)
			}
		}
		if len(accepted) > 1 {
			t.Errorf("client 9 is hidden from %d: %v clients unmask sets of these sizes", hidden, accepted)
		}
	}
}

// A quorum cannot be padded: with one signature several times, with others' under
// a wrong name, with signatures of clients that are not among the survivors, of
// another round's set.
func TestForgedQuorums(t *testing.T) {
	const need = 8
	for name, forge := range map[string]func(*protocol.Quorum){
		"one too few": func(q *protocol.Quorum) { q.Signatures = q.Signatures[:need-1] },
		"nobody":      func(q *protocol.Quorum) { q.Signatures = nil },
		"one twice":   func(q *protocol.Quorum) { q.Signatures = append(q.Signatures[:need-1], q.Signatures[need-2]) },
		"under another name": func(q *protocol.Quorum) {
			q.Signatures = append(q.Signatures[:need-1], protocol.Signed{Client: 9, Signature: q.Signatures[0].Signature})
		},
		"truncated": func(q *protocol.Quorum) { q.Signatures = q.Signatures[:need]; q.Signatures[3].Signature = nil },
		"nobody's client": func(q *protocol.Quorum) {
			q.Signatures = append(q.Signatures[:need-1], protocol.Signed{Client: 1 << 31, Signature: make([]byte, 64)})
		},
		"too many": func(q *protocol.Quorum) { q.Signatures = append(q.Signatures, make([]protocol.Signed, 100)...) },
	} {
		f := standing(t, secagg.Active, protocol.StageConsistency)
		q := &protocol.Quorum{Round: 1, Signatures: slices.Clone(f.quorum.Signatures)}
		forge(q)
		if err := f.clients[0].Check(f.survivors, q, serial{}); err == nil {
			t.Errorf("%s: a forged quorum is accepted", name)
		}
		if err := f.clients[0].Check(f.survivors, f.quorum, serial{}); err == nil {
			t.Errorf("%s: after a forged quorum the client still unmasks", name)
		}
		if err := f.clients[1].Check(f.survivors, &protocol.Quorum{Signatures: f.quorum.Signatures[:need]}, serial{}); err != nil {
			t.Errorf("%s: exactly a quorum is refused: %v", name, err)
		}
		if err := f.clients[2].Check(f.survivors, nil, serial{}); !errors.Is(err, secagg.ErrQuorum) {
			t.Errorf("no quorum at all: %v", err)
		}
	}
}

// Each client reveals exactly one share of every neighbour, of the right kind. The aggregator
// invents the input of a ghost and shows the ghost as surviving: its masks could be taken off with
// its key only, and the shares of its key stay hidden.
func TestOneKindOfShareForEachPeer(t *testing.T) {
	answers := make(map[bool]*protocol.Unmask) // by whether client 9 is shown as surviving
	for _, ghost := range []bool{false, true} {
		f := standing(t, secagg.Active, protocol.StageShare)
		f.lose(9, 1) // it never sends its input
		if err := f.stage(protocol.StageMaskedInput); err != nil {
			t.Fatal(err)
		}
		shown := f.survivors
		if ghost {
			shown = &protocol.Survivors{Round: 1, Count: 10, U1: slices.Clone(f.survivors.U1)}
			shown.U1.Set(9)
		}
		q := &protocol.Quorum{}
		for i := range 9 {
			m, err := f.clients[i].Confirm(shown)
			if err != nil {
				t.Fatal(err)
			}
			q.Signatures = append(q.Signatures, protocol.Signed{Client: protocol.ClientID(i), Signature: m.Signature})
		}
		if err := f.clients[0].Check(shown, q, serial{}); err != nil {
			t.Fatal(err)
		}
		m, err := f.clients[0].Unmask(shown, nil, serial{})
		if err != nil {
			t.Fatal(err)
		}
		answers[ghost] = m
		for i, s := range answers[ghost].Shares {
			if int(s.Of) != i+1 {
				t.Errorf("place %d reveals a share of client %d", i, s.Of)
			}
		}
	}
	for i := range 9 {
		same := answers[false].Shares[i].Share == answers[true].Shares[i].Share
		if same != (i != 8) {
			t.Errorf("client %d shown as surviving or not reveals the same share: %t", i+1, same)
		}
	}
}

// Survivors that cannot be end the client's part: each would leave less noise
// than was charged, or open a single client.
func TestImpossibleSurvivors(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*protocol.Survivors) *protocol.Survivors
		rule   error
	}{
		"too few":             {func(m *protocol.Survivors) *protocol.Survivors { return without(m, 1, 2, 3) }, secagg.ErrSurvivors},
		"without this client": {func(m *protocol.Survivors) *protocol.Survivors { return without(m, 0) }, secagg.ErrSurvivors},
		"a larger count":      {func(m *protocol.Survivors) *protocol.Survivors { m = without(m, 5); m.Count++; return m }, secagg.ErrMalformed},
		"a smaller count":     {func(m *protocol.Survivors) *protocol.Survivors { m = without(m); m.Count--; return m }, secagg.ErrMalformed},
		"truncated": {func(m *protocol.Survivors) *protocol.Survivors {
			m = without(m)
			m.U1 = m.U1[:1]
			m.Count = 8
			return m
		}, secagg.ErrMalformed},
		"beyond the roster":     {func(m *protocol.Survivors) *protocol.Survivors { m = without(m); m.U1.Set(13); m.Count++; return m }, secagg.ErrMalformed},
		"nobody":                {func(*protocol.Survivors) *protocol.Survivors { return &protocol.Survivors{Round: 1} }, secagg.ErrMalformed},
		"who delivered nothing": {func(m *protocol.Survivors) *protocol.Survivors { m = without(m); m.U1.Set(8); m.Count++; return m }, secagg.ErrSurvivors},
	} {
		for _, mode := range bothModes {
			f := standing(t, mode, protocol.StageAdvertise)
			if name == "who delivered nothing" {
				f.lose(8, 1)
			}
			for _, s := range []protocol.Stage{protocol.StageShare, protocol.StageMaskedInput} {
				if err := f.stage(s); err != nil {
					t.Fatal(err)
				}
			}
			show := func(m *protocol.Survivors) error {
				if mode == secagg.Active {
					_, err := f.clients[0].Confirm(m)
					return err
				}
				return f.clients[0].Check(m, nil, serial{})
			}
			culprit(t, show(c.change(f.survivors)), theAggregator, c.rule)
			if err := show(f.survivors); err == nil {
				t.Errorf("%s, %s: after a lie the client goes on", name, mode)
			}
		}
	}
}

// A replay of a round, at once or after a restart: a second input under the
// same masks would disclose the difference, a second set of survivors the rest.
func TestReplayedRound(t *testing.T) {
	f := small(t, secagg.SemiHonest)
	if _, err := join(f.parties[0], f.plan); !errors.Is(err, secagg.ErrRound) {
		t.Errorf("the round again: %v", err)
	}
	restarted := f.party(0, 1)
	if _, err := join(restarted, f.plan); !errors.Is(err, secagg.ErrRound) {
		t.Errorf("after a restart: %v", err)
	}
	next := *f.plan
	next.Round = 2
	if _, err := join(restarted, &next); err != nil {
		t.Errorf("the next round after a restart: %v", err)
	}
	next.Session[0]++
	next.Round = 3
	if _, err := join(restarted, &next); !errors.Is(err, secagg.ErrRound) {
		t.Errorf("another session: %v", err)
	}
}

// Messages of a round are of no use in the next: keys and shares of the last round are refused in
// this one.
func TestReplayedMessages(t *testing.T) {
	for _, mode := range bothModes {
		f := small(t, mode)
		f.through(protocol.StageShare)
		next := *f.plan
		next.Round = 2
		c, err := join(f.parties[0], &next)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = c.Advertise(); err != nil {
			t.Fatal(err)
		}
		_, err = c.Share(f.rosters, serial{})
		culprit(t, err, theAggregator, secagg.ErrKeys)

		// Shares of the first round, delivered in the second.
		second := newFederation(t, &next, f.params)
		second.through(protocol.StageShare)
		second.deliveries[0].Shares = f.deliveries[0].Shares
		_, err = second.answer(protocol.StageMaskedInput, 0)
		if mode == secagg.Active {
			culprit(t, err, theAggregator, secagg.ErrSignature)
		} else {
			culprit(t, err, protocol.ClientParty(second.deliveries[0].Shares[0].Peer), secagg.ErrShare)
		}
	}
}

// The aggregator puts a key of its own into the roster: it would share a mask
// with the client that believes it, or read what is dealt to another. In
// semi-honest mode, which trusts it not to, a client still knows its own keys.
func TestSwappedKeys(t *testing.T) {
	for _, c := range []struct {
		mode   secagg.Mode
		victim int
		swap   func(*protocol.Keys)
		rule   error
	}{
		{secagg.SemiHonest, 0, func(k *protocol.Keys) { k.Mask[0] ^= 1 }, secagg.ErrKeys},
		{secagg.SemiHonest, 0, func(k *protocol.Keys) { k.Channel[0] ^= 1 }, secagg.ErrKeys},
		{secagg.Active, 0, func(k *protocol.Keys) { k.Mask[0] ^= 1 }, secagg.ErrKeys},
		{secagg.Active, 1, func(k *protocol.Keys) { k.Mask[0] ^= 1 }, secagg.ErrSignature},
		{secagg.Active, 1, func(k *protocol.Keys) { k.Channel[0] ^= 1 }, secagg.ErrSignature},
		{secagg.Active, 1, func(k *protocol.Keys) { k.Mask, k.Channel = k.Channel, k.Mask }, secagg.ErrSignature},
		{secagg.Active, 1, func(k *protocol.Keys) { k.Signature = nil }, secagg.ErrSignature},
	} {
		f := standing(t, c.mode, protocol.StageAdvertise)
		members := slices.Clone(f.rosters.Members)
		c.swap(&members[c.victim].Keys)
		_, err := f.clients[0].Share(&protocol.Roster{Round: 1, Clients: attacked, Members: members}, serial{})
		culprit(t, err, theAggregator, c.rule)
	}
	// Two clients' keys under one another's names.
	f := standing(t, secagg.Active, protocol.StageAdvertise)
	m := slices.Clone(f.rosters.Members)
	m[1].Keys, m[2].Keys = m[2].Keys, m[1].Keys
	_, err := f.clients[0].Share(&protocol.Roster{Round: 1, Clients: attacked, Members: m}, serial{})
	culprit(t, err, theAggregator, secagg.ErrSignature)
}

// The aggregator drops a client whose keys it does not want, or enrols a client twice. The client
// sees that it is not on the roster, or that the roster is malformed.
func TestBadRosters(t *testing.T) {
	for name, c := range map[string]struct {
		change func([]protocol.Member) []protocol.Member
		rule   error
	}{
		"without this client": {func(m []protocol.Member) []protocol.Member { return m[1:] }, secagg.ErrKeys},
		"one twice":           {func(m []protocol.Member) []protocol.Member { m[9] = m[8]; return m }, secagg.ErrMalformed},
		"out of order":        {func(m []protocol.Member) []protocol.Member { m[8], m[9] = m[9], m[8]; return m }, secagg.ErrMalformed},
		"not enrolled":        {func(m []protocol.Member) []protocol.Member { m[9].Client = attacked; return m }, secagg.ErrMalformed},
		"too few":             {func(m []protocol.Member) []protocol.Member { return m[:7] }, secagg.ErrRoster},
		"nobody":              {func([]protocol.Member) []protocol.Member { return nil }, secagg.ErrRoster},
		"a key of low order": {func(m []protocol.Member) []protocol.Member {
			for i := range m[1:] {
				m[i+1].Keys.Channel = protocol.Key{}
			}
			return m
		}, secagg.ErrKeys},
	} {
		f := standing(t, secagg.SemiHonest, protocol.StageAdvertise)
		members := c.change(slices.Clone(f.rosters.Members))
		_, err := f.clients[0].Share(&protocol.Roster{Round: 1, Clients: len(members), Members: members}, serial{})
		if !errors.Is(err, c.rule) {
			t.Errorf("%s: %v, want %v", name, err, c.rule)
		}
		if _, err = f.clients[0].Share(f.rosters, serial{}); !errors.Is(err, secagg.ErrOrder) {
			t.Errorf("%s: after a bad roster the client shares: %v", name, err)
		}
	}
}

// The aggregator shows clients different sets of the clients whose shares arrived. They are in
// different sums: their masks do not cancel, and the sum is noise.
func TestDifferentRosters(t *testing.T) {
	f := standing(t, secagg.SemiHonest, protocol.StageShare)
	lied := *f.deliveries[0]
	lied.Arrived = slices.Clone(lied.Arrived)
	lied.Arrived[1] &^= 2 // client 9
	lied.Clients--
	lied.Shares = slices.DeleteFunc(slices.Clone(lied.Shares), func(s protocol.EncryptedShare) bool { return s.Peer == 9 })
	f.deliveries[0] = &lied
	for _, s := range []protocol.Stage{protocol.StageMaskedInput} {
		if err := f.stage(s); err != nil {
			t.Fatal(err)
		}
	}
	// It takes 9 for lost at the stage share; it will not unmask with it in U1.
	culprit(t, f.clients[0].Check(f.survivors, nil, serial{}), theAggregator, secagg.ErrSurvivors)
	f.lose(0, 1)
	if err := f.stage(protocol.StageUnmask); err != nil {
		t.Fatal(err)
	}
	got, err := f.aggregator.Sum(serial{})
	if want := f.sum(func(int) bool { return true }); err == nil && cmp.Equal(want[0], got[0]) {
		t.Errorf("clients of different rosters add up: %v", got)
	}
}

// A second masked input under the same masks would disclose the difference of
// the two; a second message of any stage is not heard.
func TestSecondMessages(t *testing.T) {
	for _, mode := range bothModes {
		f := small(t, mode)
		for _, s := range f.stages() {
			var sent protocol.Message
			if s != protocol.StageUnmask && s != protocol.StageConsistency { // which may be asked for again
				defer func(s protocol.Stage) {
					if _, err := f.answer(s, 0); !errors.Is(err, secagg.ErrOrder) {
						t.Errorf("%s: the stage %s is answered twice: %v", mode, s, err)
					}
				}(s)
			}
			for i := range f.clients {
				m, err := f.answer(s, i)
				if err != nil {
					t.Fatal(err)
				}
				if err = f.aggregator.Receive(protocol.ClientID(i), m.(protocol.StageMessage)); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					sent = m
					if s == protocol.StageMaskedInput {
						_, err = f.answer(s, 0)
						if !errors.Is(err, secagg.ErrOrder) {
							t.Errorf("%s: a second masked input: %v", mode, err)
						}
					}
				}
			}
			culprit(t, f.aggregator.Receive(0, sent.(protocol.StageMessage)), protocol.ClientParty(0), secagg.ErrOrder)
			if err := f.aggregator.Close(s); err != nil {
				t.Fatal(err)
			}
			f.next(s)
		}
		got, err := f.aggregator.Sum(serial{})
		if d := cmp.Diff(f.sum(func(int) bool { return true }), got); err != nil || d != "" {
			t.Errorf("%s: error %v, sum (-want +got):\n%s", mode, err, d)
		}
		if got, err = f.aggregator.Sum(serial{}); !errors.Is(err, secagg.ErrFinished) || got != nil {
			t.Errorf("%s: a second sum: %v, %v", mode, got, err)
		}
	}
}

// A client that was lost before cannot add a removal, or anything else, to a sum
// that it has no part in.
func TestRemovalOfAnRoundItLeft(t *testing.T) {
	f := standing(t, secagg.SemiHonest, protocol.StageShare)
	f.lose(9, 1)
	if err := f.stage(protocol.StageMaskedInput); err != nil {
		t.Fatal(err)
	}
	m, err := f.answer(protocol.StageUnmask, 0)
	if err != nil {
		t.Fatal(err)
	}
	culprit(t, f.aggregator.Receive(9, m.(*protocol.Unmask)), protocol.ClientParty(9), secagg.ErrOrder)
	culprit(t, f.aggregator.Receive(12, m.(*protocol.Unmask)), protocol.ClientParty(12), secagg.ErrOrder)
	stale := *m.(*protocol.Unmask)
	stale.Round = 0
	culprit(t, f.aggregator.Receive(0, &stale), protocol.ClientParty(0), secagg.ErrOrder)
}
