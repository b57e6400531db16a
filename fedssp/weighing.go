package fedssp

import (
	"math"
	"slices"

	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/user"
	"github.com/fedsim/fedsim/internal/dense"
)

// Budgeting says how a user's sensitivity is divided among its ratings.
type Budgeting string

const (
	// Weights uses every rating, with w_j ∝ n̂_j^-Exponent and Σ w_j² = 1.
	Weights Budgeting = "weights"
	// UniformSample uses at most PerUser ratings, all equally likely, with w = 1/√PerUser.
	UniformSample Budgeting = "uniform"
	// TailSample uses at most PerUser ratings, of the rarest items by the private counts.
	TailSample Budgeting = "tail"
)

// Normaliser says how weights are brought to Σ w² <= 1 of a user.
type Normaliser string

const (
	// PerUserNorm scales each user's weights so that Σ w² is 1, as in am-ssp E.1.4.
	PerUserNorm Normaliser = "user"
	// GlobalNorm uses one scale for all users: Σ w² of an average user is 1/Headroom. The weights
	// of a user beyond 1 are scaled back. These are equations (11) and (12) of the multi-task
	// paper, with β = 1 and c(n) = Headroom.
	GlobalNorm Normaliser = "global"
)

func weighingKeys() []*config.Key {
	return []*config.Key{keys.budgeting.Key, keys.exponent.Key, keys.normalise.Key, keys.headroom.Key, keys.perUser.Key}
}

// declareWeighing declares how sensitivity is divided among ratings.
func declareWeighing() {
	keys.budgeting = word("statistics.budgeting", []string{string(Weights), string(UniformSample), string(TailSample)}, nil,
		"weights; uniform of dpals and dpsgd", "How a user's sensitivity is dealt to its ratings: by weights, or to a sample of them.",
		func(s settings, _ *config.Facts) string {
			if s.form().sampled {
				return string(UniformSample)
			}
			return string(Weights)
		})
	// Counts cost more than the weights gain if the biases come first, and with noise weights of
	// 1/4 are worse than equal weights.
	keys.exponent = number("statistics.exponent", config.Between(0, 2), settings.weights, "0; 0.1 of ada-dpals, ada-dpsgd and am-ssp-ids; 0.25 of am-ssp, am-dpsgd and dp-sgd-mf, as published",
		"How much more a rating of a rare item weighs: by the item's private count to the power of minus this.",
		always(func(s settings) float64 {
			if s.form().dense {
				return 0.25
			}
			return either(s.form().weighted, 0.1, 0)
		}))
	keys.normalise = config.DeclareText(config.Key{
		Name: "statistics.normalise", Kind: config.Word, Default: string(PerUserNorm), Words: []string{string(PerUserNorm), string(GlobalNorm)},
		When: condition(settings.weights).when(),
		Help: "How weights are brought to the bound of a user: by each user's own scale, or by one for all users, with larger weights scaled back (multi-task, (11) and (12)).",
	})
	keys.headroom = config.DeclareNumber(config.Key{
		Name: "statistics.headroom", Kind: config.Real, Default: "1", Range: config.Between(1e-3, 1e3), When: condition(func(s settings) bool { return s.weights() && s.global() }).when(),
		Help: "By how much the square of an average user's weights stays below the bound with one scale for all: c(n) of the multi-task paper.",
	})
	// Half as many (multi-task paper, section 5.1) lose more than their noise costs.
	keys.perUser = count("statistics.per-user", config.Between(1, 1e6), func(s settings) bool { return !s.weights() || s.noisyPosteriors() }, "100; 1000 without noise",
		"Most ratings of a user in a sample. With posteriors under noise: how many ratings of a user count in full; if a user has more, each weighs less.", always(func(s settings) float64 { return either(s.private(), 100, 1000) }))
}

// perUser is Params.PerUser; 0 if all of a user's ratings count in full.
func (s settings) perUser() int {
	if s.weights() && !s.noisyPosteriors() {
		return 0
	}
	return keys.perUser.Int(s.Config)
}

func (s settings) weighing() WeighingParams {
	c := s.Config
	return WeighingParams{
		Budgeting: Budgeting(keys.budgeting.Of(c)), Exponent: keys.exponent.Value(c), Normalise: Normaliser(keys.normalise.Of(c)),
		Headroom: keys.headroom.Value(c), PerUser: s.perUser(),
	}
}

// WeighingParams sets how a user's sensitivity is divided among its ratings.
type WeighingParams struct {
	Budgeting Budgeting
	Exponent  float64    // of the weights, 0 (equal) to 2
	Normalise Normaliser // "" is PerUserNorm
	Headroom  float64    // c(n) of GlobalNorm, positive; else 0
	// PerUser is the most ratings in a user's sample. With the variational solver it is the number
	// of a user's ratings that count in full, and positive if there is noise; else 0.
	PerUser int
}

