package secagg_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg"
)

// crowdScene holds the messages that a client of a crowd is shown at each stage, and the client
// before it.
type crowdScene struct {
	*crowd
	self    protocol.ClientID
	clients map[protocol.Stage]*secagg.Client
	shown   map[protocol.Stage]protocol.Message
	said    map[protocol.Stage]protocol.Message
}

// newCrowdScene is of a sum without loss whose noise is replaced: that has all stages in which
// clients are shown sets.
func newCrowdScene(t testing.TB) *crowdScene {
	t.Helper()
	s := &crowdScene{crowd: newThinCrowd(t, protocol.TwoRound), self: 7, clients: make(map[protocol.Stage]*secagg.Client),
		shown: make(map[protocol.Stage]protocol.Message), said: make(map[protocol.Stage]protocol.Message)}
	for _, stage := range s.stages() {
		s.clients[stage], s.shown[stage] = s.crowd.clients[s.self].Fork(), s.inbox[s.self]
		m, err := s.crowd.answerOf(s.crowd.clients[s.self].Fork(), int(s.self))
		if err != nil {
			t.Fatal(err)
		}
		s.said[stage] = m
		s.stage(stage)
	}
	return s
}

// possible says what is wrong with a set that a client took, of those it was told of before.
func (s *crowdScene) possible(set, before protocol.Bitmap, count, countBefore int) error {
	switch known := set.Count(); {
	case !set.Fits(len(s.shown[protocol.StageShare].(*protocol.Roster).Members)), !set.Has(s.place()), !set.Subset(before):
		return errors.New("it cannot be")
	case count > countBefore, count-known > countBefore-before.Count(), count < s.plan.Cohort.Required(), count < known:
		return errors.New("there cannot be so many")
	}
	return nil
}

// place is the client's place on its part of the roster.
func (s *crowdScene) place() int {
	return slices.IndexFunc(s.shown[protocol.StageShare].(*protocol.Roster).Members, func(m protocol.Member) bool { return m.Client == s.self })
}

// FuzzParts: messages to a client of a large federation. A roster is accepted if it is the client's
// part of a ring of a possible size, with its own keys. A delivery is accepted if it has all the
// shares of neighbours that are said to have dealt some. Its masks are the masks of the genuine
// delivery only with the same set, weight and hash. Survivors and the clients that answered are
// accepted if they are possible among the clients before them. Every other message is refused with
// a named party, and ends the client's part.
func FuzzParts(f *testing.F) {
	s := newCrowdScene(f)
	for stage := range uint8(4) {
		for field := range uint8(5) {
			f.Add(stage, []byte{field, 1})                   // numbers grow by 1, bytes and the ring go
			f.Add(stage, []byte{field, 0xff})                // or shrink
			f.Add(stage, []byte{field, 0, 0, 0, 0, 0, 0, 9}) // huge
			f.Add(stage, []byte{field, 1, 1, 3, 1, 1, 1, 1}) // inside
			f.Add(stage, []byte{field, 3, 4, 7, 0, 1})
			f.Add(stage, []byte{field, 0, 3})
		}
		f.Add(stage, []byte{})
	}
	for _, ring := range [][]byte{{0, 5, 1}, {1, 1}, {1, 0xff}, {1, 0, 0, 0, 0, 0, 0, 0, 0, 0x80}, {2, 0, 0}, {2, 0, 1}, {2, 3, 3}, {2, 3, 4}, {2, 3, 6, 1}, {2, 3, 7, 9, 1}} {
		f.Add(uint8(0), append([]byte{3, 1}, ring...))
	}
	f.Fuzz(func(t *testing.T, number uint8, script []byte) {
		stage := s.stages()[1:][number%4]
		c := s.clients[stage].Fork()
		bad := spoil(s.shown[stage], script)
		m, err := s.show(c, bad)
		if err != nil {
			few, named := errors.AsType[*protocol.TooFew](err)
			if _, ok := errors.AsType[*secagg.Fault](err); !ok && (!named || few.Left >= few.Required) {
				t.Fatalf("%s: %v names nobody", stage, err)
			}
			if _, err = s.show(c, s.shown[stage]); !errors.Is(err, secagg.ErrOrder) {
				t.Fatalf("%s: after what is no good: %v, want no answer at all", stage, err)
			}
			return
		}
		s.accepted(t, bad, m)
	})
}

// show has a client answer.
func (s *crowdScene) show(c *secagg.Client, m protocol.Message) (protocol.Message, error) {
	s.inbox[s.self] = m
	return s.answerOf(c, int(s.self))
}

// accepted checks what was answered, and the answer.
func (s *crowdScene) accepted(t *testing.T, shown, said protocol.Message) {
	t.Helper()
	var err error
	switch m := shown.(type) {
	case *protocol.Roster:
		genuine := s.shown[protocol.StageShare].(*protocol.Roster)
		ids := make([]protocol.ClientID, 0, len(m.Members))
		for _, x := range m.Members {
			ids = append(ids, x.Client)
		}
		i := slices.Index(ids, s.self)
		if m.Ring == nil || m.Clients < s.plan.Cohort.Required() || m.Clients > crowdSize || i < 0 || !slices.IsSorted(ids) ||
			len(slices.Compact(slices.Clone(ids))) != len(ids) || !cmp.Equal(keys(m.Members[i]), keys(genuine.Members[s.place()])) {
			t.Fatalf("a roster of %d of %d clients is taken", ids, m.Clients)
		}
		var peers []protocol.ClientID
		for _, share := range said.(*protocol.Shares).Shares {
			peers = append(peers, share.Peer)
		}
		if ids = slices.Delete(ids, i, i+1); !slices.Equal(peers, ids) {
			t.Errorf("shares are dealt to %d, of a part of %d", peers, ids)
		}
	case *protocol.Delivery:
		genuine := s.shown[protocol.StageMaskedInput].(*protocol.Delivery)
		all := protocol.NewBitmap(len(genuine.Shares) + 1)
		for i := range len(genuine.Shares) + 1 {
			all.Set(i)
		}
		err = s.possible(m.Arrived, all, m.Clients, came)
		same := cmp.Equal(m.Arrived, genuine.Arrived) && m.Clients == genuine.Clients && cmp.Equal(m.Digest, genuine.Digest)
		if masked := cmp.Equal(said.(*protocol.MaskedInput).Masked, s.said[protocol.StageMaskedInput].(*protocol.MaskedInput).Masked); masked != same {
			t.Errorf("the masks are the genuine ones: %t; what the client was told is genuine: %t", masked, same)
		}
	case *protocol.Survivors:
		d := s.shown[protocol.StageMaskedInput].(*protocol.Delivery)
		err = s.possible(m.U1, d.Arrived, m.Count, d.Clients)
	case *protocol.Answered:
		u1 := s.shown[protocol.StageUnmask].(*protocol.Survivors)
		err = s.possible(m.U2, u1.U1, m.Count, u1.Count)
	}
	if err != nil {
		t.Errorf("%T: %v", shown, err)
	}
}

// keys returns a member's keys; in semi-honest mode there is no signature over them.
func keys(m protocol.Member) protocol.Keys {
	m.Keys.Signature = nil
	return m.Keys
}
