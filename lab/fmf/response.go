package fmf

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/fedmf/kernel"
	"github.com/fedsim/fedsim/model"
	"github.com/fedsim/fedsim/protocol"
)

// ResponseParams holds the settings of Response.
type ResponseParams struct {
	kernel.Params
	Rounds       int     // T
	Dimensions   int     // k, the rows of a projected gradient of V
	Epsilon      float64 // ε₀ of one message; +Inf: signs are drawn all the same, by the value alone
	LearningRate float64 // η: V moves by ηm times the mean clipped gradient, down Schedule
}

// Validate reports every fault of the settings.
func (p ResponseParams) Validate() error {
	errs := []error{p.Params.Validate()}
	if p.Rounds < 1 {
		errs = append(errs, fmt.Errorf("rounds is %d; it must be at least 1", p.Rounds))
	}
	if p.Dimensions < 1 || p.Dimensions > p.Items {
		errs = append(errs, fmt.Errorf("dimensions is %d; it must be from 1 to the %d items", p.Dimensions, p.Items))
	}
	if !(p.Epsilon > 0) {
		errs = append(errs, fmt.Errorf("epsilon is %v; it must be positive", p.Epsilon))
	}
	if !(p.LearningRate > 0) || math.IsInf(p.LearningRate, 1) {
		errs = append(errs, fmt.Errorf("learning-rate is %v; it must be positive", p.LearningRate))
	}
	return errors.Join(errs...)
}

// Response is the server and the users of Private-GD-DR (Shin, Kim, Shin and Xiao 2018), in one
// place. The FMF paper compares LFL-SGDMF with it in figure 10. A user sends a coordinate, which is
// uniform and depends on nothing, and a sign.
//
// # Why a message is ε₀-private
//
// From any ratings of a user, [ResponseParams.answer] makes a value x in [-1, 1], and the sign is +
// with the chance (1 + x·tanh(ε₀/2))/2. That is from 1/(1 + e^ε₀) to e^ε₀/(1 + e^ε₀), and so is the
// chance of -. So for any two records, the empty record among them, chances differ by a factor of
// at most e^ε₀. Local of package dp gives the cost of the messages of all rounds together.
type Response struct {
	params ResponseParams
	start  *model.Matrix // V of the first round, which users are fitted to
	items  *model.Matrix
	signs  []bool // of Φ, k·m: entries are ±1/√k, public
}

// NewResponse makes a Response with V at its start.
func NewResponse(p ResponseParams) (*Response, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	r := &Response{params: p, start: p.StartItems(), items: p.StartItems(), signs: make([]bool, p.Dimensions*p.Items)}
	rng := entropy.Public(p.Seed, "fedmf/projection")
	for i := range r.signs {
		r.signs[i] = rng.Uint64()&1 == 1
	}
	return r, nil
}

// Items returns the current V, not a copy.
func (r *Response) Items() *model.Matrix { return r.items }

// Users returns the embeddings from which users compute gradients: each fitted to its own ratings
// and the first V (stage 1).
func (r *Response) Users(rows []model.Ratings, run protocol.Runner) [][]float64 {
	users := make([][]float64, len(rows))
	run.Each(len(rows), func(i int) { users[i] = r.params.User(rows[i], r.start) })
	return users
}

// answer returns coordinate (a, c) of Φ times a user's gradient of V. It cuts the gradient's
// entries to [-1, 1], and cuts the result to [-1, 1] again: with many ratings a projection may be
// longer.
func (r *Response) answer(a, c int, u []float64, own model.Ratings) float64 {
	sum := 0.
	for k, j := range own.Items {
		g := -2 * (float64(own.Values[k]) - model.Dot(u, r.items.Row(int(j)))) * u[c]
		g = min(max(g, -1), 1)
		if r.signs[a*r.params.Items+int(j)] {
			sum += g
		} else {
			sum -= g
		}
	}
	return min(max(sum/math.Sqrt(float64(r.params.Dimensions)), -1), 1)
}

// Round has every user answer and moves V. Each of n messages stands for k·p/n of the mean
// projected gradient. The factor 1/tanh(ε₀/2) undoes the randomness, so that the mean of a scaled
// message is the mean of the answers. Φᵀ brings it back, since the mean of ΦᵀΦ is I.
func (r *Response) Round(round int, users [][]float64, rows []model.Ratings, random io.Reader, run protocol.Runner) error {
	p, bits := &r.params, noise.NewBits(random)
	tanh := math.Tanh(p.Epsilon / 2)
	mean := make([]float64, p.Dimensions*p.Rank)
	each := float64(len(mean)) / float64(len(rows)) / tanh
	for i, own := range rows {
		pick := uniform(bits, len(mean))
		x := r.answer(pick/p.Rank, pick%p.Rank, users[i], own)
		if float64(bits.Uint64()>>11)*0x1p-53 < (1+x*tanh)/2 {
			mean[pick] += each
		} else {
			mean[pick] -= each
		}
	}
	if err := bits.Err(); err != nil {
		return fmt.Errorf("fmf: drawing responses: %w", err)
	}
	gamma := kernel.Schedule(p.LearningRate, round, p.Rounds) * float64(p.Items) / math.Sqrt(float64(p.Dimensions))
	run.Each(p.Items, func(j int) {
		row := r.items.Row(j)
		for a := range p.Dimensions {
			by := gamma
			if r.signs[a*p.Items+j] {
				by = -gamma
			}
			for c := range row {
				row[c] += by * mean[a*p.Rank+c]
			}
		}
		kernel.Project(row, p.MaxRating)
	})
	return nil
}

// uniform draws from 0 to n-1; words that would favour some values are drawn again.
func uniform(bits *noise.Bits, n int) int {
	limit := math.MaxUint64 - math.MaxUint64%uint64(n)
	for {
		if x := bits.Uint64(); x < limit {
			return int(x % uint64(n))
		}
	}
}

// Deviation returns the standard deviation of a coordinate of a round's estimate of the mean gradient,
// for n users: √(k·p/n)/tanh(ε₀/2).
func (p ResponseParams) Deviation(users int) float64 {
	return math.Sqrt(float64(p.Dimensions*p.Rank)/float64(users)) / math.Tanh(p.Epsilon/2)
}
