package fmf

import (
	"math"
	"testing"

	"github.com/fedsim/fedsim/dp"
)

// By hand, n = 10,000, ε₀ = 1, δ = 1e-6: e·ln(4e6)/n = 0.00413227, 8 times its root 0.514262, 8e/n = 0.00217463, tanh(1/2) = 0.462117, ln(1 + 0.238654) = 0.214026.
func TestAmplifiedByHand(t *testing.T) {
	got, ok := amplified(1, 10_000, 1e-6)
	if !ok || math.Abs(got-0.214026) > 2e-6 {
		t.Errorf("%v, %v; want 0.214026", got, ok)
	}
	// 16·ln(2e6) = 232.1, and ln(n/232.1) reaches 1 at n = 631.
	if _, ok := amplified(1, 630, 1e-6); ok {
		t.Error("630 users are said to be enough for ε₀ = 1")
	}
	if _, ok := amplified(1, 632, 1e-6); !ok {
		t.Error("632 users are said not to be enough for ε₀ = 1")
	}
}

// The oracle is the shuffled randomised response of n users, whose view is the number of yes
// answers. All other users hold no; one user holds no or yes. The number is binomial except for one
// answer, so that δ at the bound is a sum. The bound must hold, and must be less than ε₀.
func TestShuffledBoundsResponses(t *testing.T) {
	const n, delta = 4000, 1e-5
	for _, local := range []float64{0.2, 1, 2} {
		bound, ok := amplified(local, n, delta)
		if !ok || bound >= local {
			t.Fatalf("ε₀ = %v: %v, %v", local, bound, ok)
		}
		lie := 1 / (1 + math.Exp(local))
		others := make([]float64, n+1) // chance of k yes among n-1
		for k := range n {
			a, _ := math.Lgamma(n)
			b, _ := math.Lgamma(float64(k) + 1)
			c, _ := math.Lgamma(float64(n - k))
			others[k] = math.Exp(a - b - c + float64(k)*math.Log(lie) + float64(n-1-k)*math.Log1p(-lie))
		}
		up, down := 0., 0.
		for k := range n + 1 {
			before := 0.
			if k > 0 {
				before = others[k-1]
			}
			yes, no := before*(1-lie)+others[k]*lie, before*lie+others[k]*(1-lie)
			up += max(0, yes-math.Exp(bound)*no)
			down += max(0, no-math.Exp(bound)*yes)
		}
		if max(up, down) > delta {
			t.Errorf("ε₀ = %v: at ε = %v, δ is really %v", local, bound, max(up, down))
		}
	}
}

// The oracle goes through all 2^k answers of both worlds.
func TestComposedDeltaOverAllAnswers(t *testing.T) {
	for _, each := range []float64{0.1, 0.7, 3} {
		for k := 1; k <= 8; k++ {
			for _, epsilon := range []float64{0, 0.3, each, 2.5 * each} {
				want, p := 0., 1/(1+math.Exp(-each))
				for answers := range 1 << k {
					a, b := 1., 1.
					for i := range k {
						if answers>>i&1 == 1 {
							a, b = a*p, b*(1-p)
						} else {
							a, b = a*(1-p), b*p
						}
					}
					want += max(0, a-math.Exp(epsilon)*b)
				}
				if got := composedDelta(each, k, epsilon); math.Abs(got-want) > 1e-12 {
					t.Errorf("%d of %v at %v: %v, want %v", k, each, epsilon, got, want)
				}
			}
		}
	}
}

// The ε₀ that is found costs the target, and 1.001·ε₀ costs more. If amplification is the better
// bound, ε₀ is above the ε₀ of composition alone.
func TestLocalFor(t *testing.T) {
	for _, c := range []struct {
		epsilon       float64
		users, rounds int
	}{{1, 600, 10}, {5, 600, 10}, {1, 70_000, 10}, {0.1, 70_000, 1}, {8, 10, 3}} {
		l := LocalFor(c.epsilon, 1e-5, c.users, c.rounds)
		if got := l.Shuffled(1e-5); got > c.epsilon {
			t.Errorf("%+v: ε₀ = %v costs %v", c, l.Epsilon, got)
		}
		l.Epsilon *= 1.001
		if got := l.Shuffled(1e-5); got <= c.epsilon {
			t.Errorf("%+v: ε₀ = %v costs only %v", c, l.Epsilon, got)
		}
		if l.Total() != float64(c.rounds)*l.Epsilon {
			t.Errorf("%+v: without a shuffler it costs %v", c, l.Total())
		}
	}
	few := LocalFor(1, 1e-5, 600, 10)
	many := LocalFor(1, 1e-5, 70_000, 10)
	if many.Epsilon < 3*few.Epsilon {
		t.Errorf("ε₀ is %v of 600 users and %v of 70,000: nothing is amplified", few.Epsilon, many.Epsilon)
	}
}

// The statement for a shuffler also says what holds without trust in it.
func TestShuffledStatement(t *testing.T) {
	s := dp.Statement{Epsilon: 1, Delta: 1e-5, Unit: dp.User, Relation: dp.ZeroOut, Accountant: dp.Shuffling, Sampling: dp.NoSampling, Noise: dp.RandomizedResponse, Trust: dp.Shuffler, LocalEpsilon: 1.5}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	if got, want := s.String(), "(epsilon=1, delta=1e-05, unit=user, relation=zero-out, accountant=shuffling, sampling=none, noise=randomized-response, trust=shuffler, local_epsilon=1.5)"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
	var back dp.Statement
	if b, err := s.MarshalJSON(); err != nil || back.UnmarshalJSON(b) != nil || back != s {
		t.Errorf("%+v came back as %+v, %v", s, back, err)
	}
	if s.LocalEpsilon = 0; s.Validate() == nil {
		t.Error("a shuffler was trusted without a word of what holds else")
	}
}
