package secagg

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/secagg/shamir"
	"github.com/fedsim/fedsim/protocol"
)

// Stage 1, share keys (Bonawitz et al., round 1, on the graph of Bell et al.).

// Share splits the client's secrets among its neighbours on the roster's graph and encrypts each neighbour's shares to it. There
// are two secrets, and two more for the second sum where noise is replaced. In active mode every advertisement is verified, and the
// client commits to the shares.
func (c *Client) Share(m *protocol.Roster, run protocol.Runner) (*protocol.Shares, error) {
	if err := c.enter(protocol.StageShare); err != nil {
		return nil, err
	}
	err := c.join(m)
	if err == nil && c.Confirms() {
		err = c.roster.verify(c.party.cfg.Agreements, run)
	}
	if err != nil {
		return nil, c.lie(protocol.StageShare, err)
	}
	return c.split(run)
}

// split deals shares of the client's secrets to the neighbours that it has on the roster.
func (c *Client) split(run protocol.Runner) (*protocol.Shares, error) {
	dealt, err := c.splitSecrets()
	if err != nil {
		return nil, err
	}
	out := &protocol.Shares{Round: c.setup.Round, Shares: make([]protocol.EncryptedShare, len(c.peers))}
	if _, out.SeedHash = selfSeed(ofInputs, c.own[ofInputs].seed, c.setup, c.party.cfg.ID); c.Confirms() {
		out.SeedHash = c.own[ofInputs].seed.Point()
	}
	if c.setup.Replaces {
		out.ChangeHash = new(protocol.Hash)
		_, *out.ChangeHash = selfSeed(ofChanges, c.own[ofChanges].seed, c.setup, c.party.cfg.ID)
	}
	if err = c.agree(run); err != nil {
		return nil, err
	}
	run.Each(len(c.peers), func(i int) { out.Shares[i] = c.deal(i, &dealt[i]) })
	c.stage = protocol.StageMaskedInput
	return out, nil
}

// splitSecrets shares the client's secrets out among its neighbours.
func (c *Client) splitSecrets() ([]holdings, error) {
	holders := lists.Map(c.peers, func(p peer) shamir.Index { return index(p.id) })
	out := make([]holdings, len(c.peers))
	random := c.stream("polynomials")
	for l := range layersOf(c.setup) {
		seeds, err := shamir.Split(c.own[l].seed, c.roster.choice.Threshold, holders, random)
		if err != nil {
			return nil, err
		}
		keys, err := shamir.Split(c.own[l].key.secret, c.roster.choice.Threshold, holders, random)
		if err != nil {
			return nil, err
		}
		for i := range out {
			out[i][l] = encryptedShares{seed: seeds[i].Bytes(), key: keys[i].Bytes()}
		}
	}
	return out, nil
}

// join checks the roster except for its signatures, and finds the client's neighbours on it.
func (c *Client) join(m *protocol.Roster) error {
	if err := c.read(m); err != nil {
		return err
	}
	c.self = c.roster.find(c.party.cfg.ID)
	if c.self < 0 {
		return fmt.Errorf("%w: the roster does not have this client", ErrKeys)
	}
	own := &c.roster.members[c.self].Keys
	good := own.Channel == c.keys.Channel
	for l := range layersOf(c.setup) {
		good = good && l.key(own) == l.key(&c.keys)
	}
	if !good {
		return fmt.Errorf("%w: the roster has others for this client", ErrKeys)
	}
	g, err := c.roster.graph()
	if err != nil {
		return err
	}
	c.peers = lists.Map(g.Neighbours(c.self), func(at int) peer { return peer{at: at, id: c.roster.members[at].Client} })
	return nil
}

// read takes a roster, whole or the client's part of it, as the federation's size asks for.
func (c *Client) read(m *protocol.Roster) (err error) {
	params := c.party.cfg.Params
	switch part := m.Ring != nil; {
	case part != params.inParts(c.setup):
		return fmt.Errorf("%w: of a roster of up to %d clients, or in active mode, all are shown, else a part", ErrMalformed, WholeUpTo)
	case part:
		c.roster, err = newPart(c.setup, params, c.setting, m, c.party.cfg.ID)
	case m.Clients != len(m.Members):
		return fmt.Errorf("%w: a roster of %d clients with %d members", ErrMalformed, m.Clients, len(m.Members))
	default:
		c.roster, err = newRoster(c.setup, params, c.setting, m.Members)
	}
	return err
}

// agree computes what the client's channel key has in common with its neighbours'.
func (c *Client) agree(run protocol.Runner) error {
	keys := lists.Map(c.peers, func(p peer) protocol.Key { return c.roster.members[p.at].Keys.Channel })
	var errs []error
	c.channels, errs = c.party.cfg.Agreements.common(c.setup.Round, c.party.channel, keys, run)
	for i, err := range errs {
		if err != nil {
			return c.fault(protocol.ClientParty(c.peers[i].id), protocol.StageShare, fmt.Errorf("%w: %w", ErrKeys, err))
		}
	}
	return nil
}

// deal encrypts what the i-th neighbour gets.
func (c *Client) deal(i int, h *holdings) protocol.EncryptedShare {
	p := &c.peers[i]
	ch := channel{c.roster, c.self, p.at}
	out := protocol.EncryptedShare{Peer: p.id, Ciphertext: ch.seal(c.channels[i], h.append(nil, layersOf(c.setup)))}
	if c.Confirms() {
		out.Committed = h[ofInputs].commitments()
		out.Committed.Signature = ed25519.Sign(c.party.cfg.Identity, ch.signed(out.Ciphertext, out.Committed))
	}
	return out
}

