package cond

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/entropy/simulated"
	"github.com/fedsim/fedsim/protocol"
)

// The noise on the sum of a step is measured on every parameter, also for values outside the
// sample. Its variance is z·clip squared (or z·2·clip with all examples) by the accountant, and the
// sum is on the grid.
func TestMLPNoiseIsWhatIsStated(t *testing.T) {
	c := categorical(500, 1, 1, 400, 1)
	for _, q := range []float64{.01, 1} {
		o := mlpOptions(1)
		o.Width, o.Hidden, o.SamplingRate, o.Steps = 16, [2]int{8, 4}, q, 1
		noisy := mlpRunOf(t, c, o, 1)
		o.Budget.Epsilon = math.Inf(1)
		plain := mlpRunOf(t, c, o, 1)
		if err := noisy.step(0); err != nil {
			t.Fatal(err)
		}
		if err := plain.step(0); err != nil {
			t.Fatal(err)
		}
		moved, budget := 2*o.Clip, dp.Budget{Epsilon: 1, Delta: 1e-6, Accountant: dp.PLD}
		if q < 1 {
			moved, budget = o.Clip, budget.ForReplacement()
		}
		z, _, err := dp.NoiseMultiplier(budget, 1, math.Floor(q*0x1p32)*0x1p-32)
		if err != nil {
			t.Fatal(err)
		}
		var all float64
		n := float64(len(noisy.gradient))
		silent := 0
		for j, v := range noisy.gradient {
			d := v - plain.gradient[j]
			all += d * d / n
			if d == 0 {
				silent++
			}
			if v != math.Round(v/noisy.grid)*noisy.grid {
				t.Fatalf("q = %v: %v is not a multiple of %v", q, v, noisy.grid)
			}
		}
		// The mean square of n draws deviates by √(2/n): five deviations happen once in 1.7
		// million.
		if want := z * moved * z * moved; math.Abs(all-want) > 5*math.Sqrt(2/n)*want || silent > 1 {
			t.Errorf("q = %v: noise of variance %v, none on %d of %v parameters; %v is accounted for on all", q, all, silent, n, want)
		}
		if table := noisy.m.rows[1]; table != 400 || noisy.m.rows[0] > 400 {
			t.Errorf("tables have %v rows; that of a private field has all its values", noisy.m.rows)
		}
	}
}

// Sizes of samples are binomial: mean and deviation by hand, five deviations of either happen once in a million. No row comes twice.
func TestMLPSamples(t *testing.T) {
	const n, q, steps = 1001, .1, 400
	c := categorical(n, 1, 0, 5, 2)
	o := mlpOptions(1)
	o.SamplingRate = q
	r := mlpRunOf(t, c, o, 3)
	var sum float64
	counts := make([]int, n)
	for step := range uint64(steps) {
		if err := r.sample(step); err != nil {
			t.Fatal(err)
		}
		sum += float64(len(r.rows))
		for _, i := range r.rows {
			counts[i]++
		}
		if s := slices.Clone(r.rows); len(slices.Compact(s)) != len(r.rows) || !slices.IsSorted(r.rows) {
			t.Fatalf("step %d: the sample repeats a row", step)
		}
	}
	if want, deviation := steps*n*q, math.Sqrt(steps*n*q*(1-q)); math.Abs(sum-want) > 5*deviation {
		t.Errorf("samples have %v rows in all; expected are %v ± %.0f", sum, want, deviation)
	}
	for i, k := range counts { // 1,001 rows: six deviations
		if math.Abs(float64(k)-steps*q) > 6*math.Sqrt(steps*q*(1-q)) {
			t.Errorf("row %d is in %d samples of %d", i, k, steps)
		}
	}
}

func TestMLPStatement(t *testing.T) {
	for _, epsilon := range []float64{.25, 4, math.Inf(1)} {
		for _, private := range []int{0, 1} {
			for _, q := range []float64{.25, 1} {
				o := mlpOptions(epsilon)
				o.SamplingRate, o.Steps = q, 3
				s := trainMLP(t, categorical(60, 2, private, 5, 3), o, 1).Statement
				relation, sampling := []dp.Relation{dp.Label, dp.PrivatePart}[private], dp.PoissonSampling
				if q == 1 {
					sampling = dp.NoSampling
				}
				if s.Relation != relation || s.Unit != dp.Example || s.Sampling != sampling || s.Epsilon > epsilon || s.Epsilon < .999*epsilon || s.Validate() != nil {
					t.Errorf("ε = %v, %d private fields, q = %v: the statement is %v", epsilon, private, q, s)
				}
			}
		}
	}
}

