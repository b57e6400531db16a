package wire

import (
	"encoding/binary"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/protocol/wire/internal/wirepb"
)

// encoder makes the messages of wire.proto. It refuses what these have no place
// for; whether what they do have a place for is sound, the decoder says.
type encoder struct{ cursor }

func (e *encoder) message(m protocol.Message) proto.Message {
	switch m := m.(type) {
	case *protocol.Open:
		return &wirepb.Open{Plan: e.plan(m.Plan)}
	case *protocol.Announce:
		return e.announce(m)
	case *protocol.Invite:
		return &wirepb.Invite{Session: m.Setup.Session[:], Round: m.Setup.Round, Cohort: e.cohort(m.Setup.Cohort), Replaces: m.Setup.Replaces}
	case *protocol.Advertise:
		return e.advertise(m)
	case *protocol.Roster:
		return e.roster(m)
	case *protocol.Shares:
		return e.shares(m)
	case *protocol.Delivery:
		return e.delivery(m)
	case *protocol.Prepared:
		return &wirepb.Prepared{Round: m.Round, Anew: m.Anew}
	case *protocol.Proceed:
		return &wirepb.Proceed{Round: m.Round}
	case *protocol.MaskedInput:
		return e.maskedInput(m)
	case *protocol.Survivors:
		return e.survivors(m)
	case *protocol.Consistency:
		return &wirepb.Consistency{Round: m.Round, Signature: m.Signature}
	case *protocol.Quorum:
		return quorum(m)
	case *protocol.Unmask:
		return e.unmask(m)
	case *protocol.Answered:
		return e.answered(m)
	case *protocol.Replacement:
		return e.replacement(m)
	case *protocol.Refusal:
		return &wirepb.Refusal{Round: m.Round}
	case *protocol.Result:
		return e.result(m)
	case *protocol.Abort:
		return e.abort(m)
	case *protocol.Held:
		return &wirepb.Held{Round: m.Round, Connected: uint32(m.Connected), Required: uint32(m.Required)}
	case *protocol.Final:
		return &wirepb.Final{Model: m.Model, Signature: m.Signature}
	case *protocol.Forward:
		return e.forward(m)
	case *protocol.RelayAck:
		return &wirepb.RelayAck{Round: m.Round, Stage: wirepb.Stage(m.Stage) + 1, Client: uint32(m.Client)}
	case *protocol.RelayCollect:
		return &wirepb.RelayCollect{Round: m.Round, Stage: wirepb.Stage(m.Stage) + 1}
	case *protocol.Partial:
		return &wirepb.Partial{Round: m.Round, Stage: wirepb.Stage(m.Stage) + 1, Clients: m.Clients, Sums: m.Sums}
	case *protocol.RelayStatus:
		return relayStatus(m)
	default:
		e.fail(ErrSyntax, "", "there is no such message")
		return nil
	}
}

func (e *encoder) announce(m *protocol.Announce) *wirepb.Announce {
	out := &wirepb.Announce{Plan: e.plan(m.Plan), Anew: m.Anew}
	out.Delivery = submessage(&e.cursor, "delivery", m.Delivery, e.delivery)
	return out
}

func (e *encoder) advertise(m *protocol.Advertise) *wirepb.Advertise {
	if m.Keys == nil {
		e.fail(ErrIdeal, "keys", "there are none")
		return nil
	}
	return &wirepb.Advertise{Round: m.Round, Ahead: m.Ahead, Anew: m.Anew, Keys: keys(m.Keys)}
}

func (e *encoder) roster(m *protocol.Roster) *wirepb.Roster {
	if !protocol.IsWhole(m) {
		e.fail(ErrValue, "members", "they are not loaded")
		return nil
	}
	if len(m.Members) == 0 && m.Clients != 0 {
		e.fail(ErrIdeal, "members", "there are none, of %d clients", m.Clients)
	}
	out := &wirepb.Roster{Round: m.Round, Members: make([]*wirepb.Member, len(m.Members))}
	for i := range m.Members {
		out.Members[i] = &wirepb.Member{Client: uint32(m.Members[i].Client), Keys: keys(&m.Members[i].Keys)}
	}
	if m.Ring == nil {
		e.counts("members", len(m.Members), m.Clients)
		return out
	}
	out.Clients = e.count("clients", m.Clients)
	out.Ring = &wirepb.Ring{Keys: m.Ring.Keys[:], Start: e.count("ring.start", m.Ring.Start), Proof: make([][]byte, len(m.Ring.Proof))}
	for i := range m.Ring.Proof {
		out.Ring.Proof[i] = m.Ring.Proof[i][:]
	}
	return out
}

