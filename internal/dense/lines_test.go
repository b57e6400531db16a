package dense

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// sparse draws sparse rows, and the same rows written out.
func sparse(rng *rand.Rand, width, kinds, items, each int) (rows *SparseRows, whole [][]float64) {
	start, kind := []int32{0}, make([]int32, items)
	var column []int
	var value []float64
	written := make([][]float64, kinds)
	for k := range kinds {
		written[k] = make([]float64, width)
		for c := range width {
			if rng.IntN(width) < each {
				x := []float64{1, 0.5, 0.7, rng.NormFloat64()}[rng.IntN(4)]
				column, value = append(column, c), append(value, x)
				written[k][c] = x
			}
		}
		start = append(start, int32(len(column)))
	}
	for j := range kind {
		kind[j] = int32(rng.IntN(kinds))
		whole = append(whole, written[kind[j]])
	}
	return NewSparseRows(width, kind, start, column, value), whole
}

// Loops over lines equal, to the bit, loops over rows that are written out, with vectors and
// without.
func TestLines(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	for _, n := range []int{0, 1, 2, 3, 7, 64, 65} {
		for _, step := range []int{4, 8, 12, 16} {
			t.Run(fmt.Sprint(n, "x", step), func(t *testing.T) { checkLines(t, rng, n, step) })
		}
	}
}

func checkLines(t *testing.T, rng *rand.Rand, n, step int) {
	const items = 40
	width := 1 + rng.IntN(30)
	rows, whole := sparse(rng, width, 9, items, 4)
	lines, at := randoms(rng, n*step), make([]int32, n)
	for k := range at {
		at[k] = int32(rng.IntN(items))
	}
	same := func(name string, want []float64, forms ...[]float64) {
		for i, got := range forms {
			if !slices.Equal(got, want) {
				t.Errorf("%s, form %d: %v, want %v", name, i, got, want)
			}
		}
	}
	start := randoms(rng, max(width*step, rows.Packed()))
	want := slices.Clone(start)
	for k, j := range at {
		for c, x := range whole[j] {
			if x != 0 {
				for i := range step {
					want[c*step+i] += x * lines[k*step+i]
				}
			}
		}
	}
	a, b := slices.Clone(start), slices.Clone(start)
	rows.AddToSides(a, lines, step, at)
	rows.addToSidesOneByOne(b, lines, step, at)
	same("sides", want, a, b)

	want = slices.Clone(start)
	for _, j := range at {
		place := 0
		for c, x := range whole[j] {
			for _, y := range whole[j][c:] {
				if x != 0 && y != 0 {
					want[place] += x * y
				}
				place++
			}
		}
	}
	a, b = slices.Clone(start), slices.Clone(start)
	rows.AddPairs(a, at)
	rows.addPairsOneByOne(b, at)
	same("pairs", want, a, b)

	checkMultiply(t, rng, rows, whole, at)
}

// checkMultiply compares with inner products of whole rows that begin with 1 and a number.
func checkMultiply(t *testing.T, rng *rand.Rand, rows *SparseRows, whole [][]float64, at []int32) {
	numbers, width := randoms(rng, len(whole)), len(whole[0])
	beta := randoms(rng, width+2)
	n := len(beta)
	part := func(i int) int {
		if i < n/4*4 {
			return i % 4
		}
		return 0
	}
	weights := make([][Lane]float64, width)
	for c := range weights {
		weights[c][part(c+2)] = beta[c+2]
	}
	var start, extra [Lane]float64
	start[part(0)], extra[part(1)] = beta[0], beta[1]
	want := make([]float64, len(at))
	for k, j := range at {
		want[k] = Dot(beta, append([]float64{1, numbers[j]}, whole[j]...))
	}
	a, b := make([]float64, len(at)), make([]float64, len(at))
	rows.Multiply(a, weights, start, extra, numbers, at)
	rows.multiplyOneByOne(b, weights, start, extra, numbers, at)
	if n <= short && (!slices.Equal(a, want) || !slices.Equal(b, want)) || !slices.Equal(a, b) {
		t.Errorf("products %v and %v, want %v", a, b, want)
	}
}

func TestSquares(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	for _, n := range []int{0, 1, 5, 130} {
		lines, start := randoms(rng, n*Line8), randoms(rng, Line8*Line8)
		want := slices.Clone(start)
		for k := range n {
			for i, x := range lines[k*Line8 : (k+1)*Line8] {
				for j, y := range lines[k*Line8 : (k+1)*Line8][i:] {
					want[i*Line8+i+j] += x * y
				}
			}
		}
		for name, add := range map[string]func(*[Line8 * Line8]float64, []float64){"AddSquares": AddSquares, "one by one": addSquaresOneByOne} {
			got := slices.Clone(start)
			add((*[Line8 * Line8]float64)(got), lines)
			for i := range Line8 - 1 {
				if row := i*Line8 + i; !slices.Equal(got[row:(i+1)*Line8], want[row:(i+1)*Line8]) {
					t.Errorf("%s of %d lines: row %d is %v, want %v", name, n, i, got[row:(i+1)*Line8], want[row:(i+1)*Line8])
				}
			}
		}
	}
}

func TestPick(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 1))
	lines, at := randoms(rng, 5*Line8), []int32{4, 0, 0, 3}
	var want []float64
	for _, j := range at {
		want = append(want, lines[j*Line8:(j+1)*Line8]...)
	}
	a, b := make([]float64, len(want)), make([]float64, len(want))
	Pick(a, lines, at)
	pickOneByOne(b, lines, at)
	if !slices.Equal(a, want) || !slices.Equal(b, want) {
		t.Errorf("%v and %v, want %v", a, b, want)
	}
	defer func() {
		if recover() == nil {
			t.Error("a line beyond the last was read")
		}
	}()
	Pick(a, lines, []int32{5})
}

func BenchmarkLines(b *testing.B) {
	rng := rand.New(rand.NewPCG(10, 1))
	const n, items = 130, 10_000
	rows, _ := sparse(rng, 28, 1000, items, 3)
	table, lines, at := randoms(rng, items*Line8), make([]float64, n*Line8), make([]int32, 100*n)
	for k := range at {
		x := rng.Float64()
		at[k] = int32(items * x * x * x)
	}
	sides, pairs, squares := make([]float64, 28*Line8), make([]float64, rows.Packed()), new([Line8 * Line8]float64)
	weights, dst, numbers := make([][Lane]float64, 28), make([]float64, n), make([]float64, items)
	i := 0
	next := func() []int32 { i = (i + 1) % 100; return at[i*n : (i+1)*n] }
	for _, c := range []struct {
		name string
		run  func()
	}{
		{"Pick", func() { Pick(lines, table, next()) }},
		{"AddSquares", func() { AddSquares(squares, lines) }},
		{"AddToSides", func() { rows.AddToSides(sides, lines, Line8, next()) }},
		{"AddPairs", func() { rows.AddPairs(pairs, next()) }},
		{"Multiply", func() { rows.Multiply(dst, weights, [Lane]float64{}, [Lane]float64{}, numbers, next()) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				c.run()
			}
		})
	}
}
