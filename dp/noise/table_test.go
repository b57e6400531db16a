package noise

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// cumulative returns entry i of t as the exact numerator over 2^128 of
// P(X <= t.first + i).
func cumulative(t *table, i int) *big.Int {
	z := toBig(t.lo[i], t.hi[i])
	return z.Add(z, big.NewInt(1))
}

// prob returns the probability of entry i as the nearest float64.
func prob(t *table, i int) float64 {
	p := cumulative(t, i)
	if i > 0 {
		p.Sub(p, cumulative(t, i-1))
	}
	f, _ := new(big.Float).SetMantExp(new(big.Float).SetInt(p), -128).Float64()
	return f
}

// checkExact compares a table with exact weights of 0, 1, 2, ... No cumulative probability may be
// off by more than the 1.5 units of 2^-128 that newTable states for scaling. No cut tail may have
// more than 2^-120, 256 units.
func checkExact(t *testing.T, tab *table, weights []*big.Float) {
	t.Helper()
	const tail = 256
	total := new(big.Float).SetPrec(600)
	for _, w := range weights {
		total.Add(total, w)
	}
	sum := new(big.Float).SetPrec(600)
	last := tab.first + uint64(len(tab.hi)) - 1
	if last >= uint64(len(weights)) {
		t.Fatalf("the table ends at %d, the exact weights at %d", last, len(weights)-1)
	}
	for k, w := range weights {
		sum.Add(sum, w)
		units := new(big.Float).Quo(sum, total)
		units.SetMantExp(units, 128)
		switch k := uint64(k); {
		case k < tab.first:
			if units.Cmp(big.NewFloat(tail+1.5)) > 0 {
				t.Errorf("%d is missing below the table, with %.0f units up to it", k, units)
			}
		case k < last:
			got := new(big.Float).SetInt(cumulative(tab, int(k-tab.first)))
			if d, _ := new(big.Float).Sub(units, got).Float64(); d < -1e-3 || d > 1.5 {
				t.Errorf("P(X <= %d) is %.2f units of 2^-128 below the exact value, want 0 to 1.5", k, d)
			}
		case k == last:
			rest := new(big.Float).Sub(new(big.Float).SetMantExp(big.NewFloat(1), 128), units)
			if rest.Cmp(big.NewFloat(tail)) > 0 {
				t.Errorf("%.0f units are missing above the table's last entry %d", rest, last)
			}
		}
	}
}

// TestPoissonTableExact: exact values mean^k/k! from powers and factorials of
// math/big, each term on its own.
func TestPoissonTableExact(t *testing.T) {
	for _, mean := range []float64{1e-300, 1e-3, 0.3, 1, 7.5, 8, 300} {
		t.Run(fmt.Sprint(mean), func(t *testing.T) {
			r := new(big.Rat).SetFloat64(mean)
			var weights []*big.Float
			power := big.NewRat(1, 1)
			for k := range int64(3*mean) + 60 {
				term := new(big.Float).SetPrec(600).SetRat(power)
				term.Quo(term, new(big.Float).SetInt(new(big.Int).MulRange(1, k)))
				weights = append(weights, term)
				power = new(big.Rat).Mul(power, r)
			}
			checkExact(t, poissonTable(mean), weights)
		})
	}
}

// TestBinomialTableExact: exact values C(n,k) num^k (den-num)^(n-k), all
// integers.
func TestBinomialTableExact(t *testing.T) {
	for _, c := range []struct{ n, num, den uint64 }{
		{1, 1, 2}, {1, 7, 9}, {5, 1, 1000}, {40, 7, 9}, {500, 7, 9}, {500, 1, 1000}, {700, 999, 1000},
		{15, MaxRatio - 1, MaxRatio}, {15, 1, MaxRatio}, {15, MaxRatio / 2, MaxRatio},
	} {
		t.Run(fmt.Sprintf("%d,%d_%d", c.n, c.num, c.den), func(t *testing.T) {
			var weights []*big.Float
			for k := range int64(c.n) + 1 {
				w := new(big.Int).Binomial(int64(c.n), k)
				w.Mul(w, new(big.Int).Exp(toBig(c.num), big.NewInt(k), nil))
				w.Mul(w, new(big.Int).Exp(toBig(c.den-c.num), big.NewInt(int64(c.n)-k), nil))
				weights = append(weights, new(big.Float).SetPrec(600).SetInt(w))
			}
			checkExact(t, binomialTable(c.n, c.num, c.den), weights)
		})
	}
}

