package dense

import (
	"math"

	"gonum.org/v1/gonum/lapack/lapack64"
)

// A line is a row whose length is a multiple of four, with zeros at its end. Loops over lines are
// written for four or eight numbers at a time. Each sum is taken in the order of the lines.

// Lane is the number of numbers that divides the length of a line.
const Lane = 4

// Line8 is the length of the lines that have loops of their own.
const Line8 = 2 * Lane

// addSquaresOneByOne is AddSquares without vectors.
func addSquaresOneByOne(a *[Line8 * Line8]float64, lines []float64) {
	for ; len(lines) >= Line8; lines = lines[Line8:] {
		x := (*[Line8]float64)(lines)
		for i, f := range x[:Line8-1] {
			to := a[i*Line8 : (i+1)*Line8]
			for j := i; j < Line8; j++ {
				to[j] += f * x[j]
			}
		}
	}
}

// pickOneByOne is Pick without vectors.
func pickOneByOne(dst, rows []float64, at []int32) {
	for k, j := range at {
		*(*[Line8]float64)(dst[k*Line8:]) = *(*[Line8]float64)(rows[int(j)*Line8:])
	}
}

// SparseRows are rows of few numbers that are not zero. Rows that are alike are held once, as one
// kind, so that they stay in the processor's caches.
type SparseRows struct {
	kind     []int32 // of each row
	start    []int32 // of each kind among entries, and their end
	entry    []uint64
	values   []float64 // the different values of entries
	pairs    []int32   // the start of each kind among pairs, and their end
	pair     []uint64
	products []float64 // the different products of two values
	width    int
}

// An entry is a column and, above it, the place of its value. A pair is the place of two columns
// in a packed triangle and, above it, the place of the product of their values.
const (
	columnBits = 8
	placeBits  = 16

	columnMask = 1<<columnBits - 1
	placeMask  = 1<<placeBits - 1
)

// NewSparseRows returns rows of the given kinds. The kind k has the columns and values from start[k]
// to start[k+1], with columns ascending below width, which is at most 2^columnBits.
func NewSparseRows(width int, kind, start []int32, column []int, value []float64) *SparseRows {
	s := &SparseRows{kind: kind, start: start, pairs: []int32{0}, width: width}
	values, products := places{of: make(map[float64]uint64)}, places{of: make(map[float64]uint64)}
	for k := range len(start) - 1 {
		columns, numbers := column[start[k]:start[k+1]], value[start[k]:start[k+1]]
		for i, c := range columns {
			s.entry = append(s.entry, uint64(c)|values.place(numbers[i])<<columnBits)
			for j, o := range columns[i:] {
				place := uint64(c*(2*width-c-1)/2 + o)
				s.pair = append(s.pair, place|products.place(numbers[i]*numbers[i+j])<<placeBits)
			}
		}
		s.pairs = append(s.pairs, int32(len(s.pair)))
	}
	s.values, s.products = values.list, products.list
	return s
}

// places numbers different values.
type places struct {
	of   map[float64]uint64
	list []float64
}

func (p *places) place(x float64) uint64 {
	at, known := p.of[x]
	if !known {
		at = uint64(len(p.list))
		p.of[x], p.list = at, append(p.list, x)
	}
	return at
}

// With returns rows of other kinds.
func (s *SparseRows) With(kind []int32) *SparseRows {
	out := *s
	out.kind = kind
	return &out
}

// Packed is the length of the triangle that AddPairs adds to.
func (s *SparseRows) Packed() int { return s.width * (s.width + 1) / 2 }

// addToSidesOneByOne is AddToSides without vectors.
func (s *SparseRows) addToSidesOneByOne(sides, lines []float64, step int, at []int32) {
	for k, j := range at {
		line, kind := lines[k*step:(k+1)*step], s.kind[j]
		for _, e := range s.entry[s.start[kind]:s.start[kind+1]] {
			x, side := s.values[e>>columnBits], sides[int(e&columnMask)*step:][:step]
			for i, y := range line {
				side[i] += x * y
			}
		}
	}
}

// addPairsOneByOne is AddPairs without vectors.
func (s *SparseRows) addPairsOneByOne(sums []float64, at []int32) {
	for _, j := range at {
		kind := s.kind[j]
		for _, e := range s.pair[s.pairs[kind]:s.pairs[kind+1]] {
			sums[e&placeMask] += s.products[e>>placeBits]
		}
	}
}

