package secagg

import (
	"cmp"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fedsim/fedsim/internal/secagg/basepoint"
	"github.com/fedsim/fedsim/internal/secagg/mask"
	"github.com/fedsim/fedsim/protocol"
)

// Stage 3, consistency check (active mode alone; Bonawitz et al., round 3). A client signs the single set of survivors that it was
// shown. It unmasks only when so many clients signed the same set that no other set can have as many signatures.

// Confirm signs the survivors. For the same survivors it returns the same signature again; for others it returns ErrLocked.
func (c *Client) Confirm(m *protocol.Survivors) (*protocol.Consistency, error) {
	if !c.Confirms() {
		return nil, ErrNotConfirmed
	}
	if c.stage != protocol.StageConsistency && c.confirmed == nil {
		return nil, fmt.Errorf("%w: %s", ErrOrder, protocol.StageConsistency)
	}
	if err := c.lock(m); err != nil {
		return nil, err
	}
	if c.confirmed == nil {
		c.confirmed = &protocol.Consistency{Round: c.plan.Round,
			Signature: ed25519.Sign(c.party.cfg.Identity, signedSurvivors(c.context.Binding, c.party.cfg.ID, m.U1))}
		c.stage = protocol.StageUnmask
	}
	return c.confirmed, nil
}

// lock checks survivors and makes them the only ones. Survivors that cannot be
// end the client's part in the round; others than the first leave it as it is.
func (c *Client) lock(m *protocol.Survivors) error {
	u1 := partialView{m.Count, m.U1, m.Digest}
	if c.survivors.known != nil {
		if u1.is(c.survivors) {
			return nil
		}
		return c.lie(protocol.StageUnmask, ErrLocked)
	}
	if !atomic.CompareAndSwapUint32(&c.fate, undecided, bound) {
		return fmt.Errorf("%w: the setup was given up", ErrOrder)
	}
	err := c.isAmong(u1, c.arrived)
	if err != nil {
		c.stage = protocol.Stages
		return c.lie(protocol.StageUnmask, err)
	}
	c.survivors = u1.clone()
	return nil
}

// isAmong checks a set that a sum is to be over, a subset of the clients that were there before it: the client must be in the set.
func (c *Client) isAmong(set, of partialView) error {
	if err := c.roster.survivors(set, of); err != nil {
		return err
	}
	if !set.known.Has(c.self) {
		return fmt.Errorf("%w: this client is not among them", ErrSurvivors)
	}
	return nil
}

// signedSurvivors returns the bytes that a signature over survivors is over. The binding contains
// session, round, plan, model and roster.
func signedSurvivors(binding protocol.Hash, id protocol.ClientID, u1 protocol.Bitmap) []byte {
	h := protocol.NewTranscript("fedsim/secagg/consistency/v1").Bytes(binding[:]).Uint(uint64(id)).Bytes(u1).Sum()
	return h[:]
}

// verifyQuorum counts the survivors who signed the client's own set, until they are enough.
func (c *Client) verifyQuorum(q *protocol.Quorum, run protocol.Runner) error {
	if q == nil {
		return fmt.Errorf("%w: no signatures", ErrQuorum)
	}
	if len(q.Signatures) > len(c.roster.members) {
		return fmt.Errorf("%w: %d signatures of %d clients", ErrMalformed, len(q.Signatures), len(c.roster.members))
	}
	for i := 1; i < len(q.Signatures); i++ {
		if q.Signatures[i-1].Client >= q.Signatures[i].Client {
			return fmt.Errorf("%w: signatures must stand in the order of clients, one of each", ErrMalformed)
		}
	}
	var valid atomic.Int64
	need := Quorum(c.plan.Cohort, len(c.roster.members))
	run.Each(len(q.Signatures), func(i int) {
		s := q.Signatures[i]
		if int(valid.Load()) < need && c.survivors.known.Has(c.roster.find(s.Client)) &&
			c.party.cfg.Agreements.verifies(c.party.cfg.Params, s.Client, signedSurvivors(c.context.Binding, s.Client, c.survivors.known), s.Signature) {
			valid.Add(1)
		}
	})
	if count := int(valid.Load()); count < need {
		return fmt.Errorf("%w: %d valid signatures, %d required", ErrQuorum, count, need)
	}
	return nil
}

// Complaints (active mode alone; not in Bonawitz et al.). A dealer may have signed shares that do not open, or that differ from its
// commitments. A holder of such shares leaves the dealer out of its masks, and complains with its masked input. The complaint
// contains the secret of the mask that the two would have had, so that the dealer's half of the mask can be taken off. The edge is
// gone, and the round continues. The complaint reveals only what the dealer, who is at fault, could reveal as well. A holder who
// complains without reason reveals what it could reveal anyway, and holds no shares.

// edge is between a dealer and a holder who complains of it, by their places.
type edge struct{ holder, dealer int }

// complaints returns the client's complaints. With more complaints than there may be colluders the
// client takes no part: too few masks with honest neighbours might be left to hide its input.
func (c *Client) complaints(run protocol.Runner) ([]protocol.Complaint, error) {
	var out []protocol.Complaint
	var places []int
	for _, p := range c.peers {
		if p.faulty {
			places = append(places, p.at)
			out = append(out, protocol.Complaint{Of: p.id})
		}
	}
	if most := c.setup.Cohort.Liars(); len(out) > most {
		return nil, fmt.Errorf("%w: %d neighbours deal falsely, and at most %d clients are taken to", ErrShare, len(out), most)
	}
	shared, errs := c.roster.pairSecrets(ofInputs, c.own[ofInputs].key, c.self, places, nil, run)
	for i, err := range errs {
		out[i].Secret = shared[i]
		if err != nil {
			return nil, c.fault(protocol.ClientParty(out[i].Of), protocol.StageAdvertise, fmt.Errorf("%w: %w", ErrKeys, err))
		}
	}
	return out, nil
}

