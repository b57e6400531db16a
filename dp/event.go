package dp

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/internal/problems"
)

// Mechanism is a way of adding noise.
type Mechanism string

// The mechanisms, by their names on the command line and in durable records.
const (
	// GaussianMechanism adds normal noise with σ = z·Δ to a vector of L2
	// sensitivity Δ.
	GaussianMechanism Mechanism = "gaussian"
	// SubsampledGaussianMechanism adds the noise of GaussianMechanism to a sum over a Poisson
	// sample: every unit takes part independently with probability q.
	SubsampledGaussianMechanism Mechanism = "subsampled-gaussian"
	// SkellamMechanism adds the difference of two Poisson draws, with total
	// variance V, to every coordinate of an integer vector of sensitivities
	// D2 (L2) and D1 (L1).
	SkellamMechanism Mechanism = "skellam"
	// SubsampledSkellamMechanism adds the noise of SkellamMechanism to a sum over a Poisson sample.
	// Only GDPSkellam (and so Best) covers it.
	SubsampledSkellamMechanism Mechanism = "subsampled-skellam"
)

var mechanisms = []Mechanism{GaussianMechanism, SubsampledGaussianMechanism, SkellamMechanism, SubsampledSkellamMechanism}

// ParseMechanism parses a mechanism's name. The error lists the valid ones.
func ParseMechanism(s string) (Mechanism, error) { return parse("mechanism", s, mechanisms) }

// parse looks up a word among the valid words of its kind.
func parse[T ~string](kind, s string, valid []T) (T, error) {
	if slices.Contains(valid, T(s)) {
		return T(s), nil
	}
	words := lists.Map(valid, func(v T) string { return string(v) })
	return "", fmt.Errorf("dp: unknown %s %q; it must be one of %s", kind, s, strings.Join(words, ", "))
}

// Sampled reports whether the mechanism works on a Poisson sample.
func (m Mechanism) Sampled() bool {
	return m == SubsampledGaussianMechanism || m == SubsampledSkellamMechanism
}

// Integer reports whether the mechanism adds integer noise. Such noise has a variance and integer
// sensitivities instead of a multiple of an L2 sensitivity.
func (m Mechanism) Integer() bool {
	return m == SkellamMechanism || m == SubsampledSkellamMechanism
}

// Event is Count releases of one mechanism with the same parameters. It is comparable: equal events
// have the same mechanism, parameters and count. Build an Event with Gaussian, SubsampledGaussian,
// Skellam or SubsampledSkellam. Fields that a mechanism does not use are zero.
type Event struct {
	Mechanism       Mechanism `json:"mechanism"`
	NoiseMultiplier float64   `json:"noise_multiplier,omitempty"` // z = σ/Δ, of the Gaussian mechanisms
	SamplingRate    float64   `json:"sampling_rate,omitempty"`    // q in (0, 1], of the subsampled mechanisms
	Variance        float64   `json:"variance,omitempty"`         // V per coordinate, integer units, of the Skellam mechanisms
	L2              float64   `json:"l2,omitempty"`               // D2, L2 sensitivity in integer units
	L1              float64   `json:"l1,omitempty"`               // D1, L1 sensitivity in integer units
	Count           int       `json:"count"`                      // releases, at least 1
}

// Gaussian returns one release with normal noise of standard deviation z times the L2 sensitivity.
func Gaussian(z float64) Event {
	return Event{Mechanism: GaussianMechanism, NoiseMultiplier: z, Count: 1}
}

// SubsampledGaussian returns one Gaussian release over a Poisson sample of rate q.
func SubsampledGaussian(z, q float64) Event {
	return Event{Mechanism: SubsampledGaussianMechanism, NoiseMultiplier: z, SamplingRate: q, Count: 1}
}

// Skellam returns one release of an integer vector with Skellam noise of variance v per coordinate.
// d2 and d1 bound how far one unit moves the vector in L2 and L1 norm (see IntegerBounds).
func Skellam(v, d2, d1 float64) Event {
	return Event{Mechanism: SkellamMechanism, Variance: v, L2: d2, L1: d1, Count: 1}
}

// SubsampledSkellam returns one Skellam release over a Poisson sample of rate q.
func SubsampledSkellam(v, d2, d1, q float64) Event {
	return Event{Mechanism: SubsampledSkellamMechanism, Variance: v, L2: d2, L1: d1, SamplingRate: q, Count: 1}
}

// Times returns the event with its count multiplied by n. If n is below 1 or the product does not
// fit, Validate refuses the result.
func (e Event) Times(n int) Event {
	if n < 1 || e.Count > math.MaxInt/n {
		e.Count = 0
		return e
	}
	e.Count *= n
	return e
}

