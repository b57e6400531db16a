package dp

import (
	"math"
	"math/cmplx"
	"sync"

	"gonum.org/v1/gonum/dsp/fourier"
)

// spectrum holds the tilted masses of one release on a grid, in one direction, and their transform.
type spectrum struct {
	logMoment float64 // log Σ_j p_j·e^(λ·l_j), the divisor of the masses
	massError float64 // bound on the relative error of a tilted mass times that sum
	series    func() series
}

// series is Σ_j p̃_j·e^(-2πi·jk/N) for k = 0 to N/2, up to where the requested powers vanish. p̃
// are the tilted masses.
type series struct {
	coefficients []complex128
	rest         float64 // bounds the sum of the powers' sizes over the coefficients left out
}

// negligible is the size of a coefficient's power that may be left out.
const negligible = 1e-18

// spectrumKey distinguishes the spectra of one loss.
type spectrumKey struct {
	cut, step, tilt float64
	size            int
	direction       direction
	power           float64 // the smallest power that will be asked for
}

// spectrumCache keeps the latest masses and spectra of a loss. Safe for
// concurrent use.
type spectrumCache struct {
	mu      sync.Mutex
	masses  *lossMasses
	spectra map[spectrumKey]*spectrum
}

// maxSpectra bounds the memory of a loss that many compositions hold.
const maxSpectra = 16

// spectrum returns the loss's spectrum for compositions with count releases of it.
func (g *gaussianLoss) spectrum(grid lossGrid, d direction, count int) *spectrum {
	low, _ := countRange(count)
	key := spectrumKey{grid.cut, grid.step, grid.tilt[d], grid.size, g.side(d), low}
	c := &g.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.spectra[key]
	if !ok {
		if c.masses == nil || c.masses.step != grid.step || c.masses.cut != grid.cut {
			c.masses = newLossMasses(g, grid.step, grid.cut)
		}
		if c.spectra == nil || len(c.spectra) >= maxSpectra {
			c.spectra = map[spectrumKey]*spectrum{}
		}
		s = newSpectrum(c.masses, key)
		c.spectra[key] = s
	}
	return s
}

// newSpectrum tilts the masses; the transform waits until it is needed.
func newSpectrum(m *lossMasses, key spectrumKey) *spectrum {
	// The masses are already masses under the mixture.
	slope := (key.direction.order(key.tilt) - 1) * m.step
	tilted := make([]float64, len(m.p))
	top := math.Inf(-1)
	for i, p := range m.p {
		tilted[i] = math.Log(p) + slope*float64(m.first+i)
		top = max(top, tilted[i])
	}
	var sum float64
	for i, t := range tilted {
		tilted[i] = math.Exp(t - top)
		sum += tilted[i]
	}
	for i := range tilted {
		tilted[i] /= sum
	}
	largest := math.Abs(slope) * float64(max(-m.first, m.first+len(m.p)))
	return &spectrum{
		logMoment: top + math.Log(sum),
		massError: massError + 4*unitRoundoff*largest,
		series:    sync.OnceValue(func() series { return transform(key, m.first, tilted) }),
	}
}

// transform wraps the tilted masses, which begin at cell first, around the grid. If the unit is
// added, losses have the other sign.
func transform(key spectrumKey, first int, tilted []float64) series {
	size := key.size
	wrapped := make([]float64, size)
	for i, t := range tilted {
		j := first + i
		if key.direction == added {
			j = -j
		}
		wrapped[j&(size-1)] += t
	}
	c := fourier.NewFFT(size).Coefficients(nil, wrapped)
	kept := len(c)
	for smallest := math.Pow(negligible, 1/key.power); kept > 1 && cmplx.Abs(c[kept-1]) <= smallest; {
		kept--
	}
	return series{
		coefficients: append([]complex128(nil), c[:kept]...),
		rest:         negligible * float64(len(c)-kept),
	}
}

// unitRoundoff is half the distance from 1 to the next float64.
const unitRoundoff = 0x1p-53

// fourierError bounds the error of every coefficient of n non-negative numbers with sum 1. A
// coefficient is their sum with unit factors. A number goes through at most log2(n)/2 + 2 passes,
// with an error of at most 32 roundoffs in each. Up to 26 of them are for a factor, whose angle is
// below 2π and rounded four times; the others are for the arithmetic.
func fourierError(n int) float64 {
	return 32 * unitRoundoff * (math.Log2(float64(n))/2 + 2)
}
