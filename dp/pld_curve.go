package dp

import (
	"math"
	"math/cmplx"
)

// lossCurve bounds δ as a function of ε, for a composition in one direction.
type lossCurve struct {
	grid      lossGrid
	direction direction
	releases  float64
	logMoment float64      // log M of the whole composition
	inflate   float64      // factor for the error of the masses
	lost      float64      // probability of what was cut off
	terms     []complex128 // Fourier series of δ·e^(λε)/M
	slack     float64      // bound on the error of terms
}

// newLossCurve prepares a curve for chernoff; the other methods need its transform.
func newLossCurve(grid lossGrid, d direction, parts []lossPart, spectra []*spectrum) *lossCurve {
	c := &lossCurve{grid: grid, direction: d}
	var logInflate float64
	for i, s := range spectra {
		n := float64(parts[i].count)
		c.releases += n
		c.logMoment += n * s.logMoment
		logInflate += n * s.massError
	}
	c.inflate = math.Exp(logInflate)
	c.lost = c.releases * math.Exp(-grid.cut*grid.cut/2)
	return c
}

func (c *lossCurve) tilt() float64 { return c.grid.tilt[c.direction] }

// chernoff bounds δ at eps without the series:
// max(0, 1 - e^-y) <= e^(λy)·sup_t (1 - e^-t)·e^(-λt) at y = L - ε.
func (c *lossCurve) chernoff(eps float64) float64 {
	tilt := c.tilt()
	return c.lost + c.inflate*math.Exp(c.logMoment-tilt*eps-tilt*math.Log1p(1/tilt))/(1+tilt)
}

// transform multiplies the powers of the parts' series.
func (c *lossCurve) transform(parts []lossPart, spectra []*spectrum) {
	size := c.grid.size
	kept, rest := size, 0.
	all := make([]series, len(spectra))
	for i, s := range spectra {
		all[i] = s.series()
		if n := len(all[i].coefficients); n < kept {
			kept, rest = n, all[i].rest
		}
	}
	c.terms = make([]complex128, kept)
	var sum float64 // of the sizes of all coefficients
	for k := range c.terms {
		product := complex(1, 0)
		for i, s := range all {
			product *= power(s.coefficients[k], parts[i].count)
		}
		weight := 2. // for k and N-k
		if k == 0 || 2*k == size {
			weight = 1
		}
		sum += weight * cmplx.Abs(product)
		c.terms[k] = complex(weight/float64(size), 0) * product * c.kernel(k)
	}
	// With e the error of a coefficient c, the error of c^n is at most n·e·(|c|+e)^(n-1): at most
	// 2.2·n·e·|c|^n if |c| >= 1/2, and 1.1·e elsewhere. In a product with other powers, (|c|+e)^n
	// is at most 2·|c|^n, or so small that n·e times it is nothing beside e. Taking powers loses at
	// most 4 roundoffs a factor, adding the terms one for each. No kernel is larger than the first.
	e := fourierError(size) + 4*unitRoundoff
	sum += 2 * rest
	c.slack = real(c.kernel(0)) / float64(size) * (2*rest + (4.4*e*c.releases+unitRoundoff*float64(kept+32))*sum +
		1.1*e*float64(len(parts))*float64(size))
}

// kernel is the geometric sum Σ_{m>0} (1 - e^(-m·step))·r^m with
// r = e^(-λ·step + 2πi·k/N), without cancellation.
func (c *lossCurve) kernel(k int) complex128 {
	sin, _ := math.Sincos(math.Pi * float64(k) / float64(c.grid.size))
	turn, cos := math.Sincos(2 * math.Pi * float64(k) / float64(c.grid.size))
	complement := func(a float64) complex128 { // 1 - e^(-a + 2πi·k/N)
		decay := math.Exp(-a)
		return complex(2*decay*sin*sin-math.Expm1(-a), -decay*turn)
	}
	a := c.tilt() * c.grid.step
	r := complex(math.Exp(-a), 0) * complex(cos, turn)
	return r * complex(-math.Expm1(-c.grid.step), 0) / complement(a) / complement(a+c.grid.step)
}

// power is z^n for n >= 1.
func power(z complex128, n int) complex128 {
	result := complex(1, 0)
	for ; n > 1; n >>= 1 {
		if n&1 == 1 {
			result *= z
		}
		z *= z
	}
	return result * z
}

// delta bounds δ at ε = j·step. It falls with j.
func (c *lossCurve) delta(j int) float64 {
	var sum float64
	turn, mask := 2*math.Pi/float64(c.grid.size), c.grid.size-1
	for k, t := range c.terms {
		sin, cos := math.Sincos(turn * float64(j*k&mask))
		sum += real(t)*cos - imag(t)*sin
	}
	return c.lost + c.inflate*math.Exp(c.logMoment-c.tilt()*float64(j)*c.grid.step)*(max(0, sum)+c.slack)
}

// solve finds the smallest ε at which the bound is at most delta, or limit if that is smaller. From
// one grid point to the next the bound is the chord over e^ε.
func (c *lossCurve) solve(delta, limit float64) lossSolution {
	if c.delta(0) <= delta {
		return lossSolution{}
	}
	step := c.grid.step
	lo, hi := 0, 1 // δ is above delta at lo, and at most delta at hi
	for c.delta(hi) > delta {
		lo, hi = hi, 2*hi
		if float64(lo)*step >= limit || hi <= 0 {
			return lossSolution{epsilon: limit}
		}
	}
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		if c.delta(mid) > delta {
			lo = mid
		} else {
			hi = mid
		}
	}
	above, below := c.delta(lo), c.delta(hi)
	s := lossSolution{epsilon: float64(hi) * step, slope: math.Log(above/below) / step}
	if !math.IsInf(above, 1) {
		part := (above - delta) / (above - below)
		s.epsilon = float64(lo)*step + math.Log1p(part*math.Expm1(step))
	}
	if !(s.epsilon < limit) {
		return lossSolution{epsilon: limit}
	}
	return s
}
