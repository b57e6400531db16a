package secagg

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/merkle"
	"github.com/fedsim/fedsim/internal/secagg/mask"
	"github.com/fedsim/fedsim/protocol"
)

// WholeUpTo is the largest number of clients for which each client is shown the whole roster. In a larger federation, in
// semi-honest mode, a client is shown its own part of the ring: itself and its neighbours. A proof says that they stand side by
// side in a Merkle tree over the ring. Masks are bound to the root of the tree, as they are to the roster in small federations. So
// a client's traffic and computation grow with the number of its neighbours, and not with the number of all clients. Of the sets of
// remaining clients it is shown its part, the weight and a hash.
//
// In active mode every client is shown everything. A client there counts signatures of survivors
// over the set whose weight sets its noise, and verifies every client's keys.
const WholeUpTo = 500

// inParts reports whether clients are shown parts of the roster.
func (p Params) inParts(s protocol.Setup) bool {
	return p.Mode == SemiHonest && s.Cohort.Wanted() > WholeUpTo
}

func (r *roster) parts() bool { return r.params.inParts(r.setup) }

// ring is the order of all clients on the ring. It follows from every client's keys, so that no party can know it before they are
// fixed. A client can tell the order of any two other clients. It takes on the aggregator's word that the hash is over all keys.
type ring struct {
	keys  protocol.Hash // of all members
	order []int32       // the place on the roster at each position
	tree  *merkle.Tree  // of the members, by position
}

// ringSeed is the seed that the order is drawn from, made of the hash of all keys.
func (r *roster) ringSeed(keys protocol.Hash) protocol.Hash {
	return protocol.NewTranscript("fedsim/secagg/ring/v1").Bytes(keys[:]).Bytes(r.params.Beacon).Sum()
}

// byKeys are places of the members in the order of their ring keys. Two keys are alike with a chance of 2^-256.
func (r *roster) byKeys(seed protocol.Hash) []int32 {
	keys, order := make([]protocol.Hash, len(r.members)), make([]int32, len(r.members))
	for i := range keys {
		order[i] = int32(i)
		keys[i] = protocol.NewTranscript("fedsim/secagg/ring-key/v1").Bytes(seed[:]).Uint(uint64(r.members[i].Client)).Sum()
	}
	slices.SortFunc(order, func(i, j int32) int { return bytes.Compare(keys[i][:], keys[j][:]) })
	return order
}

// leaf is a member in the tree.
func leaf(m *protocol.Member) merkle.Hash {
	t := protocol.NewTranscript("fedsim/secagg/ring-member/v1")
	appendMember(t, m)
	return merkle.Leaf(t.Encoding())
}

// ringHash is the hash that masks are bound to: all keys, and the order of clients.
func (r *roster) ringHash(keys, root protocol.Hash) protocol.Hash {
	return protocol.NewTranscript("fedsim/secagg/ring-roster/v1").Bytes(r.setting[:]).Uint(uint64(r.clients)).Bytes(keys[:]).Bytes(root[:]).Sum()
}

// arrange has the clients of a whole roster stand on a ring, if they are to be shown parts of it.
func (r *roster) arrange() {
	if !r.parts() {
		return
	}
	g := &ring{keys: r.hash, order: r.byKeys(r.ringSeed(r.hash))}
	leaves := make([]merkle.Hash, r.clients)
	for p, place := range g.order {
		leaves[p] = leaf(&r.members[place])
	}
	g.tree = merkle.New(leaves)
	r.ring, r.hash = g, r.ringHash(g.keys, g.tree.Root())
}

// span is the positions from start on that a client and its neighbours have, of n, at a degree.
func span(start, degree, n int) []int {
	positions := make([]int, min(degree+1, n))
	for i := range positions {
		positions[i] = (start + i) % n
	}
	slices.Sort(positions)
	return positions
}

// start is the position at which the part begins of the client at a position.
func start(position, degree, n int) int {
	if degree+1 >= n {
		return 0
	}
	return (position - degree/2 + n) % n
}

// around are the places of a client and its neighbours, ascending.
func around(g *Graph, place int) []int {
	places := append(g.Neighbours(place), place)
	slices.Sort(places)
	return places
}

