package protocol_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/internal/protocol/wire"
	"github.com/fedsim/fedsim/protocol"
)

// limitedPlan removes nothing: all of its ten clients are required.
func limitedPlan() *protocol.Plan {
	return &protocol.Plan{Phase: "train", Cohort: protocol.Cohort{Clients: 10}, Releases: []protocol.Release{
		{Name: "V", Len: 1000, Width: 20, Noise: protocol.Noise{Kind: protocol.Split, Variance: 100}},
		{Name: "counts", Len: 5, Width: 16, Noise: protocol.Noise{Kind: protocol.PartyNoise}},
	}}
}

// The formulas of LimitsFor, worked out by hand; a removal of nothing takes a bit a
// coordinate and a byte.
func TestLimitsFor(t *testing.T) {
	const (
		plan   = 256 + 5 + 8000 + (128 + 1) + (128 + 6)
		shares = 256 + 228*9
		roster = 256 + 146*10
	)
	want := wire.Limits{Clients: 10, Neighbours: 9, Releases: 2, Bytes: [protocol.Kinds]int{
		protocol.KindOpen:         256 + plan,
		protocol.KindAnnounce:     256 + plan + 2 + shares,
		protocol.KindInvite:       256,
		protocol.KindAdvertise:    256,
		protocol.KindRoster:       roster,
		protocol.KindShares:       shares,
		protocol.KindDelivery:     2 + shares,
		protocol.KindPrepared:     256,
		protocol.KindProceed:      256,
		protocol.KindMaskedInput:  256 + (2500 + 10) + 2*16 + 42*9 + 256,
		protocol.KindSurvivors:    256 + 2 + roster,
		protocol.KindConsistency:  256,
		protocol.KindQuorum:       256 + 74*10,
		protocol.KindUnmask:       256 + 42*9 + (126 + 126/8) + 2*80 + shares,
		protocol.KindAnswered:     256 + 2,
		protocol.KindReplacement:  256 + 42*9,
		protocol.KindRefusal:      256,
		protocol.KindResult:       256 + 8*1005 + 2*16,
		protocol.KindAbort:        256,
		protocol.KindHeld:         256,
		protocol.KindFinal:        256 + 8000 + 96<<10,                           // with the receipt of a log
		protocol.KindForward:      256 + (256 + (2500 + 10) + 2*16 + 42*9 + 256), // the masked input is the longest
		protocol.KindRelayAck:     256,
		protocol.KindRelayCollect: 256,
		protocol.KindPartial:      256 + 2 + (2500 + 10) + 2*16,
		protocol.KindRelayStatus:  256,
	}}
	// A forwarded message has the same limits as elsewhere, and messages of relays themselves are
	// not forwarded.
	want.Inside = want.Bytes
	for k := protocol.KindForward; k < protocol.Kinds; k++ {
		want.Inside[k] = 0
	}
	s := wire.Session{Plans: []*protocol.Plan{limitedPlan()}, Neighbours: 9, Model: 8000}
	if d := gocmp.Diff(want, wire.LimitsFor(s)); d != "" {
		t.Errorf("limits (-want +got):\n%s", d)
	}
	// Plans of two forms: what either needs.
	other := limitedPlan()
	other.Phase, other.Releases = "weights", other.Releases[1:]
	other.Releases[0].Len = 2000
	s.Plans = append(s.Plans, other)
	want.Bytes[protocol.KindMaskedInput] = 256 + 4000 + 16 + 42*9 + 256
	want.Bytes[protocol.KindResult] = 256 + 8*2000 + 16
	want.Inside[protocol.KindMaskedInput], want.Inside[protocol.KindResult] = want.Bytes[protocol.KindMaskedInput], want.Bytes[protocol.KindResult]
	want.Bytes[protocol.KindForward] = 256 + want.Bytes[protocol.KindMaskedInput]
	want.Bytes[protocol.KindPartial] = 256 + 2 + 4000 + 16
	if d := gocmp.Diff(want, wire.LimitsFor(s)); d != "" {
		t.Errorf("limits of plans of two forms (-want +got):\n%s", d)
	}
	// Proofs about inputs.
	s.Proof = 777
	for _, k := range []protocol.Kind{protocol.KindMaskedInput, protocol.KindForward} {
		want.Bytes[k] += 777
	}
	want.Inside[protocol.KindMaskedInput] += 777
	if d := gocmp.Diff(want, wire.LimitsFor(s)); d != "" {
		t.Errorf("limits where inputs are verified (-want +got):\n%s", d)
	}
}

