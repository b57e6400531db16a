package wire

import (
	"github.com/fedsim/fedsim/protocol"
)

// Limits is the most that is accepted from a peer. The zero value accepts nothing.
type Limits struct {
	// Bytes is the most bytes of a message of each kind, frame headers aside; 0: none of that kind is taken.
	Bytes [protocol.Kinds]int
	// Inside is the same of messages inside a Forward.
	Inside [protocol.Kinds]int
	// Clients is N, of all that are enrolled: their numbers are below it, no number of clients is above it,
	// and lists of clients are no longer.
	Clients int
	// Neighbours is the most shares, or complaints, in a message.
	Neighbours int
	// Releases is the most releases of a plan, and vectors in a message.
	Releases int
}

// Session is the public data from which the limits of a session follow. None of it is
// taken from the peer that the limits are applied to.
type Session struct {
	// Plans has a plan of each form that the session's plans have, which Validate
	// accepts; of each, phase, cohort and releases are read.
	Plans []*protocol.Plan
	// Neighbours is the largest degree of the graph for any roster of the cohort. The degree for a roster may be larger than the
	// degree for all clients; one less than the number of clients is always enough.
	Neighbours int
	// Model is the length in bytes of the longest model that is broadcast.
	Model int
}

// The sizes of entries of lists at their largest, which is in active mode. Replaced noise, of semi-honest mode, has a key of 34
// bytes besides and 32 more of ciphertext, but no signatures of 66 and no commitments.
const (
	memberSize    = 146 // of a roster: client, two keys, signature
	sealedSize    = 260 // of shares: peer, 112 bytes of ciphertext, two hashes, signature
	revealedSize  = 60  // of an answer to unmask: client, share, nonce
	signedSize    = 74  // of a quorum: client, signature
	complaintSize = 42  // of a masked input: client, secret
	releaseSize   = 128 // of a plan, its name aside
	vectorSize    = 16  // what a vector has besides its content
	slack         = 256 // what any message has besides lists and content, and room to grow
)

// LimitsFor computes the limits of a session. There are N clients, k neighbours, B bytes of bitmap
// and s of slack. The plans have at most P bytes of packed vectors, C coordinates, r releases, and
// Q bytes of changes of noise, as expected when no client is lost:
//
//	plan                        s + phase + model + Σ (128 + name) over the releases
//	open                        s + plan
//	announce                    s + plan + delivery
//	roster                      s + 146 N
//	shares                      s + 260 k
//	delivery                    s + B + 260 k
//	masked-input                s + P + 16 r + 42 k + s, the last for the next advertise
//	survivors                   s + B + the next roster
//	quorum                      s + 74 N
//	unmask                      s + 60 k + 9/8 Q + 80 r + the next shares
//	answered                    s + B
//	replacement                 s + 60 k
//	result                      s + 8 C + 16 r
//	final                       s + model + the longest receipt
//	partial                     s + B + P + 16 r
//	forward                     s + the longest of roster, delivery, masked-input, survivors, unmask
//	advertise, consistency,
//	prepared, proceed,
//	invite, abort, relay-ack,
//	relay-collect,
//	relay-status                s
//
// An honest client's removal takes more than its eighth and 64 bytes a release beyond Q with a probability below 2^-40. The zero
// Session stands for an unknown session: no client is accepted, and no message of more than a few hundred bytes.
func LimitsFor(s Session) Limits {
	var out Limits
	// Plans of different forms share limits: the most of each.
	for _, p := range append([]*protocol.Plan{{}}, s.Plans...) {
		l := limitsFor(p, s)
		for k, n := range l.Bytes {
			out.Bytes[k] = max(out.Bytes[k], n)
		}
		out.Clients, out.Releases = max(out.Clients, l.Clients), max(out.Releases, l.Releases)
	}
	out.Neighbours = s.Neighbours
	out.Inside = out.Bytes
	for k := protocol.KindForward; k < protocol.Kinds; k++ {
		out.Inside[k] = 0
	}
	return out
}

func limitsFor(p *protocol.Plan, s Session) Limits {
	n, releases := p.Cohort.All(), len(p.Releases)
	plan := slack + len(p.Phase) + s.Model
	coordinates := 0
	for _, r := range p.Releases {
		plan += releaseSize + len(r.Name)
		coordinates += r.Len
	}
	bitmap, removals := bitmapSize(n), p.RemovalSize(n)
	advertise, roster, shares := slack, slack+memberSize*n, slack+sealedSize*s.Neighbours
	delivery := bitmap + shares
	masked := slack + p.PackedSize() + vectorSize*releases + complaintSize*s.Neighbours + advertise
	unmask := slack + revealedSize*s.Neighbours + removals + removals/8 + (64+vectorSize)*releases + shares
	survivors := slack + bitmap + roster
	out := Limits{Clients: n, Releases: releases}
	for k := range out.Bytes {
		out.Bytes[k] = slack // of all that have no list and no content
	}
	out.Bytes[protocol.KindOpen] = slack + plan
	out.Bytes[protocol.KindAnnounce] = slack + plan + delivery
	out.Bytes[protocol.KindAdvertise] = advertise
	out.Bytes[protocol.KindRoster] = roster
	out.Bytes[protocol.KindShares] = shares
	out.Bytes[protocol.KindDelivery] = delivery
	out.Bytes[protocol.KindMaskedInput] = masked
	out.Bytes[protocol.KindSurvivors] = survivors
	out.Bytes[protocol.KindQuorum] = slack + signedSize*n
	out.Bytes[protocol.KindUnmask] = unmask
	out.Bytes[protocol.KindAnswered] = slack + bitmap
	out.Bytes[protocol.KindReplacement] = slack + revealedSize*s.Neighbours
	out.Bytes[protocol.KindResult] = slack + 8*coordinates + vectorSize*releases
	if out.Bytes[protocol.KindFinal] = slack + s.Model; len(s.Plans) > 0 {
		out.Bytes[protocol.KindFinal] += protocol.MaxReceipt
	}
	out.Bytes[protocol.KindForward] = slack + max(roster, delivery, masked, survivors, unmask)
	out.Bytes[protocol.KindPartial] = slack + bitmap + p.PackedSize() + vectorSize*releases
	return out
}

// Between restricts the limits to the kinds of messages that one role sends to another.
func (l Limits) Between(from, to protocol.Role) Limits {
	for k := range protocol.Kinds {
		if !k.Travels(from, to) {
			l.Bytes[k] = 0
		}
		if !k.TravelsInside(from, to) {
			l.Inside[k] = 0
		}
	}
	return l
}

// bitmapSize is the bytes of a bitmap of n.
func bitmapSize(n int) int { return n/8 + min(1, n%8) }
