package protocol

import (
	"slices"
	"sync"
)

// VectorMemory is memory of a sparse vector that is used again.
type VectorMemory struct {
	Index  []uint32
	Factor []float64
}

// vectorMemory holds memory to be used again. No Index is ever nil, which would make a vector dense.
var vectorMemory = sync.Pool{New: func() any { return &VectorMemory{Index: []uint32{}, Factor: []float64{}} }}

// BorrowVectorMemory returns memory for n indices and n factors, which hold anything.
func BorrowVectorMemory(n int) *VectorMemory {
	m := vectorMemory.Get().(*VectorMemory)
	m.Index, m.Factor = slices.Grow(m.Index[:0], n)[:n], slices.Grow(m.Factor[:0], n)[:n]
	return m
}

// Return keeps the memory for others. Nothing may use it any more.
func (m *VectorMemory) Return() {
	if m != nil {
		vectorMemory.Put(m)
	}
}
