// Package fedmf is federated matrix factorization: a rating of user i for item
// j is explained as the inner product of a user embedding u_i and an item
// embedding v_j, and parties learn what they share without showing ratings.
// It follows Li, Song and Fanti, "Federated Matrix Factorization with Privacy
// Guarantee" (PVLDB 15, 2022), called the FMF paper below; docs/divergence.md
// says where it departs from it and why.
//
// Embeddings are non-negative and of norm at most √R, R the top of the rating
// scale, so that predictions stay in [0, R] and the gradient of one rating has
// norm at most 2R^{3/2} (embedding clipping, FMF paper, section 4.1.1).
//
// What stands here: LFL-SGDMF, in which each client is one user ([LFL], a
// server.Durable, and [User], a client.Trainer), with its three stages:
//
//  1. each user pre-trains u_i against the common start of V;
//  2. in every iteration each user samples one rating and contributes the
//     gradient of V, of which only the noisy sum over users is seen ([OneRating];
//     [AllRatings] is ours, and learns more from the same budget);
//  3. each user fine-tunes u_i against the final V. It never leaves the device.
//
// Without noise the same code is FMF in its LFL form.
package fedmf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/entropy"
)

// Params are the public settings of a factorization, the same for everybody.
type Params struct {
	Items     int     // m
	Rank      int     // p, the length of an embedding
	MaxRating float64 // R, the top of the rating scale; scales start at 0 or above
	StartMean float64 // what every prediction is before training, in (0, R]: a public guess at the mean
	Spread    float64 // relative spread of the items' start, which lets ranks above 1 differ
	Seed      uint64  // of the start; public
	Fit       Fit     // what a user does locally in stages 1 and 3

	Contribution Contribution // what a user of LFL sends of its gradient; empty where no party is a user
	Clip         float64      // C, the largest norm of a gradient where gradients are clipped, positive
}

// Contribution is what a user of LFL-SGDMF sends in an iteration.
type Contribution string

const (
	// OneRating: the gradient of one rating, sampled anew each time. The paper's
	// form. Its bound, 2R^{3/2}, is several times a typical gradient.
	OneRating Contribution = "one-rating"
	// AllRatings: the gradient of all the user's ratings, clipped to a norm C.
	// Ours: the same noise hides far more signal.
	AllRatings Contribution = "all-ratings"
)

// Validate reports everything that makes the settings unusable.
func (p Params) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if p.Items < 1 {
		bad("items is %d; it must be at least 1", p.Items)
	}
	if p.Rank < 1 {
		bad("rank is %d; it must be at least 1", p.Rank)
	}
	if !(p.MaxRating > 0) || math.IsInf(p.MaxRating, 1) {
		bad("the top of the rating scale is %v; it must be positive", p.MaxRating)
	}
	if !(p.StartMean > 0 && p.StartMean <= p.MaxRating) {
		bad("start-mean is %v; it must be above 0 and at most the top of the rating scale, %v", p.StartMean, p.MaxRating)
	}
	if !(p.Spread >= 0 && p.Spread <= 1) {
		bad("start-spread is %v; it must be from 0 to 1", p.Spread)
	}
	switch p.Contribution {
	case OneRating, "":
	case AllRatings:
		if !(p.Clip > 0) || math.IsInf(p.Clip, 1) {
			bad("clip is %v; it must be positive", p.Clip)
		}
	default:
		bad("contribution is %q; it must be %s or %s", p.Contribution, OneRating, AllRatings)
	}
	return errors.Join(append(errs, p.Fit.Validate())...)
}

// GradientBound is 2R^{3/2}, the largest norm of one rating's gradient with
// respect to either embedding (FMF paper, section 4.1.1).
func (p Params) GradientBound() float64 { return 2 * math.Pow(p.MaxRating, 1.5) }

// startValue is the coordinate of an embedding that predicts StartMean
// everywhere: √(mean/p).
func (p Params) startValue() float64 { return math.Sqrt(p.StartMean / float64(p.Rank)) }

