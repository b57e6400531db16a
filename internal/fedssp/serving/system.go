package serving

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/protocol"
)

// Equations holds the server's equations in an outer step: A_j v_j = b_j for every item. Every
// statistic is scaled from the survivors of its own round to all N clients. Otherwise a round with
// dropouts would shrink the result.
//
// A ridge holds v_j, in proportion to the weight of the item's ratings ([kernel.Params.ItemRidge]) and as
// a prior ([kernel.Params.ItemPrior]). If b_j is noisy, the equation itself is discounted, which is ours.
// The noise of variance σ² in b_j comes beside the scatter of ratings, whose covariance is about
// w̃·A_j for residuals of about 1 and weights of about w̃. The best linear estimate weighs the
// equation with (A_j + ρI)⁻¹, ρ = σ²/w̃,
//
//	A_j(A_j + ρI)⁻¹A_j v_j = A_j(A_j + ρI)⁻¹b_j.
//
// So the prior, or public features, decide in directions where noise hides the signal. Without
// noise nothing changes.
type Equations struct {
	Params  *kernel.Params
	Typical float64   // w̃, a typical weight of a rating
	Rho     float64   // ρ
	Gains   []float64 // the weights in B as they were released, where they are not the strategy's; nil: they are
	Rhos    []float64 // ρ of each item, where it differs; nil: all have Rho
	Weight  []float64 // c_j = Σ w, floored
	B       []float64 // m x d
	Items   []float64 // PerItem: A_j packed, item by item; nil otherwise
	// Gramian is Σ u uᵀ over all users divided by their number, d x d, projected; One and implicit
	// feedback only. With One A_j is a multiple of it. With implicit feedback a multiple is added.
	Gramian []float64
	Share   []float64 // those multiples, one per item
	At      []float64 // V around which losses were expanded; b is then the gradient at V. nil otherwise
}

// rho is ρ of an item.
func (y *Equations) rho(j int) float64 {
	if y.Rhos != nil {
		return y.Rhos[j]
	}
	return y.Rho
}

// Ridge is the number added to the diagonal of A_j.
func (y *Equations) Ridge(j int) float64 {
	return y.Params.ItemRidge*y.Weight[j] + y.Params.ItemPrior*y.Typical
}

// shares returns the multiple of an average user's Gramian in A_j, of n users: c_j and, with
// implicit feedback, w̃ times the weight of unrated items for each user.
func (y *Equations) shares(n float64) []float64 {
	out := make([]float64, len(y.Weight))
	for j, c := range y.Weight {
		if y.Params.Gramian == kernel.One {
			out[j] = c
		}
		if y.Params.Feedback == kernel.Implicit {
			out[j] += y.Params.Unobserved * y.Typical * n
		}
	}
	return out
}

// Worker is the memory for solving for items one by one.
type Worker struct {
	*dense.Eigen
	A, B, factor, Part, Scratch []float64
}

// NewWorker returns the memory for systems of rank d.
func NewWorker(d int) *Worker {
	n := d * d
	return &Worker{dense.NewEigen(d), make([]float64, n), make([]float64, d), make([]float64, n), make([]float64, n), make([]float64, d)}
}

// load sets w.a and w.b to the system of item j, discounted, ridge included.
func (y *Equations) load(w *Worker, j int) {
	d := y.Params.Rank
	clear(w.A)
	if y.Items != nil {
		dense.Unpack(w.A, y.Items[j*y.Params.Packed():(j+1)*y.Params.Packed()], d, 1)
		w.Project(w.A)
	}
	if y.Gramian != nil {
		dense.Axpy(w.A, y.Share[j], y.Gramian)
	}
	copy(w.B, y.B[j*d:(j+1)*d])
	if y.At != nil {
		// The minimum of gᵀ(x-v) + (x-v)ᵀH(x-v)/2, with the gradient g at v, solves Hx = Hv - g.
		for i := range w.B {
			w.B[i] = dense.Dot(w.A[i*d:(i+1)*d], y.At[j*d:(j+1)*d]) - w.B[i]
		}
	}
	if rho := y.rho(j); rho > 0 {
		y.discount(w, rho)
	}
	for i := range d {
		w.A[i*d+i] += y.Ridge(j)
	}
}

