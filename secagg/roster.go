package secagg

import (
	"cmp"
	"crypto/ed25519"
	"fmt"
	"io"
	"slices"

	"filippo.io/edwards25519/field"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/secagg/mask"
	"github.com/fedsim/fedsim/internal/secagg/shamir"
	"github.com/fedsim/fedsim/protocol"
)

// roster lists the clients that advertised, and what follows from that for every client alike.
type roster struct {
	setup   protocol.Setup
	params  Params
	setting protocol.Hash
	hash    protocol.Hash // of the members and the setting
	clients int
	members []protocol.Member // all of them or, at a client that was shown a part, that
	known   int               // how many these are
	choice  GraphChoice
	ring    *ring // the aggregator's, where clients are shown parts; else nil
}

// newRoster is the roster of all its members.
func newRoster(setup protocol.Setup, params Params, setting protocol.Hash, members []protocol.Member) (*roster, error) {
	r := &roster{setup: setup, params: params, setting: setting, clients: len(members), members: members, known: len(members)}
	if err := r.choose(); err != nil {
		return nil, err
	}
	t := protocol.NewTranscript("fedsim/secagg/roster/v1").Bytes(setting[:]).Uint(uint64(len(members)))
	for i := range members {
		appendMember(t, &members[i])
	}
	r.hash = t.Sum()
	return r, nil
}

// choose makes the choice of the graph. It says if the members do not ascend, or have keys too few or too many.
func (r *roster) choose() (err error) {
	if most := r.setup.Cohort.Wanted(); r.clients > most {
		return fmt.Errorf("%w: a roster of %d clients; a round continues with %d", ErrMalformed, r.clients, most)
	}
	for i := range r.members {
		m := &r.members[i]
		if int64(m.Client) >= int64(r.setup.Cohort.All()) || i > 0 && r.members[i-1].Client >= m.Client {
			return fmt.Errorf("%w: client %d at place %d of the roster; clients must ascend below %d", ErrMalformed, m.Client, i, r.setup.Cohort.All())
		}
		if !r.setup.Chooses(m.Client) {
			return fmt.Errorf("%w: client %d is on the roster, and it is not its turn", ErrMalformed, m.Client)
		}
		if err = checkChange(r.setup, &m.Keys); err != nil {
			return fmt.Errorf("client %d: %w", m.Client, err)
		}
	}
	r.choice, err = r.params.Graph(r.setup).ForRoster(r.clients)
	return err
}

// appendMember writes who a member is and its keys into a transcript.
func appendMember(t *protocol.Transcript, m *protocol.Member) {
	t.Uint(uint64(m.Client)).Bytes(m.Keys.Mask[:]).Bytes(m.Keys.Channel[:])
	if m.Keys.Change != nil {
		t.Bytes(m.Keys.Change[:])
	}
}

// checkChange says whether keys have one too few or one too many.
func checkChange(setup protocol.Setup, k *protocol.Keys) error {
	if (k.Change != nil) != setup.Replaces {
		return fmt.Errorf("%w: there is a key for what noise changes by where noise is replaced, and nowhere else", ErrMalformed)
	}
	return nil
}

// graph draws the neighbours. No client keeps it longer than it takes to read them. A client that was shown its part
// of a ring is a neighbour of all others in it: their graph is complete.
func (r *roster) graph() (*Graph, error) {
	if r.ring != nil {
		return arrange(r.ring.order, r.choice.Degree)
	}
	return NewGraph(len(r.members), r.choice.Degree, entropy.Seed(r.ringSeed(r.hash)))
}

// find is the place of a client, -1 if it is not on the roster.
func (r *roster) find(id protocol.ClientID) int {
	i, ok := slices.BinarySearchFunc(r.members, id, func(m protocol.Member, id protocol.ClientID) int { return cmp.Compare(m.Client, id) })
	if !ok {
		return -1
	}
	return i
}

// verify checks the signatures of the advertisements.
func (r *roster) verify(known *Agreements, run protocol.Runner) error {
	return each(run, len(r.members), func(i int) error {
		if m := &r.members[i]; !known.verifies(r.params, m.Client, signedKeys(r.setting, m.Client, &m.Keys), m.Keys.Signature) {
			return fmt.Errorf("the keys of client %d: %w", m.Client, ErrSignature)
		}
		return nil
	})
}

// context has the hash that masks, and the signatures over survivors, are bound to. It covers the
// plan, the model, the setting, the roster, and which of its clients delivered shares.
func (r *roster) context(plan *protocol.Plan, arrived partialView) mask.Context {
	h := plan.Hash()
	binding := protocol.NewTranscript("fedsim/secagg/binding/v1").Bytes(h[:]).Bytes(r.setting[:]).Bytes(r.hash[:]).Bytes(arrived.whole()).Sum()
	return mask.Context{Session: r.setup.Session, Round: r.setup.Round, Binding: binding}
}

// changeContext is the context of the masks over the changes of noise. They are put on once U1 is
// known, and cancel only among clients that were shown the same.
func (r *roster) changeContext(c mask.Context, u1 partialView) mask.Context {
	c.Binding = protocol.NewTranscript("fedsim/secagg/change-binding/v1").Bytes(c.Binding[:]).Bytes(u1.whole()).Sum()
	return c
}

