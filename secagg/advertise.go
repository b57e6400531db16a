package secagg

import (
	"crypto/ecdh"
	"crypto/ed25519"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg/shamir"
)

// Stage 0, advertise keys (Bonawitz et al., round 0; with signatures, its active
// variant).

// Advertise draws the secrets of the iteration and publishes the client's two
// keys, signed in active mode.
func (c *Client) Advertise() (*protocol.Advertise, error) {
	if err := c.enter(protocol.StageAdvertise); err != nil {
		return nil, err
	}
	random := c.stream("secrets")
	for l := range layersOf(c.setup) {
		if err := c.generate(l, random); err != nil {
			return nil, err
		}
	}
	copy(c.keys.Mask[:], c.own[ofInputs].maskKey.PublicKey().Bytes())
	copy(c.keys.Channel[:], c.party.channel.PublicKey().Bytes())
	if c.setup.Replaces {
		c.keys.Change = (*protocol.Key)(c.own[ofChanges].maskKey.PublicKey().Bytes())
	}
	if c.active() {
		c.keys.Signature = ed25519.Sign(c.party.cfg.Identity, signedKeys(c.setting, c.party.cfg.ID, &c.keys))
	}
	c.stage = protocol.StageShare
	keys := c.keys
	return &protocol.Advertise{Iteration: c.setup.Iteration, Keys: &keys}, nil
}

// generate makes the secrets of a layer.
func (c *Client) generate(l layer, random io.Reader) (err error) {
	own := &c.own[l]
	if own.seed, err = shamir.NewSecret(random); err != nil {
		return err
	}
	if own.key, err = shamir.NewSecret(random); err != nil {
		return err
	}
	own.maskKey, err = maskKey(l, own.key, c.setup, c.party.cfg.ID)
	return err
}

// checkAdvertised says what is wrong with a client's keys.
func (a *Aggregator) checkAdvertised(from protocol.ClientID, m *protocol.Advertise) error {
	switch {
	case m.Keys == nil:
		return fmt.Errorf("%w: no keys", ErrMalformed)
	case a.Confirms() && !verifyKeys(a.params, a.setting, from, m.Keys):
		return ErrSignature
	case !a.Confirms() && len(m.Keys.Signature) != 0:
		return fmt.Errorf("%w: a signature in semi-honest mode", ErrMalformed)
	}
	if err := checkChange(a.setup, m.Keys); err != nil {
		return err
	}
	return checkOrder(m.Keys)
}

// probe is a key for trying others out.
var probe = sync.OnceValues(func() (*ecdh.PrivateKey, error) { return ecdh.X25519().NewPrivateKey(make([]byte, 32)) })

// checkOrder refuses keys of low order, with which nobody can have a secret in common:
// whoever advertised one would stop its neighbours, stages later.
func checkOrder(k *protocol.Keys) error {
	own, err := probe()
	if err != nil {
		return err
	}
	keys := []protocol.Key{k.Mask, k.Channel}
	if k.Change != nil {
		keys = append(keys, *k.Change)
	}
	for _, key := range keys {
		if _, err := common(own, key); err != nil {
			return fmt.Errorf("%w: %w", ErrKeys, err)
		}
	}
	return nil
}

// closeAdvertise makes the roster.
func (a *Aggregator) closeAdvertise() error {
	members := make([]protocol.Member, 0, len(a.keys))
	for id := range protocol.ClientID(a.setup.Cohort.Clients) {
		if k := a.keys[id]; k != nil {
			members = append(members, protocol.Member{Client: id, Keys: *k})
		}
	}
	a.keys = nil
	var err error
	if a.roster, err = newRoster(a.setup, a.params, a.setting, slices.Clip(members)); err != nil {
		return err
	}
	a.roster.arrange()
	a.graph, err = a.roster.graph()
	a.dealt = make([]*protocol.Shares, len(members))
	for l := range layersOf(a.setup) {
		a.revealed[l] = make([][]protocol.RevealedShare, len(members))
	}
	return err
}
