package dp

import (
	"math"
	"math/big"
	"math/cmplx"
	"testing"

	"gonum.org/v1/gonum/dsp/fourier"
	"pgregory.net/rapid"

	"github.com/fedsim/fedsim/internal/effort"
)

// At every grid point the shared-out masses give δ of one release itself, in both directions:
// sharing keeps δ. The oracle has the closed form.
func TestMassesKeepDelta(t *testing.T) {
	const cut = 12
	for _, m := range []mixture{{1, 0.01}, {0.3, 0.5}, {4, 0.9}, {0.04, 0.2}, {20, 1e-5}, {1, 1}, {0.7, 1 - 1e-9}} {
		g := newGaussianLoss(m.z, m.q)
		highest, _ := g.at(1 + 8*m.z)
		step := highest / 300
		masses := newLossMasses(g, step, cut)
		for d := range directions {
			for _, j := range []int{0, 1, 7, 40, 150, 290} {
				want := m.delta(d, float64(j)*step)
				if want < 1e-14 {
					continue
				}
				got := 0.0
				for i, p := range masses.p {
					l := float64(masses.first+i) * step
					if g.side(d) == added {
						p, l = p*math.Exp(-l), -l
					}
					got += p * max(0, -math.Expm1(float64(j)*step-l))
				}
				if !(math.Abs(got/want-1) <= 1e-9) { // the closed form cancels
					t.Errorf("%v, direction %d: δ(%d steps) = %.12g, want %.12g", m, d, j, got, want)
				}
			}
		}
	}
}

// The loss and its inverse, over all magnitudes, against the oracle's formula.
func TestLossAndOutcome(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := mixture{
			math.Exp(rapid.Float64Range(-5, 5).Draw(t, "log z")),
			math.Exp(rapid.Float64Range(-30, 0).Draw(t, "log q")),
		}
		g := newGaussianLoss(m.z, m.q)
		x := rapid.Float64Range(-10, 10).Draw(t, "score")*m.z + float64(rapid.IntRange(0, 1).Draw(t, "mean"))
		loss, logDensity := g.at(x)
		if want := m.loss(x); !(math.Abs(loss-want) <= 1e-13*math.Abs(want)+1e-15*m.q) {
			t.Fatalf("%v: L(%v) = %v, want %v", m, x, loss, want)
		}
		// Numbers below 2^-1022 have few digits.
		if want := m.density(removed, x) * m.z * math.Sqrt(2*math.Pi); !(math.Abs(math.Exp(logDensity)-want) <= 1e-12*want+0x1p-1064) {
			t.Fatalf("%v: density at %v is %v, want %v", m, x, math.Exp(logDensity), want)
		}
		// Crowded losses have outcomes that cannot be told apart: compare losses.
		if back, _ := g.at(g.outcome(loss)); !(math.Abs(back-loss) <= 1e-13*(math.Abs(loss)+m.q)) {
			t.Fatalf("%v: the loss %v comes back as %v", m, loss, back)
		}
	})
	if x := newGaussianLoss(1, 0.5).outcome(math.Log(0.5)); !math.IsInf(x, -1) {
		t.Errorf("the loss of no outcome is that of %v", x)
	}
}

// Counts of one range share a grid; ranges do not overlap and leave nothing out.
func TestCountRange(t *testing.T) {
	for n, want := range map[int][2]float64{
		1: {1, 1}, 2: {2, 2}, 3: {3, 3}, 4: {4, 4}, 5: {5, 6}, 6: {5, 6}, 7: {7, 8}, 8: {7, 8}, 9: {9, 12}, 12: {9, 12}, 13: {13, 16},
		1000: {769, 1024}, 1025: {1025, 1536}, 1537: {1537, 2048}, math.MaxInt: {0x1.8p62 + 1, 0x1p63},
	} {
		if low, high := countRange(n); low != want[0] || high != want[1] {
			t.Errorf("%d is in %v to %v, want %v", n, low, high, want)
		}
	}
}