// shown is the roster as the client at a place of its graph is shown it.
func (r *roster) shown(g *Graph, place int) *protocol.Roster {
	out := &protocol.Roster{Round: r.setup.Round, Clients: r.clients, Members: r.members}
	if r.ring == nil {
		return out
	}
	places, from := around(g, place), start(g.Position(place), r.choice.Degree, r.clients)
	out.Members = lists.Map(places, func(at int) protocol.Member { return r.members[at] })
	out.Ring = &protocol.Ring{Keys: r.ring.keys, Start: from, Proof: r.ring.tree.Prove(span(from, r.choice.Degree, r.clients))}
	return out
}

// newPart is the roster of a client that is shown its part of the ring. Its members must stand in the order of the ring, from the
// position on that is said, with the client in their middle, and the proof must be of them.
func newPart(setup protocol.Setup, params Params, setting protocol.Hash, m *protocol.Roster, self protocol.ClientID) (*roster, error) {
	r := &roster{setup: setup, params: params, setting: setting, clients: m.Clients, members: m.Members, known: len(m.Members)}
	if err := r.choose(); err != nil {
		return nil, err
	}
	if want := min(r.choice.Degree+1, r.clients); len(r.members) != want || m.Ring.Start >= r.clients {
		return nil, fmt.Errorf("%w: %d of %d clients from position %d on; %d are expected", ErrMalformed, len(r.members), r.clients, m.Ring.Start, want)
	}
	positions := span(m.Ring.Start, r.choice.Degree, r.clients)
	leaves, middle := make([]merkle.Hash, len(positions)), -1
	for i, place := range r.byKeys(r.ringSeed(m.Ring.Keys)) {
		leaves[i] = leaf(&r.members[place])
		if r.members[place].Client == self {
			middle = positions[i]
		}
	}
	if middle < 0 || start(middle, r.choice.Degree, r.clients) != m.Ring.Start {
		return nil, fmt.Errorf("%w: the roster is not the part of this client", ErrKeys)
	}
	root, err := merkle.Root(r.clients, positions, leaves, m.Ring.Proof)
	if err != nil {
		return nil, fmt.Errorf("%w: the part of the ring: %w", ErrMalformed, err)
	}
	r.hash = r.ringHash(m.Ring.Keys, root)
	return r, nil
}

// A relay between some of the clients and the aggregator adds up their vectors. There is one sum over all clients as without the
// relay. A part of the sum is of no use to any party: masks with clients elsewhere are still on it.
//
// The aggregator takes the rest of a client's message with [Aggregator.Held], and the vectors of all of a relay's clients at once
// with [Aggregator.AddPart]. A client whose vectors have not come when the stage is closed has not answered it. So U1 has exactly
// the clients whose vectors are in the sum, whichever way they took.

// ErrRelay is returned in active mode. A client that lies is excluded there for a message that it
// was seen to send. In a relay's sum no party sees which client sent what.
var ErrRelay = errors.New("secagg: relays add vectors up in semi-honest mode alone")

// PartialSum adds up, at a relay, what clients send in one stage of a round: their masked inputs in the stage masked-input, in the
// stage unmask what their noise changes by. It is not safe for concurrent use.
type PartialSum struct {
	plan   *protocol.Plan
	stage  protocol.Stage
	rounds int
	// survivors are the clients whose inputs are in the sum, as far as is known: a relay knows that they are no more.
	survivors int
	sums      []*mask.Vector
}

// NewPart makes an empty part of a plan's round, in a session of so many rounds. It returns the
// errors of protocol.Plan.Validate, and ErrOrder for a stage without vectors.
func NewPart(plan *protocol.Plan, stage protocol.Stage, rounds int) (*PartialSum, error) {
	if err := plan.Validate(); err != nil {
		return nil, err
	}
	if stage != protocol.StageMaskedInput && stage != protocol.StageUnmask {
		return nil, fmt.Errorf("%w: nothing is added up in the stage %s", ErrOrder, stage)
	}
	sums, err := vectors(plan)
	return &PartialSum{plan: plan, stage: stage, rounds: rounds, survivors: plan.Cohort.Wanted(), sums: sums}, err
}

// Read checks the vectors of a client's message, as the aggregator would, and returns them
// as residues, packed per release. The error says what is wrong with them.
func (p *PartialSum) Read(m protocol.StageMessage) ([][]byte, error) {
	switch m := m.(type) {
	case *protocol.MaskedInput:
		if p.stage == protocol.StageMaskedInput && m.Round == p.plan.Round {
			return m.Masked, checkMasked(p.plan, m)
		}
	case *protocol.Unmask:
		if p.stage == protocol.StageUnmask && m.Round == p.plan.Round {
			return p.removals(m)
		}
	}
	round, stage := m.At()
	return nil, fmt.Errorf("%w: %s of round %d", ErrOrder, stage, round)
}

