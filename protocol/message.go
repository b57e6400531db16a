package protocol

import "fmt"

// Kind tells messages apart.
type Kind uint8

// The kinds, in the order in which an iteration uses them.
const (
	KindOpen Kind = iota
	KindAnnounce
	KindAdvertise
	KindRoster
	KindShares
	KindDelivery
	KindMaskedInput
	KindSurvivors
	KindUnmask
	KindResult
	KindAbort
	KindFinal
	Kinds // how many there are
)

var kindNames = [...]string{
	KindOpen: "open", KindAnnounce: "announce", KindAdvertise: "advertise", KindRoster: "roster",
	KindShares: "shares", KindDelivery: "delivery", KindMaskedInput: "masked-input",
	KindSurvivors: "survivors", KindUnmask: "unmask", KindResult: "result", KindAbort: "abort", KindFinal: "final",
}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Message is what one party says to another. A message is never changed after
// it was sent: several receivers may hold the same one.
type Message interface {
	Kind() Kind
	// Size is the length in bytes of the message's content in a fixed-width
	// encoding, framing and encryption of the transport aside.
	Size() int
}

// Describe names a message for a log; a message that is not there too.
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

// headerSize: kind, session, iteration.
const headerSize = 1 + 16 + 8

// StageMessage is a message that a client sends in a stage of a secure sum.
type StageMessage interface {
	Message
	// At is the iteration and the stage the message belongs to.
	At() (iteration uint64, stage Stage)
}

// Open asks the aggregator for the iteration of a plan.
type Open struct{ Plan *Plan }

// Announce relays the plan to a client, unchanged.
type Announce struct{ Plan *Plan }

// Advertise says that the client is here with its contribution computed.
type Advertise struct{ Iteration uint64 }

// Roster opens the stage share: how many advertised.
type Roster struct {
	Iteration uint64
	Clients   int
}

// Shares carries the client's encrypted shares for its neighbours.
type Shares struct{ Iteration uint64 }

// Delivery opens the stage masked-input: whose shares arrived, and theirs for
// this client.
type Delivery struct {
	Iteration uint64
	Clients   int
}

// MaskedInput carries the client's vectors, one per release of the plan. With
// the ideal sum they are in the clear and may be sparse; Packed is the size of
// the dense vectors in the ring, bit-packed, which is what goes over the wire
// whatever the vector holds: a sparse message would tell which items it is about.
type MaskedInput struct {
	Iteration uint64
	Vectors   []Integers
	Packed    int
}

// Survivors opens the stage unmask: how many clients' masked inputs arrived.
type Survivors struct {
	Iteration uint64
	Count     int
}

// Unmask is a client's answer to Survivors: what its noise must change by now
// that their number is known, per release; nil where the client added no noise
// of its own, because the ideal sum draws all of it. Packed is what the removals
// take on the wire.
type Unmask struct {
	Iteration uint64
	Removals  []Integers
	Packed    int
}

// Result tells the server what an iteration released: per release of the plan
// the integers summed over the survivors, lifted from the ring.
type Result struct {
	Iteration uint64
	Integers  [][]int64
	Survivors int // |U1|
	Answered  int // of them, those who answered the stage unmask
}

// Abort tells the server that an iteration released nothing, and why.
type Abort struct {
	Iteration uint64
	Reason    *TooFew
}

// Final ends the session with the trained shared model.
type Final struct{ Model []byte }

// TooFew is why an iteration was abandoned: fewer clients than required were
// left at the end of a stage.
type TooFew struct {
	Iteration      uint64
	Stage          Stage
	Left, Required int
}

func (e *TooFew) Error() string {
	return fmt.Sprintf("iteration %d: %d clients left after the stage %s, %d required", e.Iteration, e.Left, e.Stage, e.Required)
}

func (*Open) Kind() Kind        { return KindOpen }
func (*Announce) Kind() Kind    { return KindAnnounce }
func (*Advertise) Kind() Kind   { return KindAdvertise }
func (*Roster) Kind() Kind      { return KindRoster }
func (*Shares) Kind() Kind      { return KindShares }
func (*Delivery) Kind() Kind    { return KindDelivery }
func (*MaskedInput) Kind() Kind { return KindMaskedInput }
func (*Survivors) Kind() Kind   { return KindSurvivors }
func (*Unmask) Kind() Kind      { return KindUnmask }
func (*Result) Kind() Kind      { return KindResult }
func (*Abort) Kind() Kind       { return KindAbort }
func (*Final) Kind() Kind       { return KindFinal }

// Size implements Message: the plan.
func (m *Open) Size() int { return m.Plan.size() }

// Size implements Message: the plan.
func (m *Announce) Size() int { return m.Plan.size() }

// Size implements Message: nothing but the header.
func (*Advertise) Size() int { return headerSize }

// Size implements Message: a count.
func (*Roster) Size() int { return headerSize + 4 }

// Size implements Message: nothing but the header while sums are ideal.
func (*Shares) Size() int { return headerSize }

// Size implements Message: a count.
func (*Delivery) Size() int { return headerSize + 4 }

// Size implements Message: the dense vectors, packed.
func (m *MaskedInput) Size() int { return headerSize + m.Packed }

// Size implements Message: a count.
func (*Survivors) Size() int { return headerSize + 4 }

// Size implements Message: the removals.
func (m *Unmask) Size() int { return headerSize + m.Packed }

// Size implements Message: two counts and eight bytes a coordinate.
func (m *Result) Size() int {
	n := headerSize + 8
	for _, v := range m.Integers {
		n += 8 * len(v)
	}
	return n
}

// Size implements Message: stage and two counts.
func (*Abort) Size() int { return headerSize + 9 }

// Size implements Message: the model.
func (m *Final) Size() int { return headerSize + len(m.Model) }

// At implements StageMessage.
func (m *Advertise) At() (uint64, Stage) { return m.Iteration, StageAdvertise }

// At implements StageMessage.
func (m *Shares) At() (uint64, Stage) { return m.Iteration, StageShare }

// At implements StageMessage.
func (m *MaskedInput) At() (uint64, Stage) { return m.Iteration, StageMaskedInput }

// At implements StageMessage.
func (m *Unmask) At() (uint64, Stage) { return m.Iteration, StageUnmask }

func (p *Plan) size() int {
	n := headerSize + len(p.Phase) + 4 + 8 + 8 + len(p.Broadcast)
	for _, r := range p.Releases {
		n += len(r.Name) + 4 + 8 + 8 + 4 + 8 + 1 + 1 + 8
	}
	return n
}

// PackedSize is the size in bytes of one client's vectors of the plan, every
// coordinate at the width of its ring.
func (p *Plan) PackedSize() int {
	n := 0
	for _, r := range p.Releases {
		n += r.packedSize()
	}
	return n
}

func (r Release) packedSize() int { return (r.Len*int(r.Width) + 7) / 8 }
