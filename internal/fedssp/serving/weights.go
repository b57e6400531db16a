package serving

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/posterior"
	"github.com/fedsim/fedsim/internal/lists"
	"github.com/fedsim/fedsim/model"
)

// KeepWeights stores the released weights, joined with the weights of earlier rounds. It returns the round's tilts: by how much
// its ratings weigh more than in the first sum, for each item; nil if they weigh the same.
func (s *Strategy) KeepWeights(r Absorbed) (tilts []float64) {
	tilts = s.tilts(r)
	s.fresh = r.Sum(kernel.WeightCounts).Untilted(tilts).Joined(s.fresh)
	s.Given = Quotients(r.Donated[kernel.WeightCounts], tilts)
	s.weigh()
	return tilts
}

// Sum is a release with a number for each item.
func (r *Absorbed) Sum(name string) *Sum {
	x := r.Values[name]
	return NewSum(dense.Scaled(x, 1/r.Users), len(x), dense.Sqr(r.Noise[name]/r.Users))
}

// tilts returns the tilts of a round. Clients know their first factor, [kernel.Params.TiltOf]. The second, which makes a
// user's Σw² 1 again, is taken to be the same for all users. It follows from the releases of both sums.
func (s *Strategy) tilts(r Absorbed) []float64 {
	p, popularity := &s.Params.Params, s.model.Popularity
	if s.Round == 0 || s.Params.Steps[s.Round-1].Phase != kernel.Refine || !p.Tilts() || popularity == nil || s.Weight == nil {
		return nil
	}
	tilts := lists.Map(popularity, p.TiltOf)
	again, before := floats.Sum(r.Values[kernel.WeightCounts])/r.Users, floats.Dot(s.Weight, tilts)
	least, most := 1/floats.Max(tilts), 1/floats.Min(tilts)
	if before <= 0 {
		return dense.Scaled(tilts, least)
	}
	return dense.Scaled(tilts, min(max(again/before, least), most))
}

// Untilted returns what the sum of a round would be with the weights of the first sum, by the round's tilts.
func (s *Sum) Untilted(tilts []float64) *Sum {
	if tilts == nil {
		return s
	}
	out := &Sum{Quotients(s.Value, tilts), slices.Clone(s.Precision)}
	for j, f := range tilts {
		out.Precision[j] *= f * f
	}
	return out
}

// Quotients divides numbers of items by the tilts; nil tilts divide by 1, and nil stays nil.
func Quotients(x, tilts []float64) []float64 {
	if x == nil || tilts == nil {
		return x
	}
	return floats.DivTo(make([]float64, len(x)), x, tilts)
}

// WeightNoiseOf is the deviation of the noise in the weight of an item.
func (s *Strategy) WeightNoiseOf(j int) float64 {
	if s.WeightNoises != nil {
		return s.WeightNoises[j]
	}
	return s.WeightNoise
}

// Weights returns c_j of all N clients, at least the deviation of its noise, because less cannot be
// told from zero. typical is w̃. A sample's weights are all equal. Other weights of a user are
// about 1/√n and add up to about √n, at least 1, so 1 over their sum is about one weight.
func (s *Strategy) Weights() (c []float64, typical float64) { return s.typical(s.Weight) }

// typical is Weights of other weights than the strategy's.
func (s *Strategy) typical(weight []float64) (c []float64, typical float64) {
	n := s.Params.Total()
	c = dense.Scaled(weight, n)
	sum := 0.0
	for j, x := range c {
		floor := max(s.WeightNoiseOf(j)*n, 1e-9)
		if s.Before != nil && s.WeightNoiseOf(j) >= unknown {
			floor = 1e-9 // a new item, before the first sum
		}
		if !(x > floor) {
			c[j] = floor
		}
		sum += x
	}
	if s.Params.Budgeting != kernel.Weights {
		return c, 1 / math.Sqrt(float64(s.Params.PerUser))
	}
	return c, n / max(sum, n)
}