// gonum's transform of non-negative numbers with sum 1 keeps the error that is
// charged for it, measured against sums in 200 bits.
func TestFourierError(t *testing.T) {
	effort.NotShort(t, "convolutions take a second")
	for _, n := range []int{1 << 10, 1 << 13, 1 << 16} {
		x := make([]float64, n)
		sum := 0.0
		for i := range x { // a spike, a hump and a tail
			x[i] = math.Exp(-math.Pow(float64(i-n/3)/float64(n/50), 2)) + 1/(1+float64(i*i%977))
			sum += x[i]
		}
		for i := range x {
			x[i] /= sum
		}
		c := fourier.NewFFT(n).Coefficients(nil, x)
		for _, k := range []int{1, 3, n/8 + 1, n / 2} {
			re, im := new(big.Float).SetPrec(200), new(big.Float).SetPrec(200)
			for j, v := range x {
				// Rounding moves the factor at random: at most 2^-53 times Σ|x|.
				sin, cos := math.Sincos(2 * math.Pi * float64(j*k%n) / float64(n))
				re.Add(re, new(big.Float).Mul(big.NewFloat(v), big.NewFloat(cos)))
				im.Sub(im, new(big.Float).Mul(big.NewFloat(v), big.NewFloat(sin)))
			}
			r, _ := re.Float64()
			i, _ := im.Float64()
			if err := cmplx.Abs(c[k] - complex(r, i)); !(err <= fourierError(n)) {
				t.Errorf("n = %d: coefficient %d is off by %.2g, more than %.2g", n, k, err, fourierError(n))
			}
		}
	}
}

// The kernel against its sum, term by term, and powers against the polar form.
func TestKernelAndPower(t *testing.T) {
	c := lossCurve{grid: lossGrid{step: 0.01, size: 1 << 10}, tilt: 3}
	for _, k := range []int{0, 1, 100, 512} {
		var want complex128
		for m := 1.0; m < 2000; m++ {
			angle := 2 * math.Pi * float64(k) / 1024 * m
			want += complex(-math.Expm1(-0.01*m)*math.Exp(-0.03*m), 0) * complex(math.Cos(angle), math.Sin(angle))
		}
		if got := c.kernel(k); !(cmplx.Abs(got-want) <= 1e-12*cmplx.Abs(want)+1e-14) {
			t.Errorf("kernel %d is %v, want %v", k, got, want)
		}
	}
	for _, n := range []int{1, 2, 3, 10, 1000, 12_345} {
		z := cmplx.Rect(0.9999, 0.3)
		if got, want := power(z, n), polarPower(z, n); !(cmplx.Abs(got-want) <= 1e-11*cmplx.Abs(want)) {
			t.Errorf("z^%d is %v, want %v", n, got, want)
		}
	}
}

// The whole curve against convolution written out: the masses of a few releases on the accountant's
// grid, neither tilted nor wrapped, in sums of positive terms. The curve is never below the
// convolution. It is above by the charge for cutting, wrapping and rounding: a share of 1e-5 of δ.
func TestCurveAgainstConvolution(t *testing.T) {
	parts := []lossPart{{newGaussianLoss(1, 0.2), 3}, {newGaussianLoss(2, 1), 1}}
	p := pldComposition{parts: parts, releases: 4}
	for _, delta := range []float64{1e-4, 1e-9} {
		grid, ok := p.plan(delta).grid(parts)
		if !ok {
			t.Fatal("no grid")
		}
		grid.step *= 4 // the same length on fewer cells, for the sake of the oracle
		grid.size /= 4
		for d := range directions {
			spectra := make([]*spectrum, len(parts))
			for i, part := range parts {
				spectra[i] = part.loss.spectrum(grid, d, part.count)
			}
			c := newLossCurve(grid, d, parts, spectra)
			c.transform(parts, spectra)
			whole, first := convolve(parts, grid, d)
			j := int(c.solve(delta, 1e3).epsilon / grid.step)
			want := 0.0
			for i, m := range whole {
				want += m * max(0, -math.Expm1(float64(j-first-i)*grid.step))
			}
			if got := c.delta(j); !(got >= want && got <= want*(1+1e-5)) {
				t.Errorf("direction %d: δ = %.12g, want %.12g or a little more", d, got, want)
			}
			if bound := c.chernoff(float64(j) * grid.step); !(bound >= want) {
				t.Errorf("direction %d: δ is bounded by %v, and is %v", d, bound, want)
			}
		}
	}
}

// convolve returns the masses of all parts' losses together, and the first cell.
func convolve(parts []lossPart, grid lossGrid, d direction) (whole []float64, first int) {
	whole = []float64{1}
	for _, part := range parts {
		m := newLossMasses(part.loss, grid.step, grid.cut)
		one, begin := m.p, m.first
		if part.loss.side(d) == added {
			one = make([]float64, len(m.p))
			begin = -(m.first + len(m.p) - 1)
			for i, p := range m.p {
				one[len(one)-1-i] = p * math.Exp(-float64(m.first+i)*grid.step)
			}
		}
		for range part.count {
			sum := make([]float64, len(whole)+len(one)-1)
			for i, a := range whole {
				for j, b := range one {
					sum[i+j] += a * b
				}
			}
			whole = sum
			first += begin
		}
	}
	return whole, first
}
