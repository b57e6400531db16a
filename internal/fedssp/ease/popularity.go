package ease

import (
	"math"
	"slices"
	"strconv"

	"github.com/fedsim/fedsim/dataset"
)

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
			if n == 0 {
				continue
			}
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

// A user's taste for years of release. Items of the years around a liked one are likely, too. The share of each year among
// the user's items is smoothed by a normal kernel, and compared with the share that it has in popularity. A prior of some items
// liked by popularity alone holds users of few items. Where n items differ no more than chance explains, nothing is kept.
//
// p_y is a year's share in popularity, e_y the same smoothed, s_y the user's smoothed share, and k_y the kernel around an item of
// popularity. Chance alone has X² = n·Σ p_y·(s_y/e_y - 1)² about x0 = Σ p_y·Var(k_y)/e_y². Of the difference max(0, 1 - x0/X²) is
// kept, as in [kernel.Order].
const (
	yearsApart = 3   // deviation of the kernel
	priorItems = 15  // of the prior
	yearWeight = 0.8 // of the logarithm: genres and pairs tell a part of the same
)

// years is the taste of users for years, given what is popular.
type years struct {
	of     []int     // of each item, from 0 on; -1: unknown
	shares []float64 // of each year in popularity
	usual  []float64 // smoothed
	chance float64   // x0
}

// yearsIn takes the years of items out of their features: the first category of one number of four digits for each item, or
// none. Without such a category all features are others.
func yearsIn(f *dataset.ItemFeatures) (of []int, others *dataset.ItemFeatures) {
	if f == nil {
		return nil, nil
	}
	at := slices.IndexFunc(f.Categories, func(c dataset.Category) bool {
		of = of[:0]
		for j := range f.Items {
			year, values := -1, c.Value[c.Start[j]:c.Start[j+1]]
			if len(values) > 0 {
				year, _ = strconv.Atoi(c.Values[values[0]])
				if year < 1000 || year > 9999 || len(values) > 1 {
					return false
				}
			}
			of = append(of, year)
		}
		return true
	})
	if at < 0 {
		return nil, f
	}
	rest := *f
	rest.Categories = slices.Delete(slices.Clone(f.Categories), at, at+1)
	return of, &rest
}

// newYears returns nil where no year is known.
func newYears(of []int, popular []float64) *years {
	if len(of) == 0 || slices.Max(of) < 0 {
		return nil
	}
	first := slices.Max(of)
	for _, year := range of {
		if year >= 0 {
			first = min(first, year)
		}
	}
	n := slices.Max(of) - first + 1
	y := &years{of: make([]int, len(of)), shares: make([]float64, n), usual: make([]float64, n)}
	total, squares := 0., make([]float64, n) // means of k_y²
	for j, year := range of {
		if y.of[j] = max(-1, year-first); year >= 0 {
			y.shares[year-first] += popular[j]
			total += popular[j]
		}
	}
	for year := range y.shares {
		y.shares[year] /= total
		spread(y.usual, year, y.shares[year], yearsApart)
		spread(squares, year, y.shares[year], yearsApart/math.Sqrt2)
	}
	for year, share := range y.shares {
		if e := y.usual[year]; share > 0 {
			y.chance += share * (squares[year] - e*e) / (e * e)
		}
	}
	return y
}

// spread adds a normal kernel around a year.
func spread(to []float64, year int, height, deviation float64) {
	for at := max(0, year-6*yearsApart); at < min(len(to), year+6*yearsApart+1); at++ {
		d := float64(at-year) / deviation
		to[at] += height * math.Exp(-d*d/2)
	}
}

// rank adds the user's taste to scores.
func (y *years) rank(history []int32, scores []float64) {
	own, n := make([]float64, len(y.usual)), 0.
	for _, j := range history {
		if y.of[j] >= 0 {
			spread(own, y.of[j], 1, yearsApart)
			n++
		}
	}
	apart := 0.
	for year, share := range y.shares {
		if share > 0 {
			own[year] = own[year]/n/y.usual[year] - 1
			apart += n * share * own[year] * own[year]
		}
	}
	if !(apart > y.chance) {
		return
	}
	keep := (1 - y.chance/apart) * n / (n + priorItems)
	for year := range own {
		own[year] = yearWeight * math.Log1p(keep*own[year])
	}
	for j, year := range y.of {
		if year >= 0 {
			scores[j] += own[year]
		}
	}
}
