package fedssp

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/serving"
)

// Packing keeps norms: the norm of svec is the Frobenius norm, here by a double loop.
func TestPacking(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for d := 1; d < 7; d++ {
		u := make([]float64, d)
		for i := range u {
			u[i] = rng.NormFloat64()
		}
		packed := make([]float64, d*(d+1)/2)
		dense.PackOuter(packed, u)
		full, want, norm := make([]float64, d*d), make([]float64, d*d), 0.0
		for i := range d {
			for j := range d {
				want[i*d+j] = u[i] * u[j]
				norm += want[i*d+j] * want[i*d+j]
			}
		}
		dense.Unpack(full, packed, d, 1)
		near(t, "unpacked", full, want, 1e-14)
		near(t, "norm", []float64{dense.Dot(packed, packed)}, []float64{norm}, 1e-13)
		again := make([]float64, len(packed))
		dense.Pack(again, full, d)
		near(t, "packed again", again, packed, 1e-14)
	}
}

// By hand: [[1, 2], [2, 1]] has eigenvalues 3 and -1, along (1, 1) and (1, -1); what is left is
// 3/2 everywhere. A definite matrix is left as it is.
func TestProjection(t *testing.T) {
	e := dense.NewEigen(2)
	a := []float64{1, 2, 2, 1}
	e.Project(a)
	near(t, "projection", a, []float64{1.5, 1.5, 1.5, 1.5}, 1e-14)
	b := []float64{2, 1, 1, 3}
	e.Project(b)
	near(t, "definite", b, []float64{2, 1, 1, 3}, 0)
}

// The projection comes before the ridge. Let A = [[1, 2], [2, 1]], b = (1, 0) and the ridge 0.5. Then v is
// (1.5 J + 0.5 I)⁻¹ b. The formula of Sherman and Morrison gives
// (2, 0) - (1.5·2·2/(1 + 1.5·2·2))·(1, 1) = (2 - 6/7, -6/7). In the other
// order A + ridge keeps its eigenvalue -1 + 0.5, is projected to 1.75 J, and is singular.
func TestProjectionComesBeforeTheRidge(t *testing.T) {
	p := plain(1, 2)
	p.ItemRidge = 0.5
	for _, one := range []bool{false, true} {
		y := &serving.Equations{Params: &p, Typical: 1, Weight: []float64{1}, B: []float64{1, 0}}
		v := make([]float64, 2)
		if one {
			p.Gramian = kernel.One
			y.Gramian, y.Share = []float64{1, 2, 2, 1}, []float64{1}
			y.SolveOne(v, serial{})
		} else {
			y.Items = make([]float64, 3)
			dense.Pack(y.Items, []float64{1, 2, 2, 1}, 2)
			y.Solve(v, serial{})
		}
		near(t, fmt.Sprint("v, one Gramian ", one), v, []float64{2 - 6.0/7, -6.0 / 7}, 1e-12)
	}
}

// Discounted, the estimate is the best linear one. The reference is the textbook formula of the
// posterior mean, v = (P + AᵀS⁻¹A)⁻¹AᵀS⁻¹b for noise of covariance S = w̃A + σ²I and a prior of
// precision P, with explicit inverses.
func TestDiscountIsTheBestLinearEstimate(t *testing.T) {
	const d = 4
	rng := rand.New(rand.NewPCG(6, 6))
	for _, one := range []bool{false, true} {
		p := plain(3, d)
		p.ItemRidge, p.ItemPrior = 0, 2.5
		y := &serving.Equations{Params: &p, Typical: 0.2, Weight: []float64{3, 0.5, 8}, B: make([]float64, 3*d)}
		const sigma2 = 0.9
		y.Rho = sigma2 / y.Typical
		for i := range y.B {
			y.B[i] = rng.NormFloat64()
		}
		gram := mat.NewDense(d, d, nil)
		for range 6 {
			u := mat.NewVecDense(d, nil)
			for i := range d {
				u.SetVec(i, rng.NormFloat64())
			}
			gram.RankOne(gram, 1, u, u)
		}
		if one {
			p.Gramian = kernel.One
			y.Gramian, y.Share = gram.RawMatrix().Data, y.Weight
		} else {
			y.Items = make([]float64, 3*p.Packed())
			for j := range 3 {
				var a mat.Dense
				a.Scale(y.Weight[j], gram)
				dense.Pack(y.Items[j*p.Packed():(j+1)*p.Packed()], a.RawMatrix().Data, d)
			}
		}
		v, again := make([]float64, 3*d), make([]float64, 3*d)
		y.Solve(v, serial{})
		var want []float64
		for j := range 3 {
			var a, s, inverse, left mat.Dense
			a.Scale(y.Weight[j], gram)
			s.Scale(y.Typical, &a)
			for i := range d {
				s.Set(i, i, s.At(i, i)+sigma2)
			}
			if err := inverse.Inverse(&s); err != nil {
				t.Fatal(err)
			}
			var ai mat.Dense
			ai.Mul(&a, &inverse)
			left.Mul(&ai, &a)
			for i := range d {
				left.Set(i, i, left.At(i, i)+p.ItemPrior)
			}
			var right, x mat.VecDense
			right.MulVec(&ai, mat.NewVecDense(d, y.B[j*d:(j+1)*d]))
			if err := x.SolveVec(&left, &right); err != nil {
				t.Fatal(err)
			}
			want = append(want, x.RawVector().Data...)
		}
		near(t, fmt.Sprint("item by item, one Gramian ", one), v, want, 1e-9)
		if one {
			y.SolveOne(again, serial{})
			near(t, "in the eigenbasis", again, want, 1e-9)
		}
	}
}