// setSummary returns the size and the hash of a set that the receiver is shown in part. The
// receiver counts a set that is shown whole.
func (e *encoder) setSummary(field string, shown protocol.Bitmap, count int, digest *protocol.Hash) (uint32, []byte) {
	if len(shown) == 0 {
		e.fail(ErrIdeal, field, "it is empty")
	}
	if digest == nil {
		e.counts(field, shown.Count(), count)
		return 0, nil
	}
	return e.count("count", count), digest[:]
}

func (e *encoder) shares(m *protocol.Shares) *wirepb.Shares {
	if len(m.Shares) == 0 {
		e.fail(ErrIdeal, "shares", "there are none")
	}
	out := &wirepb.Shares{Round: m.Round, Ahead: m.Ahead, Anew: m.Anew, SeedHash: m.SeedHash[:], Shares: encryptedShares(m.Shares)}
	if m.ChangeHash != nil {
		out.ChangeHash = m.ChangeHash[:]
	}
	return out
}

func (e *encoder) delivery(m *protocol.Delivery) *wirepb.Delivery {
	if !protocol.IsWhole(m) {
		e.fail(ErrValue, "shares", "they are not loaded")
		return nil
	}
	out := &wirepb.Delivery{Round: m.Round, Arrived: m.Arrived, Shares: encryptedShares(m.Shares)}
	out.Clients, out.Digest = e.setSummary("arrived", m.Arrived, m.Clients, m.Digest)
	return out
}

func (e *encoder) maskedInput(m *protocol.MaskedInput) *wirepb.MaskedInput {
	if len(m.Vectors) != 0 || m.Packed != 0 {
		e.fail(ErrIdeal, "masked", "there are %d vectors in the clear", len(m.Vectors))
	}
	out := &wirepb.MaskedInput{Round: m.Round, Masked: m.Masked, Head: m.Head}
	for i := range m.Complaints {
		out.Complaints = append(out.Complaints, &wirepb.Complaint{Client: uint32(m.Complaints[i].Of), Secret: m.Complaints[i].Secret[:]})
	}
	out.Next = submessage(&e.cursor, "next", m.Next, e.advertise)
	return out
}

func (e *encoder) survivors(m *protocol.Survivors) *wirepb.Survivors {
	out := &wirepb.Survivors{Round: m.Round, U1: m.U1}
	out.Count, out.Digest = e.setSummary("u1", m.U1, m.Count, m.Digest)
	out.Next = submessage(&e.cursor, "next", m.Next, e.roster)
	return out
}

// counts compares the number of clients that a message states with the clients that are sent. The
// receiver takes the number from these.
func (e *encoder) counts(field string, sent, said int) {
	if sent != said {
		e.fail(ErrValue, field, "%d clients, the message counts %d", sent, said)
	}
}

func quorum(m *protocol.Quorum) *wirepb.Quorum {
	out := &wirepb.Quorum{Round: m.Round, Signatures: make([]*wirepb.Signed, len(m.Signatures))}
	for i, s := range m.Signatures {
		out.Signatures[i] = &wirepb.Signed{Client: uint32(s.Client), Signature: s.Signature}
	}
	return out
}

func (e *encoder) unmask(m *protocol.Unmask) *wirepb.Unmask {
	if len(m.Removals) != 0 || m.Packed != 0 || len(m.Shares) == 0 {
		e.fail(ErrIdeal, "shares", "there are %d, and %d removals in the clear", len(m.Shares), len(m.Removals))
	}
	out := &wirepb.Unmask{Round: m.Round, Removed: m.Removed, Shares: revealedShares(m.Shares)}
	out.Next = submessage(&e.cursor, "next", m.Next, e.shares)
	return out
}

func (e *encoder) answered(m *protocol.Answered) *wirepb.Answered {
	out := &wirepb.Answered{Round: m.Round, U2: m.U2}
	out.Count, out.Digest = e.setSummary("u2", m.U2, m.Count, m.Digest)
	return out
}

func (e *encoder) replacement(m *protocol.Replacement) *wirepb.Replacement {
	if len(m.Shares) == 0 {
		e.fail(ErrIdeal, "shares", "there are none")
	}
	return &wirepb.Replacement{Round: m.Round, Shares: revealedShares(m.Shares)}
}

func (e *encoder) result(m *protocol.Result) *wirepb.Result {
	out := &wirepb.Result{Round: m.Round, Survivors: e.count("survivors", m.Survivors),
		Answered: e.count("answered", m.Answered), Integers: make([][]byte, len(m.Integers))}
	for i, v := range m.Integers {
		out.Integers[i] = make([]byte, 0, 8*len(v))
		for _, x := range v {
			out.Integers[i] = binary.LittleEndian.AppendUint64(out.Integers[i], uint64(x))
		}
	}
	return out
}