// deviance returns k ln(k/m) + m - k without its cancellation.
func deviance(k, m float64) float64 {
	x := (k - m) / m
	return m * ((1+x)*math.Log1p(x) - x)
}

// stirling returns ln k! - ln(sqrt(2πk) (k/e)^k) for k >= 1000: the asymptotic
// series, whose next term is below 1e-18 there.
func stirling(k float64) float64 {
	return 1/(12*k) - 1/(360*k*k*k)
}

// poissonProb is the probability from Stirling's series, to about 1e-10 for means from
// 1e4 to 2^30: no recurrence and no gamma function.
func poissonProb(k, mean float64) float64 {
	return math.Exp(-deviance(k, mean)-stirling(k)) / math.Sqrt(2*math.Pi*k)
}

// TestPoissonTableLarge compares whole tables, up to the largest, with Stirling's series, relative
// to 1e-9, wherever 2^-128 is fine enough for that. It checks that the largest stays below the 2^20
// entries that the error bound assumes.
func TestPoissonTableLarge(t *testing.T) {
	for _, mean := range []float64{1e4, 1e6 + 0.125, maxTableMean} {
		tab := poissonTable(mean)
		checkLarge(t, fmt.Sprintf("Poisson(%g)", mean), tab, func(k float64) float64 { return poissonProb(k, mean) })
	}
}

// TestBinomialTableLarge compares whole binomial tables with a ratio of three Poisson
// probabilities: P(k; nr) P(n-k; n(1-r)) / P(n; n).
func TestBinomialTableLarge(t *testing.T) {
	for _, c := range []struct {
		n   uint64
		r   float64
		num uint64
		den uint64
	}{{1e5, 0.75, 3, 4}, {1e7, 7. / 9, 7, 9}, {2 * maxTableMean, 0.5, 1, 2}} {
		n := float64(c.n)
		tab := binomialTable(c.n, c.num, c.den)
		checkLarge(t, fmt.Sprintf("Binomial(%d, %d/%d)", c.n, c.num, c.den), tab, func(k float64) float64 {
			return poissonProb(k, n*c.r) * poissonProb(n-k, n*(1-c.r)) / poissonProb(n, n)
		})
	}
}

func checkLarge(t *testing.T, name string, tab *table, want func(k float64) float64) {
	t.Helper()
	// The weights computed reach to 2^-140, the entries kept to 2^-120; Gaussian
	// tails are wider by sqrt(140/120) < 1.09 there.
	if n := 1.09 * float64(len(tab.hi)); n >= 1<<20 {
		t.Errorf("%s: %d entries, the error bound allows 2^20/1.09", name, len(tab.hi))
	}
	step := max(1, len(tab.hi)/20_000)
	compared := 0
	for i := step; i < len(tab.hi)-1; i += step {
		w := want(float64(tab.first + uint64(i)))
		if w < 0x1p-90 {
			continue
		}
		compared++
		if got := prob(tab, i); math.Abs(got/w-1) > 1e-9 {
			t.Fatalf("%s: probability of %d is %v, Stirling's series says %v", name, tab.first+uint64(i), got, w)
		}
	}
	if compared < 1000 {
		t.Errorf("%s: only %d entries were compared", name, compared)
	}
}

// TestTableGonum: probabilities of gonum, which come from math.Lgamma, good to
// 1e-10 at these sizes.
func TestTableGonum(t *testing.T) {
	for _, mean := range []float64{0.3, 1, 7.5, 300, 1e4} {
		tab, want := poissonTable(mean), distuv.Poisson{Lambda: mean}
		checkGonum(t, fmt.Sprintf("Poisson(%g)", mean), tab, want.Prob)
	}
	for _, n := range []uint64{5, 300, 10_000} {
		tab, want := binomialTable(n, 70, 90), distuv.Binomial{N: float64(n), P: 70. / 90}
		checkGonum(t, fmt.Sprintf("Binomial(%d, 70/90)", n), tab, want.Prob)
	}
}

