package protocol

import "errors"

// NoModel stands in place of the final model where no round of a session released
// anything. It is no model of any algorithm.
var NoModel = []byte("fedsim/no-model/v1\n")

// ErrNothingReleased is returned at the end of a session if no round released anything.
var ErrNothingReleased = errors.New("no round of the session released anything: there is no model. A client is charged for each round in which it sent its masked vector, and for no other (fednode status tells its owner). The log of the aggregator and of the server says why (client-excluded, sum-refused, round-aborted)")
