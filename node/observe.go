package node

import (
	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/protocol"
)

// Observer hears what happens in a process, for its operator. Its methods are called
// from several goroutines, and whoever calls waits.
type Observer interface {
	// Session is the session that the process leads or takes part in from now on.
	Session(protocol.SessionID)
	// Registered says by how many the registered peers changed: of an aggregator,
	// its clients; of a client or the server, itself with the aggregator.
	Registered(change int)
	// Event is something that a role reports.
	Event(protocol.Event)
}

// unobserved stands for an observer that there is not.
type unobserved struct{}

func (unobserved) Session(protocol.SessionID) {}
func (unobserved) Registered(int)             {}
func (unobserved) Event(protocol.Event)       {}

func observing(o Observer) Observer {
	if o == nil {
		return unobserved{}
	}
	return o
}

// report logs and hands on what a role reports.
func report(log *zerolog.Logger, o Observer, events []protocol.Event) {
	logEvents(log, events)
	for _, e := range events {
		o.Event(e)
	}
}