// removals returns a client's removals as residues.
func (p *PartialSum) removals(m *protocol.Unmask) ([][]byte, error) {
	if len(m.Removed) != len(p.plan.Releases) || len(m.Removals) != 0 {
		return nil, fmt.Errorf("%w: %d coded removals and %d others for %d releases", ErrMalformed, len(m.Removed), len(m.Removals), len(p.plan.Releases))
	}
	out := make([][]byte, len(m.Removed))
	for i, r := range p.plan.Releases {
		removal, err := p.checkRemoved(r, m.Removed[i])
		if err != nil {
			return nil, fmt.Errorf("%w: release %q: %w", ErrMalformed, r.Name, err)
		}
		if removal == nil {
			out[i] = m.Removed[i] // residues already, or nothing
			continue
		}
		v, err := residues(r, removal) // noise may be wider than the ring
		if err != nil {
			return nil, err
		}
		out[i] = v.AppendPacked(make([]byte, 0, mask.PackedSize(r.Width, r.Len)))
	}
	return out, nil
}

// Add adds residues that Read returned.
func (p *PartialSum) Add(residues [][]byte) error {
	if err := p.fits(residues); err != nil {
		return err
	}
	for i, v := range p.sums {
		if len(residues[i]) == 0 {
			continue
		}
		if err := v.AddPacked(residues[i]); err != nil {
			return err
		}
	}
	return nil
}

// fits says whether residues are of the form that the stage has.
func (p *PartialSum) fits(residues [][]byte) error {
	if len(residues) != len(p.sums) {
		return fmt.Errorf("%w: %d vectors for %d releases", ErrMalformed, len(residues), len(p.sums))
	}
	for i, r := range p.plan.Releases {
		if p.has(r) && mask.CheckPacked(r.Width, r.Len, residues[i]) != nil || !p.has(r) && len(residues[i]) != 0 {
			return fmt.Errorf("%w: release %q: %d bytes are no sum of the stage %s", ErrMalformed, r.Name, len(residues[i]), p.stage)
		}
	}
	return nil
}

// has says whether clients send a vector of a release in the stage.
func (p *PartialSum) has(r protocol.Release) bool {
	return p.stage == protocol.StageMaskedInput || r.Noise.Reduced()
}

// Sums are the sums of what was added, packed per release, as protocol.Partial has them.
func (p *PartialSum) Sums() [][]byte {
	out := make([][]byte, len(p.sums))
	for i, r := range p.plan.Releases {
		if p.has(r) {
			out[i] = p.sums[i].AppendPacked(make([]byte, 0, mask.PackedSize(r.Width, r.Len)))
		}
	}
	return out
}

// Held is Receive for a message of which a relay holds the vectors: it counts as answered
// if these come, with AddPart, before the stage is closed. In active mode ErrRelay is returned.
func (a *Aggregator) Held(from protocol.ClientID, m protocol.StageMessage) error {
	if a.Confirms() {
		return ErrRelay
	}
	err := a.receive(from, m, func() error { return a.hold(from, m) })
	if err == nil {
		a.held[from] = true
	}
	return err
}

func (a *Aggregator) hold(from protocol.ClientID, m protocol.StageMessage) error {
	at := a.roster.find(from)
	switch m := m.(type) {
	case *protocol.MaskedInput:
		if len(m.Masked) != 0 || len(m.Vectors) != 0 || len(m.Complaints) != 0 {
			return fmt.Errorf("%w: vectors or complaints in a message whose vectors are held", ErrMalformed)
		}
	case *protocol.Unmask:
		if len(m.Removed) != 0 || len(m.Removals) != 0 {
			return fmt.Errorf("%w: vectors in a message whose vectors are held", ErrMalformed)
		}
		if err := a.checkRevealed(ofInputs, at, m.Shares); err != nil {
			return err
		}
		return a.reveal(ofInputs, at, m.Shares)
	default:
		return fmt.Errorf("%w: %s has no vectors", ErrMalformed, protocol.Describe(m))
	}
	return nil
}

