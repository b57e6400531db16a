package ease

import (
	"math"
	"slices"

	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// The releases, which name their phases too.
const (
	countsName = "counts"
	pairsName  = "pairs"
)

// countsRelease is the vector x/‖x‖ of a user's likes x, a 1 for each liked item; of fewer likes than the public least
// number L, x/√L. Its norm is at most 1, and a coordinate at most 1/√L, whatever the server sent.
func (p *params) countsRelease() protocol.Release {
	return protocol.Release{Name: countsName, Len: p.items, L2: 1, LInf: p.likeOf(1), MaxNonZero: p.items}
}

// likeOf is the weight of a like in counts if the user has n, n at least 1.
func (p *params) likeOf(n int) float64 { return 1 / math.Sqrt(float64(max(n, p.fewest))) }

// pairsRelease is the upper triangle of y yᵀ with the diagonal, where y holds the user's likes among the
// chosen items, each times the item's weight. The client measures the norm of the triangle and scales
// it down to K, so that the norm is at most K whatever items and weights a server chooses.
func (p *params) pairsRelease() protocol.Release {
	n := p.top * (p.top + 1) / 2
	return protocol.Release{Name: pairsName, Len: n, L2: p.norm, MaxNonZero: n}
}

// countsOf returns a user's contribution to counts. Items ascend.
func (p *params) countsOf(items []int32) protocol.Vector {
	v := protocol.Vector{Index: make([]uint32, len(items)), Value: make([]float64, len(items))}
	for k, j := range items {
		v.Index[k], v.Value[k] = uint32(j), p.likeOf(len(items))
	}
	return v
}

// pairsOf returns a user's contribution to pairs. Items ascend.
func (c *choice) pairsOf(items []int32, norm float64) protocol.Vector {
	var places []int
	var squares, fourths float64 // Σy² and Σy⁴
	for _, j := range items {
		if k := c.place[j]; k >= 0 {
			places = append(places, int(k))
			y := c.weight[k] * c.weight[k]
			squares, fourths = squares+y, fourths+y*y
		}
	}
	n := len(places) * (len(places) + 1) / 2
	v := protocol.Vector{Index: make([]uint32, 0, n), Value: make([]float64, 0, n)}
	// ‖triangle‖² = Σ_{i<=j} y_i²y_j² = ((Σy²)² + Σy⁴)/2
	scale := min(1, norm/math.Sqrt((squares*squares+fourths)/2))
	for a, i := range places {
		row := i*len(c.items) - i*(i-1)/2 // of the packed triangle: row i begins with its diagonal
		for _, j := range places[a:] {
			v.Index = append(v.Index, uint32(row+j-i))
			v.Value = append(v.Value, scale*c.weight[i]*c.weight[j])
		}
	}
	return v
}

// publicWeight is the weight of a public user beside a client under noise. A public user's likes are exact, but public users are few.
const publicWeight = 3

// withPublic returns a sum over clients with the vectors of the public users in it. No client sends these.
func (p *params) withPublic(sum []float64, vector func(items []int32) protocol.Vector) []float64 {
	sum, weight := slices.Clone(sum), 1.
	if p.noise > 0 {
		weight = publicWeight
	}
	for _, items := range p.public {
		vector(items).Each(func(at int, x float64) { sum[at] += weight * x })
	}
	return sum
}

// choice holds the items whose pairs are summed, by the released counts alone.
type choice struct {
	items  []int32   // ascending
	place  []int32   // of each item of the catalogue in items; -1: not chosen
	weight []float64 // of each chosen item; 1 in the mean, smaller for frequent items
}

// mostRatio limits the weights: an item counts as at least one in so many of the most popular item.
const mostRatio = 400

// choose takes the items of the largest counts. Weights fall with the power 0.4 of an item's
// popularity, so that a heavy user's bound is not spent on the few items that all users like.
func (p *params) choose(popularity []float64) *choice {
	c := &choice{items: kernel.MostRated(popularity, p.top), place: slices.Repeat([]int32{-1}, p.items)}
	sum := 0.
	least := slices.Max(popularity) / mostRatio
	for k, j := range c.items {
		c.place[j] = int32(k)
		c.weight = append(c.weight, math.Pow(max(least, popularity[j]), -0.4))
		sum += c.weight[k]
	}
	for k := range c.weight {
		c.weight[k] *= float64(len(c.weight)) / sum
	}
	return c
}

// mostDirections limits the columns of the model.
const mostDirections = 256

// ridgeOfUsers is the ridge in deviations of a sum over few users: it is this times √trace, beside the
// ridge for the noise.
const ridgeOfUsers = 0.25

// vectorsOf returns the model of a sum of pairs, a row for each chosen item. With G the cleaned Gram
// matrix and r the ridge, EASE needs P = (G + rI)⁻¹. In G's eigenvectors u and eigenvalues l,
//
//	rP = I - Σ l/(l+r) uuᵀ = I - EEᵀ
//
// where column k of E is √(l/(l+r))·u. Only eigenvalues above zero give a column. Where more do than the model has columns, the
// others become their mean s, which the trace of G tells. Then P is (I - EEᵀ)/(s+r), and column k is √((l-s)/(l+r))·u. Weights are ratios in P, without its factor.
//
// The noise of the sum is symmetric with deviation sigma in each entry. Users are a sample besides: pairs
// of users at the bound K vary by about K·√(2n)/M in each entry, where n·K√2 is the trace. Half of that
// variance counts. Eigenvalues of noise fill a semicircle up to edge = 2√M times the deviation. An eigenvalue
// λ <= edge may be noise and becomes 0. A larger eigenvalue was raised, and becomes √(λ² - edge²).
func (p *params) vectorsOf(packed []float64) *model.Matrix {
	m := p.top
	g := make([]float64, m*m)
	trace, at := 0., 0
	for i := range m {
		trace += packed[at]
		for j := i; j < m; j++ {
			g[i*m+j], g[j*m+i] = packed[at], packed[at]
			at++
		}
	}
	edge := 2 * p.sigma * math.Sqrt(float64(m))
	if p.sigma > 0 {
		edge = math.Hypot(edge, 2*math.Sqrt(p.norm*max(0, trace)/math.Sqrt2/float64(m)))
	}
	ridge := math.Hypot(p.ridge*edge, ridgeOfUsers*math.Sqrt(max(1, trace)))
	values, vectors := dense.Leading(g, m, p.columns())
	rest := trace
	for k, l := range values {
		if values[k] = 0; l > edge {
			values[k] = math.Sqrt(l*l - edge*edge)
		}
		rest -= values[k]
	}
	rest = min(values[len(values)-1], max(0, rest)/float64(max(1, m-len(values))))
	out := model.NewMatrix(m, p.columns())
	for c, l := range values {
		if !(l > rest) {
			break
		}
		for i := range m {
			out.Row(i)[c] = math.Sqrt((l-rest)/(l+ridge)) * vectors.Data[i*vectors.Stride+c]
		}
	}
	return out
}

// columns is the width of the model.
func (p *params) columns() int { return min(max(1, p.top), mostDirections) }
