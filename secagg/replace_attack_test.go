package secagg_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/internal/secagg/shamir"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// The attacks on rounds that replace noise: there are two sums over the same clients, and a client
// may be in one and not in the other.

// smallReplacing is small with one release whose noise is replaced.
func smallReplacing(t *testing.T) *federation {
	t.Helper()
	f := newFederation(t, replacing(protocol.Cohort{Clients: attacked, Tolerance: 0.2, Colluders: 0.05}), secagg.Params{})
	f.change()
	return f
}

// answeredBut returns the clients that unmasked, without some.
func answeredBut(m *protocol.Answered, lost ...int) *protocol.Answered {
	u2 := without(&protocol.Survivors{U1: m.U2}, lost...).U1
	return &protocol.Answered{Round: m.Round, Count: u2.Count(), U2: u2}
}

// secretOf restores the secret of a client from the shares that others revealed.
func (f *federation) secretOf(id protocol.ClientID, revealed [][]protocol.RevealedShare) [32]byte {
	f.t.Helper()
	var holders []shamir.Index
	var shares []shamir.Share
	for holder, list := range revealed {
		for _, s := range list {
			if s.Of != id {
				continue
			}
			share, err := shamir.ParseShare(shamir.Index(holder+1), s.Share[:])
			if err != nil {
				f.t.Fatal(err)
			}
			holders, shares = append(holders, share.Holder), append(shares, share)
		}
	}
	t := f.choice().Threshold
	if len(shares) < t {
		f.t.Fatalf("%d shares of client %d are revealed, %d restore a secret", len(shares), id, t)
	}
	lagrange, err := shamir.NewLagrange(t, holders[:t])
	if err != nil {
		f.t.Fatal(err)
	}
	secret, err := lagrange.Combine(shares[:t])
	if err != nil {
		f.t.Fatal(err)
	}
	return secret.Bytes()
}

// revealed runs a round in which client 9 is lost at a stage, and returns the
// shares that the others revealed in the two sums.
func revealed(t *testing.T, lostAt protocol.Stage) (f *federation, of map[protocol.Stage][][]protocol.RevealedShare) {
	t.Helper()
	f = smallReplacing(t)
	of = make(map[protocol.Stage][][]protocol.RevealedShare)
	for _, s := range f.stages() {
		if s == lostAt {
			f.lose(9, 1)
		}
		if err := f.stage(s); err != nil {
			t.Fatal(err)
		}
		for i, c := range f.clients {
			if s == protocol.StageUnmask && f.alive[i] {
				m, err := c.Unmask(f.survivors, nil, serial{}) // the same answer once more
				if err != nil {
					t.Fatal(err)
				}
				of[s] = append(of[s], m.Shares)
			}
			if s == protocol.StageReplace && f.alive[i] {
				m, err := c.Replace(f.answered)
				if err != nil {
					t.Fatal(err)
				}
				of[s] = append(of[s], m.Shares)
			}
		}
	}
	return f, of
}

// Client 9 sends its input and falls silent. Its neighbours reveal its seed for the first sum and
// its key for the second, so a collector of the answers has a secret of both kinds. Seed and key of
// one sum would open its input. These open nothing: the four secrets are independent. The key of
// the second sum says nothing about the masks that client 9 has in common with others in the first,
// and in the second it has put none on. Should its answer still arrive, the answer is under its own
// mask, too.
func TestSecretsOfTheTwoSumsDiffer(t *testing.T) {
	secrets := make(map[string][32]byte)
	for _, c := range []struct {
		lostAt        protocol.Stage
		first, second string
	}{
		{protocol.Stages, "seed of the first", "seed of the second"},
		{protocol.StageUnmask, "seed of the first", "key of the second"},
		{protocol.StageMaskedInput, "key of the first", ""}, // no part in the second: nothing is revealed
	} {
		f, of := revealed(t, c.lostAt)
		for stage, name := range map[protocol.Stage]string{protocol.StageUnmask: c.first, protocol.StageReplace: c.second} {
			if name == "" {
				for holder, shares := range of[stage] {
					if slices.ContainsFunc(shares, func(s protocol.RevealedShare) bool { return s.Of == 9 }) {
						t.Errorf("lost at %s: client %d reveals a share of client 9 at %s", c.lostAt, holder, stage)
					}
				}
				continue
			}
			secret := f.secretOf(9, of[stage])
			if known, ok := secrets[name]; ok && known != secret {
				t.Errorf("lost at %s: another %s than before", c.lostAt, name)
			}
			secrets[name] = secret
		}
	}
	if len(secrets) != 4 {
		t.Fatalf("%d secrets are restored, want 4", len(secrets))
	}
	for a, x := range secrets {
		for b, y := range secrets {
			if a != b && x == y {
				t.Errorf("the %s sum is the %s", a, b)
			}
		}
	}
}

