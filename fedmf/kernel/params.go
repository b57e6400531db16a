// Package kernel is federated matrix factorization without a configuration: what each party and the server
// compute. It explains a rating of user i for item j as the
// inner product of a user embedding u_i and an item embedding v_j. Parties learn the shared
// embeddings without showing ratings. The package follows Li, Song and Fanti, "Federated Matrix
// Factorization with Privacy Guarantee" (PVLDB 15, 2022), called the FMF paper below.
// fedssp/divergence.md lists the differences and their reasons.
//
// Embeddings are non-negative and of norm at most √R, where R is the top of the rating scale. So
// predictions stay in [0, R] and the gradient of one rating has norm at most 2R^{3/2} (embedding
// clipping, FMF paper, section 4.1.1).
//
// In LFL-SGDMF each client is one user ([LFL], a server.Durable, and [User], a client.Trainer). It
// has three stages:
//
//  1. each user pre-trains u_i against the common start of V;
//  2. in every round each user samples one rating and contributes the
//     gradient of V; the server sees only the noisy sum over users ([OneRating];
//     [AllRatings] is ours, and learns more from the same budget);
//  3. each user fine-tunes u_i against the final V. It never leaves the client.
//
// Without noise the same code is FMF in its LFL form.
package kernel

import (
	"errors"
	"fmt"
	"math"

	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/model"
)

// Params holds the public settings of a factorization, the same for all clients.
type Params struct {
	Items     int     // m
	Rank      int     // p, the length of an embedding
	MaxRating float64 // R, the top of the rating scale; scales start at 0 or above
	StartMean float64 // every prediction before training, in (0, R]: a public guess at the mean
	Spread    float64 // relative spread of the items' start, which lets ranks above 1 differ
	Seed      uint64  // of the start; public
	Fit       Fit     // a user's local fit in stages 1 and 3

	// FromItems and FromUsers hold released embeddings where training starts, a row for each item or user; nil: the common start.
	FromItems, FromUsers *model.Matrix

	Contribution Contribution // the part of its gradient that a user of LFL sends; empty if no party is a user
	Clip         float64      // C, the largest norm of a clipped gradient, positive
}

// Contribution says what a user of LFL-SGDMF sends in a round.
type Contribution string

const (
	// OneRating sends the gradient of one rating, sampled anew each time. It is the paper's form.
	// Its bound, 2R^{3/2}, is several times a typical gradient.
	OneRating Contribution = "one-rating"
	// AllRatings sends the gradient of all the user's ratings, clipped to norm C. It is ours: the
	// same noise hides far more signal.
	AllRatings Contribution = "all-ratings"
)

// Validate reports every fault of the settings.
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

// GradientBound returns 2R^{3/2}, the largest norm of one rating's gradient with respect to either
// embedding (FMF paper, section 4.1.1).
func (p Params) GradientBound() float64 { return 2 * math.Pow(p.MaxRating, 1.5) }

// startValue returns the coordinate of an embedding that predicts StartMean everywhere: √(mean/p).
func (p Params) startValue() float64 { return math.Sqrt(p.StartMean / float64(p.Rank)) }

// StartItems returns the start of V. It is FromItems, or else the common start: the uniform value √(mean/p) with a
// small seeded spread, projected. Every algorithm and baseline of a run starts here.
func (p Params) StartItems() *model.Matrix {
	if p.FromItems != nil {
		return p.FromItems.Clone()
	}
	v := model.NewMatrix(p.Items, p.Rank)
	for i := range v.Data() {
		v.Data()[i] = p.startValue()
	}
	p.Scatter(v, entropy.Public(p.Seed, "fedmf/start"))
	return v
}

// Scatter moves every coordinate of m by the relative spread, and projects the rows.
func (p Params) Scatter(m *model.Matrix, rng interface{ NormFloat64() float64 }) {
	for i, x := range m.Data() {
		m.Data()[i] = x * (1 + p.Spread*rng.NormFloat64())
	}
	for i := range m.Rows() {
		Project(m.Row(i), p.MaxRating)
	}
}

// StartUser returns the start of every u_i.
func (p Params) StartUser() []float64 {
	u := make([]float64, p.Rank)
	for i := range u {
		u[i] = p.startValue()
	}
	return u
}

// Project applies the embedding clipping Π of the FMF paper: negative coordinates become zero, then
// x moves onto the ball of squared norm r. It is the exact projection onto {x >= 0, ‖x‖² <= r}
// (appendix D there).
func Project(x []float64, r float64) {
	var norm2 float64
	for i, v := range x {
		if v < 0 {
			v = 0
			x[i] = v
		}
		norm2 += v * v
	}
	Shrink(x, norm2, r)
}

// Shrink scales x, whose squared norm is norm2, to a squared norm of at most r.
func Shrink(x []float64, norm2, r float64) {
	if norm2 <= r {
		return
	}
	scale := math.Sqrt(r / norm2)
	for i := range x {
		x[i] *= scale
	}
}