func (e *encoder) abort(m *protocol.Abort) *wirepb.Abort {
	out := &wirepb.Abort{Round: m.Round}
	said := m.Round
	switch r := m.Reason.(type) {
	case *protocol.TooFew:
		said = r.Round
		out.Reason = &wirepb.Abort_TooFew{TooFew: &wirepb.TooFew{Stage: wirepb.Stage(r.Stage) + 1,
			Left: e.count("too_few.left", r.Left), Required: e.count("too_few.required", r.Required)}}
	case *protocol.Unrecoverable:
		said = r.Round
		out.Reason = &wirepb.Abort_Unrecoverable{Unrecoverable: &wirepb.Unrecoverable{Client: uint32(r.Client), Dealt: r.Dealt,
			Left: e.count("unrecoverable.left", r.Left), Required: e.count("unrecoverable.required", r.Required)}}
	}
	if said != m.Round {
		e.fail(ErrValue, "round", "%d, the reason is of %d", m.Round, said)
	}
	return out
}

// text makes a field of a string.
func (e *encoder) text(field, s string) string {
	if !utf8.ValidString(s) {
		e.fail(ErrValue, field, "not UTF-8")
	}
	return s
}

// count makes a field of a number that counts something.
func (e *encoder) count(field string, v int) uint32 {
	if v < 0 || v > math.MaxInt32 {
		e.fail(ErrValue, field, "%d; it must be from 0 to %d", v, math.MaxInt32)
		return 0
	}
	return uint32(v)
}

func (e *encoder) plan(p *protocol.Plan) *wirepb.Plan {
	if p == nil {
		return nil
	}
	e.enter("plan", -1)
	defer e.leave()
	out := &wirepb.Plan{
		Session: p.Session[:], Round: p.Round, Phase: e.text("phase", p.Phase), Cohort: e.cohort(p.Cohort),
		Broadcast: p.Broadcast, Signature: p.Signature, Releases: make([]*wirepb.Release, len(p.Releases)),
	}
	for i, r := range p.Releases {
		e.enter("releases", i)
		out.Releases[i] = &wirepb.Release{
			Name: e.text("name", r.Name), Len: e.count("len", r.Len), L2: r.L2, L1: r.L1, LInf: r.LInf,
			MaxNonZero: e.count("max_non_zero", r.MaxNonZero), Scale: r.Scale, Width: uint32(r.Width), Sensitivity: r.Sensitivity,
			Noise: &wirepb.Noise{
				Kind: wirepb.NoiseKind(r.Noise.Kind) + 1, Variance: r.Noise.Variance, Multiplier: r.Noise.Multiplier,
				SamplingRate: r.Noise.SamplingRate, Steps: e.count("noise.steps", r.Noise.Steps), Spread: r.Noise.Spread,
			},
		}
		e.leave()
	}
	return out
}

func (e *encoder) cohort(c protocol.Cohort) *wirepb.Cohort {
	return &wirepb.Cohort{Clients: e.count("cohort.clients", c.Clients), Tolerance: c.Tolerance, Colluders: c.Colluders,
		Enrolled: e.count("cohort.enrolled", c.Enrolled), Goal: e.count("cohort.goal", c.Goal)}
}

func keys(k *protocol.Keys) *wirepb.Keys {
	out := &wirepb.Keys{Mask: k.Mask[:], Channel: k.Channel[:], Signature: k.Signature}
	if k.Change != nil {
		out.Change = k.Change[:]
	}
	return out
}

func revealedShares(shares []protocol.RevealedShare) []*wirepb.RevealedShare {
	out := make([]*wirepb.RevealedShare, len(shares))
	for i := range shares {
		s := &shares[i]
		out[i] = &wirepb.RevealedShare{Of: uint32(s.Of), Share: s.Share[:], Nonce: s.Nonce}
	}
	return out
}

func encryptedShares(shares []protocol.EncryptedShare) []*wirepb.EncryptedShare {
	out := make([]*wirepb.EncryptedShare, len(shares))
	for i := range shares {
		s := &shares[i]
		out[i] = &wirepb.EncryptedShare{Peer: uint32(s.Peer), Ciphertext: s.Ciphertext}
		if c := s.Committed; c != nil {
			out[i].Committed = &wirepb.Commitments{Seed: c.Seed[:], Key: c.Key[:], Signature: c.Signature}
		}
	}
	return out
}
