package fedssp

import (
	"math"

	"github.com/fedsim/fedsim/protocol"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// sums is what the server knows in an outer step, every statistic scaled from the survivors of
// its own round to all N clients: else a round with dropouts would shrink what is learned from it.
type sums struct {
	weight  []float64 // c_j = Σ w, floored
	gramian []float64 // One, and implicit: Σ u uᵀ, d x d, projected; nil otherwise
	items   []float64 // PerItem: Σ w u uᵀ packed, item by item; nil otherwise
	moments []float64 // Σ w y u or, with the Convex solver, Σ w ℓ′ u
	users   float64   // N
	noise   float64   // standard deviation of the noise in a coordinate of moments
}

// upper is the upper triangle of a row-major d x d matrix.
func upper(a []float64, d int) blas64.Symmetric {
	return blas64.Symmetric{Uplo: blas.Upper, N: d, Stride: d, Data: a}
}

// solveUpper replaces b by a⁻¹b and the upper triangle of a by its factor; false where a is not
// positive definite.
func solveUpper(a, b []float64, d int) bool {
	t, ok := lapack64.Potrf(upper(a, d))
	if ok {
		lapack64.Potrs(t, blas64.General{Rows: d, Cols: 1, Stride: 1, Data: b})
	}
	return ok
}

// projector projects symmetric matrices onto the positive semidefinite ones.
type projector struct {
	d                    int
	vectors, work, value []float64
}

func newProjector(d int) *projector {
	p := &projector{d: d, vectors: make([]float64, d*d), value: make([]float64, d)}
	size := make([]float64, 1)
	lapack64.Syev(lapack.EVCompute, upper(p.vectors, d), p.value, size, -1)
	p.work = make([]float64, int(size[0]))
	return p
}

// project replaces the row-major symmetric a by Π(a): negative eigenvalues become zero. A
// noisy sum of u uᵀ has some, and what is solved with them is noise blown up. It comes before
// the ridge: after it, the ridge would only lift what is most negative.
func (p *projector) project(a []float64) {
	d := p.d
	if p.definite(a) {
		return
	}
	copy(p.vectors, a)
	if !lapack64.Syev(lapack.EVCompute, upper(p.vectors, d), p.value, p.work, len(p.work)) {
		clear(a)
		return
	}
	clear(a)
	for k, x := range p.value {
		if !(x > 0) {
			continue
		}
		for i := range d {
			y := x * p.vectors[i*d+k]
			for j := range d {
				a[i*d+j] += y * p.vectors[j*d+k]
			}
		}
	}
}

// definite reports whether a has a Cholesky factor, so that there is nothing to project.
func (p *projector) definite(a []float64) bool {
	copy(p.vectors, a)
	_, ok := lapack64.Potrf(upper(p.vectors, p.d))
	return ok
}

// solver is what a worker of the item solve needs of memory.
type solver struct {
	*projector
	a, b, scratch []float64
}

func newSolver(d int) *solver {
	return &solver{newProjector(d), make([]float64, d*d), make([]float64, d), make([]float64, d)}
}

// second sets s.a to the second-order statistic of item j, projected, ridge included.
func (x *sums) second(p *Params, s *solver, j int) {
	d, c := p.Rank, x.weight[j]
	if x.items != nil {
		unpack(s.a, x.items[j*p.packed():(j+1)*p.packed()], d, 1)
		s.project(s.a)
	} else {
		clear(s.a)
		axpy(s.a, c*x.curvature(p), x.gramian)
	}
	if p.Feedback == Implicit {
		axpy(s.a, x.unobserved(p), x.gramian)
	}
	ridge := p.ItemRidge * c
	if x.noise > 0 && x.gramian != nil {
		var trace float64
		for i := range d {
			trace += x.gramian[i*d+i]
		}
		ridge += p.NoiseRidge * x.noise * x.noise / (c * trace / float64(d))
	}
	for i := range d {
		s.a[i*d+i] += ridge
	}
}

// curvature is what u uᵀ is multiplied with in the one-Gramian form: ℓ″ or its bound, with which
// a Newton step never overshoots.
func (x *sums) curvature(p *Params) float64 {
	if p.Solver == Convex {
		return p.curvatureBound()
	}
	return 1
}

// unobserved is what a cell that was not rated weighs beside the weights w of those that were. A
// user's weights are about 1/√n and sum to about √n: one over their sum is a typical weight.
func (x *sums) unobserved(p *Params) float64 {
	var sum float64
	for _, c := range x.weight {
		sum += c
	}
	return p.Unobserved * x.users * x.users / sum
}

// als sets the items to the solutions of A_j v_j = b_j.
func (x *sums) als(p *Params, v []float64, run protocol.Runner, more func(s *solver, j int)) {
	d := p.Rank
	blocks(run, p.Items, func(from, to int) {
		s := newSolver(d)
		for j := from; j < to; j++ {
			x.second(p, s, j)
			copy(s.b, x.moments[j*d:(j+1)*d])
			if more != nil {
				more(s, j)
			}
			row := v[j*d : (j+1)*d]
			if !solveUpper(s.a, s.b, d) {
				clear(s.b)
			}
			copy(row, s.b)
		}
	})
}

// blockSize is how many items a worker takes at a time.
const blockSize = 64

// blocks runs f over 0..n-1 in blocks.
func blocks(run protocol.Runner, n int, f func(from, to int)) {
	run.Each((n+blockSize-1)/blockSize, func(i int) { f(i*blockSize, min((i+1)*blockSize, n)) })
}

// biases are b_j = r_j/(c_j + λ).
func (p *Params) biases(residuals, weight []float64, noiseR float64) []float64 {
	b := make([]float64, len(residuals))
	for j, r := range residuals {
		c := weight[j]
		b[j] = clampTo(r/(c+p.BiasRidge+p.BiasNoise*noiseR*noiseR/c), p.ClipBias)
	}
	return b
}

// floored clamps weights from below.
func floored(weight []float64, floor float64) []float64 {
	out := make([]float64, len(weight))
	for j, c := range weight {
		if out[j] = c; !(c > floor) {
			out[j] = floor
		}
	}
	return out
}

var _ = math.Sqrt
