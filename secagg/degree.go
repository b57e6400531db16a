package secagg

import (
	"errors"
	"fmt"
	"slices"
	"sort"

	"github.com/fedsim/fedsim/internal/problems"
	"github.com/fedsim/fedsim/protocol"
)

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

// GraphParams holds the assumptions of a plan about its clients. The degree k and the threshold t
// follow from them. A client shares secrets with k neighbours, and t of these must answer to
// reconstruct one of its secrets.
//
// [GraphParams.Choose] computes (k, t), so that no person has to pick them by hand.
// [GraphParams.ForRoster] does so for the clients on the roster of one round. [NewGraph] draws the
// graph. The same arguments give the same result on every architecture.
//
//	choice, err := params.ForRoster(len(roster))
//	g, err := secagg.NewGraph(len(roster), choice.Degree, seed)
//	peers := g.Neighbours(me)
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
type GraphParams struct {
	// Cohort has the clients, 2 to MaxClients, and the shares of them that may be lost and may collude. All are asked.
	protocol.Cohort

	Mode   Mode // SemiHonest or Active
	Rounds int  // T, at least 1, failed attempts included: the bounds hold for all of them together
	Beacon bool // the ring is drawn from a value unpredictable until the roster was acknowledged
}

// Validate reports everything that makes the parameters unusable. In active
// mode with more than CompleteUpTo clients and no beacon that is ErrBeacon.
func (p GraphParams) Validate() error {
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

// The bounds on the probabilities of failure of a run, over all its rounds.
const (
	privacyFailure  = 0x1p-41 // each of two: a client's neighbours collude, the graph is cut
	progressFailure = 0x1p-20 // a client's neighbours cannot restore what is missing
)

// FailureBound is a probability over the whole run and the limit that it must stay below.
type FailureBound struct {
	Achieved float64 // an upper bound of the probability; 0 where it cannot happen, or is below 1e-300
	Limit    float64
}

// GraphChoice is the smallest degree that meets the bounds, and the smallest threshold
// with it.
type GraphChoice struct {
	Degree    int  // k, neighbours of a client: even, or n-1 when complete
	Threshold int  // t, neighbours that restore a client's secret: 1 to k
	Complete  bool // every client is joined to every other

	// Colluding: some client has Threshold colluding neighbours (in active mode:
	// so many that both kinds of its secrets can be restored).
	// Cut: the honest survivors' graph falls apart.
	// Starved: some client keeps fewer than Threshold neighbours.
	Colluding, Cut, Starved FailureBound
}

// RefusedError says that no graph meets the bounds for a plan: even in the complete
// graph, the threshold that keeps colluders out exceeds the number of neighbours that are
// certain to answer. (A sparser graph has the same shares of both among a client's
// neighbours, with variance on top.)
type RefusedError struct {
	Params GraphParams

	Threshold int // the least that keeps colluders out
	Answering int // neighbours that are certain to answer, fewer than Threshold

	// Params would be accepted with at most this many colluders and the same tolerance, or with at
	// most this many lost clients and the same colluders. Negative: changing that alone does not
	// help.
	MaxColluding, MaxLost int
}

// Error names the bound that fails and what would meet it.
func (e *RefusedError) Error() string {
	s := fmt.Sprintf("of %d clients, %d may be lost and %d may collude (%v): even if all are neighbours, "+
		"keeping colluders out takes a threshold of at least %d, and only %d neighbours are certain to answer",
		e.Params.Clients, e.Params.Clients-e.Params.Required(), e.Params.Colluding(), e.Params.Mode, e.Threshold, e.Answering)
	switch {
	case e.MaxColluding >= 0 && e.MaxLost >= 0:
		return fmt.Sprintf("%s; at most %d colluders or at most %d lost would do", s, e.MaxColluding, e.MaxLost)
	case e.MaxColluding >= 0:
		return fmt.Sprintf("%s; at most %d colluders would do", s, e.MaxColluding)
	case e.MaxLost >= 0:
		return fmt.Sprintf("%s; at most %d lost would do", s, e.MaxLost)
	default:
		return s + "; lower both the tolerance and the colluders"
	}
}

// refusal is nil when the plan's complete graph has a threshold.
func (p GraphParams) refusal() *RefusedError {
	n, c, required := p.Clients, p.Colluding(), p.Required()
	e := &RefusedError{Params: p, Threshold: c + 1, Answering: required - 1, MaxColluding: required - 2, MaxLost: n - c - 2}
	if p.Mode == Active {
		e.Threshold = (n-1+c)/2 + 1
		e.MaxColluding = 2*required - n - 2
		e.MaxLost = n - (n+c+3)/2
	}
	if e.Threshold <= e.Answering {
		return nil
	}
	return e
}

// Choose computes degree and threshold for a round in which all of the plan's
// clients arrive. If it accepts a plan, ForRoster accepts every roster of p.Required() to
// p.Clients.
//
// It returns the errors of Validate, and *RefusedError when no graph meets the bounds.
func (p GraphParams) Choose() (GraphChoice, error) { return p.ForRoster(p.Clients) }

// ForRoster computes degree and threshold for a roster of n of the plan's clients. Any of them may
// be the colluding clients.
//
// It returns the errors of Choose, and ErrRoster when n is not in p.Required() to p.Clients.
func (p GraphParams) ForRoster(n int) (GraphChoice, error) {
	if err := p.Validate(); err != nil {
		return GraphChoice{}, fmt.Errorf("graph: %w", err)
	}
	if refusal := p.refusal(); refusal != nil {
		return GraphChoice{}, fmt.Errorf("graph: %w", refusal)
	}
	if n < p.Required() || n > p.Clients {
		return GraphChoice{}, fmt.Errorf("graph: %d clients on the roster; the plan allows %d to %d: %w", n, p.Required(), p.Clients, ErrRoster)
	}
	s := rosterCounts{
		clients:   n,
		colluding: p.Colluding(),
		lost:      n - p.Required(),
		active:    p.Mode == Active,
		runs:      float64(p.Rounds),
	}
	if k, ok := s.sparse(); ok {
		return s.choice(k), nil
	}
	return s.choice(n - 1), nil
}

// rosterCounts is the arithmetic's view of a roster.
type rosterCounts struct {
	clients   int // n
	colluding int // c of them
	lost      int // d of them
	active    bool
	runs      float64 // T
}

// sparse is the smallest even degree below n-1 that meets the bounds.
func (s rosterCounts) sparse() (k int, ok bool) {
	if s.active && s.clients <= CompleteUpTo {
		return 0, false
	}
	// The cut bound falls with the degree: the least half that meets it.
	halves := (s.clients - 2) / 2
	half := 1 + sort.Search(halves, func(i int) bool { return s.runs*s.cut(2*(i+1)) < privacyFailure })
	return s.degree(2 * half)
}

// degree is the smallest even k, from the given one on and below n-1, that
// has a threshold which keeps colluders out and honest clients served.
func (s rosterCounts) degree(from int) (k int, ok bool) {
	for k = from; k < s.clients-1; {
		least, most := s.thresholds(k)
		if least <= most {
			return k, true
		}
		// One more neighbour raises most by at most 1. It raises least by at least 0 (semi-honest),
		// or every other time by at least 1 (active). So the degrees up to the next degree tried
		// are too small.
		step := least - most
		if s.active {
			step *= 2
		}
		k += step + step%2
	}
	return 0, false
}

// thresholds are the least t that colluding neighbours do not reach and the most
// that answering neighbours do, in a graph of degree k.
func (s rosterCounts) thresholds(k int) (least, most int) {
	union := s.runs * float64(s.clients)
	least = hypergeometric(s.clients-1, s.colluding, k).first(privacyFailure / union)
	if s.active {
		least = (k+least-1)/2 + 1 // t1 = least - 1
	}
	most = k + 1 - hypergeometric(s.clients-1, s.lost, k).first(progressFailure/union)
	return least, most
}

// cut bounds the probability that a round's graph of degree k is cut.
func (s rosterCounts) cut(k int) float64 {
	switch {
	case k >= s.clients-1:
		return 0
	case s.active:
		return cutByChoice(s.clients, s.colluding, s.lost, k)
	default:
		return cutByChance(s.clients, s.colluding+s.lost, k)
	}
}

// choice is the smallest threshold at degree k, which has one, and what they achieve.
func (s rosterCounts) choice(k int) GraphChoice {
	t, _ := s.thresholds(k)
	reach := t
	if s.active {
		reach = 2*t - k // with fewer, two disjoint sets of t need more than k - x honest neighbours
	}
	union := s.runs * float64(s.clients)
	return GraphChoice{
		Degree:    k,
		Threshold: t,
		Complete:  k == s.clients-1,
		Colluding: FailureBound{min(1, union*hypergeometric(s.clients-1, s.colluding, k).atLeast(reach)), privacyFailure},
		Cut:       FailureBound{min(1, s.runs*s.cut(k)), privacyFailure},
		Starved:   FailureBound{min(1, union*hypergeometric(s.clients-1, s.lost, k).atLeast(k-t+1)), progressFailure},
	}
}

const (
	// negligible ends the walk along a distribution: what lies beyond is less
	// than any bound can notice and is counted as nothing.
	negligible = 1e-300

	// roundUp covers rounding. A weight is the product of at most MaxClients
	// ratios of four roundings each: a relative error below 2^20·4·2^-53, 5e-10,
	// and as much again for the sum. The computed probability is therefore not
	// less than the true one.
	roundUp = 1 + 1e-8
)

// upperTail holds P[X >= x] for a random integer X, from above: 1 up to
// low, p[x-low] from there on, nothing beyond p.
type upperTail struct {
	low int
	p   []float64
}

// hypergeometric is the upper tail of the number of marked items among sample items drawn without
// replacement from population items. It walks from the mode in both directions by the ratio of
// neighbouring probabilities and divides by the sum. It uses no logarithm or gamma function, since
// their last bits differ between architectures: so every party reaches the same decision.
func hypergeometric(population, marked, sample int) upperTail {
	least, most := max(0, marked+sample-population), min(marked, sample)
	mode := int(int64(marked+1) * int64(sample+1) / int64(population+2))
	mode = min(max(mode, least), most)
	// P[X = x+1] / P[X = x] = up/down
	ratio := func(x int) (up, down float64) {
		return float64(marked-x) * float64(sample-x), float64(x+1) * float64(population-marked-sample+x+1)
	}
	var weights []float64
	for x, w := mode, 1.0; w > negligible; x-- {
		weights = append(weights, w)
		if x == least {
			break
		}
		up, down := ratio(x - 1)
		w *= down / up
	}
	slices.Reverse(weights)
	low := mode - len(weights) + 1
	for x, w := mode, 1.0; x < most; x++ {
		up, down := ratio(x)
		w *= up / down
		if w <= negligible {
			break
		}
		weights = append(weights, w)
	}
	// Smallest first, in place: weights become upper tails.
	for i := len(weights) - 2; i >= 0; i-- {
		weights[i] += weights[i+1]
	}
	total := weights[0]
	for i, w := range weights {
		weights[i] = min(1, w/total*roundUp)
	}
	return upperTail{low, weights}
}

// atLeast is P[X >= x].
func (u upperTail) atLeast(x int) float64 {
	switch i := x - u.low; {
	case i < 0:
		return 1
	case i >= len(u.p):
		return 0
	default:
		return u.p[i]
	}
}

// first is the smallest x with P[X >= x] below the limit, which is below 1.
func (u upperTail) first(limit float64) int {
	return u.low + sort.Search(len(u.p), func(i int) bool { return u.p[i] < limit })
}

// cutByChance bounds the probability that a ring of degree k falls apart if missing clients in
// random places are gone. The bound is the expected number of pairs of gaps of at least k/2 among
// the survivors. It holds for fewer missing, too.
func cutByChance(clients, missing, k int) float64 {
	survivors := clients - missing
	if missing < k {
		return 0 // two gaps do not fit
	}
	// The expectation grows with missing as long as missing <= (survivors+1)·k/2.
	// Beyond, the average gap is a cut, and no degree of that size is any use.
	if survivors < 2 || missing > (survivors+1)*(k/2) {
		return 1
	}
	p := float64(survivors) * float64(survivors-1) / 2
	for i := range k {
		p *= float64(missing-i) / float64(clients-1-i)
		if p <= negligible {
			return 0
		}
	}
	return min(1, p*roundUp)
}

// cutByChoice bounds the probability that an attacker who sees the ring can cut it by dropping lost
// clients, where colluding clients are no obstacle. It is the probability that two arcs of k/2, a
// client between them on either side, hold that few honest clients.
func cutByChoice(clients, colluding, lost, k int) float64 {
	if k >= clients-1 || k > colluding+lost {
		return 0
	}
	pairs := float64(clients) * float64(clients-k-1) / 2
	return min(1, pairs*hypergeometric(clients, colluding, k).atLeast(k-lost))
}
