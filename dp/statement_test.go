package dp

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var plain = Statement{
	Epsilon: 0.998, Delta: 1e-5, Unit: User, Relation: ZeroOut,
	Accountant: RDP, Sampling: NoSampling, Noise: SkellamNoise,
}

func TestStatement(t *testing.T) {
	with := func(edit func(*Statement)) Statement {
		s := plain
		edit(&s)
		return s
	}
	for _, c := range []struct {
		s          Statement
		text, json string
	}{
		{
			plain,
			"(epsilon=0.998, delta=1e-05, unit=user, relation=zero-out, accountant=rdp, sampling=none, noise=skellam)",
			`{"epsilon":0.998,"delta":0.00001,"unit":"user","relation":"zero-out","accountant":"rdp","sampling":"none","noise":"skellam"}`,
		},
		{
			with(func(s *Statement) { s.Epsilon, s.ClaimedEpsilon = 1.338001, 1 }),
			"(epsilon=1.339, delta=1e-05, unit=user, relation=zero-out, accountant=rdp, sampling=none, noise=skellam, claimed_epsilon=1)",
			`{"epsilon":1.338001,"delta":0.00001,"unit":"user","relation":"zero-out","accountant":"rdp","sampling":"none","noise":"skellam","claimed_epsilon":1}`,
		},
		{
			with(func(s *Statement) { s.Trust = Nobody }),
			"(epsilon=0.998, delta=1e-05, unit=user, relation=zero-out, accountant=rdp, sampling=none, noise=skellam, trust=none)",
			`{"epsilon":0.998,"delta":0.00001,"unit":"user","relation":"zero-out","accountant":"rdp","sampling":"none","noise":"skellam","trust":"none"}`,
		},
		{
			with(func(s *Statement) { s.ClaimedEpsilon = s.Epsilon }),
			plain.String(),
			`{"epsilon":0.998,"delta":0.00001,"unit":"user","relation":"zero-out","accountant":"rdp","sampling":"none","noise":"skellam"}`,
		},
		{
			with(func(s *Statement) {
				s.Epsilon, s.Unit, s.Relation = math.Inf(1), Rating, AddRemove
				s.Sampling, s.Noise, s.Accountant = PoissonSampling, NoNoise, Best
			}),
			"(epsilon=inf, delta=1e-05, unit=rating, relation=add-remove, accountant=best, sampling=poisson, noise=none)",
			`{"epsilon":null,"delta":0.00001,"unit":"rating","relation":"add-remove","accountant":"best","sampling":"poisson","noise":"none"}`,
		},
	} {
		if got := c.s.String(); got != c.text {
			t.Errorf("text is\n%s\nwant\n%s", got, c.text)
		}
		data, err := json.Marshal(c.s)
		if err != nil {
			t.Fatal(err)
		}
		if string(data) != c.json {
			t.Errorf("JSON is\n%s\nwant\n%s", data, c.json)
		}
		var back Statement
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		if back.String() != c.text {
			t.Errorf("JSON came back as %s", back)
		}
	}
	if _, err := json.Marshal(Statement{Epsilon: math.NaN()}); err == nil {
		t.Error("an ε that is not a number was written")
	}
	if err := json.Unmarshal([]byte(`{"epsilon":"low"}`), new(Statement)); err == nil {
		t.Error("an ε that is a word was read")
	}
}

// Under replacement, by hand: e^0.998 = 2.71285, so that δ is 3.71285e-5, rounded up.
//
// The paper's (2ε, 2δ) is refuted by an event of chance 0.3 without the unit, 0.7 with one unit and
// 0.1 with another. These chances use all of ε = ln 2 and δ = 0.1, because 0.7 = 2·0.3 + 0.1
// and 0.3 = 2·0.1 + 0.1.
//
// Then 0.7 is exactly 4·0.1 + 0.3, which is δ(1 + e^ε), and more than 4·0.1 + 2δ = 0.6.
func TestReplacement(t *testing.T) {
	if got := plain.ReplacementLine(Problem{}); got != "(epsilon=1.996, delta=3.72e-05) if a user is replaced by another" {
		t.Error(got)
	}
	s := plain
	s.Epsilon, s.Delta = math.Ln2, 0.1
	g, ok := s.Replacement(Problem{})
	const a, e, b = 0.7, 0.3, 0.1
	if within := func(x, y float64) bool { return x <= 2*y+0.1+1e-12 }; !within(a, e) || !within(e, b) || !within(1-e, 1-a) || !within(1-b, 1-e) {
		t.Error("the three are not neighbours of (ln 2, 0.1)")
	}
	if !ok || math.Abs(g.Epsilon-2*math.Ln2) > 1e-12 || math.Abs(math.Exp(g.Epsilon)*b+g.Delta-a) > 1e-12 {
		t.Errorf("%+v, %t: want the bound that is met exactly", g, ok)
	}
	s.Epsilon = 3
	if _, ok := s.Replacement(Problem{}); ok || s.ReplacementLine(Problem{}) != "nothing follows if a user is replaced by another: delta would be 1 or more" {
		t.Errorf("δ of 2.1 is given as a bound: %s", s.ReplacementLine(Problem{}))
	}
	s.Epsilon = math.Inf(1)
	if _, ok := s.Replacement(Problem{}); ok || s.ReplacementLine(Problem{}) != "" {
		t.Error("without noise there is a bound")
	}
}

