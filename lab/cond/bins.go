package cond

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// labelsInstance releases labels by randomised response and learns from the answers. rr-on-bins ends there; otherwise the answers
// give a start for the remaining steps. All examples are in one place; of several organisations each would randomise its own.
type labelsInstance struct {
	algorithm.OnePlace // whose methods win over the federation's, which lie deeper
	regressed
	share float64 // share of ε for the labels; 1: no training follows
	rest  dp.Budget
	steps int
}

type regressed struct{ *instance }

// openLabels sets up the releases: labels with ε·share, and steps with the rest.
func openLabels(s *algorithm.Setup, f *family) (algorithm.Instance, error) {
	of, err := newInstance(s)
	if err != nil {
		return nil, err
	}
	x := &labelsInstance{regressed: regressed{of}, share: 1}
	x.params.publish = 1 // moments stay in this place
	if f.steps {
		x.share, x.steps = labelShare.Value(s.Config), algorithm.Rounds.Int(s.Config)
	}
	if !s.Private() {
		return x, nil
	}
	labels := x.bins()
	if err = labels.Validate(); err != nil {
		return nil, config.Wrap(err)
	}
	s.Privacy.Proved = dp.Result{Epsilon: labels.Epsilon, Accountant: dp.Pure}
	s.Privacy.Law = dp.RandomizedResponse
	if !f.steps {
		return x, nil
	}
	// Pure ε1 and (ε2, δ) of the same labels are (ε1 + ε2, δ) together: basic composition, which
	// also holds for steps that depend on the start.
	x.rest = dp.Budget{Epsilon: algorithm.Epsilon.Value(s.Config) - labels.Epsilon, Delta: algorithm.Delta.Value(s.Config), Accountant: dp.PLD}
	_, cost, err := dp.NoiseMultiplier(x.rest, x.steps, 1)
	if err != nil {
		return nil, config.Errorf("epsilon %v: %w", x.rest.Epsilon, err)
	}
	s.Privacy.Proved = dp.Result{Epsilon: labels.Epsilon + cost.Epsilon, Accountant: cost.Accountant}
	s.Privacy.Law = dp.FloatGaussianNoise
	return x, nil
}

// bins returns how labels are randomised. Labels are relative to the middle of their range.
func (x *labelsInstance) bins() BinsOptions {
	half := (x.setup.Data.Max - x.setup.Data.Min) / 2
	return DefaultBinsOptions(-half, half, x.share*algorithm.Epsilon.Value(x.setup.Config))
}

func (x *labelsInstance) Epochs() int { return 1 }

func (x *labelsInstance) Train(ctx context.Context, run protocol.Runner, _ algorithm.Passes, src entropy.Source, passed func(algorithm.Epoch) error) (*model.Trained, error) {
	var profile []float64
	if x.params.profile > 0 {
		profile = x.setup.Data.Profile.X
	}
	examples := newExamples(x.params, profile, x.setup.Rows())
	w, err := x.learn(ctx, examples, src, run)
	if err != nil {
		return nil, err
	}
	p := &parties{instance: x.instance}
	shared := model.Wrap(len(w), 1, w).Encode()
	m, err := p.Final(shared, run)
	if err != nil {
		return nil, err
	}
	return m, passed(algorithm.Epoch{Number: 1, Model: m, Save: func() []byte { return shared }})
}

// learn returns the plain weights.
func (x *labelsInstance) learn(ctx context.Context, examples *Examples, src entropy.Source, run protocol.Runner) ([]float64, error) {
	m, err := momentsOf(x.params.layout, x.params.items, examples.moments(), 0)
	if err != nil {
		return nil, err
	}
	exact := *examples
	ridge, scatter := 0., 0.
	if x.setup.Private() {
		var released *NoisyLabels
		if released, err = RandomisedLabels(examples.label, x.bins(), src); err != nil {
			return nil, err
		}
		exact.label, scatter = released.Values(), released.Bins.Variance()
		if x.steps > 0 {
			exact.label = released.Unbiased()
			ridge = scatter / released.Bins.square() // from labels with this noise and weights that make predictions as large as labels: E‖x‖² is 1
			if math.IsInf(ridge, 1) || math.IsNaN(ridge) {
				return make([]float64, x.params.len()), nil // the released labels are all zero
			}
		}
	}
	t, err := newTransform(x.params.layout, m, inversion{invert: true, floor: exactFloor, ridge: x.items(scatter)})
	if err != nil {
		return nil, err
	}
	start, err := descend(ctx, &exact, t, m, ridge, run)
	if err != nil || x.steps == 0 || !x.setup.Private() {
		return start, err
	}
	return x.step(ctx, examples, m, start, src, run)
}

// items returns the ridge of items' own weights if labels scatter that far beyond their usual scatter.
func (x *labelsInstance) items(scatter float64) func(float64) float64 {
	return func(float64) float64 {
		d := x.params.deviation
		return itemRidge.Or(x.setup.Config, sampleRidge+scatter/(d*d))
	}
}

const (
	// exactFloor is the floor of the directions in which least squares are solved.
	exactFloor = 1e-6
	// descents converge to least squares on conditioned features: with overlapping blocks the slowest direction halves in a few.
	descents = 200
)

