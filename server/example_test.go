package server_test

import (
	"fmt"
	"time"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/server"
)

// A driver feeds inputs and carries out what the server asks for: here the plan of the first round
// is computed, and a message with it leaves for the aggregator.
func Example() {
	s := server.New(&strategy{rounds: 1})
	now := time.Unix(0, 0)
	list := []protocol.Input{protocol.Start{}}
	for len(list) > 0 {
		effects := s.Step(now, list[0])
		list = list[1:]
		for _, w := range effects.Work {
			list = append(list, w.Do(serial{}))
		}
		for _, e := range effects.Send {
			fmt.Printf("%T to %v\n", e.Message, e.To)
		}
	}
	// Output:
	// *protocol.Open to aggregator
}