// The aggregator says of a client that it answered, and that it did not. It would then have both of
// the client's secrets of the second sum, and with them the change of its noise if that ever
// arrived. The client accepts the first set only, and its answer never changes.
func TestTwoAnsweredSetsForOneClient(t *testing.T) {
	f := smallReplacing(t)
	f.through(protocol.StageUnmask)
	c := f.clients[0]
	first, err := c.Replace(f.answered)
	if err != nil {
		t.Fatal(err)
	}
	miscounted := *f.answered
	miscounted.Count--
	for name, other := range map[string]*protocol.Answered{"another set": answeredBut(f.answered, 3), "another count": &miscounted} {
		m, refused := c.Replace(other)
		culprit(t, refused, theAggregator, secagg.ErrLocked)
		if m != nil {
			t.Errorf("%s was answered with %+v", name, m)
		}
	}
	again, err := c.Replace(f.answered)
	if err != nil || !cmp.Equal(first, again) {
		t.Errorf("the first set is answered anew: %v", err)
	}
	for i, s := range first.Shares[1:] {
		if s.Of <= first.Shares[i].Of {
			t.Errorf("a share of client %d is revealed after one of client %d", s.Of, first.Shares[i].Of)
		}
	}
	// Another set, shown first, makes the client reveal the other share of the missing client, and
	// no other client's.
	missing := first.Shares[2].Of
	twin := smallReplacing(t)
	twin.through(protocol.StageUnmask)
	other, err := twin.clients[0].Replace(answeredBut(twin.answered, int(missing)))
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range first.Shares {
		if same := s.Share == other.Shares[i].Share; same != (s.Of != missing) || s.Of != other.Shares[i].Of {
			t.Errorf("client %d shown to have answered or not reveals the same share: %t", s.Of, same)
		}
	}
}

// Sets that cannot be end the client's part: each would leave less noise in the
// second view than was charged, or open what a single client changed.
func TestImpossibleAnswered(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*protocol.Answered) *protocol.Answered
		rule   error
	}{
		"too few":             {func(m *protocol.Answered) *protocol.Answered { return answeredBut(m, 1, 2) }, secagg.ErrSurvivors},
		"without this client": {func(m *protocol.Answered) *protocol.Answered { return answeredBut(m, 0) }, secagg.ErrSurvivors},
		"a larger count":      {func(m *protocol.Answered) *protocol.Answered { m = answeredBut(m); m.Count++; return m }, secagg.ErrMalformed},
		"a smaller count":     {func(m *protocol.Answered) *protocol.Answered { m = answeredBut(m); m.Count--; return m }, secagg.ErrMalformed},
		"truncated": {func(m *protocol.Answered) *protocol.Answered {
			m = answeredBut(m)
			m.U2 = m.U2[:1]
			m.Count = 8
			return m
		}, secagg.ErrMalformed},
		"beyond the roster":   {func(m *protocol.Answered) *protocol.Answered { m = answeredBut(m); m.U2.Set(13); m.Count++; return m }, secagg.ErrMalformed},
		"nobody":              {func(*protocol.Answered) *protocol.Answered { return &protocol.Answered{Round: 1} }, secagg.ErrMalformed},
		"who did not survive": {func(m *protocol.Answered) *protocol.Answered { m = answeredBut(m); m.U2.Set(8); m.Count++; return m }, secagg.ErrSurvivors},
	} {
		f := smallReplacing(t)
		f.through(protocol.StageShare)
		f.lose(8, 1) // 9 survive; 8 must answer
		for _, s := range []protocol.Stage{protocol.StageMaskedInput, protocol.StageUnmask} {
			if err := f.stage(s); err != nil {
				t.Fatal(err)
			}
		}
		m, err := f.clients[0].Replace(c.change(f.answered))
		culprit(t, err, theAggregator, c.rule)
		if m != nil {
			t.Errorf("%s: answered with %+v", name, m)
		}
		if _, err = f.clients[0].Replace(f.answered); !errors.Is(err, secagg.ErrOrder) {
			t.Errorf("%s: after a lie the client goes on: %v", name, err)
		}
		if _, err = f.clients[1].Replace(answeredBut(f.answered, 2)); err != nil {
			t.Errorf("8 of 9, as many as are required: %v", err)
		}
	}
}

