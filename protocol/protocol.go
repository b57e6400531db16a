// Package protocol defines the messages between the roles of a federation. The roles are one server, one aggregator and the clients
// (packages server, aggregator and client). The package has the [Plan] of a round (one round of training) and each [Release] in it
// (one vector that is summed). It has a client's contribution ([Vector]) and the released sums ([Sums]). It has the messages with
// their sizes, and the [Effects] by which a role tells its driver what to do. Roles do no I/O of their own, so that a simulator and
// a network can drive the same code.
//
// The messages of a round, in order:
//
//	server -> Open -> aggregator -> Announce -> clients
//	clients -> Advertise -> Roster -> Shares -> Delivery -> Prepared -> Proceed -> MaskedInput -> Survivors -> Unmask
//	(active mode: ... -> Survivors -> Consistency -> Quorum -> Unmask)
//	(noise replaced: ... -> Unmask -> Answered -> Replacement)
//	(set up ahead: Announce with Delivery -> Prepared -> Proceed -> MaskedInput with the next Advertise -> Survivors with the next Roster -> Unmask with the next Shares)
//	(a client that takes no part: Announce -> Refusal)
//	(a client that sits out is set up for the next round: Invite -> Advertise -> Roster -> Shares)
//	(through a relay: messages of and for clients in Forward, but for vectors: Forward -> RelayAck, RelayCollect -> Partial)
//	aggregator -> (Held ->) Result or Abort -> server -> ... -> Final -> aggregator -> clients
//	(the receipt of a log of sessions: Final -> aggregator -> server)
//
// The package knows no algorithm and no network. Its only cryptography is the hash that binds a plan ([Plan.Hash], [Transcript])
// and the server's signatures ([SignPlan], [SignFinal]).
package protocol

import "fmt"

// Role is the part of a party in the federation.
type Role uint8

const (
	// Server owns the model and plans rounds.
	Server Role = iota
	// Aggregator runs one secure sum at a time and learns only the sum.
	Aggregator
	// Client owns a party's data.
	Client
	// Relay stands between some of the clients and the aggregator, and adds up what is
	// masked. Without relays, clients and the aggregator exchange messages directly.
	Relay
)

var roleNames = [...]string{Server: "server", Aggregator: "aggregator", Client: "client", Relay: "relay"}

func (r Role) String() string { return nameOf(roleNames[:], r, "Role") }

// nameOf returns the name of a value; of a value without a name its type and number.
func nameOf[T ~uint8](names []string, v T, kind string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", kind, uint8(v))
}

// Party is a role together with, for the role Client, which client, and for the role Relay
// the relay's number: the sender or receiver of a message.
type Party struct {
	Role   Role
	Client ClientID
}

// ClientParty is the party of a client.
func ClientParty(id ClientID) Party { return Party{Role: Client, Client: id} }

// RelayParty is the party of a relay.
func RelayParty(number int) Party { return Party{Role: Relay, Client: ClientID(number)} }

func (p Party) String() string {
	if p.Role == Client || p.Role == Relay {
		return fmt.Sprintf("%s %d", p.Role, p.Client)
	}
	return p.Role.String()
}

// Stage is a stage of a secure sum, named for what the clients send in it.
type Stage uint8

const (
	// StageAdvertise: the client has computed its contribution and says it is here.
	StageAdvertise Stage = iota
	// StageShare: the client hands out shares of its secrets.
	StageShare
	// StagePrepared: the client has its masked input ready, and has not charged its ledger.
	// Nothing of the client's data is in the message. A round that is given up here cost nothing.
	StagePrepared
	// StageMaskedInput: the client's vector, masked. The clients that send it are U1.
	StageMaskedInput
	// StageConsistency: the client's signature over the survivors that it was
	// shown. In active mode only; without it survivors open the stage unmask.
	StageConsistency
	// StageUnmask: the client's shares of others' secrets, and its noise removal.
	// Where noise is replaced, what it changes by is masked, and who sends it is in U2.
	StageUnmask
	// StageReplace: the client's shares of the secrets behind the masks over what noise changes by. Where noise is replaced only.
	StageReplace
	// Stages is the number of stages.
	Stages
)

var stageNames = [...]string{
	StageAdvertise: "advertise", StageShare: "share", StagePrepared: "prepared", StageMaskedInput: "masked-input",
	StageConsistency: "consistency", StageUnmask: "unmask", StageReplace: "replace",
}

func (s Stage) String() string { return nameOf(stageNames[:], s, "Stage") }

// StageFlow says which of the optional stages a round has.
type StageFlow struct {
	Prepares bool // prepared: in every round of a federation; the secure sum itself has no such stage
	Confirms bool // consistency: survivors are signed before they are unmasked, as in active mode
	Replaces bool // replace: noise is replaced
}

// Has reports whether the round goes through a stage.
func (c StageFlow) Has(s Stage) bool {
	switch s {
	case StagePrepared:
		return c.Prepares
	case StageConsistency:
		return c.Confirms
	case StageReplace:
		return c.Replaces
	default:
		return s < Stages
	}
}

// After is the stage that follows another; Stages after the last.
func (c StageFlow) After(s Stage) Stage {
	for s++; s < Stages && !c.Has(s); s++ {
	}
	return s
}