// Which values go together: the accountants of the specification for each noise and sampling, and
// nothing else.
func TestStatementValidate(t *testing.T) {
	allowed := map[NoiseLaw]map[Sampling]string{
		NoNoise:            {NoSampling: "none", PoissonSampling: "none"},
		SkellamNoise:       {NoSampling: "rdp gdp-skellam", PoissonSampling: "gdp-skellam"},
		FloatGaussianNoise: {NoSampling: "rdp pld exact", PoissonSampling: "rdp pld"},
	}
	for noise, bySampling := range allowed {
		for sampling, words := range bySampling {
			for _, a := range append(slices.Clone(accountants), Unaccounted) {
				for _, relation := range []Relation{ZeroOut, AddRemove} {
					s := plain
					s.Noise, s.Sampling, s.Accountant, s.Relation = noise, sampling, a, relation
					if noise == NoNoise {
						s.Epsilon = math.Inf(1)
					}
					err := s.Validate()
					if ok := slices.Contains(strings.Fields(words), string(a)); ok != (err == nil) {
						t.Errorf("%s: %v", s, err)
					}
				}
			}
		}
	}
	err := Statement{
		Epsilon: -1, Delta: 1, Unit: "house", Relation: "swap", Sampling: "some", Noise: "laplace", ClaimedEpsilon: math.NaN(),
	}.Validate()
	for _, want := range []string{
		"epsilon is -1", "claimed epsilon is NaN", "delta is 1", `unit "house"`, `relation "swap"`, `sampling "some"`, `noise "laplace"`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %q:\n%v", want, err)
		}
	}
	silent := plain
	silent.Noise, silent.Accountant = NoNoise, Unaccounted
	if err := silent.Validate(); err == nil || !strings.Contains(err.Error(), "without noise it is infinite") {
		t.Errorf("ε = %v without noise: error %v", silent.Epsilon, err)
	}
}

func TestRoundUpTable(t *testing.T) {
	for _, c := range []struct {
		x    float64
		want string
	}{
		{0, "0"}, {1, "1"}, {0.998, "0.998"}, {0.9980001, "0.999"}, {0.9991, "1"}, {13.9352, "13.936"},
		{0.1, "0.1"}, {0.09991, "0.1"}, {0.012345, "0.0124"}, {0.000123, "0.000123"}, {1e-7, "0.0000001"},
		{4.0005, "4.001"}, {1234567.0001, "1234567.001"}, {math.Inf(1), "inf"}, {math.NaN(), "nan"},
	} {
		if got := roundUp(c.x); got != c.want {
			t.Errorf("%v is written %s, want %s", c.x, got, c.want)
		}
	}
}

// Never below, never a whole step above; in exact rationals.
func TestRoundUpNeverDown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := math.Exp(rapid.Float64Range(-12, 8).Draw(t, "log x"))
		text := roundUp(x)
		got, ok := new(big.Rat).SetString(text)
		if !ok {
			t.Fatalf("%q is not a number", text)
		}
		exact := new(big.Rat).SetFloat64(x)
		// The nearest float64 of the decimal may be x itself, which counts as equal.
		if f, _ := got.Float64(); f < x {
			t.Fatalf("%v was rounded down to %s", x, text)
		}
		step := max(0.001*min(1, 10*x), x*1e-15)
		if over, _ := new(big.Rat).Sub(got, exact).Float64(); over > step {
			t.Fatalf("%v was rounded up to %s, more than a step of %v", x, text, step)
		}
	})
}

