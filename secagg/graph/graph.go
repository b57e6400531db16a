package graph

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/problems"
	"github.com/fedsim/fedsim/protocol"
)

// Graph says who are neighbours on a roster. Clients are numbered from 0 in the
// roster's order. It is immutable and safe for concurrent use.
type Graph struct {
	degree   int
	ring     []int32 // the client at each position; nil when the graph is complete
	position []int32 // the inverse
	clients  int
}

// New draws the graph of an even degree below clients-1 from a public seed: the
// clients in random order around a ring, each joined to the degree/2 nearest on either
// side. A degree of clients-1 or more makes it complete, whatever the seed.
//
// The seed binds what must be fixed before any party can know the ring: the plan and the roster,
// and in active mode the beacon. The order is the Fisher-Yates shuffle of 0, 1, ..., clients-1: for
// i from clients-1 down to 1, entries i and j change places, with j uniform from 0 to i. The
// uniform numbers come from [entropy.Uniform] (Lemire's method on little-endian 64-bit words,
// rejecting, without bias). It reads the AES-256-CTR stream, counter from zero. The key is
// HKDF-SHA-256(secret = seed, no salt, info = "fedsim/entropy/seed/secagg/graph/permutation").
// testdata/permutation.json holds an example.
func New(clients, degree int, seed entropy.Seed) (*Graph, error) {
	if clients < 2 || clients > MaxClients {
		return nil, fmt.Errorf("graph: %d clients; it takes 2 to %d", clients, MaxClients)
	}
	order := make([]int32, clients)
	for i := range order {
		order[i] = int32(i)
	}
	stream := seed.Stream("secagg/graph/permutation")
	for i := clients - 1; i > 0 && degree < clients-1; i-- {
		j, err := entropy.Uniform(stream, uint64(i)+1)
		if err != nil {
			return nil, fmt.Errorf("graph: drawing the ring: %w", err)
		}
		order[i], order[j] = order[j], order[i]
	}
	return Arrange(order, degree)
}

// Arrange is the graph of an even degree below clients-1 on a ring whose order was drawn
// already, from all orders alike: order has the client at each position. A degree of
// clients-1 or more makes it complete. The caller does not change order afterwards.
func Arrange(order []int32, degree int) (*Graph, error) {
	clients := len(order)
	switch {
	case clients < 2 || clients > MaxClients:
		return nil, fmt.Errorf("graph: %d clients in a given order; it takes 2 to %d", clients, MaxClients)
	case degree >= clients-1:
		return &Graph{clients: clients, degree: clients - 1}, nil
	case degree < 2 || degree%2 != 0:
		return nil, fmt.Errorf("graph: degree %d for %d clients; it must be even and at least 2, or at least %d for the complete graph",
			degree, clients, clients-1)
	}
	g := &Graph{clients: clients, degree: degree, ring: order, position: make([]int32, clients)}
	for i := range g.position {
		g.position[i] = -1
	}
	for p, client := range order {
		if client < 0 || int(client) >= clients || g.position[client] >= 0 {
			return nil, fmt.Errorf("graph: %d at position %d of an order of %d clients; each must stand in it once", client, p, clients)
		}
		g.position[client] = int32(p)
	}
	return g, nil
}

// Degree returns the number of neighbours of each client.
func (g *Graph) Degree() int { return g.degree }

// Neighbours are client i's, in ascending order; none when there is no client i.
// The slice is the caller's.
func (g *Graph) Neighbours(i int) []int {
	if i < 0 || i >= g.clients {
		return nil
	}
	peers := make([]int, 0, g.degree)
	if g.ring == nil {
		for j := range g.clients {
			if j != i {
				peers = append(peers, j)
			}
		}
		return peers
	}
	p, n := int(g.position[i]), g.clients
	for step := 1; step <= g.degree/2; step++ {
		peers = append(peers, int(g.ring[(p+step)%n]), int(g.ring[(p+n-step)%n]))
	}
	slices.Sort(peers)
	return peers
}