// PriorSteps is the number of EM iterations that learn priors. They settle in fewer.
const PriorSteps = 20

// The functions below hold public typical values of ratings: their mean, how much items differ, and the law
// of items' weights. If few users share a small budget, noise hides even the data that priors are
// learned from, and typical values help. They are as strong as [kernel.PoolParams.Strength]; with more
// users or budget the released sums outweigh them.

// These constants are fractions of the rating scale: the typical mean and its deviation, the
// deviation of items' biases, and the effect of a feature. Films, books and products have means of
// 0.63 to 0.8.
const (
	usualMean        = 0.65
	usualMeanSpread  = 0.06
	usualOwn         = 1. / 9
	usualFeatures    = 1. / 56
	usualWeightRatio = 1.2 // the standard deviation of log c_j, to begin with
)

// HeldMean is the posterior mean of μ, given the sum of ratings' places on the scale and their
// number, both with noise of the given deviation.
func HeldMean(p *kernel.Params, sum, count, noise float64) float64 {
	width := p.Max - p.Min
	count = max(count, noise)
	if count == 0 {
		return p.Min + usualMean*width
	}
	measured := p.Middle() + width/2*dense.Clamp(sum/count, 1)
	prior, variance := dense.Sqr(usualMeanSpread*width), dense.Sqr(width/2*noise/count)
	return p.Min + usualMean*width + prior/(prior+variance)*(measured-p.Min-usualMean*width)
}

// known is the posterior of the weights c_j of all items: mean and variance, and the exponential of
// the mean logarithm.
type known struct{ Mean, Variance, Middle []float64 }

// Weights are taken to lie on a grid of logarithms, so many steps wide around their mean's.
const (
	weightSteps = 80
	weightBelow = 4.
	weightAbove = 3.5
)

// Shrink returns the posterior of weights c_j that were released with normal noise, whose deviation noise tells of each item; exact: there
// was none. Their logarithms have a normal prior with the known total, and with a deviation that
// EM learns. A few items have most of the ratings, and for most others the noise exceeds the
// weight. Division by such a weight, or by a floor, turns their biases into noise. Every user has a
// total weight of at least 1.
func Shrink(released []float64, noise func(int) float64, exact bool, users float64) known {
	m := len(released)
	k := known{Mean: make([]float64, m), Variance: make([]float64, m), Middle: make([]float64, m)}
	if exact {
		for j, c := range released {
			k.Mean[j], k.Middle[j] = max(c, 0), max(c, 0)
		}
		return k
	}
	all := newLogs(released, 0, users, weightBelow, weightAbove, weightSteps)
	logs, grid, prior := all.grid, all.exps, make([]float64, weightSteps)
	// The likelihood of a weight, over its maximum, is the same in all steps of EM. It takes 640 bytes an item.
	likelihood := make([][]float64, m)
	for j, c := range released {
		row, least := make([]float64, weightSteps), math.Inf(1)
		for g := range row {
			row[g] = dense.Sqr((c-grid[g])/noise(j)) / 2
			least = min(least, row[g])
		}
		for g := range row {
			row[g] = math.Exp(least - row[g])
		}
		likelihood[j] = row
	}
	deviation := usualWeightRatio
	// moments returns the posterior moments of an item: of c_j, c_j², log c_j and its square. The
	// prior is at least exp(-100) on the grid, so that the products are not all 0.
	moments := func(j int) (x [4]float64) {
		var all float64
		for g, l := range likelihood[j] {
			w := prior[g] * l
			all += w
			x[0] += w * grid[g]
			x[1] += w * dense.Sqr(grid[g])
			x[2] += w * logs[g]
			x[3] += w * dense.Sqr(logs[g])
		}
		for i := range x {
			x[i] /= all
		}
		return x
	}
	for range PriorSteps + 1 {
		centre := all.middle - dense.Sqr(deviation)/2
		for g, l := range logs {
			prior[g] = math.Exp(-dense.Sqr((l-centre)/deviation) / 2)
		}
		var first, second float64
		for j := range released {
			x := moments(j)
			first += x[2] / float64(m)
			second += x[3] / float64(m)
			k.Mean[j], k.Variance[j], k.Middle[j] = x[0], max(x[1]-dense.Sqr(x[0]), 0), math.Exp(x[2])
		}
		deviation = math.Sqrt(max(second-dense.Sqr(first), dense.Sqr(leastRatio)))
	}
	return k
}

