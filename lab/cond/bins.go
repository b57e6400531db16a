package cond

import (
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/lab/internal/exact"
)

// BinsOptions says how to randomise labels.
type BinsOptions struct {
	Low, High float64 // the labels' range, which is public; labels beyond it count as its ends
	Cells     int     // k, the number of cells of equal width in the range, at least 1
	Epsilon   float64 // of both releases, above 0 and at most 64
	// Prior is the share of Epsilon for the labels' histogram, in [0, 1). With 0 no histogram is
	// released, and all cells count equally.
	Prior float64
}

// DefaultBinsOptions returns 32 cells and a tenth of ε for the histogram. At ε = 1 and 4, on 1,000
// and 20,000 normal and exponential labels, that is near the least error of 16 to 256 cells and 0
// to 0.3 of ε. Finer cells, and less for the histogram, need more labels.
func DefaultBinsOptions(low, high, epsilon float64) BinsOptions {
	return BinsOptions{Low: low, High: high, Cells: 32, Epsilon: epsilon, Prior: 0.1}
}

const (
	mostBinEpsilon = 64
	// epsilonGrid is the number of steps in 1. ε is rounded down to a step, so that samplers have a ratio of integers.
	epsilonGrid = 1 << 20
)

// Validate reports an ε that is out of range.
func (o BinsOptions) Validate() error {
	if prior, response := o.split(); !(o.Epsilon <= mostBinEpsilon) || response < 1 || o.Prior > 0 && prior < 1 {
		return fmt.Errorf("cond: bins: epsilon is %v, and %v of it for the histogram; epsilon must be at most %d, and both parts at least 2^-20", o.Epsilon, o.Prior, mostBinEpsilon)
	}
	return nil
}

// split returns ε1 and ε2 in steps of 1/epsilonGrid, together at most Epsilon.
func (o BinsOptions) split() (prior, response uint64) {
	total := uint64(math.Floor(o.Epsilon * epsilonGrid))
	prior = uint64(math.Floor(o.Prior * float64(total)))
	return prior, total - prior
}

// Bins randomises labels by RR-on-Bins (Ghazi et al. 2023, "Regression with Label Differential
// Privacy", algorithms 1 and 2). Its fields reveal only the noisy histogram of the labels.
type Bins struct {
	Options BinsOptions
	Shares  []float64 // share of labels in each cell, by the noisy histogram: at least 0, with sum 1
	Ends    []int     // the cell after the last one of each bin, ascending
	Values  []float64 // replacement of a label in each bin, in [Low, High]
	// Epsilon is the cost of the histogram and one randomised response together.
	Epsilon  float64
	response exact.Response
}

// NewBins releases the histogram of labels and chooses bins by it.
//
// Replacing a label moves one count down and one up, or none: an L1 sensitivity of 2. Noise of the discrete Laplace law with rate
// ε1/2 makes the counts ε1-DP. They are whole numbers, so no low bits betray anything. Negative counts become 0, and the bins
// follow from the counts alone. Answers of randomised response over the bins are ε2-DP for each label.
//
// Both together are ε1 + ε2, without a δ: pure differential privacy of one label, relation [dp.Label]. If organisations hold
// different examples, each randomises its own: a label is in the releases of one organisation only, so ε is the largest of theirs.
// The release is decided by sampling with whole numbers only; see [exact.Laplace] and [exact.Response].
func NewBins(y []float64, o BinsOptions, secret entropy.Source) (*Bins, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	prior, response := o.split()
	b := &Bins{Options: o, Epsilon: float64(prior+response) / epsilonGrid}
	counts := make([]int64, o.Cells)
	if prior > 0 {
		for _, v := range y {
			counts[o.cell(v)]++
		}
		law := exact.Laplace{Rate: exact.Ratio{Num: prior, Den: 2 * epsilonGrid}}
		if err := law.Add(counts, noise.NewBits(secret.Stream("label histogram", 0))); err != nil {
			return nil, fmt.Errorf("cond: noise of the histogram of labels: %w", err)
		}
	}
	b.Shares = shares(counts)
	b.choose(math.Expm1(float64(response) / epsilonGrid))
	b.response = exact.Response{N: uint64(len(b.Ends)), Epsilon: exact.Ratio{Num: response, Den: epsilonGrid}}
	return b, nil
}

// cell returns the cell of a label. A NaN counts as the low end, so that no label is an exception.
func (o BinsOptions) cell(y float64) int {
	at := (y - o.Low) / (o.High - o.Low) * float64(o.Cells)
	if !(at > 0) {
		return 0
	}
	return int(min(at, float64(o.Cells-1)))
}