// Before anything is known, no client and no list is taken, and nothing that is long.
func TestLimitsOfNothing(t *testing.T) {
	l := wire.LimitsFor(wire.Session{})
	for k, n := range l.Bytes {
		if n < 256 || n > 1024 {
			t.Errorf("%s: %d bytes", protocol.Kind(k), n)
		}
	}
	if l.Clients != 0 || l.Neighbours != 0 || l.Releases != 0 {
		t.Errorf("limits of nothing: %+v", l)
	}
}

// From the chart in package protocol's documentation.
func TestBetween(t *testing.T) {
	s, a, c, r := protocol.Server, protocol.Aggregator, protocol.Client, protocol.Relay
	answers := []protocol.Kind{protocol.KindAdvertise, protocol.KindShares, protocol.KindPrepared, protocol.KindMaskedInput, protocol.KindConsistency, protocol.KindUnmask, protocol.KindReplacement, protocol.KindRefusal}
	openings := []protocol.Kind{protocol.KindAnnounce, protocol.KindInvite, protocol.KindRoster, protocol.KindDelivery,
		protocol.KindProceed, protocol.KindSurvivors, protocol.KindQuorum, protocol.KindAnswered, protocol.KindFinal}
	for _, x := range []struct {
		from, to protocol.Role
		kinds    []protocol.Kind
		inside   []protocol.Kind
	}{
		{s, a, []protocol.Kind{protocol.KindOpen, protocol.KindFinal}, nil},
		{a, s, []protocol.Kind{protocol.KindResult, protocol.KindAbort, protocol.KindHeld, protocol.KindFinal}, nil},
		{a, c, openings, nil},
		{c, a, answers, nil},
		{a, r, []protocol.Kind{protocol.KindAnnounce, protocol.KindFinal, protocol.KindForward, protocol.KindRelayAck, protocol.KindRelayCollect}, openings},
		{r, a, []protocol.Kind{protocol.KindForward, protocol.KindPartial, protocol.KindRelayStatus}, answers},
		{s, c, nil, nil}, {c, s, nil, nil}, {c, c, nil, nil}, {a, a, nil, nil}, {r, s, nil, nil}, {s, r, nil, nil},
	} {
		all := goldenLimits()
		want := all
		want.Bytes, want.Inside = [protocol.Kinds]int{}, [protocol.Kinds]int{}
		for _, k := range x.kinds {
			want.Bytes[k] = all.Bytes[k]
		}
		for _, k := range x.inside {
			want.Inside[k] = all.Inside[k]
		}
		if d := gocmp.Diff(want, all.Between(x.from, x.to)); d != "" {
			t.Errorf("from %s to %s (-want +got):\n%s", x.from, x.to, d)
		}
	}
}