// multiplyOneByOne is Multiply without vectors.
func (s *SparseRows) multiplyOneByOne(dst []float64, weights [][Lane]float64, start, extra [Lane]float64, numbers []float64, at []int32) {
	for k, j := range at {
		sum, kind := start, s.kind[j]
		for i := range sum {
			sum[i] += numbers[j] * extra[i]
		}
		for _, e := range s.entry[s.start[kind]:s.start[kind+1]] {
			x, w := s.values[e>>columnBits], &weights[e&columnMask]
			for i := range sum {
				sum[i] += x * w[i]
			}
		}
		dst[k] = (sum[0] + sum[2]) + (sum[1] + sum[3])
	}
}

// unblocked is the size up to which LAPACK factors a matrix without blocks, and so the largest that
// is factored here. Larger matrices are left to LAPACK.
const unblocked = 64

// SolveUpper replaces b by a⁻¹b and the upper triangle of a by its Cholesky factor U. Numbers below
// the diagonal have no meaning afterwards. It returns false if a is not positive definite in float64; b then
// has no meaning.
func SolveUpper(a, b []float64, d int) bool {
	if d > unblocked {
		if _, ok := lapack64.Potrf(Upper(a, d)); !ok {
			return false
		}
		for k := range d { // UᵀUx = b: first Uᵀ
			row := a[k*d : (k+1)*d]
			b[k] *= 1 / row[k]
			Axpy(b[k+1:], -b[k], row[k+1:])
		}
	} else if !factor(a, b, d) {
		return false
	}
	for k := d - 1; k >= 0; k-- {
		row, x := a[k*d+k+1:(k+1)*d], b[k]
		for i, y := range b[k+1:][:len(row)] {
			x -= row[i] * y
		}
		b[k] = x * (1 / a[k*d+k])
	}
	return true
}

// panel is the number of rows that are factored before they are subtracted from the rows below.
const panel = 4

// factorOneByOne is factor without vectors. It subtracts four rows at a time from two rows below, as
// [AddOuter] adds them.
func factorOneByOne(a, b []float64, d int) bool {
	var even, odd [unblocked]float64
	for p := 0; p < d; p += panel {
		end := min(p+panel, d)
		if !eliminate(a, b, d, p, end, d, &even, &odd) {
			return false
		}
		if end-p < panel {
			break
		}
		subtract(a, b, d, p, &even, &odd)
	}
	return true
}

// eliminate factors the rows from p to end, in the columns before last.
//
// A squared element of the diagonal is the element of a less one sum, over the rows above. As LAPACK
// on amd64 takes it, that sum has two parts: of the even rows and of the odd ones, the last of an odd
// number with the odd ones.
func eliminate(a, b []float64, d, p, end, last int, even, odd *[unblocked]float64) bool {
	for j := p; j < end; j++ {
		row := a[j*d+j : j*d+last]
		for i := p; i < j; i++ {
			above := a[i*d+j : i*d+last][:len(row)]
			f := above[0]
			if i&1 == 0 && i+1 < j {
				even[j] += f * f
			} else {
				odd[j] += f * f
			}
			for k := 1; k < len(row); k++ {
				row[k] -= f * above[k]
			}
			b[j] -= b[i] * f
		}
		x := row[0] - (odd[j] + even[j])
		if !(x > 0) {
			return false
		}
		x = math.Sqrt(x)
		row[0] = x
		x = 1 / x
		for k := 1; k < len(row); k++ {
			row[k] *= x
		}
		b[j] *= x
	}
	return true
}

// subtract subtracts the four rows from p on from all rows below them.
func subtract(a, b []float64, d, p int, even, odd *[unblocked]float64) {
	x0, x1, x2, x3 := a[p*d:][:d], a[(p+1)*d:][:d], a[(p+2)*d:][:d], a[(p+3)*d:][:d]
	b0, b1, b2, b3 := b[p], b[p+1], b[p+2], b[p+3]
	for j := p + panel; j < d; j += 2 {
		f0, f1, f2, f3 := x0[j], x1[j], x2[j], x3[j]
		even[j] = even[j] + f0*f0 + f2*f2
		odd[j] = odd[j] + f1*f1 + f3*f3
		b[j] = b[j] - b0*f0 - b1*f1 - b2*f2 - b3*f3
		k := j + 1
		if k == d {
			break
		}
		g0, g1, g2, g3 := x0[k], x1[k], x2[k], x3[k]
		even[k] = even[k] + g0*g0 + g2*g2
		odd[k] = odd[k] + g1*g1 + g3*g3
		b[k] = b[k] - b0*g0 - b1*g1 - b2*g2 - b3*g3
		to := a[j*d+k : (j+1)*d]
		to[0] = to[0] - f0*g0 - f1*g1 - f2*g2 - f3*g3
		if to = to[1:]; len(to) > 0 {
			addPairs(to, a[k*d+k+1:], a[p*d+k+1:], d, &[8]float64{-f0, -f1, -f2, -f3, -g0, -g1, -g2, -g3})
		}
	}
}
