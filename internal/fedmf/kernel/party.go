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
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/internal/dense"
	"github.com/fedsim/fedsim/internal/problems"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// PartyParams holds the public settings of VFL- and HFL-SGDMF. A party is an organisation with
// ratings of many users. In VFL ([Vertical]) it has the ratings of all users for its own items; in
// HFL ([Horizontal]) the ratings of its own users for all items.
type PartyParams struct {
	Params       // Items is m, over all parties; Contribution is not used
	Users    int // n, over all parties
	Unit     dp.Unit
	Clipping Clipping // Clip is C with GradientClipping and BothClippings

	Rounds     int // T
	LocalSteps int // T', steps between two averages
	ItemSteps  int // κ, steps on V alone after the last average; VFL only

	SamplingRate float64 // q, the chance of a unit to be in the Poisson sample of a step
	Density      float64 // τ, a public guess at |Ω|/(nm) that normalises batches
	ClipRatings  int     // θ, the most ratings of a user that a party trains on, with Unit user; 0: all, for clipped gradients

	// UserRate is η_U: a step moves u_i by η_U/(q·m_k·τ) times the sum of the
	// sampled gradients, which is η_U times the mean gradient for a user with
	// its even share of ratings. ItemRate is η_V: v_j moves by η_V/(q·n_k·τ)
	// times the sum. The paper's γ_t is η_U·n, and it has η_V = η_U·n/m.
	UserRate, ItemRate float64

	// TrainUsers makes an HFL party move its user embeddings in every step ("train-both" in the
	// paper) instead of only fitting them before it trains V.
	TrainUsers bool
	// Gradients makes HFL parties send the normalised noisy gradient of V of one step instead of the trained V, and the server take
	// the step: HFL-synSGD, with T' = 1.
	Gradients bool
	// RandomUsers leaves stage 1 out of an HFL party. Its user embeddings begin near the common
	// start at random, and stages 2 and 3 continue from there: the vanilla form of FMF (FMF paper,
	// figure 3(a) and section 5.3). It needs TrainUsers; otherwise nothing would train the users
	// before stage 3.
	RandomUsers bool
	// Prior is the precision λ of embeddings' prior, with ResidualClipping only.
	Prior float64
	// FineTune is the number of passes over its own ratings of an HFL party in stage 3, on a copy
	// of V that it keeps, with steps of FineTuneRate.
	FineTune     int
	FineTuneRate float64
}

// Clipping says how the gradient of a unit is kept within the sensitivity that the noise covers.
type Clipping string

const (
	// EmbeddingClipping projects embeddings so that no gradient is longer than 2R^{3/2} a rating.
	// It is the paper's form.
	EmbeddingClipping Clipping = "embedding"
	// GradientClipping scales a unit's gradient down to norm C and leaves embeddings alone, as in
	// DP-SGD. The paper compares with it.
	GradientClipping Clipping = "gradient"
	// BothClippings projects embeddings and clips gradients. It is ours: 2R^{3/2} is several times
	// a typical gradient, so a small C needs far less noise.
	BothClippings Clipping = "both"
	// ResidualClipping cuts errors of predictions to [-R, R] and scales embeddings into the ball of
	// squared norm R, of any sign. A step is then one of stochastic gradient Langevin dynamics
	// (DP-SGLD, which the paper compares with). It follows the log-posterior of ratings with errors
	// of precision 2 and embeddings of precision Prior, and adds noise of at least Langevin's
	// variance.
	ResidualClipping Clipping = "residual"
)

// Validate reports settings that leave a step's sensitivity without a bound, or users without training.
// The range of a number belongs to its key.
func (p PartyParams) Validate() error {
	errs := problems.List{p.Params.Validate()}
	errs.If(p.Users < 1, "users is %d; it must be at least 1", p.Users)
	errs.If(p.RandomUsers && !p.TrainUsers, "users begin at random and are not trained; train both, or pre-train them")
	switch p.Unit {
	case dp.User:
		errs.If(p.ClipRatings < 1 && (p.Clipping == EmbeddingClipping || p.langevin()),
			"clip-ratings is 0; a user with any number of ratings could move the gradient by any length: trim, or clip gradients")
	case dp.Rating:
		// The choice of the kept ratings would depend on all of a user's ratings.
		errs.If(p.ClipRatings != 0, "clip-ratings is %d; with unit rating nothing is trimmed, since one rating would then move others in or out", p.ClipRatings)
	default:
		errs.Add("unit is %q; it must be user or rating", p.Unit)
	}
	return errors.Join(errs...)
}

