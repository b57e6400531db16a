package secagg

import (
	"crypto/ed25519"
	"fmt"
	"slices"

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
	var err error
	if c.seed, err = shamir.NewSecret(random); err != nil {
		return nil, err
	}
	if c.key, err = shamir.NewSecret(random); err != nil {
		return nil, err
	}
	id := c.party.cfg.ID
	if c.maskKey, err = maskKey(c.key, c.setup, id); err != nil {
		return nil, err
	}
	copy(c.keys.Mask[:], c.maskKey.PublicKey().Bytes())
	copy(c.keys.Channel[:], c.party.channel.PublicKey().Bytes())
	if c.active() {
		c.keys.Signature = ed25519.Sign(c.party.cfg.Identity, signedKeys(c.setting, id, &c.keys))
	}
	c.stage = protocol.StageShare
	keys := c.keys
	return &protocol.Advertise{Iteration: c.setup.Iteration, Keys: &keys}, nil
}

// advertised takes a client's keys.
func (a *Aggregator) advertised(from protocol.ClientID, m *protocol.Advertise) error {
	switch {
	case m.Keys == nil:
		return fmt.Errorf("%w: no keys", ErrMalformed)
	case a.Confirms() && !verifyKeys(a.params, a.setting, from, m.Keys):
		return ErrSignature
	case !a.Confirms() && len(m.Keys.Signature) != 0:
		return fmt.Errorf("%w: a signature in semi-honest mode", ErrMalformed)
	}
	a.keys[from] = m.Keys
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
	a.graph, err = a.roster.graph()
	a.dealt = make([]*protocol.Shares, len(members))
	a.answers = make([]*protocol.Unmask, len(members))
	return err
}
