package wire

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/protocol/wire/internal/wirepb"
)

// decoder makes the messages of package protocol. A message that it makes after the first error is
// of no use.
type decoder struct {
	cursor
	limits   Limits
	viaRelay bool // the message's vectors are missing: a relay holds them
	inside   bool // what a Forward has inside was checked when it was encoded
}

func (d *decoder) message(m proto.Message) protocol.Message {
	switch m := m.(type) {
	case *wirepb.Open:
		return &protocol.Open{Plan: d.plan(m.GetPlan())}
	case *wirepb.Announce:
		return d.announce(m)
	case *wirepb.Invite:
		return &protocol.Invite{Setup: protocol.Setup{Session: protocol.SessionID(d.fixed("session", m.GetSession(), len(protocol.SessionID{}))),
			Round: d.round(m.GetRound()), Cohort: d.cohort(m.GetCohort()), Replaces: m.GetReplaces()}}
	case *wirepb.Advertise:
		return d.advertise(m)
	case *wirepb.Roster:
		return d.roster(m)
	case *wirepb.Shares:
		return d.shares(m)
	case *wirepb.Delivery:
		return d.delivery(m)
	case *wirepb.Prepared:
		return &protocol.Prepared{Round: d.round(m.GetRound()), Anew: m.GetAnew()}
	case *wirepb.Proceed:
		return &protocol.Proceed{Round: d.round(m.GetRound())}
	case *wirepb.MaskedInput:
		return d.maskedInput(m)
	case *wirepb.Survivors:
		return d.survivors(m)
	case *wirepb.Consistency:
		return &protocol.Consistency{Round: d.round(m.GetRound()),
			Signature: d.fixed("signature", m.GetSignature(), protocol.SignatureSize)}
	case *wirepb.Quorum:
		return d.quorum(m)
	case *wirepb.Unmask:
		return d.unmask(m)
	case *wirepb.Answered:
		return d.answered(m)
	case *wirepb.Replacement:
		return &protocol.Replacement{Round: d.round(m.GetRound()), Shares: d.revealedShares(m.GetShares())}
	case *wirepb.Refusal:
		return &protocol.Refusal{Round: d.round(m.GetRound())}
	case *wirepb.Result:
		return d.result(m)
	case *wirepb.Abort:
		return d.abort(m)
	case *wirepb.Held:
		return &protocol.Held{Round: d.round(m.GetRound()), Connected: d.clients("connected", m.GetConnected()), Required: d.clients("required", m.GetRequired())}
	case *wirepb.Final:
		return &protocol.Final{Model: d.nonEmpty("model", m.GetModel()), Signature: d.optional("signature", m.GetSignature(), protocol.SignatureSize)}
	case *wirepb.Forward:
		return d.forward(m)
	case *wirepb.RelayAck:
		last := int64(-1)
		return &protocol.RelayAck{Round: d.round(m.GetRound()), Stage: d.stage(m.GetStage()), Client: d.next("client", m.GetClient(), &last)}
	case *wirepb.RelayCollect:
		return &protocol.RelayCollect{Round: d.round(m.GetRound()), Stage: d.stage(m.GetStage())}
	case *wirepb.Partial:
		return d.partial(m)
	case *wirepb.RelayStatus:
		return d.relayStatus(m)
	default:
		d.fail(ErrSyntax, "", "there is no such message")
		return nil
	}
}

func (d *decoder) announce(m *wirepb.Announce) *protocol.Announce {
	out := &protocol.Announce{Plan: d.plan(m.GetPlan()), Anew: m.GetAnew()}
	out.Delivery = submessage(&d.cursor, "delivery", m.GetDelivery(), d.delivery)
	return out
}

func (d *decoder) advertise(m *wirepb.Advertise) *protocol.Advertise {
	k := d.keys(m.GetKeys())
	return &protocol.Advertise{Round: d.round(m.GetRound()), Ahead: m.GetAhead(), Anew: m.GetAnew(), Keys: &k}
}