// descend fits least squares with a ridge over all examples, by gradients of conditioned features, without noise or clipping.
func descend(ctx context.Context, examples *Examples, t *transform, m moments, ridge float64, run protocol.Runner) ([]float64, error) {
	p := *examples.params
	p.clip = math.Inf(1)
	x := *examples
	x.params, x.rows = &p, nil
	x.use(t.numbers())
	theta := make([]float64, p.len())
	rate := 1 / (2 * (t.curvature + ridge/m.examples)) / m.examples
	for range descents {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		gradient := x.gradient(theta, run)
		t.penalise(p.layout, gradient, theta, m.examples)
		for j, g := range gradient {
			theta[j] -= rate * (g + 2*ridge*theta[j])
		}
	}
	return t.apply(p.layout, theta), nil
}

// step continues from a start by DP-SGD on plain features. It takes full gradients of the start's
// residuals, with each example's gradient clipped, so that another label moves a sum by at most
// 2·clip. It adds normal noise of z·2·clip and rounds to a grid that depends on the noise only.
func (x *labelsInstance) step(ctx context.Context, examples *Examples, m moments, start []float64, src entropy.Source, run protocol.Runner) ([]float64, error) {
	t, err := newTransform(x.params.layout, m, inversion{ridge: x.items(0)})
	if err != nil {
		return nil, err
	}
	left := *examples
	left.rows, left.label = nil, slices.Clone(examples.label)
	users, items := x.scores(left.users(), x.setup.Data.Profile, start)
	for u := range left.users() {
		for k := left.start[u]; k < left.start[u+1]; k++ {
			left.label[k] -= users[u] + items[left.item[k]] - x.params.middle
		}
	}
	left.use(t.numbers())
	z, _, err := dp.NoiseMultiplier(x.rest, x.steps, 1)
	if err != nil {
		return nil, err
	}
	normal, err := newGridded(z * 2 * x.params.clip)
	if err != nil {
		return nil, err
	}
	bits := noise.NewBits(src.Stream("label steps", 0))
	theta, out := make([]float64, x.params.len()), slices.Clone(start)
	rate := step.Value(x.setup.Config) / (2 * t.curvature) / m.examples
	half := x.steps - x.steps/2
	for k := range x.steps {
		g := left.gradient(theta, run)
		if err := errors.Join(normal.addTo(g, bits), ctx.Err()); err != nil {
			return nil, err
		}
		t.penalise(x.params.layout, g, theta, m.examples)
		floats.AddScaled(theta, -rate, g)
		if k >= x.steps-half {
			for j, w := range t.apply(x.params.layout, theta) {
				out[j] += w / float64(half)
			}
		}
	}
	return out, nil
}

func (x *labelsInstance) Baselines() []algorithm.Baseline {
	b := algorithm.Baseline{Name: "non_private", Itself: !x.setup.Private()}
	if b.Itself {
		return []algorithm.Baseline{b}
	}
	b.Note = "least squares of the labels as they are"
	b.Predict = func(run protocol.Runner) (model.Predictor, error) {
		s := *x.setup
		algorithm.Epsilon.Set(&s.Config, math.Inf(1))
		plain := &labelsInstance{regressed: regressed{&instance{setup: &s, params: x.params, bias: x.bias, ridge: x.ridge}}, share: 1}
		m, err := plain.Train(context.Background(), run, algorithm.Passes{}, entropy.Source{}, func(algorithm.Epoch) error { return nil })
		if err != nil {
			return nil, err
		}
		return m.Predictor, nil
	}
	return []algorithm.Baseline{b}
}

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
	response responder
}

// NewBins releases the histogram of labels and chooses bins by it.
//
// Replacing a label moves one count down and one up, or none: an L1 sensitivity of 2. Noise of the discrete Laplace law with rate
// ε1/2 makes the counts ε1-DP. They are whole numbers, so no low bits betray anything. Negative counts become 0, and the bins
// follow from the counts alone. Answers of randomised response over the bins are ε2-DP for each label.
//
// Both together are ε1 + ε2, without a δ: pure differential privacy of one label, relation [dp.Label]. If organisations hold
// different examples, each randomises its own: a label is in the releases of one organisation only, so ε is the largest of theirs.
// The release is decided by sampling with whole numbers only; see laplace and responder.
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
		law := laplace{ratio{prior, 2 * epsilonGrid}}
		if err := law.add(counts, noise.NewBits(secret.Stream("label histogram", 0))); err != nil {
			return nil, fmt.Errorf("cond: noise of the histogram of labels: %w", err)
		}
	}
	b.Shares = shares(counts)
	b.choose(math.Expm1(float64(response) / epsilonGrid))
	b.response = responder{uint64(len(b.Ends)), ratio{response, epsilonGrid}}
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
	if err := b.response.randomise(answers, noise.NewBits(secret.Stream("label response", 0))); err != nil {
		return nil, fmt.Errorf("cond: randomised response of labels: %w", err)
	}
	return &NoisyLabels{b, answers}, nil
}

// Values returns the value with the least expected squared error for each label. A plain regression
// is fitted to them (algorithm 1). They are drawn towards the mean: see Unbiased.
func (n *NoisyLabels) Values() []float64 {
	return lists.Map(n.Answers, func(a int) float64 { return n.Bins.Values[a] })
}