// survivors checks a set that a sum is to be over: U1, a subset of the clients that delivered shares, or U2, a subset of U1.
func (r *roster) survivors(set, of partialView) error {
	switch c, err := r.setup.Cohort, r.fits(set); {
	case err != nil:
		return err
	case !set.known.Subset(of.known) || set.unknown() > of.unknown():
		return fmt.Errorf("%w: a client among them was lost before", ErrSurvivors)
	case set.count < c.Required() || set.count <= c.Colluding():
		return fmt.Errorf("%w: %d, and at least %d are required", ErrSurvivors, set.count, max(c.Required(), c.Colluding()+1))
	}
	return nil
}

// index is where the polynomials are evaluated for a client.
func index(id protocol.ClientID) shamir.Index { return shamir.Index(id) + 1 }

// indices returns where the polynomials are evaluated for the clients at places.
func (r *roster) indices(places []int) []shamir.Index {
	return lists.Map(places, func(at int) shamir.Index { return index(r.members[at].Client) })
}

// signedKeys returns the bytes that an advertisement's signature is over.
func signedKeys(setting protocol.Hash, id protocol.ClientID, k *protocol.Keys) []byte {
	h := protocol.NewTranscript("fedsim/secagg/advertise/v2").Bytes(setting[:]).Uint(uint64(id)).Bytes(k.Mask[:]).Bytes(k.Channel[:]).Sum()
	return h[:]
}

// vectors are zeros, one for each release.
func vectors(p *protocol.Plan) ([]*mask.Vector, error) {
	out := make([]*mask.Vector, len(p.Releases))
	for i, r := range p.Releases {
		var err error
		if out[i], err = mask.NewVector(r.Width, r.Len); err != nil {
			return nil, fmt.Errorf("release %q: %w", r.Name, err)
		}
	}
	return out, nil
}

// withTerms opens masks over a release, has them added, and wipes them.
func withTerms(r protocol.Release, ctx mask.Context, masks []masking, add func([]mask.Term) error) error {
	terms := make([]mask.Term, len(masks))
	for i, m := range masks {
		stream, err := mask.NewStream(m.secret, m.kind, ctx, mask.Spec{Name: r.Name, Width: r.Width, Len: r.Len})
		if err != nil {
			return err
		}
		defer stream.Wipe()
		terms[i] = mask.Term{Stream: stream, Sub: m.sub}
	}
	return add(terms)
}

// chunk is the number of coordinates that are masked at a time: enough to make up for opening every
// mask anew, few enough to keep the cores of a machine busy.
const chunk = 1 << 16

// Stage 0, advertise keys (Bonawitz et al., round 0; with signatures, its active variant).

// Advertise draws the secrets of the round and publishes the client's two keys, signed in active mode.
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
	c.keys.Mask = c.own[ofInputs].key.public
	copy(c.keys.Channel[:], c.party.channel.PublicKey().Bytes())
	if c.setup.Replaces {
		change := c.own[ofChanges].key.public
		c.keys.Change = &change
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
	key, err := shamir.NewSecret(random)
	if own.key = maskKey(l, key, c.setup, c.party.cfg.ID, c.party.cfg.Params.Mode); err != nil || c.Confirms() {
		return err
	}
	return c.party.cfg.Agreements.leave(c.setup.Round, own.key.x25519)
}

// checkAdvertised says what is wrong with a client's keys.
func (a *Aggregator) checkAdvertised(from protocol.ClientID, m *protocol.Advertise) error {
	switch {
	case m.Keys == nil:
		return fmt.Errorf("%w: no keys", ErrMalformed)
	case a.Confirms() && !a.known.verifies(a.params, from, signedKeys(a.setting, from, m.Keys), m.Keys.Signature):
		return ErrSignature
	case !a.Confirms() && len(m.Keys.Signature) != 0:
		return fmt.Errorf("%w: a signature in semi-honest mode", ErrMalformed)
	}
	if err := checkChange(a.setup, m.Keys); err != nil {
		return err
	}
	// A key of low order gives no secret in common with any key, and would stop the client's neighbours stages later.
	k := m.Keys
	low := lowOrder(k.Mask)
	if a.Confirms() {
		_, err := new(shamir.Secret).Common(k.Mask)
		low = err != nil
	}
	if low || lowOrder(k.Channel) || k.Change != nil && lowOrder(*k.Change) {
		return fmt.Errorf("%w: a public key is of low order, or no point", ErrKeys)
	}
	return nil
}

// lowOrders are the coordinates of all points on the curve and its twist whose order divides 8; private keys are multiples of 8.
// They are 0, 1, -1 and two others (RFC 7748, section 6.1, as Bernstein lists them).
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
	r, g, place := a.roster, a.graph, a.roster.find(to)
	if !a.spooled || r.ring == nil {
		return r.shown(g, place)
	}
	return &protocol.Roster{Round: a.setup.Round, Clients: r.clients, Load: func() (*protocol.Roster, error) { return r.shown(g, place), nil }}
}
