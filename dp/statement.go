package dp

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Unit is the unit of privacy: the data by which neighbouring data sets differ.
type Unit string

// The units.
const (
	User    Unit = "user"    // all ratings of one user
	Rating  Unit = "rating"  // one rating
	Example Unit = "example" // one example of a regression; what of it is private, see Label and PrivatePart
)

// ParseUnit parses a unit's name. The error lists the valid ones.
func ParseUnit(s string) (Unit, error) { return parse("unit", s, []Unit{User, Rating, Example}) }

// Relation is how neighbouring data sets differ in one unit.
type Relation string

// The relations.
const (
	ZeroOut   Relation = "zero-out"   // the unit's record is empty; its client still takes part and adds noise
	AddRemove Relation = "add-remove" // the unit is there or not
	// Label: the label of one example is another; features, who takes part and which row is whose are public.
	// What one example adds is replaced, so a sum of vectors of norm at most c has the sensitivity 2c.
	Label Relation = "label"
	// PrivatePart: the label and the private features of one example are others; its public features, who takes part and which
	// row is whose stay. What one example adds is replaced, as with Label.
	PrivatePart Relation = "private-part"
)

var relations = []Relation{ZeroOut, AddRemove, Label, PrivatePart}

// replaces reports whether neighbours have another value of the same unit, rather than one that is not there.
func (r Relation) replaces() bool { return r == Label || r == PrivatePart }

// Sampling is how the units of a release are chosen.
type Sampling string

// The samplings.
const (
	NoSampling      Sampling = "none"
	PoissonSampling Sampling = "poisson"
)

// Unaccounted is the accountant in the statement of a run without noise, which has
// nothing to account for.
const Unaccounted Accountant = "none"

// NoiseLaw is the distribution that noise was really drawn from.
type NoiseLaw string

// The noise laws.
const (
	NoNoise            NoiseLaw = "none"
	SkellamNoise       NoiseLaw = "skellam"   // exact integers
	ObjectiveNoise     NoiseLaw = "objective" // of a length that falls off exponentially, on what is minimised; floating point
	RandomizedResponse NoiseLaw = "randomized-response"
	FloatGaussianNoise NoiseLaw = "float-gaussian" // floating point: no integer guarantee is claimed
)

// Trust is whom a unit has to trust for its ε, apart from its own client.
type Trust string

// The trusts.
const (
	// SecureSum: that no more clients collude than are assumed, and the rest add their noise. It
	// goes without saying.
	SecureSum Trust = ""
	// Nobody: ε holds for all that its client sends, whatever anybody else does (local privacy).
	Nobody Trust = "none"
	// Shuffler: that somebody shuffles the messages of all users before anybody else sees them.
	Shuffler Trust = "shuffler"
)

// Statement is everything that must be said for an ε to mean something.
type Statement struct {
	Epsilon    float64 // +Inf without noise; null in JSON
	Delta      float64 // 0 of Pure alone
	Unit       Unit
	Relation   Relation
	Accountant Accountant
	Sampling   Sampling
	Noise      NoiseLaw
	// ClaimedEpsilon is the ε that a published analysis states and the run was configured for: less
	// than Epsilon where the analysis does not hold, more where it is loose. It is left out where it
	// is 0 or equal to Epsilon.
	ClaimedEpsilon float64
	// Trust is left out where it is SecureSum.
	Trust Trust
	// Turns is in how many of the Rounds a unit's client takes part at the most, where clients take turns: ε is for these. Both
	// are left out where they are 0: all take part in all.
	Turns, Rounds int
	// LocalEpsilon is what holds of all that a unit's client sends where nobody is trusted, without a δ. It is left out where
	// it is 0.
	LocalEpsilon float64
	// NoiseDistance is X where the run is within total variation X of a run that is (ε, δ)-private: the same run with exact noise. It is left
	// out where it is 0: δ then includes the samplers' error, and the run itself is (ε, δ)-private. See docs/privacy.md.
	NoiseDistance float64
}

