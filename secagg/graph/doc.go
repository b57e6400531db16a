// Package graph decides which clients share secrets with each other in secure aggregation: how many
// neighbours a client has (the degree k) and which clients they are. The threshold t is the number
// of them that must answer to reconstruct one of its secrets.
//
// [Choose] computes (k, t) from the assumptions of a plan, so that no person has to pick them by
// hand. [ForRoster] does so for the clients on the roster of one round. [New] draws the graph. The
// same arguments give the same result on every architecture.
//
//	choice, err := graph.ForRoster(params, len(roster))
//	g, err := graph.New(len(roster), choice.Degree, seed)
//	peers := g.Neighbours(me)
//
// The graph is the Harary graph of Bell et al. (CCS 2020): clients stand on a ring in
// random order, and each is joined to the k/2 nearest on either side. With k = n-1 it is
// complete.
//
// # Bounds
//
// N clients are planned, c = ⌈γN⌉ of them collude, n are on the roster that the graph is
// drawn over, and d = n - ⌈(1-ω)N⌉ of those may still be lost. H(n, m, k) is the
// hypergeometric count of marked clients among k drawn from n of which m are marked.
// Three bounds hold over all T rounds of a run together, each by a union bound:
//
//   - Colluding: a client has t or more colluding neighbours, which could reconstruct its
//     secrets alone. T·n·P[H(n-1, c, k) >= t] < 2^-41.
//   - Cut: the honest survivors split into two parts without an edge between them, so
//     that the sum of each part can be computed. < 2^-41.
//   - Starved: a client keeps fewer than t neighbours that answer, and the sum is lost.
//     T·n·P[H(n-1, d, k) > k-t] < 2^-20.
//
// The first two share a failure probability of privacy of 2^-40 in equal halves. The
// third is about progress only: the run's probability of losing a round although no
// more than ωN clients were lost.
//
// A ring is cut if and only if two gaps of at least k/2 consecutive clients are missing
// (dropped or colluding): one such gap opens it to a chain that is still connected. For
// random drops, the gaps before the h = n-c-d survivors are a uniformly random
// composition of c+d, and the expected number of pairs of such gaps bounds the
// probability: T·C(h,2)·∏_{i<k} (c+d-i)/(n-1-i).
//
// In [Active] mode an aggregator may tell some neighbours that a client survived and others that it
// dropped, and ask the former for one secret and the latter for the other; the colluders give both.
// Two disjoint groups of t must not exist. So t = ⌊(k+t1)/2⌋ + 1, and T·n·P[H(n-1, c, k) > t1] <
// 2^-41 takes the place of the first bound. The aggregator also chooses which clients to drop after
// it has seen the ring. It can cut the ring if two separate arcs of k/2 clients hold at most d
// honest clients together, which bounds the probability by T·½n(n-k-1)·P[H(n, c, k) >= k-d]. Up to
// [CompleteUpTo] clients the graph is complete. Above, the ring must be drawn from a beacon, a
// value that no party could predict before the clients had acknowledged the roster.
//
// # Why every roster has its own numbers
//
// All c colluders may be among the n on the roster. A degree and threshold chosen for N do not hold
// for fewer clients: 140 and 67 are right for N = 1,000, γ = 0.2, ω = 0.3. If 300 honest clients
// stayed away, they would give some client 67 colluding neighbours with probability up to 2^-15. So
// (k, t) is a function of (plan, n), which every party can compute. When Choose accepts a plan,
// ForRoster accepts every roster of at least ⌈(1-ω)N⌉ of its clients: with fewer clients left to
// lose, the complete graph at least meets the bounds.
//
// # Assumptions
//
// Colluders are fixed before the ring is drawn; in semi-honest mode losses do not depend
// on it either. The cut bound counts lost clients. An aggregator that withholds single
// shares removes single edges, which the bound does not count: so in active mode a client
// takes part only with all the neighbours that the roster gives it.
package graph
