// Package peer is the network's side of a party, whatever its role: its host and key, how often and how
// much others may connect, the connection that it holds to an aggregator or a relay, and the queue of
// what a slow peer is sent. It knows no message and no session.
package peer
