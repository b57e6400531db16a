package encoder

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/protocol"
)

// shared has one Gramian for all items, scaled by each one's weight.
type shared struct {
	gramian, b []float64
	rank       int
}

func (o *shared) Gradient(j int, v, g []float64) float64 {
	d := o.rank
	blas64.Implementation().Dgemv(blas.NoTrans, d, d, 1, o.gramian, d, v, 1, 0, g, 1)
	b := o.b[j*d : (j+1)*d]
	loss := floats.Dot(v, g)/2 - floats.Dot(b, v)
	floats.Sub(g, b)
	return loss
}

// everywhere is a category of which every item has as many values, all different.
func everywhere(name string, items, values, each int) dataset.Category {
	c := dataset.Category{Name: name, Values: make([]string, values), Start: []int32{0}}
	rng := rand.New(rand.NewPCG(1, uint64(values)))
	for range items {
		first := rng.IntN(values)
		for k := range each {
			c.Value, c.Weight = append(c.Value, int32((first+k)%values)), append(c.Weight, 1)
		}
		c.Start = append(c.Start, int32(len(c.Value)))
	}
	return c
}

// BenchmarkFit is a full gradient step of an encoder of the size of MovieLens 10M, on all cores. It
// has 10,677 items and rank 32, with genres, year, cast and ids under a dense layer. No item lacks
// any feature, since gonum passes over zeros. of-gemm is its time over the time of matrix products
// of gonum's blas64 with as many operations: forward and twice back through the dense layer, and the
// items' A_j v_j. Steps and products take turns, so that both see the same load of the machine.
func BenchmarkFit(b *testing.B) {
	const items, rank, steps = 10_677, 32, 4
	f := &dataset.ItemFeatures{Items: items}
	for _, c := range []struct {
		name         string
		values, each int
	}{{"genres", 19, 2}, {"year", 100, 1}, {"cast", 20_000, 5}} {
		f.Categories = append(f.Categories, everywhere(c.name, items, c.values, c.each))
	}
	o := &shared{make([]float64, rank*rank), make([]float64, items*rank), rank}
	for i := range o.b {
		o.b[i] = float64(i%7) - 3
	}
	for i := range rank {
		o.gramian[i*rank+i] = 1
	}
	s := Settings{Dense: true, IDs: true, StartNorm: 1, Optimiser: Adam, Rate: 1e-3, Steps: steps}
	e, err := New(f, items, rank, s, 1)
	if err != nil {
		b.Fatal(err)
	}
	width := 4 * rank
	h, back := make([]float64, items*width), make([]float64, items*width)
	v, av := make([]float64, items*rank), make([]float64, items*rank)
	w, g := make([]float64, width*rank), make([]float64, rank*rank)
	for i := range h {
		h[i] = float64(i%5) + 1
	}
	for i := range w {
		w[i] = 1e-3
	}
	for i := range g {
		g[i] = 1e-3
	}
	mul := func(n, k, m int, a, x, c []float64) {
		blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, dense.General(a, n, k), dense.General(x, k, m), 0, dense.General(c, n, m))
	}
	run, products := protocol.Workers(runtime.GOMAXPROCS(0)), time.Duration(0)
	for b.Loop() {
		if err := e.Fit(o, 1, Slice{0, 1}, run); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		begin := time.Now()
		for range steps {
			mul(items, width, rank, h, w, v)
			mul(items, width, rank, h, w, v)
			mul(items, rank, width, v, w, back)
			mul(items, rank, rank, v, g, av)
		}
		products += time.Since(begin)
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/steps, "ns/step")
	b.ReportMetric(float64(b.Elapsed())/float64(products), "of-gemm")
}
