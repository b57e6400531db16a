package secagg

import (
	"cmp"
	"crypto/ed25519"
	"fmt"
	"maps"
	"slices"

	"filippo.io/edwards25519"

	"github.com/fedsim/fedsim/internal/secagg/inputproof"
	"github.com/fedsim/fedsim/internal/secagg/mask"
	"github.com/fedsim/fedsim/internal/secagg/shamir"
	"github.com/fedsim/fedsim/protocol"
)

// Fork is a copy of the client as it stands, which goes its own way from here on.
func (c *Client) Fork() *Client {
	f := *c
	f.peers = slices.Clone(c.peers)
	for l := range f.held { // which are forgotten as shares are revealed
		f.held[l] = slices.Clone(c.held[l])
	}
	return &f
}

// Know is Use that forgets nothing.
func (a *Aggregator) Know(known *Agreements) { a.known = known }

// Fork is a copy of the aggregator as it stands, which goes its own way from here
// on.
func (a *Aggregator) Fork() *Aggregator {
	f := *a
	f.heard, f.keys, f.held = maps.Clone(a.heard), maps.Clone(a.keys), maps.Clone(a.held)
	f.dealt, f.signed, f.complaints = a.dealt.fork(), slices.Clone(a.signed), maps.Clone(a.complaints)
	f.arrived = slices.Clone(a.arrived)
	for l := range f.revealed {
		f.revealed[l], f.answers[l], f.hashes[l] = a.revealed[l].fork(), slices.Clone(a.answers[l]), slices.Clone(a.hashes[l])
	}
	f.sums = make([]*mask.Vector, len(a.sums))
	for i, v := range a.sums {
		f.sums[i], _ = mask.NewVector(v.Width(), v.Len())
		_ = f.sums[i].Add(v)
	}
	if x := a.verified; x != nil {
		f.verified = &verified{shape: x.shape, proofs: slices.Clone(x.proofs), blindings: make([]*edwards25519.Scalar, len(x.blindings)), removed: make([]*mask.Vector, len(x.removed))}
		for i, s := range x.blindings {
			f.verified.blindings[i] = edwards25519.NewScalar().Set(s)
		}
		for i, v := range x.removed {
			f.verified.removed[i], _ = mask.NewVector(v.Width(), v.Len())
			_ = f.verified.removed[i].Add(v)
		}
	}
	return &f
}

func (s *shelf) fork() *shelf {
	if s == nil {
		return nil
	}
	f := *s
	f.kept = slices.Clone(s.kept)
	return &f
}

// ShareUnverified is Share for a roster whose signatures the caller has verified.
func (c *Client) ShareUnverified(m *protocol.Roster, run protocol.Runner) (*protocol.Shares, error) {
	if err := c.enter(protocol.StageShare); err != nil {
		return nil, err
	}
	if err := c.join(m); err != nil {
		return nil, err
	}
	return c.split(run)
}

// CheckUnverified is Check for survivors whose quorum's signatures the caller has verified.
func (c *Client) CheckUnverified(m *protocol.Survivors) error {
	if c.stage != protocol.StageUnmask {
		return fmt.Errorf("%w: %s", ErrOrder, protocol.StageUnmask)
	}
	if err := c.lock(m); err != nil {
		return err
	}
	c.checked = true
	return nil
}

// Knows is the client at a place of the roster that the client was shown.
func (c *Client) Knows(place int) protocol.ClientID { return c.roster.members[place].Client }

// Masking is all that a mask is derived from.
type Masking struct {
	Secret  [mask.SecretSize]byte
	Kind    mask.Kind
	Context mask.Context
	Spec    mask.Spec
}

// Maskings returns the maskings of the client's input once it is given the delivery, in the order
// of releases; sub says which of them it subtracts. The client stays as it is.
func (c *Client) Maskings(m *protocol.Delivery, run protocol.Runner) (maskings []Masking, sub []bool, err error) {
	f := c.Fork()
	if err = f.open(m, run); err != nil {
		return nil, nil, err
	}
	return f.maskings(ofInputs, f.arrived.known, f.roster.context(f.plan, f.arrived), run)
}

// ChangeMaskings returns the maskings of the changes of the client's noise once it is given the
// survivors, for the releases with replaced noise.
func (c *Client) ChangeMaskings(m *protocol.Survivors, run protocol.Runner) (maskings []Masking, sub []bool, err error) {
	f := c.Fork()
	if err = f.Check(m, nil, run); err != nil {
		return nil, nil, err
	}
	return f.maskings(ofChanges, f.survivors.known, f.roster.changeContext(f.context, f.survivors), run)
}

func (c *Client) maskings(l layer, among protocol.Bitmap, ctx mask.Context, run protocol.Runner) (maskings []Masking, sub []bool, err error) {
	secrets, err := c.masks(l, among, run)
	if err != nil {
		return nil, nil, err
	}
	for _, r := range c.plan.Releases {
		if l == ofChanges && r.Noise.Kind != protocol.TwoRound {
			continue
		}
		for _, s := range secrets {
			maskings = append(maskings, Masking{s.secret, s.kind, ctx, mask.Spec{Name: r.Name, Width: r.Width, Len: r.Len}})
			sub = append(sub, s.sub)
		}
	}
	return maskings, sub, nil
}

// DealFalsely changes what the client deals to its i-th neighbour after it has
// committed to it, and signs that, as a lying dealer would.
func (c *Client) DealFalsely(i int, s *protocol.EncryptedShare) error {
	return c.Redeal(i, s, []byte{1}, false)
}

