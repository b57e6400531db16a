// Package admission decides who is in a federation. It has no network: it makes,
// reads and verifies the documents by which parties come in and are put out, and
// keeps the key files.
//
// The federation's operator decides, and nobody else. The operator's key signs
// the [Federation], which fixes the number of clients; a [Ticket] for every place
// in it, which travels in an [Invitation] to one person; and [Revocations]. It is
// needed for these only. In operation neither the aggregator nor the server holds
// it, and whoever holds it must run neither: with it one could enrol clients of
// one's own until one honest client stands alone, and its sum is its data.
//
// Whoever is invited makes an identity, which never leaves its machine, and
// redeems the ticket for it with the ticket's private key ([Invitation.Accept]).
// The [Enrolment] is a chain that anybody can verify who knows the operator's key:
// operator, ticket, identity. So the aggregator, through which all of this
// passes, can neither invent clients nor move a place to a key of its own: it never
// sees the private half of a ticket. It keeps a [Registry], in which the first to
// redeem a ticket has the place for good, and shows its [List] to everybody.
//
// # What a party must do
//
// Check a list with [Registry.Update] and [Membership.Check] before it is used,
// keep that registry, and give [List.Identities] to the secure sum. What the
// aggregator can still do is show different lists to different parties, leave out
// who is not known to them yet, or keep back the newest revocations. The first
// ends in no sum, since masks and signatures are bound to the identities. The
// second is a dropout. Against the last, the operator sends revocations to the
// parties directly (they are public, and [Registry.Revoke] takes them from
// anywhere); a party that has them refuses lists that do not.
//
// # What single use means
//
// One place never holds two identities on one list, whatever happens: that bounds
// what an invitation in wrong hands can do to one place. That the second to
// redeem it is refused rests on the aggregator's registry, and on those of the
// parties from the first list on that shows the place taken. Likewise expiry: the
// registry holds it against the aggregator's clock, and no proof of when a ticket
// was redeemed exists. An invitation that went astray is therefore revoked, not
// waited for: a revoked serial counts for nobody, with whatever aggregator.
//
// # Texts
//
// Documents are JSON, one object whose only key is the kind and version, and
// strictly so: unknown, missing, repeated and misordered keys and everything that
// has a second spelling are refused, white space apart. Signatures and hashes are
// over protocol.Transcript encodings, never over the texts.
package admission
