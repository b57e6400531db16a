package protocol

// Messages between relays and the aggregator. A relay is connected to some of the clients,
// and adds up the vectors of what they send. Besides these, a relay gets the Announce of a
// plan, without a delivery, which it keeps, and Final, which goes to all of its clients.

// Forward carries one client's message through a relay, in either direction.
//
// Held, on the way up: the relay holds the message's vectors (MaskedInput.Masked,
// Unmask.Removed), which are missing here. It adds them to its sum when the aggregator
// says that it counts them.
//
// Opens, on the way down: the client gets the Announce of the plan that the relay was
// given last, with Message, a Delivery, inside or, if Message is nil, with none.
type Forward struct {
	Client  ClientID
	Held    bool
	Opens   bool
	Message Message
}

// RelayAck says that the aggregator counts a client's message of a stage, so that the relay
// adds the vectors that it holds of it.
type RelayAck struct {
	Round  uint64
	Stage  Stage
	Client ClientID
}

// RelayCollect asks a relay for the sum of what was counted in a stage, which is over.
type RelayCollect struct {
	Round uint64
	Stage Stage
}

// Partial is that sum: per release of the plan, the sum over Clients, modulo the ring,
// bit-packed as in MaskedInput; in the stage unmask empty for a release without noise to
// remove. Bit c of Clients is client c.
type Partial struct {
	Round   uint64
	Stage   Stage
	Clients Bitmap
	Sums    [][]byte
}

// RelayStatus says that a client has a connection to the relay now, or has none any more. Incarnation
// tells one start of its process from another; it is zero where it has no connection.
type RelayStatus struct {
	Client      ClientID
	Connected   bool
	Incarnation IncarnationID
}

// IncarnationID is drawn when a process starts: a client with another one than before knows nothing
// but its records.
type IncarnationID [16]byte

func (*Forward) Kind() Kind      { return KindForward }
func (*RelayAck) Kind() Kind     { return KindRelayAck }
func (*RelayCollect) Kind() Kind { return KindRelayCollect }
func (*Partial) Kind() Kind      { return KindPartial }
func (*RelayStatus) Kind() Kind  { return KindRelayStatus }
