package dp

import (
	"math"
	"math/bits"
	"math/cmplx"

	"gonum.org/v1/gonum/dsp/fourier"
	"gonum.org/v1/gonum/integrate/quad"
)

// mixture is the pair N(0, z²) and (1-q)·N(0, z²) + q·N(1, z²), for oracles that
// share no code with the accountant.
type mixture struct{ z, q float64 }

func (m mixture) event() Event {
	if m.q == 1 {
		return Gaussian(m.z)
	}
	return SubsampledGaussian(m.z, m.q)
}

// tail is P[N(mean, z²) > x].
func (m mixture) tail(x, mean float64) float64 { return math.Erfc((x-mean)/(m.z*math.Sqrt2)) / 2 }

// loss is log of the mixture's density over the Gaussian's, by logAddExp.
func (m mixture) loss(x float64) float64 {
	u := (2*x - 1) / (2 * m.z * m.z)
	if m.q == 1 {
		return u
	}
	if small := m.q * math.Expm1(u); math.Abs(small) < 1e-3 {
		return math.Log1p(small)
	}
	a, b := math.Log(1-m.q), math.Log(m.q)+u
	return max(a, b) + math.Log1p(math.Exp(-math.Abs(a-b)))
}

// threshold returns the x at which the loss is eps; -Inf if the loss is always above.
func (m mixture) threshold(eps float64) float64 {
	if m.q == 1 {
		return m.z*m.z*eps + 0.5
	}
	ratio := (math.Exp(eps) - 1 + m.q) / m.q
	if math.Abs(eps) < 0.1 {
		ratio = 1 + math.Expm1(eps)/m.q
	}
	if ratio <= 0 {
		return math.Inf(-1)
	}
	return m.z*m.z*math.Log(ratio) + 0.5
}

// delta is the closed form for one release at any real ε: the probability of the set where the loss
// is above ε, minus e^ε times the set's probability under the other side. Far out, where the two
// cancel, it is integrated instead.
func (m mixture) delta(d direction, eps float64) float64 {
	if d == removed {
		x := m.threshold(eps)
		gaussian, shifted := m.tail(x, 0), m.tail(x, 1)
		p := (1-m.q)*gaussian + m.q*shifted
		if diff := p - math.Exp(eps)*gaussian; diff > 1e-6*p {
			return diff
		}
		return m.integrate(x, max(x, 1)+40*m.z, func(x float64) float64 {
			return m.density(d, x) * max(0, -math.Expm1(eps-m.loss(x)))
		})
	}
	x := m.threshold(-eps) // loss below -eps: outcomes below x
	gaussian, shifted := m.tail(-x, 0), m.tail(1-x, 0)
	q := (1-m.q)*gaussian + m.q*shifted
	if diff := gaussian - math.Exp(eps)*q; diff > 1e-6*gaussian {
		return diff
	}
	return m.integrate(min(x, 0)-40*m.z, x, func(x float64) float64 {
		return m.density(d, x) * max(0, -math.Expm1(eps+m.loss(x)))
	})
}

// density returns the density of the side that the loss is drawn from.
func (m mixture) density(d direction, x float64) float64 {
	normal := func(x float64) float64 { return math.Exp(-x*x/(2*m.z*m.z)) / (m.z * math.Sqrt(2*math.Pi)) }
	if d == added {
		return normal(x)
	}
	return (1-m.q)*normal(x) + m.q*normal(x-1)
}

// integrate uses gonum's Gauss-Legendre points on panels of a quarter deviation.
func (m mixture) integrate(low, high float64, f func(float64) float64) float64 {
	return m.panels(low, high, m.z/4, 12, f)
}

func (m mixture) panels(low, high, width float64, points int, f func(float64) float64) float64 {
	if !(low < high) {
		return 0
	}
	panels := math.Ceil((high - low) / width)
	sum := 0.0
	for i := range int(panels) {
		sum += quad.Fixed(f, low+float64(i)*(high-low)/panels, low+float64(i+1)*(high-low)/panels, points, quad.Legendre{}, 0)
	}
	return sum
}

// exactDelta returns δ of one or two releases, in the dearer direction. For two releases it
// integrates the closed form for one over the outcomes of the other.
func exactDelta(eps float64, parts ...mixture) (most float64) {
	for d := range directions {
		if len(parts) == 1 {
			most = max(most, parts[0].delta(d, eps))
			continue
		}
		a, b := parts[0], parts[1]
		// Narrow panels: all the curvature of b's δ is close to ±log(1-q).
		most = max(most, a.panels(-9*a.z, 1+9*a.z, a.z/80, 12, func(x float64) float64 {
			l := a.loss(x)
			if d == added {
				l = -l
			}
			return a.density(d, x) * b.delta(d, eps-l)
		}))
	}
	return most
}

