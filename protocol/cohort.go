package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/problems"
)

// Cohort is the number of clients of a plan, with the assumptions about them. The same ω and γ hold for graph, threshold and noise.
//
// A plan may ask a part of the enrolled clients. Every party can tell which ([Setup.Chooses]). The round continues with the first
// that come: with Goal of the Clients that are asked. Then ω is a share of Goal, so that noise and threshold hold for the fewest
// clients that may be left, and γ is a share of all enrolled clients.
type Cohort struct {
	Clients   int     `json:"clients"`            // N, the clients the plan names
	Tolerance float64 `json:"tolerance"`          // ω in [0, 1): the share of N that may be lost in a round, at all stages together
	Colluders float64 `json:"colluders"`          // γ in [0, 1): the share of N that may pool what they see with the aggregator and the server
	Enrolled  int     `json:"enrolled,omitempty"` // of how many the clients are chosen; 0: they are all
	Goal      int     `json:"goal,omitempty"`     // how many that advertise are waited for; 0: all
}

// All returns the number of enrolled clients.
func (c Cohort) All() int { return max(c.Clients, c.Enrolled) }

// Wanted returns the number of clients that a round continues with if none is lost.
func (c Cohort) Wanted() int {
	if c.Goal > 0 {
		return c.Goal
	}
	return c.Clients
}

// Turns is the most of any rounds that follow one another for which a client may be chosen: clients take turns, so
// that each comes up every Enrolled/Clients rounds.
func (c Cohort) Turns(rounds int) int {
	if c.Enrolled == 0 {
		return rounds
	}
	return int((int64(rounds)*int64(c.Clients) + int64(c.Enrolled) - 1) / int64(c.Enrolled))
}

// slack keeps ⌊ωN⌋ and ⌈γN⌉ what they are on paper: 0.3·10 is 3, although the nearest float64 of 0.3 is a little less.
const slack = 1e-9

// Required is ⌈(1-ω)N⌉, the fewest survivors a round may end with; of Goal where there is one.
func (c Cohort) Required() int {
	return c.Wanted() - int(math.Floor(c.Tolerance*float64(c.Wanted())+slack))
}

// Colluding is c = ⌈γN⌉, the clients that may collude: their noise and their secrets protect no
// client. If the clients are chosen from more, it is an upper limit of the colluders among them,
// except with probability 2^-60. Over a million rounds that is 2^-40.
//
// The sample of n, drawn without putting back, has at least k colluders with probability at most exp(-n·D(k/n ‖ p)) if k/n is above
// p. Here p is their fraction of all, and D is the relative entropy (Hoeffding 1963, theorem 1; by section 6 it holds without
// putting back). The aggregator decides with which of the sample a round continues, so all chosen clients count.
func (c Cohort) Colluding() int {
	least := 0
	if c.Colluders > 0 {
		least = 1
	}
	all := max(least, int(math.Ceil(c.Colluders*float64(c.All())-slack)))
	if c.Enrolled == 0 {
		return all
	}
	n, p, most := float64(c.Clients), float64(all)/float64(c.Enrolled), min(all, c.Clients)
	for k := int(p*n) + 1; k <= most; k++ {
		if n*relativeEntropy(float64(k)/n, p) >= -math.Log(chance) {
			return k - 1
		}
	}
	return most
}

// chance is the probability that more of the chosen clients collude than are assumed.
const chance = 0x1p-60

// relativeEntropy is D(q ‖ p) of two coins, q above p.
func relativeEntropy(q, p float64) float64 {
	d := q * math.Log(q/p)
	if q < 1 {
		d += (1 - q) * math.Log((1-q)/(1-p))
	}
	return d
}

// Liars is the largest number of clients that are assumed to break the protocol: all that may collude, or one, which may be no more
// than broken. If more clients than that say the same of another, it is true.
func (c Cohort) Liars() int { return max(1, c.Colluding()) }

// Honest returns the number of n clients that are certain to be honest: n - c.
func (c Cohort) Honest(n int) int { return n - c.Colluding() }

// ShareVariance is a = V/w, what each client adds before the survivors are
// known: w = ⌈(1-ω)N⌉ - c honest ones make up the target variance V.
func (c Cohort) ShareVariance(v float64) float64 {
	return v / float64(c.Honest(c.Required()))
}

// FinalVariance is the variance of the noise in the sum over u1 survivors. u2 of them reduced their noise to b = V/(u1-c), and the
// others kept a = V/w. It is the formula of the FMF paper, section 6.2, with c colluders taken out of the denominators. Colluders'
// own noise is part of the sum and of this number.
func (c Cohort) FinalVariance(v float64, u1, u2 int) float64 {
	return float64(u2)*v/float64(c.Honest(u1)) + float64(u1-u2)*c.ShareVariance(v)
}

