// Package tune searches the settings of an algorithm by the validation part of a split: by plain
// search, or by private selection, whose ε covers the search.
package tune

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distmv"
	"gonum.org/v1/gonum/stat/samplemv"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/dp/noise"
	"github.com/fedsim/fedsim/entropy"
	"github.com/fedsim/fedsim/eval"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/training"
	"github.com/fedsim/fedsim/lab/internal/observe"
	"github.com/fedsim/fedsim/model"
)

// Search describes a search.
type Search struct {
	Settings []config.Setting // of every run
	Space    Space
	Trials   int  // candidates
	Even     bool // candidates cover the space evenly
	// Private selects privately. Runs is then the mean number of runs, and Eta the parameter of their law.
	Private   bool
	Runs, Eta float64
	// Total, if positive, bounds the ε of a private search: the ε of one run is found by it, and the epsilon of Settings counts for nothing.
	Total float64
	// Told hears of each run, with its number; nil: it is told to none.
	Told func(number int, t Trial)

	first *measure // of the candidate that was opened first; empty before
}

// measure identifies a metric and the validation part that it is of. With private selection it has the digest of the start, too.
type measure struct {
	metric, data, split string
	start               [32]byte
}

// Trial is a run of the search.
type Trial struct {
	Candidate int              `json:"candidate"` // from 1
	Settings  []config.Setting `json:"settings"`
	Score     float64          `json:"score"` // validation metric, or with private selection its noisy counterpart
}

// SearchResult is the result of a search.
type SearchResult struct {
	Metric string `json:"metric"` // of scores
	Best   Trial  `json:"best"`
	// Trials holds all runs. With private selection they must not be released, nor their number.
	Trials []Trial `json:"trials"`
	// Epsilon covers a private search at Delta; 0 without private selection. Each is the ε of one run.
	Epsilon float64 `json:"epsilon,omitempty"`
	Delta   float64 `json:"delta,omitempty"`
	Each    float64 `json:"epsilon_of_one_run,omitempty"`

	// Final holds the settings of the run that won, with the record of the search. Repeated, it gives the same model.
	Final []config.Setting `json:"-"`

	winner string // fingerprint of the run that won
}

// Run searches. It never measures on the test.
func (s Search) Run(ctx context.Context) (*SearchResult, error) {
	c, err := s.resolve()
	if err != nil {
		return nil, err
	}
	if algorithm.SplitValidation.Value(c) == 0 {
		return nil, config.Errorf("split.validation: nothing is left to choose by; add --set split.validation=0.1")
	}
	if data := algorithm.Data.Of(c); read.Once(data) {
		return nil, config.Errorf("data: %s: a pipe or standard input can be read once, and a search reads the data in every run; save it to a file", data)
	}
	candidates := s.Space.Candidates(s.Trials, s.Even, algorithm.Seed.Of(c))
	out := new(SearchResult)
	s.first = new(measure)
	if !s.Private {
		for i := range candidates {
			if err = s.try(ctx, out, candidates, i, i+1, nil, nil); err != nil {
				return nil, err
			}
		}
		out.Final = append(out.Final, chosenWith(&dp.Search{Candidates: len(candidates)}))
		return out, nil
	}
	return out, s.privately(ctx, candidates, out)
}

// resolve checks the settings that all candidates have. A key that is searched over has no value besides.
func (s Search) resolve() (config.Config, error) {
	for _, d := range s.Space {
		for _, x := range s.Settings {
			if x.Key == d.key.Name {
				return config.Config{}, config.Wrap(config.Twice(x, config.Setting{Key: x.Key, Value: d.text, Origin: "--over"}))
			}
		}
	}
	return config.Resolve(s.Settings)
}

// try runs a candidate and keeps it if it is the best. Its score has the noise of a cost; none where that is nil.
func (s Search) try(ctx context.Context, out *SearchResult, candidates [][]config.Setting, i, number int, cost *Cost, bits *noise.Bits) error {
	settings := s.of(candidates[i], number)
	e, err := s.open(ctx, settings)
	if err != nil {
		return fmt.Errorf("candidate %d: %w", i+1, err)
	}
	out.Metric = s.first.metric
	winner := e.Fingerprint()
	r, err := training.Run(ctx, onValidation(e), nil)
	if err != nil {
		return fmt.Errorf("candidate %d: %w", i+1, err)
	}
	t := Trial{Candidate: i + 1, Settings: candidates[i], Score: r.PrimaryMetric()}
	if cost != nil {
		if t.Score, err = cost.judge(e, r.Model, bits); err != nil {
			return err
		}
	}
	if s.Told != nil {
		s.Told(number, t)
	}
	first := len(out.Trials) == 0
	if out.Trials = append(out.Trials, t); first || better(out.Metric, t.Score, out.Best.Score) {
		out.Best, out.Final, out.winner = t, settings, winner
	}
	return nil
}

