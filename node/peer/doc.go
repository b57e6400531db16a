// Package peer connects a party to others, whatever its role. It has the party's host and key, the limits of how often and how much others
// connect, and the connection to an aggregator or a relay. It queues messages to slow peers as bytes, and knows no message and no session.
package peer
