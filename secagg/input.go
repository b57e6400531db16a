package secagg

import (
	"fmt"

	"github.com/fedsim/fedsim/internal/secagg/mask"
	"github.com/fedsim/fedsim/protocol"
)

// Stage 2, masked input (Bonawitz et al., round 2).

// MaskedInput decrypts the shares that were dealt to the client, and masks its vectors, one for each release, with its own mask and
// one for each neighbour whose shares arrived. It takes part with all of these neighbours or not at all: otherwise an aggregator
// that withholds single shares could cut the graph where it likes.
func (c *Client) MaskedInput(m *protocol.Delivery, inputs []protocol.Integers, run protocol.Runner) (*protocol.MaskedInput, error) {
	if c.plan == nil {
		return nil, fmt.Errorf("%w: there is no plan yet", ErrOrder)
	}
	if err := c.enter(protocol.StageMaskedInput); err != nil {
		return nil, err
	}
	if err := c.open(m, run); err != nil {
		return nil, err
	}
	sums, err := fill(c.plan, inputs)
	if err != nil {
		return nil, err
	}
	c.context = c.roster.context(c.plan, c.arrived)
	out := &protocol.MaskedInput{Round: c.plan.Round, Masked: make([][]byte, len(sums))}
	if out.Complaints, err = c.complaints(run); err != nil {
		return nil, err
	}
	masks, err := c.masks(ofInputs, c.arrived.known, run)
	if err != nil {
		return nil, err
	}
	if err = c.prove(out, sums, masks, run); err != nil {
		return nil, err
	}
	for i, v := range sums {
		if out.Masked[i], err = masked(v, c.plan.Releases[i], c.context, masks, run); err != nil {
			return nil, err
		}
	}
	clear(masks)
	if c.roster.parts() && !c.setup.Replaces {
		slim := *c.roster // nothing is masked or opened by keys any more
		slim.members = nil
		c.roster = &slim
	}
	c.stage = c.course().After(protocol.StageMaskedInput)
	return out, nil
}

// open checks who delivered shares and decrypts the client's.
func (c *Client) open(m *protocol.Delivery, run protocol.Runner) error {
	required, arrived := c.plan.Cohort.Required(), partialView{m.Clients, m.Arrived, m.Digest}
	if err := c.roster.fits(arrived); err != nil {
		return c.lie(protocol.StageMaskedInput, err)
	}
	switch {
	case m.Clients < required:
		return &protocol.TooFew{Round: c.plan.Round, Stage: protocol.StageShare, Left: m.Clients, Required: required}
	case !m.Arrived.Has(c.self):
		return c.lie(protocol.StageMaskedInput, fmt.Errorf("%w: this client's shares arrived", ErrSurvivors))
	}
	c.arrived = arrived.clone()
	var live []int
	for i, p := range c.peers {
		if m.Arrived.Has(p.at) {
			live = append(live, i)
		}
	}
	if len(m.Shares) != len(live) {
		return c.lie(protocol.StageMaskedInput, fmt.Errorf("%w: %d of %d neighbours' shares are delivered", ErrShare, len(m.Shares), len(live)))
	}
	for l := range layersOf(c.setup) {
		c.held[l] = make([]encryptedShares, len(c.peers))
	}
	err := each(run, len(live), func(i int) error { return c.unseal(live[i], &m.Shares[i]) })
	c.channels = nil // of no more use
	return err
}

// unseal decrypts the shares that the i-th neighbour dealt. In active mode the dealer signed the ciphertext and its commitments.
// Anything wrong behind a good signature is the dealer's fault, and the client complains of it. A bad signature is the fault of the
// aggregator, which should have checked it. In semi-honest mode parties are assumed not to lie, so nothing is wrong.
func (c *Client) unseal(i int, s *protocol.EncryptedShare) error {
	p, n := &c.peers[i], layersOf(c.setup)
	dealer := c.roster.members[p.at]
	if s.Peer != dealer.Client {
		return c.lie(protocol.StageMaskedInput, fmt.Errorf("%w: shares of client %d in the place of client %d's", ErrShare, s.Peer, dealer.Client))
	}
	if err := checkSealed(s, c.party.cfg.Params.Mode, n); err != nil {
		return c.lie(protocol.StageMaskedInput, err)
	}
	ch := channel{c.roster, p.at, c.self}
	if c.Confirms() && !c.party.cfg.Agreements.verifies(c.party.cfg.Params, dealer.Client, ch.signed(s.Ciphertext, s.Committed), s.Committed.Signature) {
		return c.lie(protocol.StageMaskedInput, fmt.Errorf("shares of client %d: %w", dealer.Client, ErrSignature))
	}
	var h holdings
	plain, err := ch.open(c.channels[i], s.Ciphertext)
	if err == nil {
		h, err = parseHoldings(plain, n)
	}
	switch {
	case c.Confirms():
		dealt := h[ofInputs].commitments()
		if err != nil || dealt.Seed != s.Committed.Seed || dealt.Key != s.Committed.Key {
			p.faulty = true
			return nil
		}
	case err != nil:
		return c.fault(protocol.ClientParty(dealer.Client), protocol.StageShare, ErrShare)
	}
	for l := range n {
		c.held[l][i] = h[l]
	}
	return nil
}

