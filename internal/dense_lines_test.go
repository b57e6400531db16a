package internal_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"testing"

	"golang.org/x/sys/cpu"

	"github.com/fedsim/fedsim/internal/dense"
)

// sparse draws sparse rows, and the same rows written out.
func sparse(rng *rand.Rand, width, kinds, items, each int) (rows *dense.SparseRows, whole [][]float64) {
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
	return dense.NewSparseRows(width, kind, start, column, value), whole
}

// Loops over lines equal, to the bit, loops over rows that are written out.
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
	same := func(name string, got, want []float64) {
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
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
	got := slices.Clone(start)
	rows.AddToSides(got, lines, step, at)
	same("sides", got, want)

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
	got = slices.Clone(start)
	rows.AddPairs(got, at)
	same("pairs", got, want)

	checkMultiply(t, rng, rows, whole, at)
}

// checkMultiply compares with inner products of whole rows that begin with 1 and a number.
func checkMultiply(t *testing.T, rng *rand.Rand, rows *dense.SparseRows, whole [][]float64, at []int32) {
	numbers, width := randoms(rng, len(whole)), len(whole[0])
	beta := randoms(rng, width+2)
	n := len(beta)
	part := func(i int) int {
		if i < n/4*4 {
			return i % 4
		}
		return 0
	}
	weights := make([][dense.Lane]float64, width)
	for c := range weights {
		weights[c][part(c+2)] = beta[c+2]
	}
	var start, extra [dense.Lane]float64
	start[part(0)], extra[part(1)] = beta[0], beta[1]
	want := make([]float64, len(at))
	for k, j := range at {
		var sum [dense.Lane]float64
		for i, x := range append([]float64{1, numbers[j]}, whole[j]...) {
			sum[part(i)] += x * beta[i]
		}
		want[k] = (sum[0] + sum[2]) + (sum[1] + sum[3])
	}
	got := make([]float64, len(at))
	rows.Multiply(got, weights, start, extra, numbers, at)
	if !slices.Equal(got, want) {
		t.Errorf("products %v, want %v", got, want)
	}
}

func TestSquares(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	for _, n := range []int{0, 1, 5, 130} {
		lines, start := randoms(rng, n*dense.Line8), randoms(rng, dense.Line8*dense.Line8)
		want := slices.Clone(start)
		for k := range n {
			for i, x := range lines[k*dense.Line8 : (k+1)*dense.Line8] {
				for j, y := range lines[k*dense.Line8 : (k+1)*dense.Line8][i:] {
					want[i*dense.Line8+i+j] += x * y
				}
			}
		}
		got := slices.Clone(start)
		dense.AddSquares((*[dense.Line8 * dense.Line8]float64)(got), lines)
		for i := range dense.Line8 - 1 {
			if row := i*dense.Line8 + i; !slices.Equal(got[row:(i+1)*dense.Line8], want[row:(i+1)*dense.Line8]) {
				t.Errorf("%d lines: row %d is %v, want %v", n, i, got[row:(i+1)*dense.Line8], want[row:(i+1)*dense.Line8])
			}
		}
	}
}

func TestPick(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 1))
	lines, at := randoms(rng, 5*dense.Line8), []int32{4, 0, 0, 3}
	var want []float64
	for _, j := range at {
		want = append(want, lines[j*dense.Line8:(j+1)*dense.Line8]...)
	}
	got := make([]float64, len(want))
	dense.Pick(got, lines, at)
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	defer func() {
		if recover() == nil {
			t.Error("a line beyond the last was read")
		}
	}()
	dense.Pick(got, lines, []int32{5})
}

// TestWithoutVectors runs the tests of loops over lines and of normal equations on a processor without AVX, where these loops take one
// number at a time.
func TestWithoutVectors(t *testing.T) {
	if !cpu.X86.HasAVX {
		t.Skip("this processor has no AVX: the tests themselves are without vectors")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^Test(Lines|Squares|Pick|NormalEquationsAgainstBLAS|SolveUpperAgainstLAPACK)$", "-test.v")
	cmd.Env = append(os.Environ(), "GODEBUG=cpu.avx=off")
	out, err := cmd.CombinedOutput()
	if tests := bytes.Count(out, []byte("\n--- PASS: ")); err != nil || tests != 5 {
		t.Errorf("%d of 5 tests pass: %v\n%s", tests, err, out)
	}
}

func BenchmarkLines(b *testing.B) {
	rng := rand.New(rand.NewPCG(10, 1))
	const n, items = 130, 10_000
	rows, _ := sparse(rng, 28, 1000, items, 3)
	table, lines, at := randoms(rng, items*dense.Line8), make([]float64, n*dense.Line8), make([]int32, 100*n)
	for k := range at {
		x := rng.Float64()
		at[k] = int32(items * x * x * x)
	}
	sides, pairs, squares := make([]float64, 28*dense.Line8), make([]float64, rows.Packed()), new([dense.Line8 * dense.Line8]float64)
	weights, dst, numbers := make([][dense.Lane]float64, 28), make([]float64, n), make([]float64, items)
	i := 0
	next := func() []int32 { i = (i + 1) % 100; return at[i*n : (i+1)*n] }
	for _, c := range []struct {
		name string
		run  func()
	}{
		{"Pick", func() { dense.Pick(lines, table, next()) }},
		{"AddSquares", func() { dense.AddSquares(squares, lines) }},
		{"AddToSides", func() { rows.AddToSides(sides, lines, dense.Line8, next()) }},
		{"AddPairs", func() { rows.AddPairs(pairs, next()) }},
		{"Multiply", func() { rows.Multiply(dst, weights, [dense.Lane]float64{}, [dense.Lane]float64{}, numbers, next()) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				c.run()
			}
		})
	}
}
