package cond

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/fedsim/fedsim/dp/noise"
)

// Against the closed form (1-r)/(1+r)·r^|k| with r = e^-rate, over values shifted to be counts.
func TestLaplaceLaw(t *testing.T) {
	for i, rate := range []ratio{{1, 20}, {3, 7}, {1, 1}, {5, 2}} {
		l := laplace{rate}
		const shift = 10_000
		r, b := math.Exp(-rate.float()), stream(byte(i))
		checkLaw(t, fmt.Sprintf("Laplace(%v)", rate), 100_000, func() uint64 {
			var x [1]int64
			if err := l.add(x[:], b); err != nil {
				t.Fatal(err)
			}
			return uint64(shift + x[0])
		}, func(k float64) float64 { return (1 - r) / (1 + r) * math.Pow(r, math.Abs(k-shift)) })
	}
}

// Against the definition: e^ε/(e^ε + n - 1) for the value itself, 1/(e^ε + n - 1) for each other.
func TestResponseLaw(t *testing.T) {
	for i, c := range []struct {
		n       int
		epsilon ratio
	}{{2, ratio{1, 4}}, {7, ratio{3, 2}}, {10, ratio{4, 1}}} {
		r := responder{uint64(c.n), c.epsilon}
		up, b := math.Exp(c.epsilon.float()), stream(byte(10+i))
		total := up + float64(c.n) - 1
		v := c.n / 2
		checkLaw(t, fmt.Sprintf("Response(%d, %v)", c.n, c.epsilon), 100_000, func() uint64 {
			x := []int{v}
			if err := r.randomise(x, b); err != nil {
				t.Fatal(err)
			}
			return uint64(x[0])
		}, func(k float64) float64 {
			switch {
			case int(k) == v:
				return up / total
			case int(k) < c.n:
				return 1 / total
			}
			return 0
		})
		if want := (up - 1) / total; math.Abs(r.keep()-want) > 1e-15 {
			t.Errorf("%d values: keep is %v; by the definition %v", c.n, r.keep(), want)
		}
	}
}

// A stream that fails gives an error and nothing else, and no sampler waits for it for ever.
func TestLaplaceOfAFailedStream(t *testing.T) {
	l := laplace{ratio{1, 3}}
	x := []int64{5}
	if err := l.add(x, noise.NewBits(iotest.ErrReader(fmt.Errorf("gone")))); err == nil || x[0] != 0 {
		t.Errorf("error %v and %v; it must fail and clear", err, x)
	}
	r := responder{5, ratio{3, 1}}
	v := []int{4}
	if err := r.randomise(v, noise.NewBits(nil)); err == nil || v[0] != 0 {
		t.Errorf("error %v and %v; it must fail and clear", err, v)
	}
	if err := r.randomise([]int{5}, stream(1)); err == nil || !strings.Contains(err.Error(), "from 0 to 4") {
		t.Errorf("value 5 of 5: error is %v", err)
	}
}

// alpha is the false-alarm rate of a statistical test, over the choice of its fixed seed.
const alpha = 1e-6

func stream(seed byte) *noise.Bits { return noise.NewBits(rand.NewChaCha8([32]byte{seed})) }

// chiSquareP returns the p-value of counts against expected counts. It joins neighbours until each
// expects 20 or more.
func chiSquareP(counts, expected []float64) float64 {
	var obs, exp []float64
	var o, e float64
	for i := range counts {
		o, e = o+counts[i], e+expected[i]
		if e >= 20 {
			obs, exp = append(obs, o), append(exp, e)
			o, e = 0, 0
		}
	}
	obs[len(obs)-1] += o
	exp[len(exp)-1] += e
	return distuv.ChiSquared{K: float64(len(obs) - 1)}.Survival(stat.ChiSquare(obs, exp))
}

// checkLaw compares draws with exact probabilities by chi-square at alpha.
func checkLaw(t *testing.T, name string, draws int, draw func() uint64, prob func(float64) float64) {
	t.Helper()
	var counts, expected []float64
	for range draws {
		k := draw()
		for uint64(len(counts)) <= k {
			counts = append(counts, 0)
		}
		counts[k]++
	}
	rest := float64(draws)
	for k := range counts {
		e := float64(draws) * prob(float64(k))
		expected = append(expected, e)
		rest -= e
	}
	counts, expected = append(counts, 0), append(expected, max(0, rest))
	if p := chiSquareP(counts, expected); p < alpha {
		t.Errorf("%s: chi-square p-value %.2g of %d draws, limit %.2g", name, p, draws, alpha)
	}
}