func TestCheckDelta(t *testing.T) {
	for _, c := range []struct {
		delta float64
		units int
		ok    bool
		is    error
	}{
		{1e-5, 99_999, true, nil},
		{1e-5, 100_000, false, ErrDelta},
		{1e-3, 6040, false, ErrDelta},
		{0, 10, false, nil}, {-1, 10, false, nil}, {math.NaN(), 10, false, nil}, {1e-5, 0, false, nil},
	} {
		err := CheckDelta(c.delta, c.units)
		if (err == nil) != c.ok || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("CheckDelta(%v, %d) = %v", c.delta, c.units, err)
		}
	}
	for units, want := range map[int]float64{1: 1e-5, 610: 1e-5, 10_000: 1e-5, 100_000: 1e-6, 0: 1e-5} {
		if got := DefaultDelta(units); math.Abs(got/want-1) > 1e-15 {
			t.Errorf("DefaultDelta(%d) = %v, want %v", units, got, want)
		}
		if units > 0 {
			if err := CheckDelta(DefaultDelta(units), units); err != nil {
				t.Errorf("the default is refused: %v", err)
			}
		}
	}
}

// Delta is never written smaller than it is. Expected texts are rounded up by hand.
func TestStatementRoundsDeltaUp(t *testing.T) {
	for delta, want := range map[float64]string{
		1e-5: "delta=1e-05,", 1.4310655714244826e-06: "delta=1.44e-06,", 1.43e-06: "delta=1.43e-06,",
		9.999e-7: "delta=1e-06,", 0.001234: "delta=0.00124,", 0.5: "delta=0.5,",
	} {
		if got := (Statement{Delta: delta}).String(); !strings.Contains(got, want) {
			t.Errorf("delta %v is written in %s; want %s", delta, got, want)
		}
	}
}

// If Gaussians are charged, ε under replacement is the ε of 2μ at the same δ. The expected values
// are an auditor's. The test also writes the formula of Balle and Wang once more: it has δ at ε and
// at the result for ε. With a samplers' error that leaves no ε at δ, the line is about exact noise.
func TestReplacementOfGaussians(t *testing.T) {
	phi := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	delta := func(e, mu float64) float64 { return phi(mu/2-e/mu) - math.Exp(e)*phi(-mu/2-e/mu) }
	for epsilon, want := range map[float64]float64{5: 11.5, 10: 24.4} {
		s := Statement{Epsilon: epsilon, Delta: 1e-5, Unit: User, Relation: ZeroOut, Accountant: GDPSkellam, Sampling: NoSampling, Noise: SkellamNoise}
		lo, hi := 0.0, 20.0
		for range 100 {
			if mid := (lo + hi) / 2; delta(epsilon, mid) <= 1e-5 {
				lo = mid
			} else {
				hi = mid
			}
		}
		g, ok := s.Replacement(Problem{SamplerError: 1e-24})
		if !ok || g.Delta != 1e-5 || math.Abs(g.Epsilon-want) > 0.05 || math.Abs(delta(g.Epsilon, 2*lo)/1e-5-1) > 1e-6 {
			t.Errorf("epsilon %v gives %+v, %t; want (%v, 1e-5), where the formula has delta %v", epsilon, g, ok, want, delta(g.Epsilon, 2*lo))
		}
		exact := fmt.Sprintf("(epsilon=%s, delta=1e-05) if a user is replaced by another", roundUp(g.Epsilon))
		if line := s.ReplacementLine(Problem{SamplerError: 1e-24}); line != exact {
			t.Errorf("epsilon %v: %s; want %s", epsilon, line, exact)
		}
		if g, ok = s.Replacement(Problem{SamplerError: 1e-9}); ok {
			t.Errorf("epsilon %v with much error of samplers gives %+v", epsilon, g)
		}
		if line, want := s.ReplacementLine(Problem{SamplerError: 1e-9}), exact+", within total variation 1e-09 of a run that is (epsilon, delta)-private"; line != want {
			t.Errorf("epsilon %v with much error of samplers: %s; want %s", epsilon, line, want)
		}
	}
}

