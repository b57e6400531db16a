// Package protocol is the vocabulary that the roles share: the [Plan] of an
// iteration, each [Release] in it, what is contributed ([Vector]) and what comes
// of it ([Sums]), the messages with their sizes, and the [Effects] by which a
// role, which does no I/O of its own, tells its driver what to do.
//
//	server -> Open -> aggregator -> Announce -> clients
//	clients -> Advertise -> Roster -> Shares -> Delivery -> MaskedInput -> Survivors -> Unmask
//	(active mode: ... -> Survivors -> Consistency -> Quorum -> Unmask)
//	(noise replaced: ... -> Unmask -> Answered -> Replacement)
//	(set up ahead: Announce with Delivery -> MaskedInput with the next Advertise -> Survivors with the next Roster -> Unmask with the next Shares)
//	(to be in the next, for a client that sits out: Invite -> Advertise -> Roster -> Shares)
//	aggregator -> Result or Abort -> server -> ... -> Final -> aggregator -> clients
//
// The package knows no algorithm, no network and, but for the hash that binds a
// plan ([Plan.Hash], [Transcript]) and the server's signatures ([SignPlan],
// [SignFinal]), no cryptography.
package protocol

import "fmt"

// Role is what a party does in the federation.
type Role uint8

const (
	// Server owns the model and plans iterations.
	Server Role = iota
	// Aggregator runs one secure sum at a time and learns only the sum.
	Aggregator
	// Client owns a party's data.
	Client
)

func (r Role) String() string {
	switch r {
	case Server:
		return "server"
	case Aggregator:
		return "aggregator"
	case Client:
		return "client"
	default:
		return fmt.Sprintf("Role(%d)", uint8(r))
	}
}

// Party is somebody a message can come from or go to. Client is meaningful
// for the role Client only.
type Party struct {
	Role   Role
	Client ClientID
}

// ClientParty is the party of a client.
func ClientParty(id ClientID) Party { return Party{Role: Client, Client: id} }

func (p Party) String() string {
	if p.Role == Client {
		return fmt.Sprintf("client %d", p.Client)
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
	// StageMaskedInput: the client's vector, masked. Who sends it is in U1.
	StageMaskedInput
	// StageConsistency: the client's signature over the survivors that it was
	// shown. In active mode only; without it survivors open the stage unmask.
	StageConsistency
	// StageUnmask: the client's shares of others' secrets, and its noise removal.
	// Where noise is replaced, what it changes by is masked, and who sends it is in U2.
	StageUnmask
	// StageReplace: the client's shares of the secrets behind the masks over what
	// noise changes by. Where noise is replaced only.
	StageReplace
	// Stages is how many there are.
	Stages
)

var stageNames = [...]string{
	StageAdvertise: "advertise", StageShare: "share", StageMaskedInput: "masked-input",
	StageConsistency: "consistency", StageUnmask: "unmask", StageReplace: "replace",
}

func (s Stage) String() string {
	if int(s) < len(stageNames) {
		return stageNames[s]
	}
	return fmt.Sprintf("Stage(%d)", uint8(s))
}

// StageFlow says which of the stages that not every iteration has one goes through.
type StageFlow struct {
	Confirms bool // consistency: survivors are signed before they are unmasked, as in active mode
	Replaces bool // replace: noise is replaced
}

// Has reports whether the iteration goes through a stage.
func (c StageFlow) Has(s Stage) bool {
	switch s {
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
