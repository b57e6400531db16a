// Package hub runs the aggregator's process, which all other parties dial, and a relay's process, which
// stands between the aggregator and some clients. Package node has the parties that dial, and gives the order of messages.
package hub