// The colluders alone, and one more: with c = ⌈γN⌉ and none to lose the number that
// is required is all that keeps what one client changed by apart from theirs.
func TestAnsweredAreMoreThanColluders(t *testing.T) {
	f := newFederation(t, replacing(protocol.Cohort{Clients: 10, Tolerance: 0.5, Colluders: 0.3}), secagg.Params{})
	f.change()
	f.through(protocol.StageUnmask)
	for left := range 10 {
		lost := make([]int, 0, 10)
		for i := left + 1; i < 10; i++ {
			lost = append(lost, i)
		}
		m := answeredBut(f.answered, lost...) // clients 0 to left
		_, err := f.clients[left].Replace(m)
		if want := m.Count >= 5; (err == nil) != want {
			t.Errorf("%d answered, 5 required and 3 collude: %v", m.Count, err)
		}
	}
}

// There is a time for it: not before the client has unmasked, and never where noise
// is not replaced.
func TestReplaceOutOfOrder(t *testing.T) {
	f := smallReplacing(t)
	for _, s := range []protocol.Stage{protocol.StageAdvertise, protocol.StageShare, protocol.StageMaskedInput} {
		if err := f.stage(s); err != nil {
			t.Fatal(err)
		}
		all := &protocol.Answered{Round: 1, Count: 10, U2: protocol.Bitmap{0xff, 3}}
		if m, err := f.clients[0].Replace(all); !errors.Is(err, secagg.ErrOrder) {
			t.Errorf("after %s: %+v, %v", s, m, err)
		}
	}
	plain := standing(t, secagg.SemiHonest, protocol.StageUnmask)
	if m, err := plain.clients[0].Replace(&protocol.Answered{Round: 1, Count: 10, U2: plain.survivors.U1}); !errors.Is(err, secagg.ErrOrder) {
		t.Errorf("of noise that is not replaced: %+v, %v", m, err)
	}
	culprit(t, plain.aggregator.Receive(0, &protocol.Replacement{Round: 1}), protocol.ClientParty(0), secagg.ErrOrder)
}

// A client that did not replace its noise has no say in who did, and no client has two.
func TestReplacementOfOthers(t *testing.T) {
	f := smallReplacing(t)
	f.through(protocol.StageMaskedInput)
	f.lose(9, 1)
	if err := f.stage(protocol.StageUnmask); err != nil {
		t.Fatal(err)
	}
	m, err := f.answer(protocol.StageReplace, 0)
	if err != nil {
		t.Fatal(err)
	}
	shares := m.(*protocol.Replacement)
	culprit(t, f.aggregator.Receive(9, shares), protocol.ClientParty(9), secagg.ErrOrder)
	if err = f.aggregator.Receive(0, shares); err != nil {
		t.Fatal(err)
	}
	culprit(t, f.aggregator.Receive(0, shares), protocol.ClientParty(0), secagg.ErrOrder)
}

// A client reveals its shares of the first sum's secrets in the place of the second's. In
// semi-honest mode no party can tell which client did, but no wrong sum comes out.
func TestSharesOfTheOtherSum(t *testing.T) {
	f := smallReplacing(t)
	f.through(protocol.StageUnmask)
	for i, c := range f.clients {
		m, err := c.Replace(f.answered)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			var of *protocol.Unmask
			if of, err = c.Unmask(f.survivors, nil, serial{}); err != nil {
				t.Fatal(err)
			}
			m = &protocol.Replacement{Round: 1, Shares: of.Shares}
		}
		if err = f.aggregator.Receive(protocol.ClientID(i), m); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.aggregator.Close(protocol.StageReplace); err != nil {
		t.Fatal(err)
	}
	got, err := f.aggregator.Sum(serial{})
	var lost *protocol.Unrecoverable
	if !errors.As(err, &lost) || lost.Left < lost.Required || got != nil {
		t.Errorf("the sum is %v, %v; want none and Unrecoverable", got, err)
	}
}

