package fedssp

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// system holds the server's equations in an outer step: A_j v_j = b_j for every item. Every
// statistic is scaled from the survivors of its own round to all N clients. Otherwise a round with
// dropouts would shrink the result.
//
// A ridge holds v_j, in proportion to the weight of the item's ratings ([Params.ItemRidge]) and as
// a prior ([Params.ItemPrior]). If b_j is noisy, the equation itself is discounted, which is ours.
// The noise of variance σ² in b_j comes beside the scatter of ratings, whose covariance is about
// w̃·A_j for residuals of about 1 and weights of about w̃. The best linear estimate weighs the
// equation with (A_j + ρI)⁻¹, ρ = σ²/w̃,
//
//	A_j(A_j + ρI)⁻¹A_j v_j = A_j(A_j + ρI)⁻¹b_j.
//
// So the prior, or public features, decide in directions where noise hides the signal. Without
// noise nothing changes.
type system struct {
	p       *Params
	typical float64   // w̃, a typical weight of a rating
	rho     float64   // ρ
	weight  []float64 // c_j = Σ w, floored
	b       []float64 // m x d
	items   []float64 // PerItem: A_j packed, item by item; nil otherwise
	// gramian is Σ u uᵀ over all users divided by their number, d x d, projected; One and implicit
	// feedback only. With One A_j is a multiple of it. With implicit feedback a multiple is added.
	gramian []float64
	share   []float64 // those multiples, one per item
	at      []float64 // V around which losses were expanded; b is then the gradient at V. nil otherwise
}

// ridge is the number added to the diagonal of A_j.
func (y *system) ridge(j int) float64 {
	return y.p.ItemRidge*y.weight[j] + y.p.ItemPrior*y.typical
}

// shares returns the multiple of an average user's Gramian in A_j, of n users: c_j and, with
// implicit feedback, w̃ times the weight of unrated items for each user.
func (y *system) shares(n float64) []float64 {
	out := make([]float64, len(y.weight))
	for j, c := range y.weight {
		if y.p.Gramian == One {
			out[j] = c
		}
		if y.p.Feedback == Implicit {
			out[j] += y.p.Unobserved * y.typical * n
		}
	}
	return out
}

// worker is the memory for solving for items one by one.
type worker struct {
	*dense.Eigen
	a, b, factor, part, scratch []float64
}

func newWorker(d int) *worker {
	n := d * d
	return &worker{dense.NewEigen(d), make([]float64, n), make([]float64, d), make([]float64, n), make([]float64, n), make([]float64, d)}
}

// load sets w.a and w.b to the system of item j, discounted, ridge included.
func (y *system) load(w *worker, j int) {
	d := y.p.Rank
	clear(w.a)
	if y.items != nil {
		dense.Unpack(w.a, y.items[j*y.p.packed():(j+1)*y.p.packed()], d, 1)
		w.Project(w.a)
	}
	if y.gramian != nil {
		dense.Axpy(w.a, y.share[j], y.gramian)
	}
	copy(w.b, y.b[j*d:(j+1)*d])
	if y.at != nil {
		expand(w.b, w.a, y.at[j*d:(j+1)*d])
	}
	if y.rho > 0 {
		y.discount(w)
	}
	for i := range d {
		w.a[i*d+i] += y.ridge(j)
	}
}

// discount replaces A by A(A + ρI)⁻¹A and b by A(A + ρI)⁻¹b. A and A + ρI commute, so X = (A +
// ρI)⁻¹A is symmetric, and the results are AX and Xb.
func (y *system) discount(w *worker) {
	d := y.p.Rank
	copy(w.factor, w.a)
	for i := range d {
		w.factor[i*d+i] += y.rho
	}
	t, ok := lapack64.Potrf(dense.Upper(w.factor, d))
	if !ok {
		clear(w.a)
		clear(w.b)
		return
	}
	copy(w.part, w.a)
	lapack64.Potrs(t, dense.Square(w.part, d))
	x := dense.Square(w.part, d)
	blas64.Gemv(blas.NoTrans, 1, x, dense.Vector(w.b), 0, dense.Vector(w.scratch))
	copy(w.b, w.scratch)
	copy(w.factor, w.a)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, dense.Square(w.factor, d), x, 0, dense.Square(w.a, d))
}