// middle returns the middle of a cell.
func (o BinsOptions) middle(cell int) float64 {
	return o.Low + (float64(cell)+0.5)/float64(o.Cells)*(o.High-o.Low)
}

// shares returns counts as parts of their sum. Negative counts become 0. If all are 0, the shares are equal.
func shares(counts []int64) []float64 {
	out := make([]float64, len(counts))
	var sum float64
	for i, n := range counts {
		out[i] = float64(max(n, 0))
		sum += out[i]
	}
	for i := range out {
		if sum > 0 {
			out[i] /= sum
		} else {
			out[i] = 1 / float64(len(out))
		}
	}
	return out
}

// choose finds the bins and values of the least expected squared error, by dynamic programming in O(cells²·bins). With up = e^ε - 1
// and m bins an answer is bin j with probability (1 + up·[y in j])/(up + m). So the error is 1/(up + m) times a sum over bins j of
//
//	E(v_j - y)² + up·E[(v_j - y)²; y in j],
//
// which depends on the bin and its value alone. The best value is (Ey + up·E[y; y in j])/(1 + up·P(y in j)). Labels are taken at
// the middles of their cells: their spread within cells adds the same to every choice.
func (b *Bins) choose(up float64) {
	k := len(b.Shares)
	p := priorSums{make([]float64, k+1), make([]float64, k+1), make([]float64, k+1)}
	for i, s := range b.Shares {
		y := b.Options.middle(i) - b.Options.middle(0)
		p.share[i+1], p.first[i+1], p.second[i+1] = p.share[i]+s, p.first[i]+s*y, p.second[i]+s*y*y
	}
	best := make([]float64, k+1) // of the first i cells in the current number of bins
	for i := 1; i <= k; i++ {
		best[i] = math.Inf(1)
	}
	var from [][]int32 // where the last of m bins of the first i cells begins
	least, bins := math.Inf(1), 0
	for m := 1; m <= k; m++ {
		next, first := make([]float64, k+1), make([]int32, k+1)
		for i := range next {
			next[i] = math.Inf(1)
			for j := m - 1; j < i; j++ {
				if _, cost := p.fit(j, i, up); best[j]+cost < next[i] {
					next[i], first[i] = best[j]+cost, int32(j)
				}
			}
		}
		best, from = next, append(from, first)
		if total := best[k] / (up + float64(m)); total < least {
			least, bins = total, m
		}
	}
	b.Ends, b.Values = make([]int, bins), make([]float64, bins)
	for m, end := bins-1, k; m >= 0; m-- {
		start := int(from[m][end])
		value, _ := p.fit(start, end, up)
		b.Ends[m], b.Values[m] = end, b.Options.middle(0)+value
		end = start
	}
}

// priorSums holds prefix sums of the noisy histogram, of labels less the first cell's middle.
type priorSums struct{ share, first, second []float64 }

// fit returns the best value of a bin of the cells from a to before b, and the error that the bin adds with that value, times up + m.
func (p priorSums) fit(a, b int, up float64) (value, cost float64) {
	k := len(p.share) - 1
	weight, first := 1+up*(p.share[b]-p.share[a]), p.first[k]+up*(p.first[b]-p.first[a])
	return first / weight, max(0, p.second[k]+up*(p.second[b]-p.second[a])-first*first/weight)
}

// bin returns the bin of a cell.
func (b *Bins) bin(cell int) int {
	at, _ := slices.BinarySearch(b.Ends, cell+1)
	return at
}

// NoisyLabels holds labels that may be public.
type NoisyLabels struct {
	Bins    *Bins
	Answers []int // the answered bin of each label
}

// RandomisedLabels releases labels by RR-on-Bins. Learning from the result costs no more privacy. Labels may be any numbers.
func RandomisedLabels(y []float64, o BinsOptions, secret entropy.Source) (*NoisyLabels, error) {
	b, err := NewBins(y, o, secret)
	if err != nil {
		return nil, err
	}
	answers := lists.Map(y, func(v float64) int { return b.bin(o.cell(v)) })
	if err := b.response.Randomise(answers, noise.NewBits(secret.Stream("label response", 0))); err != nil {
		return nil, fmt.Errorf("cond: randomised response of labels: %w", err)
	}
	return &NoisyLabels{b, answers}, nil
}

// Values returns the value with the least expected squared error for each label. A plain regression
// is fitted to them (algorithm 1). They are drawn towards the mean: see Unbiased.
func (n *NoisyLabels) Values() []float64 {
	return lists.Map(n.Answers, func(a int) float64 { return n.Bins.Values[a] })
}