// Validate reports everything that makes the statement meaningless: values that do not
// exist, and an accountant that does not cover what was released. A statement names the
// accountant that its ε rests on, never Best, and Unaccounted with an infinite ε exactly
// where there is no noise; δ may be 0 there. Poisson samples are accounted for by whether the unit is in
// the sample, so ZeroOut and AddRemove go with them. With Label and PrivatePart the unit is in both samples
// and its vector differs: their ε with samples is that of [Budget.ForReplacement]. Those two go with Example only.
func (s Statement) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("dp: statement: "+format, args...)) }
	if !(s.Epsilon >= 0) {
		bad("epsilon is %v; it must be at least 0", s.Epsilon)
	}
	if !(s.ClaimedEpsilon >= 0) {
		bad("claimed epsilon is %v; it must be at least 0", s.ClaimedEpsilon)
	}
	switch {
	case s.Accountant == Pure:
		if s.Delta != 0 {
			bad("delta is %v; accountant pure has none", s.Delta)
		}
	case s.Accountant == Unaccounted && s.Delta == 0:
	case !(s.Delta > 0 && s.Delta < 1):
		bad("delta is %v; it must be above 0 and below 1", s.Delta)
	}
	_, unit := ParseUnit(string(s.Unit))
	_, relation := parse("relation", string(s.Relation), relations)
	_, sampling := parse("sampling", string(s.Sampling), []Sampling{NoSampling, PoissonSampling})
	_, noise := parse("noise", string(s.Noise), []NoiseLaw{NoNoise, SkellamNoise, ObjectiveNoise, RandomizedResponse, FloatGaussianNoise})
	_, trust := parse("trust", string(s.Trust), []Trust{SecureSum, Nobody, Shuffler})
	errs = append(errs, unit, relation, sampling, noise, trust)
	if allowed := s.accountants(); noise == nil && sampling == nil && !slices.Contains(allowed, s.Accountant) {
		bad("accountant is %q; for noise=%s and sampling=%s it must be one of %v", s.Accountant, s.Noise, s.Sampling, allowed)
	}
	if !(s.LocalEpsilon >= 0) || (s.Trust == Shuffler) != (s.LocalEpsilon > 0) {
		bad("local epsilon is %v with trust=%s; whoever trusts a shuffler is told what holds without, and nobody else", s.LocalEpsilon, s.Trust)
	}
	if !(s.NoiseDistance >= 0 && s.NoiseDistance < 1) || s.NoiseDistance > 0 && s.Noise != SkellamNoise {
		bad("noise distance is %v with noise=%s; it must be at least 0, below 1, and 0 unless noise=%s", s.NoiseDistance, s.Noise, SkellamNoise)
	}
	if s.Turns < 0 || s.Turns > s.Rounds || (s.Turns == 0) != (s.Rounds == 0) {
		bad("a unit takes part in %d of %d rounds; it must be in from 1 to all, or both be 0", s.Turns, s.Rounds)
	}
	if (s.Unit == Example) != s.Relation.replaces() {
		bad("unit is %q and relation is %q; unit=%s goes with relation=%s or %s and with no other", s.Unit, s.Relation, Example, Label, PrivatePart)
	}
	if s.Noise == NoNoise && !math.IsInf(s.Epsilon, 1) {
		bad("epsilon is %v; without noise it is infinite", s.Epsilon)
	}
	return errors.Join(errs...)
}

// accountants are those that cover the noise and the sampling.
func (s Statement) accountants() []Accountant {
	switch {
	case s.Noise == NoNoise:
		return []Accountant{Unaccounted}
	case s.Noise == ObjectiveNoise && s.Sampling == NoSampling:
		return []Accountant{Pure}
	case s.Noise == RandomizedResponse && s.Sampling == NoSampling:
		return []Accountant{Shuffling, Pure}
	case s.Noise == ObjectiveNoise || s.Noise == RandomizedResponse:
		return nil
	case s.Noise == SkellamNoise && s.Sampling == PoissonSampling:
		return []Accountant{GDPSkellam}
	case s.Noise == SkellamNoise:
		return []Accountant{RDP, GDPSkellam}
	case s.Sampling == PoissonSampling:
		return []Accountant{RDP, PLD}
	default:
		return []Accountant{RDP, PLD, Exact}
	}
}