func (d *decoder) roster(m *wirepb.Roster) *protocol.Roster {
	out := &protocol.Roster{Round: d.round(m.GetRound()), Clients: len(m.GetMembers())}
	out.Members = entries(d, "members", m.GetMembers(), func(x *wirepb.Member, last *int64) protocol.Member {
		return protocol.Member{Client: d.next("client", x.GetClient(), last), Keys: d.keys(x.GetKeys())}
	})
	if m.GetRing() == nil {
		d.none("clients", m.GetClients())
		return out
	}
	out.Clients = d.clients("clients", m.GetClients())
	d.enter("ring", -1)
	out.Ring = d.ring(m.GetRing())
	d.leave()
	return out
}

func (d *decoder) ring(r *wirepb.Ring) *protocol.Ring {
	out := &protocol.Ring{Keys: protocol.Hash(d.fixed("keys", r.GetKeys(), protocol.HashSize)),
		Start: d.count("start", r.GetStart(), math.MaxInt32), Proof: make([]protocol.Hash, len(r.GetProof()))}
	for i, h := range r.GetProof() {
		d.enter("proof", i)
		out.Proof[i] = protocol.Hash(d.fixed("", h, protocol.HashSize))
		d.leave()
	}
	return out
}

// setSummary reads the size and the hash of a set that is shown in part; the hash is nil if the set
// is shown whole.
func (d *decoder) setSummary(field string, shown protocol.Bitmap, count uint32, digest []byte) (int, *protocol.Hash) {
	b := d.optional("digest", digest, protocol.HashSize)
	if b == nil {
		d.none(field, count)
		return shown.Count(), nil
	}
	return d.clients(field, count), (*protocol.Hash)(b)
}

// none refuses a number that belongs to something which is not there.
func (d *decoder) none(field string, v uint32) {
	if v != 0 {
		d.fail(ErrValue, field, "%d, of something that is missing", v)
	}
}

func (d *decoder) shares(m *wirepb.Shares) *protocol.Shares {
	out := &protocol.Shares{Round: d.round(m.GetRound()), Ahead: m.GetAhead(), Anew: m.GetAnew(),
		SeedHash: protocol.Hash(d.fixed("seed_hash", m.GetSeedHash(), protocol.HashSize)), Shares: d.encryptedShares(m.GetShares())}
	if b := d.optional("change_hash", m.GetChangeHash(), protocol.HashSize); b != nil {
		out.ChangeHash = (*protocol.Hash)(b)
	}
	return out
}

func (d *decoder) delivery(m *wirepb.Delivery) *protocol.Delivery {
	out := &protocol.Delivery{Round: d.round(m.GetRound()), Arrived: d.bitmap("arrived", m.GetArrived()),
		Shares: d.encryptedShares(m.GetShares())}
	out.Clients, out.Digest = d.setSummary("clients", out.Arrived, m.GetClients(), m.GetDigest())
	return out
}

func (d *decoder) maskedInput(m *wirepb.MaskedInput) *protocol.MaskedInput {
	d.vectors("masked", len(m.GetMasked()))
	for i, v := range m.GetMasked() {
		d.enter("masked", i)
		d.nonEmpty("", v)
		d.leave()
	}
	out := &protocol.MaskedInput{Round: d.round(m.GetRound()), Masked: m.GetMasked(), Head: d.optional("head", m.GetHead(), protocol.HeadSize)}
	last := int64(-1)
	for i, c := range m.GetComplaints() {
		d.enter("complaints", i)
		out.Complaints = append(out.Complaints, protocol.Complaint{Of: d.next("client", c.GetClient(), &last),
			Secret: [32]byte(d.fixed("secret", c.GetSecret(), 32))})
		d.leave()
	}
	out.Next = submessage(&d.cursor, "next", m.GetNext(), d.advertise)
	return out
}

func (d *decoder) survivors(m *wirepb.Survivors) *protocol.Survivors {
	out := &protocol.Survivors{Round: d.round(m.GetRound()), U1: d.bitmap("u1", m.GetU1())}
	out.Count, out.Digest = d.setSummary("count", out.U1, m.GetCount(), m.GetDigest())
	out.Next = submessage(&d.cursor, "next", m.GetNext(), d.roster)
	return out
}

