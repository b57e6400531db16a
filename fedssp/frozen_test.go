package fedssp

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/fedsim/fedsim/dataset"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dataset/split"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/effort"
)

// frozen is a possible release with one rating as the unit, if users' vectors were random numbers
// of a public seed. It releases item biases, and Σ_k r_kj u_k for each item, over all ratings with
// weight 1, with residuals r cut to ±1 and u of norm 1. So one rating moves the sum by 1 and one
// row alone. No user is fitted before. Noise multipliers are for a fifth of μ² on sums of ratings
// and their counts, and the rest on the rows.
type frozen struct {
	mean float64
	bias []float64
	v    []float64 // m x d
	d    int
}

func newFrozen(train dataset.Ratings, d int, z float64, seed uint64) *frozen {
	rng := rand.New(rand.NewPCG(seed, 5))
	f := &frozen{mean: train.Mean(), bias: make([]float64, train.Items), v: make([]float64, train.Items*d), d: d}
	counts, onBias, onRows := make([]float64, train.Items), z*math.Sqrt(10), z/math.Sqrt(0.8)
	for k, y := range train.Value {
		counts[train.Item[k]]++
		f.bias[train.Item[k]] += dense.Clamp(float64(y)-f.mean, 2)
	}
	for j := range counts {
		counts[j] = max(1, counts[j]+onBias*rng.NormFloat64())
		f.bias[j] = (f.bias[j] + 2*onBias*rng.NormFloat64()) / (counts[j] + 5 + 2*onBias)
	}
	u := make([]float64, train.Users*d)
	for k := range u {
		u[k] = rng.NormFloat64()
	}
	for i := range train.Users {
		row := u[i*d : (i+1)*d]
		if norm := math.Sqrt(dense.Dot(row, row)); norm > 1 {
			for c := range row {
				row[c] /= norm
			}
		}
	}
	for k, y := range train.Value {
		j, i := int(train.Item[k]), int(train.User[k])
		dense.Axpy(f.v[j*d:(j+1)*d], dense.Clamp(float64(y)-f.mean-f.bias[j], 1), u[i*d:(i+1)*d])
	}
	for j, n := range counts { // rows of about one length, shorter where noise is most of them
		for c := range d {
			x := &f.v[j*d+c]
			*x = (*x + onRows*rng.NormFloat64()) * math.Sqrt(float64(d)) / (math.Sqrt(n) + 3 + onRows*math.Sqrt(float64(d)))
		}
	}
	return f
}

// rmse fits users to their own ratings, which stays with them, by a bias and, unless ridge is
// infinite, a vector.
func (f *frozen) rmse(train, test *dataset.Rows, users int, ridge float64) float64 {
	var sum, count float64
	for i := range users {
		items, values := train.Row(i)
		bias, a, b := 0., make([]float64, f.d*f.d), make([]float64, f.d)
		for k, j := range items {
			bias += (float64(values[k]) - f.mean - f.bias[j]) / (float64(len(items)) + 5)
		}
		for k, j := range items {
			x := f.v[int(j)*f.d : (int(j)+1)*f.d]
			dense.Axpy(b, float64(values[k])-f.mean-f.bias[j]-bias, x)
			dense.AddOuter(a, f.d, x, f.d, f.d)
		}
		for c := range f.d {
			a[c*f.d+c] += ridge
		}
		if math.IsInf(ridge, 1) || !dense.SolveUpper(a, b, f.d) {
			clear(b)
		}
		items, values = test.Row(i)
		for k, j := range items {
			sum += dense.Sqr(float64(values[k]) - f.mean - f.bias[j] - bias - dense.Dot(b, f.v[int(j)*f.d:(int(j)+1)*f.d]))
			count++
		}
	}
	return math.Sqrt(sum / count)
}

// Frozen users for --unit rating would gain almost nothing over item biases, with ε = 5 for a
// rating and without any noise. The ridge is even the best of six on the test ratings
// themselves. Random vectors of users make rows of items a sketch of their columns. With so few
// users the sketch limits the result, not the noise. FEDSIM_TEST_LONG uses a set of the shape of
// MovieLens 1M.
func TestFrozenUsersLearnLittle(t *testing.T) {
	effort.NotShort(t, "whole runs")
	name, seeds := "synthetic:small", uint64(5)
	if effort.Long() {
		name, seeds = "synthetic:ml-1m", 2
	}
	set, err := read.Open(t.Context(), name, read.Options{})
	if err != nil {
		t.Fatal(err)
	}
	z, _, err := dp.NoiseMultiplier(dp.Budget{Epsilon: 5, Delta: 1e-6, Accountant: dp.PLD}, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, z := range []float64{z, 0} {
		var biases, best float64
		for seed := range seeds {
			split, err := split.Divide(set, split.Params{Test: 0.1, Seed: seed + 1})
			if err != nil {
				t.Fatal(err)
			}
			f := newFrozen(split.Train, 16, z, seed)
			train, test := split.Train.ByUser(), split.Test.ByUser()
			least := math.Inf(1)
			for _, ridge := range []float64{10, 30, 100, 300, 1000, 1e4} {
				least = min(least, f.rmse(train, test, set.Users, ridge))
			}
			best += least / float64(seeds)
			biases += f.rmse(train, test, set.Users, math.Inf(1)) / float64(seeds)
		}
		t.Logf("%s, noise multiplier %.3f: test RMSE %.4f, of biases %.4f", name, z, best, biases)
		if best > biases || biases-best > 0.005 {
			t.Errorf("noise multiplier %v: %v, of biases %v", z, best, biases)
		}
	}
}