// String is the statement in one line, for example
// (epsilon=0.998, delta=1e-05, unit=user, relation=zero-out, accountant=rdp, sampling=none, noise=skellam).
// Epsilon is rounded up, at the third decimal or, below 0.1, at the third
// significant digit, and so is delta. After it stands what NoiseDistance means, unless that is 0.
func (s Statement) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "(epsilon=%s, delta=%s, unit=%s, relation=%s, accountant=%s, sampling=%s, noise=%s",
		roundUp(s.Epsilon), RoundUp(s.Delta, 3), s.Unit, s.Relation, s.Accountant, s.Sampling, s.Noise)
	if s.Trust != SecureSum {
		fmt.Fprintf(&b, ", trust=%s", s.Trust)
	}
	if s.Turns != 0 {
		fmt.Fprintf(&b, ", turns=%d/%d", s.Turns, s.Rounds)
	}
	if s.LocalEpsilon != 0 {
		fmt.Fprintf(&b, ", local_epsilon=%s", roundUp(s.LocalEpsilon))
	}
	if s.NoiseDistance != 0 {
		fmt.Fprintf(&b, ", noise_distance=%s", RoundUp(s.NoiseDistance, 3))
	}
	if s.claims() {
		fmt.Fprintf(&b, ", claimed_epsilon=%s", roundUp(s.ClaimedEpsilon))
	}
	b.WriteByte(')')
	if s.NoiseDistance != 0 {
		fmt.Fprintf(&b, ", within total variation %s of a run that is (epsilon, delta)-private", RoundUp(s.NoiseDistance, 3))
	}
	return b.String()
}

// Guarantee is an ε and the δ that goes with it.
type Guarantee struct {
	Epsilon float64 `json:"epsilon"`
	Delta   float64 `json:"delta"`
}

// Replacement is what the statement gives for the other neighbours, data sets A and B in which one unit is
// replaced by another instead of being empty or absent. Both are neighbours of the set E without the unit.
//
// Where the accountant charges Gaussians without samples, each release moves at most twice as far between A and B as from E, so
// that μ is doubled: ε is exact for 2μ at the statement's δ, with the samplers' error that the run's budget has. Elsewhere it
// is (2ε, δ(1 + e^ε)), since for any event S
//
//	P[A] <= e^ε·P[E] + δ <= e^ε(e^ε·P[B] + δ) + δ = e^2ε·P[B] + δ(1 + e^ε).
//
// The FMF paper (section 2.2.1) has (2ε, 2δ), which forgets the factor of the inner δ. Replacement reports
// false where nothing follows: without noise, and where δ would be 1 or more.
func (s Statement) Replacement(samplerError float64) (Guarantee, bool) {
	if s.Sampling == NoSampling && (s.Accountant == GDPSkellam || s.Accountant == Exact) && !math.IsInf(s.Epsilon, 1) {
		mu := GaussianMu(s.Epsilon, s.Delta) * (1 + 1e-12) // it is rounded down
		if e := (settings{Exact, s.Delta, samplerError}).solve(gaussianMu(2 * mu)); !math.IsInf(e, 1) {
			return Guarantee{e, s.Delta}, true
		}
	}
	g := Guarantee{2 * s.Epsilon, s.Delta * (1 + math.Exp(s.Epsilon))}
	return g, g.Delta < 1
}

// ReplacementLine is Replacement in one line, for example
// (epsilon=2.108, delta=1e-05), both rounded up; "" without noise.
func (s Statement) ReplacementLine(samplerError float64) string {
	switch g, ok := s.Replacement(samplerError); {
	case math.IsInf(s.Epsilon, 1) || s.Relation.replaces(): // by another as it is
		return ""
	case !ok:
		return "nothing follows if a " + string(s.Unit) + " is replaced by another: delta would be 1 or more"
	default:
		return fmt.Sprintf("(epsilon=%s, delta=%s) if a %s is replaced by another", roundUp(g.Epsilon), RoundUp(g.Delta, 3), s.Unit)
	}
}

func (s Statement) claims() bool {
	return s.ClaimedEpsilon != 0 && s.ClaimedEpsilon != s.Epsilon
}