// The aggregator hides a survivor from a client that has no mask in common with it. The change of
// the client's noise is masked for the survivors that it was shown, and cancels with no other
// client's. The aggregator could have the sum of the inputs anyway, and learns no more about it.
func TestOtherSurvivorsForOneChange(t *testing.T) {
	f := smallReplacing(t)
	f.through(protocol.StageMaskedInput)
	stranger := slices.IndexFunc(f.clients[1:], func(c *secagg.Client) bool {
		i := protocol.ClientID(slices.Index(f.clients, c))
		return !slices.ContainsFunc(f.deliveries[0].Shares, func(s protocol.EncryptedShare) bool { return s.Peer == i })
	}) + 1
	if stranger == 0 {
		t.Fatal("client 0 has everybody for a neighbour")
	}
	shown := f.survivors
	for i := range f.clients {
		if f.survivors = shown; i == 0 {
			f.survivors = without(shown, stranger)
		}
		m, err := f.answer(protocol.StageUnmask, i)
		if err != nil {
			t.Fatal(err)
		}
		if err = f.aggregator.Receive(protocol.ClientID(i), m.(protocol.StageMessage)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.aggregator.Close(protocol.StageUnmask); err != nil {
		t.Fatal(err)
	}
	f.next(protocol.StageUnmask)
	_, err := f.answer(protocol.StageReplace, 0) // a client answered that this client was not shown
	culprit(t, err, theAggregator, secagg.ErrSurvivors)
	f.lose(0, 1)
	if err = f.stage(protocol.StageReplace); err != nil {
		t.Fatal(err)
	}
	got, err := f.aggregator.Sum(serial{})
	if err != nil {
		t.Fatal(err)
	}
	all := func(int) bool { return true }
	want := f.sumOf(all, all)
	if !cmp.Equal(want[0], got[0]) {
		t.Errorf("the sum of the inputs is %v, want %v", got[0], want[0])
	}
	for who, changed := range map[string]func(int) bool{"all": all, "the others": func(i int) bool { return i != 0 }, "nobody": func(int) bool { return false }} {
		if cmp.Equal(f.sumOf(all, changed)[1], got[1]) {
			t.Errorf("the noise of %s is replaced: %v", who, got[1])
		}
	}
}

// A client that was told noise is replaced, where others were told it is not, or the
// other way round, does not get far: its keys are none for them, nor theirs for it.
func TestReplacingForOneClient(t *testing.T) {
	for _, replaces := range []bool{false, true} {
		f, other := smallReplacing(t), small(t, secagg.SemiHonest)
		if !replaces {
			f, other = other, f
		}
		f.clients[0] = other.clients[0]
		m, err := f.answer(protocol.StageAdvertise, 0)
		if err != nil {
			t.Fatal(err)
		}
		culprit(t, f.aggregator.Receive(0, m.(*protocol.Advertise)), protocol.ClientParty(0), secagg.ErrMalformed)
		roster := &protocol.Roster{Round: 1, Clients: attacked, Members: []protocol.Member{{Keys: *m.(*protocol.Advertise).Keys}}}
		for i := 1; i < attacked; i++ {
			if m, err = f.answer(protocol.StageAdvertise, i); err != nil {
				t.Fatal(err)
			}
			roster.Members = append(roster.Members, protocol.Member{Client: protocol.ClientID(i), Keys: *m.(*protocol.Advertise).Keys})
		}
		f.rosters = roster
		for i := range 2 {
			_, err = f.answer(protocol.StageShare, i)
			culprit(t, err, theAggregator, secagg.ErrMalformed)
		}
		if err = f.clients[1].Begin(f.plan); !errors.Is(err, secagg.ErrPlan) { // it has one already
			t.Errorf("a second plan: %v", err)
		}
		c, err := f.party(0, 0).Join(other.plan.Setup())
		if err == nil {
			err = c.Begin(f.plan)
		}
		if !errors.Is(err, secagg.ErrPlan) {
			t.Errorf("a plan that replaces: %t, for a setup of the other kind: %v", replaces, err)
		}
	}
}

// The aggregator swaps a key for what noise changes by: a client knows its own.
func TestSwappedChangeKey(t *testing.T) {
	f := smallReplacing(t)
	f.through(protocol.StageAdvertise)
	members := slices.Clone(f.rosters.Members)
	other := *members[0].Keys.Change
	other[0] ^= 1
	members[0].Keys.Change = &other
	_, err := f.clients[0].Share(&protocol.Roster{Round: 1, Clients: attacked, Members: members}, serial{})
	culprit(t, err, theAggregator, secagg.ErrKeys)
}
