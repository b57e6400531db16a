package dp

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/internal/problems"
)

// Unit is the unit of privacy: the data by which neighbouring data sets differ.
type Unit string

// The units of privacy.
const (
	User    Unit = "user"    // all ratings of one user
	Rating  Unit = "rating"  // one rating
	Example Unit = "example" // one example of a regression; Label and PrivatePart say which part is private
)

// ParseUnit parses a unit's name. The error lists the valid ones.
func ParseUnit(s string) (Unit, error) { return parse("unit", s, []Unit{User, Rating, Example}) }

// Relation says how neighbouring data sets differ in one unit.
type Relation string

// The relations of neighbouring data sets.
const (
	ZeroOut   Relation = "zero-out"   // the unit's record is empty; its client still takes part and adds noise
	AddRemove Relation = "add-remove" // the unit is present or absent
	// Label changes the label of one example. Features, participation and the assignment of rows to
	// users are public. The example's contribution is replaced, so a sum of vectors of norm at most
	// c has the sensitivity 2c.
	Label Relation = "label"
	// PrivatePart changes the label and the private features of one example. Its public features,
	// participation and the assignment of rows to users stay. The example's contribution is
	// replaced, as with Label.
	PrivatePart Relation = "private-part"
)

var relations = []Relation{ZeroOut, AddRemove, Label, PrivatePart}

// replaces reports whether neighbours differ in the value of a unit, rather than in its presence.
func (r Relation) replaces() bool { return r == Label || r == PrivatePart }

// Sampling says how the units of a release are chosen.
type Sampling string

// The samplings.
const (
	NoSampling      Sampling = "none"
	PoissonSampling Sampling = "poisson"
)

// Unaccounted is the accountant in the statement of a run without noise, where there is nothing to
// account for.
const Unaccounted Accountant = "none"

// NoiseLaw is the distribution of the drawn noise.
type NoiseLaw string

// The noise laws.
const (
	NoNoise            NoiseLaw = "none"
	SkellamNoise       NoiseLaw = "skellam"   // exact integers
	ObjectiveNoise     NoiseLaw = "objective" // added to the minimised objective, with a length that falls off exponentially; floating point
	RandomizedResponse NoiseLaw = "randomized-response"
	FloatGaussianNoise NoiseLaw = "float-gaussian" // floating point: no integer guarantee is claimed
)

// Trust names the parties that a unit must trust for its ε, apart from its own client.
type Trust string

// The degrees of trust.
const (
	// SecureSum needs the assumption that no more clients collude than stated, and that the rest
	// add their noise. Statements leave it out.
	SecureSum Trust = ""
	// Local privacy: ε holds for everything that the client sends, whatever other parties do.
	Nobody Trust = "none"
	// Shuffler needs a shuffler that permutes the messages of all users before any other party sees
	// them.
	Shuffler Trust = "shuffler"
)

// Statement holds every fact that gives an ε its meaning.
type Statement struct {
	Epsilon    float64    `json:"epsilon"` // +Inf without noise; null in JSON
	Delta      float64    `json:"delta"`   // 0 with Pure only
	Unit       Unit       `json:"unit"`
	Relation   Relation   `json:"relation"`
	Accountant Accountant `json:"accountant"`
	Sampling   Sampling   `json:"sampling"`
	Noise      NoiseLaw   `json:"noise"`
	// ClaimedEpsilon is the ε of a published analysis, which the run was configured for. It is less
	// than Epsilon if the analysis does not hold, more if the analysis is loose. JSON omits it if
	// it is 0 or equal to Epsilon.
	ClaimedEpsilon float64 `json:"claimed_epsilon,omitempty"`
	// Trust is omitted from JSON if it is SecureSum.
	Trust Trust `json:"trust,omitempty"`
	// Turns is the largest number of the Rounds in which a unit's client takes part, if clients
	// take turns: ε is for these rounds. JSON omits both if they are 0: every client takes part in
	// every round.
	Turns  int `json:"turns,omitempty"`
	Rounds int `json:"rounds,omitempty"`
	// LocalEpsilon is the ε of everything that a unit's client sends if the unit trusts no other
	// party, without a δ. JSON omits it if it is 0.
	LocalEpsilon float64 `json:"local_epsilon,omitempty"`
	// NoiseDistance is X if the run is within total variation X of a run that is (ε, δ)-private:
	// the same run with exact noise. JSON omits it if it is 0: then δ includes the samplers' error,
	// and the run itself is (ε, δ)-private. See docs/privacy.md.
	NoiseDistance float64 `json:"noise_distance,omitempty"`
	// Open counts the users who gave their ratings openly, and whom the statement does not cover. JSON omits it if it is 0.
	Open int `json:"open,omitempty"`
	// Chosen states the search that chose the run's settings by the same data. JSON omits it if none did.
	Chosen Chosen `json:"chosen,omitzero"`
}