// roundUp writes the smallest decimal of the statement's precision that is not
// below x.
func roundUp(x float64) string {
	switch {
	case math.IsInf(x, 1):
		return "inf"
	case math.IsNaN(x):
		return "nan"
	}
	decimals := 3
	if x > 0 && x < 0.1 {
		decimals = 2 - int(math.Floor(math.Log10(x)))
	}
	text := strconv.FormatFloat(x, 'f', decimals, 64) // nearest, so perhaps one step low
	if v, err := strconv.ParseFloat(text, 64); err == nil && v < x {
		text = strconv.FormatFloat(v+math.Pow10(-decimals), 'f', decimals, 64)
	}
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// RoundUp writes the smallest number with that many significant digits that is not below
// x, which is positive. Neither an ε, a δ nor the noise for one may be written smaller
// than it is.
func RoundUp(x float64, digits int) string {
	text := strconv.FormatFloat(x, 'g', digits, 64) // nearest, so perhaps one step low
	if v, err := strconv.ParseFloat(text, 64); err == nil && v < x {
		step := math.Pow10(int(math.Floor(math.Log10(x))) + 1 - digits)
		text = strconv.FormatFloat(v+step, 'g', digits, 64)
	}
	return text
}

// statementJSON is the form of a Statement on disk.
type statementJSON struct {
	Epsilon        *float64   `json:"epsilon"`
	Delta          float64    `json:"delta"`
	Unit           Unit       `json:"unit"`
	Relation       Relation   `json:"relation"`
	Accountant     Accountant `json:"accountant"`
	Sampling       Sampling   `json:"sampling"`
	Noise          NoiseLaw   `json:"noise"`
	ClaimedEpsilon float64    `json:"claimed_epsilon,omitempty"`
	Trust          Trust      `json:"trust,omitempty"`
	Turns          int        `json:"turns,omitempty"`
	Rounds         int        `json:"rounds,omitempty"`
	LocalEpsilon   float64    `json:"local_epsilon,omitempty"`
	NoiseDistance  float64    `json:"noise_distance,omitempty"`
}

// MarshalJSON writes epsilon as a number, or null where it is infinite.
func (s Statement) MarshalJSON() ([]byte, error) {
	j := statementJSON{nil, s.Delta, s.Unit, s.Relation, s.Accountant, s.Sampling, s.Noise, 0, s.Trust, s.Turns, s.Rounds, s.LocalEpsilon, s.NoiseDistance}
	if !math.IsInf(s.Epsilon, 1) {
		j.Epsilon = &s.Epsilon
	}
	if s.claims() {
		j.ClaimedEpsilon = s.ClaimedEpsilon
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *Statement) UnmarshalJSON(data []byte) error {
	var j statementJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return fmt.Errorf("dp: privacy statement: %w", err)
	}
	*s = Statement{Epsilon: math.Inf(1), Delta: j.Delta, Unit: j.Unit, Relation: j.Relation, Accountant: j.Accountant, Sampling: j.Sampling, Noise: j.Noise,
		ClaimedEpsilon: j.ClaimedEpsilon, Trust: j.Trust, Turns: j.Turns, Rounds: j.Rounds, LocalEpsilon: j.LocalEpsilon, NoiseDistance: j.NoiseDistance}
	if j.Epsilon != nil {
		s.Epsilon = *j.Epsilon
	}
	return nil
}

// ErrDelta is returned for a δ so large that it gives no protection.
var ErrDelta = errors.New("dp: delta is too large")

// CheckDelta refuses a δ of 1/units or more, where units is the number of users, or of
// ratings in the training part: publishing one whole unit at random would satisfy such a
// δ.
func CheckDelta(delta float64, units int) error {
	switch {
	case units < 1:
		return fmt.Errorf("dp: %d units; there must be at least 1", units)
	case !(delta > 0):
		return fmt.Errorf("dp: delta is %v; it must be above 0 and below 1/%d", delta, units)
	case delta >= 1/float64(units):
		return fmt.Errorf("%w: %v is not below 1/%d = %.3g, and publishing one of the %d units at random would satisfy it; the default is %.3g",
			ErrDelta, delta, units, 1/float64(units), units, DefaultDelta(units))
	}
	return nil
}

// DefaultDelta is the smaller of 1e-5 and 1/(10·units).
func DefaultDelta(units int) float64 {
	return min(1e-5, 1/(10*float64(max(units, 1))))
}