// solve sets the rows of v to the solutions, item by item.
func (y *system) solve(v []float64, run protocol.Runner) {
	d := y.p.Rank
	dense.Blocks(run, y.p.Items, func(from, to int) {
		w := newWorker(d)
		for j := from; j < to; j++ {
			y.load(w, j)
			w.solve(v[j*d : (j+1)*d])
		}
	})
}

// solve sets row to the solution of the system in w, or to zero if there is no solution.
func (w *worker) solve(row []float64) {
	if !dense.SolveUpper(w.a, w.b, len(w.b)) {
		clear(w.b)
	}
	copy(row, w.b)
}

// systems computes all systems at once, for repeated use: m x d x d and m x d.
func (y *system) systems(run protocol.Runner) (a, b []float64) {
	m, d := y.p.Items, y.p.Rank
	a, b = make([]float64, m*d*d), make([]float64, m*d)
	dense.Blocks(run, m, func(from, to int) {
		w := newWorker(d)
		for j := from; j < to; j++ {
			y.load(w, j)
			copy(a[j*d*d:], w.a)
			copy(b[j*d:], w.b)
		}
	})
	return a, b
}

// solveItems sets the rows of v to the solutions.
func (y *system) solveItems(v []float64, run protocol.Runner) {
	if y.p.Gramian == One {
		y.solveOne(v, run)
	} else {
		y.solve(v, run)
	}
}

// solveOne solves if every A_j is a multiple of one Gramian G. It decomposes G once. In the
// eigenbasis of G all systems are diagonal, so only b and v have to be rotated.
func (y *system) solveOne(v []float64, run protocol.Runner) {
	d := y.p.Rank
	e := dense.NewEigen(d)
	e.Decompose(y.gramian)
	q := dense.Square(e.Vectors, d)
	dense.Blocks(run, y.p.Items, func(from, to int) {
		part := func(x []float64) blas64.General {
			return blas64.General{Rows: to - from, Cols: d, Stride: d, Data: x[from*d : to*d]}
		}
		turned := make([]float64, (to-from)*d)
		t := blas64.General{Rows: to - from, Cols: d, Stride: d, Data: turned}
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, part(y.b), q, 0, t)
		var at []float64
		if y.at != nil {
			at = make([]float64, len(turned))
			blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, part(y.at), q, 0, blas64.General{Rows: to - from, Cols: d, Stride: d, Data: at})
		}
		for j := from; j < to; j++ {
			row := turned[(j-from)*d : (j-from+1)*d]
			for k, x := range e.Values {
				a := y.share[j] * x
				if at != nil {
					row[k] = a*at[(j-from)*d+k] - row[k]
				}
				weight := 1.0
				if y.rho > 0 {
					weight = a / (a + y.rho)
				}
				row[k] *= weight / (weight*a + y.ridge(j))
			}
		}
		blas64.Gemm(blas.NoTrans, blas.Trans, 1, t, q, 0, part(v))
	})
}

// system scales the releases of the two given names to N clients.
func (s *Strategy) system(r absorbed, n float64, second, first string) *system {
	p := &s.params.Params
	y := &system{p: p}
	y.weight, y.typical = s.weights()
	y.b = dense.Scaled(r.values[first], n)
	y.rho = dense.Sqr(r.noise[first]*n) / y.typical
	if x := r.values[second]; x != nil {
		y.items = dense.Scaled(x, n)
	}
	if x := r.values[Gramian]; x != nil {
		y.gramian = make([]float64, p.Rank*p.Rank)
		dense.Unpack(y.gramian, x, p.Rank, 1/r.users)
		dense.NewEigen(p.Rank).Project(y.gramian)
		y.share = y.shares(s.params.total())
	}
	return y
}

// times is the factor that scales a sum over the survivors of a round to all N clients.
func (s *Strategy) times(r absorbed) float64 { return s.params.total() / r.users }
