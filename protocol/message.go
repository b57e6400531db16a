package protocol

import (
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/internal/protocol/codec"
)

// Kind tells messages apart.
type Kind uint8

// The kinds, in the order in which a round uses them.
const (
	KindOpen Kind = iota
	KindAnnounce
	KindInvite
	KindAdvertise
	KindRoster
	KindShares
	KindDelivery
	KindPrepared
	KindProceed
	KindMaskedInput
	KindSurvivors
	KindConsistency
	KindQuorum
	KindUnmask
	KindAnswered
	KindReplacement
	KindRefusal
	KindResult
	KindAbort
	KindHeld
	KindFinal
	KindForward // this and those after it travel between relays and the aggregator
	KindRelayAck
	KindRelayCollect
	KindPartial
	KindRelayStatus
	Kinds // how many there are
)

var kinds = [...]struct {
	name string
	code byte // of a frame's header, as in wire/wire.proto
	make func() Message
	ways []route // the roles between which it travels
	// stage is the stage that it answers, or that it opens for a client; Stages: none
	stage Stage
}{
	KindOpen:         {"open", 1, func() Message { return new(Open) }, []route{planned}, Stages},
	KindAnnounce:     {"announce", 2, func() Message { return new(Announce) }, []route{down, handed}, StageAdvertise},
	KindInvite:       {"invite", 3, func() Message { return new(Invite) }, []route{down}, StageAdvertise},
	KindAdvertise:    {"advertise", 4, func() Message { return new(Advertise) }, []route{up}, StageAdvertise},
	KindRoster:       {"roster", 5, func() Message { return new(Roster) }, []route{down}, StageShare},
	KindShares:       {"shares", 6, func() Message { return new(Shares) }, []route{up}, StageShare},
	KindDelivery:     {"delivery", 7, func() Message { return new(Delivery) }, []route{down}, StagePrepared},
	KindPrepared:     {"prepared", 24, func() Message { return new(Prepared) }, []route{up}, StagePrepared},
	KindProceed:      {"proceed", 25, func() Message { return new(Proceed) }, []route{down}, StageMaskedInput},
	KindMaskedInput:  {"masked-input", 8, func() Message { return new(MaskedInput) }, []route{up}, StageMaskedInput},
	KindSurvivors:    {"survivors", 9, func() Message { return new(Survivors) }, []route{down}, StageConsistency},
	KindConsistency:  {"consistency", 10, func() Message { return new(Consistency) }, []route{up}, StageConsistency},
	KindQuorum:       {"quorum", 11, func() Message { return new(Quorum) }, []route{down}, StageUnmask},
	KindUnmask:       {"unmask", 12, func() Message { return new(Unmask) }, []route{up}, StageUnmask},
	KindAnswered:     {"answered", 13, func() Message { return new(Answered) }, []route{down}, StageReplace},
	KindReplacement:  {"replacement", 14, func() Message { return new(Replacement) }, []route{up}, StageReplace},
	KindRefusal:      {"refusal", 26, func() Message { return new(Refusal) }, []route{up}, Stages},
	KindResult:       {"result", 15, func() Message { return new(Result) }, []route{released}, Stages},
	KindAbort:        {"abort", 16, func() Message { return new(Abort) }, []route{released}, Stages},
	KindHeld:         {"held", 23, func() Message { return new(Held) }, []route{released}, Stages},
	KindFinal:        {"final", 17, func() Message { return new(Final) }, []route{planned, released, down, handed}, Stages},
	KindForward:      {"forward", 18, func() Message { return new(Forward) }, []route{handed, relayed}, Stages},
	KindRelayAck:     {"relay-ack", 19, func() Message { return new(RelayAck) }, []route{handed}, Stages},
	KindRelayCollect: {"relay-collect", 20, func() Message { return new(RelayCollect) }, []route{handed}, Stages},
	KindPartial:      {"partial", 21, func() Message { return new(Partial) }, []route{relayed}, Stages},
	KindRelayStatus:  {"relay-status", 22, func() Message { return new(RelayStatus) }, []route{relayed}, Stages},
}