// checkComplaints says what is wrong with a client's complaints. Whether they are just only the operator can find out.
func (a *Aggregator) checkComplaints(holder int, list []protocol.Complaint) error {
	if len(list) > 0 && !a.Confirms() {
		return fmt.Errorf("%w: a complaint in semi-honest mode", ErrMalformed)
	}
	for i, m := range list {
		dealer := a.roster.find(m.Of)
		if dealer < 0 || !a.arrived.Has(dealer) || !a.graph.Adjacent(holder, dealer) || i > 0 && list[i-1].Of >= m.Of {
			return fmt.Errorf("%w: a complaint of client %d at place %d; they must be of neighbours who dealt, in ascending order", ErrMalformed, m.Of, i)
		}
	}
	return nil
}

// holds reports whether a client has shares of a dealer's secrets, as far as it says.
func (a *Aggregator) holds(holder, dealer int) bool {
	_, complains := a.complaints[edge{holder, dealer}]
	return !complains
}

// onesided are the masks that a dealer put on and the holder who complained of it did not.
func (a *Aggregator) onesided() []masking {
	if len(a.complaints) == 0 {
		return nil
	}
	var out []masking
	for dealer := range a.roster.members { // in the order of places
		for _, holder := range a.graph.Neighbours(dealer) {
			secret, complains := a.complaints[edge{holder, dealer}]
			if complains && a.u1.Has(dealer) && a.u1.Has(holder) && a.holds(dealer, holder) {
				// The dealer subtracted the mask if the holder stands before it.
				out = append(out, masking{secret: secret, kind: mask.Pair, sub: holder > dealer})
			}
		}
	}
	return out
}

// Agreements lets parties of one process share their private keys. The secret that two of them have in common is then computed from
// both private keys. That takes a seventh of the time that one private and one public key take (package basepoint), and gives the
// same bytes. Otherwise this computation would be most of the cost of a simulated real sum. Keys of a round are forgotten two
// rounds later.
//
// It is for simulations, whose process holds the keys of both parties anyway. In a deployment each
// party must be without one. It is safe for concurrent use.
type Agreements struct {
	mu       sync.RWMutex
	rounds   map[uint64]privateKeys // mask keys, of the present round and of those beside it; 0: the session's channel keys
	verified sync.Map               // the digests of good signatures
}

// verifies says whether a client signed something. Parties who share their keys verify a signature once for all of them; each
// party of a deployment verifies it itself.
func (a *Agreements) verifies(p Params, id protocol.ClientID, signed, signature []byte) bool {
	if a == nil {
		return ed25519.Verify(p.Identities[id], signed, signature)
	}
	digest := sha256.Sum256(slices.Concat(p.Identities[id], signed, signature))
	_, known := a.verified.Load(digest)
	if !known && ed25519.Verify(p.Identities[id], signed, signature) {
		a.verified.Store(digest, nil)
		known = true
	}
	return known
}

// privateKeys are found by their public halves.
type privateKeys map[protocol.Key]*basepoint.Key

// leave leaves the key of a round, or with 0 of a session, to the others. Rounds are set up at most one ahead.
// It does nothing if keys are not shared.
func (a *Agreements) leave(round uint64, key *ecdh.PrivateKey) error {
	if a == nil {
		return nil
	}
	k, err := basepoint.NewKey(key.Bytes())
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.rounds == nil {
		a.rounds = make(map[uint64]privateKeys)
	}
	if a.rounds[round] == nil {
		a.rounds[round] = make(privateKeys)
		maps.DeleteFunc(a.rounds, func(old uint64, _ privateKeys) bool { return old > 0 && old+1 < round })
	}
	a.rounds[round][protocol.Key(key.PublicKey().Bytes())] = k
	return nil
}

// find are the private keys that were left behind public ones; nil unless all were.
func (a *Agreements) find(round uint64, public []protocol.Key) []*basepoint.Key {
	if a == nil {
		return nil
	}
	out := make([]*basepoint.Key, len(public))
	a.mu.RLock()
	defer a.mu.RUnlock()
	for i, p := range public {
		if out[i] = cmp.Or(a.rounds[round][p], a.rounds[0][p]); out[i] == nil {
			return nil
		}
	}
	return out
}

// common returns the secrets that a key has in common with each of others. It returns an error for
// a key of low order, which has none. A nil Agreements computes from every party's public key.
func (a *Agreements) common(round uint64, own *ecdh.PrivateKey, peers []protocol.Key, run protocol.Runner) ([][32]byte, []error) {
	out, errs := make([][32]byte, len(peers)), make([]error, len(peers))
	if keys := a.find(round, append(peers[:len(peers):len(peers)], protocol.Key(own.PublicKey().Bytes()))); keys != nil {
		return keys[len(peers)].Common(keys[:len(peers)]), errs
	}
	run.Each(len(peers), func(i int) { out[i], errs[i] = common(own, peers[i]) })
	return out, errs
}
