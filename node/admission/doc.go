// Package admission decides which parties are in a federation. It has no network: it makes, reads and verifies the documents by which
// parties are admitted and revoked, and keeps the key files.
//
// Only the federation's operator decides. The operator's key signs the [Federation], which fixes the number of clients; a [Ticket] for
// every place in it, which travels in an [Invitation] to one person; and [Revocations]. The key is needed for these only. In operation
// neither the aggregator nor the server has the key, and its holder must run neither. Otherwise the holder could enrol clients of their own
// until only one honest client is left: the sum would reveal that client's data.
//
// An invited person makes an identity key, which never leaves their machine, and redeems the ticket for it with the ticket's private key
// ([Invitation.Accept]). The [Enrolment] is a chain that every holder of the operator's public key can verify: operator, ticket, identity.
// The aggregator passes all of this on, but never sees the private half of a ticket. So it can neither invent clients nor enrol its own key
// for a place. It keeps a [Registry], in which the first party to redeem a ticket has the place for good, and shows its [List] to every
// party.
//
// # What a party must do
//
// A party checks a list with [Registry.Update] and [Membership.Check] before it uses the list, keeps that registry, and gives
// [List.Identities] to the secure sum. In active mode these are the keys with which clients check one another. In semi-honest mode clients
// take the keys of others on the aggregator's word anyway, so they get a [Part] of the list: the server, the aggregator and the client
// itself. A proof shows that these are on the list that the server signed for. So the cost of a client does not grow with the federation.
// The aggregator can still show different lists to different parties, leave out a party that others do not know yet, or withhold the newest
// revocations. Different lists end in no sum, since masks and signatures are bound to the identities. Leaving a party out is a dropout.
// Against withheld revocations, the operator sends them to the parties directly (they are public, and [Registry.Revoke] accepts them from
// any source); a party that has them refuses lists that do not.
//
// # Single use of invitations
//
// One place never has two identities on one list. That limits what a stolen invitation can do to one place. That the second to redeem a
// ticket is refused depends on the aggregator's registry, and on the parties' registries from the first list on that shows the place taken.
// Expiry depends on the aggregator's registry and clock as well: there is no proof of when a ticket was redeemed. So revoke an invitation
// that got into the wrong hands, and do not wait for it to expire: with a revoked serial no ticket is valid, at any aggregator.
//
// # Texts
//
// Documents are JSON, one object whose only key is the kind and version. Parsing is strict: unknown, missing, repeated and misordered keys,
// and everything that has a second spelling, are refused, except for white space. Signatures and hashes are over protocol.Transcript
// encodings, never over the texts.
package admission