// discount replaces A by A(A + ρI)⁻¹A and b by A(A + ρI)⁻¹b. A and A + ρI commute, so X = (A +
// ρI)⁻¹A is symmetric, and the results are AX and Xb.
func (y *Equations) discount(w *Worker, rho float64) {
	d := y.Params.Rank
	copy(w.factor, w.A)
	for i := range d {
		w.factor[i*d+i] += rho
	}
	t, ok := lapack64.Potrf(dense.Upper(w.factor, d))
	if !ok {
		clear(w.A)
		clear(w.B)
		return
	}
	copy(w.Part, w.A)
	lapack64.Potrs(t, dense.General(w.Part, d, d))
	x := dense.General(w.Part, d, d)
	blas64.Gemv(blas.NoTrans, 1, x, dense.Vector(w.B), 0, dense.Vector(w.Scratch))
	copy(w.B, w.Scratch)
	copy(w.factor, w.A)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, dense.General(w.factor, d, d), x, 0, dense.General(w.A, d, d))
}

// Solve sets the rows of v to the solutions, item by item.
func (y *Equations) Solve(v []float64, run protocol.Runner) {
	d := y.Params.Rank
	dense.Blocks(run, y.Params.Items, func(from, to int) {
		w := NewWorker(d)
		for j := from; j < to; j++ {
			y.load(w, j)
			w.Solve(v[j*d : (j+1)*d])
		}
	})
}

// Solve sets row to the solution of the system in w, or to zero if there is no solution.
func (w *Worker) Solve(row []float64) {
	if !dense.SolveUpper(w.A, w.B, len(w.B)) {
		clear(w.B)
	}
	copy(row, w.B)
}

// Systems computes all systems at once, for repeated use: m x d x d and m x d.
func (y *Equations) Systems(run protocol.Runner) (a, b []float64) {
	m, d := y.Params.Items, y.Params.Rank
	a, b = make([]float64, m*d*d), make([]float64, m*d)
	dense.Blocks(run, m, func(from, to int) {
		w := NewWorker(d)
		for j := from; j < to; j++ {
			y.load(w, j)
			copy(a[j*d*d:], w.A)
			copy(b[j*d:], w.B)
		}
	})
	return a, b
}

// SolveItems sets the rows of v to the solutions.
func (y *Equations) SolveItems(v []float64, run protocol.Runner) {
	if y.Params.Gramian == kernel.One {
		y.SolveOne(v, run)
	} else {
		y.Solve(v, run)
	}
}

// SolveOne solves if every A_j is a multiple of one Gramian G. It decomposes G once. In the
// eigenbasis of G all systems are diagonal, so only b and v have to be rotated.
func (y *Equations) SolveOne(v []float64, run protocol.Runner) {
	d := y.Params.Rank
	e := dense.NewEigen(d)
	e.Decompose(y.Gramian)
	q := dense.General(e.Vectors, d, d)
	dense.Blocks(run, y.Params.Items, func(from, to int) {
		part := func(x []float64) blas64.General {
			return blas64.General{Rows: to - from, Cols: d, Stride: d, Data: x[from*d : to*d]}
		}
		turned := make([]float64, (to-from)*d)
		t := blas64.General{Rows: to - from, Cols: d, Stride: d, Data: turned}
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, part(y.B), q, 0, t)
		var at []float64
		if y.At != nil {
			at = make([]float64, len(turned))
			blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, part(y.At), q, 0, blas64.General{Rows: to - from, Cols: d, Stride: d, Data: at})
		}
		for j := from; j < to; j++ {
			row, rho := turned[(j-from)*d:(j-from+1)*d], y.rho(j)
			for k, x := range e.Values {
				a := y.Share[j] * x
				if at != nil {
					row[k] = a*at[(j-from)*d+k] - row[k]
				}
				weight := 1.0
				if rho > 0 {
					weight = a / (a + rho)
				}
				row[k] *= weight / (weight*a + y.Ridge(j))
			}
		}
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, t, q, 0, part(v))
	})
}

// Equations scales the releases of the two given names to N clients.
func (s *Strategy) Equations(r Absorbed, n float64, second, first string) *Equations {
	p := &s.Params.Params
	y := &Equations{Params: p}
	y.Weight, y.Typical = s.Weights()
	y.B = dense.Scaled(r.Values[first], n)
	y.Rho = dense.Sqr(r.Noise[first]*n) / y.Typical
	if x := r.Values[second]; x != nil {
		y.Items = dense.Scaled(x, n)
	}
	if x := r.Values[kernel.Gramian]; x != nil {
		y.Gramian = make([]float64, p.Rank*p.Rank)
		dense.Unpack(y.Gramian, x, p.Rank, 1/r.Users)
		dense.NewEigen(p.Rank).Project(y.Gramian)
		y.Share = y.shares(s.Params.Total())
	}
	return y
}

// Times is the factor that scales a sum over the survivors of a round to all N clients.
func (s *Strategy) Times(r Absorbed) float64 { return s.Params.Total() / r.Users }
