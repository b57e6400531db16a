package secagg

import (
	"fmt"
	"math/big"
	"math/bits"
	"testing"
)

func binomial(n, k int) *big.Int { return new(big.Int).Binomial(int64(n), int64(k)) }

// exactTail is P[X >= x] for the hypergeometric X, as a quotient of integers.
func exactTail(population, marked, sample, x int) *big.Rat {
	sum := new(big.Int)
	for i := max(x, 0, marked+sample-population); i <= min(marked, sample); i++ {
		sum.Add(sum, new(big.Int).Mul(binomial(marked, i), binomial(population-marked, sample-i)))
	}
	return new(big.Rat).SetFrac(sum, binomial(population, sample))
}

// checkBound fails unless got is an upper bound of exact that is at most 2e-8
// above it: roundUp and as much again.
func checkBound(t *testing.T, what string, got float64, exact *big.Rat) {
	t.Helper()
	if f, _ := exact.Float64(); f < 1e-290 {
		if got < 0 || got > 2e-290 {
			t.Errorf("%s: %g, want nothing: the exact value is %g", what, got, f)
		}
		return
	}
	if new(big.Rat).SetFloat64(got).Cmp(exact) < 0 {
		t.Errorf("%s: %v is below the exact value %s", what, got, exact.FloatString(30))
	}
	if f, _ := exact.Float64(); got > f*(1+2e-8) {
		t.Errorf("%s: %v is too far above the exact value %v", what, got, f)
	}
}

// The oracle is the definition, in exact arithmetic.
func TestHypergeometricAgainstRationals(t *testing.T) {
	check := func(population, marked, sample, x int, tail upperTail) {
		checkBound(t, fmt.Sprintf("P[H(%d, %d, %d) >= %d]", population, marked, sample, x),
			tail.atLeast(x), exactTail(population, marked, sample, x))
	}
	for population := 1; population <= 12; population++ {
		for marked := 0; marked <= population; marked++ {
			for sample := 0; sample <= population; sample++ {
				tail := hypergeometric(population, marked, sample)
				for x := -1; x <= sample+1; x++ {
					check(population, marked, sample, x, tail)
				}
			}
		}
	}
	for _, c := range []struct{ population, marked, sample int }{
		{99, 20, 48}, {999, 200, 140}, {999, 100, 900}, {999, 50, 30}, {4999, 1650, 300},
	} {
		tail := hypergeometric(c.population, c.marked, c.sample)
		for x := 0; x <= c.sample+1; x += 1 + c.sample/20 {
			check(c.population, c.marked, c.sample, x, tail)
		}
	}
}

// first must agree with the probabilities, which the rationals vouch for.
func TestFirstIsTheSmallest(t *testing.T) {
	for _, limit := range []float64{0.5, 1e-3, 1e-12, 1e-40} {
		for sample := range 100 {
			tail := hypergeometric(99, 30, sample)
			x := tail.first(limit)
			if p := tail.atLeast(x); p >= limit {
				t.Errorf("sample %d: P[X >= %d] = %g is not below %g", sample, x, p, limit)
			}
			if p := tail.atLeast(x - 1); p < limit {
				t.Errorf("sample %d: %d is not the first: P[X >= %d] = %g is below %g", sample, x, x-1, p, limit)
			}
		}
	}
}

// cuts says for every set of missing clients (a bit each) of the graph whether the
// others fall apart, by searching the graph itself.
func cuts(t *testing.T, n, k int) []bool {
	t.Helper()
	g, err := NewGraph(n, k, [32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	near := make([]uint, n)
	for i := range near {
		for _, j := range g.Neighbours(i) {
			near[i] |= 1 << j
		}
	}
	cut := make([]bool, 1<<n)
	for missing := range cut {
		alive := uint(1<<n-1) &^ uint(missing)
		reached := alive & -alive
		for grown := uint(0); grown != reached; {
			grown = reached
			for i := range near {
				if grown>>i&1 == 1 {
					reached |= near[i] & alive
				}
			}
		}
		cut[missing] = reached != alive
	}
	return cut
}

// fraction is the exact probability that a random set of m of n items has a property.
func fraction(n, m int, has func(set int) bool) *big.Rat {
	var yes int64
	for set := range 1 << n {
		if bits.OnesCount(uint(set)) == m && has(set) {
			yes++
		}
	}
	return new(big.Rat).SetFrac(big.NewInt(yes), binomial(n, m))
}

// The oracle looks at every set of missing clients of small graphs. The bound
// counts pairs of gaps, so it is exact while three do not fit.
func TestCutByChanceAgainstEnumeration(t *testing.T) {
	exact := 0
	for _, c := range []struct{ n, k int }{{9, 2}, {12, 4}, {13, 4}, {13, 6}, {14, 8}} {
		cut := cuts(t, c.n, c.k)
		worst := new(big.Rat)
		for missing := range c.n {
			p := fraction(c.n, missing, func(set int) bool { return cut[set] })
			if p.Cmp(worst) > 0 {
				worst = p
			}
			got := cutByChance(c.n, missing, c.k)
			if new(big.Rat).SetFloat64(got).Cmp(worst) < 0 {
				t.Errorf("n = %d, k = %d: cut with probability %s when at most %d are missing, above the bound %g",
					c.n, c.k, worst.FloatString(12), missing, got)
			}
			if missing < 3*c.k/2 && got < 1 {
				checkBound(t, fmt.Sprintf("n = %d, k = %d, %d missing", c.n, c.k, missing), got, p)
				exact++
			}
		}
	}
	if exact < 20 {
		t.Errorf("only %d bounds were held against the exact probability", exact)
	}
}

// The oracle lets the adversary try every set of drops for every set of colluders.
// The bound is also the mean number of pairs of separate arcs with few enough honest
// clients, which the test counts one by one.
func TestCutByChoiceAgainstEnumeration(t *testing.T) {
	const n = 11
	for _, k := range []int{2, 4, 6, 8} {
		cut := cuts(t, n, k)
		g, err := NewGraph(n, k, [32]byte{1}) // as in cuts
		if err != nil {
			t.Fatal(err)
		}
		arc := func(from int) (set int) {
			for i := range k / 2 {
				set |= 1 << g.ring[(from+i)%n]
			}
			return set
		}
		for colluding := range 5 {
			for lost := range 6 {
				possible := func(colluders int) bool {
					for missing, c := range cut {
						if c && missing&colluders == colluders && bits.OnesCount(uint(missing)) <= colluding+lost {
							return true
						}
					}
					return false
				}
				p := fraction(n, colluding, possible)
				pairs := new(big.Rat)
				for a := range n {
					for b := a + k/2 + 1; b+k/2 < a+n; b++ { // from b on, and both ways a client between
						if b >= n {
							continue // the pair comes the other way round
						}
						both := arc(a) | arc(b)
						pairs.Add(pairs, fraction(n, colluding, func(colluders int) bool {
							return bits.OnesCount(uint(both&^colluders)) <= lost
						}))
					}
				}
				got := cutByChoice(n, colluding, lost, k)
				name := fmt.Sprintf("k = %d, %d colluding, %d lost", k, colluding, lost)
				if new(big.Rat).SetFloat64(got).Cmp(p) < 0 {
					t.Errorf("%s: the cut is possible with probability %s, above the bound %g", name, p.FloatString(12), got)
				}
				if pairs.Cmp(big.NewRat(1, 1)) > 0 {
					pairs.SetInt64(1)
				}
				checkBound(t, name, got, pairs)
			}
		}
	}
}