// Validate reports every fault of the event.
func (e Event) Validate() error {
	if _, err := ParseMechanism(string(e.Mechanism)); err != nil {
		return fmt.Errorf("%w: %w", ErrNoAccountant, err)
	}
	var errs problems.List
	bad := func(holds bool, format string, args ...any) {
		if holds { // a search for noise asks this often
			errs.Add("dp: %s event: "+format, append([]any{e.Mechanism}, args...)...)
		}
	}
	field := func(name string, v float64, used bool) {
		bad(used && !(v > 0 && !math.IsInf(v, 1)), "%s is %v; it must be positive and finite", name, v)
		bad(!used && v != 0, "%s is %v, but the mechanism has none", name, v)
	}
	integer := e.Mechanism.Integer()
	field("noise multiplier", e.NoiseMultiplier, !integer)
	field("variance", e.Variance, integer)
	field("L2 sensitivity", e.L2, integer)
	field("L1 sensitivity", e.L1, integer)
	sampled := e.Mechanism.Sampled()
	bad(sampled && !(e.SamplingRate > 0 && e.SamplingRate <= 1), "sampling rate is %v; it must be above 0 and at most 1", e.SamplingRate)
	bad(!sampled && e.SamplingRate != 0, "sampling rate is %v, but the mechanism does not sample", e.SamplingRate)
	bad(integer && e.L1 < e.L2, "L1 sensitivity %v is below the L2 sensitivity %v; no vector of integers has such norms", e.L1, e.L2)
	bad(e.Count < 1, "count is %d; it must be at least 1", e.Count)
	return errors.Join(errs...)
}

// compare orders events by their parameters and ignores their counts. So a composition has one
// canonical order, and sums are equal to the last bit.
func (e Event) compare(o Event) int {
	return cmp.Or(
		strings.Compare(string(e.Mechanism), string(o.Mechanism)),
		cmp.Compare(e.NoiseMultiplier, o.NoiseMultiplier),
		cmp.Compare(e.SamplingRate, o.SamplingRate),
		cmp.Compare(e.Variance, o.Variance),
		cmp.Compare(e.L2, o.L2),
		cmp.Compare(e.L1, o.L1),
	)
}

// composition is a list of distinct events in the order of Event.compare.
// The order makes every sum over it independent of the order of charging.
type composition []Event

// compose validates events and puts them in canonical form.
func compose(events []Event) (composition, error) {
	return make(composition, 0, len(events)).with(events)
}

// with returns the composition with more events. It leaves c unchanged.
func (c composition) with(events []Event) (composition, error) {
	c = slices.Clone(c)
	for i, e := range events {
		if err := e.Validate(); err != nil {
			return nil, fmt.Errorf("event %d: %w", i, err)
		}
		at, found := slices.BinarySearchFunc(c, e, Event.compare)
		switch {
		case !found:
			c = slices.Insert(c, at, e)
		case c[at].Count > math.MaxInt-e.Count:
			return nil, fmt.Errorf("dp: %d and %d more releases of one %s event are too many to count", c[at].Count, e.Count, e.Mechanism)
		default:
			c[at].Count += e.Count
		}
	}
	return c, nil
}

// Budget limits the privacy to be spent, and says how to measure spending. Calibrations meet a
// budget; a ledger enforces one over a client's life.
type Budget struct {
	Epsilon      float64 // positive; with +Inf a ledger counts without a limit, and there is nothing to calibrate
	Delta        float64 // in (0, 1)
	Accountant   Accountant
	SamplerError float64 // as in Problem
}

// Validate reports every fault of the budget.
func (b Budget) Validate() error { return b.check(b.Epsilon > 0, "positive") }

// ValidateFinite is Validate for calibrations: it also refuses a budget without a limit.
func (b Budget) ValidateFinite() error {
	return b.check(b.Epsilon > 0 && !math.IsInf(b.Epsilon, 1), "positive and finite")
}

// check reports every fault, among them an ε that is not what it must be.
func (b Budget) check(is bool, must string) error {
	_, err := ParseAccountant(string(b.Accountant))
	errs := problems.List{err}
	errs.If(!(b.Delta > 0 && b.Delta < 1), "dp: delta is %v; it must be above 0 and below 1", b.Delta)
	errs.If(!(b.SamplerError >= 0 && b.SamplerError < 1), "dp: sampler error is %v; it must be at least 0 and below 1", b.SamplerError)
	errs.If(!is, "dp: budget epsilon is %v; it must be %s", b.Epsilon, must)
	return errors.Join(errs...)
}

