package chaos

import (
	"github.com/fedsim/fedsim/protocol"
)

// Observation is an event that a checker receives. It must not be changed.
type Observation interface{ observation() }

// Planned says that the server has planned a round. Healed: no more faults occur.
type Planned struct {
	Plan   *protocol.Plan
	Healed bool
}

// Left says that a message has left its sender, whether or not it arrives.
type Left struct{ Envelope protocol.Envelope }

// Heard says that a message has reached a role. Ignored: the role did not accept it.
type Heard struct {
	Envelope protocol.Envelope
	Ignored  bool
}

// Masked says that a client passed its inputs to the secure sum to be masked. Plain is
// its contribution in integers, Noise its share of the noise, drawn again from its
// randomness.
type Masked struct {
	Client               protocol.ClientID
	Round                uint64
	Plain, Noise, Inputs [][]int64 // by release, dense
}

// Thinned says that a client passed the changes of its noise to the secure sum. Due are
// the changes that its randomness gives for the number of survivors that it was shown,
// drawn again.
type Thinned struct {
	Client        protocol.ClientID
	Round         uint64
	Survivors     int
	Due, Removals [][]int64 // by release, dense
}

// Durable says that a client's record is durable. Spent and Budget are epsilons of
// its ledger, both 0 in a client without one.
type Durable struct {
	Client        protocol.ClientID
	Record        protocol.Record
	Spent, Budget float64
}

// Restarted says that a client is running again, and what its durable records say.
type Restarted struct {
	Client protocol.ClientID
	Last   uint64  // the latest round recorded
	Spent  float64 // epsilon of the ledger rebuilt
}

// ModelReceived says that a client's trainer was handed the final model.
type ModelReceived struct {
	Client protocol.ClientID
	Model  []byte
}

// Absorbed says that the server's strategy absorbed a sum.
type Absorbed struct {
	Round uint64
	Sums  protocol.Sums
}

// Failed says that a computation of a role failed.
type Failed struct{ Event protocol.Event }

// Blamed says that a client was excluded for a lie, or a sum refused.
type Blamed struct{ Event protocol.Event }

// Ended says that the schedule is over: no event is left, or their number exceeded the
// limit.
type Ended struct {
	Model []byte // the server's
	Over  bool   // the server has ended the session
}

func (Planned) observation()       {}
func (Left) observation()          {}
func (Heard) observation()         {}
func (Masked) observation()        {}
func (Thinned) observation()       {}
func (Durable) observation()       {}
func (Restarted) observation()     {}
func (ModelReceived) observation() {}
func (Absorbed) observation()      {}
func (Failed) observation()        {}
func (Blamed) observation()        {}
func (Ended) observation()         {}
