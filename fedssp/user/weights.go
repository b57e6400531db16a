// Package user computes a client's part from its own user's ratings. It fits embedding and bias to a
// broadcast model, and weights divide a user's sensitivity among its ratings. It draws samples and
// batches, and makes the additions to sums with their bounds.
// [User] is the client's role in a run.
//
// It imports kernel, and never configuration or the server's side. Stages and solvers reach it
// through two small interfaces, [Stage] and [Solver].
package user

import (
	"cmp"
	"io"
	"math"
	"slices"

	"github.com/fedsim/fedsim/entropy"
)

// The client clamps broadcast counts to this range. Below 1 a count is noise; no true count is
// above the range.
const (
	leastCount = 1
	mostCount  = 1e12
)

// Weigh sets w to the weights of ratings whose items have the given private counts; without counts
// all weights are equal. w_j ∝ n̂_j^-exponent, normalised last, so that Σ w_j² = 1 whatever the
// counts are.
//
// That is the whole proof. After clamping every w_j² is between 1e-48 and 1 before it is
// normalised, so the sum is positive and finite. The server's n̂ moves weight only between the
// user's own ratings.
func Weigh(w, counts []float64, exponent float64) {
	var sum float64
	for k := range w {
		w[k] = 1
		if counts != nil && exponent > 0 {
			w[k] = math.Pow(ClampCount(counts[k]), -exponent)
		}
		sum += w[k] * w[k]
	}
	scale := 1 / math.Sqrt(sum)
	for k := range w {
		w[k] *= scale
	}
}

// WeighGlobally sets w to the weights of ratings by one scale for all users, w_j =
// scale·n̂_j^-exponent ([GlobalScale]). If Σ w_j² is above 1, it scales them back to 1 (multi-task
// paper, equation (12)).
//
// The proof is the last step: Σ w_j² is at most 1 for any broadcast scale and counts. A scale that
// is not finite, or not positive, leaves weights of zero.
func WeighGlobally(w, counts []float64, exponent, scale float64) {
	if !(scale > 0 && scale <= mostCount) {
		scale = 0
	}
	var sum float64
	for k := range w {
		w[k] = scale * math.Pow(ClampCount(counts[k]), -exponent)
		sum += w[k] * w[k]
	}
	if sum <= 1 {
		return
	}
	back := 1 / math.Sqrt(sum)
	for k := range w {
		w[k] *= back
	}
}

// GlobalScale is 1/√(Σ_j n̂_j^{1-2μ}·c/n). With it users' Σ w_j² are 1/c on average, if the counts
// are right (multi-task paper, equation (11), with the exponent of section 5.1 and β = 1).
func GlobalScale(counts func(j int) float64, items, users int, exponent, headroom float64) float64 {
	var sum float64
	for j := range items {
		sum += math.Pow(ClampCount(counts(j)), 1-2*exponent)
	}
	return math.Sqrt(float64(users) / headroom / sum)
}

// ClampCount brings a broadcast count into the range of true counts; NaN counts as 1.
func ClampCount(n float64) float64 {
	if math.IsNaN(n) {
		return leastCount
	}
	return min(max(n, leastCount), mostCount)
}

// Sample draws at most size of n places, all equally likely, ascending.
func Sample(n, size int, random io.Reader) ([]int, error) {
	places, err := shuffled(n, min(n, size), random)
	slices.Sort(places)
	return places, err
}

// shuffled draws the first size places of a random order of n.
func shuffled(n, size int, random io.Reader) ([]int, error) {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	for i := range size {
		if n-i == 1 {
			break
		}
		pick, err := entropy.Uniform(random, uint64(n-i))
		if err != nil {
			return nil, err
		}
		j := i + int(pick)
		order[i], order[j] = order[j], order[i]
	}
	return order[:size], nil
}

// sampleTail draws at most size places with the smallest counts, ascending. Ties are in random
// order, and so is everything if there are no counts.
func sampleTail(n, size int, counts []float64, random io.Reader) ([]int, error) {
	order, err := shuffled(n, n, random)
	if err != nil {
		return nil, err
	}
	if counts != nil {
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ClampCount(counts[a]), ClampCount(counts[b])) })
	}
	order = order[:min(n, size)]
	slices.Sort(order)
	return order, nil
}
