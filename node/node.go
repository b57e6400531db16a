// Package node runs the roles of a federation on separate machines: the client, aggregator and server that the simulator also drives, over
// libp2p (TCP and QUIC, encrypted and authenticated by the transport).
//
// # Connections
//
// Clients and the server dial the aggregator, and no party dials them, so a client behind a NAT opens no port. The aggregator accepts
// streams only from peers on the enrolment list (package admission) and from parties that the operator has invited. An invited party
// connects with the ticket's key, and may do one thing:
//
//	party -> Enrol          its enrolment, redeemed by the ticket's key
//	party <- Ready          it is on the list, durably
//
// From then on it connects with its identity, opens one long-lived stream, and registers on it:
//
//	peer -> Register        who it is, whether it has lost what it knew, and which enrolment list it has
//	peer <- Welcome         registration is acknowledged, here and not by the transport, with the list if it is another
//	peer <- Session         the server's signed description of the session, once there is one
//	peer -> Ready           it has checked that, and takes part
//	peer -> Wait            instead: it has finished that one, and is shown the next
//
// A server whose session is refused is told why (Refused), and whether for good: it then ends. Else, as where the
// list has changed meanwhile, it asks again.
//
// The aggregator tells the server that its session begins (Ready) when the connected
// clients have said that they take part, or after a stage's timeout.
//
// Then the stream carries the messages of package protocol in frames (package wire). A
// stream that breaks is opened again, with growing pauses. If it broke within a plan or the final model, the
// client's next Ready names the bytes that it has, by their number and digest, and it is sent the rest.
//
// # Relays
//
// A relay (package hub) stands between the aggregator and clients that are told to dial it. To them it is the aggregator, except that no
// party enrols with it. It dials the aggregator by a stream of its own:
//
//	relay -> Register       as a relay, whose key the aggregator was given
//	relay <- Welcome        who is enrolled, if it has another list; again when that has changed
//	relay -> Gathered       how many clients are connected, whenever that changes
//	relay <- Session        the server's description, which it checks and shows its clients
//	relay -> Ready          they have looked it over
//	relay -> Wait           instead: it has had the end of that one
//
// Then messages follow in frames: its clients' messages inside of others (protocol.Forward), and which clients come and go
// (protocol.RelayStatus). A client that has lost its relay continues with the next relay in its list. A relay keeps nothing on disk.
//
// # Trust
//
// A client trusts what the operator signed (who may take part) and what the server signed (session, plans and the final model), relayed
// unchanged by the aggregator, and computes itself what a plan costs. A relay could lie like the aggregator, to its own clients. An
// aggregator could withhold revocations, so a client can also get them from the operator directly (Client.Revoke). The aggregator is not
// trusted: the roles check what it sends.
//
// # Durable state
//
// A client's ledger, the state that it trains for itself alone, and the server's checkpoint are on disk before anything that depends on
// them is sent. A client marks a session as finished once its result is on disk. All of a client's state belongs to one identity; a party
// that is enrolled anew starts with a new state. An aggregator keeps who is enrolled, and the end of the last session for clients that come
// later. It may be killed and restarted; that costs the round in progress.
//
// # Resource limits
//
// The aggregator limits connections: per address, of peers that are not authenticated yet, and in total, so that strangers cannot use up
// the room of enrolled peers. Where there are more, the address with the most unknown connections gives way (package peer). For each peer
// it limits connections, streams and memory, how often the peer opens a stream and sends, and how long its messages are. The queue of
// messages to a slow peer is limited in size. Time limits go by the bytes that move: a stream that carries 4 KiB a second is not cut.
package node
