// Package model defines the parts of a trained recommender, whatever trained it: one
// user's ratings, matrices of embeddings, and predictors of ratings. It knows no
// algorithm, so that algorithms, metrics and file formats can share it.
package model

import (
	"fmt"
	"strings"
	"sync"

	"github.com/fedsim/fedsim/internal/lists"
)

// Ratings holds the ratings of one user: Values[k] rates Items[k], in stars. Items
// are indices into the catalogue, or into a party's part of it, each at most
// once. Algorithms that need Items in ascending order say so.
type Ratings struct {
	Items  []int32
	Values []float32
}

// At returns the entries of a list at some indices, in their order.
func At[T any](list []T, indices []int32) []T {
	return lists.Map(indices, func(k int32) T { return list[k] })
}

// Indices returns the numbers from 0 to n-1.
func Indices(n int) []int32 {
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i) //nolint:gosec // users, items and ratings are counted in 32 bits
	}
	return all
}

// RatingsByUser gives the ratings of many users, by their place from 0, when they are needed, and may make them only then: a
// simulation does not hold the ratings of a million users at once. Each call gives equal ratings, which must not be changed.
// Ratings that are made are made in the buffer, and are valid until the buffer is used again.
type RatingsByUser interface {
	RatingsOf(user int, in *Buffer) Ratings
}

// RatingsOf returns r itself, as the ratings of the only user, and leaves the buffer unused.
func (r Ratings) RatingsOf(int, *Buffer) Ratings { return r }

// Buffer is memory for the ratings of one user after the other. The zero Buffer is ready.
type Buffer Ratings

var buffers = sync.Pool{New: func() any { return new(Buffer) }}

// Borrow lends a buffer, to be given back with [Buffer.Return] when nothing of it is used any more.
func Borrow() *Buffer { return buffers.Get().(*Buffer) }

// Return gives a buffer back that Borrow lent.
func (b *Buffer) Return() { buffers.Put(b) }

// Predictor predicts ratings.
type Predictor interface {
	// Predict writes to out[i] the rating, in stars, that it expects from user for
	// items[i]. It is safe for concurrent use for different users.
	Predict(user int, items []int32, out []float64)
}

// As returns what p, or the Predictor of a trained model p, can do beyond predictions.
func As[T any](p Predictor) (T, bool) {
	if trained, ok := p.(*Trained); ok {
		p = trained.Predictor
	}
	can, ok := p.(T)
	return can, ok
}

// Orderer is a Predictor that orders lists by more than its predictions.
type Orderer interface {
	Predictor
	// Order turns the predictions of all items for a user into scores: a list has the largest. history
	// holds the items that the user rated, ascending. NaN stays NaN. It is safe for concurrent use.
	Order(history []int32, scores []float64)
}

// Order orders by more than predictions where p does.
func Order(p Predictor, history []int32, scores []float64) {
	if o, ok := As[Orderer](p); ok {
		o.Order(history, scores)
	}
}

// Expect tells p which items Predict will mostly be called with for each user, if p has a method Expect to do less
// then. Other calls remain possible.
func Expect(p Predictor, items func(user int) []int32) {
	if e, ok := As[interface {
		Expect(items func(user int) []int32)
	}](p); ok {
		e.Expect(items)
	}
}

// Failed returns the first failure of a predictor with a method Err, whose predictions are NaN from then on; nil if
// there is none.
func Failed(p Predictor) error {
	if f, ok := As[interface{ Err() error }](p); ok {
		return f.Err()
	}
	return nil
}

// Factors predict the inner product of a user's and an item's embedding.
type Factors struct {
	Users, Items *Matrix // users x rank and items x rank
}

// Predict writes inner products to out.
func (f *Factors) Predict(user int, items []int32, out []float64) {
	u := f.Users.Row(user)
	for i, j := range items {
		out[i] = Dot(u, f.Items.Row(int(j)))
	}
}

// Trained is the result of a run: its predictor and the matrices that are kept.
type Trained struct {
	Predictor
	Matrices []Named
	// Shared predicts without the fine-tuning that parties keep to themselves; nil where
	// they tune only users' embeddings.
	Shared Predictor
	// Mean, in stars, is the constant to which predictions are added; nil for a model
	// without one.
	Mean *float64
	// Rows names the rows of matrices whose rows are neither users nor items, by the matrix.
	Rows map[string][]string
}

// OfFactors is a model of user and item embeddings that all parties share.
func OfFactors(f *Factors) *Trained {
	return &Trained{Predictor: f, Matrices: []Named{{"item_embeddings", f.Items}, {"user_embeddings", f.Users}}}
}

// Named is a matrix with the name of its file, without extension.
type Named struct {
	Name string
	*Matrix
}

// Exact reports whether the matrix follows from exact ratings, which no ε covers: rows of users, and what a party fine-tuned for itself.
func (n Named) Exact() bool {
	return strings.HasPrefix(n.Name, "user_") || strings.Contains(n.Name, "_party")
}

// Embeddings are a matrix that a party has at the end, with the id of the user or item of
// each row.
type Embeddings struct {
	Named
	IDs []string // one for each row
}

// NewEmbeddings names a matrix and its rows. There must be one id for each row.
func NewEmbeddings(name string, m *Matrix, ids []string) Embeddings {
	return Embeddings{Named{name, m}, ids}
}

// RowArena is where many users of one process keep a row of numbers each: one piece of memory, made when the first keeps something.
// It is safe for concurrent use for different users.
type RowArena struct {
	users, width int
	once         sync.Once
	rows         *Matrix
}

// NewRowArena is for so many users, with rows of that width.
func NewRowArena(users, width int) *RowArena { return &RowArena{users: users, width: width} }

// Row is a user's, zeros at first.
func (r *RowArena) Row(user int) []float64 { return r.Rows().Row(user) }

// Rows returns the rows of all users, not a copy.
func (r *RowArena) Rows() *Matrix {
	r.once.Do(func() { r.rows = NewMatrix(r.users, r.width) })
	return r.rows
}

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

// AppendRows appends a copy of rows to dst.
func (m *Matrix) AppendRows(dst []float64, rows []int32) []float64 {
	for _, i := range rows {
		dst = append(dst, m.Row(int(i))...)
	}
	return dst
}

// Data is the matrix row by row, not a copy.
func (m *Matrix) Data() []float64 { return m.data }

// Clone is a copy.
func (m *Matrix) Clone() *Matrix {
	return &Matrix{rows: m.rows, cols: m.cols, data: append([]float64(nil), m.data...)}
}

// Encode is the matrix as it is broadcast: row by row, each coordinate a little-endian
// float32, rounded as by [Round].
func (m *Matrix) Encode() []byte { return AppendSingles(make([]byte, 0, 4*len(m.data)), m.data...) }

// EncodedSize is the length in bytes of an encoded matrix.
func EncodedSize(rows, cols int) int { return 4 * rows * cols }

// Broadcast reads rows of an encoded matrix in place, so that a user decodes only
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

// AppendRows decodes rows and appends them to dst. Coordinates that are not finite are appended
// as they are; a contribution computed from them breaks its bounds and is not sent.
func (b Broadcast) AppendRows(dst []float64, rows []int32) []float64 {
	for _, j := range rows {
		for i := range b.cols {
			dst = append(dst, SingleAt(b.b[4*int(j)*b.cols:], i))
		}
	}
	return dst
}

// Matrix decodes the whole.
func (b Broadcast) Matrix() *Matrix {
	m := NewMatrix(len(b.b)/4/b.cols, b.cols)
	for i := range m.data {
		m.data[i] = SingleAt(b.b, i)
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