// Validate reports every fault that makes the statement meaningless: values that do not exist, and
// an accountant that does not cover the releases.
//
// A statement names the accountant of its ε, never Best. It names Unaccounted, with an infinite ε,
// exactly if there is no noise; then δ may be 0. Accounting for Poisson samples asks whether the
// unit is in the sample, so ZeroOut and AddRemove go with them. With Label and PrivatePart the unit
// is in both samples and its vector differs: their ε with samples is the ε of
// [Budget.ForReplacement]. These two relations go with Example only.
func (s Statement) Validate() error {
	var errs problems.List
	bad := func(holds bool, format string, args ...any) { errs.If(holds, "dp: statement: "+format, args...) }
	bad(!(s.Epsilon >= 0), "epsilon is %v; it must be at least 0", s.Epsilon)
	bad(!(s.ClaimedEpsilon >= 0), "claimed epsilon is %v; it must be at least 0", s.ClaimedEpsilon)
	switch {
	case s.Accountant == Pure:
		bad(s.Delta != 0, "delta is %v; accountant pure has none", s.Delta)
	case s.Accountant == Unaccounted && s.Delta == 0:
	default:
		bad(!(s.Delta > 0 && s.Delta < 1), "delta is %v; it must be above 0 and below 1", s.Delta)
	}
	_, unit := ParseUnit(string(s.Unit))
	_, relation := parse("relation", string(s.Relation), relations)
	_, sampling := parse("sampling", string(s.Sampling), []Sampling{NoSampling, PoissonSampling})
	_, noise := parse("noise", string(s.Noise), []NoiseLaw{NoNoise, SkellamNoise, ObjectiveNoise, RandomizedResponse, FloatGaussianNoise})
	_, trust := parse("trust", string(s.Trust), []Trust{SecureSum, Nobody, Shuffler})
	errs = append(errs, unit, relation, sampling, noise, trust)
	if allowed := s.accountants(); noise == nil && sampling == nil && !slices.Contains(allowed, s.Accountant) {
		bad(true, "accountant is %q; for noise=%s and sampling=%s it must be one of %v", s.Accountant, s.Noise, s.Sampling, allowed)
	}
	bad(!(s.LocalEpsilon >= 0) || (s.Trust == Shuffler) != (s.LocalEpsilon > 0),
		"local epsilon is %v with trust=%s; it must be positive with trust=%s, and 0 without", s.LocalEpsilon, s.Trust, Shuffler)
	bad(!(s.NoiseDistance >= 0 && s.NoiseDistance < 1) || s.NoiseDistance > 0 && s.Noise != SkellamNoise,
		"noise distance is %v with noise=%s; it must be at least 0, below 1, and 0 unless noise=%s", s.NoiseDistance, s.Noise, SkellamNoise)
	bad(s.Turns < 0 || s.Turns > s.Rounds || (s.Turns == 0) != (s.Rounds == 0),
		"a unit takes part in %d of %d rounds; it must be in from 1 to all, or both be 0", s.Turns, s.Rounds)
	bad((s.Unit == Example) != s.Relation.replaces(),
		"unit is %q and relation is %q; unit=%s goes with relation=%s or %s and with no other", s.Unit, s.Relation, Example, Label, PrivatePart)
	if c := s.Chosen; c.By != "" && (!(c.RunEpsilon >= 0) || (c.By == PlainSearch) != math.IsInf(s.Epsilon, 1)) {
		bad(true, "epsilon is %v after a %s, with %v of the run alone", s.Epsilon, c, c.RunEpsilon)
	}
	bad(s.Noise == NoNoise && !math.IsInf(s.Epsilon, 1), "epsilon is %v; without noise it is infinite", s.Epsilon)
	return errors.Join(errs...)
}