// Sensitivity returns how far one unit moves the summed gradient of a step, in L2 norm: of U and V
// together, or of V alone. A rating's gradient has norm at most 2R^{3/2} with respect to either
// embedding (FMF paper, section 4.1.1). A user's θ ratings add up in one row of U and touch θ
// different rows of V. With clipped gradients it is at most C. With ResidualClipping an error is at
// most R and an embedding's norm √R, so that a rating's gradient has the same bound, 2·R·√R.
func (p PartyParams) Sensitivity(both bool) float64 {
	inU, inV := 1.0, 1.0 // squared, in units of a rating's
	if p.Unit == dp.User {
		theta := float64(p.ClipRatings)
		inU, inV = theta*theta, theta
	}
	if !both {
		inU = 0
	}
	bound := p.GradientBound() * math.Sqrt(inU+inV)
	if p.Unit == dp.User && p.ClipRatings == 0 {
		bound = math.Inf(1)
	}
	switch p.Clipping {
	case GradientClipping:
		return p.Clip
	case BothClippings:
		return min(p.Clip, bound)
	default:
		return bound
	}
}

func (p PartyParams) langevin() bool { return p.Clipping == ResidualClipping }

// Project makes an embedding feasible where ratings are at most r. Where gradients alone are clipped every embedding is, and it is
// limited so that products do not overflow.
func (c Clipping) Project(x []float64, r float64) {
	switch c {
	case GradientClipping:
		dense.ClampAll(x, farthest*math.Sqrt(r))
	case ResidualClipping:
		clip(x, math.Sqrt(r))
	default:
		Project(x, r)
	}
}

func (p PartyParams) project(x []float64) { p.Clipping.Project(x, p.MaxRating) }

// Shared names the only release of VFL- and HFL-SGDMF and its phase: the weighted sum of the
// parties' versions of the shared embeddings, followed by the sum of their weights.
const Shared = "shared-embeddings"

// averageScale is the fixed point of an averaged release. Messages carry noise already, so rounding
// costs no privacy. A part in 2^24 is far below the noise, and ten parties' sum fits 32 bits.
const averageScale = 1 << 24

// Release returns the release of a round that averages rows shared embeddings; the caller must
// set width and noise. A party sends (w·X, w) with its public share w of items or users, so that
// the quotient of the sums is the average over the parties that took part.
func (p PartyParams) Release(rows int) protocol.Release {
	largest := math.Sqrt(p.MaxRating)
	if p.Clipping == GradientClipping {
		largest *= 16 // only the size of the ring bounds them: larger values are clamped
	}
	return p.release(rows, largest)
}

// GradientRelease returns the release of HFL-synSGD, which averages the normalised noisy gradients
// of V. The smallest party has users users; z is the noise multiplier. More users than twice the
// expected sample and noise beyond 12 deviations are clamped.
func (p PartyParams) GradientRelease(users int, z float64) protocol.Release {
	sampled := min(float64(users), 2*p.SamplingRate*float64(users)+50)
	return p.release(p.Items, (p.GradientBound()*sampled+12*z*p.Sensitivity(false))/p.batch(users))
}

func (p PartyParams) release(rows int, largest float64) protocol.Release {
	length := rows*p.Rank + 1
	largest = max(1, largest) // a weight is at most 1
	return protocol.Release{
		Name: Shared, Len: length, L2: largest * math.Sqrt(float64(length)), LInf: largest,
		MaxNonZero: length, Scale: averageScale,
	}
}

// weighted returns a party's contribution: w·x and then w, which is at most 1, clamped to the release's bound.
func weighted(x *model.Matrix, w float64, r protocol.Release) protocol.Vector {
	value := slices.Concat(x.Data(), []float64{1})
	floats.Scale(w, value)
	return protocol.Vector{Value: dense.ClampAll(value, r.LInf)}
}

// batch returns the divisor of a sum of sampled gradients: the expected number of sampled ratings
// of one row, over length columns.
func (p PartyParams) batch(length int) float64 { return p.SamplingRate * float64(length) * p.Density }