// KnowsWeights reports whether the weights' own law is to be learned and to divide sums. If their noise
// is ten times a typical weight, as of MovieLens latest-small at ε = 1, the law says too little: a
// floor at the noise is better unless typical values hold the biases.
func (s *Strategy) KnowsWeights() bool {
	total := 0.
	for _, c := range s.Weight {
		total += c
	}
	return s.Params.Pool.Held() || s.WeightNoise > 0 && s.WeightNoise*float64(len(s.Weight)) < 10*max(total, 1)
}

// OwnWeights returns the session's own weights over all N clients, shrunk if their law is known; those before without own ones.
func (s *Strategy) OwnWeights() []float64 {
	n := s.Params.Total()
	if s.fresh == nil {
		return dense.Scaled(s.Weight, n)
	}
	c := dense.Scaled(s.fresh.Value, n)
	if !s.Params.Learned() || !s.KnowsWeights() {
		return c
	}
	noise := s.fresh.deviations(n)
	return Shrink(c, func(j int) float64 { return noise[j] }, noise[0] == 0, n).Mean
}

// ShrinkWeights is [Shrink] of the strategy's weights over all N clients.
func (s *Strategy) ShrinkWeights(released []float64) known {
	n := s.Params.Total()
	return Shrink(released, func(j int) float64 { return s.WeightNoiseOf(j) * n }, s.WeightNoise == 0, n)
}

// leastRatio keeps the law of weights from becoming a point, from where EM could not leave.
const leastRatio = 0.3

// Adopt makes the strategy train on the chosen items, from their start on.
func (s *Strategy) Adopt(items []int32) error {
	c, err := s.All.Over(items)
	if err != nil {
		return err
	}
	s.turnTo(c)
	return s.begin()
}

// Narrow limits statistics to the items with the largest weights, once biases of all items are
// known: see [kernel.Params.ByWeights].
func (s *Strategy) Narrow() error {
	mean, biases := s.model.Mean, s.model.Bias
	if err := s.Adopt(kernel.MostRated(s.Weight, s.All.TopItems)); err != nil {
		return err
	}
	c := s.Chosen
	s.fresh = &Sum{model.At(s.fresh.Value, c.Items), model.At(s.fresh.Precision, c.Items)}
	s.weigh()
	s.model.Mean, s.model.Bias, s.model.RestBias = mean, model.At(biases, c.Items), model.At(biases, c.Others)
	return nil
}

// turnTo replaces the settings by the chosen items' settings.
func (s *Strategy) turnTo(c *kernel.Choice) { s.Chosen, s.Params.Params = c, *c.Inner }

// EM begins with these priors, in rating units: near the largest plausible size of a bias or a
// coordinate. The result hardly depends on them.
const (
	StartOwn      = 0.4
	StartFeatures = 0.3
)

// maxColumns limits the features of a prior, because solving for their effects takes cubic time. Of
// a larger vocabulary the features of most items count.
const maxColumns = 500

// Design returns the columns that posterior means rest on: 1 for each item, the standardised
// logarithm of its weight c_j, and its features, with norm 1 in each category. The weight counts
// because popular items are rated otherwise than rare ones. Weights below typical, the weight of a
// rating, count as typical. Without noise some items have weight zero, and their logarithms would
// hide the differences between the others.
func Design(f *dataset.ItemFeatures, weight []float64, typical float64) posterior.Design {
	columns, group := columns(f)
	return designOf(f, columns, group, StandardLogs(weight, typical))
}

