// Package hub is what everybody dials: the aggregator's process, and that of a relay, which is to its clients
// what the aggregator is to all. Package node has the parties that dial, and says in which order messages go.
package hub
