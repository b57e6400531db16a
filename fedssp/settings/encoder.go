package settings

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
	"github.com/fedsim/fedsim/fedssp/encoder"
	"github.com/fedsim/fedsim/fedssp/kernel"
)

// declareEncoder declares the keys of the public encoder of items: see [encoder.Settings].
func declareEncoder() {
	Keys.dim = config.DeclareNumber(config.Key{
		Name: "encoder.dim", Kind: config.Whole, Default: "0", Range: config.AtLeast(0), When: encoded.When(), Help: "Length of a feature's embedding; 0 is the rank.", Check: checkDim,
	})
	Keys.dense = Word("encoder.dense", []string{yes, no}, encoded, "no; yes of am-ssp and the steps that are compared with it, as published", "Whether a dense layer is laid on the embeddings: it costs more to learn through noise than it gives.",
		func(s Settings, _ *config.Facts) string { return yesIf(s.form().Dense) })
	Keys.ids = Word("encoder.ids", []string{yes, no}, encoded, "yes; no where little can be learned, and of am-ssp and the steps that are compared with it, as published", "Whether an item has an embedding of its own besides its features' embeddings.",
		func(s Settings, f *config.Facts) string {
			if s.form().Dense {
				return no
			}
			if f == nil {
				return "auto"
			}
			return yesIf(!s.nearStart(f))
		})
	Keys.startNorm = Number("encoder.start-norm", config.Above(0, 1e9), encoded, "0.3; 2 where little can be learned; 0.1 where gradients by the encoder are summed", "Typical norm of an item at the start.",
		ByFacts(func(s Settings, f *config.Facts) float64 {
			return cmp.Or(s.defaults().StartNorm, Either(s.nearStart(f), 2, 0.3))
		}))
	Keys.Optimiser = Word("encoder.optimiser", []string{exact, string(encoder.Adam), string(encoder.SGD)}, func(s Settings) bool { return s.encodes() || s.pooled() },
		"exact of ssp-c, adam of the others", "How the encoder is fitted: exact solves for its best parameters.", func(s Settings, _ *config.Facts) string {
			switch {
			case s.pooled():
				return exact
			case s.encodes():
				return string(encoder.Adam)
			default:
				return "auto"
			}
		})
	Keys.Optimiser.Check = checkOptimiser
	Keys.rate = Number("encoder.rate", config.Positive(), encoded, "0.3/√encoder.steps; 0.001 where little can be learned; 0.01 where gradients by the encoder are summed", "Learning rate of the encoder.",
		ByFacts(func(s Settings, f *config.Facts) float64 { // fewer steps are longer
			return cmp.Or(s.defaults().EncoderRate, Either(s.nearStart(f), 0.001, 0.3/math.Sqrt(s.encoderSteps())))
		}))
	Keys.steps = count("encoder.steps", config.Between(1, 1e6), inPasses, "100; 10 of ssp-i", "Gradient steps of a round.", Always(Settings.encoderSteps))
	Keys.batch = config.DeclareNumber(config.Key{
		Name: "encoder.batch", Kind: config.Whole, Default: "0", Range: config.AtLeast(0), When: inPasses.When(), Help: "Most items of a gradient step; 0 takes all.",
	})
}

func checkDim(c config.Config) string {
	s := Of(c)
	rank := int(algorithm.Rank.Or(c, s.Rank()))
	if dim := Keys.dim.Int(c); dim > 0 && Keys.dense.Chosen(c) == no && dim != rank {
		return fmt.Sprintf("%d is not the rank %d: embeddings of features are added up where encoder.dense is no", dim, rank)
	}
	return ""
}

func checkOptimiser(c config.Config) string {
	f := Of(c).form()
	if !Keys.Optimiser.Is(c, exact) || f.Name == "" {
		return ""
	}
	switch {
	case !f.Offers(learns):
		return fmt.Sprintf("%s is for %s", exact, listed(pooledNames()))
	case Keys.Gramian.Is(c, string(kernel.PerItem)) && !Of(c).Variational():
		return fmt.Sprintf("%s takes statistics.gramian: %s", exact, kernel.One)
	case Keys.Resample.Or(c, 1) > 1:
		return fmt.Sprintf("%s solves for a round's statistics once; statistics.resample must be 1", exact)
	default:
		return ""
	}
}

func learns(x kernel.Traits) bool { return x.Learns }

// listed joins words as a sentence lists them.
func listed(words []string) string {
	if n := len(words) - 1; n > 0 {
		return strings.Join(words[:n], ", ") + " and " + words[n]
	}
	return strings.Join(words, "")
}

// pooledNames lists the algorithms whose encoder may be solved for.
func pooledNames() []string {
	var names []string
	for _, a := range algorithm.All() {
		if f, ok := a.(formed); ok && f.FormOf().Offers(learns) {
			names = append(names, f.FormOf().Name)
		}
	}
	return names
}

// EncoderOf returns the settings of the encoder in a configuration in which nothing is open.
func EncoderOf(c config.Config) encoder.Settings {
	return encoder.Settings{
		Dim: Keys.dim.Int(c), Dense: Keys.dense.Chosen(c) == yes, IDs: Keys.ids.Is(c, yes), StartNorm: Keys.startNorm.Value(c),
		Optimiser: encoder.Optimiser(Keys.Optimiser.Of(c)), Rate: Keys.rate.Value(c), Decay: encoder.Cosine, Steps: Keys.steps.Int(c),
		Batch: Keys.batch.Int(c),
	}
}

// EncoderKeys lists the keys of every encoder.
func EncoderKeys() []*config.Key {
	return []*config.Key{Keys.dim.Key, Keys.dense.Key, Keys.ids.Key, Keys.startNorm.Key, Keys.Optimiser.Key, Keys.rate.Key}
}

// PassKeys lists the keys of an encoder that takes gradient steps on statistics.
func PassKeys() []*config.Key {
	return []*config.Key{Keys.steps.Key, Keys.batch.Key}
}
