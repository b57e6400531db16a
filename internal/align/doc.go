// Package align finds common rows for users that several organisations share, without showing
// their ids to any other party or the server. The server learns how the parties' lists overlap, and no id. A party
// learns the rows of its own ids and the number of rows.
//
// # Protocol
//
// Each party draws a secret scalar. The pseudonym of an id is its hash, a point of
// ristretto255, multiplied by all parties' secrets; no party knows their product. A party gets
// the pseudonyms of its own ids by oblivious evaluation, as in RFC 9497 but with a chain of
// evaluators. The owner blinds each point with a scalar of its own. Every other party in turn multiplies
// the point by its secret. The owner then multiplies by its own secret and removes the blinding.
//
//	owner -> next      points   the owner's ids: blinded, padded, in random order
//	party -> next      points   multiplied by the party's secret, until they are back
//	party -> server    names    the pseudonyms, hashed to 16 bytes
//	party -> server    checks   those of 16 ids that all parties know
//	server -> party    ranks    the row of each, and the number of rows
//	party -> server    done     the party has stored its rows
//	server -> all      Ended    all parties have; signed
//
// The server sorts the union of all pseudonyms by a hash whose key it draws; a row is a rank
// in that order. Neither the pseudonyms nor their own order are published: a party
// could look up, or locate between two of its own, an id that it had evaluated but did not submit.
//
// # Trust
//
// The aggregator relays messages, sealed end to end with keys that are drawn for the alignment and
// signed with the members' identities ([Hello]). The hash of all hellos names the attempt and
// enters every key, so members that were shown different hellos cannot read each other.
//
// A party multiplies at most as many points of another party as that party declared in its
// hello, and [Checks]. Encodings that are not canonical, the identity element, and messages out of order end the alignment with
// an error that names the sender ([Fault]). Each party also has [Checks] ids evaluated that all know, hidden
// among its own. If their pseudonyms differ between parties, a party has multiplied by several
// scalars, and the server ends the alignment ([ErrMismatch]). The check cannot tell which party it was.
//
// # Failures
//
// A broken connection costs nothing: unacknowledged messages are sent again. A process that restarts
// has lost its keys. Its new hello begins another attempt, and all parties draw new
// secrets for it. A party takes part in at most [MaxAttempts].
//
// Party and Collector are state machines without I/O, clock and goroutines.
package align
