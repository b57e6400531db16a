package fmf

import (
	"context"
	"fmt"
	"io"
	"math"

	"gonum.org/v1/gonum/stat/combin"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/fedmf"
	"github.com/fedsim/fedsim/internal/fedmf/kernel"
	"github.com/fedsim/fedsim/lab/internal/binomial"
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

// Validate reports settings that no key refuses by itself.
func (p ResponseParams) Validate() error {
	if p.Dimensions > p.Items {
		return fmt.Errorf("dimensions is %d; it must be from 1 to the %d items", p.Dimensions, p.Items)
	}
	return nil
}

// Response is the server and the users of Private-GD-DR (Shin, Kim, Shin and Xiao 2018), in one place. The FMF paper compares
// LFL-SGDMF with it in figure 10. A user sends a coordinate, which is uniform and depends on nothing, and a sign.
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
func NewResponse(p ResponseParams) *Response {
	r := &Response{params: p, start: p.StartItems(), items: p.StartItems(), signs: make([]bool, p.Dimensions*p.Items)}
	rng := entropy.Public(p.Seed, "fedmf/projection")
	for i := range r.signs {
		r.signs[i] = rng.Uint64()&1 == 1
	}
	return r
}

// Users returns the embeddings from which users compute gradients: each fitted to its own ratings and the first V (stage 1).
func (r *Response) Users(rows []model.Ratings, run protocol.Runner) [][]float64 {
	users := make([][]float64, len(rows))
	run.Each(len(rows), func(i int) { users[i] = r.params.User(rows[i], r.start) })
	return users
}

// answer returns coordinate (a, c) of Φ times a user's gradient of V. It cuts the gradient's entries to [-1, 1], and cuts the
// result to [-1, 1] again: with many ratings a projection may be longer.
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

// responseInstance is Private-GD-DR with its data.
type responseInstance struct {
	algorithm.OnePlace
	setup  *algorithm.Setup
	params ResponseParams
}

func openResponse(s *algorithm.Setup, p kernel.Params) (algorithm.Instance, error) {
	c, users := s.Config, s.Data.Users
	dimensions.Set(&s.Config, dimensions.Or(c, math.Ceil(float64(p.Items)/10)))
	r := ResponseParams{Params: p, Rounds: algorithm.Rounds.Int(c), Dimensions: dimensions.Int(s.Config), Epsilon: math.Inf(1)}
	if s.Private() {
		delta := algorithm.Delta.Value(c)
		if err := dp.CheckDelta(delta, users); err != nil {
			return nil, config.Errorf("delta: %w", err)
		}
		local := LocalFor(algorithm.Epsilon.Value(c), delta, users, r.Rounds)
		r.Epsilon = local.Epsilon
		s.Privacy.Proved, s.Privacy.Local = dp.Result{Epsilon: local.Shuffled(delta), Accountant: dp.Shuffling}, local.Total()
	}
	fedmf.LearningRate.Set(&s.Config, fedmf.LearningRate.Or(s.Config, responseRate(r, users)))
	r.LearningRate = fedmf.LearningRate.Value(s.Config)
	if err := r.Validate(); err != nil {
		return nil, config.Wrap(err)
	}
	return &responseInstance{setup: s, params: r}, nil
}

// responseRate returns η if none is given: the noise of all rounds together moves a prediction by a tenth of a star of five. On
// synthetic:small at ε = 5 a fiftieth to four tenths end within 0.005, and nine tenths 0.04 worse.
func responseRate(p ResponseParams, users int) float64 {
	const stars = 0.1
	sway := float64(p.Items) * p.Deviation(users) * math.Sqrt(float64(p.Rounds)*p.StartMean)
	return stars * p.MaxRating / 5 / sway
}

func (x *responseInstance) Epochs() int { return x.params.Rounds }

func (x *responseInstance) Train(ctx context.Context, run protocol.Runner, from algorithm.Passes, src entropy.Source, passed func(algorithm.Epoch) error) (*model.Trained, error) {
	r := NewResponse(x.params)
	if from.Done > 0 {
		if err := model.ReadFloats(r.items.Data(), from.State); err != nil {
			return nil, fmt.Errorf("fmf: a state of other items: %w", err)
		}
	}
	rows := x.setup.Rows()
	if err := kernel.CheckRatings(rows, x.params.Items, x.params.MaxRating); err != nil {
		return nil, err
	}
	users := r.Users(rows, run)
	for round := from.Done + 1; round <= x.params.Rounds; round++ {
		if err := r.Round(round, users, rows, src.Stream("responses", uint64(round)), run); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := passed(algorithm.Epoch{Number: round, Model: x.fitted(r, run), Save: func() []byte { return model.AppendFloats(nil, r.items.Data()...) }}); err != nil {
			return nil, err
		}
	}
	return model.OfFactors(x.fitted(r, run)), nil
}

// fitted returns users fitted to V: stage 3.
func (x *responseInstance) fitted(r *Response, run protocol.Runner) *model.Factors {
	return kernel.FitUsers(x.params.Params, x.setup.Train, r.items.Clone(), run)
}

func (x *responseInstance) Baselines() []algorithm.Baseline {
	return fedmf.StartBaselines(x.setup, x.params.Params, x.params.Rounds)
}

func (x *responseInstance) Words() algorithm.Words {
	return algorithm.Words{Model: fmt.Sprintf("messages of epsilon %.3g each", x.params.Epsilon)}
}

// Local describes messages that each user randomises: Rounds rounds of N users. One message is ε₀-private by itself.
type Local struct {
	Epsilon float64 // ε₀ of one message, for any replacement of the user's data
	Users   int
	Rounds  int
}

// Total returns the cost of all messages of a user for an observer who sees them with the user's name: Rounds·ε₀, without a δ.
func (l Local) Total() float64 { return float64(l.Rounds) * l.Epsilon }

// Shuffled returns the cost, at δ, for an observer who sees the messages of all users in a shuffled order in each round. It is the
// smaller of two proved bounds, both by optimal composition. One bound forgets the shuffling. In the other the shuffling amplifies
// each round: a theorem of Feldman, McMillan and Talwar (2021, theorem 3.1) gives
//
//	ε <= ln(1 + (e^ε₀ - 1)/(e^ε₀ + 1)·(8√(e^ε₀·ln(4/δ)/n) + 8e^ε₀/n)) for ε₀ <= ln(n/(16·ln(2/δ))).
//
// Half of δ is for the rounds, an equal part for each, and half for their composition. The bound holds for a user who is replaced,
// and so for a user whose record is empty and who sends all the same.
func (l Local) Shuffled(delta float64) float64 {
	least := composed(l.Epsilon, l.Rounds, delta)
	each := delta / 2 / float64(l.Rounds)
	if amplified, ok := amplified(l.Epsilon, float64(l.Users), each); ok {
		least = min(least, composed(amplified, l.Rounds, delta/2))
	}
	return least
}

// amplified returns the ε of shuffled messages; false if the theorem does not apply.
func amplified(local, n, delta float64) (float64, bool) {
	if local > math.Log(n/(16*math.Log(2/delta))) {
		return 0, false
	}
	e := math.Exp(local)
	return math.Log1p(math.Tanh(local/2) * (8*math.Sqrt(e*math.Log(4/delta)/n) + 8*e/n)), true
}

// composed returns the least ε at δ of k releases that are (each, 0)-private and chosen as an adversary likes. It is the ε of k
// answers of randomised response (Kairouz, Oh and Viswanath 2015, theorem 3.3), by bisection from above, so never less than that ε.
// The δ of each release adds to delta.
func composed(each float64, k int, delta float64) float64 {
	_, high := binomial.Halve(0, float64(k)*each, 100, func(epsilon float64) bool { return !(composedDelta(each, k, epsilon) <= delta) })
	return high
}

// composedDelta returns Σ_l C(k,l)·max(0, e^((k-l)·each) - e^(ε+l·each))/(1+e^each)^k, with
// logarithms for terms that would overflow.
func composedDelta(each float64, k int, epsilon float64) float64 {
	n := float64(k)
	norm := n * (each + math.Log1p(math.Exp(-each))) // ln(1 + e^each)^k
	sum := 0.
	for l := range k + 1 {
		x := float64(l)
		up, down := (n-x)*each, epsilon+x*each
		if up > down {
			sum += math.Exp(combin.LogGeneralizedBinomial(n, x)+up-norm) * -math.Expm1(down-up)
		}
	}
	return sum
}

// LocalFor returns the largest ε₀ with which shuffled messages cost at most the target, positive and finite.
func LocalFor(epsilon, delta float64, users, rounds int) Local {
	l := Local{Users: users, Rounds: rounds}
	// One answer of randomised response with ε₀ = ε + ln(1/δ) has a δ near 1 at ε, so no ε₀ beyond it will do.
	l.Epsilon, _ = binomial.Halve(0, epsilon+math.Log(1/delta), 100, func(each float64) bool {
		return Local{each, users, rounds}.Shuffled(delta) <= epsilon
	})
	return l
}
