package model

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Matrix holds one embedding per row.
type Matrix struct {
	rows, cols int
	data       []float64
}

// NewMatrix makes a matrix of zeros.
func NewMatrix(rows, cols int) *Matrix {
	return &Matrix{rows: rows, cols: cols, data: make([]float64, rows*cols)}
}

// Wrap makes a matrix of data, row by row, without copying it. data must have rows x cols
// values.
func Wrap(rows, cols int, data []float64) *Matrix {
	if len(data) != rows*cols {
		panic(fmt.Sprintf("model: %d coordinates are not a matrix of %d x %d", len(data), rows, cols))
	}
	return &Matrix{rows: rows, cols: cols, data: data}
}

// Dims returns rows and columns.
func (m *Matrix) Dims() (rows, cols int) { return m.rows, m.cols }

// Rows returns the number of rows.
func (m *Matrix) Rows() int { return m.rows }

// Cols returns the length of a row.
func (m *Matrix) Cols() int { return m.cols }

// Row is row i itself, not a copy.
func (m *Matrix) Row(i int) []float64 { return m.data[i*m.cols : (i+1)*m.cols : (i+1)*m.cols] }

// Data is the matrix row by row, not a copy.
func (m *Matrix) Data() []float64 { return m.data }

// Clone is a copy.
func (m *Matrix) Clone() *Matrix {
	return &Matrix{rows: m.rows, cols: m.cols, data: append([]float64(nil), m.data...)}
}

// Encode is the matrix as it is broadcast: row by row, each coordinate a little-endian
// float64.
func (m *Matrix) Encode() []byte {
	b := make([]byte, 0, 8*len(m.data))
	for _, x := range m.data {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b
}

// EncodedSize is the length in bytes of an encoded matrix.
func EncodedSize(rows, cols int) int { return 8 * rows * cols }

// Broadcast reads single rows of an encoded matrix in place, so that a user decodes only
// the rows of items that it rated.
type Broadcast struct {
	b    []byte
	cols int
}

// NewBroadcast wraps an encoded matrix of the given shape; another length is an
// error.
func NewBroadcast(b []byte, rows, cols int) (Broadcast, error) {
	if size := EncodedSize(rows, cols); len(b) != size {
		return Broadcast{}, fmt.Errorf("model: the broadcast model has %d bytes, %d x %d embeddings need %d", len(b), rows, cols, size)
	}
	return Broadcast{b: b, cols: cols}, nil
}

// Row decodes row j into dst and returns it. Coordinates that are not finite are returned
// as they are; a contribution computed from them breaks its bounds and is not sent.
func (b Broadcast) Row(j int, dst []float64) []float64 {
	at := b.b[8*j*b.cols:]
	for i := range b.cols {
		dst[i] = math.Float64frombits(binary.LittleEndian.Uint64(at[8*i:]))
	}
	return dst[:b.cols]
}

// Matrix decodes the whole.
func (b Broadcast) Matrix() *Matrix { return b.Into(nil) }

// Into decodes the whole into m, which has the same shape and is made if it is nil,
// and returns it.
func (b Broadcast) Into(m *Matrix) *Matrix {
	if m == nil {
		m = NewMatrix(len(b.b)/8/b.cols, b.cols)
	}
	for j := range m.rows {
		b.Row(j, m.Row(j))
	}
	return m
}

// Dot is the inner product of a user's and an item's embedding, of equal length.
// It adds from the first coordinate to the last.
func Dot(u, v []float64) float64 {
	var s float64
	for i, x := range u {
		s += x * v[i]
	}
	return s
}
