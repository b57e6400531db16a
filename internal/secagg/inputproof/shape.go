// Package inputproof proves that integer vectors, hidden in commitments, are within a bound on each coordinate and on the sum of their
// squares. A sum of vectors can then be held against the commitments. A client of a secure sum sends such a proof beside its masked
// input: the aggregator learns that the input is within its bounds, and nothing else of it. Package secagg chooses the bounds and puts
// on the masks.
//
// The proof is non-interactive, in the random oracle model, and relies on discrete logarithms in the prime-order group of edwards25519.
// A prover cheats with a chance of about 2^-112 for each attempt at hashing. A proof shows nothing (statistical zero knowledge).
// inputproof.md has the equations.
//
// Time of a prover depends on what it proves: a client must not let the time of its message depend on it (package client has messages
// leave at fixed times).
package inputproof

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// Bound is a claim about one vector: each of its Len coordinates is from -LInf to LInf, and the sum of their squares is
// at most Squares.
type Bound struct {
	Len     int
	LInf    int64 // from 1 to 2^31
	Squares int64 // from 1 to 2^62
}

// MaxBits limits [Shape.Bits]. So many bits take about a minute of a processor.
const MaxBits = 1 << 24

// maxVectors is the most vectors that a proof is about.
const maxVectors = 64

// ErrBounds is returned for bounds that no proof can be about.
var ErrBounds = errors.New("inputproof: no such proof")

// ErrBeyond is returned by Prove for vectors beyond their bounds.
var ErrBeyond = errors.New("inputproof: a vector is beyond its bound")

// ErrRefused is returned by Verify and Open, with words on the reason.
var ErrRefused = errors.New("inputproof: the proof does not hold")

// Shape is the form of proofs about vectors of some bounds. It is safe for concurrent use.
//
// A coordinate y of a vector with the bound K is written as the bits of y + K. A vector is cut into value rows of as many coordinates
// as there are columns, with zeros behind the last one. A value row has a committed row for each bit. The slack of each vector, its
// bound Squares less its sum of squares, is written as bits in rows of its own, after all others.
type Shape struct {
	bounds  []Bound
	columns int
	rows    []row
	values  []int // the vector of each value row
	slack   []int // the vector of each bit of the slack rows, lowest bits first
	// A proof commits to the coefficients of a polynomial in rows of this width: so many for exponents below 0, and so many above.
	// Two rows more hide them.
	width, below, above int
}

// row is a committed row: bits of a value row that count weight each, or bits of slacks, where value is -1.
type row struct {
	value  int
	weight int64
}

// New returns ErrBounds for bounds that are out of range.
func New(bounds []Bound) (*Shape, error) {
	s, total := &Shape{bounds: slices.Clone(bounds)}, 0
	if len(bounds) < 1 || len(bounds) > maxVectors {
		return nil, fmt.Errorf("%w: of %d vectors; there must be 1 to %d", ErrBounds, len(bounds), maxVectors)
	}
	for k, b := range bounds {
		if b.Len < 1 || b.LInf < 1 || b.LInf > 1<<31 || b.Squares < 1 || b.Squares > 1<<62 {
			return nil, fmt.Errorf("%w: %d coordinates up to %d, whose squares add up to %d", ErrBounds, b.Len, b.LInf, b.Squares)
		}
		if total += b.Len * len(weights(b.LInf)); b.Len > MaxBits || total > MaxBits {
			return nil, fmt.Errorf("%w: it would be about more than %d bits", ErrBounds, MaxBits)
		}
		for range bits.Len64(uint64(b.Squares)) {
			s.slack = append(s.slack, k)
		}
	}
	s.columns = 8 * int(math.Ceil(math.Sqrt(float64(total)/3)/8)) // what makes a proof shortest
	for k, b := range bounds {
		for range (b.Len + s.columns - 1) / s.columns {
			for _, w := range weights(b.LInf) {
				s.rows = append(s.rows, row{len(s.values), w})
			}
			s.values = append(s.values, k)
		}
	}
	for range (len(s.slack) + s.columns - 1) / s.columns {
		s.rows = append(s.rows, row{value: -1})
	}
	if s.Bits() > MaxBits {
		return nil, fmt.Errorf("%w: it would be about more than %d bits", ErrBounds, MaxBits)
	}
	n := len(s.rows)
	s.width = 1 + int(math.Sqrt(float64(2*n+1)))
	s.below, s.above = n/s.width+1, (n+s.width-1)/s.width
	return s, nil
}

// weights returns the weights of the bits of y + k, lowest first. Sums of them are the integers from 0 to 2k, all of them and no others.
func weights(k int64) []int64 {
	n := bits.Len64(uint64(2 * k))
	out := make([]int64, n)
	for i := range n - 1 {
		out[i] = 1 << i
	}
	out[n-1] = 2*k + 1 - 1<<(n-1)
	return out
}

// Bits counts the bits in a proof's committed rows.
func (s *Shape) Bits() int { return len(s.rows) * s.columns }

// Blindings counts the scalars that open the commitments of one client, or their sum.
func (s *Shape) Blindings() int { return len(s.values) }

// points and scalars are the numbers of points and of scalars in a proof.
func (s *Shape) points() int { return s.first() + s.second() }

func (s *Shape) first() int { return len(s.rows) + 3 }

func (s *Shape) second() int { return s.below + s.above + 2 }

func (s *Shape) scalars() int { return 3*s.columns + s.width + 4 }

// Size is the length in bytes of a proof.
func (s *Shape) Size() int { return 32 * (s.points() + s.scalars()) }

// eachSlack calls f with the place of each bit of a slack, its vector and its exponent.
func (s *Shape) eachSlack(f func(row, column, vector, exponent int)) {
	first, exponent := len(s.rows)-(len(s.slack)+s.columns-1)/s.columns, 0
	for i, k := range s.slack {
		if i > 0 && s.slack[i-1] != k {
			exponent = 0
		}
		f(first+i/s.columns, i%s.columns, k, exponent)
		exponent++
	}
}

// tableau is a vector in value rows, zeros behind the last coordinate.
func (s *Shape) tableau(vectors [][]int64) ([][]int64, error) {
	if len(vectors) != len(s.bounds) {
		return nil, fmt.Errorf("%w: %d vectors for %d bounds", ErrBounds, len(vectors), len(s.bounds))
	}
	var out [][]int64
	for k, b := range s.bounds {
		if len(vectors[k]) != b.Len {
			return nil, fmt.Errorf("%w: a vector has %d coordinates, its bound %d", ErrBounds, len(vectors[k]), b.Len)
		}
		for from := 0; from < b.Len; from += s.columns {
			line := make([]int64, s.columns)
			copy(line, vectors[k][from:])
			out = append(out, line)
		}
	}
	return out, nil
}
