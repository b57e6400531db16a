package session

import (
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/fedsim/fedsim/protocol"
)

// Observer receives what happens in a process, for the people who run it. Its methods are
// called from several goroutines and should return quickly, since the caller waits.
type Observer interface {
	// Session is called with the session that the process begins to lead or takes part
	// in.
	Session(protocol.SessionID)
	// Registered is called with the change in the number of registered peers: at an
	// aggregator, its clients; at a client or the server, itself with the aggregator.
	Registered(change int)
	// Waits is called with what keeps the process from its work, such as a connection or clients that are missing;
	// "": nothing does.
	Waits(what string)
	// ClockAhead is called with how far the machine's clock is ahead of the aggregator's, to half a minute.
	ClockAhead(by time.Duration)
	// Event is called with what a role reports.
	Event(protocol.Event)
}

type unobserved struct{}

func (unobserved) Session(protocol.SessionID) {}
func (unobserved) Registered(int)             {}
func (unobserved) Waits(string)               {}
func (unobserved) ClockAhead(time.Duration)   {}
func (unobserved) Event(protocol.Event)       {}

// Observing returns the observer, or for nil an observer that hears nothing.
func Observing(o Observer) Observer {
	if o == nil {
		return unobserved{}
	}
	return o
}

// Report logs and hands on what a role reports.
func Report(log *zerolog.Logger, o Observer, events []protocol.Event) {
	logEvents(log, events)
	for _, e := range events {
		o.Event(e)
	}
}

// ClockApart is the difference of clocks from which on both sides warn.
const ClockApart = time.Minute

// Ahead says how far a clock is ahead of another clock, or behind it.
func Ahead(by time.Duration, other string) string {
	way := "ahead of"
	if by < 0 {
		way = "behind"
	}
	return fmt.Sprintf("%v %s %s", by.Abs().Round(time.Second), way, other)
}