// fill makes residues of the inputs.
func fill(p *protocol.Plan, inputs []protocol.Integers) ([]*mask.Vector, error) {
	if len(inputs) != len(p.Releases) {
		return nil, fmt.Errorf("%w: %d vectors for %d releases", ErrMalformed, len(inputs), len(p.Releases))
	}
	out, err := vectors(p)
	if err != nil {
		return nil, err
	}
	for i, r := range p.Releases {
		values := inputs[i].Value
		if err = inputs[i].Validate(r.Len); err != nil {
			return nil, fmt.Errorf("release %q: %w", r.Name, err)
		}
		if inputs[i].Index != nil {
			values = make([]int64, r.Len)
			inputs[i].AddTo(values)
		}
		if err = out[i].AddInts(values); err != nil {
			return nil, fmt.Errorf("release %q: %w", r.Name, err)
		}
	}
	return out, nil
}

// masking is a mask's secret and its sign in the client's input.
type masking struct {
	secret [32]byte
	kind   mask.Kind
	sub    bool
}

// masks returns the client's masks of a layer: its own and one for each neighbour among the clients given, except the neighbours it
// complains of. It forgets the secrets behind them, so that nothing is masked twice.
func (c *Client) masks(l layer, among protocol.Bitmap, run protocol.Runner) ([]masking, error) {
	own := c.own[l]
	c.own[l] = secrets{}
	out := make([]masking, 0, len(c.peers)+1)
	var places []int
	for _, p := range c.peers {
		if among.Has(p.at) && !p.faulty {
			places = append(places, p.at)
			out = append(out, masking{kind: mask.Pair, sub: p.at < c.self})
		}
	}
	shared, errs := c.roster.pairSecrets(l, own.key, c.self, places, c.party.cfg.Agreements, run)
	for i, err := range errs {
		out[i].secret = shared[i]
		if err != nil {
			return nil, c.fault(protocol.ClientParty(c.roster.members[places[i]].Client), protocol.StageAdvertise, fmt.Errorf("%w: %w", ErrKeys, err))
		}
	}
	seed, _ := selfSeed(l, own.seed, c.setup, c.party.cfg.ID)
	return append(out, masking{secret: seed, kind: mask.Self}), nil
}

// masked adds all masks to the vector of a release and packs it.
func masked(v *mask.Vector, r protocol.Release, ctx mask.Context, masks []masking, run protocol.Runner) ([]byte, error) {
	err := withTerms(r, ctx, masks, func(terms []mask.Term) error {
		return each(run, (v.Len()+chunk-1)/chunk, func(i int) error { return mask.AddRange(v, terms, i*chunk, min((i+1)*chunk, v.Len())) })
	})
	if err != nil {
		return nil, err
	}
	return v.AppendPacked(make([]byte, 0, mask.PackedSize(v.Width(), v.Len()))), nil
}

// input adds a client's vectors to the sums, and keeps nothing of them.
func (a *Aggregator) input(from protocol.ClientID, m *protocol.MaskedInput) error {
	at := a.roster.find(from)
	if err := a.checkComplaints(at, m.Complaints); err != nil {
		return err
	}
	if err := checkMasked(a.plan, m); err != nil {
		return err
	}
	if err := a.verified.keep(m); err != nil {
		return err
	}
	for i, v := range a.sums {
		if err := v.AddPacked(m.Masked[i]); err != nil {
			return err
		}
	}
	for _, c := range m.Complaints {
		a.complaints[edge{at, a.roster.find(c.Of)}] = c.Secret
	}
	return nil
}

// checkMasked says what is wrong with the form of a client's vectors.
func checkMasked(p *protocol.Plan, m *protocol.MaskedInput) error {
	if len(m.Masked) != len(p.Releases) || len(m.Vectors) != 0 {
		return fmt.Errorf("%w: %d masked vectors and %d others for %d releases", ErrMalformed, len(m.Masked), len(m.Vectors), len(p.Releases))
	}
	for i, r := range p.Releases {
		if mask.CheckPacked(r.Width, r.Len, m.Masked[i]) != nil {
			return fmt.Errorf("%w: release %q: %d bytes are no vector of %d coordinates of %d bits", ErrMalformed, r.Name, len(m.Masked[i]), r.Len, r.Width)
		}
	}
	return nil
}

// closeInput settles U1, the clients whose masked input arrived.
func (a *Aggregator) closeInput() error {
	a.u1 = protocol.NewBitmap(len(a.roster.members))
	for i := range a.roster.members {
		if stage, ok := a.heard[a.roster.members[i].Client]; ok && stage == protocol.StageMaskedInput {
			a.u1.Set(i)
		}
	}
	a.inputContext()
	if !a.Confirms() { // all are delivered, or too late
		a.dealt.drop()
	}
	return a.starved(a.arrived, a.u1)
}
