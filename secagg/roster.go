package secagg

import (
	"cmp"
	"crypto/ed25519"
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg/graph"
	"github.com/fedsim/fedsim/secagg/mask"
	"github.com/fedsim/fedsim/secagg/shamir"
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
	choice  graph.Choice
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
	r.choice, err = graph.ForRoster(r.params.Graph(r.setup), r.clients)
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

// graph draws the neighbours. No client keeps it longer than it takes to read them.
func (r *roster) graph() (*graph.Graph, error) {
	if r.ring != nil {
		return graph.Arrange(r.ring.order, r.choice.Degree)
	}
	return graph.New(len(r.members), r.choice.Degree, r.ringSeed(r.hash))
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
func (r *roster) verify(run protocol.Runner) error {
	good := make([]bool, len(r.members))
	run.Each(len(r.members), func(i int) {
		m := &r.members[i]
		good[i] = verifyKeys(r.params, r.setting, m.Client, &m.Keys)
	})
	if i := slices.Index(good, false); i >= 0 {
		return fmt.Errorf("the keys of client %d: %w", r.members[i].Client, ErrSignature)
	}
	return nil
}

// binding is the hash that masks, and the signatures over survivors, are bound to. It covers the
// plan, the model, the setting, the roster, and which of its clients delivered shares.
func (r *roster) binding(plan *protocol.Plan, arrived partialView) protocol.Hash {
	h := plan.Hash()
	return protocol.NewTranscript("fedsim/secagg/binding/v1").Bytes(h[:]).Bytes(r.setting[:]).Bytes(r.hash[:]).Bytes(arrived.whole()).Sum()
}

func (r *roster) context(plan *protocol.Plan, arrived partialView) mask.Context {
	return mask.Context{Session: r.setup.Session, Round: r.setup.Round, Binding: r.binding(plan, arrived)}
}

// changeContext is the context of the masks over the changes of noise. They are put on once U1 is
// known, and cancel only among clients that were shown the same.
func (r *roster) changeContext(c mask.Context, u1 partialView) mask.Context {
	c.Binding = protocol.NewTranscript("fedsim/secagg/change-binding/v1").Bytes(c.Binding[:]).Bytes(u1.whole()).Sum()
	return c
}

// survivors checks a set that a sum is to be over: U1, a subset of the clients that delivered
// shares, or U2, a subset of U1.
func (r *roster) survivors(set, of partialView) error {
	c := r.setup.Cohort
	if err := r.fits(set); err != nil {
		return err
	}
	switch {
	case !set.known.Subset(of.known) || set.unknown() > of.unknown():
		return fmt.Errorf("%w: a client among them was lost before", ErrSurvivors)
	case set.count < c.Required() || set.count <= c.Colluding():
		return fmt.Errorf("%w: %d, and at least %d are required", ErrSurvivors, set.count, max(c.Required(), c.Colluding()+1))
	}
	return nil
}

// index is where the polynomials are evaluated for a client.
func index(id protocol.ClientID) shamir.Index { return shamir.Index(id) + 1 }

// signedKeys returns the bytes that an advertisement's signature is over.
func signedKeys(setting protocol.Hash, id protocol.ClientID, k *protocol.Keys) []byte {
	h := protocol.NewTranscript("fedsim/secagg/advertise/v1").Bytes(setting[:]).Uint(uint64(id)).Bytes(k.Mask[:]).Bytes(k.Channel[:]).Sum()
	return h[:]
}

func verifyKeys(p Params, setting protocol.Hash, id protocol.ClientID, k *protocol.Keys) bool {
	return len(k.Signature) == ed25519.SignatureSize && ed25519.Verify(p.Identities[id], signedKeys(setting, id, k), k.Signature)
}

// packedFits says whether src has the size of a packed vector of the release and
// nothing in its unused bits.
func packedFits(r protocol.Release, src []byte) bool {
	if len(src) != mask.PackedSize(r.Width, r.Len) {
		return false
	}
	unused := 8*len(src) - int(r.Width)*r.Len
	return unused == 0 || src[len(src)-1]>>(8-unused) == 0
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

func spec(r protocol.Release) mask.Spec {
	return mask.Spec{Name: r.Name, Width: r.Width, Len: r.Len}
}

// withTerms opens masks over a release, has them added, and wipes them.
func withTerms(r protocol.Release, ctx mask.Context, masks []masking, add func([]mask.Term) error) error {
	terms := make([]mask.Term, len(masks))
	for i, m := range masks {
		stream, err := mask.NewStream(m.secret, m.kind, ctx, spec(r))
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

// addMasks adds the terms to the vector on all workers.
func addMasks(v *mask.Vector, terms []mask.Term, run protocol.Runner) error {
	errs := make([]error, (v.Len()+chunk-1)/chunk)
	run.Each(len(errs), func(i int) {
		errs[i] = mask.AddRange(v, terms, i*chunk, min((i+1)*chunk, v.Len()))
	})
	return cmp.Or(errs...)
}