func (k Kind) String() string {
	if k < Kinds {
		return kinds[k].name
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

type route struct{ from, to Role }

var (
	planned  = route{Server, Aggregator}
	released = route{Aggregator, Server}
	down     = route{Aggregator, Client}
	up       = route{Client, Aggregator}
	handed   = route{Aggregator, Relay}
	relayed  = route{Relay, Aggregator}
)

// Travels reports whether one role sends messages of the kind to another.
func (k Kind) Travels(from, to Role) bool { return slices.Contains(kinds[k].ways, route{from, to}) }

// TravelsInside reports whether a message of the kind travels inside a Forward from one role to another.
func (k Kind) TravelsInside(from, to Role) bool {
	switch (route{from, to}) { // a relay hands on a message of a client, or for a client
	case relayed:
		return k.Travels(Client, Aggregator)
	case handed:
		return k.Travels(Aggregator, Client)
	}
	return false
}

// Code returns the number of the kind in the header of a frame.
func (k Kind) Code() byte { return kinds[k].code }

// New returns an empty message of the kind.
func (k Kind) New() Message { return kinds[k].make() }

// KindOf returns the kind with a number in the header of a frame; false: there is none.
func KindOf(code byte) (Kind, bool) {
	for k := range kinds {
		if kinds[k].code == code {
			return Kind(k), true
		}
	}
	return 0, false
}

// Message goes from one party to another. A message is never changed after it was sent: several receivers may hold the same one.
type Message interface {
	Kind() Kind
	// fields goes through the fields of the message in wire/wire.proto.
	fields(*codec.Codec)
}

// Describe names a message for a log. It accepts nil.
func Describe(m Message) string {
	if m == nil {
		return "an empty message"
	}
	return "the message " + m.Kind().String()
}

// Envelope is a message with its addresses.
type Envelope struct {
	From, To Party
	Message  Message
}

// ToClient addresses a message of the aggregator's to a client.
func ToClient(id ClientID, m Message) Envelope {
	return Envelope{From: Party{Role: Aggregator}, To: ClientParty(id), Message: m}
}

// ToServer addresses a message of the aggregator's to the server.
func ToServer(m Message) Envelope {
	return Envelope{From: Party{Role: Aggregator}, To: Party{Role: Server}, Message: m}
}

// StageMessage is a message that a client sends in a stage of a secure sum.
type StageMessage interface {
	Message
	// At is the round and the stage the message belongs to.
	At() (round uint64, stage Stage)
}

// StageOf is the stage that a message answers, or that it opens for a client; Stages if it belongs to none. confirms: survivors are
// confirmed before they are unmasked, as in active mode.
func StageOf(m Message, confirms bool) Stage {
	if a, ok := m.(*Announce); ok && a.Delivery != nil {
		return StagePrepared
	}
	stage := kinds[m.Kind()].stage
	if m.Kind() == KindSurvivors && !confirms {
		return StageUnmask
	}
	return stage
}

// Piggyback is the message that travels inside another: a message of the setup of the next round
// or, in Announce, the delivery of the round that begins. Nil if there is none.
func Piggyback(m Message) Message {
	switch m := m.(type) {
	case *Announce:
		if m.Delivery != nil {
			return m.Delivery
		}
	case *MaskedInput:
		if m.Next != nil {
			return m.Next
		}
	case *Survivors:
		if m.Next != nil {
			return m.Next
		}
	case *Unmask:
		if m.Next != nil {
			return m.Next
		}
	}
	return nil
}

// Open asks the aggregator to run the round of a plan.
type Open struct{ Plan *Plan }

// Announce relays the plan to a client, unchanged. With a Delivery, the round was set up ahead and begins with the stage prepared.
//
// Anew counts the setups of the round that were given up after its announcement, before a client sent a masked input. A client that
// hears the same plan again sets the round up anew. The client's messages of a setup repeat the number, so that a late message of
// an earlier setup does not count.
type Announce struct {
	Plan     *Plan
	Delivery *Delivery
	Anew     uint32
}

// Invite asks a client that was left out of a round set up ahead to set up the following round together with the others.
type Invite struct{ Setup Setup }

// Advertise says that the client takes part. Unless the round is set up ahead, its
// contribution is computed by then. The ideal sum needs no keys.
//
// Ahead, here and in Shares: the message belongs to the setup that was begun before there was a plan. If that setup fails, the
// round is set up again with other keys, and a late answer to the first setup must not count in the second.
type Advertise struct {
	Round uint64
	Ahead bool
	Anew  uint32 // as in Announce
	Keys  *Keys
}

// Roster opens the stage share: who advertised, in ascending order of clients, with their keys. Of an ideal sum it says how many
// only. With a Ring, Members are the receiver and its neighbours alone, of so many Clients.
type Roster struct {
	Round   uint64
	Clients int
	Members []Member
	Ring    *Ring
	// Load returns the message with Members and Ring, which it waits without; nil: it has them.
	Load func() (*Roster, error) `json:"-"`
}

// Ring holds the facts that a client needs about all the clients of a roster that it is shown a part of (package secagg).
type Ring struct {
	Keys  Hash   // of all clients' keys; the order on the ring follows from it
	Start int    // the position at which the receiver's part of the ring begins
	Proof []Hash // that it is a part of the ring
}

// Shares carries the client's encrypted shares for its neighbours, in ascending order of clients,
// and the hash that the seed of its self-mask must have. In active mode SeedHash is the point of the
// secret behind that seed. Where noise is replaced, ChangeHash is the hash for the seed of its
// self-mask over the change of noise; elsewhere nil.
type Shares struct {
	Round      uint64
	Ahead      bool
	Anew       uint32 // as in Announce
	SeedHash   Hash
	ChangeHash *Hash
	Shares     []EncryptedShare
}

// Delivery opens the stage prepared: whose shares arrived, as a number and as a subset of the roster's members, and what they dealt
// to this client, in ascending order. Digest, here and in Survivors and Answered, stands for the whole set where the receiver's
// roster has a part of the clients; elsewhere it is nil.
type Delivery struct {
	Round   uint64
	Clients int
	Arrived Bitmap
	Shares  []EncryptedShare
	Digest  *Hash
	// Load returns the message with Shares, which it waits without; nil: it has them.
	Load func() (*Delivery, error) `json:"-"`
}

// Prepared says that the client has its masked input ready. It has neither charged its
// ledger nor sent anything of the input. It says nothing of the client's data. Accused is the
// subset of all clients that the client will complain of in its masked input; nil: none.
type Prepared struct {
	Round   uint64
	Anew    uint32 // as in Announce
	Accused Bitmap
}

// Proceed opens the stage masked-input: enough clients are prepared. A client charges its
// ledger and sends its masked input now, once for each round.
type Proceed struct{ Round uint64 }

// MaskedInput carries the client's vectors, one per release of the plan, masked and bit-packed. Its size does not depend on what
// the vectors hold, since a sparse message would tell which items they are about. With the ideal sum, Vectors has them unmasked and
// perhaps sparse, and Packed is the size that the packed ones would have.
type MaskedInput struct {
	Round   uint64
	Masked  [][]byte
	Vectors []Integers
	Packed  int
	// Complaints are of neighbours that the client was dealt bad shares by, in ascending order; in active mode alone.
	Complaints []Complaint
	Next       *Advertise // for the next round, if it is set up ahead
	// Head is the signed head of the client's ledger, which counts the round. A deployment alone
	// has ledgers that outlive a process, so a simulation leaves it empty.
	Head []byte
	// Proof says that the vectors are within their bounds. Blindings, which are masked scalars of 32 bytes, open the sum of what
	// proofs commit to. Both are empty unless inputs are verified.
	Proof, Blindings []byte
}

// HeadSize is the length in bytes of the signed head of a ledger.
const HeadSize = 8 + HashSize + SignatureSize

// Survivors opens the stage after masked-input: whose masked inputs arrived, as a
// number and, unless the sum is ideal, as a subset of the roster's members.
type Survivors struct {
	Round  uint64
	Count  int
	U1     Bitmap
	Next   *Roster // of the next round, if it is set up ahead
	Digest *Hash
}

// Consistency is a client's signature over the survivors that it was shown.
type Consistency struct {
	Round     uint64
	Signature []byte
}

// Quorum opens the stage unmask in active mode: who signed the same survivors, in ascending order of clients.
type Quorum struct {
	Round      uint64
	Signatures []Signed
}

// Unmask is a client's answer once the survivors are known: its shares of its neighbours' secrets, and the change of its noise, per
// release. Removed is that change, encoded (AppendRemoval) where noise is split, masked and bit-packed where it is replaced, and
// empty for a release to which the client added no noise. With the ideal sum it is in Removals instead, in the clear, nil where the
// sum draws all noise, and Packed is the size that the code would have.
type Unmask struct {
	Round    uint64
	Shares   []RevealedShare
	Removed  [][]byte
	Removals []Integers
	Packed   int
	Next     *Shares // for the next round, if it is set up ahead
}

// Answered opens the stage replace: who answered the stage unmask, and so replaced
// its noise, as a number and, unless the sum is ideal, as a subset of the roster's members.
type Answered struct {
	Round  uint64
	Count  int
	U2     Bitmap
	Digest *Hash
}

// Replacement is a client's answer once it is known who replaced its noise: its shares of
// its neighbours' secrets of the masks over the change of noise.
type Replacement struct {
	Round  uint64
	Shares []RevealedShare
}

// Refusal says that the client takes no part in the round that it was announced, whatever its reason is. The client is
// not awaited, and the round is not set up anew for it.
type Refusal struct {
	Round uint64
}

// Result tells the server what a round released: per release of the plan
// the integers summed over the survivors, lifted from the ring.
type Result struct {
	Round     uint64
	Integers  [][]int64
	Survivors int // |U1|
	Answered  int // of them, the clients that answered the stage unmask
}

// Held tells the server that a round waits for clients, since fewer than it requires are connected or prepared. No
// client has been told to send its masked input, so the round has cost nothing.
type Held struct {
	Round               uint64
	Connected, Required int
}

// Error says how many clients are awaited.
func (m *Held) Error() string {
	if m.Connected >= m.Required {
		return fmt.Sprintf("round %d begins anew, since too few clients were prepared in time: %d are connected, %d are required", m.Round, m.Connected, m.Required)
	}
	return fmt.Sprintf("round %d waits for clients: %d are connected, %d are required", m.Round, m.Connected, m.Required)
}

// Abort tells the server that a round released nothing, and why.
type Abort struct {
	Round  uint64
	Reason Reason
}

// Final ends the session with the trained shared model.
type Final struct {
	Model     []byte // with a receipt to the server there is none
	Signature []byte // the server's, see SignFinal; empty where everything runs in one process
	Receipt   []byte // of a deployment, from the aggregator: the session's place in the log of sessions (store.Receipt)
}

// Reason is why a round was aborted: a *TooFew, an *Unrecoverable or an *Unproved.
type Reason interface {
	error
	aborts()
}

// TooFew is why a round was aborted: fewer clients than required were left at the end of a stage.
type TooFew struct {
	Round          uint64
	Stage          Stage
	Left, Required int
}

func (*TooFew) aborts()        {}
func (*Unrecoverable) aborts() {}
func (*Unproved) aborts()      {}

// Unproved is why a round was aborted whose inputs are verified: the sum is not the sum of the vectors that clients proved to be
// within their bounds. One of them masked another vector, and nothing says which.
type Unproved struct{ Round uint64 }

func (e *Unproved) Error() string {
	return fmt.Sprintf("round %d: the sum is not of the vectors that clients proved to be within their bounds: one of them lied about its vector", e.Round)
}

func (e *TooFew) Error() string {
	return fmt.Sprintf("round %d: %d clients left after the stage %s, %d required", e.Round, e.Left, e.Stage, e.Required)
}

// Unrecoverable is why a round was aborted although enough clients were left: a secret of Client could not be reconstructed. Either
// too few of its neighbours answered, or enough did (Left >= Required) but their shares give another secret. Dealt says that Client
// is at fault: it signed these shares itself, or more neighbours complain about theirs than may collude. Otherwise a holder of a
// share may have lied as well.
type Unrecoverable struct {
	Round          uint64
	Client         ClientID
	Left, Required int
	Dealt          bool
}

func (e *Unrecoverable) Error() string {
	switch {
	case e.Left < e.Required && e.Dealt:
		return fmt.Sprintf("round %d: client %d dealt shares of which only %d holders can make use, %d required", e.Round, e.Client, e.Left, e.Required)
	case e.Left < e.Required:
		return fmt.Sprintf("round %d: %d shares of a secret of client %d arrived, %d required", e.Round, e.Left, e.Client, e.Required)
	case e.Dealt:
		return fmt.Sprintf("round %d: client %d dealt shares that do not give its secret", e.Round, e.Client)
	default:
		return fmt.Sprintf("round %d: the shares do not give the secret of client %d: it or one of their holders lied", e.Round, e.Client)
	}
}

func (*Open) Kind() Kind        { return KindOpen }
func (*Announce) Kind() Kind    { return KindAnnounce }
func (*Invite) Kind() Kind      { return KindInvite }
func (*Advertise) Kind() Kind   { return KindAdvertise }
func (*Roster) Kind() Kind      { return KindRoster }
func (*Shares) Kind() Kind      { return KindShares }
func (*Delivery) Kind() Kind    { return KindDelivery }
func (*Prepared) Kind() Kind    { return KindPrepared }
func (*Proceed) Kind() Kind     { return KindProceed }
func (*MaskedInput) Kind() Kind { return KindMaskedInput }
func (*Survivors) Kind() Kind   { return KindSurvivors }
func (*Consistency) Kind() Kind { return KindConsistency }
func (*Quorum) Kind() Kind      { return KindQuorum }
func (*Unmask) Kind() Kind      { return KindUnmask }
func (*Answered) Kind() Kind    { return KindAnswered }
func (*Replacement) Kind() Kind { return KindReplacement }
func (*Refusal) Kind() Kind     { return KindRefusal }
func (*Result) Kind() Kind      { return KindResult }
func (*Abort) Kind() Kind       { return KindAbort }
func (*Held) Kind() Kind        { return KindHeld }
func (*Final) Kind() Kind       { return KindFinal }

func (m *Advertise) At() (uint64, Stage) { return m.Round, StageAdvertise }

func (m *Shares) At() (uint64, Stage) { return m.Round, StageShare }

func (m *Prepared) At() (uint64, Stage) { return m.Round, StagePrepared }

func (m *MaskedInput) At() (uint64, Stage) { return m.Round, StageMaskedInput }

func (m *Consistency) At() (uint64, Stage) { return m.Round, StageConsistency }

func (m *Unmask) At() (uint64, Stage) { return m.Round, StageUnmask }

func (m *Replacement) At() (uint64, Stage) { return m.Round, StageReplace }