// Redeal flips bits of what the client deals to its i-th neighbour, and signs that;
// commits says whether its commitments go with it.
func (c *Client) Redeal(i int, s *protocol.EncryptedShare, flip []byte, commits bool) error {
	ch := channel{c.roster, c.self, c.peers[i].at}
	plain, err := ch.open(c.channels[i], s.Ciphertext)
	if err != nil {
		return err
	}
	for k := range min(len(flip), len(plain)) {
		plain[k] ^= flip[k]
	}
	s.Ciphertext = ch.seal(c.channels[i], plain)
	if commits {
		h := encryptedShares{seed: [shamir.Size]byte(plain), key: [shamir.Size]byte(plain[shamir.Size:])}
		s.Committed = h.commitments()
	}
	c.SignDealt(i, s)
	return nil
}

// Commit changes the point that the client commits to its i-th neighbour by, and signs that; key says whose share's point. i is -1
// for the point of the seed itself.
func (c *Client) Commit(m *protocol.Shares, i int, key bool, change func([shamir.Size]byte) [shamir.Size]byte) {
	if i < 0 {
		m.SeedHash = change(m.SeedHash)
		return
	}
	committed := *m.Shares[i].Committed
	if m.Shares[i].Committed = &committed; key {
		committed.Key = change(committed.Key)
	} else {
		committed.Seed = change(committed.Seed)
	}
	c.SignDealt(i, &m.Shares[i])
}

// Readvertise changes the mask key that the client advertises, and signs that.
func (c *Client) Readvertise(m *protocol.Advertise, change func([shamir.Size]byte) [shamir.Size]byte) {
	c.keys.Mask = change(c.keys.Mask)
	c.keys.Signature = ed25519.Sign(c.party.cfg.Identity, signedKeys(c.setting, c.party.cfg.ID, &c.keys))
	keys := c.keys
	m.Keys = &keys
}

// ShareFalsely is ShareUnverified with a threshold that is higher by some and, if another client is given, with that client's mask
// key in place of the advertised one.
func (c *Client) ShareFalsely(m *protocol.Roster, higher int, another *Client, run protocol.Runner) (*protocol.Shares, error) {
	if err := c.enter(protocol.StageShare); err != nil {
		return nil, err
	}
	if err := c.join(m); err != nil {
		return nil, err
	}
	c.roster.choice.Threshold += higher
	if another != nil {
		c.own[ofInputs].key = another.own[ofInputs].key
	}
	return c.split(run)
}

// SignDealt signs whatever the client deals to its i-th neighbour.
func (c *Client) SignDealt(i int, s *protocol.EncryptedShare) {
	ch := channel{c.roster, c.self, c.peers[i].at}
	s.Committed.Signature = ed25519.Sign(c.party.cfg.Identity, ch.signed(s.Ciphertext, s.Committed))
}

// SignAs signs survivors with another client's key, as a colluding client would that is told what
// this client is bound to.
func (c *Client) SignAs(id protocol.ClientID, identity ed25519.PrivateKey, u1 protocol.Bitmap) protocol.Signed {
	return protocol.Signed{Client: id, Signature: ed25519.Sign(identity, signedSurvivors(c.context.Binding, id, u1))}
}

// Accuse has the client find the shares of a dealer bad that are not.
func (c *Client) Accuse(id protocol.ClientID) {
	for i := range c.peers {
		if c.roster.members[c.peers[i].at].Client == id {
			c.peers[i].faulty = true
		}
	}
}

// Kept counts the mask keys that are kept of a round.
func (a *Agreements) Kept(round uint64) int { return len(a.rounds[round]) }

// LowOrder reports whether a public key is taken to be of low order.
var LowOrder = lowOrder

// Stripped returns the rest of the sum of some clients' masked inputs after everything is taken off
// that the answers to unmask reveal. These are the clients' own masks, and the masks that they have
// with lost clients.
func (a *Aggregator) Stripped(clients protocol.Bitmap, residues [][]byte, run protocol.Runner) ([][]int64, error) {
	secrets, err := a.restore(ofInputs, 0, len(a.roster.members), run)
	if err != nil {
		return nil, err
	}
	var masks []masking
	for _, r := range secrets {
		if a.u1.Has(r.at) {
			if clients.Has(int(a.roster.members[r.at].Client)) {
				masks = append(masks, masking{secret: r.seed, kind: mask.Self, sub: true})
			}
			continue
		}
		var with []int
		for _, j := range a.graph.Neighbours(r.at) {
			if clients.Has(int(a.roster.members[j].Client)) {
				with = append(with, j)
			}
		}
		shared, errs := a.roster.pairSecrets(ofInputs, r.key, r.at, with, nil, run)
		if err := cmp.Or(errs...); err != nil {
			return nil, err
		}
		for k, j := range with {
			masks = append(masks, masking{secret: shared[k], kind: mask.Pair, sub: r.at > j})
		}
	}
	out := make([][]int64, len(residues))
	for i, r := range a.plan.Releases {
		v, err := mask.NewVector(r.Width, r.Len)
		if err == nil {
			err = v.AddPacked(residues[i])
		}
		if err == nil {
			err = a.unmask(v, r, a.contexts[ofInputs], masks, run)
		}
		if err != nil {
			return nil, err
		}
		out[i] = v.AppendInts(nil)
	}
	return out, nil
}

// ProveBeyond has the client prove bounds that are wider by a tenth than the bounds of its plan.
func (c *Client) ProveBeyond() error {
	bounds := make([]inputproof.Bound, len(c.plan.Releases))
	for i, r := range c.plan.Releases {
		linf, l2 := c.plan.InputBound(r, c.party.cfg.Params.Rounds)
		bounds[i] = inputproof.Bound{Len: r.Len, LInf: int64(1.1 * linf), Squares: int64(1.1 * 1.1 * l2 * l2)}
	}
	var err error
	c.shape, err = inputproof.New(bounds)
	return err
}
