package protocol_test

import (
	"testing"

	"github.com/fedsim/fedsim/protocol"
)

// By hand from the description of protobuf's encoding: a tag is a byte, a number
// below 128 another and one below 16384 two, a float eight; bytes stand behind
// their number; nothing stands for zero. The golden bytes of package wire say the
// same of whole messages.
func TestSizes(t *testing.T) {
	const (
		header = 5         // of a frame: kind, 4 bytes of length
		it     = 2         // a round below 128
		it300  = 3         // one above
		flag   = 2         // that is set
		client = 2         // a client from 1 to 127
		key    = 2 + 32    // and a hash, and a share
		sig    = 2 + 64    // a signature
		keys   = 2 + 2*key // two keys as a message
		signed = 3 + 2*key + sig
		member = 2 + client + keys
		cohort = 2 + 3 + 9 // of 300 clients, with a tolerance
	)
	const session = 2 + 16
	release := protocol.Release{Name: "ab", Len: 200, L2: 1, MaxNonZero: 5, Scale: 2, Width: 20, Noise: protocol.Noise{Kind: protocol.Split, Variance: 3}}
	const releaseSize = 2 + (2 + 2) + 3 + 9 + 2 + 9 + 2 + (2 + 2 + 9)
	p := &protocol.Plan{Round: 300, Phase: "add", Cohort: protocol.Cohort{Clients: 300, Tolerance: 0.5}, Releases: []protocol.Release{release, release}}
	const plan = session + it300 + (2 + 3) + cohort + 2*releaseSize // 128 bytes: their number takes two
	own := protocol.Noise{Kind: protocol.PartyNoise, Multiplier: 1, SamplingRate: 0.5, Steps: 3, Spread: true}
	signedPlan := &protocol.Plan{Broadcast: make([]byte, 1000), Signature: make([]byte, 64), Releases: []protocol.Release{{L1: 1, LInf: 1, Noise: own}}}
	const signedPlanSize = session + 2 + (3 + 1000) + sig + (2 + 9 + 9 + (2 + 2 + 9 + 9 + 2 + 2))
	sealed := protocol.EncryptedShare{Peer: 7, Ciphertext: make([]byte, 80)}
	const sealedSize = 2 + client + (2 + 80)
	committed := protocol.EncryptedShare{Peer: 200, Ciphertext: make([]byte, 80), Committed: &protocol.Commitments{Signature: make([]byte, 64)}}
	const committedSize = 3 + (client + 1) + (2 + 80) + signed
	for i, c := range []struct {
		m    protocol.Message
		want int
	}{
		{&protocol.Open{Plan: p}, header + 3 + plan},
		{&protocol.Open{Plan: signedPlan}, header + 3 + signedPlanSize},
		{&protocol.Announce{Plan: p}, header + 3 + plan},
		{&protocol.Announce{Plan: p, Delivery: &protocol.Delivery{Round: 9, Arrived: protocol.NewBitmap(9)}}, header + 3 + plan + 2 + it + (2 + 2)},
		{&protocol.Announce{Plan: p, Anew: 1}, header + 3 + plan + 2},
		{&protocol.Invite{Setup: p.Setup()}, header + session + it300 + cohort},
		{&protocol.Invite{Setup: protocol.Setup{Round: 9, Cohort: p.Cohort, Replaces: true}}, header + session + it + cohort + flag},
		{&protocol.Advertise{Round: 300, Keys: &protocol.Keys{}}, header + it300 + keys},
		{&protocol.Advertise{Round: 9, Keys: &protocol.Keys{Signature: make([]byte, 64)}}, header + it + signed},
		{&protocol.Advertise{Round: 9, Ahead: true, Keys: &protocol.Keys{Change: new(protocol.Key)}}, header + it + flag + keys + key},
		{&protocol.Advertise{Round: 9, Anew: 1, Keys: &protocol.Keys{}}, header + it + 2 + keys},
		{&protocol.Roster{Round: 9, Members: []protocol.Member{{}, {Client: 127}, {Client: 128}}}, header + it + member - client + member + member + 1},
		{&protocol.Shares{Round: 9, Shares: []protocol.EncryptedShare{sealed, committed}}, header + it + key + sealedSize + committedSize},
		{&protocol.Shares{Round: 9, Ahead: true, ChangeHash: new(protocol.Hash), Shares: []protocol.EncryptedShare{sealed}}, header + it + flag + key + key + sealedSize},
		{&protocol.Shares{Round: 9, Anew: 300, Shares: []protocol.EncryptedShare{sealed}}, header + it + 3 + key + sealedSize},
		{&protocol.Delivery{Round: 9, Arrived: protocol.NewBitmap(9), Shares: []protocol.EncryptedShare{sealed}}, header + it + (2 + 2) + sealedSize},
		{&protocol.Prepared{Round: 9}, header + it},
		{&protocol.Prepared{Round: 9, Anew: 1}, header + it + 2},
		{&protocol.Prepared{Round: 9, Accused: protocol.NewBitmap(9)}, header + it + (2 + 2)},
		{&protocol.Proceed{Round: 9}, header + it},
		{&protocol.MaskedInput{Round: 9, Masked: [][]byte{make([]byte, 3), make([]byte, 200)}}, header + it + (2 + 3) + (3 + 200)},
		{&protocol.MaskedInput{Round: 9, Complaints: []protocol.Complaint{{Of: 0}, {Of: 200}}}, header + it + (2 + 34) + (2 + 3 + 34)},
		{&protocol.MaskedInput{Round: 9, Masked: [][]byte{make([]byte, 3)}, Next: &protocol.Advertise{Round: 300, Keys: &protocol.Keys{}}},
			header + it + (2 + 3) + 2 + it300 + keys},
		{&protocol.MaskedInput{Round: 9, Masked: [][]byte{make([]byte, 3)}, Proof: make([]byte, 200), Blindings: make([]byte, 96)},
			header + it + (2 + 3) + (3 + 200) + (2 + 96)},
		{&protocol.Survivors{Round: 9, U1: protocol.NewBitmap(17)}, header + it + (2 + 3)},
		{&protocol.Survivors{Round: 9, U1: protocol.NewBitmap(17), Next: &protocol.Roster{Round: 300, Members: []protocol.Member{{Client: 3}}}},
			header + it + (2 + 3) + 2 + it300 + member},
		{&protocol.Consistency{Round: 9, Signature: make([]byte, 64)}, header + it + sig},
		{&protocol.Quorum{Round: 9, Signatures: []protocol.Signed{{Signature: make([]byte, 64)}, {Client: 5, Signature: make([]byte, 64)}}},
			header + it + (2 + sig) + (2 + client + sig)},
		{&protocol.Unmask{Round: 9, Shares: []protocol.RevealedShare{{Of: 1}, {Of: 2}}, Removed: [][]byte{make([]byte, 9), nil}},
			header + it + 2*(2+client+key) + (2 + 9) + 2},
		{&protocol.Unmask{Round: 9, Next: &protocol.Shares{Round: 10, Shares: []protocol.EncryptedShare{sealed}}}, header + it + 2 + it + key + sealedSize},
		{&protocol.Answered{Round: 9, Count: 1, U2: protocol.NewBitmap(17)}, header + it + (2 + 3)},
		{&protocol.Replacement{Round: 9, Shares: []protocol.RevealedShare{{Of: 1}, {Of: 200}}},
			header + it + (2 + client + key) + (2 + client + 1 + key)},
		{&protocol.Refusal{Round: 9}, header + it},
		{&protocol.Result{Round: 9, Survivors: 3, Answered: 200, Integers: [][]int64{make([]int64, 3), make([]int64, 40)}}, header + it + 2 + 3 + (2 + 24) + (3 + 320)},
		{&protocol.Abort{Round: 9, Reason: &protocol.TooFew{Round: 9, Stage: protocol.StageAdvertise, Left: 3, Required: 200}}, header + it + 2 + (2 + 2 + 3)},
		{&protocol.Abort{Round: 9, Reason: &protocol.Unrecoverable{Client: 4, Required: 2, Dealt: true}}, header + it + 2 + (2 + 2 + 2)},
		{&protocol.Abort{Round: 9}, header + it},
		{&protocol.Abort{Round: 9, Reason: &protocol.Unproved{}}, header + it + 2},
		{&protocol.Held{Round: 9, Connected: 3, Required: 200}, header + it + 2 + 3},
		{&protocol.Final{Model: make([]byte, 11)}, header + (2 + 11)},
		{&protocol.Final{Model: make([]byte, 11), Signature: make([]byte, 64)}, header + (2 + 11) + sig},
		{&protocol.Forward{Client: 7, Message: &protocol.Consistency{Round: 9, Signature: make([]byte, 64)}}, header + client + 2 + (2 + it + sig)},
		{&protocol.Forward{Held: true, Message: &protocol.MaskedInput{Round: 9}}, header + flag + 2 + (2 + it)},
		{&protocol.Forward{Client: 200, Opens: true}, header + client + 1 + flag},
		{&protocol.RelayAck{Round: 300, Stage: protocol.StageUnmask, Client: 7}, header + it300 + 2 + client},
		{&protocol.RelayCollect{Round: 9, Stage: protocol.StageMaskedInput}, header + it + 2},
		{&protocol.Partial{Round: 9, Clients: protocol.NewBitmap(9), Sums: [][]byte{make([]byte, 200), nil}}, header + it + 2 + (2 + 2) + (3 + 200) + 2},
		{&protocol.RelayStatus{Client: 7, Connected: true}, header + client + (2 + 16)},
		{&protocol.RelayStatus{Client: 7}, header + client + flag},

		// In frames of 2^18 bytes: with its field's tag and length, of 4 bytes, one byte
		// too many for a frame.
		{&protocol.Final{Model: make([]byte, 1<<18-4)}, header + 1<<18},
		{&protocol.Final{Model: make([]byte, 1<<18-3)}, 2*header + 1<<18 + 1},

		// A part that only an ideal sum sends counts as the part of a real sum.
		{&protocol.Advertise{Round: 9}, header + it},
		{&protocol.Roster{Round: 9, Clients: 7}, header + it},
		{&protocol.Shares{Round: 9, Ahead: true}, header + it + flag},
		{&protocol.Delivery{Round: 9, Clients: 7}, header + it},
		{&protocol.MaskedInput{Round: 9, Packed: 10, Vectors: make([]protocol.Integers, 7)}, header + it + (2 + 10)},
		{&protocol.Survivors{Round: 9, Count: 7}, header + it},
		{&protocol.Answered{Round: 9, Count: 7}, header + it},
		{&protocol.Replacement{Round: 9}, header + it},
		{&protocol.Unmask{Round: 9, Packed: 300, Removals: make([]protocol.Integers, 2)}, header + it + (3 + 300)},
	} {
		if got := protocol.Size(c.m); got != c.want {
			t.Errorf("message %d, %s: %d bytes, want %d", i, c.m.Kind(), got, c.want)
		}
	}
}

// A rider is a field of its message: a tag, a length, and its own bytes without a
// header.
func TestRiderSizes(t *testing.T) {
	const it, keys = 2, 2 + 2*(2+32)
	for i, c := range []struct {
		m    protocol.Message
		want int
	}{
		{&protocol.Announce{Plan: split(1), Delivery: &protocol.Delivery{Round: 9, Arrived: protocol.NewBitmap(9)}}, 2 + it + (2 + 2)},
		{&protocol.MaskedInput{Packed: 9, Next: &protocol.Advertise{Round: 10, Keys: &protocol.Keys{}}}, 2 + it + keys},
		{&protocol.Survivors{Next: &protocol.Roster{Round: 10, Members: make([]protocol.Member, 2)}}, 3 + it + 2*(2+keys)},
		{&protocol.Unmask{Packed: 9, Next: &protocol.Shares{Round: 10}}, 2 + it},
		{&protocol.Unmask{Packed: 9}, 0},
		{&protocol.Final{Model: make([]byte, 9)}, 0},
	} {
		if got := protocol.PiggybackSize(c.m); got != c.want {
			t.Errorf("message %d, %s: %d bytes travel with it, want %d", i, c.m.Kind(), got, c.want)
		}
	}
}
