package secagg

import (
	"crypto/ed25519"
	"fmt"
	"io"
	"slices"

	"filippo.io/edwards25519/field"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg/shamir"
)

// Stage 0, advertise keys (Bonawitz et al., round 0; with signatures, its active
// variant).

// Advertise draws the secrets of the round and publishes the client's two
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
	if c.Confirms() {
		c.keys.Signature = ed25519.Sign(c.party.cfg.Identity, signedKeys(c.setting, c.party.cfg.ID, &c.keys))
	}
	c.stage = protocol.StageShare
	keys := c.keys
	return &protocol.Advertise{Round: c.setup.Round, Keys: &keys}, nil
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
	if own.maskKey, err = maskKey(l, own.key, c.setup, c.party.cfg.ID); err != nil {
		return err
	}
	return c.party.cfg.Agreements.leaveMask(c.setup.Round, own.maskKey)
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
	// A key of low order gives no secret in common with any key, and would stop the client's neighbours stages later.
	if k := m.Keys; lowOrder(k.Mask) || lowOrder(k.Channel) || k.Change != nil && lowOrder(*k.Change) {
		return fmt.Errorf("%w: a public key is of low order", ErrKeys)
	}
	return nil
}

// lowOrders are the coordinates of all points on the curve and its twist whose order divides 8;
// private keys are multiples of 8. They are 0, 1, -1 and two others (RFC 7748, section 6.1, as
// Bernstein lists them).
var lowOrders = [][32]byte{
	{},
	{1},
	{0xec, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
	{0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4, 0x6a,
		0xda, 0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49, 0xb8, 0x00},
	{0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1, 0x55, 0x9c, 0x83, 0xef, 0x5b,
		0x04, 0x44, 0x5c, 0xc4, 0x58, 0x1c, 0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd, 0xd0, 0x9f, 0x11, 0x57},
}

// lowOrder reports whether X25519 of a public key gives zeros. The coordinate is taken modulo 2^255-19, and
// without its highest bit, as X25519 takes it.
func lowOrder(k protocol.Key) bool {
	u, err := new(field.Element).SetBytes(k[:])
	return err != nil || slices.Contains(lowOrders, [32]byte(u.Bytes()))
}

// closeAdvertise makes the roster.
func (a *Aggregator) closeAdvertise() error {
	members := make([]protocol.Member, 0, len(a.keys))
	for id := range protocol.ClientID(a.setup.Cohort.All()) {
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
	if a.graph, err = a.roster.graph(); err != nil {
		return err
	}
	a.arrived = protocol.NewBitmap(len(members))
	for l := range layersOf(a.setup) {
		a.hashes[l] = make([]protocol.Hash, len(members))
	}
	return a.shelve()
}

// showing returns the roster for a client.
func (a *Aggregator) showing(to protocol.ClientID) *protocol.Roster {
	r, place := a.roster, a.roster.find(to)
	if !a.spooled || r.ring == nil {
		return r.shown(place)
	}
	return &protocol.Roster{Round: a.setup.Round, Clients: r.clients, Load: func() (*protocol.Roster, error) { return r.shown(place), nil }}
}
