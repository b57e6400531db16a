package fedssp

import (
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/fedssp/ease"
	"github.com/fedsim/fedsim/internal/fedssp/encoder"
	"github.com/fedsim/fedsim/internal/fedssp/kernel"
	"github.com/fedsim/fedsim/internal/fedssp/settings"
	"github.com/fedsim/fedsim/internal/fedssp/solver"
	"github.com/fedsim/fedsim/internal/fedssp/stage"
)

func init() {
	for _, f := range []family{
		{
			about: algorithm.About{Name: "dpals", Help: "private alternating least squares: items from noisy sums over a capped number of ratings of each user", Paper: "multi-task, algorithm 1"},
			form:  settings.Form{Solvers: []settings.Solver{solver.ALS}, Sampled: true, Starts: true},
		},
		{
			about: algorithm.About{Name: "ada-dpals", Help: "dpals on all ratings, weighted in favour of rare items", Paper: "multi-task, algorithm 2"},
			form:  settings.Form{Solvers: []settings.Solver{solver.ALS}, Weighted: true, Starts: true},
		},
		{
			about: algorithm.About{Name: "dp-cmf", Help: "private collective factorization: factors the ratings together with public features of items", Paper: "DP-CMF, section 3",
				Features: algorithm.NeedsFeatures, NoFeatures: "dp-cmf factors features beside the ratings; name some with --features FILE.csv, or use ssp-c"},
			form: settings.Form{Solvers: []settings.Solver{solver.CMF}, Ours: true, Starts: true},
		},
		{
			// ssp-c is the default because it learns most from a budget, or nearly so, on every
			// data set of experiments/results.md.
			about: algorithm.About{Name: "ssp-c", Default: true, Help: "sufficient statistics perturbation: item biases first, then embeddings from public features of items, by one noisy sum a round", Paper: "AM-SSP, algorithm 8, in our form",
				Features: algorithm.TakesFeatures, Years: "era,genre-era"},
			form: settings.Form{Solvers: []settings.Solver{solver.ALS, solver.Encoded, solver.Pooled, solver.Variational}, Ours: true, Starts: true},
		},
		{
			about: algorithm.About{Name: "ssp-i", Help: "sufficient statistics perturbation with a fresh noisy sum for every step of the solver", Paper: "AM-SSP, algorithm 2",
				Features: algorithm.TakesFeatures, Years: "era,genre-era"},
			form: settings.Form{Solvers: []settings.Solver{solver.Encoded}, Ours: true, Resampled: true},
		},
		{
			about: algorithm.About{Name: "am-ssp", Help: "ssp-c as published: an encoder of public features with a dense layer, and separate statistics for each item", Paper: "AM-SSP, algorithm 8 and E.1.2",
				Features: algorithm.TakesFeatures},
			form: settings.Form{Solvers: []settings.Solver{solver.ALS, solver.Encoded, solver.Pooled}, Weighted: true, Dense: true},
		},
		{
			about: algorithm.About{Name: "am-ssp-ids", Help: "am-ssp with an own embedding for each item in place of the dense layer", Paper: "AM-SSP, algorithm 8, in our form",
				Features: algorithm.TakesFeatures},
			form: settings.Form{Solvers: []settings.Solver{solver.ALS, solver.Encoded, solver.Pooled}, Weighted: true},
		},
		{
			about: algorithm.About{Name: biasOnly, Help: "learns only a bias for each item, or its popularity for rankings: the baseline to beat", LocalNoise: true},
		},
	} {
		Register(f.about, f.form)
	}
	algorithm.MustRegister(ease.New())
}

// biasOnly is the algorithm that learns biases alone.
const biasOnly = "private-item-bias"

// family is an algorithm of this package. In each algorithm users send sufficient statistics; the
// form holds the differences.
type family struct {
	about algorithm.About
	form  settings.Form
}

func (f *family) About() *algorithm.About { return &f.about }

func (f *family) FormOf() *settings.Form { return &f.form }

// Register registers an algorithm of the family, with all fields of About that follow from the form
// left out.
func Register(about algorithm.About, form settings.Form) {
	f := &family{about, form}
	f.complete()
	algorithm.MustRegister(f)
}

// complete adds the fields that all algorithms of the package share.
func (f *family) complete() {
	a := &f.about
	a.Clients, a.Noise, a.Private, a.ByUser = algorithm.Users, algorithm.DistributedNoise, true, true
	a.Units, a.Relation = []dp.Unit{dp.User}, dp.ZeroOut
	a.OtherUnit = "a user of " + a.Name + " fits u_i to all its ratings, and multiplies every row that it contributes to by it, so one rating moves all of them; " +
		"the guarantee for a rating is no better than the stated one for a user (theorem 1 of the am-ssp paper takes u_i as given)"
	x := &f.form
	x.Name, x.Features = a.Name, a.Features != algorithm.NoFeatures
	x.Ranks, x.LearnsItems = !x.OnScale, len(x.Solvers) > 0
	a.Keys = f.keys()
	a.Rank = func(c config.Config, facts *config.Facts) config.Number {
		return settings.Of(c).Decided(facts).RankOf(facts)
	}
	a.Rounds = func(c config.Config, facts *config.Facts) config.Number {
		return config.Fixed(settings.Of(c).Decided(facts).OuterSteps(facts))
	}
	a.Donors = func(c config.Config) bool { return settings.Of(c).TakesDonors() }
	a.Sums = func(c config.Config) int { return settings.Of(c).Sums() }
	a.CheckFeedback = func(c config.Config) string {
		if !x.Ranks && settings.Of(c).Implicit() {
			return fmt.Sprintf("%s is about ratings on a scale; it takes explicit feedback", a.Name)
		}
		return ""
	}
}

