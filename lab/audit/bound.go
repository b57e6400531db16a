package audit

import (
	"math"
	"slices"

	"github.com/fedsim/fedsim/lab/internal/binomial"
)

// LowerBound holds an attacker's success on runs that it has not seen, and the ε that this success implies.
type LowerBound struct {
	// Of the runs with the empty unit and with the full one, how many the attacker called
	// full.
	FalsePositives, TruePositives, Runs int
	// Epsilon is the lower bound, and Point the estimate by the counts themselves.
	Epsilon, Point float64
}

// half is the runs that choose an attack, or measure it: a number for each, in both worlds.
type half [worlds][]float64

// called counts the runs of a world whose number is above a threshold.
func (h *half) called(w int, threshold float64) int {
	n := 0
	for _, x := range h[w] {
		if x > threshold {
			n++
		}
	}
	return n
}

// price returns the ε that the rates of an attack imply: the share of empty runs called full, and of full runs.
type price func(falsely, truly float64) float64

// thresholds is the number of thresholds to try. They range from far below to far above the middle of both worlds.
const thresholds = 199

// choose finds the threshold that gives the best bound on the runs that choose.
func (h *half) choose(p price) (threshold, bound float64) {
	pooled := slices.Concat(h[0], h[1])
	slices.Sort(pooled)
	bound = math.Inf(-1)
	for i := 1; i <= thresholds; i++ {
		t := pooled[i*len(pooled)/(thresholds+1)]
		if b := h.measure(t, p, tail).Epsilon; b > bound {
			threshold, bound = t, b
		}
	}
	return threshold, bound
}

// measure prices an attack on these runs. The lower bound is wrong with probability at most wrong.
func (h *half) measure(threshold float64, p price, wrong float64) LowerBound {
	n := len(h[0])
	b := LowerBound{FalsePositives: h.called(0, threshold), TruePositives: h.called(1, threshold), Runs: n}
	b.Epsilon = p(binomial.Upper(b.FalsePositives, n, wrong/2), binomial.Lower(b.TruePositives, n, wrong/2))
	// Half a run more on either side keeps what never happened from being impossible.
	rate := func(k int) float64 { return (float64(k) + 0.5) / (float64(n) + 1) }
	b.Point = p(rate(b.FalsePositives), rate(b.TruePositives))
	return b
}

// event prices one event and its complement, for any mechanism. It returns the least ε at which each is at most
// e^ε times as likely in one world as in the other, plus δ.
func event(delta float64) price {
	return func(falsely, truly float64) float64 {
		e := math.Log((truly - delta) / falsely)
		if c := math.Log((1 - falsely - delta) / (1 - truly)); c > e || math.IsNaN(e) {
			e = c
		}
		if math.IsNaN(e) {
			return 0
		}
		return max(0, e)
	}
}

// curve prices success at one threshold by the normal curve of trade-offs through it, which
// says what success at the others, and so ε at a small δ, is.
func curve(delta float64) price {
	return func(falsely, truly float64) float64 { return gaussian(quantile(truly)-quantile(falsely), delta) }
}

// distance is the distance between the means of a number in the two worlds, in its standard deviations, with a lower bound.
type distance struct{ estimate, lower float64 }

// separated measures the distance μ from pairs: run i of one world and run i of the other. Pairs are independent of each other. The two
// runs of a pair may depend on each other in any way, since μ depends on the law of each world alone. If both draw the same noise,
// their difference d hardly varies, and the error of the estimate mean(d)/sd is almost only the error of sd.
//
// To first order the error of the estimate is the mean over pairs of d' - μ(q-1)/2. There d' is the deviation of d from its mean, in
// units of sd, and q averages the squared deviations of the pair in units of sd². The margin takes the larger of two variances.
// The first is the sample variance of these terms, which holds for any law and any dependence. The second is var(d)/sd² + μ²/2,
// which is at least the variance of these terms for jointly normal pairs. Of a normal pair d and q are uncorrelated and q has variance 1 + ρ², at most 2. The value 2 counts the degrees
// of freedom of one world only. The second variance keeps the level in few runs, where the sample variance of squares tends to be low.
// The bound is wrong with probability wrong.
func separated(h *half, wrong float64) distance {
	var mean [worlds]float64
	n := float64(len(h[0]))
	for w, all := range h {
		for _, x := range all {
			mean[w] += x / n
		}
	}
	var squares, differences float64
	for i := range h[0] {
		empty, full := h[0][i]-mean[0], h[1][i]-mean[1]
		squares += empty*empty + full*full
		differences += (full - empty) * (full - empty)
	}
	apart := mean[1] - mean[0]
	switch {
	case apart == 0:
		return distance{}
	case squares == 0:
		return distance{math.Inf(1), math.Inf(1)}
	}
	variance := squares / (2*n - 2)
	sd := math.Sqrt(variance)
	mu := apart / sd
	var errors float64
	for i := range h[0] {
		empty, full := (h[0][i]-mean[0])/sd, (h[1][i]-mean[1])/sd
		e := full - empty - mu*((empty*empty+full*full)/2-1)/2
		errors += e * e
	}
	spread := max(errors/(n-1), differences/(n-1)/variance+mu*mu/2)
	return distance{mu, mu - quantile(1-wrong)*math.Sqrt(spread/n)}
}

// quantile is the quantile function of the standard normal law.
func quantile(p float64) float64 { return -math.Sqrt2 * math.Erfcinv(2*p) }