// better reports whether score a is better than b. No number is worse than any.
func better(metric string, a, b float64) bool {
	if metric == "rmse" {
		a, b = -a, -b
	}
	return a > b || math.IsNaN(b) && !math.IsNaN(a)
}

// of returns the settings of a run. All runs have the split of the first; each private run has noise of its own.
func (s Search) of(candidate []config.Setting, number int) []config.Setting {
	c, _ := config.Resolve(s.Settings)            // Run has checked them
	list, _ := config.Over(s.Settings, candidate) // of ε alone, which [Search.solve] refuses
	if s.Private {
		list, _ = config.Over(list, []config.Setting{
			{Key: algorithm.SplitSeed.Name, Value: fmt.Sprint(algorithm.SplitSeedOf(c))}, {Key: algorithm.Seed.Name, Value: fmt.Sprint(algorithm.Seed.Of(c) + uint64(number))},
		})
	}
	return list
}

func (s Search) open(ctx context.Context, settings []config.Setting) (*experiment.Experiment, error) {
	c, err := config.Resolve(settings)
	if err != nil {
		return nil, err
	}
	if slices.Contains(algorithm.Of(c).About().Used(), algorithm.Baselines.Key) {
		algorithm.Baselines.Set(&c, "quick")
	}
	e, err := experiment.Open(ctx, c, nil)
	if err != nil {
		return nil, err
	}
	return e, s.compare(e)
}

// compare refuses a candidate that is not measured as the first one is. Its score would be another quantity, and ε of a private search
// would leave out who is public for this candidate alone, and what the run that it starts from released.
func (s Search) compare(e *experiment.Experiment) error {
	m := measure{metric: "rmse", data: e.Data.Digest, split: e.Split.Digest}
	if algorithm.Ranks(e.Config) {
		m.metric = "recall@20"
	}
	if s.Private && e.Start != nil {
		m.start = e.Start.Digest
	}
	if *s.first == (measure{}) {
		*s.first = m
	}
	switch {
	case m == *s.first:
		return nil
	case m.start != s.first.start:
		return config.Errorf("start-from: a private search has candidates that start from another run than the first, and its ε would leave that run out; search from one run")
	case m.metric != s.first.metric:
		return config.Errorf("a search compares runs by one metric: this candidate is measured by %s, and the first by %s; search over algorithms that all predict ratings, or that all rank items", m.metric, s.first.metric)
	default:
		return config.Errorf("a search compares runs on one validation part, and this candidate has other data or another split than the first; " +
			"search over settings of the training alone, and over seeds with one split: --set split.seed=1")
	}
}

// onValidation puts the validation part in the place of the test.
func onValidation(e *experiment.Experiment) *experiment.Experiment {
	e.Test.Rows, e.Test.Validation = e.Test.Validation, nil
	if e.Held != nil {
		held := *e.Held
		held.Test = held.Validation
		e.Test.Held = &held
	}
	return e
}

// judge scores a model by a sum over users with noise, so that a score is a release like any other. A user
// adds a number from 0 to most: the mean squared error of its validation ratings, clipped, or the recall
// of its list. A user that is replaced by an empty record adds 0, so the sum moves by at most most.
//
// The score is the root of the noisy mean squared error, or the noisy mean recall. It divides by numbers
// that do not depend on ratings: by the number of users.
func (c *Cost) judge(e *experiment.Experiment, m *model.Trained, bits *noise.Bits) (float64, error) {
	sum, most := sumOf(e, m)
	noisy, err := c.Score(sum, most, bits)
	if err != nil {
		return 0, err
	}
	mean := noisy / float64(e.Data.Users)
	if e.Held == nil {
		mean = math.Copysign(math.Sqrt(math.Abs(mean)), mean) // in the order of the mean
	}
	return mean, nil
}