// Adjacent says whether clients i and j are neighbours. No client is its own neighbour. A number
// that is no client's has no neighbours.
func (g *Graph) Adjacent(i, j int) bool {
	if min(i, j) < 0 || max(i, j) >= g.clients || i == j {
		return false
	}
	if g.ring == nil {
		return true
	}
	distance := int(g.position[i]) - int(g.position[j])
	distance = max(distance, -distance)
	return min(distance, g.clients-distance) <= g.degree/2
}

// Slot numbers client i's neighbours from 0 to Degree()-1 and returns j's number; -1 if the clients are not neighbours.
func (g *Graph) Slot(i, j int) int {
	switch {
	case !g.Adjacent(i, j):
		return -1
	case g.ring == nil && j < i:
		return j
	case g.ring == nil:
		return j - 1
	}
	after := (int(g.position[j]) - int(g.position[i]) + g.clients) % g.clients
	if after <= g.degree/2 {
		return after - 1
	}
	return g.degree - g.clients + after // the last stands just before i
}

// Position returns client i's place on the ring. Neighbours stand close to each other. On a complete graph the place is i.
func (g *Graph) Position(i int) int {
	if g.ring == nil {
		return i
	}
	return int(g.position[i])
}

// Mode says what the aggregator and the colluding clients may do.
type Mode uint8

const (
	// SemiHonest parties follow the protocol, report truthfully who was lost, and may
	// pool what they see.
	SemiHonest Mode = iota
	// Active parties may also lie, drop any clients, and show different clients different
	// things.
	Active
)

// String is the mode's name on the command line.
func (m Mode) String() string {
	switch m {
	case SemiHonest:
		return "semi-honest"
	case Active:
		return "active"
	default:
		return fmt.Sprintf("mode(%d)", uint8(m))
	}
}

const (
	// MaxClients is the largest plan. Up to there the rounding of the computed
	// probabilities is covered.
	MaxClients = 1 << 20

	// CompleteUpTo is the number of clients up to which the graph of active
	// mode is complete, so that no choice of drops can cut it.
	CompleteUpTo = 500
)

// ErrBeacon is returned for a plan in active mode with more than CompleteUpTo clients and
// no beacon.
var ErrBeacon = errors.New("the order of clients on the ring could be predicted when the roster was made")

// ErrRoster is returned for a roster whose size the plan does not allow. A roster that is too small
// aborts the round.
var ErrRoster = errors.New("the plan does not allow a roster of this size")

// Params holds the assumptions of a plan about its clients.
type Params struct {
	// Cohort has the clients, 2 to MaxClients, and the shares of them that may be lost and may collude. All are asked.
	protocol.Cohort

	Mode   Mode // SemiHonest or Active
	Rounds int  // T, at least 1, failed attempts included: the bounds hold for all of them together
	Beacon bool // the ring is drawn from a value unpredictable until the roster was acknowledged
}

// Validate reports everything that makes the parameters unusable. In active
// mode with more than CompleteUpTo clients and no beacon that is ErrBeacon.
func (p Params) Validate() error {
	var errs problems.List
	errs.If(p.Clients < 2 || p.Clients > MaxClients, "clients is %d; secure aggregation takes 2 to %d", p.Clients, MaxClients)
	errs.If(!(p.Tolerance >= 0 && p.Tolerance < 1), "tolerance is %v; it must be at least 0 and below 1", p.Tolerance)
	errs.If(!(p.Colluders >= 0 && p.Colluders < 1), "colluders is %v; it must be at least 0 and below 1", p.Colluders)
	errs.If(p.Mode > Active, "mode is %d; it must be %d (%v) or %d (%v)", p.Mode, SemiHonest, SemiHonest, Active, Active)
	errs.If(p.Rounds < 1, "rounds is %d; it must be at least 1", p.Rounds)
	errs.If(p.Mode == Active && p.Clients > CompleteUpTo && !p.Beacon,
		"active mode with %d clients and no beacon: %w; use mode semi-honest or at most %d clients (then all are neighbours). A program can pass a beacon: randomness from outside, drawn after all clients had registered",
		p.Clients, ErrBeacon, CompleteUpTo)
	return errors.Join(errs...)
}