// tight fails the test unless eps is a bound for the releases at delta (to 1e-7, the error of the
// quadrature). eps may exceed the least bound by at most grid, relative to ε or to the change of ε
// that changes δ by a factor of e.
func tight(t fataler, eps, delta, grid float64, parts ...mixture) {
	t.Helper()
	at := exactDelta(eps, parts...)
	if !(at <= delta*(1+1e-7)) {
		t.Fatalf("%v at δ = %v: ε = %.9g is not a bound: δ(ε) = %.9g", parts, delta, eps, at)
	}
	slope := math.Log(exactDelta(eps*0.999, parts...)/at) / (eps * 0.001)
	if lower := eps - grid*max(eps, 1/slope); !(lower < 0 || exactDelta(lower, parts...) > delta) {
		t.Fatalf("%v at δ = %v: ε = %.9g is not tight: %.9g is a bound, too", parts, delta, eps, lower)
	}
}

type optimisticPart struct {
	mixture
	count int
}

// optimisticEpsilon returns a lower bound on ε, in the direction of removal. It puts outcomes into
// bins, whose losses are the losses of the bins' masses (which is post-processing), and rounds them
// down to the grid. Bins are the grid's cells around its points, shifted up by a little, so that
// most losses are rounded by that little.
//
// A plain circular convolution composes the losses. The mass that wraps around is below 1e-12 if no
// loss is much larger than the deviation of their sum, and so is the transform's error.
func optimisticEpsilon(parts []optimisticPart, delta, step float64) float64 {
	var variance, drift, shift float64
	for _, p := range parts {
		moment := func(k float64) float64 {
			return p.integrate(-12*p.z, 1+12*p.z, func(x float64) float64 {
				return p.density(removed, x) * math.Pow(p.loss(x), k)
			})
		}
		mean := moment(1)
		one := moment(2) - mean*mean
		variance += float64(p.count) * one
		drift += float64(p.count) * mean
		// A bin's loss is off its middle by step²/12 times the slope of log p.
		shift = max(shift, step*step/(2*math.Sqrt(one)))
	}
	width := drift + 14*math.Sqrt(variance) + 4
	n := 1 << bits.Len(uint(width/step))
	fft := fourier.NewFFT(n)
	var product []complex128
	for i, p := range parts {
		for k, c := range fft.Coefficients(nil, p.optimistic(step, shift, n)) {
			if i == 0 {
				product = append(product, 1)
			}
			product[k] *= polarPower(c, p.count)
		}
	}
	masses := fft.Sequence(nil, product)
	above := func(eps float64) bool {
		sum := 0.0
		for j := int(eps / step); j < n/2 && sum <= delta; j++ {
			sum += masses[j] / float64(n) * max(0, -math.Expm1(eps-float64(j)*step))
		}
		return sum > delta
	}
	lo, hi := 0.0, width/2
	for hi-lo > 1e-7 {
		if mid := (lo + hi) / 2; above(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// optimistic is the distribution of one release's loss on a circular grid of n.
func (m mixture) optimistic(step, shift float64, n int) []float64 {
	masses := make([]float64, n)
	x, high := -9*m.z, 1+9*m.z // leaving mass out only lowers δ
	for j := math.Floor(m.loss(x)/step) - 1; x < high; j++ {
		end := min(high, m.threshold((j+0.5)*step+shift))
		if !(end > x) {
			continue
		}
		gaussian, shifted := m.between(x, end, 0), m.between(x, end, 1)
		x = end
		if gaussian < 1e-300 {
			continue
		}
		loss := math.Log1p(m.q * (shifted - gaussian) / gaussian)
		masses[int(math.Floor(loss/step))&(n-1)] += (1-m.q)*gaussian + m.q*shifted
	}
	return masses
}

// between is the mass of N(mean, z²) from x to y, without cancellation.
func (m mixture) between(x, y, mean float64) float64 {
	return m.panels(x, y, m.z/16, 4, func(t float64) float64 {
		return math.Exp(-(t-mean)*(t-mean)/(2*m.z*m.z)) / (m.z * math.Sqrt(2*math.Pi))
	})
}

func polarPower(z complex128, n int) complex128 {
	r, arg := math.Pow(cmplx.Abs(z), float64(n)), cmplx.Phase(z)*float64(n)
	return complex(r*math.Cos(arg), r*math.Sin(arg))
}
