package serving

import (
	"math"
	"slices"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/fedssp/kernel"
	"github.com/fedsim/fedsim/fedssp/posterior"
)

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
func Design(p *kernel.Params, weight []float64, typical float64) posterior.Design {
	columns, group := columns(p)
	return designOf(p.Features, columns, group, StandardLogs(weight, typical))
}

// DesignOfOthers returns the same columns for items that are not trained on, with the mean weight
// of the items that are. Their true weights are lower, but the effect of weights was learned among
// popular items and would say too much.
func (s *Strategy) DesignOfOthers() posterior.Design {
	columns, group := columns(&s.Params.Params)
	return designOf(s.Chosen.Rest, columns, group, make([]float64, len(s.Chosen.Others)))
}

// columns returns the columns of features' values, and the groups of all columns.
func columns(p *kernel.Params) (columns [][]int, group []int) {
	const fixed = 2 // the columns of 1 and of logarithms, a group each
	group = []int{0, 1}
	if p.Features == nil {
		return nil, group
	}
	columns, category := kernel.Commonest(p.Features, maxColumns)
	for _, c := range category {
		group = append(group, fixed+c)
	}
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
