package protocol_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fedsim/fedsim/internal/protocol/codec"
	"github.com/fedsim/fedsim/internal/protocol/wire"
	"github.com/fedsim/fedsim/protocol"
)

// golden is testdata/golden.json, which testdata/golden.py writes without any
// library for protobuf.
type golden struct {
	Good []struct{ Title, Kind, Bytes, Frame string }
	Bad  []struct{ Title, Kind, Bytes, Rule, Field string }
}

func readGolden(t testing.TB) (g golden) {
	t.Helper()
	text, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	if err = json.Unmarshal(text, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func kindNamed(t testing.TB, word string) protocol.Kind {
	t.Helper()
	for k := range protocol.Kinds {
		if k.String() == word {
			return k
		}
	}
	t.Fatalf("there is no kind %q", word)
	return 0
}

// goldenLimits returns the limits that golden.py states.
func goldenLimits() wire.Limits {
	l := wire.Limits{Clients: 300, Neighbours: 4, Releases: 4}
	for k := range l.Bytes {
		l.Bytes[k], l.Inside[k] = 4096, 4096
	}
	return l
}

// sameBits compares floats by their bits: a NaN is itself, and -0 is not 0.
var sameBits = cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) })

func fill(n, first int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(first + i)
	}
	return b
}

// messages returns the messages of golden.json, by title.
func messages() map[string]protocol.Message {
	session := protocol.SessionID(fill(16, 1))
	cohort := protocol.Cohort{Clients: 300, Tolerance: 0.25, Colluders: 0.125}
	exact := protocol.Release{Name: "exact", Len: 1, L2: math.Copysign(0, -1), Scale: math.Inf(1)}
	plan := &protocol.Plan{
		Session: session, Round: 7, Phase: "item-gradient", Cohort: cohort,
		Releases: []protocol.Release{
			{Name: "V", Len: 200, L2: 2.5, LInf: 0.5, MaxNonZero: 20, Scale: 1024, Width: 29, Noise: protocol.Noise{Kind: protocol.Split, Variance: 1e6}},
			{Name: "counts", Len: 4, L2: 1, L1: 2, MaxNonZero: 4, Scale: 1, Width: 64,
				Noise: protocol.Noise{Kind: protocol.PartyNoise, Multiplier: 1.5, SamplingRate: 0.25, Steps: 8, Spread: true}},
			exact,
			{Name: "ξ", Len: math.MaxInt32, Noise: protocol.Noise{Kind: protocol.TwoRound, Variance: 3}},
		},
		Broadcast: []byte("model"), Signature: fill(64, 3),
	}
	small := &protocol.Plan{Session: session, Round: math.MaxUint64, Cohort: protocol.Cohort{Clients: 2}, Releases: []protocol.Release{exact}}
	local := &protocol.Plan{Session: session, Round: 3, Cohort: protocol.Cohort{Clients: 2},
		Releases: []protocol.Release{{Name: "g", Len: 8, Sensitivity: 0.75, Noise: protocol.Noise{Kind: protocol.LocalNoise, Variance: 9}}}}

	keys := protocol.Keys{Mask: protocol.Key(fill(32, 10)), Channel: protocol.Key(fill(32, 60))}
	replaced := keys
	replaced.Change = (*protocol.Key)(fill(32, 90))
	active := keys
	active.Signature = fill(64, 110)
	committed := &protocol.Commitments{Seed: protocol.Key(fill(32, 20)), Key: protocol.Key(fill(32, 30)), Signature: fill(64, 40)}
	shares := &protocol.Shares{Round: 9, SeedHash: protocol.Hash(fill(32, 70)), Shares: []protocol.EncryptedShare{
		{Peer: 0, Ciphertext: fill(80, 1)}, {Peer: 299, Ciphertext: fill(80, 2)}}}
	anewShares := &protocol.Shares{Round: 9, Anew: 1, SeedHash: shares.SeedHash, Shares: shares.Shares}
	activeShares := &protocol.Shares{Round: 300, SeedHash: protocol.Hash(fill(32, 70)), Shares: []protocol.EncryptedShare{
		{Peer: 127, Ciphertext: fill(80, 1), Committed: committed}, {Peer: 128, Ciphertext: fill(80, 2), Committed: committed}}}
	replacedShares := &protocol.Shares{Round: 10, Ahead: true, SeedHash: protocol.Hash(fill(32, 70)), ChangeHash: (*protocol.Hash)(fill(32, 80)),
		Shares: []protocol.EncryptedShare{{Peer: 4, Ciphertext: fill(144, 1)}}}
	delivery := &protocol.Delivery{Round: 9, Clients: 3, Arrived: protocol.Bitmap{0x81, 0x04},
		Shares: []protocol.EncryptedShare{{Peer: 5, Ciphertext: fill(80, 3)}}}
	roster := &protocol.Roster{Round: 9, Clients: 3, Members: []protocol.Member{{Keys: keys}, {Client: 127, Keys: keys}, {Client: 128, Keys: keys}}}
	ring := &protocol.Ring{Keys: protocol.Hash(fill(32, 120)), Start: 249, Proof: []protocol.Hash{protocol.Hash(fill(32, 130)), protocol.Hash(fill(32, 140))}}
	part := &protocol.Roster{Round: 9, Clients: 250, Members: roster.Members, Ring: ring}
	digest := (*protocol.Hash)(fill(32, 150))
	advertise := &protocol.Advertise{Round: 10, Keys: &keys}
	ahead := &protocol.Advertise{Round: 10, Ahead: true, Keys: &keys}
	revealed := []protocol.RevealedShare{{Share: [32]byte(fill(32, 8))}, {Of: 299, Share: [32]byte(fill(32, 9))}}
	masked := [][]byte{fill(3, 1), fill(200, 5)}
	// Of the bytes 1 to 38, in Python: sum(bin(i).count("1") for i in range(1, 39)).
	const survivors = 96

	out := map[string]protocol.Message{
		"open":                 &protocol.Open{Plan: plan},
		"open, of little":      &protocol.Open{Plan: small},
		"open, of local noise": &protocol.Open{Plan: local},
		"open, in turns": &protocol.Open{Plan: &protocol.Plan{Session: session, Round: 3, Releases: []protocol.Release{exact},
			Cohort: protocol.Cohort{Clients: 12, Tolerance: 0.25, Enrolled: 300, Goal: 10}}},
		"announce":                   &protocol.Announce{Plan: plan},
		"announce, set up ahead":     &protocol.Announce{Plan: small, Delivery: delivery},
		"announce, set up anew":      &protocol.Announce{Plan: small, Anew: 300},
		"invite":                     &protocol.Invite{Setup: protocol.Setup{Session: session, Round: 8, Cohort: cohort}},
		"invite, replaced":           &protocol.Invite{Setup: protocol.Setup{Session: session, Round: 8, Cohort: cohort, Replaces: true}},
		"advertise":                  advertise,
		"advertise, ahead, replaced": &protocol.Advertise{Round: 10, Ahead: true, Keys: &replaced},
		"advertise, anew":            &protocol.Advertise{Round: 10, Anew: 2, Keys: &keys},
		"advertise, active":          &protocol.Advertise{Round: 300, Keys: &active},
		"roster":                     roster,
		"roster, replaced":           &protocol.Roster{Round: 10, Clients: 2, Members: []protocol.Member{{Keys: replaced}, {Client: 7, Keys: replaced}}},
		"roster, active":             &protocol.Roster{Round: 1, Clients: 1, Members: []protocol.Member{{Client: 299, Keys: active}}},
		"roster, in part":            part,
		"shares":                     shares,
		"shares, ahead, replaced":    replacedShares,
		"shares, anew":               anewShares,
		"prepared":                   &protocol.Prepared{Round: 9},
		"prepared, anew":             &protocol.Prepared{Round: 9, Anew: 300},
		"prepared, accusing":         &protocol.Prepared{Round: 9, Accused: protocol.Bitmap{0x0a}},
		"proceed":                    &protocol.Proceed{Round: 9},
		"shares, active":             activeShares,
		"delivery":                   delivery,
		"delivery, of a part":        &protocol.Delivery{Round: 9, Clients: 240, Arrived: delivery.Arrived, Shares: delivery.Shares, Digest: digest},
		"masked-input":               &protocol.MaskedInput{Round: 9, Masked: masked},
		"masked-input, with complaints": &protocol.MaskedInput{Round: 9, Masked: masked, Complaints: []protocol.Complaint{
			{Of: 0, Secret: [32]byte(fill(32, 3))}, {Of: 299, Secret: [32]byte(fill(32, 4))}}},
		"masked-input, verified":            &protocol.MaskedInput{Round: 9, Masked: masked, Proof: fill(200, 7), Blindings: fill(96, 8)},
		"masked-input, with a head":         &protocol.MaskedInput{Round: 9, Masked: masked, Head: fill(104, 6)},
		"masked-input, next set up":         &protocol.MaskedInput{Round: 9, Masked: masked, Next: ahead},
		"survivors":                         &protocol.Survivors{Round: 9, Count: 2, U1: protocol.Bitmap{3}},
		"survivors, next set up":            &protocol.Survivors{Round: 8, Count: survivors, U1: fill(38, 1), Next: roster},
		"survivors, of a part, next set up": &protocol.Survivors{Round: 8, Count: 240, U1: protocol.Bitmap{3}, Next: part, Digest: digest},
		"consistency":                       &protocol.Consistency{Round: 9, Signature: fill(64, 5)},
		"quorum":                            &protocol.Quorum{Round: 9, Signatures: []protocol.Signed{{Signature: fill(64, 6)}, {Client: 2, Signature: fill(64, 7)}}},
		"unmask":                            &protocol.Unmask{Round: 9, Removed: [][]byte{fill(5, 6), nil}, Shares: revealed},
		"unmask, active, next set up": &protocol.Unmask{Round: 299, Removed: [][]byte{nil}, Next: activeShares,
			Shares: []protocol.RevealedShare{{Of: 3, Share: [32]byte(fill(32, 8))}}},
		"unmask, replaced, next set up":   &protocol.Unmask{Round: 9, Removed: [][]byte{masked[1], nil}, Shares: revealed[1:], Next: replacedShares},
		"answered":                        &protocol.Answered{Round: 9, Count: 3, U2: protocol.Bitmap{0x81, 0x04}},
		"answered, of a part":             &protocol.Answered{Round: 9, Count: 239, U2: protocol.Bitmap{0x81, 0x04}, Digest: digest},
		"replacement":                     &protocol.Replacement{Round: 9, Shares: revealed},
		"replacement, active":             &protocol.Replacement{Round: 300, Shares: []protocol.RevealedShare{{Of: 3, Share: [32]byte(fill(32, 8))}}},
		"refusal":                         &protocol.Refusal{Round: 300},
		"result":                          &protocol.Result{Round: 9, Survivors: 290, Answered: 5, Integers: [][]int64{{1, -2, 1 << 62}, {math.MinInt64, math.MaxInt64}}},
		"result, nobody answered":         &protocol.Result{Round: 9, Survivors: 1, Integers: [][]int64{{0}}},
		"abort, unrecoverable":            &protocol.Abort{Round: 9, Reason: &protocol.Unrecoverable{Round: 9, Client: 17, Left: 3, Required: 4}},
		"abort, unproved":                 &protocol.Abort{Round: 9, Reason: &protocol.Unproved{Round: 9}},
		"abort, dealt":                    &protocol.Abort{Round: 9, Reason: &protocol.Unrecoverable{Round: 9, Left: 4, Required: 4, Dealt: true}},
		"held":                            &protocol.Held{Round: 9, Connected: 3, Required: 200},
		"final":                           &protocol.Final{Model: []byte("the model")},
		"final, signed":                   &protocol.Final{Model: fill(300, 0), Signature: fill(64, 9)},
		"final, of a log":                 &protocol.Final{Model: []byte("m"), Signature: fill(64, 9), Receipt: []byte("{}")},
		"final, a receipt for the server": &protocol.Final{Receipt: []byte("{}")},
		"forward":                         &protocol.Forward{Client: 299, Message: shares},
		"forward, held":                   &protocol.Forward{Client: 3, Held: true, Message: &protocol.MaskedInput{Round: 9, Next: ahead}},
		"forward, held answer":            &protocol.Forward{Held: true, Message: &protocol.Unmask{Round: 9, Shares: revealed}},
		"forward, whole input":            &protocol.Forward{Message: &protocol.MaskedInput{Round: 9, Masked: masked}},
		"forward, opens":                  &protocol.Forward{Client: 7, Opens: true, Message: delivery},
		"forward, opens nothing else":     &protocol.Forward{Client: 7, Opens: true},
		"relay-ack":                       &protocol.RelayAck{Round: 9, Stage: protocol.StageMaskedInput, Client: 299},
		"counted, an answer":              &protocol.RelayAck{Round: 9, Stage: protocol.StageUnmask},
		"relay-collect":                   &protocol.RelayCollect{Round: 300, Stage: protocol.StageMaskedInput},
		"partial":                         &protocol.Partial{Round: 9, Stage: protocol.StageUnmask, Clients: protocol.Bitmap{0x81, 0x04}, Sums: [][]byte{masked[1], nil}},
		"relay-status":                    &protocol.RelayStatus{Client: 299, Connected: true, Incarnation: protocol.IncarnationID(fill(16, 7))},
		"relay-status, gone":              &protocol.RelayStatus{Client: 1},
		"relay-status, first client gone": &protocol.RelayStatus{},
	}
	for i, s := range []protocol.Stage{protocol.StageAdvertise, protocol.StageShare, protocol.StagePrepared, protocol.StageMaskedInput, protocol.StageConsistency, protocol.StageUnmask, protocol.StageReplace} {
		out["abort, "+s.String()] = &protocol.Abort{Round: 9, Reason: &protocol.TooFew{Round: 9, Stage: s, Left: i, Required: 200}}
	}
	return out
}

