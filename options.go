package fedsim

import (
	"slices"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/dataset/read"
	"github.com/fedsim/fedsim/results"
)

// Rating is a user's rating of an item: two ids, the stars, and the time if it is known.
type Rating = read.Rating

// Options say what is run. The settings that most programs need are fields; every setting can be given by its
// key in Settings. A setting that is given both ways is an error.
type Options struct {
	// Algorithm is the name of an algorithm ([Algorithms]); "": the default.
	Algorithm string
	// Own runs in place of an algorithm that is known by its name; nil: none.
	Own algorithm.Algorithm
	// Epsilon is the privacy budget of the whole run, above 0; 0: the default; math.Inf(1): no noise.
	Epsilon float64
	// Delta is the δ of the guarantee, between 0 and 1; 0: the default.
	Delta float64
	// Seed determines all random numbers of the run; 0 stands for the default, 1.
	Seed uint64
	// RatingMin and RatingMax are the rating scale, in stars. Both 0: the scale of the data, or of Settings.
	RatingMin, RatingMax float64

	// Settings are keys and values as in an experiment file; docs/reference/configuration.md lists them. A key that is not
	// given has its default.
	Settings map[string]string
	// Ratings are trained on in place of the data that the settings name. They need a rating scale.
	Ratings []Rating

	// Keep writes the run's folder below the setting out.
	Keep bool
	// Predictions adds to a kept folder what the model predicts of the test ratings.
	Predictions bool
	// Resume continues an interrupted run from its checkpoint, to the same bits. A run without a checkpoint
	// starts at the first round. A kept run writes checkpoints as hidden files beside its folder, and removes them
	// at the end. Own must be registered: a checkpoint knows an algorithm by its name.
	Resume bool
	// Progress hears how far the run is; nil: no reports.
	Progress results.Progress
}

// config resolves the settings.
func (o Options) config() (config.Config, error) {
	var c config.Config
	typed := o.apply(&c)
	if o.Own != nil {
		if o.Algorithm != "" {
			return c, config.Errorf("Options.Algorithm and Options.Own: give one of them")
		}
		if o.Resume && !slices.Contains(Algorithms(), o.Own.About().Name) {
			return c, config.Errorf("Options.Resume: a checkpoint knows the algorithm by its name; register %q to resume its runs", o.Own.About().Name)
		}
		if err := algorithm.Use(&c, o.Own); err != nil {
			return c, config.Wrap(err)
		}
		typed = append(typed, algorithm.Name.Key)
	}
	for _, k := range typed {
		if _, twice := o.Settings[k.Name]; twice {
			return c, config.Errorf("%s: it is a field of Options and a key of Options.Settings; give one of them", k.Name)
		}
	}
	return c.WithMap(o.Settings)
}

// apply sets the keys of the fields that were given, and returns these keys.
func (o Options) apply(c *config.Config) []*config.Key {
	var given []*config.Key
	number := func(k config.NumberKey, v float64) {
		k.Set(c, v)
		given = append(given, k.Key)
	}
	if o.Algorithm != "" {
		algorithm.Name.Set(c, o.Algorithm)
		given = append(given, algorithm.Name.Key)
	}
	if o.Epsilon != 0 {
		number(algorithm.Epsilon, o.Epsilon)
	}
	if o.Delta != 0 {
		number(algorithm.Delta, o.Delta)
	}
	if o.Seed != 0 {
		algorithm.Seed.Set(c, o.Seed)
		given = append(given, algorithm.Seed.Key)
	}
	if o.RatingMin != 0 || o.RatingMax != 0 {
		number(algorithm.RatingMin, o.RatingMin)
		number(algorithm.RatingMax, o.RatingMax)
	}
	return given
}
