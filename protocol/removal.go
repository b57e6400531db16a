package protocol

import "math"

// Removals of split noise are dense vectors of small integers that reveal
// nothing about what stays, so they travel in the clear and in a Golomb-Rice
// code. Replaced noise does not have that property: its changes are summed under
// masks, at the width of the ring.

// RemovalsSize is the size in bytes of one client's removals, one for each
// release of the plan.
func (p *Plan) RemovalsSize(removals []Integers) int {
	n := 0
	for i, v := range removals {
		if p.Releases[i].Noise.Kind == Replace {
			n += p.Releases[i].packedSize()
		} else {
			n += riceSize(v.Value)
		}
	}
	return n
}

// RemovalSize is the expected size in bytes of one client's removals when
// survivors clients are left: what the answer takes where removals are not drawn
// one by one.
func (p *Plan) RemovalSize(survivors int) int {
	n := 0
	for _, r := range p.Releases {
		switch r.Noise.Kind {
		case Replace:
			n += r.packedSize()
		case Split:
			a := p.Cohort.ShareVariance(r.Noise.Variance)
			b := r.Noise.Variance / float64(p.Cohort.Honest(survivors))
			n += expectedRiceSize(math.Sqrt(max(a-b, 0)), r.Len)
		case NoNoise, Own: // nothing to remove
		}
	}
	return n
}

// riceSize is the length in bytes of the values in the Golomb-Rice code with
// the parameter that suits their mean, the parameter in front.
func riceSize(values []int64) int {
	var sum float64
	for _, v := range values {
		sum += float64(zigzag(v))
	}
	k := riceParameter(sum / float64(len(values)))
	bits := uint64(0)
	for _, v := range values {
		bits += zigzag(v)>>k + 1 + uint64(k)
	}
	return 1 + int((bits+7)/8)
}

// riceParameter suits values of the given mean.
func riceParameter(mean float64) int {
	k := 0
	for k < 62 && float64(uint64(1)<<k) < 0.7*mean {
		k++
	}
	return k
}

// expectedRiceSize is about what riceSize gives for n integers of a bell-shaped
// law of deviation sigma, taken for a rounded normal one: k + 1 bits and, for
// each multiple of 2^k that zigzag reaches, one more.
func expectedRiceSize(sigma float64, n int) int {
	if sigma == 0 {
		return 1 + (n+7)/8
	}
	above := func(n float64) float64 { return math.Erfc((n-0.5)/(sigma*math.Sqrt2)) / 2 } // P[x >= n]
	// zigzag is 2|x|, less 1 for negative x.
	k := riceParameter(2*sigma*math.Sqrt(2/math.Pi) - above(1))
	bits := float64(k + 1)
	for j := 1; ; j++ {
		reach := math.Ldexp(float64(j), k)
		p := above(math.Ceil(reach/2)) + above(math.Ceil((reach+1)/2))
		bits += p
		if p < 1e-6 {
			break
		}
	}
	return 1 + int(math.Ceil(bits*float64(n)/8))
}

func zigzag(v int64) uint64 { return uint64(v<<1) ^ uint64(v>>63) }
