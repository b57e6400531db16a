// Package node runs the roles of a federation on separate machines: the same
// client, aggregator and server that the simulator drives, over libp2p (TCP and
// QUIC, encrypted and authenticated by the transport).
//
// # Who talks to whom
//
// Clients and the server dial the aggregator, and nobody else is dialled: a client
// behind a NAT opens no port. Nobody else gets as far as a stream: the aggregator
// lets in who is on the enrolment list (package admission), and whom the operator has
// invited. An invited party comes with the ticket's own key, and may do one thing:
//
//	party -> Enrol          its enrolment, redeemed by the ticket's key
//	party <- Ready          it is on the list, durably
//
// From then on it comes with its identity, opens one long-lived stream, and registers
// on it:
//
//	peer -> Register        who it is, and whether it has lost what it knew
//	peer <- Welcome         registration is acknowledged, here and not by the transport
//	peer <- Session         the server's signed description of the session, once there is one
//	peer -> Ready           it has checked that, and takes part
//
// The server is told that its session begins (Ready, from the aggregator) when the
// clients that are there have said that they take part, or after a stage's timeout.
//
// From then on the stream carries the messages of package protocol in frames
// (package wire). A stream that breaks is opened again, with growing pauses.
//
// # Who is believed
//
// A client believes what the operator signed (who may take part) and what the
// server signed (session, plans and the final model), relayed unchanged by the
// aggregator, and computes itself what a plan costs. Whom the operator has revoked it
// may be told past the aggregator, who could hold that back (Client.Revoke). The
// aggregator is believed nothing: what it says is checked by the roles.
//
// # What is kept
//
// A client's ledger, what it has trained for itself alone, and the server's checkpoint
// are on disk before anything that depends on them leaves. All of a client's state is
// that of one identity: a party that is enrolled anew begins a new one. An aggregator
// keeps who is enrolled, and the end of the last session for clients that come later; it
// may be killed and started again at the price of the iteration in progress.
//
// # What is bounded
//
// At the aggregator: connections, of one address, of those who have not proved yet who
// they are, and in all, so that strangers take no room that enrolled peers need; a peer's
// connections, streams and memory; how often it opens a stream and how often it speaks;
// how long what it says may be; what waits for a peer that takes it slowly, and for how
// long.
package node

import (
	"errors"
	"time"
)

// ProtocolID names the stream on which a federation talks.
const ProtocolID = "/fedsim/2.0.0"

// Time limits of the network, apart from those of stages, which are the
// aggregator's setting.
const (
	// dialTimeout is how long a connection may take to come about.
	dialTimeout = 20 * time.Second
	// registerTimeout is how long a peer may take over each step of registering.
	registerTimeout = 30 * time.Second
	// frameTimeout is how long a frame may take to be written: a peer that reads
	// more slowly than 256 KiB in this time is let go.
	frameTimeout = 30 * time.Second
	// redialMin and redialMax bound the pause before a broken connection is dialled
	// again; it doubles from one to the other, with jitter.
	redialMin = 250 * time.Millisecond
	redialMax = 15 * time.Second
)

// The rules of admission that a peer can break.
var (
	// ErrNotEnrolled: the peer is not on the enrolment list, or was revoked.
	ErrNotEnrolled = errors.New("node: not enrolled in this federation")
	// ErrRole: the peer registered for a role it is not enrolled for.
	ErrRole = errors.New("node: enrolled for another role")
	// ErrProtocol: the peer may not speak this protocol.
	ErrProtocol = errors.New("node: not for this peer")
	// ErrRefused: the aggregator refuses what it was sent, and says why.
	ErrRefused = errors.New("node: the aggregator refuses")
	// ErrSession: the session's description does not hold.
	ErrSession = errors.New("node: the description of the session does not hold")
)
