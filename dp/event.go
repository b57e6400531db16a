package dp

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"

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
	words := make([]string, len(valid))
	for i, v := range valid {
		if s == string(v) {
			return v, nil
		}
		words[i] = string(v)
	}
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
		errs.If(holds, "dp: %s event: "+format, append([]any{e.Mechanism}, args...)...)
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
