package protocol

import (
	"errors"
	"fmt"
	"iter"
)

// Vector is a party's contribution to one release. Index nil: dense, Value holds
// every coordinate. Otherwise it is sparse, and what is not listed is zero.
//
// The coordinates of a sparse vector fall into blocks of Block each, 0 standing for 1, so that a
// row of numbers for one item costs one index. Index lists blocks, ascending. Block Index[i] is
//
//   - Value[i*Block : (i+1)*Block], or
//   - with Factor, Factor[i] times Value, which is one block then. A user's contribution to its
//     items is often a multiple of one row, and need not be written out to be summed.
type Vector struct {
	Index  []uint32
	Block  int
	Factor []float64
	Value  []float64
}

// ErrShape is returned for a vector whose parts do not fit together, or do not fit the
// release. The error contains no number of the vector, which may be private.
var ErrShape = errors.New("the vector does not have the shape of the release")

// Validate reports whether the vector is one of n coordinates; if not, the error
// is an ErrShape. It looks at no value.
func (v Vector) Validate(n int) error {
	if v.Factor == nil {
		return validate(v.Index, v.Block, len(v.Value), n)
	}
	switch {
	case v.Index == nil:
		return fmt.Errorf("%w: factors are of listed blocks", ErrShape)
	case len(v.Factor) != len(v.Index):
		return fmt.Errorf("%w: there must be one factor for each index", ErrShape)
	case len(v.Value) != max(v.Block, 1):
		return fmt.Errorf("%w: what factors multiply must be one block", ErrShape)
	}
	return checkIndex(v.Index, v.Block, n)
}

// Each goes through the coordinates that are listed, in order.
func (v Vector) Each(f func(coordinate int, x float64)) {
	block := max(1, v.Block)
	if v.Index == nil {
		for j, x := range v.Value {
			f(j, x)
		}
		return
	}
	for i, at := range v.Index {
		for a := range block {
			x := 0.
			if v.Factor != nil {
				x = v.Factor[i] * v.Value[a]
			} else {
				x = v.Value[i*block+a]
			}
			f(int(at)*block+a, x)
		}
	}
}

// Parts yields the values that are listed, in order and in parts of any length. A
// part is valid until the next.
func (v Vector) Parts() iter.Seq[[]float64] {
	return func(yield func([]float64) bool) {
		if v.Factor == nil {
			yield(v.Value)
			return
		}
		length := len(v.Value)
		blocks := max(1, partLength/max(length, 1))
		part := make([]float64, min(blocks, len(v.Factor))*length)
		for from := 0; from < len(v.Factor); from += blocks {
			n := 0
			for _, f := range v.Factor[from:min(from+blocks, len(v.Factor))] {
				row := part[n : n+length]
				for a, x := range v.Value {
					row[a] = f * x
				}
				n += length
			}
			if !yield(part[:n]) {
				return
			}
		}
	}
}

// partLength is about the length of a part of many short blocks.
const partLength = 256

// Integers is a Vector in fixed point, each block written out. A sparse one may
// hold what fits 32 bits in Narrow instead of Value: contributions of a whole
// federation lie in memory at once when it is simulated.
type Integers struct {
	Index  []uint32
	Block  int
	Value  []int64
	Narrow []int32
}

// Validate reports whether the integers are a vector of n coordinates; if not,
// the error is an ErrShape.
func (v Integers) Validate(n int) error {
	if v.Narrow == nil {
		return validate(v.Index, v.Block, len(v.Value), n)
	}
	if v.Index == nil || v.Value != nil {
		return fmt.Errorf("%w: narrow integers stand at indices, and alone", ErrShape)
	}
	return validate(v.Index, v.Block, len(v.Narrow), n)
}

// AddTo adds the integers, which must be valid for len(sum) coordinates, modulo 2^64.
func (v Integers) AddTo(sum []int64) {
	switch {
	case v.Index == nil:
		for j, x := range v.Value {
			sum[j] += x
		}
	case v.Narrow != nil:
		addBlocks(sum, v.Index, max(v.Block, 1), v.Narrow)
	default:
		addBlocks(sum, v.Index, max(v.Block, 1), v.Value)
	}
}

func addBlocks[T int32 | int64](sum []int64, index []uint32, block int, values []T) {
	if block == 4 {
		for i, j := range index {
			to, x := (*[4]int64)(sum[int(j)*4:]), (*[4]T)(values[i*4:])
			to[0] += int64(x[0])
			to[1] += int64(x[1])
			to[2] += int64(x[2])
			to[3] += int64(x[3])
		}
		return
	}
	for i, j := range index {
		to := sum[int(j)*block:][:block]
		for a, x := range values[i*block : (i+1)*block] {
			to[a] += int64(x)
		}
	}
}

// validate checks how many values are listed, and where.
func validate(index []uint32, block, listed, n int) error {
	if index == nil {
		if block != 0 || listed != n {
			return fmt.Errorf("%w: a dense vector has %d coordinates, and no blocks", ErrShape, n)
		}
		return nil
	}
	if err := checkIndex(index, block, n); err != nil {
		return err
	}
	if listed != len(index)*max(block, 1) { // at most n after the check
		return fmt.Errorf("%w: there must be a block of values for each index", ErrShape)
	}
	return nil
}

// checkIndex checks that the blocks are parts of n coordinates and ascend.
func checkIndex(index []uint32, block, n int) error {
	if block < 0 || block > 0 && n%block != 0 {
		return fmt.Errorf("%w: %d coordinates do not fall into such blocks", ErrShape, n)
	}
	blocks := uint64(n / max(block, 1))
	for k, j := range index {
		if uint64(j) >= blocks || k > 0 && index[k-1] >= j {
			return fmt.Errorf("%w: indices must ascend below %d", ErrShape, blocks)
		}
	}
	return nil
}