func (d *decoder) quorum(m *wirepb.Quorum) *protocol.Quorum {
	return &protocol.Quorum{Round: d.round(m.GetRound()), Signatures: entries(d, "signatures", m.GetSignatures(), func(s *wirepb.Signed, last *int64) protocol.Signed {
		return protocol.Signed{Client: d.next("client", s.GetClient(), last), Signature: d.fixed("signature", s.GetSignature(), protocol.SignatureSize)}
	})}
}

func (d *decoder) unmask(m *wirepb.Unmask) *protocol.Unmask {
	d.vectors("removed", len(m.GetRemoved()))
	out := &protocol.Unmask{Round: d.round(m.GetRound()), Shares: d.revealedShares(m.GetShares())}
	if !d.viaRelay {
		out.Removed = make([][]byte, len(m.GetRemoved()))
	}
	for i := range out.Removed {
		out.Removed[i] = orNil(m.GetRemoved()[i])
	}
	out.Next = submessage(&d.cursor, "next", m.GetNext(), d.shares)
	return out
}

func (d *decoder) answered(m *wirepb.Answered) *protocol.Answered {
	out := &protocol.Answered{Round: d.round(m.GetRound()), U2: d.bitmap("u2", m.GetU2())}
	out.Count, out.Digest = d.setSummary("count", out.U2, m.GetCount(), m.GetDigest())
	return out
}

func (d *decoder) result(m *wirepb.Result) *protocol.Result {
	d.list("integers", len(m.GetIntegers()))
	out := &protocol.Result{Round: d.round(m.GetRound()), Integers: make([][]int64, len(m.GetIntegers())),
		Survivors: d.clients("survivors", m.GetSurvivors()), Answered: d.clients("answered", m.GetAnswered())}
	for i, b := range m.GetIntegers() {
		if len(b) == 0 || len(b)%8 != 0 {
			d.enter("integers", i)
			d.fail(ErrValue, "", "%d bytes; a coordinate takes 8, and there is at least one", len(b))
			d.leave()
			continue
		}
		out.Integers[i] = make([]int64, len(b)/8)
		for j := range out.Integers[i] {
			out.Integers[i][j] = int64(binary.LittleEndian.Uint64(b[8*j:]))
		}
	}
	return out
}

func (d *decoder) abort(m *wirepb.Abort) *protocol.Abort {
	out := &protocol.Abort{Round: d.round(m.GetRound())}
	switch r := m.GetReason().(type) {
	case *wirepb.Abort_TooFew:
		d.enter("too_few", -1)
		left, required := d.left(r.TooFew)
		out.Reason = &protocol.TooFew{Round: out.Round, Left: left, Required: required,
			Stage: protocol.Stage(d.choice("stage", int32(r.TooFew.GetStage()), int(protocol.Stages)))}
		d.leave()
	case *wirepb.Abort_Unrecoverable:
		d.enter("unrecoverable", -1)
		left, required := d.left(r.Unrecoverable)
		last := int64(-1)
		out.Reason = &protocol.Unrecoverable{Round: out.Round, Left: left, Required: required,
			Client: d.next("client", r.Unrecoverable.GetClient(), &last), Dealt: r.Unrecoverable.GetDealt()}
		d.leave()
	default:
		d.missing("reason")
	}
	return out
}

// left reads the numbers in both reasons: how many clients were left, and how many were required.
func (d *decoder) left(r interface {
	GetLeft() uint32
	GetRequired() uint32
}) (left, required int) {
	return d.clients("left", r.GetLeft()), d.clients("required", r.GetRequired())
}