// accountants returns the accountants that cover the noise and the sampling.
func (s Statement) accountants() []Accountant {
	switch {
	case s.Noise == NoNoise || s.Chosen.By == PlainSearch:
		return []Accountant{Unaccounted}
	case s.Chosen.By == PrivateSearch:
		return []Accountant{RDP}
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

// String returns the statement in one line, for example (epsilon=0.998, delta=1e-05, unit=user,
// relation=zero-out, accountant=rdp, sampling=none, noise=skellam). It rounds epsilon up at the
// third decimal, or below 0.1 at the third significant digit, and delta likewise. It adds the
// meaning of NoiseDistance unless that is 0.
func (s Statement) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "(epsilon=%s, delta=%s, unit=%s, relation=%s, accountant=%s, sampling=%s, noise=%s",
		roundUp(s.Epsilon), RoundUp(s.Delta, 3), s.Unit, s.Relation, s.Accountant, s.Sampling, s.Noise)
	part := func(is bool, format string, args ...any) {
		if is {
			fmt.Fprintf(&b, ", "+format, args...)
		}
	}
	part(s.Trust != SecureSum, "trust=%s", s.Trust)
	part(s.Turns != 0, "turns=%d/%d", s.Turns, s.Rounds)
	part(s.LocalEpsilon != 0, "local_epsilon=%s", roundUp(s.LocalEpsilon))
	part(s.NoiseDistance != 0, "noise_distance=%s", RoundUp(s.NoiseDistance, 3))
	part(s.claims(), "claimed_epsilon=%s", roundUp(s.ClaimedEpsilon))
	part(s.Open != 0, "open=%d", s.Open)
	part(s.Chosen.By != "", "chosen=%s, run_epsilon=%s", s.Chosen.By, roundUp(s.Chosen.RunEpsilon))
	b.WriteByte(')')
	if s.NoiseDistance != 0 {
		b.WriteString(distant(s.NoiseDistance))
	}
	return b.String()
}

// Guarantee is an ε and the δ that goes with it.
type Guarantee struct {
	Epsilon float64 `json:"epsilon"`
	Delta   float64 `json:"delta"`
}

// Replacement converts the statement to the other neighbours: data sets A and B in which one unit
// is replaced by another instead of being empty or absent. Both are neighbours of the set E without
// the unit. all has the releases and searches that the statement covers, with the samplers' errors.
//
// The result has the statement's δ. If the accountant charges Gaussians without samples, ε is
// exact: each release moves at most twice as far between A and B as from E, so that μ is doubled.
// Otherwise [Problem.Replaced] gives ε. The analysis of shuffled messages covers a replaced unit as
// it is.
//
// A statement alone, without releases, has (2ε, δ(1 + e^ε)), since for any event S
//
//	P[A] <= e^ε·P[E] + δ <= e^ε(e^ε·P[B] + δ) + δ = e^2ε·P[B] + δ(1 + e^ε).
//
// The FMF paper (section 2.2.1) has (2ε, 2δ), which forgets the factor of the inner δ. Replacement
// reports false if nothing follows: without noise, if δ would be 1 or more, and if the samplers'
// error leaves no ε at δ.
func (s Statement) Replacement(all Problem) (Guarantee, bool) {
	var epsilon float64
	switch {
	case math.IsInf(s.Epsilon, 1):
		return Guarantee{s.Epsilon, s.Delta}, false
	case s.Accountant == Shuffling:
		return Guarantee{s.Epsilon, s.Delta}, true
	case s.Sampling == NoSampling && (s.Accountant == GDPSkellam || s.Accountant == Exact):
		mu := GaussianMu(s.Epsilon, s.Delta) * (1 + 1e-12) // mu is rounded down
		epsilon = Budget{Delta: s.Delta, SamplerError: all.SamplerError}.solve(gaussianMu(2 * mu))
	case len(all.Searches) > 0 || len(all.Events) > 0 && s.Chosen.By == "":
		all.Delta, all.Accountant = s.Delta, s.Accountant
		r, err := all.Replaced()
		if err != nil {
			return Guarantee{math.Inf(1), s.Delta}, false
		}
		epsilon = r.Epsilon
	default:
		g := Guarantee{2 * s.Epsilon, s.Delta * (1 + math.Exp(s.Epsilon))}
		return g, g.Delta < 1
	}
	return Guarantee{epsilon, s.Delta}, !math.IsInf(epsilon, 1)
}