// largest returns the longest honest messages of n clients, all of them neighbours, that the plan
// allows: with the largest numbers, in active mode, and in semi-honest mode if noise is replaced.
func largest(p *protocol.Plan) []protocol.Message {
	const (
		it   = math.MaxUint64
		anew = math.MaxUint32
	)
	n := p.Cohort.Clients
	key, sig := protocol.Key(fill(32, 1)), fill(64, 1)
	keys := protocol.Keys{Mask: key, Channel: key, Signature: sig}
	sealed := protocol.EncryptedShare{Ciphertext: fill(80, 1), Committed: &protocol.Commitments{Signature: sig}}
	changeHash := (*protocol.Hash)(nil)
	if p.Setup().Replaces {
		keys = protocol.Keys{Mask: key, Channel: key, Change: &key}
		sealed = protocol.EncryptedShare{Ciphertext: fill(144, 1)}
		changeHash = new(protocol.Hash)
	}
	bitmap := protocol.NewBitmap(n)
	roster := &protocol.Roster{Round: it, Clients: n}
	shares := &protocol.Shares{Round: it, Ahead: true, Anew: anew, ChangeHash: changeHash}
	quorum := &protocol.Quorum{Round: it}
	unmask := &protocol.Unmask{Round: it, Next: shares}
	masked := &protocol.MaskedInput{Round: it, Next: &protocol.Advertise{Round: it, Ahead: true, Anew: anew, Keys: &keys}}
	result := &protocol.Result{Round: it, Survivors: n, Answered: n}
	for i := range n {
		id := protocol.ClientID(i)
		bitmap.Set(i)
		roster.Members = append(roster.Members, protocol.Member{Client: id, Keys: keys})
		quorum.Signatures = append(quorum.Signatures, protocol.Signed{Client: id, Signature: sig})
		if i > 0 { // a client is no neighbour of its own
			sealed.Peer = id
			shares.Shares = append(shares.Shares, sealed)
			unmask.Shares = append(unmask.Shares, protocol.RevealedShare{Of: id})
			masked.Complaints = append(masked.Complaints, protocol.Complaint{Of: id})
		}
	}
	for _, r := range p.Releases {
		packed := make([]byte, (r.Len*int(r.Width)+7)/8)
		masked.Masked = append(masked.Masked, packed)
		result.Integers = append(result.Integers, make([]int64, r.Len))
		var removed []byte
		switch r.Noise.Kind {
		case protocol.Split:
			removed = protocol.AppendRemoval(nil, make([]int64, r.Len))
		case protocol.TwoRound:
			removed = packed
		default: // there is no noise to remove
		}
		unmask.Removed = append(unmask.Removed, removed)
	}
	delivery := &protocol.Delivery{Round: it, Clients: n, Arrived: bitmap, Shares: shares.Shares}
	return []protocol.Message{
		&protocol.Open{Plan: p}, &protocol.Announce{Plan: p, Delivery: delivery, Anew: anew}, &protocol.Invite{Setup: p.Setup()},
		masked.Next, roster, shares, delivery, &protocol.Prepared{Round: it, Anew: anew, Accused: bitmap}, &protocol.Proceed{Round: it}, masked, &protocol.Survivors{Round: it, Count: n, U1: bitmap, Next: roster},
		&protocol.Consistency{Round: it, Signature: sig}, quorum, unmask,
		&protocol.Answered{Round: it, Count: n, U2: bitmap}, &protocol.Replacement{Round: it, Shares: unmask.Shares}, &protocol.Refusal{Round: it}, result,
		&protocol.Abort{Round: it, Reason: &protocol.Unrecoverable{Round: it, Client: protocol.ClientID(n - 1), Left: n, Required: n, Dealt: true}},
		&protocol.Held{Round: it, Connected: n, Required: n}, &protocol.Final{Model: p.Broadcast, Signature: sig, Receipt: make([]byte, protocol.MaxReceipt)},
		&protocol.Forward{Client: protocol.ClientID(n - 1), Message: longest(masked, unmask, roster)},
		&protocol.RelayAck{Round: it, Stage: protocol.StageUnmask, Client: protocol.ClientID(n - 1)}, &protocol.RelayCollect{Round: it, Stage: protocol.StageUnmask},
		&protocol.Partial{Round: it, Stage: protocol.StageUnmask, Clients: bitmap, Sums: masked.Masked},
		&protocol.RelayStatus{Client: protocol.ClientID(n - 1), Connected: true},
	}
}

// longest is the message that takes the most bytes.
func longest(list ...protocol.Message) protocol.Message {
	return slices.MaxFunc(list, func(a, b protocol.Message) int { return cmp.Compare(protocol.Size(a), protocol.Size(b)) })
}