// Every kind of message, in each of its forms, decodes from the bytes that were
// written by hand and encodes to them, alone and in its frame, and takes as many
// bytes as it says.
func TestGolden(t *testing.T) {
	want, seen := messages(), make(map[protocol.Kind]bool)
	g := readGolden(t)
	if len(g.Good) != len(want) {
		t.Fatalf("%d messages in golden.json, %d here", len(g.Good), len(want))
	}
	for _, c := range g.Good {
		m, kind, b := want[c.Title], kindNamed(t, c.Kind), unhex(t, c.Bytes)
		if m == nil || m.Kind() != kind {
			t.Errorf("%s: no message of kind %s here", c.Title, kind)
			continue
		}
		seen[kind] = true
		got, err := wire.Unmarshal(kind, b, goldenLimits())
		if err != nil {
			t.Errorf("%s: %v", c.Title, err)
		} else if d := cmp.Diff(m, got, sameBits); d != "" {
			t.Errorf("%s is decoded wrongly (-want +got):\n%s", c.Title, d)
		}
		if got, err := wire.Marshal(m); err != nil || !bytes.Equal(got, b) {
			t.Errorf("%s is encoded as\n%x, %v; want\n%x", c.Title, got, err, b)
		}
		frame := unhex(t, c.Frame)
		if got, err := wire.AppendFrames([]byte("x"), m); err != nil || !bytes.Equal(got[1:], frame) || got[0] != 'x' {
			t.Errorf("%s is framed as\n%x, %v; want\n%x", c.Title, got[1:], err, frame)
		}
		if got, err := wire.NewReader(bytes.NewReader(frame), goldenLimits()).Read(); err != nil || !cmp.Equal(m, got, sameBits) {
			t.Errorf("%s is read from its frame as %v, %v", c.Title, got, err)
		}
		if protocol.Size(m) != len(frame) {
			t.Errorf("%s: says that it takes %d bytes, and takes %d", c.Title, protocol.Size(m), len(frame))
		}
	}
	if len(seen) != int(protocol.Kinds) {
		t.Errorf("golden.json has %d kinds of %d", len(seen), protocol.Kinds)
	}
}

// A message that is malformed, incomplete, out of range or too long is refused, with the rule and
// the field that golden.py states.
func TestRefused(t *testing.T) {
	rules := map[string]error{"syntax": codec.ErrSyntax, "value": codec.ErrValue, "limit": codec.ErrLimit}
	for _, c := range readGolden(t).Bad {
		kind := kindNamed(t, c.Kind)
		m, err := wire.Unmarshal(kind, unhex(t, c.Bytes), goldenLimits())
		field, ok := errors.AsType[*wire.FieldError](err)
		if m != nil || !ok || !errors.Is(err, rules[c.Rule]) || field.Kind != kind || field.Field != c.Field {
			t.Errorf("%s: %v, %v; want the rule %s broken in field %q", c.Title, m, err, c.Rule, c.Field)
		}
	}
}