// ReplacementLine returns Replacement in one line, for example (epsilon=2.108, delta=1e-05), both
// rounded up. Without noise it returns "". If the samplers' error leaves no ε at δ, the line is
// about a run with exact noise and says how far the run is from it, as with NoiseDistance.
func (s Statement) ReplacementLine(all Problem) string {
	if math.IsInf(s.Epsilon, 1) || s.Relation.replaces() { // by another as it is
		return ""
	}
	distance := s.NoiseDistance
	g, ok := s.Replacement(all)
	if failure := all.samplers(); !ok && failure > 0 {
		distance += failure
		g, ok = s.Replacement(all.exact())
	}
	if !ok {
		return "nothing follows if a " + string(s.Unit) + " is replaced by another: delta would be 1 or more"
	}
	line := fmt.Sprintf("(epsilon=%s, delta=%s) if a %s is replaced by another", roundUp(g.Epsilon), RoundUp(g.Delta, 3), s.Unit)
	if distance > 0 {
		line += distant(distance)
	}
	return line
}

// distant says what a total variation distance to a private run means.
func distant(distance float64) string {
	return fmt.Sprintf(", within total variation %s of a run that is (epsilon, delta)-private", RoundUp(distance, 3))
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

// RoundUp writes the smallest number with that many significant digits that is not below x, which
// must be positive. No ε, δ or noise may be written smaller than its value.
func RoundUp(x float64, digits int) string {
	text := strconv.FormatFloat(x, 'g', digits, 64) // nearest, so perhaps one step low
	if v, err := strconv.ParseFloat(text, 64); err == nil && v < x {
		step := math.Pow10(int(math.Floor(math.Log10(x))) + 1 - digits)
		text = strconv.FormatFloat(v+step, 'g', digits, 64)
	}
	return text
}

// statementJSON is the form of a Statement in JSON: epsilon is null if it is infinite.
type (
	statementJSON struct {
		Epsilon *float64 `json:"epsilon"`
		plainStatement
	}
	plainStatement Statement // without methods
)

// MarshalJSON writes epsilon as a number, or null if it is infinite.
func (s Statement) MarshalJSON() ([]byte, error) {
	j := statementJSON{nil, plainStatement(s)}
	if !math.IsInf(s.Epsilon, 1) {
		j.Epsilon = &s.Epsilon
	}
	if !s.claims() {
		j.ClaimedEpsilon = 0
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads the output of MarshalJSON.
func (s *Statement) UnmarshalJSON(data []byte) error {
	var j statementJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return fmt.Errorf("dp: privacy statement: %w", err)
	}
	*s = Statement(j.plainStatement)
	s.Epsilon = math.Inf(1)
	if j.Epsilon != nil {
		s.Epsilon = *j.Epsilon
	}
	return nil
}

// ErrDelta is returned for a δ so large that it gives no protection.
var ErrDelta = errors.New("dp: delta is too large")

// CheckDelta refuses a δ of 1/units or more. units is the number of users, or of ratings in the
// training part. Publishing one whole unit at random would satisfy such a δ.
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

// DefaultDelta returns the smaller of 1e-5 and 1/(10·units).
func DefaultDelta(units int) float64 {
	return min(1e-5, 1/(10*float64(max(units, 1))))
}

// Words returns what the statement means, in sentences for readers who do not know its terms: the protected data, the
// parties that they are protected from, and how much an observer learns. against names these parties, for example
// "the server"; "" leaves them out. The figures are rounded up.
func (s Statement) Words(against string) string {
	if s.Chosen.By == PlainSearch {
		text := s.Chosen.words(s.Delta)
		return strings.ToUpper(text[:1]) + text[1:]
	}
	if math.IsInf(s.Epsilon, 1) {
		return "There is no noise: the results may show anything about any user."
	}
	_, other := s.protected()
	change := other + " the probability of every outcome by a factor of at most e^ε = " + factor(s.Epsilon)
	if s.Delta > 0 {
		change += ", except with probability δ"
	}
	return s.protects(against) + change + ". " + s.sure("An observer who was undecided (odds of 1 to 1)")
}

// Brief is Words without the factor e^ε and the odds.
func (s Statement) Brief(against string) string {
	if s.Chosen.By == PlainSearch || math.IsInf(s.Epsilon, 1) {
		return s.Words(against)
	}
	return s.protects(against) + s.sure("An undecided observer")
}

// protects is the sentence about what is protected from whom, and a space.
func (s Statement) protects(against string) string {
	text := "ε = " + roundUp(s.Epsilon)
	if s.Delta > 0 {
		text += " and δ = " + RoundUp(s.Delta, 3) + " protect "
	} else {
		text += " protects "
	}
	what, _ := s.protected()
	text += what
	if against != "" {
		text += " from " + against
	}
	return text + ". "
}

// sure is the sentence about an observer, and what else limits the statement.
func (s Statement) sure(observer string) string {
	text := observer + " can become at most " + certainty(s.Epsilon) + " sure."
	if s.LocalEpsilon != 0 {
		text += " Without trust in the shuffler ε is " + roundUp(s.LocalEpsilon) + "."
	}
	if s.claims() && s.ClaimedEpsilon < s.Epsilon {
		text += " The published analysis claims ε = " + roundUp(s.ClaimedEpsilon) + ", which does not hold."
	}
	if s.Open != 0 {
		text += fmt.Sprintf(" This covers all users but the %d who gave their ratings openly.", s.Open)
	}
	return text + s.Chosen.words(s.Delta)
}

// protected returns the protected data, and the subject and verb of the sentence about neighbours.
func (s Statement) protected() (what, other string) {
	switch {
	case s.Relation == Label:
		return "the label of one example", "Another label in its place changes"
	case s.Relation == PrivatePart:
		return "the label and the private features of one example", "Other ones in their place change"
	case s.Unit == User:
		return "all ratings of one user", "Whether these ratings are in the data or not changes"
	default:
		return "one " + string(s.Unit), "Whether this " + string(s.Unit) + " is in the data or not changes"
	}
}

// factor writes e^ε for people, rounded up to three digits, or from 10^6 on as a power of ten.
func factor(epsilon float64) string {
	if epsilon > 13.8 {
		return fmt.Sprintf("10^%.1f", math.Ceil(epsilon/math.Ln10*10)/10)
	}
	x := math.Exp(epsilon)
	if x < 1000 {
		return RoundUp(x, 3)
	}
	step := math.Pow10(int(math.Log10(x)) - 2)
	whole := strconv.FormatFloat(math.Ceil(x/step)*step, 'f', 0, 64)
	return whole[:len(whole)-3] + "," + whole[len(whole)-3:]
}

// certainty writes the probability 1/(1+e^-ε) in percent, rounded up but never to 100%.
func certainty(epsilon float64) string {
	if epsilon > 25 { // more digits than a person reads
		return fmt.Sprintf("all but 1 in 10^%.0f", math.Floor(epsilon/math.Ln10))
	}
	rest := 100 / (1 + math.Exp(epsilon))
	decimals := max(0, 1-int(math.Floor(math.Log10(rest))))
	unit := math.Pow10(-decimals)
	text := strconv.FormatFloat(100-math.Floor(rest/unit+1e-9)*unit, 'f', decimals, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + "%"
}
