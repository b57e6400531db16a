package graph

import (
	"fmt"
	"slices"
	"sort"
)

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

// Choice is the smallest degree that meets the bounds, and the smallest threshold
// with it.
type Choice struct {
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
	Params Params

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
func (p Params) refusal() *RefusedError {
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
func Choose(p Params) (Choice, error) { return ForRoster(p, p.Clients) }

// ForRoster computes degree and threshold for a roster of n of the plan's clients. Any of them may
// be the colluding clients.
//
// It returns the errors of Choose, and ErrRoster when n is not in p.Required() to p.Clients.
func ForRoster(p Params, n int) (Choice, error) {
	if err := p.Validate(); err != nil {
		return Choice{}, fmt.Errorf("graph: %w", err)
	}
	if refusal := p.refusal(); refusal != nil {
		return Choice{}, fmt.Errorf("graph: %w", refusal)
	}
	if n < p.Required() || n > p.Clients {
		return Choice{}, fmt.Errorf("graph: %d clients on the roster; the plan allows %d to %d: %w", n, p.Required(), p.Clients, ErrRoster)
	}
	s := setting{
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

// setting is the arithmetic's view of a roster.
type setting struct {
	clients   int // n
	colluding int // c of them
	lost      int // d of them
	active    bool
	runs      float64 // T
}

// sparse is the smallest even degree below n-1 that meets the bounds.
func (s setting) sparse() (k int, ok bool) {
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
func (s setting) degree(from int) (k int, ok bool) {
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
func (s setting) thresholds(k int) (least, most int) {
	union := s.runs * float64(s.clients)
	least = hypergeometric(s.clients-1, s.colluding, k).first(privacyFailure / union)
	if s.active {
		least = (k+least-1)/2 + 1 // t1 = least - 1
	}
	most = k + 1 - hypergeometric(s.clients-1, s.lost, k).first(progressFailure/union)
	return least, most
}

// cut bounds the probability that a round's graph of degree k is cut.
func (s setting) cut(k int) float64 {
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
func (s setting) choice(k int) Choice {
	t, _ := s.thresholds(k)
	reach := t
	if s.active {
		reach = 2*t - k // with fewer, two disjoint sets of t need more than k - x honest neighbours
	}
	union := s.runs * float64(s.clients)
	return Choice{
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