// checkShared says what is wrong with what a client deals. Whether it opens only its holder can tell; but that the client signed it
// must be certain, for a holder who finds it bad to complain of the dealer and not of the aggregator.
func (a *Aggregator) checkShared(from protocol.ClientID, m *protocol.Shares, run protocol.Runner) error {
	at := a.roster.find(from)
	holders := a.graph.Neighbours(at)
	if len(m.Shares) != len(holders) {
		return fmt.Errorf("%w: shares for %d holders, the client has %d neighbours", ErrMalformed, len(m.Shares), len(holders))
	}
	if err := each(run, len(holders), func(i int) error { return a.checkDealt(at, holders[i], &m.Shares[i]) }); err != nil {
		return err
	}
	if (m.ChangeHash != nil) != a.setup.Replaces {
		return fmt.Errorf("%w: there is a hash for what noise changes by where noise is replaced, and nowhere else", ErrMalformed)
	}
	if a.Confirms() {
		return a.checkPoints(at, m)
	}
	return nil
}

// checkPoints says what is wrong with the points that a dealer commits by. The points of its shares must fit its mask key and the
// point of its seed. Then any shares of these points that are revealed later restore that key and one seed.
func (a *Aggregator) checkPoints(dealer int, m *protocol.Shares) error {
	of := &a.roster.members[dealer]
	seeds, keys := [][shamir.Size]byte{m.SeedHash}, [][shamir.Size]byte{of.Keys.Mask}
	for _, s := range m.Shares {
		seeds, keys = append(seeds, s.Committed.Seed), append(keys, s.Committed.Key)
	}
	weights, err := a.weights.get(a.roster.indices(around(a.graph, dealer))) // on a complete graph the same for all dealers
	if err != nil {
		return err
	}
	if err = weights.Verify(a.roster.choice.Threshold, index(of.Client), rand.Reader, seeds, keys); err != nil {
		return fmt.Errorf("%w: what is dealt of its mask key or its seed: %w", ErrShare, err)
	}
	return nil
}

// checkDealt says what is wrong with what the client at one place deals to that at another.
func (a *Aggregator) checkDealt(dealer, holder int, s *protocol.EncryptedShare) error {
	to := a.roster.members[holder].Client
	if s.Peer != to {
		return fmt.Errorf("%w: what is for client %d stands where that for %d belongs", ErrMalformed, s.Peer, to)
	}
	if err := checkSealed(s, a.params.Mode, layersOf(a.setup)); err != nil {
		return err
	}
	if ch := (channel{a.roster, dealer, holder}); a.Confirms() &&
		!a.known.verifies(a.params, a.roster.members[dealer].Client, ch.signed(s.Ciphertext, s.Committed), s.Committed.Signature) {
		return fmt.Errorf("%w: of what is dealt to client %d", ErrSignature, to)
	}
	return nil
}

// checkSealed says what is wrong with the sizes of an encrypted share.
func checkSealed(s *protocol.EncryptedShare, mode Mode, n layer) error {
	switch want := plaintextSize(n) + chacha20poly1305.Overhead; {
	case len(s.Ciphertext) != want:
		return fmt.Errorf("%w: %d bytes of shares, %d expected", ErrMalformed, len(s.Ciphertext), want)
	case (s.Committed != nil) != (mode == Active):
		return fmt.Errorf("%w: shares are committed to in active mode, and in no other", ErrMalformed)
	case s.Committed != nil && len(s.Committed.Signature) != ed25519.SignatureSize:
		return fmt.Errorf("%w: a signature of %d bytes", ErrMalformed, len(s.Committed.Signature))
	}
	return nil
}

// shared keeps checked shares of the client at a place.
func (a *Aggregator) shared(place int, m *protocol.Shares) error {
	size := a.dealt.size
	pieces := make([]byte, size*a.graph.Degree())
	for i, j := range a.graph.Neighbours(place) {
		putDealt(pieces[size*a.graph.Slot(place, j):][:size], &m.Shares[i])
	}
	if err := a.dealt.put(place, pieces); err != nil {
		return err
	}
	a.hashes[ofInputs][place] = m.SeedHash
	if a.setup.Replaces {
		a.hashes[ofChanges][place] = *m.ChangeHash
	}
	a.arrived.Set(place)
	return nil
}

// delivery returns the shares that a client's neighbours dealt to it.
func (a *Aggregator) delivery(to protocol.ClientID) *protocol.Delivery {
	place := a.roster.find(to)
	t := a.told(a.arrived, place)
	out := protocol.Delivery{Round: a.setup.Round, Clients: t.count, Arrived: t.known, Digest: t.digest}
	if a.spooled {
		whole, r, g, dealt, arrived := out, a.roster, a.graph, a.dealt, a.arrived // fixed from here on
		out.Load = func() (_ *protocol.Delivery, err error) {
			loaded := whole
			loaded.Shares, err = r.delivered(place, g, dealt, arrived)
			return &loaded, err
		}
		return &out
	}
	out.Shares, _ = a.roster.delivered(place, a.graph, a.dealt, a.arrived) // memory does not fail
	return &out
}

// delivered returns the shares of a client's neighbours for the client at a place, in ascending order of clients.
func (r *roster) delivered(place int, g *Graph, dealt *shelf, arrived protocol.Bitmap) ([]protocol.EncryptedShare, error) {
	out := make([]protocol.EncryptedShare, 0, g.Degree())
	for _, j := range g.Neighbours(place) {
		if !arrived.Has(j) {
			continue
		}
		piece, err := dealt.get(j, place)
		if err != nil {
			return nil, fmt.Errorf("the shares of client %d for client %d: %w", r.members[j].Client, r.members[place].Client, err)
		}
		out = append(out, takeDealt(piece, r.members[j].Client, r.params.Mode))
	}
	return out, nil
}