// StartItems is the common start of V: the uniform value √(mean/p) with a small
// seeded spread, projected. Every algorithm and baseline of a run starts here.
func (p Params) StartItems() *Matrix {
	v := NewMatrix(p.Items, p.Rank)
	rng := entropy.Public(p.Seed, "fedmf/start")
	for i := range v.data {
		v.data[i] = p.startValue() * (1 + p.Spread*rng.NormFloat64())
	}
	for j := range p.Items {
		Project(v.Row(j), p.MaxRating)
	}
	return v
}

// StartUser is where every u_i starts.
func (p Params) StartUser() []float64 {
	u := make([]float64, p.Rank)
	for i := range u {
		u[i] = p.startValue()
	}
	return u
}

// Project is the embedding clipping Π of the FMF paper: negative coordinates to
// zero, then onto the ball of squared norm r. It is the exact projection onto
// {x >= 0, ‖x‖² <= r} (appendix D there).
func Project(x []float64, r float64) {
	var norm2 float64
	for i, v := range x {
		if v < 0 {
			v = 0
			x[i] = v
		}
		norm2 += v * v
	}
	if norm2 <= r {
		return
	}
	scale := math.Sqrt(r / norm2)
	for i := range x {
		x[i] *= scale
	}
}

// Matrix holds one embedding a row.
type Matrix struct {
	rows, cols int
	data       []float64
}

// NewMatrix makes a matrix of zeros.
func NewMatrix(rows, cols int) *Matrix {
	return &Matrix{rows: rows, cols: cols, data: make([]float64, rows*cols)}
}

// Dims returns rows and columns.
func (m *Matrix) Dims() (rows, cols int) { return m.rows, m.cols }

// Row is row i itself, not a copy.
func (m *Matrix) Row(i int) []float64 { return m.data[i*m.cols : (i+1)*m.cols : (i+1)*m.cols] }

// Data is the matrix row by row, not a copy.
func (m *Matrix) Data() []float64 { return m.data }

// Clone is a copy.
func (m *Matrix) Clone() *Matrix {
	return &Matrix{rows: m.rows, cols: m.cols, data: append([]float64(nil), m.data...)}
}

// Encode is the matrix as it is broadcast: row by row, each coordinate a
// little-endian float64.
func (m *Matrix) Encode() []byte {
	b := make([]byte, 0, 8*len(m.data))
	for _, x := range m.data {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
	}
	return b
}

// EncodedSize is the length in bytes of an encoded matrix.
func EncodedSize(rows, cols int) int { return 8 * rows * cols }

// Broadcast reads single rows of an encoded matrix in place, so that a user
// decodes what its ratings touch and no more.
type Broadcast struct {
	b    []byte
	cols int
}

// NewBroadcast wraps an encoded matrix of the given shape; another length is an
// error.
func NewBroadcast(b []byte, rows, cols int) (Broadcast, error) {
	if size := EncodedSize(rows, cols); len(b) != size {
		return Broadcast{}, fmt.Errorf("fedmf: the broadcast model has %d bytes, %d x %d embeddings need %d", len(b), rows, cols, size)
	}
	return Broadcast{b: b, cols: cols}, nil
}

// Row decodes row j into dst and returns it. Coordinates that are not finite
// come out as they are; a contribution computed from them breaks its bounds and
// is not sent.
func (b Broadcast) Row(j int, dst []float64) []float64 {
	at := b.b[8*j*b.cols:]
	for i := range b.cols {
		dst[i] = math.Float64frombits(binary.LittleEndian.Uint64(at[8*i:]))
	}
	return dst[:b.cols]
}

// Matrix decodes the whole.
func (b Broadcast) Matrix() *Matrix { return b.into(nil) }

// into decodes the whole into m, which is made if it is nil.
func (b Broadcast) into(m *Matrix) *Matrix {
	if m == nil {
		m = NewMatrix(len(b.b)/8/b.cols, b.cols)
	}
	for j := range m.rows {
		b.Row(j, m.Row(j))
	}
	return m
}

// Predict is the inner product of a user's and an item's embedding.
func Predict(u, v []float64) float64 {
	var s float64
	for i, x := range u {
		s += x * v[i]
	}
	return s
}