// Every statement of an accountant keeps its δ if a user is replaced by another. A Gaussian of μ =
// 1 then has μ = 2. Two of them have the Rényi divergences 4α; α = 2.6 gives 16.52 by hand. The
// 1,000 samples need 2.844, by convolution elsewhere; two steps may exceed that by a quarter. The
// analysis of shuffled messages covers replacement.
func TestReplacementKeepsDelta(t *testing.T) {
	for name, c := range map[string]struct {
		of        Statement
		release   Event
		low, high float64
	}{
		"gaussian by pld":   {Statement{Accountant: PLD, Sampling: NoSampling, Noise: FloatGaussianNoise}, Gaussian(1), GaussianEpsilon(2, 1e-5), GaussianEpsilon(2, 1e-5)},
		"two gaussians":     {Statement{Accountant: RDP, Sampling: NoSampling, Noise: FloatGaussianNoise}, Gaussian(1).Times(2), 16.51, 16.52},
		"sampled gaussians": {Statement{Accountant: PLD, Sampling: PoissonSampling, Noise: FloatGaussianNoise}, SubsampledGaussian(1, 0.01).Times(1000), 2.844, 3.555},
		"sampled skellam":   {Statement{Accountant: GDPSkellam, Sampling: PoissonSampling, Noise: SkellamNoise}, SubsampledSkellam(1e6, 1e3, 1e5, 0.01).Times(1000), 2.844, 3.555},
		"shuffled":          {Statement{Epsilon: 1.5, Accountant: Shuffling, Sampling: NoSampling, Noise: RandomizedResponse, Trust: Shuffler, LocalEpsilon: 4}, Event{}, 1.5, 1.5},
	} {
		s := c.of
		s.Delta, s.Unit, s.Relation = 1e-5, User, ZeroOut
		if s.Epsilon == 0 {
			r, err := Problem{Events: []Event{c.release}, Delta: s.Delta, Accountant: s.Accountant}.Epsilon()
			if err != nil {
				t.Fatal(err)
			}
			s.Epsilon = r.Epsilon
		}
		if g, ok := s.Replacement(Problem{Events: []Event{c.release}}); !ok || g.Delta != 1e-5 || g.Epsilon < c.low || g.Epsilon > c.high {
			t.Errorf("%s: %+v, %t; want from %v to %v at 1e-5", name, g, ok, c.low, c.high)
		}
	}
}

// A pure ε has no δ, and every other ε has one.
func TestPureStatement(t *testing.T) {
	s := Statement{Epsilon: 5, Unit: Rating, Relation: AddRemove, Accountant: Pure, Sampling: NoSampling, Noise: ObjectiveNoise}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	if got, want := s.ReplacementLine(Problem{}), "(epsilon=10, delta=0) if a rating is replaced by another"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
	for reason, change := range map[string]func(*Statement){
		"accountant pure has none": func(s *Statement) { s.Delta = 1e-5 },
		"must be above 0":          func(s *Statement) { s.Accountant, s.Noise = RDP, SkellamNoise },
		"accountant is":            func(s *Statement) { s.Sampling = PoissonSampling },
		`accountant is "pure"`:     func(s *Statement) { s.Noise = FloatGaussianNoise },
	} {
		s := s
		if change(&s); s.Validate() == nil || !strings.Contains(s.Validate().Error(), reason) {
			t.Errorf("%v; want %s", s.Validate(), reason)
		}
	}
}

// Each pair is judged by the definitions of [Label] and [PrivatePart]: one example has another value.
func TestStatementOfALabel(t *testing.T) {
	of := func(u Unit, r Relation, s Sampling) Statement {
		return Statement{Epsilon: 1, Delta: 1e-6, Unit: u, Relation: r, Accountant: PLD, Sampling: s, Noise: FloatGaussianNoise}
	}
	for _, good := range []Statement{of(Example, Label, NoSampling), of(Example, Label, PoissonSampling), of(Example, PrivatePart, PoissonSampling)} {
		if err := good.Validate(); err != nil {
			t.Error(err)
		}
	}
	if got, want := of(Example, Label, NoSampling).String(), "unit=example, relation=label"; !strings.Contains(got, want) {
		t.Errorf("the statement is %s; it must say %s", got, want)
	}
	if line := of(Example, Label, NoSampling).ReplacementLine(Problem{}); line != "" {
		t.Errorf("%q; the relation is one of replacement already", line)
	}
	for _, bad := range []Statement{
		of(User, Label, NoSampling), of(Rating, Label, NoSampling), of(User, PrivatePart, NoSampling),
		of(Example, ZeroOut, NoSampling), of(Example, AddRemove, NoSampling),
	} {
		if bad.Validate() == nil {
			t.Errorf("%v was taken", bad)
		}
	}
}
