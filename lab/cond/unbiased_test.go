package cond

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/fedsim/fedsim/protocol"
)

// Sampling is the oracle: unbiased labels have the bin's middle as their mean and the stated
// scatter around it.
func TestUnbiasedLabels(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	y := make([]float64, 200_000)
	for i := range y {
		y[i] = rng.NormFloat64()
	}
	l := noisyLabels(t, y, DefaultBinsOptions(-4, 4, 2), 1)
	u, middles := l.Unbiased(), l.Bins.middles()
	n := float64(len(y))
	var mean, want, square float64
	for i, v := range u {
		cell := l.Bins.Options.cell(y[i])
		mean += v / n
		want += middles[l.Bins.bin(cell)] / n
		d := v - l.Bins.Options.middle(cell)
		square += d * d / n
	}
	variance := l.Bins.Variance()
	if deviation := math.Sqrt(variance / n); math.Abs(mean-want) > 5*deviation {
		t.Errorf("the mean of unbiased labels is %v, of what they stand for %v: %.1f deviations", mean, want, math.Abs(mean-want)/deviation)
	}
	// Squares up to some 10 times their mean deviate by at most 0.7% of it, and the noisy histogram
	// by less.
	if math.Abs(square-variance) > .03*variance {
		t.Errorf("unbiased labels scatter by %v; stated are %v", square, variance)
	}
	for _, v := range l.Values() {
		if v < -4 || v > 4 {
			t.Fatalf("a label became %v", v)
		}
	}
}

// The closed form of a ridge regression on conditioned features, solved by Cholesky, is the oracle
// of gradient descent. Features and items of their own overlap, so that descent does not end in one
// step.
func TestDescentSolvesTheRidge(t *testing.T) {
	for _, ridge := range []float64{0.5, 20} {
		p, x := crafted(4)
		m := known(t, x)
		tr := using(t, x, true)
		n := p.len()
		gram, sums := mat.NewSymDense(n, nil), mat.NewVecDense(n, nil)
		for u := range x.users() {
			for k := x.start[u]; k < x.start[u+1]; k++ {
				v := mat.NewVecDense(n, tr.apply(p.layout, plain(x, u, x.item[k]))) // C is symmetric
				gram.SymRankOne(gram, 1, v)
				sums.AddScaledVec(sums, x.label[k], v)
			}
		}
		for j := range n {
			gram.SetSym(j, j, gram.At(j, j)+ridge)
		}
		var factor mat.Cholesky
		if !factor.Factorize(gram) {
			t.Fatal("the oracle's system was not solved")
		}
		solved := mat.NewVecDense(n, nil)
		if err := factor.SolveVecTo(solved, sums); err != nil {
			t.Fatal(err)
		}
		want := tr.apply(p.layout, solved.RawVector().Data)
		got, err := descend(t.Context(), x, tr, m, ridge, protocol.Workers(1))
		if err != nil {
			t.Fatal(err)
		}
		for j := range want {
			if math.Abs(got[j]-want[j]) > 1e-3*(1+math.Abs(want[j])) {
				t.Errorf("ridge %v: weight %d is %v; in closed form %v", ridge, j, got[j], want[j])
			}
		}
	}
}
