package ease

import "math"

// popularityOf turns noisy counts into positive numbers in their order. A number is the mean of an item's true count
// given its noisy one, by the distribution of true counts that explains all noisy counts best (Robbins 1956). So the many
// items without likes hardly weigh beside the few with many, and a user's taste does not raise items that noise alone raised.
// Exact counts stay; those near zero fall exponentially. A count that is no number is a zero.
func (p *params) popularityOf(counts []float64) []float64 {
	out := make([]float64, len(counts))
	for j, c := range counts {
		if out[j] = c; math.IsNaN(c) {
			out[j] = 0
		}
	}
	if p.noise > 0 {
		prior := priorOf(out, p.noise)
		for j, c := range out {
			out[j] = p.noise * prior.mean(c/p.noise)
		}
		return out
	}
	for j, c := range out {
		if !(c > p.least) || math.IsInf(c, 0) {
			out[j] = p.least * math.Exp(max(-600, min(0, c/p.least-1)))
		}
	}
	return out
}

// prior is a distribution of true counts in deviations of their noise: the chance of each height.
type prior [40]float64

const (
	highest = 8   // deviations; larger counts are shifted like the highest
	ratio   = 1.2 // of a height to the next lower one
	perBin  = 8   // bins of a deviation
	fits    = 100
)

var heights = func() (h prior) {
	for k := range h {
		h[k] = highest * math.Pow(ratio, float64(k+1-len(h)))
	}
	return h
}()

// priorOf fits the chances to counts by expectation and maximization over bins.
func priorOf(counts []float64, deviation float64) (q prior) {
	var bins [2*highest*perBin + 1]float64
	for _, c := range counts {
		bins[int(math.Round((within(c/deviation)+highest)*perBin))]++
	}
	var likely [len(bins)]prior
	for b := range likely {
		likely[b] = likelihood(float64(b)/perBin - highest)
	}
	for k := range q {
		q[k] = 1 / float64(len(q))
	}
	for range fits {
		var next prior
		for b, n := range bins {
			sum := 0.
			for k, l := range likely[b] {
				sum += l * q[k]
			}
			for k, l := range likely[b] {
				next[k] += n / float64(len(counts)) * l * q[k] / sum
			}
		}
		q = next
	}
	return q
}

func within(x float64) float64 { return max(-highest, min(highest, x)) }

// likelihood of each height, up to a factor that keeps it from vanishing for all.
func likelihood(x float64) (l prior) {
	for k, h := range heights {
		l[k] = math.Exp(min(x, 0)*h + (max(x, 0)*h*2-max(x, 0)*max(x, 0)-h*h)/2)
	}
	return l
}

// mean is the mean height given a noisy one. It ascends.
func (q prior) mean(x float64) float64 {
	at, sum, mean := within(x), 0., 0.
	for k, l := range likelihood(at) {
		sum += l * q[k]
		mean += l * q[k] * heights[k]
	}
	return (mean/sum + min(1e300, max(0, x-at))) * math.Exp(max(-600, min(0, x-at)))
}
