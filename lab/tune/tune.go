package tune

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dp"
	"github.com/fedsim/fedsim/internal/experiment"
	"github.com/fedsim/fedsim/internal/training"
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
	candidates := s.Space.Candidates(s.Trials, s.Even, algorithm.Seed.Of(c))
	out := &SearchResult{Metric: "rmse"}
	if algorithm.Ranks(c) {
		out.Metric = "recall@20"
	}
	if !s.Private {
		for i := range candidates {
			if err = s.try(ctx, out, candidates, i, i+1, nil); err != nil {
				return nil, err
			}
		}
		out.Final = append(out.Final, algorithm.ChosenWith(&dp.Search{Candidates: len(candidates)}))
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

// try runs a candidate and keeps it if it is the best.
func (s Search) try(ctx context.Context, out *SearchResult, candidates [][]config.Setting, i, number int, j *judge) error {
	settings := s.of(candidates[i], number)
	e, err := s.open(ctx, settings)
	if err != nil {
		return fmt.Errorf("candidate %d: %w", i+1, err)
	}
	winner := e.Fingerprint()
	r, err := training.Run(ctx, onValidation(e), nil)
	if err != nil {
		return fmt.Errorf("candidate %d: %w", i+1, err)
	}
	t := Trial{Candidate: i + 1, Settings: candidates[i], Score: r.PrimaryMetric()}
	if j != nil {
		if t.Score, err = j.score(e, r.Model); err != nil {
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
	switch {
	case math.IsNaN(a) || math.IsNaN(b):
		return !math.IsNaN(a) && math.IsNaN(b)
	case metric == "rmse":
		return a < b
	default:
		return a > b
	}
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
	return experiment.Open(ctx, c, nil)
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
