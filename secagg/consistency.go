package secagg

import (
	"cmp"
	"crypto/ed25519"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/fedsim/fedsim/protocol"
)

// Stage 3, consistency check (active mode alone; Bonawitz et al., round 3). A client signs the
// single set of survivors that it was shown. It unmasks only when so many clients signed the same
// set that no other set can have as many signatures.

// Confirm signs the survivors. For the same survivors it returns the same signature
// again; for others it returns ErrLocked.
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

// isAmong checks a set that a sum is to be over, a subset of the clients that were there before it:
// the client must be in the set.
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

// verifyQuorum counts the survivors who signed the client's own set.
func (c *Client) verifyQuorum(q *protocol.Quorum, run protocol.Runner) error {
	if q == nil {
		return fmt.Errorf("%w: no signatures", ErrQuorum)
	}
	if len(q.Signatures) > len(c.roster.members) {
		return fmt.Errorf("%w: %d signatures of %d clients", ErrMalformed, len(q.Signatures), len(c.roster.members))
	}
	valid := make([]bool, len(q.Signatures))
	for i := 1; i < len(q.Signatures); i++ {
		if q.Signatures[i-1].Client >= q.Signatures[i].Client {
			return fmt.Errorf("%w: signatures must stand in the order of clients, one of each", ErrMalformed)
		}
	}
	run.Each(len(valid), func(i int) {
		s := q.Signatures[i]
		valid[i] = c.survivors.known.Has(c.roster.find(s.Client)) && len(s.Signature) == ed25519.SignatureSize &&
			ed25519.Verify(c.party.cfg.Params.Identities[s.Client], signedSurvivors(c.context.Binding, s.Client, c.survivors.known), s.Signature)
	})
	count := 0
	for _, ok := range valid {
		if ok {
			count++
		}
	}
	if need := Quorum(c.plan.Cohort, len(c.roster.members)); count < need {
		return fmt.Errorf("%w: %d valid signatures, %d required", ErrQuorum, count, need)
	}
	return nil
}

// checkConfirmed verifies a client's signature over the survivors.
func (a *Aggregator) checkConfirmed(from protocol.ClientID, m *protocol.Consistency) error {
	if len(m.Signature) != ed25519.SignatureSize || !ed25519.Verify(a.params.Identities[from], signedSurvivors(a.contexts[ofInputs].Binding, from, a.u1), m.Signature) {
		return ErrSignature
	}
	return nil
}

// closeConsistency puts the signatures in the order of clients. It returns an error if they are too
// few for any client to unmask.
func (a *Aggregator) closeConsistency() error {
	slices.SortFunc(a.signed, func(x, y protocol.Signed) int { return cmp.Compare(x.Client, y.Client) })
	if need := Quorum(a.plan.Cohort, len(a.roster.members)); len(a.signed) < need {
		return &protocol.TooFew{Round: a.plan.Round, Stage: protocol.StageConsistency, Left: len(a.signed), Required: need}
	}
	return nil
}
