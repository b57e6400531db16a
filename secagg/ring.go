package secagg

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/internal/merkle"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/secagg/graph"
)

// WholeUpTo is the largest number of clients for which each client is shown the whole roster. In a
// larger federation, in semi-honest mode, a client is shown its own part of the ring: itself and
// its neighbours. A proof says that they stand side by side in a Merkle tree over the ring. Masks
// are bound to the root of the tree, as they are to the roster in small federations. So a client's
// traffic and computation grow with the number of its neighbours, and not with the number of all
// clients. Of the sets of remaining clients it is shown its part, the weight and a hash.
//
// In active mode every client is shown everything. A client there counts signatures of survivors
// over the set whose weight sets its noise, and verifies every client's keys.
const WholeUpTo = 500

// inParts reports whether clients are shown parts of the roster.
func (p Params) inParts(s protocol.Setup) bool {
	return p.Mode == graph.SemiHonest && s.Cohort.Wanted() > WholeUpTo
}

func (r *roster) parts() bool { return r.params.inParts(r.setup) }

// ring is the order of all clients on the ring. It follows from every client's keys, so that no
// party can know it before they are fixed. A client can tell the order of any two other clients. It
// takes on the aggregator's word that the hash is over all keys.
type ring struct {
	keys  protocol.Hash // of all members
	order []int32       // the place on the roster at each position
	at    []int32       // the inverse
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
	g := &ring{keys: r.hash, order: r.byKeys(r.ringSeed(r.hash)), at: make([]int32, r.clients)}
	leaves := make([]merkle.Hash, r.clients)
	for p, place := range g.order {
		g.at[place], leaves[p] = int32(p), leaf(&r.members[place])
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

// part are the places of a client and its neighbours, ascending.
func (g *ring) part(place, degree int) []int {
	n := len(g.order)
	positions := span(start(int(g.at[place]), degree, n), degree, n)
	for i, p := range positions {
		positions[i] = int(g.order[p])
	}
	slices.Sort(positions)
	return positions
}

// shown is the roster as the client at a place is shown it.
func (r *roster) shown(place int) *protocol.Roster {
	out := &protocol.Roster{Round: r.setup.Round, Clients: r.clients, Members: r.members}
	if r.ring == nil {
		return out
	}
	places, from := r.ring.part(place, r.choice.Degree), start(int(r.ring.at[place]), r.choice.Degree, r.clients)
	out.Members = make([]protocol.Member, len(places))
	for i, j := range places {
		out.Members[i] = r.members[j]
	}
	out.Ring = &protocol.Ring{Keys: r.ring.keys, Start: from, Proof: r.ring.tree.Prove(span(from, r.choice.Degree, r.clients))}
	return out
}

// newPart is the roster of a client that is shown its part of the ring. Its members must stand in
// the order of the ring, from the position on that is said, with the client in their middle, and the
// proof must be of them.
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