func (d *decoder) plan(p *wirepb.Plan) *protocol.Plan {
	if p == nil {
		d.missing("plan")
		return nil
	}
	d.enter("plan", -1)
	defer d.leave()
	d.list("releases", len(p.GetReleases()))
	out := &protocol.Plan{
		Session: protocol.SessionID(d.fixed("session", p.GetSession(), len(protocol.SessionID{}))), Round: d.round(p.GetRound()),
		Phase: p.GetPhase(), Cohort: d.cohort(p.GetCohort()), Releases: make([]protocol.Release, len(p.GetReleases())),
		Broadcast: orNil(p.GetBroadcast()), Signature: d.optional("signature", p.GetSignature(), protocol.SignatureSize),
	}
	for i, r := range p.GetReleases() {
		d.enter("releases", i)
		out.Releases[i] = protocol.Release{
			Name: r.GetName(), Len: d.count("len", r.GetLen(), math.MaxInt32), L2: r.GetL2(), L1: r.GetL1(), LInf: r.GetLInf(),
			MaxNonZero: d.count("max_non_zero", r.GetMaxNonZero(), math.MaxInt32), Scale: r.GetScale(),
			Width: uint8(d.count("width", r.GetWidth(), 64)), Noise: d.noise(r.GetNoise()), Sensitivity: r.GetSensitivity(),
		}
		d.leave()
	}
	return out
}

func (d *decoder) noise(n *wirepb.Noise) protocol.Noise {
	if n == nil {
		d.missing("noise")
		return protocol.Noise{}
	}
	d.enter("noise", -1)
	defer d.leave()
	return protocol.Noise{
		Kind:     protocol.NoiseKind(d.choice("kind", int32(n.GetKind()), len(wirepb.NoiseKind_name)-1)),
		Variance: n.GetVariance(), Multiplier: n.GetMultiplier(), SamplingRate: n.GetSamplingRate(),
		Steps: d.count("steps", n.GetSteps(), math.MaxInt32), Spread: n.GetSpread(),
	}
}

func (d *decoder) cohort(c *wirepb.Cohort) protocol.Cohort {
	if c == nil {
		d.missing("cohort")
		return protocol.Cohort{}
	}
	d.enter("cohort", -1)
	defer d.leave()
	return protocol.Cohort{Clients: d.clients("clients", c.GetClients()), Tolerance: c.GetTolerance(), Colluders: c.GetColluders(),
		Enrolled: d.clients("enrolled", c.GetEnrolled()), Goal: d.clients("goal", c.GetGoal())}
}

func (d *decoder) keys(k *wirepb.Keys) protocol.Keys {
	if k == nil {
		d.missing("keys")
		return protocol.Keys{}
	}
	d.enter("keys", -1)
	defer d.leave()
	out := protocol.Keys{Mask: protocol.Key(d.fixed("mask", k.GetMask(), protocol.KeySize)),
		Channel:   protocol.Key(d.fixed("channel", k.GetChannel(), protocol.KeySize)),
		Signature: d.optional("signature", k.GetSignature(), protocol.SignatureSize)}
	if b := d.optional("change", k.GetChange(), protocol.KeySize); b != nil {
		out.Change = (*protocol.Key)(b)
	}
	return out
}

func (d *decoder) revealedShares(shares []*wirepb.RevealedShare) []protocol.RevealedShare {
	return entries(d, "shares", shares, func(s *wirepb.RevealedShare, last *int64) protocol.RevealedShare {
		return protocol.RevealedShare{Of: d.next("of", s.GetOf(), last),
			Share: [32]byte(d.fixed("share", s.GetShare(), 32)), Nonce: d.optional("nonce", s.GetNonce(), protocol.NonceSize)}
	})
}

func (d *decoder) encryptedShares(shares []*wirepb.EncryptedShare) []protocol.EncryptedShare {
	return entries(d, "shares", shares, func(s *wirepb.EncryptedShare, last *int64) protocol.EncryptedShare {
		out := protocol.EncryptedShare{Peer: d.next("peer", s.GetPeer(), last), Ciphertext: d.nonEmpty("ciphertext", s.GetCiphertext())}
		out.Committed = submessage(&d.cursor, "committed", s.GetCommitted(), d.commitments)
		return out
	})
}

func (d *decoder) commitments(c *wirepb.Commitments) *protocol.Commitments {
	return &protocol.Commitments{Seed: protocol.Hash(d.fixed("seed", c.GetSeed(), protocol.HashSize)),
		Key:       protocol.Hash(d.fixed("key", c.GetKey(), protocol.HashSize)),
		Signature: d.fixed("signature", c.GetSignature(), protocol.SignatureSize)}
}