// sumOf returns the sum over users without noise, and the most that one user adds to it.
func sumOf(e *experiment.Experiment, m *model.Trained) (sum, most float64) {
	if e.Held != nil {
		recall, _, err := eval.ListMetric("recall@20")
		if err != nil {
			panic(err) // the metric is a constant
		}
		e.Test.EachList(m, eval.ListParams{Cutoffs: []int{20}}, e.Workers(), func(_ int, wanted, list []int32) { sum += recall(wanted, list) })
		return sum, 1
	}
	half := (e.Data.Max - e.Data.Min) / 2
	most = half * half
	for u := range e.Data.Users {
		e.Test.Rows.Lend(u, func(items []int32, values []float32) {
			if len(items) > 0 {
				mse := observe.MSE(m, u, model.Ratings{Items: items, Values: values})
				if !(mse <= most) { // a model that diverged, too
					mse = most
				}
				sum += mse
			}
		})
	}
	return sum, most
}

// dimension is a key that is searched over: a range, or words.
type dimension struct {
	key       *config.Key
	text      string // its values, as they were given
	low, high float64
	log       bool // draws are uniform in the logarithm
	words     []string
}

// Space holds the keys that are searched over.
type Space []dimension

// ParseSpace reads texts such as rank=2..20, ials.ridge=log:0.001..0.1 and clipping=embedding,both.
func ParseSpace(texts []string) (Space, error) {
	var s Space
	for _, text := range texts {
		d, err := parseDimension(text)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(s, func(other dimension) bool { return other.key == d.key }) {
			return nil, config.Errorf("--over %s: %s is searched over twice", text, d.key.Name)
		}
		s = append(s, d)
	}
	if len(s) == 0 {
		return nil, config.Errorf("nothing is searched over; say --over KEY=LOW..HIGH or --over KEY=A,B,C")
	}
	return s, nil
}

func parseDimension(text string) (dimension, error) {
	name, values, _ := strings.Cut(text, "=")
	d := dimension{key: config.Find(name), text: values}
	if d.key == nil {
		return d, config.Errorf("--over %s: unknown key %q; %s", text, name, config.Near(name))
	}
	ranged, log := strings.CutPrefix(values, "log:")
	low, high, isRange := strings.Cut(ranged, "..")
	if !isRange {
		if d.words = strings.Split(values, ","); len(d.words) < 2 {
			return d, config.Errorf("--over %s: one value is no choice; give LOW..HIGH, log:LOW..HIGH or A,B,C", text)
		}
		return d, nil
	}
	var err, err2 error
	d.low, err = strconv.ParseFloat(low, 64)
	d.high, err2 = strconv.ParseFloat(high, 64)
	d.log = log
	if err != nil || err2 != nil || !(d.low < d.high) || math.IsInf(d.high-d.low, 0) || log && d.low <= 0 {
		return d, config.Errorf("--over %s: a range is of two numbers, the smaller first, and above 0 with log:", text)
	}
	return d, nil
}

// at returns the value for a uniform u of [0, 1).
func (d dimension) at(u float64) string {
	if d.words != nil {
		return d.words[int(u*float64(len(d.words)))]
	}
	if d.key.Kind == config.Whole {
		if d.log {
			return strconv.FormatFloat(min(d.high, math.Floor(math.Exp(math.Log(d.low)+u*(math.Log(d.high+1)-math.Log(d.low))))), 'f', -1, 64)
		}
		return strconv.FormatFloat(d.low+math.Floor(u*(d.high-d.low+1)), 'f', -1, 64)
	}
	x := d.low + u*(d.high-d.low)
	if d.log {
		x = math.Exp(math.Log(d.low) + u*(math.Log(d.high)-math.Log(d.low)))
	}
	return strconv.FormatFloat(x, 'g', 6, 64)
}

// Candidates returns n settings. They are drawn at random, or cover the space evenly (Halton's sequence, scrambled
// as Owen does). They follow from the seed alone, and are public.
func (s Space) Candidates(n int, even bool, seed uint64) [][]config.Setting {
	rng := entropy.Public(seed, "tune/candidates")
	points := mat.NewDense(n, len(s), nil)
	if even {
		samplemv.Halton{Kind: samplemv.Owen, Q: distmv.NewUnitUniform(len(s), nil), Src: rng}.Sample(points)
	} else {
		points.Apply(func(int, int, float64) float64 { return rng.Float64() }, points)
	}
	list := make([][]config.Setting, n)
	for i := range list {
		for k, d := range s {
			u := min(points.At(i, k), math.Nextafter(1, 0))
			list[i] = append(list[i], config.Setting{Key: d.key.Name, Value: d.at(u), Origin: fmt.Sprintf("candidate %d", i+1)})
		}
	}
	return list
}

// chosenWith returns the setting that says which search chose the others.
func chosenWith(s *dp.Search) config.Setting {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // a record has finite numbers alone
	}
	return config.Setting{Key: algorithm.ChosenBy.Name, Value: string(text), Origin: "the search"}
}
