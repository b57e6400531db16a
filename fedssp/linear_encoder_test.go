package fedssp

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/effort"
)

// linearProblem is the problem of section 3.4 of the am-ssp paper. Labels of D examples are
// u_i·θᵀx_j, where x_j in R^p is public and there are m of them. Γ_x and Γ_u are 1, Γ_y and the
// bound of ‖θᵀx_j‖ a half, so that an example's gradient has norm at most 1: both bounds of
// sensitivity hold without clipping.
type linearProblem struct {
	p, d, examples int
	x              *mat.Dense // m x p
	a, b           [][]float64
	radius         float64 // of Θ, of the part of it that x sees
}

const linearBound = 0.5 // Γ_y

// newLinearProblem draws x_j orthonormal where p allows it, else of norm 1, u_i of norm 1, and
// labels of a θ at the bound, plus noise.
func newLinearProblem(t *testing.T, rng *rand.Rand, m, p, d, examples int) *linearProblem {
	q := &linearProblem{p: p, d: d, examples: examples}
	draw := mat.NewDense(max(m, p), min(m, p), nil)
	draw.Apply(func(int, int, float64) float64 { return rng.NormFloat64() }, draw)
	q.x = mat.NewDense(m, p, nil)
	if p >= m {
		var qr mat.QR
		qr.Factorize(draw)
		var all mat.Dense
		qr.QTo(&all)
		q.x.Copy(all.Slice(0, p, 0, m).T())
	} else {
		q.x.Copy(draw)
		for j := range m {
			row := q.x.RawRowView(j)
			norm := math.Sqrt(dense.Dot(row, row))
			for c := range row {
				row[c] /= norm
			}
		}
	}
	var svd mat.SVD
	if !svd.Factorize(q.x, mat.SVDThin) {
		t.Fatal("no singular values")
	}
	values := svd.Values(nil)
	q.radius = linearBound * math.Sqrt(float64(m)) / values[min(m, p)-1]

	theta := mat.NewDense(p, d, nil)
	theta.Apply(func(int, int, float64) float64 { return rng.NormFloat64() }, theta)
	var v mat.Dense
	v.Mul(q.x, theta)
	longest := 0.
	for j := range m {
		longest = max(longest, math.Sqrt(dense.Dot(v.RawRowView(j), v.RawRowView(j))))
	}
	v.Scale(linearBound/longest, &v)
	for range m {
		q.a, q.b = append(q.a, make([]float64, d*d)), append(q.b, make([]float64, d))
	}
	for i := range examples {
		j, u := i%m, make([]float64, d)
		for c := range u {
			u[c] = rng.NormFloat64()
		}
		norm := math.Sqrt(dense.Dot(u, u))
		for c := range u {
			u[c] /= norm
		}
		y := dense.Clamp(dense.Dot(u, v.RawRowView(j))+0.05*rng.NormFloat64(), linearBound)
		for c, z := range u {
			q.b[j][c] += y * z
			dense.Axpy(q.a[j][c*d:(c+1)*d], z, u)
		}
	}
	return q
}

// loss is Σ ½(u·v_j - y)², less what no θ changes.
func (q *linearProblem) loss(theta *mat.Dense) (sum float64) {
	var v mat.Dense
	v.Mul(q.x, theta)
	for j, b := range q.b {
		row := v.RawRowView(j)
		for c, z := range row {
			sum += z * (dense.Dot(q.a[j][c*q.d:(c+1)*q.d], row)/2 - b[c])
		}
	}
	return sum
}

// gradient sets g to Σ_j x_j(A_j v_j - b_j)ᵀ, with noise of deviations (for A, b) on statistics.
func (q *linearProblem) gradient(g, theta *mat.Dense, rng *rand.Rand, onA, onB float64) {
	var v mat.Dense
	v.Mul(q.x, theta)
	residual := mat.NewDense(len(q.b), q.d, nil)
	for j, b := range q.b {
		row := v.RawRowView(j)
		for c := range row {
			r := dense.Dot(q.a[j][c*q.d:(c+1)*q.d], row) - b[c]
			if onA > 0 {
				for _, z := range row {
					r += onA * rng.NormFloat64() * z
				}
				r -= onB * rng.NormFloat64()
			}
			residual.Set(j, c, r)
		}
	}
	g.Mul(q.x.T(), residual)
}

// project projects to Θ, ‖θᵀx_j‖ <= Γ_y/Γ_u for all j: by Dykstra's cycles, which one ends where
// x_j are orthogonal.
func (q *linearProblem) project(theta *mat.Dense) {
	m := len(q.b)
	cycles := 1
	if q.p < m {
		cycles = 8
	}
	kept := make([][]float64, m) // how far along x_j each projection went last
	for range cycles {
		for j := range m {
			x := q.x.RawRowView(j)
			v := make([]float64, q.d)
			for c := range q.p {
				if kept[j] != nil {
					dense.Axpy(theta.RawRowView(c), x[c], kept[j])
				}
				dense.Axpy(v, x[c], theta.RawRowView(c))
			}
			kept[j] = make([]float64, q.d)
			if norm := math.Sqrt(dense.Dot(v, v)); norm > linearBound {
				dense.Axpy(kept[j], 1-linearBound/norm, v)
				for c := range q.p {
					dense.Axpy(theta.RawRowView(c), -x[c], kept[j])
				}
			}
		}
	}
}