// ReplaceViews returns the noise variances of the two views of a sum G that the published two-round
// noise scheme reveals, in the units of variance. Charge both views, each as a release of its own.
//
// variance is the target V. required = ⌈(1-ω)N⌉ - c is w, the number of honest clients certain to
// remain. survivors = |U1| - c counts the honest clients whose masked input arrived, at least w.
// answered = |U2| - c counts the honest clients that replaced their noise in round two, at most
// survivors.
//
// Every client of U1 first adds noise of variance a = V/w. In round two the clients of U2 take it
// back and add fresh noise of variance b = V/|U1|. The server holds, up to the terms that colluders
// can subtract,
//
//	G + S + Σ_{U2} ξ    and    G + S + Σ_{U2} ξ',    S = Σ_{U1 \ U2} ξ.
//
// Take S away from both: G + Σξ and G + Σξ' are two releases with independent noise, of variances
// |U2|·a and |U2|·b. Adding one independent S to both is post-processing and gives the server's
// views, so the pair without S costs at least as much as the pair with it. If every client answers,
// S is empty and nothing was given away: the variances are |U1|·a and V.
func ReplaceViews(variance float64, required, survivors, answered int) (first, second float64, err error) {
	var errs problems.List
	errs.If(!(variance > 0) || math.IsInf(variance, 1), "dp: variance is %v; it must be positive and finite", variance)
	errs.If(required < 1, "dp: %d honest clients are certain to remain; there must be at least 1", required)
	errs.If(survivors < required,
		"dp: %d honest clients sent a masked input; fewer than the required %d must not be summed", survivors, required)
	errs.If(answered < 1 || answered > survivors,
		"dp: %d honest clients replaced their noise; it must be from 1 to the %d that sent a masked input", answered, survivors)
	if err := errors.Join(errs...); err != nil {
		return 0, 0, err
	}
	u2 := float64(answered)
	return u2 * variance / float64(required), u2 * variance / float64(survivors), nil
}

// ForReplacement returns the budget for add-remove with which b holds if one unit is replaced by
// another: (ε/2, δ/(1 + e^(ε/2))). [Statement.Replacement] has the proof. Poisson samples, whose
// accountants know only units that are present or absent, use it to protect a label that is
// replaced: the data set without the example lies between the two. [Budget.Replaced] is the way
// back.
func (b Budget) ForReplacement() Budget {
	b.Epsilon /= 2
	b.Delta /= 1 + math.Exp(b.Epsilon)
	return b
}

// Replaced converts spent, the ε of a run that was calibrated by ForReplacement, to replacement of
// one unit: 2ε, at b's δ.
func (b Budget) Replaced(spent Result) Result {
	spent.Epsilon *= 2
	return spent
}

// Replaced returns an upper bound on ε at the problem's δ for the other neighbours: data sets A and
// B in which one unit is replaced by another. Both are neighbours of the set E without the unit.
//
// A release without samples moves at most twice as far between A and B as from E. So Replaced
// doubles the sensitivities, which is exact for Gaussians. With samples, two steps lead from A over
// E to B. If the releases are (ε₁, δ₁)-private and (ε₂, δ₂)-private under add-remove, then for any
// event S
//
//	P[A] <= e^ε₁·P[E] + δ₁ <= e^ε₁(e^ε₂·P[B] + δ₂) + δ₁ = e^(ε₁+ε₂)·P[B] + δ₁ + e^ε₁·δ₂.
//
// The first step takes the unit away, and the second adds one. The accountant gives ε₁ for δ₁ = t·δ,
// and ε₂ for δ₂ = (1-t)·δ·e^-ε₁; PLD gives each for its own direction. The sum is a bound at δ for
// every t in (0, 1). Sampling never raises δ, which is jointly convex: so the bound without samples
// limits the sum. For Gaussians without samples, where the least ε is known, two steps would exceed
// it by less than 0.2%. With samples they exceed it by up to a half. Of a private search, the curve of each run is
// converted (renyiCurve.replaced).
func (p Problem) Replaced() (Result, error) {
	if len(p.Searches) > 0 {
		if err := p.Validate(); err != nil {
			return Result{}, err
		}
		return p.searched(renyiCurve.replaced)
	}
	doubled := slices.Clone(p.Events)
	sampled := false
	for i := range doubled {
		sampled = sampled || doubled[i].Mechanism.Sampled()
		doubled[i] = doubled[i].doubled()
	}
	problem := p
	problem.Events = doubled
	limit, err := problem.Epsilon()
	if err != nil || !sampled {
		return limit, err
	}
	r, err := p.Epsilon()
	if err != nil {
		return Result{}, err
	}
	c, err := compose(p.Events)
	if err != nil {
		return Result{}, err
	}
	b, _, err := r.Accountant.bound(c)
	if err != nil {
		return Result{}, err
	}
	r.Epsilon = min(p.budget().solve(twoSteps{b}), limit.Epsilon)
	return r, nil
}

// doubled returns the event without samples whose sensitivities are twice as large.
func (e Event) doubled() Event {
	if e.Mechanism.Integer() {
		return Skellam(e.Variance, 2*e.L2, 2*e.L1).Times(e.Count)
	}
	return Gaussian(e.NoiseMultiplier / 2).Times(e.Count)
}

// twoSteps is the privacyBound of two neighbours in a row, see Problem.Replaced.
type twoSteps struct{ step privacyBound }

func (b twoSteps) epsilon(delta float64) float64 {
	least := math.Inf(1)
	for _, t := range []float64{0.25, 0.5, 0.75} {
		first := b.along(t*delta, removed)
		least = min(least, first+b.along((1-t)*delta*math.Exp(-first), added))
	}
	return least
}

// along returns ε of one step in a direction; of both directions if the accountant has one bound for
// them.
func (b twoSteps) along(delta float64, way direction) float64 {
	if p, ok := b.step.(pldComposition); ok {
		return p.along(delta, way)
	}
	return b.step.epsilon(delta)
}