// Without noise the model explains the labels, except for their noise of 0.1; a constant would
// leave their variance, and so would a wrong gradient. The model predicts also for a value in no
// example.
func TestMLPLearns(t *testing.T) {
	c := categorical(4000, 3, 1, 20, 4)
	o := mlpOptions(math.Inf(1))
	o.Width, o.Hidden, o.SamplingRate, o.Steps, o.Clip = 8, [2]int{16, 8}, .1, 300, 10
	f := trainMLP(t, c, o, 1)
	mse := f.Model.MSE(c, o.Run)
	var mean, square float64
	for _, y := range c.Y {
		mean += y / float64(len(c.Y))
		square += y * y / float64(len(c.Y))
	}
	if variance := square - mean*mean; !(mse < .05*variance) {
		t.Errorf("MSE %v; a constant has %v", mse, variance)
	}
	unseen := &Categorical{Public: []dataset.Field{{Name: "a", Size: 21, Values: []int32{20}}}, Y: []float64{0}}
	o.Steps = 2
	g := trainMLP(t, &Categorical{Public: []dataset.Field{{Name: "a", Size: 21, Values: c.Public[0].Values}}, Y: c.Y}, o, 1)
	if p := g.Model.Predict(unseen, o.Run); math.IsNaN(p[0]) {
		t.Errorf("a value that was not trained on is predicted as %v", p)
	}
}

func TestMLPRefuses(t *testing.T) {
	c := categorical(20, 2, 1, 5, 5)
	for want, change := range map[string]func(*MLPOptions){
		"delta":    func(o *MLPOptions) { o.Budget.Delta = 0 },
		"diverges": func(o *MLPOptions) { o.Rate = 1e12 },
	} {
		o := mlpOptions(1)
		change(&o)
		if _, err := TrainMLP(c, o, simulated.New(1, "mlp")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v", want, err)
		}
	}
	if _, err := TrainMLP(c, mlpOptions(1), entropy.Source{}); err == nil {
		t.Error("training went on without randomness")
	}
}

// BenchmarkMLP trains 17 fields x 16 on batches of 4,096 of 200,000 examples, noise included.
// of-gemm is the time of a step over the time of the three products (forward, errors, weights) of
// each dense layer with so many examples, by gonum on the same cores in the same run.
func BenchmarkMLP(b *testing.B) {
	for _, bench := range []struct {
		name string
		size int
	}{{"values-1e3", 1000}, {"values-1e4", 10_000}} {
		b.Run(bench.name, func(b *testing.B) {
			const n, batch = 200_000, 4096
			c := categorical(n, 9, 8, bench.size, 1)
			o := mlpOptions(1)
			o.Width, o.Hidden = 16, [2]int{64, 32}
			o.Steps, o.SamplingRate, o.Rate, o.Clip = 1000, float64(batch)/n, .001, 1
			o.Budget, o.Run = dp.Budget{Epsilon: 1, Delta: 1e-6, Accountant: dp.RDP}, protocol.Workers(2)
			o.C = fieldConditioning(b, c)
			r := mlpRunOf(b, c, o, 1)
			var trained int
			step := uint64(0)
			for b.Loop() {
				if err := r.step(step); err != nil {
					b.Fatal(err)
				}
				trained += len(r.rows)
				step++
			}
			b.ReportMetric(float64(trained)/b.Elapsed().Seconds(), "examples/s")
			b.ReportMetric(float64(r.m.len()), "parameters")
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/products(o, batch, 17).Seconds(), "of-gemm")
		})
	}
}

// products times the dense products of a step.
func products(o MLPOptions, batch, fields int) time.Duration {
	sizes := []int{fields * o.Width, o.Hidden[0], o.Hidden[1]}
	const times = 10
	var took time.Duration
	for k := range 2 {
		in, out := sizes[k], sizes[k+1]
		x, w, y := dense.General(make([]float64, batch*in), batch, in), dense.General(make([]float64, out*in), out, in), dense.General(make([]float64, batch*out), batch, out)
		for range times {
			for _, v := range [][]float64{x.Data, w.Data, y.Data} { // no zeros, which gonum skips
				for j := range v {
					v[j] = 1
				}
			}
			began := time.Now()
			blas64.Gemm(blas.NoTrans, blas.Trans, 1, x, w, 0, y)
			blas64.Gemm(blas.Trans, blas.NoTrans, 1, y, x, 0, w)
			blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, y, w, 0, x)
			took += time.Since(began) / times
		}
	}
	return took
}