func checkGonum(t *testing.T, name string, tab *table, want func(float64) float64) {
	t.Helper()
	compared := 0.0
	for i := range tab.hi {
		w := want(float64(tab.first + uint64(i)))
		if w < 0x1p-90 {
			continue
		}
		compared += w
		if got := prob(tab, i); math.Abs(got/w-1) > 1e-10 {
			t.Errorf("%s: probability of %d is %v, gonum says %v", name, tab.first+uint64(i), got, w)
		}
	}
	if compared < 1-1e-9 {
		t.Errorf("%s: the probabilities compared sum to %v, want 1", name, compared)
	}
}

// TestTableSumsToOne: the last cumulative probability is 2^128/2^128, and none
// falls.
func TestTableSumsToOne(t *testing.T) {
	one := new(big.Int).Lsh(big.NewInt(1), 128)
	for name, tab := range map[string]*table{
		"Poisson(1e-300)":       poissonTable(1e-300), // a single entry
		"Poisson(0.3)":          poissonTable(0.3),
		"Poisson(1e4)":          poissonTable(1e4),
		"Binomial(1, 1/2)":      binomialTable(1, 1, 2),
		"Binomial(7, 70/90)":    binomialTable(7, 70, 90),
		"Binomial(100000, 1/3)": binomialTable(100_000, 1, 3),
	} {
		if got := cumulative(tab, len(tab.hi)-1); got.Cmp(one) != 0 {
			t.Errorf("%s: probabilities sum to %v/2^128", name, got)
		}
		for i := 1; i < len(tab.hi); i++ {
			if cumulative(tab, i).Cmp(cumulative(tab, i-1)) < 0 {
				t.Errorf("%s: cumulative probability falls at entry %d", name, i)
			}
		}
	}
}

// TestTableDraw feeds the 128-bit integers on both sides of every boundary of a table to draw. By
// inversion the boundary belongs to the entry, and its successor to the next entry with any mass.
// The second word is read if the first decides nothing, and only then.
func TestTableDraw(t *testing.T) {
	for name, tab := range map[string]*table{
		"Poisson(0.3)":     poissonTable(0.3),
		"Poisson(300)":     poissonTable(300),
		"Poisson(1e5)":     poissonTable(1e5), // neighbours in the tails share their first word
		"Binomial(1, 7/9)": binomialTable(1, 7, 9),
	} {
		shared := 0
		for i := range tab.hi {
			next := i + 1
			for next < len(tab.hi) && tab.hi[next] == tab.hi[i] && tab.lo[next] == tab.lo[i] {
				next++
			}
			if i > 0 && tab.hi[i] == tab.hi[i-1] {
				shared++
				if tab.lo[i] == tab.lo[i-1] {
					continue // an entry without mass
				}
			}
			checkDraw(t, name, tab, tab.hi[i], tab.lo[i], i)
			if next == len(tab.hi) {
				continue
			}
			hi, lo := tab.hi[i], tab.lo[i]+1
			if lo == 0 {
				hi++
			}
			checkDraw(t, name, tab, hi, lo, next)
		}
		if name == "Poisson(1e5)" && shared == 0 {
			t.Errorf("%s: no neighbours share their first word; the test does not test ties", name)
		}
	}
}

func checkDraw(t *testing.T, name string, tab *table, hi, lo uint64, entry int) {
	t.Helper()
	stream := binary.LittleEndian.AppendUint64(nil, hi)
	stream = binary.LittleEndian.AppendUint64(stream, lo)
	b := NewBits(bytes.NewReader(stream))
	if got, want := tab.draw(b), tab.first+uint64(entry); got != want {
		t.Fatalf("%s: %#x:%016x gives %d, want %d", name, hi, lo, got, want)
	}
	tie := false
	for i := max(0, entry-1); i <= entry; i++ {
		tie = tie || tab.hi[i] == hi
	}
	if read := b.pos / 8; tie && read != 2 || !tie && read != 1 {
		t.Fatalf("%s: %#x:%016x read %d words; first word decides nothing: %v", name, hi, lo, read, tie)
	}
}
