package cond

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/fedsim/fedsim/algorithm"
	"github.com/fedsim/fedsim/config"
)

// The keys of regressions.
var (
	itemIDs, userBias, hidden                                     config.TextKey
	step, clip, floor, itemRidge, switchAt, userRidge, labelShare config.NumberKey
	rate, batch                                                   config.NumberKey
	keys, labelKeys, mlpKeys                                      []*config.Key
)

// Words.
const (
	yes = "yes"
	no  = "no"
)

func declareKeys() {
	step = config.DeclareNumber(config.Key{
		Name: "regression.step", Kind: config.Real, Default: "auto", Auto: "1", Range: config.Above(0, 10),
		Help:         "Learning rate of a regression, in the largest with which gradient descent converges in every direction, from the spectrum of the features.",
		ChooseNumber: func(config.Config, *config.Facts) config.Number { return config.Fixed(1) },
	})
	clip = config.DeclareNumber(config.Key{
		Name: "regression.clip", Kind: config.Real, Default: "auto", Auto: "a quarter of the scale's range, and less where noise is large", Range: config.Above(0, 1e9),
		Help: "Largest norm of what an example adds to a gradient, where features have the length 1 in quadratic mean: twice the largest error that is not clipped there.",
		ChooseNumber: func(c config.Config, f *config.Facts) config.Number {
			if f == nil {
				return config.Auto
			}
			return config.Fixed(chooseClip(c, f))
		},
	})
	floor = config.DeclareNumber(config.Key{
		Name: "regression.floor", Kind: config.Real, Default: "0.001", Range: config.Above(0, 1),
		Help: "Least singular value that conditioning inverts, as a part of the largest; those below count as that much.",
		When: conditions,
	})
	switchAt = config.DeclareNumber(config.Key{
		Name: "regression.switch", Kind: config.Real, Default: "0.5", Range: config.Inside(0, 1),
		Help: "Part of the rounds of switch-cond-dp after which conditioning ends.",
	})
	word := func(k config.Key) config.TextKey {
		k.Kind, k.Default, k.Words = config.Word, "auto", []string{yes, no}
		k.ChooseWord = func(_ config.Config, f *config.Facts) string {
			switch {
			case f == nil:
				return "auto"
			case f.Items > 1:
				return yes
			}
			return no
		}
		return config.DeclareText(k)
	}
	itemIDs = word(config.Key{
		Name: "regression.item-ids", Auto: "yes where there are several items", Help: "Whether which item it is, is a feature of an example.",
	})
	userBias = word(config.Key{
		Name: "regression.user-bias", Auto: "yes where there are several items", Help: "Whether each user has a bias besides, fitted to its own labels at the end; it stays with the user's party.",
	})
	userRidge = config.DeclareNumber(config.Key{
		Name: "regression.user-ridge", Kind: config.Real, Default: "5", Range: config.Between(0, 1e9),
		Help: "How many labels' worth of weight zero has in a user's bias.",
		When: func(c config.Config) bool { return !userBias.Is(c, no) },
	})
	itemRidge = config.DeclareNumber(config.Key{
		Name: "regression.item-ridge", Kind: config.Real, Default: "auto", Auto: "4, and more where there is noise, by how much", Range: config.Between(0, 1e9),
		Help:         "How many labels' worth of weight zero has in an item's own weight.",
		When:         func(c config.Config) bool { return !itemIDs.Is(c, no) },
		ChooseNumber: func(config.Config, *config.Facts) config.Number { return config.Auto },
	})
	labelShare = config.DeclareNumber(config.Key{
		Name: "regression.label-share", Kind: config.Real, Default: "0.5", Range: config.Inside(0, 1),
		Help: "Part of epsilon for the randomised labels of rr-dp-sgd; its start is fitted to these labels.",
	})
	rate = config.DeclareNumber(config.Key{
		Name: "regression.rate", Kind: config.Real, Default: "auto", Auto: "0.003; 0.001 without noise", Range: config.Above(0, 1),
		Help: "Learning rate of Adam, which trains embeddings and a perceptron.",
		ChooseNumber: func(c config.Config, _ *config.Facts) config.Number {
			if algorithm.Private(c) {
				return config.Fixed(0.003)
			}
			return config.Fixed(0.001)
		},
	})
	batch = config.DeclareNumber(config.Key{
		Name: "regression.batch", Kind: config.Real, Default: "4096", Range: config.Above(0, 1e9),
		Help: "Examples that a step's sample has in the mean; each is in it by a coin of its own. All are where there are no more.",
	})
	hidden = config.DeclareText(config.Key{
		Name: "regression.hidden", Kind: config.Text, Default: "64-32",
		Help: "Units of the two hidden layers of a perceptron.",
		Check: func(c config.Config) string {
			if text := hidden.Of(c); hiddenOf(text) == [2]int{} {
				return fmt.Sprintf("%q does not name two layers, such as 64-32, of 1 to 4096 units each", text)
			}
			return ""
		},
	})
	mlpKeys = []*config.Key{algorithm.Rounds.Key, algorithm.Rank.Key, clip.Key, rate.Key, batch.Key, hidden.Key}
	labelKeys = []*config.Key{algorithm.FeatureSpec.Key, itemIDs.Key, itemRidge.Key, userBias.Key, userRidge.Key}
	keys = slices.Concat(algorithm.Federated(), []*config.Key{
		algorithm.Rounds.Key, algorithm.Parties.Key, algorithm.NoiseDraw.Key, algorithm.FeatureSpec.Key,
		step.Key, clip.Key, itemIDs.Key, itemRidge.Key, userBias.Key, userRidge.Key,
	})
}

// chooseClip returns a clip of twice an eighth of the range (the deviation of labels), or less
// with noise. With ν the noise of predictions at a clip of 1, it is 0.14/√ν eighths. For a large ν
// it is better to learn from the signs of errors than to drown their size. (Fitted to validation
// errors at ε of 0.25 to 4 of synthetic:regression-1, synthetic:fields, synthetic:ml-1m and
// ml-latest-small, whose best clips were 0.3 to 2.7 of an eighth.)
func chooseClip(c config.Config, f *config.Facts) float64 {
	deviation := (f.Max - f.Min) / 8
	e := algorithm.Epsilon.Chosen(c)
	if math.IsInf(e, 1) {
		return 4 * deviation
	}
	if of, ok := algorithm.Of(c).(*family); ok && of.perceptron {
		return deviation / 2
	}
	n := float64(max(f.Examples, f.Published, f.Users))
	directions := 1 + float64(f.Columns)
	if f.Items > 1 { // a direction with few labels hardly counts: see settle
		directions += min(float64(f.Items), n/50)
	}
	const mu = 5 // ε is about that many times the μ of Gaussian privacy at the usual δ
	noise := math.Sqrt2 * directions * mu / (n * e)
	return deviation * min(2, 0.14/math.Sqrt(noise))
}

// hiddenOf returns the units of "64-32"; zeros if the text has another form.
func hiddenOf(text string) [2]int {
	one, two, _ := strings.Cut(text, "-")
	h := [2]int{}
	for k, part := range []string{one, two} {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 || n > 4096 {
			return [2]int{}
		}
		h[k] = n
	}
	return h
}

// conditions reports whether features are conditioned.
func conditions(c config.Config) bool {
	f, ok := algorithm.Of(c).(*family)
	return ok && f.conditioned
}