// keys returns the keys of every run with clients, and the keys of the algorithm's stages and
// solvers.
func (f *family) keys() []*config.Key {
	list := slices.Concat(algorithm.Federated(), []*config.Key{algorithm.NoiseDraw.Key})
	own := slices.Concat(settings.WeighingKeys(), []*config.Key{settings.Keys.OrderWeight.Key})
	if f.about.Features != algorithm.NoFeatures {
		list = append(list, algorithm.FeatureSpec.Key)
		own = append(own, settings.Keys.UserFeatureWeight.Key)
	}
	if f.form.Starts {
		list, own = append(list, algorithm.StartFrom.Key), append(own, settings.Keys.StartDecay.Key)
	}
	if f.form.LearnsItems {
		list = append(list, algorithm.Rounds.Key, algorithm.Rank.Key)
	}
	if f.form.Ranks {
		list = append(list, algorithm.Feedback.Key, algorithm.Positive.Key, algorithm.SplitLeast.Key, algorithm.SplitTarget.Key, algorithm.SplitUsers.Key)
	}
	if f.form.LearnsItems && f.form.Ranks {
		own = append(own, settings.Keys.Learn.Key, settings.Keys.Unobserved.Key)
	}
	for _, x := range stage.All {
		if f.form.LearnsItems || x != stage.Stage(stage.Statistics{}) {
			own = append(own, x.Keys()...)
		}
	}
	for _, x := range f.form.Solvers {
		own = append(own, x.(solver.Solver).Keys()...)
	}
	return append(list, slices.DeleteFunc(config.Keys(), func(k *config.Key) bool { return !slices.Contains(own, k) })...)
}

// paramsOf returns the public settings of the algorithm, with nothing left open.
func paramsOf(setup *algorithm.Setup) kernel.Params {
	c := setup.Config
	s := settings.Of(c)
	p := kernel.Params{
		Items: setup.Data.Items, Rank: int(algorithm.Rank.Or(c, s.Rank())), Min: setup.Bottom(), Max: setup.Top(),
		Feedback: kernel.Feedback(algorithm.Feedback.Chosen(c)), Features: setup.Features, Seed: algorithm.Seed.Of(c),
		WeighingParams: s.Weighing(), UserParams: s.User(setup.Features), OrderWeight: s.OrderWeight(), OfStages: map[string]float64{},
	}
	p.Solver = solver.ALS // never asked without embeddings
	if x := s.Solver(); x != nil {
		p.Solver = x
	}
	for _, x := range stage.All {
		x.Read(&p, s)
	}
	p.TopItems = s.TopItems(p.Items)
	p.ByWeights = p.TopItems > 0 && settings.Keys.ChooseBy.Is(c, settings.ByWeights)
	if !s.Items() { // biases get the whole budget, and nothing else is fitted
		p.Rank, p.Rounds, p.SamplingRate = 1, 0, 1
		p.Gramian, p.ClipUser, p.ClipRating, p.UserRidge, p.ItemPrior, p.StartSpread = kernel.One, 1, 1, 1, 1, 1
		p.Split.Bias, p.Resample = 1-p.Split.Counts-p.Split.Mean, 1
		if s.Popular() {
			p.Solver, p.Unobserved, p.Split.Bias, p.Split.WeightCounts = solver.ALS, 1, 0, 0.5 // none of these settings is used
		}
	}
	return p
}

// FitCost follows Proposition 2 and (9) of the am-ssp paper. The statistics are taken once for each
// sum. DP-SGD has as many batches in an epoch as gradient steps that cover all items once. Solvers
// that sum gradients have nothing to compare.
func (x *instance) FitCost() (*algorithm.FitCost, error) {
	p := &x.params
	if !p.Encodes() || p.Solver.Traits().FirstOrder || x.setup.Public() || x.setup.Ratings.Len() == 0 {
		return nil, nil
	}
	e, err := p.NewEncoder()
	if err != nil {
		return nil, err
	}
	counts := make([]float64, p.Items)
	x.setup.Ratings.Each(func(_, j int32, _ float32) { counts[j]++ })
	c := &algorithm.FitCost{Batch: p.Items, Pass: e.PassCost()}
	if p.Encoder.Batch > 0 {
		c.Batch = min(p.Encoder.Batch, p.Items)
	}
	batches := math.Ceil(float64(p.Items) / float64(c.Batch))
	c.Epochs = float64(p.Rounds*p.Encoder.Steps) / batches
	ratings := float64(x.setup.Ratings.Len())
	taken := float64(p.Rounds * p.Resample) // times that a rating is in the statistics
	if p.Batched() {
		taken *= p.SamplingRate
	}
	cost := encoder.Cost{Examples: ratings * taken, Items: float64(p.Items), Rank: float64(p.Rank), Pass: c.Pass, Epochs: c.Epochs,
		Visits: encoder.Visits(counts, ratings/batches)}
	c.Visits, c.Ratio = cost.Visits/float64(p.Items), cost.Ratio()
	return c, nil
}