// descend takes T steps of rates radius/(G√t), G = √2·D as both analyses have it, with noise by
// step, and projects by the given way.
func (q *linearProblem) descend(steps int, step func(g, theta *mat.Dense), project func(*mat.Dense)) *mat.Dense {
	theta, g := mat.NewDense(q.p, q.d, nil), mat.NewDense(q.p, q.d, nil)
	for t := range steps {
		step(g, theta)
		g.Scale(q.radius/(math.Sqrt2*float64(q.examples)*math.Sqrt(float64(t+1))), g)
		theta.Sub(theta, g)
		project(theta)
	}
	return theta
}

// best is the least loss over Θ, without noise: steps of 1/λ for the largest curvature λ <=
// λmax(XXᵀ)·max‖A_j‖.
func (q *linearProblem) best() float64 {
	theta, g := mat.NewDense(q.p, q.d, nil), mat.NewDense(q.p, q.d, nil)
	curvature := 0.
	for _, a := range q.a {
		curvature = max(curvature, mat.Norm(mat.NewDense(q.d, q.d, a), 2))
	}
	curvature *= math.Pow(mat.Norm(q.x, 2), 2)
	for range 500 {
		q.gradient(g, theta, nil, 0, 0)
		g.Scale(1/curvature, g)
		theta.Sub(theta, g)
		q.project(theta)
	}
	return q.loss(theta)
}

// Theorem 3 and Remark 7. Over p from m/4 to 16m, the test compares the excess risks of
//   - projected SSP-i at its T = D²/(mdρ²),
//   - noisy gradient descent at its T = D²/(pdρ²),
//   - noisy gradient descent at the T of SSP-i,
//   - noisy gradient descent where Θ is a ball of the same radius instead.
//
// All protect one example with (ε, δ) = (1, 1e-5). The accountant gives ρ: z for gradients of norm
// at most 1, and √2·z for two statistics of sensitivity 1 in their units. Five seeds.
//
// The risk of SSP-i does not grow with p beyond m. The bound of noisy descent grows like √p, fourfold
// from m to 16m, but its risk does not even double. Noise in directions that no public feature has
// changes no prediction, and Θ bounds predictions only.
func TestLinearEncoderByDimension(t *testing.T) {
	const m, d, examples, seeds = 16, 2, 1000, 5
	effort.LongOnly(t, "some hundred thousand steps, of a figure")
	z, _, err := dp.NoiseMultiplier(dp.Budget{Epsilon: 1, Delta: 1e-5, Accountant: dp.PLD}, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	mean := map[string][]float64{}
	widths := []int{m / 4, m, 4 * m, 16 * m}
	for k, p := range widths {
		for seed := range uint64(seeds) {
			rng := rand.New(rand.NewPCG(seed, uint64(p)))
			q := newLinearProblem(t, rng, m, p, d, examples)
			best := q.best()
			both := float64(examples) * float64(examples) / float64(d)
			ours, theirs := int(both/(m*2*z*z)), int(both/(float64(p)*z*z))
			record := func(name string, theta *mat.Dense) {
				if mean[name] == nil {
					mean[name] = make([]float64, len(widths))
				}
				mean[name][k] += (q.loss(theta) - best) / seeds
			}
			statistics := func(g, theta *mat.Dense) {
				sigma := math.Sqrt2 * z * math.Sqrt(float64(ours))
				q.gradient(g, theta, rng, sigma, linearBound*sigma)
			}
			noisy := func(steps int) func(g, theta *mat.Dense) {
				return func(g, theta *mat.Dense) {
					q.gradient(g, theta, nil, 0, 0)
					sigma := z * math.Sqrt(float64(steps))
					g.Apply(func(_, _ int, v float64) float64 { return v + sigma*rng.NormFloat64() }, g)
				}
			}
			ball := func(theta *mat.Dense) {
				if norm := mat.Norm(theta, 2); norm > q.radius { // Frobenius
					theta.Scale(q.radius/norm, theta)
				}
			}
			record("ssp-i", q.descend(ours, statistics, q.project))
			record("descent", q.descend(theirs, noisy(theirs), q.project))
			record("descent, T of ssp-i", q.descend(ours, noisy(ours), q.project))
			record("descent in a ball", q.descend(theirs, noisy(theirs), ball))
			record("zero", mat.NewDense(p, d, nil))
		}
	}
	for name, x := range mean {
		t.Log(name, fmt.Sprintf("%.2f", x))
	}
	for k, p := range widths[2:] {
		if ours, theirs := mean["ssp-i"][2+k]/mean["ssp-i"][1], mean["descent"][2+k]/mean["descent"][1]; ours > 1.3 || theirs > 2 {
			t.Errorf("p = %d: excess risk of SSP-i %v times that of p = m, of noisy descent %v times", p, ours, theirs)
		}
	}
	if x := mean["ssp-i"]; x[1] > mean["zero"][1]/3 {
		t.Errorf("SSP-i has learned little: %v, of %v", x, mean["zero"])
	}
}