// AddPart adds a relay's sum of clients' vectors. The sum must be over all of these clients, and no
// others. Held must have taken each client's message of the present stage, and the client's vectors
// must not have come since. Bit c of clients is client c. With an error nothing was added.
func (a *Aggregator) AddPart(clients protocol.Bitmap, sums [][]byte) error {
	if a.Confirms() {
		return ErrRelay
	}
	part := &PartialSum{plan: a.plan, stage: a.stage, sums: a.sums}
	if a.plan == nil || a.finished || a.stage != protocol.StageMaskedInput && a.stage != protocol.StageUnmask {
		return fmt.Errorf("%w: nothing is added up in the stage %s", ErrOrder, a.stage)
	}
	if n := a.setup.Cohort.All(); !clients.Fits(n) {
		return fmt.Errorf("%w: %d bytes are no set of %d clients", ErrMalformed, len(clients), n)
	}
	for c := range protocol.ClientID(a.setup.Cohort.All()) {
		if clients.Has(int(c)) && !a.held[c] {
			return fmt.Errorf("%w: a sum with client %d, whose vectors were not held, or are in the sum", ErrOrder, c)
		}
	}
	if err := part.Add(sums); err != nil {
		return err
	}
	maps.DeleteFunc(a.held, func(c protocol.ClientID, _ bool) bool { return clients.Has(int(c)) })
	return nil
}

// partialView is a set of clients as a client is told of it: the members that the client knows. Where these are not all, it has
// also the number of all members and the hash that stands for the whole set.
type partialView struct {
	count  int
	known  protocol.Bitmap
	digest *protocol.Hash // nil where all members are known
}

// whole stands for the set in hashes. It includes the weight, since the hash tells a client nothing
// about the weight: masks cancel only among clients that are told the same weight.
func (t partialView) whole() []byte {
	if t.digest == nil {
		return t.known
	}
	h := protocol.NewTranscript("fedsim/secagg/told/v1").Uint(uint64(t.count)).Bytes(t.digest[:]).Sum()
	return h[:]
}

// unknown counts the clients of the set that the client does not know.
func (t partialView) unknown() int { return t.count - t.known.Count() }

// is reports whether two views tell the same.
func (t partialView) is(o partialView) bool {
	return t.count == o.count && bytes.Equal(t.known, o.known) && (t.digest == nil) == (o.digest == nil) && bytes.Equal(t.whole(), o.whole())
}

func (t partialView) clone() partialView {
	t.known = slices.Clone(t.known)
	if t.digest != nil {
		d := *t.digest
		t.digest = &d
	}
	return t
}

// fits says what is wrong with the form of a set of clients of the roster.
func (r *roster) fits(t partialView) error {
	n, known := r.known, t.known.Count()
	part := t.digest != nil
	switch {
	case !t.known.Fits(n) || part != r.parts() || !part && known != t.count:
		return fmt.Errorf("%w: %d of a roster of %d in %d bytes", ErrMalformed, t.count, n, len(t.known))
	case known > t.count || t.count-known > r.clients-n:
		return fmt.Errorf("%w: %d clients, of %d that are known and %d others", ErrMalformed, t.count, known, r.clients-n)
	}
	return nil
}

// told returns the view of a set for the client at a place: the clients that it knows and, where
// these are not all, the weight of the set and its hash.
func (a *Aggregator) told(set protocol.Bitmap, place int) partialView {
	if a.roster.ring == nil {
		return partialView{count: set.Count(), known: set}
	}
	t := a.wholly(set)
	places := around(a.graph, place)
	t.known = protocol.NewBitmap(len(places))
	for i, j := range places {
		if set.Has(j) {
			t.known.Set(i)
		}
	}
	return t
}

// wholly returns the part of the view that is the same for every client, computed once for each set.
func (a *Aggregator) wholly(set protocol.Bitmap) partialView {
	if a.roster.ring == nil {
		return partialView{count: set.Count(), known: set}
	}
	if a.latest.digest == nil || !bytes.Equal(a.latest.known, set) {
		digest := protocol.Hash(protocol.NewTranscript("fedsim/secagg/set/v1").Uint(uint64(a.roster.clients)).Bytes(set).Sum())
		a.latest = partialView{count: set.Count(), known: slices.Clone(set), digest: &digest}
	}
	return partialView{count: a.latest.count, digest: a.latest.digest}
}
