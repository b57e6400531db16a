package audit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/algorithm/peruser"
	"github.com/fedsim/fedsim/client"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/training"
	"github.com/fedsim/fedsim/lab/internal/binomial"
	"github.com/fedsim/fedsim/lab/internal/observe"
	"github.com/fedsim/fedsim/protocol"
	"github.com/fedsim/fedsim/sim"
)

// wholeClient reports whether the unit is all that a client has.
func wholeClient(e *experiment.Experiment) bool {
	return e.About().Clients == algorithm.Users && algorithm.UnitOf(e.Config) == dp.User
}

// emptiedVectors returns, by round, the vectors that the unit's client really sends in a run in which its record is empty.
// ε compares with a client that sends zeros, which holds if it does. It returns nil where a unit is not a whole client:
// a client then sends what its other data give.
func emptiedVectors(ctx context.Context, e *experiment.Experiment, unit protocol.ClientID) (map[uint64][]protocol.Vector, error) {
	if !wholeClient(e) {
		return nil, nil
	}
	empty, err := experiment.OpenSet(e.Asked, e.Data.Where(func(user, _ int32) bool { return user != int32(unit) }))
	if err != nil {
		return nil, err
	}
	f, err := empty.Federation()
	if err != nil {
		return nil, err
	}
	byRound := make(map[uint64][]protocol.Vector)
	f.Trainers[unit] = observe.Trainer{Trainer: f.Trainers[unit], Told: func(p *protocol.Plan, list []protocol.Vector) {
		kept := make([]protocol.Vector, len(list))
		for i, v := range list {
			kept[i] = observe.Copy(v, p.Releases[i])
		}
		byRound[p.Round] = kept
	}}
	cfg := training.Simulation(empty, f, nil)
	cfg.Faults = sim.Faults{}
	_, err = sim.Run(ctx, cfg)
	return byRound, err
}

// worstAgainst returns the vector within the bounds of a release that is about as far as possible from another vector: in
// the opposite direction, or the longest vector if the other is zero.
func worstAgainst(other protocol.Vector, r protocol.Release) protocol.Vector {
	away := protocol.Vector{Value: make([]float64, r.Len)}
	largest := 0.
	other.Each(func(j int, x float64) {
		away.Value[j] = -x
		largest = max(largest, math.Abs(x))
	})
	if largest == 0 {
		return worst(r)
	}
	floats.Scale(math.MaxFloat32/largest, away.Value) // far beyond any bound
	if r.Sensitivity > 0 {
		r.L2 = min(r.L2, r.Sensitivity)
	}
	return peruser.Clip(away, r)
}

// familyDeltas lists the δ at which a trade-off is compared with counts. Success with rates of some
// per cent and more shows at large δ.
var familyDeltas = []float64{1e-3, 1e-2, 0.05, 0.15, 0.35, 0.6}

// familySteps of halving an interval of noise multipliers of 16 to 1 place it within 0.6%.
const familySteps = 9

// family prices success against noised steps on samples by the same steps with more noise or
// less. It searches for the most noise with which an attacker could be so successful. The price is the ε of steps
// with that noise, at the δ of the claim, by the tightest accountant (pld). No normal curve has the tails of the
// trade-off curve of such steps. Since pld overstates ε, the bound errs on the low side.
func family(events []dp.Event, delta float64) price {
	costs := map[[2]float64]float64{} // thresholds ask for the same factors again and again
	cached := func(factor, delta float64) float64 {
		key := [2]float64{factor, delta}
		cost, known := costs[key]
		if !known {
			cost = scaledCost(events, factor, 1, delta)
			costs[key] = cost
		}
		return cost
	}
	return func(falsely, truly float64) float64 {
		if truly <= falsely {
			return 0
		}
		lo, hi := binomial.Halve(math.Log(0.25), math.Log(4.), familySteps, func(log float64) bool { // of the claimed noise
			return possible(falsely, truly, func(epsilon, d float64) bool { return cached(math.Exp(log), d) >= epsilon })
		})
		if lo == math.Log(0.25) {
			return cached(0.25, delta) // or more
		}
		return cached(math.Exp(hi), delta)
	}
}

// possible reports whether rates of success are possible where enough says which ε and δ hold.
func possible(falsely, truly float64, enough func(epsilon, delta float64) bool) bool {
	return !slices.ContainsFunc(familyDeltas, func(d float64) bool {
		ratio := max((truly-d)/falsely, (1-falsely-d)/(1-truly))
		return ratio > 1 && !enough(math.Log(ratio), d)
	})
}

// scaledCost is the ε at δ of steps with noise and chances of samples multiplied by factors. Where pld cannot say, it is
// infinite, which disproves nothing.
func scaledCost(events []dp.Event, noise, chance, delta float64) float64 {
	list := lists.Map(events, func(ev dp.Event) dp.Event {
		ev.NoiseMultiplier *= noise
		ev.Variance *= noise * noise
		if ev.Mechanism.Sampled() {
			ev.SamplingRate = min(1, ev.SamplingRate*chance)
		}
		return ev
	})
	cost, err := dp.Problem{Events: list, Delta: delta, Accountant: dp.Best}.Epsilon()
	if err != nil {
		return math.Inf(1)
	}
	return cost.Epsilon
}

// pull holds the way of a release or a noised step towards the unit: in sensitivities, with noise of the stated deviation.
type pull struct {
	x, deviation float64
	chance       float64 // of the unit to be in it; 1 if it always is
}

// measured sums up the pulls of pairs of runs, one in each world, that drew the same noise. A pull without the unit is
// noise alone. The difference of a pair is the unit's, without noise.
type measured struct {
	squares float64 // of the noise, in stated deviations
	count   int
	shift   float64 // the least that the unit moved a release that it was in
	chances float64 // the sum of the stated chances of the unit, in draws that are not certain
	draws   int
	moved   int  // draws that the unit was in
	apart   bool // the runs of some pair had noise of their own
}

