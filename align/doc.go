// Package align lets organisations that share users find the rows of these users without
// showing their ids: the server of a session learns how the lists of the parties overlap, and
// no id; a party learns the rows of its own ids and how many rows there are.
//
// # How
//
// Every party draws a secret scalar. The pseudonym of an id is its hash, a point of
// ristretto255, under the product of all secrets, which nobody knows. A party gets those of
// its own ids obliviously, in the manner of RFC 9497: it multiplies each point by a scalar
// drawn for this one (blinds it), the points go round, each of the other parties multiplies
// them by its secret, and the owner multiplies by its own and takes the blinding away:
//
//	owner -> next      Points   the owner's ids, blinded, padded and in random order
//	party -> next      Points   times the party's secret, until they are home
//	party -> server    Names    the pseudonyms, hashed to 16 bytes
//	server -> party    Ranks    the row of each, and how many there are
//	party -> server    Done     the party keeps them, durably
//	server -> all      Ended    all parties do; signed
//
// Rows are the ranks of the pseudonyms under a hash with a key that the server draws, so that
// they say nothing: by ranks in the order of the pseudonyms a party could tell whether an id that it
// had evaluated, and kept from the server, is between two of its own.
//
// # Who is believed
//
// Messages go through the aggregator, sealed for their reader with keys that are drawn for
// the alignment and signed by the parties' identities ([Hello]). All that was said at the
// beginning is in the name of the attempt, and that in every key: parties that were shown
// different ones cannot read each other.
//
// A party multiplies at most as many points of another as that one has declared to all. Points
// that do not decode, the identity, and messages that are not in turn end the alignment with the name of
// their sender ([Fault]). That a party multiplies by the wrong scalar is not found
// out: rows then do not meet, and the model is worse for it.
//
// # Restarts
//
// A connection that breaks costs nothing: what has not been acknowledged is sent again. A
// process that is started again has lost its keys, and with its new hello a new attempt
// begins, with new secrets, in all of them. A party takes part in at most [MaxAttempts].
//
// Roles are without I/O, clock and goroutines: messages in, messages out.
package align