// Validate reports everything that makes the cohort unusable.
func (c Cohort) Validate() error {
	var errs problems.List
	errs.If(c.Clients < 1, "clients is %d; a federation needs at least 1", c.Clients)
	errs.If(!(c.Tolerance >= 0 && c.Tolerance < 1), "tolerance is %v; it must be at least 0 and below 1", c.Tolerance)
	errs.If(!(c.Colluders >= 0 && c.Colluders < 1), "colluders is %v; it must be at least 0 and below 1", c.Colluders)
	if c.Enrolled != 0 || c.Goal != 0 {
		errs.If(c.Clients > c.Enrolled, "%d clients of %d that are enrolled are asked; there must be as many", c.Clients, c.Enrolled)
		errs.If(c.Goal < 1 || c.Goal > c.Clients,
			"%d clients of %d that are asked are waited for; there must be from 1 to as many as are asked", c.Goal, c.Clients)
	}
	if errs == nil && c.Honest(c.Required()) < 1 { // Colluding of a refused cohort may take for ever
		errs.Add("of %d clients, %d may be lost and %d may collude: no honest one is certain to remain; have more clients, take colluders 0, or lower the tolerance or the colluders",
			c.Wanted(), c.Wanted()-c.Required(), c.Colluding())
	}
	return errors.Join(errs...)
}

// Chooses reports whether a round asks a client. If it asks a part of the enrolled clients, these stand in a circle, in the order
// of hashes of session and number. Round i asks the clients from place (i-1)·Clients on. So all clients take equally many turns,
// give or take one. The session's ID settles the choice, and every party can compute it. The choice is public and hides no client,
// so being asked by chance buys no privacy. A client gains privacy because it releases something in its turns only.
func (s Setup) Chooses(id ClientID) bool {
	c := s.Cohort
	if int64(id) >= int64(c.All()) {
		return false
	}
	if c.Enrolled == 0 {
		return true
	}
	n := uint64(c.Enrolled)
	first := (s.Round - 1) % n * uint64(c.Clients) % n
	return (uint64(circleOf(s.Session, c.Enrolled).place[id])+n-first)%n < uint64(c.Clients)
}

// Chosen lists the clients that a round asks, in the order in which they are told. If they are a part, the order is drawn for this
// round: of equally fast clients, the first that are told are the first to come.
func (s Setup) Chosen() []ClientID {
	c := s.Cohort
	out := make([]ClientID, c.Clients)
	if c.Enrolled == 0 {
		for i := range out {
			out[i] = ClientID(i)
		}
		return out
	}
	n := uint64(c.Enrolled)
	first := (s.Round - 1) % n * uint64(c.Clients) % n
	order := circleOf(s.Session, c.Enrolled).order
	for i := range out {
		out[i] = order[(first+uint64(i))%n]
	}
	return shuffled(out, func(id ClientID) Hash {
		return NewTranscript("fedsim/protocol/told/v1").Bytes(s.Session[:]).Uint(s.Round).Uint(uint64(id)).Sum()
	})
}

// circle is the clients of a session in the order of their turns.
type circle struct {
	order []ClientID
	place []uint32 // the inverse
}

// circles holds the circles of a few sessions, since all clients of a simulation ask for the same circle.
var circles struct {
	mu sync.Mutex
	of map[circleKey]*circle
}

type circleKey struct {
	session SessionID
	n       int
}

const fewCircles = 16

func circleOf(session SessionID, n int) *circle {
	circles.mu.Lock()
	defer circles.mu.Unlock()
	key := circleKey{session, n}
	if c := circles.of[key]; c != nil {
		return c
	}
	if circles.of == nil || len(circles.of) >= fewCircles {
		circles.of = make(map[circleKey]*circle)
	}
	ids := make([]ClientID, n)
	for i := range ids {
		ids[i] = ClientID(i)
	}
	c := &circle{place: make([]uint32, n), order: shuffled(ids, func(id ClientID) Hash {
		return NewTranscript("fedsim/protocol/turn/v1").Bytes(session[:]).Uint(uint64(id)).Sum()
	})}
	for p, id := range c.order {
		c.place[id] = uint32(p)
	}
	circles.of[key] = c
	return c
}

func shuffled(ids []ClientID, hash func(ClientID) Hash) []ClientID {
	type keyed struct {
		id  ClientID
		key Hash
	}
	list := make([]keyed, len(ids))
	for i, id := range ids {
		list[i] = keyed{id, hash(id)}
	}
	slices.SortFunc(list, func(a, b keyed) int { return bytes.Compare(a.key[:], b.key[:]) })
	for i, x := range list {
		ids[i] = x.id
	}
	return ids
}

// sample is the releases of a round that one coin of a client decides about.
type sample struct {
	rate     float64
	variance float64 // the least
	mu2, mu1 float64 // Σ D2²/V and Σ D1/√V
	mixed    bool    // rates differ: one coin cannot decide about them all
}

func (s *sample) add(n Noise, d2, d1 float64) {
	if s.rate == 0 {
		s.rate, s.variance = n.SamplingRate, n.Variance
	}
	s.mixed = s.mixed || n.SamplingRate != s.rate
	s.variance = min(s.variance, n.Variance)
	s.mu2 += d2 * d2 / n.Variance
	s.mu1 += d1 / math.Sqrt(n.Variance)
}

// events appends what the releases cost: together they are one vector that is there or not, so that they are charged as one
// release over a Poisson sample. It has the least of the variances, with sensitivities in proportion: whatever a
// release costs more by having little noise, all are charged.
func (s *sample) events(list []dp.Event) ([]dp.Event, error) {
	switch {
	case s.rate == 0:
		return list, nil
	case s.mixed:
		return nil, fmt.Errorf("releases of one round have different sampling rates; one coin decides about all of them")
	}
	d2 := math.Sqrt(s.variance * s.mu2)
	return append(list, dp.SubsampledSkellam(s.variance, d2, max(d2, math.Sqrt(s.variance)*s.mu1), s.rate)), nil
}