// Every message of honest parties is accepted, whether noise is split or replaced. In active mode
// the limits are at most 1024 bytes and a seventh above the longest.
func TestLargestMessagesFit(t *testing.T) {
	for _, n := range []int{2, 9, 300} {
		for _, kind := range []protocol.NoiseKind{protocol.PartyNoise, protocol.TwoRound} {
			p := limitedPlan()
			p.Cohort = protocol.Cohort{Clients: n, Colluders: 0.1}
			p.Round, p.Broadcast, p.Signature = math.MaxUint64, make([]byte, 8000), fill(64, 1)
			p.Releases[1].Noise = protocol.Noise{Kind: kind, Variance: 1}
			for i := range p.Releases {
				r := &p.Releases[i]
				r.L2, r.L1, r.LInf, r.MaxNonZero, r.Scale = 1, 1, 1, r.Len, 1
				r.Noise.Multiplier, r.Noise.SamplingRate, r.Noise.Steps, r.Noise.Spread = 1, 1, math.MaxInt32, true
			}
			l := wire.LimitsFor(wire.Session{Plans: []*protocol.Plan{p}, Neighbours: n - 1, Model: len(p.Broadcast)})
			sent := make(map[protocol.Kind]bool)
			for _, m := range largest(p) {
				sent[m.Kind()] = true
				b, err := wire.Marshal(m)
				if err != nil {
					t.Fatal(err)
				}
				if _, err = wire.Unmarshal(m.Kind(), b, l); err != nil {
					t.Errorf("%d clients, noise %s: %v", n, kind, err)
				}
				if most := l.Bytes[m.Kind()]; kind != protocol.TwoRound && most > 1024+len(b)*8/7 {
					t.Errorf("%d clients: %s of %d bytes, %d are taken", n, m.Kind(), len(b), most)
				}
			}
			if len(sent) != int(protocol.Kinds) {
				t.Fatalf("%d kinds were sent, there are %d", len(sent), protocol.Kinds)
			}
		}
	}
}

// An entry of a list takes no more than the limits are computed from, however
// large the numbers: what a message with one more of them takes more.
func TestEntrySizes(t *testing.T) {
	const last = math.MaxUint32 - 1
	keys := protocol.Keys{Signature: fill(64, 0)}
	member := protocol.Member{Client: last, Keys: keys}
	sealed := protocol.EncryptedShare{Peer: last, Ciphertext: fill(80, 0), Committed: &protocol.Commitments{Signature: fill(64, 0)}}
	revealed := protocol.RevealedShare{Of: last}
	signed := protocol.Signed{Client: last, Signature: fill(64, 0)}
	for _, c := range []struct {
		name      string
		one, none protocol.Message
		want      int
	}{
		{"member", &protocol.Roster{Members: []protocol.Member{member}}, &protocol.Roster{}, 146},
		{"sealed", &protocol.Delivery{Shares: []protocol.EncryptedShare{sealed}}, &protocol.Delivery{}, 228},
		{"revealed", &protocol.Unmask{Shares: []protocol.RevealedShare{revealed}}, &protocol.Unmask{}, 42},
		{"complaint", &protocol.MaskedInput{Complaints: []protocol.Complaint{{Of: last}}}, &protocol.MaskedInput{}, 42},
		{"signed", &protocol.Quorum{Signatures: []protocol.Signed{signed}}, &protocol.Quorum{}, 74},
	} {
		if got := protocol.Size(c.one) - protocol.Size(c.none); got != c.want {
			t.Errorf("%s: %d bytes, the limits take it for %d", c.name, got, c.want)
		}
	}
}

// Drawn removals fit. math/rand's normal variates, rounded, stand in for what is
// thinned away; with half of the clients lost at most, that has the variance V/N.
func TestRemovalsFit(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, length := range []int{1, 20, 1000, 50000} {
		for _, sigma := range []float64{0.3, 1, 10, 1e6} {
			p := &protocol.Plan{Cohort: protocol.Cohort{Clients: 100, Tolerance: 0.5},
				Releases: []protocol.Release{{Name: "V", Len: length, Width: 40, Noise: protocol.Noise{Kind: protocol.Split, Variance: 100 * sigma * sigma}}}}
			// The room for removals: the rest of an answer is at most as long as an answer of
			// clients that remove nothing.
			bare := *p
			bare.Cohort.Tolerance = 0
			room := func(p *protocol.Plan) int {
				return wire.LimitsFor(wire.Session{Plans: []*protocol.Plan{p}}).Bytes[protocol.KindUnmask]
			}
			nothing := 1 + (length+7)/8
			most := room(p) - room(&bare) + nothing + nothing/8 + 64
			for range 20 {
				values := make([]int64, length)
				for i := range values {
					values[i] = int64(math.Round(sigma * rng.NormFloat64()))
				}
				if got := len(protocol.AppendRemoval(nil, values)); got > most || most > 64+got*5/4+got/4+1 {
					t.Errorf("%d values of deviation %v: %d bytes, room for %d", length, sigma, got, most)
				}
			}
		}
	}
}