// Plain returns the features without genres in times. Priors of V do without these columns, nearly a hundred, for the
// same error or less: so much is not learned of V. nil stays nil.
func Plain(f *dataset.ItemFeatures) *dataset.ItemFeatures {
	if f == nil {
		return nil
	}
	isProduct := func(c dataset.Category) bool { return c.Name == dataset.GenreEra && len(f.Categories) > 1 }
	return &dataset.ItemFeatures{Items: f.Items, Categories: slices.DeleteFunc(slices.Clone(f.Categories), isProduct)}
}

// DesignOfOthers returns the same columns for items that are not trained on, with the mean weight
// of the items that are. Their true weights are lower, but the effect of weights was learned among
// popular items and would say too much.
func (s *Strategy) DesignOfOthers(features, rest *dataset.ItemFeatures) posterior.Design {
	columns, group := columns(features)
	return designOf(rest, columns, group, make([]float64, len(s.Chosen.Others)))
}

// columns returns the columns of features' values, and the groups of all columns.
func columns(f *dataset.ItemFeatures) (columns [][]int, group []int) {
	const fixed = 2 // the columns of 1 and of logarithms, a group each
	group = []int{0, 1}
	if f == nil {
		return nil, group
	}
	columns, category := kernel.Commonest(f, maxColumns)
	group = append(group, lists.Map(category, func(c int) int { return fixed + c })...)
	for _, values := range columns {
		for v, c := range values {
			if c >= 0 {
				values[v] = fixed + c
			}
		}
	}
	return columns, group
}

// designOf has a row for each of the logarithms, with the features of the item in the same place.
func designOf(f *dataset.ItemFeatures, columns [][]int, group []int, logs []float64) posterior.Design {
	d := posterior.Design{Start: []int{0}, Group: group}
	for j, x := range logs {
		d.Column = append(d.Column, 0, 1)
		d.Value = append(d.Value, 1, x)
		for c := range columns {
			d.Column, d.Value = kernel.AppendFeatures(d.Column, d.Value, &f.Categories[c], columns[c], j)
		}
		d.Start = append(d.Start, len(d.Column))
	}
	return d
}

// StandardLogs are the logarithms of weights, at least floor, with mean 0 and deviation 1.
func StandardLogs(weight []float64, floor float64) []float64 {
	logs := make([]float64, len(weight))
	var sum, squares float64
	for j, c := range weight {
		logs[j] = math.Log(max(c, floor))
		sum += logs[j]
		squares += logs[j] * logs[j]
	}
	n := float64(len(logs))
	mean := sum / n
	deviation := math.Sqrt(max(squares/n-mean*mean, 0))
	for j := range logs {
		logs[j] -= mean
		if deviation > 1e-6 {
			logs[j] /= deviation
		} else {
			logs[j] = 0
		}
	}
	return logs
}

// UsualPrior is the prior of biases that EM begins with if typical values hold it.
func UsualPrior(p *kernel.Params, d posterior.Design) posterior.Prior {
	width := p.Max - p.Min
	return posterior.Prior{Own: usualOwn * width, Groups: slices.Repeat([]float64{usualFeatures * width}, d.Groups()), Strength: p.Pool.Strength}
}

// ItemsPrior is the prior of a coordinate of embeddings that EM begins with. If typical values hold
// the priors, embeddings have so small a budget that EM takes noise for differences between items.
// So V stays near zero, and users' fits near the biases, unless the evidence against it is strong.
func ItemsPrior(p *kernel.Params, d posterior.Design) posterior.Prior {
	if !p.Pool.Held() {
		return Prior(d)
	}
	few := UsualPrior(p, d)
	few.Own, few.Strength = few.Own/10, 10*few.Strength
	for g := range few.Groups {
		few.Groups[g] /= 10
	}
	return few
}

// Prior is the prior that EM begins with.
func Prior(d posterior.Design) posterior.Prior {
	return posterior.Prior{Own: StartOwn, Groups: slices.Repeat([]float64{StartFeatures}, d.Groups())}
}
