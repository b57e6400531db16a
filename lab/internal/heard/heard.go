// Package heard notes what an aggregator that watches knows of a round besides its sum.
package heard

import (
	"time"

	"github.com/fedsim/fedsim/protocol"
)

// Inputs holds the clients whose masked input arrived, by round. These clients are in the sum of the round.
type Inputs map[uint64]map[protocol.ClientID]bool

// Hear notes who sends a masked input. It is for sim.Config.Sent.
func (in Inputs) Hear(_ time.Duration, e protocol.Envelope) {
	m, ok := e.Message.(*protocol.MaskedInput)
	if !ok {
		return
	}
	if in[m.Round] == nil {
		in[m.Round] = make(map[protocol.ClientID]bool)
	}
	in[m.Round][e.From.Client] = true
}

// Of reports whether a client's came in a round.
func (in Inputs) Of(round uint64, client int) bool {
	return in[round][protocol.ClientID(client)]
}
