package model

import (
	"encoding/binary"
	"fmt"
	"math"
)

// A server broadcasts numbers as float32, in half the bytes of float64, and rounds its own model in
// the same way before. So clients and the server compute with the same numbers, and a simulation
// with the numbers of a deployment. Rounding moves a number by at most 2⁻²⁴ of it, which is far
// below the noise of any release. A state of one party keeps every bit of its float64.

// single rounds x to the nearest float32. A number beyond the largest float32 becomes the largest.
func single(x float64) float32 {
	return float32(min(max(x, -math.MaxFloat32), math.MaxFloat32))
}

// Round rounds numbers in place, as a broadcast rounds them. NaN stays NaN.
func Round(x []float64) {
	for i, v := range x {
		x[i] = float64(single(v))
	}
}

// AppendSingles appends each number as a little-endian float32, rounded as by [Round].
func AppendSingles(b []byte, x ...float64) []byte {
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(single(v)))
	}
	return b
}

// SingleAt returns the i-th little-endian float32 of b.
func SingleAt(b []byte, i int) float64 {
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
}

// Singles decodes all float32 of b; nil for nil.
func Singles(b []byte) []float64 { return decoded(b, 4, SingleAt) }

// AppendFloats appends each number as a little-endian float64.
func AppendFloats(b []byte, x ...float64) []byte {
	for _, v := range x {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

// FloatAt returns the i-th little-endian float64 of b.
func FloatAt(b []byte, i int) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
}

// Floats decodes all float64 of b; nil for nil.
func Floats(b []byte) []float64 { return decoded(b, 8, FloatAt) }

func decoded(b []byte, size int, at func([]byte, int) float64) []float64 {
	if b == nil {
		return nil
	}
	x := make([]float64, len(b)/size)
	for i := range x {
		x[i] = at(b, i)
	}
	return x
}

// ReadFloats decodes exactly len(dst) float64 into dst.
func ReadFloats(dst []float64, b []byte) error {
	if len(b) != 8*len(dst) {
		return fmt.Errorf("model: %d bytes of numbers; there must be %d", len(b), 8*len(dst))
	}
	for i := range dst {
		dst[i] = FloatAt(b, i)
	}
	return nil
}
