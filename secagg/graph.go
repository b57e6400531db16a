package secagg

import (
	"fmt"
	"slices"

	"github.com/fedsim/fedsim/entropy"
)

// Graph says who are neighbours on a roster. It is the Harary graph of Bell et al. (CCS 2020): clients
// stand on a ring in random order, and each is joined to the k/2 nearest on either side. With k = n-1
// it is complete. Clients are numbered from 0 in the roster's order. A Graph is immutable and safe for
// concurrent use.
type Graph struct {
	degree   int
	ring     []int32 // the client at each position; nil when the graph is complete
	position []int32 // the inverse
	clients  int
}

// NewGraph draws the graph of an even degree below clients-1 from a public seed. A degree of clients-1
// or more makes it complete, whatever the seed.
//
// The seed binds what must be fixed before any party can know the ring: the plan and the roster,
// and in active mode the beacon. The order is the Fisher-Yates shuffle of 0, 1, ..., clients-1: for
// i from clients-1 down to 1, entries i and j change places, with j uniform from 0 to i. The
// uniform numbers come from [entropy.Uniform] (Lemire's method on little-endian 64-bit words,
// rejecting, without bias). It reads the AES-256-CTR stream, counter from zero. The key is
// HKDF-SHA-256(secret = seed, no salt, info = "fedsim/entropy/seed/secagg/graph/permutation").
// testdata/permutation.json holds an example.
func NewGraph(clients, degree int, seed entropy.Seed) (*Graph, error) {
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
	return arrange(order, degree)
}

// arrange is the graph of an even degree below clients-1 on a ring whose order was drawn
// already, from all orders alike: order has the client at each position. A degree of
// clients-1 or more makes it complete. The caller does not change order afterwards.
func arrange(order []int32, degree int) (*Graph, error) {
	clients := len(order)
	switch {
	case degree >= clients-1:
		return &Graph{clients: clients, degree: clients - 1}, nil
	case degree < 2 || degree%2 != 0:
		return nil, fmt.Errorf("graph: degree %d for %d clients; it must be even and at least 2, or at least %d for the complete graph",
			degree, clients, clients-1)
	}
	g := &Graph{clients: clients, degree: degree, ring: order, position: make([]int32, clients)}
	for p, client := range order {
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