func (p *Params) checkBudgeting(e *problems) {
	switch p.Budgeting {
	case Weights:
		e.within(keys.exponent, p.Exponent)
		switch p.Normalise {
		case PerUserNorm, "":
		case GlobalNorm:
			e.within(keys.headroom, p.Headroom)
		default:
			e.add("normalise is %q; it must be %s or %s", p.Normalise, PerUserNorm, GlobalNorm)
		}
	case UniformSample, TailSample:
		e.within(keys.perUser, float64(p.PerUser))
	default:
		e.add("budgeting is %q; it must be %s, %s or %s", p.Budgeting, Weights, UniformSample, TailSample)
	}
}

// weigh chooses the ratings that take part, once, and gives them weights.
func (c *contribution) weigh() error {
	if c.weights != nil {
		return nil
	}
	p, n := c.params, len(c.ratings.Items)
	var counts []float64
	if c.model.counted() && p.withCounts() {
		counts = make([]float64, n)
		for k, j := range c.ratings.Items {
			counts[k] = c.model.count(int(j))
		}
	}
	if err := c.choose(counts); err != nil {
		return err
	}
	c.weights = make([]float64, len(c.chosen))
	switch {
	case p.Budgeting != Weights:
		for k := range c.weights {
			c.weights[k] = 1 / math.Sqrt(float64(p.PerUser))
		}
	case p.Normalise == GlobalNorm && counts != nil:
		if c.scale == 0 { // counts are released once
			c.scale = user.GlobalScale(c.model.count, p.Items, c.clients, p.Exponent, p.Headroom)
		}
		user.WeighGlobally(c.weights, counts, p.Exponent, c.scale)
	default:
		user.Weigh(c.weights, counts, p.Exponent)
	}
	if p.Bias && p.NormBias > 0 {
		restrain(c.weights, dense.Norm(c.biases().Value), p.biasBound())
	}
	return nil
}

// restrain scales x so that the given norm, of x or a multiple of x, falls to the bound, and
// returns the factor; 1 if the norm is within the bound. The factor is a little less than
// necessary, lest rounding passes the bound.
func restrain(x []float64, norm, bound float64) float64 {
	const less = 1 - 1e-15
	if norm <= bound {
		return 1
	}
	by := bound / norm * less
	for i := range x {
		x[i] *= by
	}
	return by
}

// choose selects the ratings that take part: all of them or, if ratings are budgeted, the sample
// that was drawn for all of a run's sums.
func (c *contribution) choose(counts []float64) error {
	p, n := c.params, len(c.ratings.Items)
	if p.Budgeting == Weights {
		c.chosen = make([]int, n)
		for k := range c.chosen {
			c.chosen[k] = k
		}
		return nil
	}
	if c.User.chosen == nil {
		random := c.src.Stream("sample-ratings", c.round)
		var places []int
		var err error
		if p.Budgeting == TailSample {
			places, err = user.SampleTail(n, p.PerUser, counts, random)
		} else {
			places, err = user.Sample(n, p.PerUser, random)
		}
		if err != nil {
			return err
		}
		c.User.chosen = c.own(places)
	}
	c.chosen = c.among(c.User.chosen)
	return nil
}

// own maps places among the ratings of items that are trained on to places among all of the user's
// ratings.
func (c *contribution) own(places []int) []int {
	if c.from == nil {
		return places
	}
	out := make([]int, len(places))
	for i, k := range places {
		out[i] = c.from[k]
	}
	return out
}

// among maps places among all of the user's ratings to places among the ratings of items that are
// trained on. It leaves out ratings of items that were trained on when the sample was drawn, and no
// longer are.
func (c *contribution) among(own []int) []int {
	if c.from == nil {
		return own
	}
	var out []int
	for _, k := range own {
		if i, in := slices.BinarySearch(c.from, k); in {
			out = append(out, i)
		}
	}
	return out
}

// items lists the items of the chosen ratings.
func (c *contribution) items() []uint32 {
	items := make([]uint32, len(c.chosen))
	for i, k := range c.chosen {
		items[i] = uint32(c.ratings.Items[k])
	}
	return items
}

// weights returns c_j of all N clients, at least the deviation of its noise, because less cannot be
// told from zero. typical is w̃. A sample's weights are all equal. Other weights of a user are
// about 1/√n and add up to about √n, at least 1, so 1 over their sum is about one weight.
func (s *Strategy) weights() (c []float64, typical float64) {
	n := s.params.total()
	c = dense.Scaled(s.weight, n)
	floor, sum := max(s.weightNoise*n, 1e-9), 0.0
	for j, x := range c {
		if !(x > floor) {
			c[j] = floor
		}
		sum += x
	}
	if s.params.Budgeting != Weights {
		return c, 1 / math.Sqrt(float64(s.params.PerUser))
	}
	return c, n / max(sum, n)
}
