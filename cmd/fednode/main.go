// Command fednode runs one party of a federation that trains a private recommender:
// an aggregator, a server or a client, on a machine of its own.
//
//	fednode keygen FILE          make a key: the operator's, or the aggregator's
//	fednode invite ...           found a federation, invite its parties, revoke them
//	fednode aggregator ...       let parties in and lead their secure sums
//	fednode server EXPERIMENT    own the model: plan rounds, end the session
//	fednode client ...           take part with one's own ratings
//	fednode status               what a process on this machine is doing
//
// Results go to stdout, logs to stderr. It exits with 0 when done, 1 when something failed, 2 when
// it was asked for something it cannot do, and 130 when it was stopped before the end of the
// session. A start with the same state continues the session. An aggregator runs until it is
// stopped, which is its end: 0.
package main

import (
	_ "github.com/fedsim/fedsim/algorithm/external" // an algorithm of the user, in any language
	"github.com/fedsim/fedsim/cmd/fednode/command"
)

func main() { command.Main() }