// own returns the plan's noise of the party's local steps. The party draws by the same numbers that
// its ledger is charged for. spread says whether a unit's data lies with all parties.
func (p PartyParams) own(plan *protocol.Plan, rows int, spread bool) (protocol.Noise, error) {
	if len(plan.Releases) != 1 || plan.Releases[0].Name != Shared || plan.Releases[0].Len != rows*p.Rank+1 {
		return protocol.Noise{}, fmt.Errorf("fedmf: the plan does not ask for %q of %d embeddings alone", Shared, rows)
	}
	n := plan.Releases[0].Noise
	switch n.Kind {
	case protocol.NoNoise:
		return protocol.Noise{Steps: p.StepsOf(plan.Round), SamplingRate: p.SamplingRate}, nil
	case protocol.PartyNoise:
		if n.Steps < p.LocalSteps || n.Steps > p.LocalSteps+p.ItemSteps {
			return n, fmt.Errorf("fedmf: the plan pays for %d local steps; a round takes %d, and %d follow the last", n.Steps, p.LocalSteps, p.ItemSteps)
		}
		if n.Spread != spread {
			return n, fmt.Errorf("fedmf: the plan says spread=%t of what a %s owns; it is %t", n.Spread, p.Unit, spread)
		}
		return n, nil
	default:
		return n, fmt.Errorf("fedmf: the plan has noise of the kind %s; a party noises its own steps", n.Kind)
	}
}

// farthest limits a broadcast coordinate, in units of √R: far beyond the coordinates of any run,
// and far below numbers whose products overflow.
const farthest = 1e6

// receive decodes shared embeddings of the given number of rows.
func (p PartyParams) receive(broadcast []byte, rows int) (*model.Matrix, error) {
	b, err := model.NewBroadcast(broadcast, rows, p.Rank)
	if err != nil {
		return nil, err
	}
	m := b.Matrix()
	return m, p.accept("broadcast embeddings", m)
}

// accept projects embeddings that come from elsewhere, since the sensitivity holds for feasible embeddings only, and the sender
// may be dishonest. It refuses embeddings that are not finite, or so large that gradients would not be.
func (p PartyParams) accept(what string, m *model.Matrix) error {
	most := farthest * math.Sqrt(p.MaxRating)
	for i, x := range m.Data() {
		if !(math.Abs(x) <= most) { // written this way, it refuses NaN
			return fmt.Errorf("fedmf: row %d of the %s holds %v; coordinates are at most %g", i/p.Rank, what, x, most)
		}
	}
	for i := range m.Rows() {
		p.project(m.Row(i))
	}
	return nil
}

// StepsOf returns the number of local steps paid in a round, counted from 1: the last
// round pays in advance for the steps on V alone, which follow it.
func (p PartyParams) StepsOf(round uint64) int {
	if round == uint64(p.Rounds) {
		return p.LocalSteps + p.ItemSteps
	}
	return p.LocalSteps
}

// rates returns the two learning rates of a local step, counted from 1 over the
// whole run.
func (p PartyParams) rates(step int) (user, item float64) {
	all := p.Rounds * p.LocalSteps
	return Schedule(p.UserRate, step, all), Schedule(p.ItemRate, step, all)
}

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

// Validate reports a start that predicts nothing on the rating scale. The range of a number belongs to its key.
func (p Params) Validate() error {
	var errs problems.List
	errs.If(p.Items < 1 || p.Rank < 1, "there are %d items and rank %d; both must be at least 1", p.Items, p.Rank)
	errs.If(!(p.StartMean > 0 && p.StartMean <= p.MaxRating) || math.IsInf(p.MaxRating, 1),
		"start-mean is %v; it must be above 0 and at most the top of the rating scale, %v", p.StartMean, p.MaxRating)
	return errors.Join(errs...)
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
	v := p.uniform(p.Items)
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
func (p Params) StartUser() []float64 { return p.uniform(1).Data() }

// uniform returns embeddings that predict StartMean everywhere.
func (p Params) uniform(rows int) *model.Matrix {
	m := model.NewMatrix(rows, p.Rank)
	for i := range m.Data() {
		m.Data()[i] = p.startValue()
	}
	return m
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