// rounded is a difference that rounding makes.
const rounded = 1e-2

// add adds a pair.
func (m *measured) add(without, with *view) {
	empty, full := without.pulls, with.pulls
	m.apart = m.apart || len(empty) != len(full)
	for k := range min(len(empty), len(full)) {
		a, b := empty[k], full[k]
		m.squares += a.x * a.x / (a.deviation * a.deviation)
		m.count++
		d := b.x - a.x
		there := d > 0.5
		m.apart = m.apart || !there && math.Abs(d) > rounded
		if there && (m.shift == 0 || d < m.shift) {
			m.shift = d
		}
		if a.chance < 1 {
			m.draws++
			m.chances += a.chance
			if there {
				m.moved++
			}
		}
	}
	without.pulls, with.pulls = nil, nil
}

// epsilon returns the ε at δ of steps with the noise, the shift and the chance that were measured: by bounds which are
// wrong with probability wrong, and by the estimates. It assumes normal noise, as the claim does. 0 where the pairs cannot say.
func (m *measured) epsilon(events []dp.Event, delta, wrong float64) (bound, point float64) {
	if m.apart || m.shift == 0 || m.count < fewest {
		return 0, 0
	}
	n := float64(m.count)
	variance := m.squares / n
	// The quantile of chi-squared by Wilson and Hilferty, which is within 1e-4 of it for such counts.
	root := 1 - 2/(9*n) + quantile(wrong/2)*math.Sqrt(2/(9*n))
	most := variance / (root * root * root)
	rate, least := 1., 1.
	if m.draws > 0 {
		rate = float64(m.moved) / m.chances
		least = binomial.Lower(m.moved, m.draws, wrong/2) * float64(m.draws) / m.chances
	}
	of := func(variance, chance float64) float64 {
		if cost := scaledCost(events, math.Sqrt(variance)/m.shift, chance, delta); !math.IsInf(cost, 1) {
			return cost
		}
		return 0
	}
	return of(most, least), of(variance, rate)
}

// excesses are the factors by which offered vectors exceed a bound.
var excesses = []float64{1.01, 1.4, 10}

// offer gives the unit's client vectors beyond each bound of each release, and returns what it did not refuse.
func (a *auditor) offer() (accepted []string, offered int, err error) {
	seen := make(map[string]bool)
	for t := range a.attempts {
		for i, r := range a.attempts[t].plan.Releases {
			if seen[r.Name] {
				continue
			}
			seen[r.Name] = true
			for _, x := range beyond(r) {
				offered++
				if refused, err := a.refuses(&a.attempts[t], i, x.vector); err != nil {
					return nil, 0, err
				} else if !refused {
					accepted = append(accepted, fmt.Sprintf("release %s: a vector at %g times the bound of %s was sent", r.Name, x.factor, x.bound))
				}
			}
		}
	}
	return accepted, offered, nil
}

// refuses has the unit's client contribute a vector to a release, and reports whether the client refuses it.
func (a *auditor) refuses(x *attempt, release int, v protocol.Vector) (bool, error) {
	plan := a.told(x)
	offered := target{plan.Releases[release].Name: v}
	for i := range plan.Releases {
		plan.Releases[i].Noise.SamplingRate = 0 // no coin leaves the vector out
	}
	c := a.party(0, x, offered, simulated.New(a.cfg.Seed, "audit/offer"))
	_, err := c.hear(&protocol.Announce{Plan: plan})
	if err == nil || errors.Is(err, client.ErrOutOfBounds) {
		return err != nil, nil
	}
	return false, err
}

// excess is a vector beyond one bound.
type excess struct {
	bound  string
	factor float64
	vector protocol.Vector
}

// beyond returns vectors beyond each bound of a release. Where other bounds allow it, no other bound is exceeded.
func beyond(r protocol.Release) []excess {
	var list []excess
	r.Sensitivity = 0 // a bound of what a unit changes, which no client can see
	for _, f := range excesses {
		add := func(bound string, r protocol.Release, reached func(size) bool) {
			if v := worst(r); reached(sizeOf(v)) {
				list = append(list, excess{bound, f, v})
			}
		}
		wide := r
		wide.L2 *= f
		add("the L2 norm", wide, func(s size) bool { return s.l2 > r.L2*(1+1e-6) })
		if r.LInf > 0 {
			wide = r
			wide.LInf, wide.L2, wide.L1 = f*r.LInf, math.Inf(1), 0
			wide.MaxNonZero = 1
			add("a coordinate", wide, func(s size) bool { return s.largest > r.LInf })
		}
		if r.L1 > 0 {
			wide = r
			wide.L1 *= f
			add("the L1 norm", wide, func(s size) bool { return s.l1 > r.L1*(1+1e-6) })
		}
		if n := int(math.Ceil(f * float64(r.MaxNonZero))); n <= r.Len {
			v := protocol.Vector{Value: make([]float64, r.Len)}
			for j := range n {
				v.Value[j] = 1 / r.Scale
			}
			list = append(list, excess{"coordinates other than zero", f, v})
		}
	}
	return list
}

// size holds the norms of a vector.
type size struct {
	l1, l2, largest float64
	nonZero         int
}

func sizeOf(v protocol.Vector) (s size) {
	v.Each(func(_ int, x float64) {
		a := math.Abs(x)
		s.l1, s.l2, s.largest = s.l1+a, math.Hypot(s.l2, a), max(s.largest, a)
		if a > 0 {
			s.nonZero++
		}
	})
	return s
}
